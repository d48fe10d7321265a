"""The digest of a tensor's elements, independent of its strides and of its storage."""

from __future__ import annotations

import hashlib
from typing import Final, Literal

from graphwire.schema import ITEM_SIZES, TensorMeta

_FORMATS: Final[dict[int, Literal["B", "H", "I", "Q"]]] = {1: "B", 2: "H", 4: "I", 8: "Q"}


def digest_of_elements(record: memoryview, meta: TensorMeta) -> str:
    """Return the SHA-256 of a tensor's elements in row-major order, in hexadecimal.

    Args:
        record: the little-endian bytes of the tensor's storage. They are long enough.
        meta: the tensor's element type, sizes, strides and offset, all of them known numbers.
    """
    item = ITEM_SIZES[meta.dtype_text]
    dimensions = [
        (size.as_int or 0, stride.as_int or 0) for size, stride in zip(meta.sizes, meta.strides, strict=True)
    ]
    offset = meta.storage_offset.as_int or 0
    if item not in _FORMATS:  # two numbers, such as complex128
        item //= 2
        dimensions = [*((size, 2 * stride) for size, stride in dimensions), (2, 1)]
        offset *= 2
    digest = hashlib.sha256()
    if all(size for size, _ in dimensions):
        whole = record.cast("B")
        numbers = whole[: len(whole) // item * item].cast(_FORMATS[item])
        _add(digest, numbers, offset, _merged(dimensions))
    return digest.hexdigest()


def _merged(dimensions: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Drop dimensions of one element, and merge those that are contiguous."""
    merged: list[tuple[int, int]] = []
    for size, stride in dimensions:
        if size == 1:
            continue
        if merged and merged[-1][1] == size * stride:
            merged[-1] = (merged[-1][0] * size, stride)
        else:
            merged.append((size, stride))
    return merged or [(1, 1)]


def _add(digest: hashlib._Hash, numbers: memoryview, offset: int, dimensions: list[tuple[int, int]]) -> None:
    (size, stride), *inner = dimensions
    if inner:
        for index in range(size):
            _add(digest, numbers, offset + index * stride, inner)
    elif stride == 1:
        digest.update(numbers[offset : offset + size])
    elif stride == 0:
        digest.update(numbers[offset : offset + 1].tobytes() * size)
    else:
        digest.update(numbers[offset : offset + (size - 1) * stride + 1 : stride].tobytes())
