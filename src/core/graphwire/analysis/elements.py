"""The elements of a tensor in row-major order, from the bytes of its storage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

_FORMATS: Final[dict[int, Literal["B", "H", "I", "Q"]]] = {1: "B", 2: "H", 4: "I", 8: "Q"}
_MOST_REPEATED: Final = 1 << 16
"""The number of equal elements that one part has, of a tensor that is expanded."""


def row_major_parts(
    record: memoryview, item: int, dimensions: list[tuple[int, int]], offset: int
) -> Iterator[memoryview | bytes]:
    """Yield the bytes of a tensor's elements in row-major order, without a copy where they are contiguous.

    Args:
        record: the bytes of the tensor's storage. They are long enough.
        item: the size of one element in bytes.
        dimensions: the size and the stride of each dimension, in elements.
        offset: the position of the first element.
    """
    if item not in _FORMATS:  # two numbers, such as complex128
        item //= 2
        dimensions = [*((size, 2 * stride) for size, stride in dimensions), (2, 1)]
        offset *= 2
    if all(size for size, _ in dimensions):
        whole = record.cast("B")
        numbers = whole[: len(whole) // item * item].cast(_FORMATS[item])
        yield from _parts(numbers, offset, _merged(dimensions))


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


def _parts(
    numbers: memoryview, offset: int, dimensions: list[tuple[int, int]]
) -> Iterator[memoryview | bytes]:
    (size, stride), *inner = dimensions
    if inner:
        for index in range(size):
            yield from _parts(numbers, offset + index * stride, inner)
    elif stride == 1:
        yield numbers[offset : offset + size].cast("B")
    elif stride == 0:
        one = numbers[offset : offset + 1].tobytes()
        for start in range(0, size, _MOST_REPEATED):
            yield one * min(_MOST_REPEATED, size - start)
    else:
        yield numbers[offset : offset + (size - 1) * stride + 1 : stride].tobytes()
