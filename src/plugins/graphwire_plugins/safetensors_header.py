"""Reads and writes the headers of safetensors files.

A file has eight bytes with the number N (little-endian), N bytes of JSON, and the elements. The JSON maps the name of each
tensor to its element type, shape, and range of bytes behind the JSON; `__metadata__` maps texts to texts. The ranges cover all
bytes behind the JSON, once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypeGuard

import msgspec

from graphwire.errors import ArchiveError, EncodeError, dict_of_pairs
from graphwire.registry.interfaces import NewTensor, StoreFile

METADATA = "__metadata__"
"""The entry of a header that describes no tensor."""
MAX_HEADER_BYTES = 100_000_000
"""The most bytes that a header may have; the library has the same limit."""
DAMAGED = "The file is damaged or is not a safetensors file: fetch or write it again"
_LENGTH_BYTES = 8
_MOST_SHOWN = 10

_TYPES: Mapping[str, tuple[str, int]] = {
    "U64": ("uint64", 64),
    "I64": ("int64", 64),
    "F64": ("float64", 64),
    "C64": ("complex64", 64),
    "F32": ("float32", 32),
    "U32": ("uint32", 32),
    "I32": ("int32", 32),
    "BF16": ("bfloat16", 16),
    "F16": ("float16", 16),
    "U16": ("uint16", 16),
    "I16": ("int16", 16),
    "F8_E5M2FNUZ": ("float8_e5m2fnuz", 8),
    "F8_E4M3FNUZ": ("float8_e4m3fnuz", 8),
    "F8_E8M0": ("float8_e8m0fnu", 8),
    "F8_E4M3": ("float8_e4m3fn", 8),
    "F8_E5M2": ("float8_e5m2", 8),
    "I8": ("int8", 8),
    "U8": ("uint8", 8),
    "F4": ("float4_e2m1fn_x2", 4),
    "BOOL": ("bool", 8),
}
"""The element types, in the order in which the library writes them: torch's name, and the bits of an element."""
_NAMES: Mapping[str, str] = {dtype: name for name, (dtype, _) in _TYPES.items()}
_RANKS: Mapping[str, int] = {dtype: rank for rank, (dtype, _) in enumerate(_TYPES.values())}
_WITHOUT_TORCH = frozenset({"F6_E2M3", "F6_E3M2"})
"""Element types that the format has and torch lacks."""
_PAIRS = "F4"
"""The type whose elements the format counts one by one. torch counts pairs of them, along the last dimension."""


class HeaderEntry(msgspec.Struct, frozen=True):
    """A tensor as a header describes it."""

    dtype: str
    """torch's name of the element type."""
    shape: tuple[int, ...]
    """As torch counts it."""
    start: int
    """Where the elements begin, in bytes from the start of the file."""
    nbytes: int


class Header(msgspec.Struct, frozen=True):
    """What the header of a file contains."""

    tensors: dict[str, HeaderEntry]
    sha256: str
    """The digest of the first 8 + N bytes of the file, in hexadecimal."""


class _ProblemError(Exception):
    """A reason why a header is not valid."""


def has_type(dtype: str) -> bool:
    """Return whether the format has an element type, by torch's name."""
    return dtype in _NAMES


def looks_like_header(file: StoreFile) -> bool:
    """Return whether the first bytes of a file can be those of a safetensors file."""
    if file.size <= _LENGTH_BYTES:
        return False
    head = file.read_at(0, _LENGTH_BYTES + 1)
    size = int.from_bytes(head[:_LENGTH_BYTES], "little")
    return size <= min(MAX_HEADER_BYTES, file.size - _LENGTH_BYTES) and head[_LENGTH_BYTES:] == b"{"


# ---------------------------------------------------------------------------------------------------------------- reading


def read_header(file: StoreFile, location: str) -> Header:
    """Read and check the header of a file.

    Args:
        file: the open file.
        location: its location, for messages.

    Raises:
        ArchiveError: it is not the header of a safetensors file of this size; the error lists the problems.
    """
    if file.size < _LENGTH_BYTES:
        raise _damaged(
            location, f"the file has {file.size} bytes, fewer than the {_LENGTH_BYTES} of a length"
        )
    length = file.read_at(0, _LENGTH_BYTES)
    size, room = int.from_bytes(length, "little"), file.size - _LENGTH_BYTES
    if size > min(room, MAX_HEADER_BYTES):
        limit = f"{room:,} follow" if size > room else f"at most {MAX_HEADER_BYTES:,} are allowed"
        raise _damaged(location, f"the header has {size:,} bytes by its first eight bytes, and {limit}")
    text = file.read_at(_LENGTH_BYTES, size)
    tree = read_json(text, location)
    tensors = _checked(tree, _LENGTH_BYTES + size, room - size, location)
    import hashlib

    return Header(tensors, hashlib.sha256(length + text).hexdigest())


def read_json(text: bytes, location: str) -> dict[str, Any]:
    """Read a JSON object in which no name occurs twice.

    Raises:
        ArchiveError: the bytes are not such an object in UTF-8.
    """
    try:
        tree = json.loads(
            str(text, "utf-8"),
            object_pairs_hook=partial(dict_of_pairs, twice=_twice),
            parse_constant=_refuse_constant,
        )
    except UnicodeDecodeError as error:
        raise _damaged(location, f"the JSON is not UTF-8 ({error.reason} at byte {error.start})") from error
    except _ProblemError as error:
        raise _damaged(location, str(error)) from error
    except RecursionError as error:
        raise _damaged(location, "the JSON is nested too deeply") from error
    except ValueError as error:  # JSONDecodeError, and numbers of thousands of digits
        raise _damaged(location, f"it does not contain valid JSON ({error})") from error
    if type(tree) is not dict:
        raise _damaged(location, "the JSON is not an object")
    return tree


def problems_error(problems: Sequence[str], location: str, remedy: str = DAMAGED) -> ArchiveError:
    """Return an error that lists problems of a file, the first ten of many."""
    more = f"; and {len(problems) - _MOST_SHOWN:,} more" if len(problems) > _MOST_SHOWN else ""
    return ArchiveError("; ".join(problems[:_MOST_SHOWN]) + more, place=location, remedy=remedy)


def _damaged(location: str, problem: str) -> ArchiveError:
    return ArchiveError(problem, place=location, remedy=DAMAGED)


def _twice(name: str) -> _ProblemError:
    return _ProblemError(f"the name {name!r:.200} occurs twice in the JSON")


def _refuse_constant(text: str) -> Any:
    raise _ProblemError(f"{text} is not JSON")


def _checked(tree: dict[str, Any], begin: int, room: int, location: str) -> dict[str, HeaderEntry]:
    """Return the tensors of a header, whose elements are in `room` bytes from `begin`."""
    problems = []
    entries = {}
    for name, value in tree.items():
        try:
            if name == METADATA:
                _check_metadata(value)
            else:
                entries[name] = _entry(name, value, begin)
        except _ProblemError as problem:
            problems.append(f"{name!r:.200}: {problem}")
    if not problems:
        problems = _range_problems(entries, begin, begin + room)
    if problems:
        raise problems_error(problems, location)
    return entries


def _check_metadata(value: Any) -> None:
    # The library reads null as no metadata.
    if value is not None and not (type(value) is dict and all(type(text) is str for text in value.values())):
        raise _ProblemError("it does not map texts to texts")


def _entry(name: str, value: Any, begin: int) -> HeaderEntry:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise _ProblemError("the name is not valid Unicode") from None
    if type(value) is not dict:
        raise _ProblemError("it is not an object")
    type_name, shape, offsets = (value.get(key) for key in ("dtype", "shape", "data_offsets"))
    if type(type_name) is not str or type_name not in _TYPES:
        torch_lacks = type(type_name) is str and type_name in _WITHOUT_TORCH
        why = "torch has no such type" if torch_lacks else "the format has no such type"
        raise _ProblemError(f"its element type is {type_name!r:.40}: {why}")
    if not (_are_counts(shape) and _are_counts(offsets) and len(offsets) == 2):
        raise _ProblemError("its shape and its two offsets are not lists of integers from 0 to 2**63 - 1")
    dtype, bits = _TYPES[type_name]
    start, end = offsets
    if (elements := _elements(shape)) * bits != (end - start) * 8:
        raise _ProblemError(
            f"{elements:,} elements of type {type_name} do not take the bytes from {start:,} to {end:,}"
        )
    if type_name == _PAIRS:
        if not shape or shape[-1] % 2:
            raise _ProblemError("its last dimension does not have pairs of elements, which is what torch has")
        shape = [*shape[:-1], shape[-1] // 2]
    return HeaderEntry(dtype, tuple(shape), begin + start, end - start)


def _are_counts(value: Any) -> TypeGuard[list[int]]:
    return type(value) is list and all(type(each) is int and 0 <= each < 1 << 63 for each in value)


def _elements(shape: Sequence[int]) -> int:
    """Return the number of elements. Strides must fit in 64 bits even if a dimension is 0."""
    count = 1
    for size in shape:
        count *= max(size, 1)
        if count >= 1 << 63:
            raise _ProblemError("it has 2**63 elements or more")
    return 0 if 0 in shape else count


def _range_problems(entries: Mapping[str, HeaderEntry], begin: int, end: int) -> list[str]:
    """Return where the elements leave a gap, overlap, or do not fit in the file."""
    problems = []
    at = begin
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].start, item[1].nbytes)):
        if entry.start != at:
            what = (
                f"{entry.start - at:,} unused bytes before it"
                if entry.start > at
                else "it overlaps another tensor"
            )
            problems.append(f"{name!r:.200}: {what}")
        at = max(at, entry.start + entry.nbytes)
    if at != end:
        what = (
            f"{end - at:,} bytes follow the last tensor"
            if at < end
            else f"{at - end:,} bytes are missing at the end"
        )
        problems.append(what)
    return problems


# ---------------------------------------------------------------------------------------------------------------- writing


def file_order(tensors: Mapping[str, NewTensor]) -> dict[str, NewTensor]:
    """Return tensors in the order of their elements in a file: large element types first, then by name."""
    return dict(sorted(tensors.items(), key=lambda item: (_RANKS[item[1].dtype], item[0])))


def header_bytes(tensors: Mapping[str, NewTensor]) -> bytes:
    """Return the first 8 + N bytes of a file, padded to a multiple of eight.

    Args:
        tensors: in file order.

    Raises:
        EncodeError: the format cannot describe a tensor.
    """
    tree = {}
    at = 0
    for name, (dtype, shape, nbytes, _) in tensors.items():
        tree[name] = {
            "dtype": _NAMES[dtype],
            "shape": _counted(name, dtype, shape, nbytes),
            "data_offsets": [at, at + nbytes],
        }
        at += nbytes
    try:
        text = json.dumps(tree, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError as error:
        raise EncodeError("the name of a tensor is not valid Unicode, which safetensors needs") from error
    text += b" " * (-len(text) % 8)
    if METADATA in tensors or len(text) > MAX_HEADER_BYTES:
        reserved = f"the name {METADATA!r} is reserved" if METADATA in tensors else ""
        raise EncodeError(
            reserved
            or f"the header of a safetensors file would have {len(text):,} bytes, more than {MAX_HEADER_BYTES:,}",
            remedy="Keep the weights in the program's file or in a store of blobs",
        )
    return len(text).to_bytes(_LENGTH_BYTES, "little") + text


def _counted(name: str, dtype: str, shape: Sequence[int], nbytes: int) -> list[int]:
    """Return a shape as the format counts it."""
    if _NAMES[dtype] == _PAIRS:
        if not shape:
            raise EncodeError(
                f"safetensors cannot hold a pair of {dtype} without dimensions", place=f"tensor {name!r}"
            )
        shape = [*shape[:-1], shape[-1] * 2]
    bits = _TYPES[_NAMES[dtype]][1]
    if math.prod(shape) * bits != nbytes * 8:
        raise EncodeError(
            f"{nbytes:,} bytes are not {dtype} of shape {list(shape)}", place=f"tensor {name!r}"
        )
    return list(shape)
