"""Which weights and constants of two programs are the same, and what says so: their elements, or checksums that files list."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from operator import mul, sub
from typing import Any, Final, NamedTuple

import msgspec

from graphwire.analysis.canonical.content_hashing import (
    PayloadRecord,
    PayloadSet,
    is_empty,
    named_payloads,
    payload_digests,
    payload_facts,
)
from graphwire.analysis.diff.facts import Facts
from graphwire.analysis.diff.renumbering import ABSENT, Renumbering
from graphwire.analysis.elements import row_major_parts
from graphwire.schema import ITEM_SIZES, Layout, PayloadMeta, Program, SignatureNames

# -------------------------------------------------------------------------- how much the elements of two tensors differ
# the largest difference and the cosine, computed chunk by chunk, without torch.
#
# NumPy computes them if it is installed, many times as fast as Python.


_CHUNK: Final = 1 << 18
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
    norm: float | None = None
    """The Euclidean norm of the difference, as a share of that of side A; None in these cases, too, and if A is zero."""


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
    largest, sums = 0.0, [0.0, 0.0, 0.0, 0.0]
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
    product, squares_a, squares_b, squares = sums
    scale = math.sqrt(squares_a) * math.sqrt(squares_b)
    has_angle = scale > 0 and math.isfinite(scale) and math.isfinite(product)
    has_norm = squares_a > 0 and math.isfinite(squares_a) and math.isfinite(squares)
    return ElementChange(
        largest if math.isfinite(largest) else None,
        max(-1.0, min(1.0, product / scale)) if has_angle else None,
        math.sqrt(squares) / math.sqrt(squares_a) if has_norm else None,
    )


# ------------------------------------------------------------------------------------------------------------ chunks


def _paired(
    a: PayloadMeta, record_a: PayloadRecord, b: PayloadMeta, record_b: PayloadRecord
) -> list[tuple[str, Iterator[bytes]]] | None:
    """Return the type and the elements of both, in chunks of equal numbers; None if they are not comparable one by one."""
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
        (each.dtype_text, _chunks(row_major_parts(
            record, ITEM_SIZES[each.dtype_text], [held[index] for index in kept], each.storage_offset.as_int or 0
        ), _CHUNK * ITEM_SIZES[each.dtype_text]))
        for each, record, held in zip((one, other), records, dimensions, strict=True)
    ]  # fmt: skip


def _chunks(parts: Iterable[memoryview | bytes], nbytes: int) -> Iterator[bytes]:
    """Yield the bytes of parts in chunks of equal length; the last one may be shorter."""
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


def _numbers(dtype: str, chunk: bytes) -> tuple[str, bytes]:
    """Return elements as numbers that `struct` and NumPy know, and the code of these."""
    code = _CODES[dtype]
    if dtype == "bfloat16":  # the upper half of a float32
        wide = bytearray(2 * len(chunk))
        wide[2::4], wide[3::4] = chunk[::2], chunk[1::2]
        return code, bytes(wide)
    if dtype.startswith("float8"):
        tables = _float8_bytes(dtype)
        wide = bytearray(len(tables) * len(chunk))
        for index, table in enumerate(tables):
            wide[index :: len(tables)] = chunk.translate(table)
        return code, bytes(wide)
    return code, chunk


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
    """What is computed of a chunk."""

    largest: float
    """The largest absolute difference."""
    product: float
    """The scalar product of both."""
    squares_a: float
    squares_b: float
    squares: float
    """The sum of the squares of the differences."""


def _plain_sums(code_a: str, bytes_a: bytes, code_b: str, bytes_b: bytes, pairs: bool) -> _Sums | None:
    """Return the sums of a chunk; None if a number is not finite and not the same on both sides.

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
    differences: Any = list(map(sub, a, b))
    products = [float(sum(map(mul, *pair))) for pair in ((a, b), (a, a), (b, b), (differences, differences))]
    if pairs:
        differences = map(math.hypot, differences[::2], differences[1::2])
    return _Sums(float(max(map(abs, differences))), *products)


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
        # Not `a @ b`: the threads of a BLAS wait for each other on a busy machine, for longer than all of this takes.
        pairs_of = (a, b), (a, a), (b, b), (differences, differences)
        products = [float(np.einsum("i,i", *pair)) for pair in pairs_of]
        if pairs:
            differences = np.hypot(differences[::2], differences[1::2])
        if not {code_a, code_b}.intersection("efd") and (code_a == "Q") == (code_b == "Q"):
            # Doubles hold no integer above 2**53 exactly; unsigned ones wrap around to the difference.
            differences = _integer_differences(held_a, held_b)
        return _Sums(float(differences.max()), *products)


def _integer_differences(a: Any, b: Any) -> Any:
    import numpy as np

    wide_a, wide_b = (each.astype(each.dtype.kind + "8") for each in (a, b))
    if wide_a.dtype != wide_b.dtype:
        wide_a, wide_b = wide_a.astype("i8"), wide_b.astype("i8")
    larger = wide_a > wide_b
    unsigned_a, unsigned_b = wide_a.view("u8"), wide_b.view("u8")
    return np.where(larger, unsigned_a - unsigned_b, unsigned_b - unsigned_a)


_SECTIONS = ("weight", "constant")
_MOST_NAMES = 3


class Compared(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was compared of the weights, or of the constants, that both programs have."""

    same: dict[str, int] = {}
    """How many are the same, by what says so: `elements`; `CRC-32`, `SHA-256` or `SHA-256 of chunks`, as the files list them;
    or `shape` for those without elements. Equal CRC-32s are no proof."""
    differ: dict[str, ElementChange] = {}
    """Those that differ in type, shape or elements, by name, and by how much if elements were read."""
    not_compared: dict[str, list[str]] = {}
    """The names of the others, by the reason."""


class PayloadSide(NamedTuple):
    """One of the two programs whose weights and constants are compared."""

    program: Program
    payloads: PayloadSet | None
    """None for records alone."""
    renumbering: Renumbering = Renumbering()
    """For side A: the numbers of its layers on side B."""

    @property
    def checksums(self) -> dict[str, str]:
        """By the name of a weight, a text that is equal if its elements are, as far as the file lists what tells."""
        found = {}
        for (_, name), each in ({} if self.payloads is None else named_payloads(self.payloads)).items():
            record = self.payloads.records.get(each.record) if self.payloads is not None else None
            if known := getattr(record, "checksums", {}):
                found[name] = repr(sorted(known.items()))
        return found


def compare_payloads(
    a: PayloadSide, b: PayloadSide, *, elements: bool
) -> tuple[dict[str, Compared], dict[str, tuple[dict[str, Facts], dict[str, Facts]]]]:
    """Compare weights and constants by what files say about them and, on request, by their elements.

    Args:
        elements: whether to read and compare all elements.

    Returns:
        What was compared, by section (`weight`, `constant`); and the facts about each on both sides, by section and name.

    Raises:
        MissingRecordError: elements are compared, and a payload has no record, or its record is too short.
    """
    sides = [_held(side, elements) for side in (a, b)]
    all_compared: dict[str, Compared] = {}
    all_facts: dict[str, tuple[dict[str, Facts], dict[str, Facts]]] = {}
    for section in _SECTIONS:
        ours, theirs = (side[section] for side in sides)
        ours = {a.renumbering.renamed(name): each for name, each in ours.items()}
        compared = Compared()
        for name in ours:
            if name in theirs:
                _compare(compared, name, ours[name], theirs[name], elements)
        if compared != Compared():
            all_compared[section] = compared
        if a.payloads is not None and b.payloads is not None:
            facts_a, facts_b = (
                {name: each.facts for name, each in held.items() if each.meta is not None} for held in (ours, theirs)
            )  # fmt: skip
            all_facts[section] = facts_a, facts_b
    return all_compared, all_facts


def compared_text(compared: Mapping[str, Compared], quoted: Callable[[str], str] = str) -> str:
    """Return in words what was compared, such as `weights: 14 the same by CRC-32, 2 differ (a, b)`.

    Args:
        compared: what was compared, by section.
        quoted: what to show of a name.
    """
    texts = []
    for section, each in compared.items():
        parts = [f"{count:,} the same by {what}" for what, count in each.same.items()]
        if each.differ:
            parts.append(
                f"{len(each.differ):,} differ{'' if len(each.differ) > 1 else 's'} ({_some(each.differ, quoted)})"
            )
        if each.not_compared:
            count = sum(map(len, each.not_compared.values()))
            reasons = (f"{why}: {_some(names, quoted)}" for why, names in each.not_compared.items())
            parts.append(f"{count:,} not compared ({'; '.join(reasons)})")
        texts.append(f"{section}s: {', '.join(parts)}")
    return "; ".join(texts) or "no weights in common"


def _some(names: Any, quoted: Callable[[str], str]) -> str:
    shown = [quoted(name) for name in list(names)[:_MOST_NAMES]]
    more = len(names) - len(shown)
    return f"{', '.join(shown)} and {more:,} more" if more else ", ".join(shown)


# ----------------------------------------------------------------------------------------------------------- one side


class _Held(msgspec.Struct):
    """A weight or constant of one side."""

    meta: PayloadMeta | None
    """None if it is not read."""
    stored: PayloadRecord | None = None
    digest: str = ""
    """Of its metadata and elements; empty if elements are not read."""
    facts: Facts = {}
    why_not: str = ""
    """Why it is not read."""

    @property
    def checksums(self) -> Mapping[str, str]:
        """The checksums of its storage that are known without reading it, by kind."""
        return getattr(self.stored, "checksums", {})

    @property
    def fills_its_record(self) -> bool:
        """Whether each byte of its storage is one of its elements."""
        tensor = None if self.meta is None or self.meta.use_pickle else self.meta.tensor_meta
        item = 0 if tensor is None else ITEM_SIZES.get(tensor.dtype_text, 0)
        if tensor is None or not item or self.stored is None:
            return False
        return math.prod(size.as_int or 0 for size in tensor.sizes) * item == self.stored.nbytes


def _held(side: PayloadSide, elements: bool) -> dict[str, dict[str, _Held]]:
    """Return the weights and constants of one side by section and name, those that are not read, too."""
    program, payloads = side.program, side.payloads
    names = SignatureNames(program.graph_module.signature)
    temporary = names.non_persistent_buffers
    persistent = {*names.parameters, *names.buffers}.difference(temporary)
    found: dict[str, dict[str, _Held]] = {section: {} for section in _SECTIONS}
    if payloads is not None:
        digests = payload_digests(payloads) if elements else {}
        for (kind, name), each in named_payloads(payloads).items():
            facts = payload_facts(each.meta)
            if elements and len(each.sharing) > 1:
                sharing = ", ".join(map(side.renumbering.renamed, each.sharing))
                facts["memory"] = f"shared by {sharing.replace(ABSENT, '')}"
            stored = payloads.records.get(each.record) or payloads.records.get(each.meta.shared or "")
            found["weight" if name in persistent else kind][name] = _Held(
                each.meta, stored, digests.get((kind, name), ""), facts
            )
    needed = {
        "weight": persistent,
        "constant": {*temporary, *names.lifted_tensor_constants, *names.lifted_custom_objs},
    }
    for section, held in found.items():
        for name in sorted(needed[section] - held.keys() - program.encoded_values.keys()):
            why = "not read" if payloads is not None else "records have no elements"
            held[name] = _Held(None, why_not=why)
    return found


# ------------------------------------------------------------------------------------------------------------ verdicts


def _compare(compared: Compared, name: str, a: _Held, b: _Held, elements: bool) -> None:
    """Add to `compared` what is known about a weight that both sides have, and to the facts of both what differs."""
    if a.meta is None or b.meta is None:
        compared.not_compared.setdefault(a.why_not or b.why_not, []).append(name)
    elif _form(a.meta) != _form(b.meta):
        compared.differ[name] = _measured(a, b) or ElementChange() if elements else ElementChange()
        _add_digests(a, b)
    elif a.meta.placement is not None or b.meta.placement is not None:
        if a.meta.placement is not None and b.meta.placement is not None:
            _count(compared, "shape")
        else:
            why = f"no elements in {'A' if b.meta.placement is None else 'B'}"
            compared.not_compared.setdefault(why, []).append(name)
    elif is_empty(a.meta):
        _count(compared, "shape")
    elif elements:
        change = None if a.digest == b.digest else _measured(a, b)
        if change is None:
            _count(compared, "elements")
        else:
            compared.differ[name] = change
        if change is not None or (a.digest != b.digest and a.facts == b.facts):
            _add_digests(a, b)
    else:
        _compare_checksums(compared, name, a, b)


def _compare_checksums(compared: Compared, name: str, a: _Held, b: _Held) -> None:
    assert a.meta is not None
    assert b.meta is not None
    kind = next((each for each in a.checksums if each in b.checksums), "")
    equal = bool(kind) and a.checksums[kind] == b.checksums[kind]
    if not kind:
        lacking = [side for side, held in (("A", a), ("B", b)) if not held.checksums]
        listed = f"A lists {', '.join(a.checksums)} and B {', '.join(b.checksums)}"
        why = f"no checksum in {' and '.join(lacking)}" if lacking else listed
    elif _arrangement(a.meta) != _arrangement(b.meta):
        why = "elements in another order"
    elif equal and a.stored is not None and b.stored is not None and a.stored.nbytes == b.stored.nbytes:
        _count(compared, kind)
        return
    elif a.fills_its_record and b.fills_its_record:
        compared.differ[name] = ElementChange()
        a.facts["elements"], b.facts["elements"] = (f"{kind} {each.checksums[kind][:16]}" for each in (a, b))
        return
    else:
        why = "only parts of records that differ"
    compared.not_compared.setdefault(why, []).append(name)


def _add_digests(a: _Held, b: _Held) -> None:
    if a.digest:
        a.facts["elements"], b.facts["elements"] = a.digest[:16], b.digest[:16]


def _count(compared: Compared, what: str) -> None:
    compared.same[what] = compared.same.get(what, 0) + 1


def _measured(a: _Held, b: _Held) -> ElementChange | None:
    if a.meta is None or b.meta is None or a.stored is None or b.stored is None:
        return ElementChange()
    return element_change(a.meta, a.stored, b.meta, b.stored)


def _form(meta: PayloadMeta) -> Any:
    """Return the type and shape of a tensor."""
    tensor = meta.tensor_meta
    sizes = () if tensor is None else tuple(size.as_int for size in tensor.sizes)
    return None if tensor is None else (tensor.dtype_text, tensor.layout_name or tensor.layout, sizes)


def _arrangement(meta: PayloadMeta) -> Any:
    """Return where in its storage a tensor has its elements, and how they are read."""
    flags = (meta.conj, meta.neg, meta.use_pickle)
    if (tensor := meta.tensor_meta) is None:
        return flags
    dimensions = zip(tensor.sizes, tensor.strides, strict=True)
    strides = tuple(stride.as_int for size, stride in dimensions if size.as_int != 1)
    return flags, tensor.storage_offset.as_int, strides
