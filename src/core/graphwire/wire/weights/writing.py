"""Writes the weights of programs to a store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from graphwire.errors import EncodeError
from graphwire.process import Threads
from graphwire.registry.calls import blamed
from graphwire.registry.interfaces import NewTensor, WeightStore
from graphwire.schema import ITEM_SIZES, RecordReference, Region
from graphwire.wire.archive.digests import digests_of
from graphwire.wire.archive.source import BufferSource, allocate
from graphwire.wire.payloads import Record
from graphwire.wire.weights.matching import Weight, WeightRecord
from graphwire.wire.weights.opened_stores import StorePlace
from graphwire.wire.weights.reference_table import Axis, copy_box, is_contiguous, row_major


class Written(NamedTuple):
    """What a store keeps of the weights of programs."""

    location: str
    """What the store opens, relative to its folder."""
    records: dict[str, RecordReference]
    """The regions and the digest of each record that the store keeps. The others stay in the program's file."""


def write_weights(
    store: WeightStore, place: StorePlace, records: Mapping[str, WeightRecord], views: Mapping[str, Record]
) -> Written:
    """Write weights to new files of a store. Whatever the store cannot keep exactly is dropped.

    Args:
        records: the records to write.
        views: the bytes of each record.

    Raises:
        EncodeError: the store cannot hold the weights.
        OSError: the folder is not writable, or the disk is full. The program's file is as it was.
    """
    if store.takes_storages:
        return _write_storages(store, place, views)
    tensors: dict[str, NewTensor] = {}
    parts: dict[str, list[tuple[str, Weight]]] = {}
    for name, record in records.items():
        if not record.is_covered() or not all(store.keeps(each.dtype) for each in record.weights):
            continue
        parts[name] = []
        for part in record.distinct():
            given = _free_name(part.name, tensors)
            tensors[given] = NewTensor(part.dtype, part.sizes, part.nbytes, _elements(views[name], part))
            parts[name].append((given, part))
    # The digests take as long as the disk, so both are done at once.
    with Threads(1, "graphwire-digests") as thread:
        hashed = thread.submit(digests_of, {name: views[name].view for name in parts})
        location, names = _write(store, place, tensors)
        digests = hashed.result()
    found = {}
    for name, members in parts.items():
        regions = [_region(names[given], part) for given, part in members]
        found[name] = RecordReference(records[name].nbytes, regions, digests[name])
    return Written(location, found)


def _write_storages(store: WeightStore, place: StorePlace, views: Mapping[str, Record]) -> Written:
    """Write whole records, named by their digests. Equal ones are written once."""
    digests = digests_of({name: each.view for name, each in views.items()})
    tensors = {
        digests[name]: NewTensor("uint8", (each.nbytes,), each.nbytes, each.view)
        for name, each in views.items()
    }
    location, names = _write(store, place, tensors)
    found = {}
    for name, each in views.items():
        region = Region(names[digests[name]], "uint8", [each.nbytes])
        found[name] = RecordReference(each.nbytes, [region], digests[name])
    return Written(location, found)


def _write(
    store: WeightStore, place: StorePlace, tensors: Mapping[str, NewTensor]
) -> tuple[str, Mapping[str, str]]:
    location, names = store.write(place.folder, place.location, dict(tensors))
    if lost := [name for name in tensors if type(names.get(name)) is not str]:
        raise blamed(EncodeError(f"the weight store {store.name!r} did not write {lost[0]!r:.200}"), store)
    return location, names


def _free_name(name: str, taken: Mapping[str, object]) -> str:
    """Return a name for a weight; programs that are saved together may have different weights of the same name."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}@{number}"
    return free


def _elements(record: Record, part: Weight) -> Callable[[], memoryview]:
    """Return a function that returns a weight's elements, row-major: a view of the record where they are in that order."""
    item = ITEM_SIZES[part.dtype]

    def view() -> memoryview:
        whole = record.view()
        if is_contiguous(part.sizes, part.strides):
            return whole[part.offset * item : part.offset * item + part.nbytes]
        memory = allocate(part.nbytes)
        axes = [Axis(*each) for each in zip(part.sizes, part.strides, row_major(part.sizes), strict=True)]
        copy_box(BufferSource(whole), part.offset * item, memory, 0, axes, item)
        return memory

    return view


def _region(stored: str, part: Weight) -> Region:
    strides = None if is_contiguous(part.sizes, part.strides) else [max(each, 1) for each in part.strides]
    return Region(stored, part.dtype, list(part.sizes), offset=part.offset, strides=strides)
