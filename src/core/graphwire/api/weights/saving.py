"""Puts the weights of saved programs where the caller wants them, and describes where they are."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from graphwire.api.weights.choices import Blobs, Checkpoint, Default, SaveWeights
from graphwire.errors import (
    ArchiveError,
    EncodeError,
    GraphwireError,
    GraphwireWarning,
    Problem,
    WeightsError,
)
from graphwire.hooks import PROJECT, Registry
from graphwire.schema import PluginRequirement, Program, RecordReference, StoreReference, WeightReferences
from graphwire.wire import Payloads, Record
from graphwire.wire import weights as wire_weights
from graphwire.wire.remote import RemoteFile, UniversalPath, located

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
    records = wire_weights.weight_records(payloads)
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
        raise ArchiveError(
            f"the file could not refer to {place.shown!r}, which is not at or below its folder",
            remedy=f"Write the weights beside it: {f'{folder}/{Path(place.location).name}'!r}",
        )
    written = wire_weights.write_weights(
        wire_weights.store_named(registry, place.kind), place, records, views
    )
    place = place._replace(location=written.location)
    return checked(_with_files(place, folder, registry, written.records))


def checked(references: WeightReferences) -> WeightReferences:
    """Return references that a load accepts: what a store returns is foreign.

    Raises:
        EncodeError: a load would refuse them.
    """
    try:
        wire_weights.read_references(wire_weights.write_references(references))
    except (TypeError, ValueError, OverflowError, RecursionError, GraphwireError) as error:
        kinds = ", ".join(each.kind for each in references.stores)
        raise EncodeError(
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
        return wire_weights.RemoteFolder(file).path
    if not isinstance(file, (str, os.PathLike)):
        return None
    return Path(os.fsdecode(file)).absolute().parent.resolve()


def new_place(
    location: str | os.PathLike[str] | UniversalPath | RemoteFile, kind: str | None, registry: Registry
) -> wire_weights.StorePlace:
    """Return the place of a store that may not exist yet."""
    place = located(location)
    if kind is None:
        return wire_weights.find_store(registry, place, None, links=False)
    if isinstance(place, RemoteFile):
        return wire_weights.StorePlace(kind, wire_weights.RemoteFolder(place.as_folder()), "")
    return wire_weights.StorePlace(kind, wire_weights.Folder(place), "")


def _with_files(
    place: wire_weights.StorePlace,
    folder: Path | str | None,
    registry: Registry,
    records: dict[str, RecordReference],
) -> WeightReferences:
    """Return references to a store's records, with what identifies the files."""
    index = wire_weights.store_named(registry, place.kind).open(place.folder, place.location)
    used = {region.tensor for each in records.values() for region in each.regions}
    files = {chunk.file for name in used for chunk in index.tensors[name].chunks}
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
    if problem := wire_weights.location_problem(relative):
        raise ArchiveError(f"the file cannot refer to the folder {relative!r:.200}: {problem}")
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


def warn_of_prefix(prefix: tuple[str, str], place: wire_weights.StorePlace) -> None:
    """Warn the caller of a public function that weights were found under names with another prefix."""
    old, new = prefix
    if old or new:
        change = " and ".join(
            [*([f"without {old!r}"] if old else ()), *([f"with {new!r} before them"] if new else ())]
        )
        warnings.warn(
            f"{place.shown} has the weights under other names: {change}", GraphwireWarning, stacklevel=5
        )


def _refer(
    chosen: Checkpoint,
    folder: Path | str | None,
    records: Mapping[str, wire_weights.WeightRecord],
    views: Mapping[str, Record],
    registry: Registry,
) -> WeightReferences:
    """Return references to weights that exist, after a comparison."""
    place = wire_weights.find_store(registry, chosen.location, chosen.kind, links=True)
    index = wire_weights.store_named(registry, place.kind).open(place.folder, place.location)
    tables, problems = [], list[Problem]()
    ranks = chosen.ranks or 1
    for rank in range(ranks):
        match = wire_weights.match_records(
            records, index.tensors, chosen.names, rank=(rank, ranks), shard=chosen.shard
        )
        tables.append(match.records)
        if rank == chosen.rank:
            problems = match.missing
            warn_of_prefix(match.prefix, place)
    table = tables[chosen.rank]
    stores = [StoreReference(place.kind, place.location, None)]
    if chosen.check == "bytes":
        with wire_weights.OpenedStores(WeightReferences(stores), [place], registry) as opened:
            differing = list(_differences(table, views, records, opened))
            problems += [problem for _, problem in differing]
            for name, _ in differing:
                for each in tables:
                    each.pop(name, None)
            digests = wire_weights.digests_of({name: views[name].view for name in table})
            tables = [
                _with_digests(each, table, digests, opened)
                if each is not table
                else _digested(table, digests)
                for each in tables
            ]
    if problems and chosen.rest == "error":
        raise WeightsError(
            problems,
            remedy='Pass Checkpoint(…, names=) with their names there, or rest="file" to keep them in the program\'s file',
        )
    references = _with_files(place, folder, registry, tables[chosen.rank])
    return references if chosen.ranks is None else _divided(references, tables, chosen.rank)


def _digested(table: Mapping[str, RecordReference], digests: Mapping[str, str]) -> dict[str, RecordReference]:
    return {name: msgspec.structs.replace(each, sha256=digests[name]) for name, each in table.items()}


def _with_digests(
    table: Mapping[str, RecordReference],
    own: Mapping[str, RecordReference],
    digests: Mapping[str, str],
    opened: wire_weights.OpenedStores,
) -> dict[str, RecordReference]:
    """Return the records of another rank with the digests of what is stored, which nobody can compare with a program.

    Args:
        own: the records of the rank whose program is saved.
        digests: their digests.
    """
    others = {name: each for name, each in table.items() if own.get(name) != each}
    read = wire_weights.digests_of(
        {name: wire_weights.ExternalRecord(opened, name, each).view for name, each in others.items()}
    )
    return _digested(table, {**digests, **read})


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
    records: Mapping[str, wire_weights.WeightRecord],
    opened: wire_weights.OpenedStores,
) -> Iterator[tuple[str, Problem]]:
    """Yield each record whose stored bytes differ from the program's."""
    for name, reference in table.items():
        stored = wire_weights.ExternalRecord(opened, name, reference).view()
        own = views[name].view()
        for start in range(0, own.nbytes, _COMPARED_BYTES):
            end = start + _COMPARED_BYTES
            if bytes(own[start:end]) != bytes(stored[start:end]):
                weight = records[name].weights[0].name
                yield name, Problem(weight, "weight", "its elements differ from the stored ones")
                break
