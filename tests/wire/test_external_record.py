"""Records that are made of parts of stored tensors have the bytes that numpy copies together; gaps and overlaps are refused."""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
from given_plugins import Plugin
from hypothesis import given, strategies as st
from inside.wire import (
    ExternalRecord,
    Folder,
    OpenedStores,
    StorePlace,
    Weight,
    WeightRecord,
    regions_problems,
)

from graphwire.hooks import Chunk, Registry, StoredTensor, StoreFolder, StoreIndex
from graphwire.schema import FileFacts, RecordReference, Region, StoreReference, WeightReferences

DTYPES = {"uint8": "u1", "int16": "<i2", "float32": "<f4", "int64": "<i8", "complex128": "<c16"}
RECORD = "data/weights/weight_0"
Side = tuple[int, int, int]
"""The first index, the count and the step of a box in one dimension."""


@dataclass
class GivenStore:
    """A store of given tensors."""

    index: StoreIndex
    name: str = "given"
    takes_storages: bool = False

    def find(self, folder: StoreFolder, location: str) -> str | None:
        return location

    def open(self, folder: StoreFolder, location: str) -> StoreIndex:
        return self.index

    def keeps(self, dtype: str) -> bool:
        return False

    def write(self, folder: StoreFolder, location: str, tensors: Any) -> Any:
        return location, {}


@st.composite
def cuts(draw: st.DrawFn, shape: list[int], most: int, *, steps: bool) -> list[list[Side]]:
    """Boxes that cover a shape: cut in two again and again, at an index or into even and odd ones."""
    boxes: list[list[Side]] = [[(0, size, 1) for size in shape]]
    for _ in range(draw(st.integers(0, most)) if shape else 0):
        box = boxes.pop(draw(st.integers(0, len(boxes) - 1)))
        axis = draw(st.integers(0, len(shape) - 1))
        first, count, step = box[axis]
        if steps and draw(st.booleans()):
            sides = [(first, (count + 1) // 2, 2 * step), (first + step, count // 2, 2 * step)]
        else:
            at = draw(st.integers(0, count))
            sides = [(first, at, step), (first + at * step, count - at, step)]
        boxes += [[*box[:axis], side, *box[axis + 1 :]] for side in sides if side[1]]
    return draw(st.permutations(boxes))


def index_of(box: list[Side]) -> tuple[slice, ...]:
    return tuple(slice(first, first + (count - 1) * step + 1, step) for first, count, step in box)


def strides_in_elements(array: numpy.ndarray[Any, Any]) -> list[int]:
    return [stride // array.itemsize for stride in array.strides]


def stored(data: st.DataObject, folder: Path, name: str, array: numpy.ndarray[Any, Any]) -> StoredTensor:
    """Write an array to files, in chunks of any order of dimensions, and describe it."""
    chunks = []
    for number, box in enumerate(data.draw(cuts(list(array.shape), 3, steps=False))):
        part = array[index_of(box)]
        order = data.draw(st.permutations(range(part.ndim)))
        turned = numpy.ascontiguousarray(part.transpose(order)) if part.ndim else part
        strides = [0] * part.ndim
        for axis, stride in zip(order, strides_in_elements(turned), strict=True):
            strides[axis] = stride
        before = data.draw(st.integers(0, 3))
        file = f"{name}-{number}"
        (folder / file).write_bytes(b"x" * before + turned.tobytes() + b"y")
        given_strides = (
            tuple(strides) if order != list(range(part.ndim)) or data.draw(st.booleans()) else None
        )
        first = tuple(low for low, _, _ in box)
        chunks.append(Chunk(file, before, first, tuple(count for _, count, _ in box), given_strides))
    dtype = next(each for each, code in DTYPES.items() if numpy.dtype(code) == array.dtype)
    return StoredTensor(dtype, array.shape, tuple(chunks))


@given(st.data(), st.sampled_from(sorted(DTYPES)))
def test_a_record_is_what_numpy_makes_of_its_regions(data: st.DataObject, dtype: str) -> None:
    shape = data.draw(st.lists(st.integers(1, 5), max_size=3))
    record = numpy.arange(math.prod(shape)).astype(DTYPES[dtype]).reshape(shape)
    strides = strides_in_elements(record)
    regions, tensors = [], {}
    with tempfile.TemporaryDirectory() as path:
        for number, box in enumerate(data.draw(cuts(shape, 4, steps=True))):
            part = record[index_of(box)]
            order = data.draw(st.permutations(range(part.ndim)))  # the dimensions of the stored tensor
            taken = part.transpose(order) if part.ndim else part
            around = [
                (data.draw(st.integers(0, 2)), data.draw(st.integers(1, 2)), data.draw(st.integers(0, 2)))
                for _ in order
            ]
            sides = [[first, size, step] for (first, step, _), size in zip(around, taken.shape, strict=True)]
            whole = numpy.zeros(
                [
                    first + (size - 1) * step + 1 + after
                    for (first, step, after), size in zip(around, taken.shape, strict=True)
                ],
                dtype=record.dtype,
            )
            whole[index_of([(first, count, step) for first, count, step in sides])] = taken
            name = f"tensor{number}"
            tensors[name] = stored(data, Path(path), name, whole)
            offset = sum(first * stride for (first, _, _), stride in zip(box, strides, strict=True))
            placed = [strides[axis] * box[axis][2] for axis in order]
            regions.append(Region(name, dtype, list(whole.shape), 0, sides, offset, placed))
        reference = RecordReference(record.nbytes, regions)
        assert list(regions_problems(reference, 1, "here")) == []
        files = {each.name: FileFacts(each.stat().st_size) for each in Path(path).iterdir()}
        registry = Registry.of(Plugin(weight_stores=[GivenStore(StoreIndex(tensors, files))]))
        references = WeightReferences([StoreReference("given", "")], {RECORD: reference})
        with OpenedStores(references, [StorePlace("given", Folder(path), "")], registry) as stores:
            assert stores.problems([reference]) == []
            made = ExternalRecord(stores, RECORD, reference)
            assert bytes(made.view()) == record.tobytes()
    if regions:  # another number of bytes is refused; in a dense region of its own, also the same bytes twice
        place = data.draw(st.integers(0, len(regions) - 1))
        for changed in (regions[:place] + regions[place + 1 :], [*regions, regions[place]]):
            assert not changed or list(regions_problems(RecordReference(record.nbytes, changed), 1, "here"))


@given(st.data())
def test_a_record_is_covered_if_its_weights_are_all_of_it(data: st.DataObject) -> None:
    """Weights that follow one another, each in any order of dimensions, are a record; with a gap or an overlap they are not."""
    weights, at = [], 0
    for number in range(data.draw(st.integers(1, 4))):
        array = numpy.zeros(data.draw(st.lists(st.integers(1, 3), max_size=3)), dtype="<f4")
        turned = array.transpose(data.draw(st.permutations(range(array.ndim))))
        sizes, strides = tuple(turned.shape), tuple(strides_in_elements(turned))
        weights.append(Weight(f"w{number}", "float32", sizes, strides, at, True))
        at += array.size
    covered = WeightRecord(RECORD, 4 * at, data.draw(st.permutations(weights)))
    assert covered.is_covered()
    assert not WeightRecord(RECORD, 4 * at + 4, weights).is_covered()
    chosen = data.draw(st.integers(0, len(weights) - 1))
    for change in (
        {"offset": weights[chosen].offset + 1},
        {"is_plain": False},
        {"sizes": (*weights[chosen].sizes, 2), "strides": (*weights[chosen].strides, 1)},
    ):
        assert not WeightRecord(
            RECORD, 4 * at, [*weights[:chosen], weights[chosen]._replace(**change), *weights[chosen + 1 :]]
        ).is_covered()
    if len(weights) > 1:
        assert not WeightRecord(RECORD, 4 * at, weights[:chosen] + weights[chosen + 1 :]).is_covered()
