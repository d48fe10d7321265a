"""Puts the weights of saved programs where the caller wants them, and describes where they are."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from graphwire import errors
from graphwire.api.weights import Blobs, Checkpoint, Default, SaveWeights
from graphwire.registry.calls import blamed
from graphwire.registry.interfaces import PROJECT
from graphwire.registry.registry import Registry
from graphwire.schema import PluginRequirement, Program, RecordReference, StoreReference, WeightReferences
from graphwire.wire.archive.digests import digests_of
from graphwire.wire.archive.source import RemoteFile, UniversalPath, file_name, located
from graphwire.wire.payloads import WEIGHTS, Payloads, Record, extent
from graphwire.wire.weights.external_record import ExternalRecord
from graphwire.wire.weights.folder import Folder, RemoteFolder
from graphwire.wire.weights.matching import WeightRecord, match_records, weight_records
from graphwire.wire.weights.opened_stores import OpenedStores, StorePlace, find_store, store_named
from graphwire.wire.weights.reference_table import location_problem, read_references, write_references
from graphwire.wire.weights.writing import write_weights

EXTERNAL = "external-weights"
"""The feature of programs whose weights are not all in their file."""
_COMPARED_BYTES = 1 << 20


def references_for(
    programs: Mapping[str, tuple[Program, Payloads]], file: object, weights: SaveWeights, registry: Registry
) -> WeightReferences | None:
    """Write or find the weights of programs outside of their file, and return references to them; None if they go into the file.

    Args:
        programs: records and payloads by name.
        file: the file that is going to be written: a path, or an object without a folder.
        weights: where the weights are.

    Raises:
        WeightsError: weights of a `Checkpoint` are missing or differ; the error lists all of them.
        ArchiveError: no store recognizes the place.
    """
    if isinstance(weights, Default):
        return None
    payloads = [each for _, each in programs.values()]

    records = weight_records(payloads)
    views: dict[str, Record] = {
        name: each.records[name] for each in payloads for name in records if name in each.records
    }
    if weights is None:
        return WeightReferences(
            records={name: RecordReference(each.nbytes) for name, each in records.items()}
        )
    folder = folder_of(file)
    if isinstance(weights, Checkpoint):
        return _refer(weights, folder, records, views, registry)
    kind = "blobs" if isinstance(weights, Blobs) else None
    location = weights.location if isinstance(weights, Blobs) else weights
    place = new_place(location, kind, registry)
    if kind is None and folder is not None and relative_folder(place.folder.path, folder) is None:
        raise errors.ArchiveError(
            f"the file could not refer to {place.shown!r}, which is not at or below its folder",
            remedy=f"Write the weights beside it: {f'{folder}/{Path(place.location).name}'!r}",
        )

    written = write_weights(store_named(registry, place.kind), place, records, views)
    place = place._replace(location=written.location)
    return checked(_with_files(place, folder, registry, written.records))


def checked(references: WeightReferences) -> WeightReferences:
    """Return references that a load accepts: what a store returns is foreign.

    Raises:
        EncodeError: a load would refuse them.
    """
    try:
        read_references(write_references(references))
    except (TypeError, ValueError, OverflowError, RecursionError, errors.GraphwireError) as error:
        kinds = ", ".join(each.kind for each in references.stores)
        raise errors.EncodeError(
            f"the weight store {kinds!r} returns what no file can refer to ({error})",
            remedy="Report it to its authors, or choose another place for the weights",
        ) from error
    return references


def requires_external(
    programs: Mapping[str, tuple[Program, Payloads]],
) -> dict[str, tuple[Program, Payloads]]:
    """Return programs that state that not all of their weights are in the file."""
    return {
        name: (msgspec.structs.replace(each, requires=sorted({*each.requires, EXTERNAL})), payloads)
        for name, (each, payloads) in programs.items()
    }


def without_external(program: Program) -> Program:
    """Return a program that states that all of its weights are in the file."""
    if EXTERNAL not in program.requires:
        return program
    return msgspec.structs.replace(program, requires=[each for each in program.requires if each != EXTERNAL])


def folder_of(file: object) -> Path | str | None:
    """Return the folder of a file that is going to be written, or its URL; None for an object without a path."""
    if isinstance(file, RemoteFile):
        return RemoteFolder(file).path
    if not isinstance(file, (str, os.PathLike)):
        return None
    return Path(os.fsdecode(file)).absolute().parent.resolve()


def new_place(
    location: str | os.PathLike[str] | UniversalPath | RemoteFile, kind: str | None, registry: Registry
) -> StorePlace:
    """Return the place of a store that may not exist yet."""
    place = located(location)
    if kind is None:
        return find_store(registry, place, None, links=False)

    if isinstance(place, RemoteFile):
        return StorePlace(kind, RemoteFolder(place.as_folder()), "")
    return StorePlace(kind, Folder(place), "")


def _with_files(
    place: StorePlace,
    folder: Path | str | None,
    registry: Registry,
    records: dict[str, RecordReference],
) -> WeightReferences:
    """Return references to a store's records, with what identifies the files."""
    store = store_named(registry, place.kind)
    index = store.open(place.folder, place.location)
    used = {region.tensor for each in records.values() for region in each.regions}
    files: set[str] = set()
    for name in used:
        found = index.tensors.get(name)
        if found is None or any(
            isinstance(each.file, str) and each.file not in index.files for each in found.chunks
        ):
            problem = f"the weight store {place.kind!r} does not find {name!r:.200}, which it has"
            raise blamed(errors.EncodeError(problem), store)
        for chunk in found.chunks:
            files |= {chunk.file} if isinstance(chunk.file, str) else index.files.keys()
    reference = StoreReference(
        place.kind,
        place.location,
        relative_folder(place.folder.path, folder),
        {name: index.files[name] for name in sorted(files)},
    )
    return WeightReferences([reference], records, providers=providers_of([place.kind], registry))


def relative_folder(path: Path | str, folder: Path | str | None) -> str | None:
    """Return the folder of a store relative to that of the program's file; None if it is not at or below it.

    Raises:
        ArchiveError: it is below, and a name on the way is not portable.
    """
    if folder is None or isinstance(path, str) != isinstance(folder, str):
        return None
    if isinstance(path, str):  # URLs
        if path != folder and not path.startswith(f"{folder}/"):
            return None
        relative = path[len(str(folder)) + 1 :] or "."
    else:
        relative = os.path.relpath(os.path.realpath(path), folder).replace(os.sep, "/")
    if relative == ".":
        return ""
    if relative == ".." or relative.startswith("../") or Path(relative).is_absolute():
        return None

    if problem := location_problem(relative):
        raise errors.ArchiveError(f"the file cannot refer to the folder {relative!r:.200}: {problem}")
    return relative


def providers_of(kinds: list[str], registry: Registry) -> dict[str, PluginRequirement]:
    """Return the distributions that provide stores which graphwire does not include."""
    found = {}
    for kind in kinds:
        owner = registry.owner_of("weight_store", kind)
        if owner is not None and owner.distribution not in ("", PROJECT):
            found[kind] = PluginRequirement(owner.distribution, owner.version, [f"weight_store:{kind}"])
    return found


# --------------------------------------------------------------------------------------------------------- checkpoints


def warn_of_prefix(prefix: tuple[str, str], place: StorePlace) -> None:
    """Warn the caller of a public function that weights were found under names with another prefix."""
    old, new = prefix
    if old or new:
        change = " and ".join(
            [*([f"without {old!r}"] if old else ()), *([f"with {new!r} before them"] if new else ())]
        )
        errors.warn(f"{place.shown} has the weights under other names: {change}")


def _refer(
    chosen: Checkpoint,
    folder: Path | str | None,
    records: Mapping[str, WeightRecord],
    views: Mapping[str, Record],
    registry: Registry,
) -> WeightReferences:
    """Return references to weights that exist, after a comparison."""
    place = find_store(registry, chosen.location, chosen.kind, links=True)
    index = store_named(registry, place.kind).open(place.folder, place.location)
    tables, problems = [], list[errors.Problem]()
    ranks = chosen.ranks or 1
    for rank in range(ranks):
        match = match_records(records, index.tensors, chosen.names, rank=(rank, ranks), shard=chosen.shard)
        tables.append(match.records)
        if rank == chosen.rank:
            problems = match.missing
            warn_of_prefix(match.prefix, place)
    table = tables[chosen.rank]
    stores = [StoreReference(place.kind, place.location, None)]
    if chosen.check == "bytes":
        with OpenedStores(WeightReferences(stores), [place], registry) as opened:
            differing = list(_differences(table, views, records, opened))
            problems += [problem for _, problem in differing]
            for name, _ in differing:
                for each in tables:
                    each.pop(name, None)
            digests = digests_of({name: views[name].view for name in table})
            tables = [_with_digests(each, table, digests, opened) for each in tables]
    if problems and chosen.rest == "error":
        raise errors.WeightsError(
            problems,
            remedy='Pass Checkpoint(…, names=) with their names there, or rest="file" to keep them in the program\'s file',
        )
    references = _with_files(place, folder, registry, tables[chosen.rank])
    return references if chosen.ranks is None else _divided(references, tables, chosen.rank)


def _with_digests(
    table: Mapping[str, RecordReference],
    own: Mapping[str, RecordReference],
    digests: Mapping[str, str],
    opened: OpenedStores,
) -> dict[str, RecordReference]:
    """Return the records of a rank with the digests of what is stored, which for other ranks nobody can compare with a program.

    Args:
        own: the records of the rank whose program is saved.
        digests: their digests.
    """

    others = {name: each for name, each in table.items() if own.get(name) != each}
    read = digests_of({name: ExternalRecord(opened, name, each).view for name, each in others.items()})
    found = {**digests, **read}
    return {name: msgspec.structs.replace(each, sha256=found[name]) for name, each in table.items()}


def _divided(
    references: WeightReferences, tables: list[dict[str, RecordReference]], rank: int
) -> WeightReferences:
    """Return references with the records that all ranks have, and those that differ."""
    own = tables[rank]
    same = {name: each for name, each in own.items() if all(table.get(name) == each for table in tables)}
    ranks = [{name: each for name, each in table.items() if name not in same} for table in tables]
    return checked(msgspec.structs.replace(references, records=same, ranks=ranks))


def _differences(
    table: Mapping[str, RecordReference],
    views: Mapping[str, Record],
    records: Mapping[str, WeightRecord],
    opened: OpenedStores,
) -> Iterator[tuple[str, errors.Problem]]:
    """Yield each record whose stored bytes differ from the program's."""
    for name, reference in table.items():
        stored = ExternalRecord(opened, name, reference).view()
        own = views[name].view()
        for start in range(0, own.nbytes, _COMPARED_BYTES):
            end = start + _COMPARED_BYTES
            if bytes(own[start:end]) != bytes(stored[start:end]):
                weight = records[name].weights[0].name
                yield name, errors.Problem(weight, "weight", "its elements differ from the stored ones")
                break


# ----------------------------------- lists the weights of a program, with the place of each, and writes them to a store


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
        elif isinstance(record, ExternalRecord):
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


def _place(record: ExternalRecord, remark: str) -> str:
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
        raise errors.ArchiveError(f"{file_name(path)!r:.200} exists", remedy="Name a new file")
    place = new_place(path, None, registry)

    store = store_named(registry, place.kind)
    if store.takes_storages:
        raise errors.EncodeError(
            f"the store {store.name!r} keeps storages, not weights by name",
            remedy="Name a file such as model.safetensors",
        )

    records = weight_records([payloads])

    written = write_weights(store, place, records, payloads.records)
    kept = {weight.name for name in written.records for weight in records[name].weights}
    return [name for name in payloads.weights if name not in kept]
