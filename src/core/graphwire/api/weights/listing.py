"""Lists the weights of a program, with the place of each, and writes them to a store."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from graphwire.api.weights.saving import new_place
from graphwire.errors import ArchiveError, EncodeError
from graphwire.hooks import Registry
from graphwire.schema import WeightReferences
from graphwire.wire import WEIGHTS, Payloads, extent
from graphwire.wire import weights as wire_weights
from graphwire.wire.archive import file_name
from graphwire.wire.remote import RemoteFile


class WeightInfo(msgspec.Struct, frozen=True):
    """A weight of a program, and where its elements are."""

    name: str
    """The qualified name."""
    dtype: str
    """torch's name of the element type, such as `float32`; empty for a weight that a constant codec encodes."""
    shape: list[int]
    """Its sizes."""
    nbytes: int
    """The size of its elements in bytes."""
    place: str
    """Where its elements are: `file`, the location of a store and its stored tensor, or `nowhere`."""
    tied_to: str = ""
    """The earlier weight that is the same tensor; empty if there is none."""


def list_weights(payloads: Payloads, references: WeightReferences | None, divided: int) -> list[WeightInfo]:
    """Return the weights of a program, in the order of its state dict. Reads no elements.

    Args:
        divided: between how many ranks the weights are divided if none was chosen; otherwise 0.
    """
    ranks = references.ranks if references is not None and divided else [{}]
    of_each = f" (another part on each of {divided} ranks)"
    return list(_weights(payloads, dict.fromkeys(ranks[0], of_each)))


def _weights(payloads: Payloads, remarks: Mapping[str, str]) -> Iterator[WeightInfo]:
    for name, meta in payloads.weights.items():
        described = meta.tensor_meta
        record = payloads.records.get(WEIGHTS + meta.path_name)
        if meta.placement is not None:
            place = f"nowhere ({meta.placement})"
        elif isinstance(record, wire_weights.ExternalRecord):
            place = _place(record, remarks.get(WEIGHTS + meta.path_name, ""))
        else:
            place = "file" if record is not None else "nowhere"
        sizes = [] if described is None else [size.as_int or 0 for size in described.sizes]
        nbytes = 0
        if described is not None and (needed := extent(described)) is not None:
            nbytes = min(needed, record.nbytes) if record is not None else needed
        yield WeightInfo(
            name,
            "" if described is None else described.dtype_text,
            sizes,
            nbytes,
            place,
            meta.same_as or "",
        )
    for name, why in payloads.unread.items():
        yield WeightInfo(name, "", [], 0, f"not read: {why}")


def _place(record: wire_weights.ExternalRecord, remark: str) -> str:
    regions = record.reference.regions
    if not regions:
        return "nowhere"
    first = regions[0]
    more = f" and {len(regions) - 1} more" if len(regions) > 1 else ""
    part = remark or ("" if first.box is None else " (part)")
    return f"{record.stores.shown(first.store)}: {first.tensor}{part}{more}"


def export_weights(
    payloads: Payloads, path: str | os.PathLike[str] | RemoteFile, registry: Registry
) -> list[str]:
    """Write the weights of a program to new files of the store that the path is of.

    Returns:
        The names of the weights that the store cannot hold.

    Raises:
        ArchiveError: no store recognizes the path, or there is such a file.
    """
    exists = (
        path.ask("look for the file", "exists", path.path)
        if isinstance(path, RemoteFile)
        else Path(path).exists()
    )
    if exists:
        raise ArchiveError(f"{file_name(path)!r:.200} exists", remedy="Name a new file")
    place = new_place(path, None, registry)
    store = wire_weights.store_named(registry, place.kind)
    if store.takes_storages:
        raise EncodeError(
            f"the store {store.name!r} keeps storages, not weights by name",
            remedy="Name a file such as model.safetensors",
        )
    records = wire_weights.weight_records([payloads])
    written = wire_weights.write_weights(store, place, records, payloads.records)
    kept = {weight.name for name in written.records for weight in records[name].weights}
    return [name for name in payloads.weights if name not in kept]
