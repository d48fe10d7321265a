"""Copies boxes of tensors between memory and files: slices, concatenations, transposes, without torch."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple, Protocol

from graphwire.errors import ArchiveError

_FORMATS: Final[Mapping[int, Literal["B", "H", "I", "Q"]]] = {1: "B", 2: "H", 4: "I", 8: "Q"}
_FEW_BYTES = 4096
"""In bytes. Runs shorter than this, with gaps shorter than this, are read together: a disk reads whole pages anyway."""
_CHUNK_BYTES = 2 << 20
"""In bytes. At most this much is read at once, unless it goes where it belongs directly. Several threads may do so."""


_MOST_DIVIDED = 6
"""Dimensions along which one tensor may be divided. Real meshes have four at most, and each more doubles the work."""


class Bytes(Protocol):
    """Bytes that can be read at any offset."""

    def read_at(self, offset: int, size: int) -> bytes:
        """Return exactly the bytes of a range."""
        ...

    def read_into(self, offset: int, memory: memoryview) -> None:
        """Fill memory with the bytes that begin at an offset."""
        ...


class Axis(NamedTuple):
    """One dimension of a copy."""

    size: int
    source: int
    """From one element to the next in the source, in elements."""
    target: int
    """From one element to the next in the target, in elements."""


def row_major(sizes: Sequence[int]) -> list[int]:
    """Return the strides of a contiguous tensor, in elements."""
    strides, step = [0] * len(sizes), 1
    for index in reversed(range(len(sizes))):
        strides[index] = step
        step *= max(sizes[index], 1)
    return strides


def is_contiguous(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether strides are those of a contiguous tensor, as far as they matter."""
    return 0 in sizes or all(
        size == 1 or stride == wanted
        for size, stride, wanted in zip(sizes, strides, row_major(sizes), strict=True)
    )


def is_dense(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether the elements of a tensor are different, and lie together without gaps, in any order of dimensions."""
    step = 1
    for stride, size in sorted(
        (stride, size) for size, stride in zip(sizes, strides, strict=True) if size != 1
    ):
        if stride != step:
            return 0 in sizes
        step *= size
    return True


def tiles(shape: Sequence[int], boxes: Sequence[tuple[Sequence[int], Sequence[int]]]) -> bool:
    """Return whether boxes cover each element of a tensor once. They lie within it.

    The corners of a box have alternating signs. Where boxes meet, corners cancel; boxes that make the whole leave the corners of
    the whole, and no other set of boxes does.

    Args:
        boxes: the first index and the sizes of each.

    Raises:
        ArchiveError: the tensor is divided along more than `_MOST_DIVIDED` dimensions.
    """
    boxes = [box for box in boxes if 0 not in box[1]]
    divided = [
        dimension
        for dimension, size in enumerate(shape)
        if any(sizes[dimension] != size for _, sizes in boxes)
    ]
    if 0 in shape or not boxes:
        return 0 in shape and not boxes
    if len(divided) > _MOST_DIVIDED:
        raise ArchiveError(f"a tensor is divided along {len(divided)} dimensions, more than {_MOST_DIVIDED}")
    corners: Counter[tuple[int, ...]] = Counter()
    for start, sizes in boxes:
        for ends in itertools.product((0, 1), repeat=len(divided)):
            corner = tuple(start[axis] + end * sizes[axis] for axis, end in zip(divided, ends, strict=True))
            corners[corner] += (-1) ** sum(ends)
    whole = {
        tuple(end * shape[axis] for axis, end in zip(divided, ends, strict=True)): (-1) ** sum(ends)
        for ends in itertools.product((0, 1), repeat=len(divided))
    }
    return {corner: count for corner, count in corners.items() if count} == whole


class Part(NamedTuple):
    """A part of a copy."""

    axes: list[Axis]
    source: int
    """The first element in the source."""
    target: int
    """The first element in the target."""


def parts_in_range(whole: Part, low: int, high: int) -> Iterator[Part]:
    """Yield parts of a copy that together have the elements whose places in the target are in a range.

    Args:
        whole: the copy. Its elements have different places in the target.
        low: the first place, in elements of the target.
        high: one past the last.
    """
    axes = sorted(_merged(whole.axes), key=lambda each: -each.target)
    reaches = [0]
    """For each number of inner dimensions, from the first to the last of their elements in the target."""
    for axis in reversed(axes):
        reaches.append(reaches[-1] + (axis.size - 1) * axis.target)

    def parts(outer: int, source: int, target: int) -> Iterator[Part]:
        inner = axes[outer:]
        reach = reaches[len(inner)]
        if target >= high or target + reach < low:
            return
        if low <= target and target + reach < high:
            yield Part(inner, source, target)
            return
        axis, reach = inner[0], reaches[len(inner) - 1]
        touched = range(
            max(0, -((target + reach - low) // axis.target)),
            min(axis.size, (high - 1 - target) // axis.target + 1),
        )
        inside = range(
            max(0, -((target - low) // axis.target)),
            min(axis.size, (high - 1 - target - reach) // axis.target + 1),
        )
        if inside:
            begin = inside[0]
            shorter = Axis(len(inside), axis.source, axis.target)
            yield Part([shorter, *inner[1:]], source + begin * axis.source, target + begin * axis.target)
        for index in touched:
            if index not in inside:
                yield from parts(outer + 1, source + index * axis.source, target + index * axis.target)

    if all(axis.size for axis in whole.axes):
        yield from parts(0, whole.source, whole.target)


def copy_box(
    source: Bytes, start: int, target: memoryview, first: int, axes: Sequence[Axis], item: int
) -> None:
    """Copy the elements of a box.

    Args:
        source: where to read.
        start: the byte of the first element in the source.
        target: writable bytes.
        first: the byte of the first element in the target.
        axes: the dimensions.
        item: the size of an element, in bytes.
    """
    if any(axis.size == 0 for axis in axes):
        return
    if item not in _FORMATS:  # two numbers, such as complex128
        axes = [*(Axis(each.size, each.source * 2, each.target * 2) for each in axes), Axis(2, 1, 1)]
        item //= 2
    merged = _merged(axes)
    inner, outer = _split(merged)
    if inner.source == inner.target == 1:
        _copy_runs(source, start, target, first, outer, inner.size * item, item)
    else:
        _copy_scattered(source, start, target, first, merged, item)


def _merged(axes: Sequence[Axis]) -> list[Axis]:
    """Drop dimensions of one element, and merge those that are one in both source and target. Ordered by the source."""
    merged: list[Axis] = []
    for axis in sorted((each for each in axes if each.size != 1), key=lambda each: -each.source):
        last = merged[-1] if merged else None
        if last and last.source == axis.source * axis.size and last.target == axis.target * axis.size:
            merged[-1] = Axis(last.size * axis.size, axis.source, axis.target)
        else:
            merged.append(axis)
    return merged or [Axis(1, 1, 1)]


def _split(axes: list[Axis]) -> tuple[Axis, list[Axis]]:
    return axes[-1], axes[:-1]


def _offsets(axes: Sequence[Axis]) -> Iterator[tuple[int, int]]:
    """Yield the source and target offset of each index, in elements."""
    if not axes:
        yield 0, 0
        return
    (axis, *rest) = axes
    for index in range(axis.size):
        for there, here in _offsets(rest):
            yield index * axis.source + there, index * axis.target + here


def _copy_runs(
    source: Bytes, start: int, target: memoryview, first: int, outer: list[Axis], run: int, item: int
) -> None:
    """Copy contiguous runs. Short ones with short gaps are read together."""
    if outer and run < _FEW_BYTES and outer[-1].source * item - run < _FEW_BYTES:
        rows = max(1, _CHUNK_BYTES // max(outer[-1].source * item, 1))
        *above, row = outer
        for there, here in _offsets(above):
            for begin in range(0, row.size, rows):
                count = min(rows, row.size - begin)
                step = row.source * item
                offset = start + (there + begin * row.source) * item
                data = memoryview(source.read_at(offset, (count - 1) * step + run))
                at = first + (here + begin * row.target) * item
                for index in range(count):
                    place = at + index * row.target * item
                    target[place : place + run] = data[index * step : index * step + run]
        return
    for there, here in _offsets(outer):
        offset, at = start + there * item, first + here * item
        for begin in range(0, run, _CHUNK_BYTES):
            size = min(_CHUNK_BYTES, run - begin)
            source.read_into(offset + begin, target[at + begin : at + begin + size])


def _copy_scattered(
    source: Bytes, start: int, target: memoryview, first: int, axes: list[Axis], item: int
) -> None:
    """Copy a box whose innermost dimension in the source is strided in the source or in the target."""
    form = _FORMATS[item]
    inner = axes[-1]
    if first % item or len(target) % item:
        # The target is aligned memory of whole elements; only a damaged description gets here.
        raise ValueError("the target is not made of whole elements")
    cells = target.cast(form)
    base = first // item
    span = (inner.size - 1) * inner.source + 1
    rows = axes[-2] if len(axes) > 1 and _spans_meet(axes[-2], span, item) else None
    above = axes[:-2] if rows else axes[:-1]
    for there, here in _offsets(above):
        if rows is None:
            for begin in range(0, inner.size, _CHUNK_BYTES // item):
                count = min(inner.size - begin, _CHUNK_BYTES // item)
                size = ((count - 1) * inner.source + 1) * item
                data = memoryview(source.read_at(start + (there + begin * inner.source) * item, size)).cast(
                    form
                )
                _scatter(
                    cells,
                    base + here + begin * inner.target,
                    Axis(count, inner.source, inner.target),
                    data,
                    0,
                )
            continue
        most = max(1, _CHUNK_BYTES // max(rows.source * item, 1))
        for begin in range(0, rows.size, most):
            count = min(most, rows.size - begin)
            size = ((count - 1) * rows.source + span) * item
            data = memoryview(source.read_at(start + (there + begin * rows.source) * item, size)).cast(form)
            at = base + here + begin * rows.target
            if count > inner.size:  # the longer loop runs in the interpreter's own code
                for index in range(inner.size):
                    axis = Axis(count, rows.source, rows.target)
                    _scatter(cells, at + index * inner.target, axis, data, index * inner.source)
            else:
                for index in range(count):
                    _scatter(cells, at + index * rows.target, inner, data, index * rows.source)


def _spans_meet(rows: Axis, span: int, item: int) -> bool:
    """Return whether the gaps between rows are so short that rows are read together."""
    return (rows.source - span) * item < _FEW_BYTES


def _scatter(cells: memoryview, at: int, axis: Axis, data: memoryview, begin: int) -> None:
    """Copy the elements of one dimension."""
    size, there, here = axis
    cells[at : at + (size - 1) * here + 1 : here] = data[begin : begin + (size - 1) * there + 1 : there]
