"""Boxes of tensors are copied as torch slices, permutes and assigns them."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, strategies as st
from inside.wire import (
    Axis,
    BufferSource,
    Part,
    copy_box,
    is_contiguous,
    is_dense,
    parts_in_range,
    row_major,
    tiles,
)

from graphwire.errors import ArchiveError

DTYPES = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.complex128}


def filled(shape: list[int], item: int) -> torch.Tensor:
    return torch.arange(math.prod(shape)).reshape(shape).to(DTYPES[item])


def bytes_of(tensor: torch.Tensor) -> bytearray:
    return (
        bytearray(tensor.contiguous().view(torch.uint8).numpy().tobytes()) if tensor.numel() else bytearray()
    )


class Copy:
    """A box of a tensor, permuted, to copy to a place in a row of elements."""

    def __init__(self, data: st.DataObject, item: int) -> None:
        shape = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
        box = []
        for size in shape:
            first, step = data.draw(st.integers(0, size - 1)), data.draw(st.integers(1, 3))
            box.append((first, data.draw(st.integers(1, (size - 1 - first) // step + 1)), step))
        order = data.draw(st.permutations(range(len(shape))))
        before, after = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 3))
        gap = data.draw(st.integers(1, 2))
        source = filled(shape, item)
        part = source[tuple(slice(first, first + (count - 1) * step + 1, step) for first, count, step in box)]
        expected = torch.zeros(before + part.numel() * gap + after, dtype=source.dtype)
        expected[before : before + part.numel() * gap : gap] = part.permute(order).reshape(-1)
        there, here = row_major(shape), [0] * len(shape)
        for stride, dimension in zip(row_major([part.shape[each] for each in order]), order, strict=True):
            here[dimension] = stride * gap
        axes = [Axis(count, step * there[each], here[each]) for each, (_, count, step) in enumerate(box)]
        start = sum(first * stride for (first, _, _), stride in zip(box, there, strict=True))
        self.whole = Part(axes, start, before)
        self.source = BufferSource(bytes_of(source))
        self.expected = bytes_of(expected)


@given(st.data(), st.sampled_from(sorted(DTYPES)))
def test_a_box_is_copied_as_torch_copies_it(data: st.DataObject, item: int) -> None:
    copy = Copy(data, item)
    whole, target = copy.whole, bytearray(len(copy.expected))
    copy_box(copy.source, whole.source * item, memoryview(target), whole.target * item, whole.axes, item)
    assert target == copy.expected


@given(st.data(), st.sampled_from(sorted(DTYPES)))
def test_ranges_of_a_copy_are_those_of_the_whole(data: st.DataObject, item: int) -> None:
    copy = Copy(data, item)
    count = len(copy.expected) // item
    cuts = sorted({0, count, *data.draw(st.lists(st.integers(0, count), max_size=4))})
    found = bytearray()
    for low, high in itertools.pairwise(cuts):
        memory = bytearray((high - low) * item)
        for part in parts_in_range(copy.whole, low, high):
            assert low <= part.target < high
            at = (part.target - low) * item
            copy_box(copy.source, part.source * item, memoryview(memory), at, part.axes, item)
        found += memory
    assert found == copy.expected


@given(st.lists(st.integers(1, 5), max_size=4), st.data())
def test_dense_and_contiguous_are_what_torch_says(shape: list[int], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(shape))))
    tensor = torch.empty(shape).permute(order)
    sizes, strides = list(tensor.shape), list(tensor.stride())
    assert is_dense(sizes, strides)
    assert is_contiguous(sizes, strides) is tensor.is_contiguous()
    gaps = [stride * 2 for stride in strides]
    assert is_dense(sizes, gaps) is (math.prod(sizes) == 1)


Boxes = list[tuple[list[int], list[int]]]


@st.composite
def divisions(draw: st.DrawFn) -> tuple[list[int], Boxes]:
    """Return a shape, and boxes that cover it: cut in two again and again, in any dimension."""
    shape = draw(st.lists(st.integers(1, 5), max_size=4))
    boxes: Boxes = [([0] * len(shape), shape)]
    for _ in range(draw(st.integers(0, 6)) if shape else 0):
        start, sizes = boxes.pop(draw(st.integers(0, len(boxes) - 1)))
        axis = draw(st.integers(0, len(shape) - 1))
        at = draw(st.integers(0, sizes[axis]))
        moved, low, high = start.copy(), sizes.copy(), sizes.copy()
        moved[axis], low[axis], high[axis] = start[axis] + at, at, sizes[axis] - at
        boxes += [(start, low), (moved, high)]
    return shape, draw(st.permutations(boxes))


def covers_once(shape: list[int], boxes: Boxes) -> bool:
    seen = torch.zeros(shape, dtype=torch.int64)
    for start, sizes in boxes:
        seen[tuple(slice(first, first + size) for first, size in zip(start, sizes, strict=True))] += 1
    return bool((seen == 1).all())


@given(divisions(), st.data())
def test_boxes_that_cover_each_element_once_are_known(
    division: tuple[list[int], Boxes], data: st.DataObject
) -> None:
    shape, boxes = division
    assert tiles(shape, boxes)
    start, sizes = boxes.pop(data.draw(st.integers(0, len(boxes) - 1)))
    if data.draw(st.booleans()) and shape:  # of another size, or elsewhere; otherwise it is missing
        axis = data.draw(st.integers(0, len(shape) - 1))
        start, sizes = start.copy(), sizes.copy()
        start[axis] = data.draw(st.integers(0, shape[axis]))
        sizes[axis] = data.draw(st.integers(0, shape[axis] - start[axis]))
        boxes.append((start, sizes))
    assert tiles(shape, boxes) is covers_once(shape, boxes)


def test_a_tensor_that_is_divided_along_many_dimensions_is_refused() -> None:
    with pytest.raises(ArchiveError, match="divided along 64 dimensions"):
        tiles([2] * 64, [([0] * 64, [1] * 64)] * 2)
