"""How much the elements of two tensors differ: the largest difference and the cosine, computed piece by piece, without torch.

NumPy computes them if it is installed, many times as fast as Python.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from operator import mul, sub
from typing import Any, Final, NamedTuple

import msgspec

from graphwire.analysis.canonical import PayloadRecord
from graphwire.analysis.neutral import row_major_parts
from graphwire.schema import ITEM_SIZES, Layout, PayloadMeta

_PIECE: Final = 1 << 18
"""The number of elements that are compared at once."""

_OF_CODES: Final = {
    "B": "bool uint8",
    "b": "int8",
    "H": "uint16",
    "h": "int16",
    "I": "uint32",
    "i": "int32",
    "Q": "uint64",
    "q": "int64",
    "e": "float16 complex32 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz",
    "f": "float32 complex64 bfloat16 float8_e8m0fnu",
    "d": "float64 complex128",
}
_CODES: Final = {name: code for code, names in _OF_CODES.items() for name in names.split()}
"""The numbers, as `struct` has them, that the elements of each type are read as. Other types, such as packed ones, have none."""

_FLOAT8: Final = {
    "float8_e4m3fn": (3, 7),
    "float8_e4m3fnuz": (3, 8),
    "float8_e5m2": (2, 15),
    "float8_e5m2fnuz": (2, 16),
}
"""The number of bits of the mantissa, and the bias of the exponent."""


class ElementChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """How much the elements of a weight differ between two programs."""

    max_abs: float | None = None
    """The largest absolute difference. None if elements were not read, cannot be compared one by one (other shapes, types
    without numbers), or differ by no finite number."""
    cosine: float | None = None
    """The cosine of the angle between both; None in these cases, too, and if one of both is zero."""


def element_change(
    a: PayloadMeta, record_a: PayloadRecord, b: PayloadMeta, record_b: PayloadRecord
) -> ElementChange | None:
    """Return how much two tensors differ; None if they have the same type and the same bits.

    Args:
        a: the tensor on side A. Its record is long enough for it.
        record_a: its storage.
        b: the tensor on side B.
        record_b: its storage.
    """
    sides = _paired(a, record_a, b, record_b)
    if sides is None:
        return ElementChange()
    (type_a, pieces_a), (type_b, pieces_b) = sides
    measured = _numpy_sums if find_spec("numpy") is not None else _plain_sums
    is_complex = type_a.startswith("complex")
    equal, known = type_a == type_b, _CODES.keys() >= {type_a, type_b}
    largest, sums = 0.0, [0.0, 0.0, 0.0]
    for one, other in zip(pieces_a, pieces_b, strict=True):
        equal = equal and one == other
        found = measured(*_numbers(type_a, one), *_numbers(type_b, other), is_complex) if known else None
        if found is not None:
            largest = max(largest, found.largest)
            sums = [each + more for each, more in zip(sums, found[1:], strict=True)]
        elif not equal:
            return ElementChange()
    if equal:
        return None
    product, squares_a, squares_b = sums
    scale = math.sqrt(squares_a) * math.sqrt(squares_b)
    has_angle = scale > 0 and math.isfinite(scale) and math.isfinite(product)
    return ElementChange(
        largest if math.isfinite(largest) else None,
        max(-1.0, min(1.0, product / scale)) if has_angle else None,
    )


# ------------------------------------------------------------------------------------------------------------ pieces


def _paired(
    a: PayloadMeta, record_a: PayloadRecord, b: PayloadMeta, record_b: PayloadRecord
) -> list[tuple[str, Iterator[bytes]]] | None:
    """Return the type and the elements of both, in pieces of equal numbers; None if they are not comparable one by one."""
    tensors = a.tensor_meta, b.tensor_meta
    dimensions: list[list[tuple[int, int]]] = []
    for tensor in tensors:
        if tensor is None or tensor.layout is not Layout.Strided or tensor.dtype_text not in ITEM_SIZES:
            return None
        pairs = zip(tensor.sizes, tensor.strides, strict=True)
        dimensions.append([(size.as_int or 0, stride.as_int or 0) for size, stride in pairs])
    one, other = tensors
    assert one is not None
    assert other is not None
    sizes_a, sizes_b = ([size for size, _ in each] for each in dimensions)
    is_complex = [each.dtype_text.startswith("complex") for each in (one, other)]
    if sizes_a != sizes_b or (a.conj, a.neg) != (b.conj, b.neg) or is_complex[0] != is_complex[1]:
        return None
    # What is expanded alike on both sides is the same number of times in every sum.
    kept = [index for index, pair in enumerate(zip(*dimensions, strict=True)) if pair[0][1] or pair[1][1]]
    count = math.prod(sizes_a[index] for index in kept)
    records = record_a.view(), record_b.view()
    if all(
        count * ITEM_SIZES[each.dtype_text] > record.nbytes
        for each, record in zip((one, other), records, strict=True)
    ):  # overlapping strides can describe more elements than anyone could read
        return None
    return [
        (each.dtype_text, _pieces(row_major_parts(
            record, ITEM_SIZES[each.dtype_text], [held[index] for index in kept], each.storage_offset.as_int or 0
        ), _PIECE * ITEM_SIZES[each.dtype_text]))
        for each, record, held in zip((one, other), records, dimensions, strict=True)
    ]  # fmt: skip


def _pieces(parts: Iterable[memoryview | bytes], nbytes: int) -> Iterator[bytes]:
    """Yield the bytes of parts in pieces of equal length; the last one may be shorter."""
    held = bytearray()
    for part in parts:
        view = memoryview(part)
        while view.nbytes:
            taken = view[: nbytes - len(held)]
            held += taken
            view = view[taken.nbytes :]
            if len(held) == nbytes:
                yield bytes(held)
                held.clear()
    if held:
        yield bytes(held)


# ----------------------------------------------------------------------------------------------------------- numbers


def _numbers(dtype: str, piece: bytes) -> tuple[str, bytes]:
    """Return elements as numbers that `struct` and NumPy know, and the code of these."""
    code = _CODES[dtype]
    if dtype == "bfloat16":  # the upper half of a float32
        wide = bytearray(2 * len(piece))
        wide[2::4], wide[3::4] = piece[::2], piece[1::2]
        return code, bytes(wide)
    if dtype.startswith("float8"):
        tables = _float8_bytes(dtype)
        wide = bytearray(len(tables) * len(piece))
        for index, table in enumerate(tables):
            wide[index :: len(tables)] = piece.translate(table)
        return code, bytes(wide)
    return code, piece


@cache
def _float8_bytes(dtype: str) -> list[bytes]:
    """Return for each byte of the wider number what it is for each of the 256 elements. Every element is such a number."""
    wide = [struct.pack(f"<{_CODES[dtype]}", _float8(dtype, bits)) for bits in range(256)]
    return [bytes(column) for column in zip(*wide, strict=True)]


def _float8(dtype: str, bits: int) -> float:
    """Return the value of an element of 8 bits, of which some types have no infinity, and some no negative zero."""
    if dtype == "float8_e8m0fnu":
        return math.nan if bits == 0xFF else math.ldexp(1.0, bits - 127)
    mantissa_bits, bias = _FLOAT8[dtype]
    exponent, mantissa = bits % 128 >> mantissa_bits, bits % (1 << mantissa_bits)
    if dtype.endswith("fnuz"):
        if bits == 0x80:
            return math.nan
    elif dtype == "float8_e4m3fn":
        if bits % 128 == 0x7F:
            return math.nan
    elif exponent == 0x1F:
        return math.nan if mantissa else math.copysign(math.inf, -(bits >> 7))
    if exponent:
        mantissa += 1 << mantissa_bits
    value = math.ldexp(float(mantissa), max(exponent, 1) - bias - mantissa_bits)
    return -value if bits >> 7 else value


# -------------------------------------------------------------------------------------------------------------- sums


class _Sums(NamedTuple):
    """What is computed of a piece."""

    largest: float
    """The largest absolute difference."""
    product: float
    """The scalar product of both."""
    squares_a: float
    squares_b: float


def _plain_sums(code_a: str, bytes_a: bytes, code_b: str, bytes_b: bytes, pairs: bool) -> _Sums | None:
    """Return the sums of a piece; None if a number is not finite and not the same on both sides.

    Args:
        pairs: whether two numbers each are one element.
    """
    a: Any = struct.unpack(f"<{len(bytes_a) // struct.calcsize(f'<{code_a}')}{code_a}", bytes_a)
    b: Any = struct.unpack(f"<{len(bytes_b) // struct.calcsize(f'<{code_b}')}{code_b}", bytes_b)
    if not (all(map(math.isfinite, a)) and all(map(math.isfinite, b))):
        same = [_is_same_infinity(one, other) for one, other in zip(a, b, strict=True)]
        a = [0.0 if zero else one for one, zero in zip(a, same, strict=True)]
        b = [0.0 if zero else other for other, zero in zip(b, same, strict=True)]
        if not (all(map(math.isfinite, a)) and all(map(math.isfinite, b))):
            return None
    differences: Any = map(sub, a, b)
    if pairs:
        parts = list(differences)
        differences = map(math.hypot, parts[::2], parts[1::2])
    return _Sums(
        float(max(map(abs, differences))), float(sum(map(mul, a, b))), float(sum(map(mul, a, a))), float(sum(map(mul, b, b)))
    )  # fmt: skip


def _is_same_infinity(a: float, b: float) -> bool:
    return not math.isfinite(a) and (a == b or (a != a and b != b))  # noqa: PLR0124 not a number


def _numpy_sums(code_a: str, bytes_a: bytes, code_b: str, bytes_b: bytes, pairs: bool) -> _Sums | None:
    """Return what `_plain_sums` returns."""
    import numpy as np

    names = {"e": "f2", "f": "f4", "d": "f8"}
    held_a, held_b = (
        np.frombuffer(data, f"<{names.get(code) or np.dtype(code).str[1:]}")
        for code, data in ((code_a, bytes_a), (code_b, bytes_b))
    )
    with np.errstate(all="ignore"):
        a, b = held_a.astype("f8"), held_b.astype("f8")
        odd = ~(np.isfinite(a) & np.isfinite(b))
        if odd.any():
            same = odd & ((a == b) | (np.isnan(a) & np.isnan(b)))
            if not np.array_equal(odd, same):
                return None
            a[same] = b[same] = 0
        differences = np.abs(a - b)
        if pairs:
            differences = np.hypot(differences[::2], differences[1::2])
        if not {code_a, code_b}.intersection("efd") and (code_a == "Q") == (code_b == "Q"):
            # Doubles hold no integer above 2**53 exactly; unsigned ones wrap around to the difference.
            differences = _integer_differences(held_a, held_b)
        # Not `a @ b`: the threads of a BLAS wait for each other on a busy machine, for longer than all of this takes.
        products = (float(np.einsum("i,i", *pair)) for pair in ((a, b), (a, a), (b, b)))
        return _Sums(float(differences.max()), *products)


def _integer_differences(a: Any, b: Any) -> Any:
    import numpy as np

    wide_a, wide_b = (each.astype(each.dtype.kind + "8") for each in (a, b))
    if wide_a.dtype != wide_b.dtype:
        wide_a, wide_b = wide_a.astype("i8"), wide_b.astype("i8")
    larger = wide_a > wide_b
    unsigned_a, unsigned_b = wide_a.view("u8"), wide_b.view("u8")
    return np.where(larger, unsigned_a - unsigned_b, unsigned_b - unsigned_a)
