"""Read a whole file, check all of it, and return what a reader finds in it as neutral JSON (`docs/spec/neutral.md`)."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import msgspec

from graphwire.analysis.canonical import content_hash
from graphwire.analysis.neutral import (
    canonical_json,
    digest_of_elements,
    neutral_record,
    pairs,
    tagged,
)
from graphwire.api.archive import Archive, open
from graphwire.api.error_boundary import reading
from graphwire.errors import Problem, ValidationError
from graphwire.hooks import default_registry
from graphwire.schema import PayloadMeta, SchemaVersion, WeightReferences
from graphwire.wire import CONSTANTS, DEFAULT_LIMITS, SAMPLE_INPUTS, WEIGHTS, Payloads
from graphwire.wire.archive import MANIFEST, open_source
from graphwire.wire.package import NO_MANIFEST, PROVIDERS, read_document
from graphwire.wire.remote import RemoteFile, UniversalPath, located

_BARE_TREES: Final = frozenset({".json", ".msgpack", ".cbor"})
_ALLOWED: Final = frozenset({"executable", "no-weights", "unowned", "unread"})
"""The kinds of problems that a valid file may have: extra files with code, weights that whoever loads it gives,
bytes between records, and pickles."""


@reading("file")
def neutral(file: str | os.PathLike[str] | UniversalPath) -> bytes:
    """Return the canonical neutral JSON of a file.

    Args:
        file: the path or URL of an archive, or of a document that ends with `.json`, `.msgpack` or `.cbor`: a bare tree.

    Raises:
        ValidationError: the file violates rules of the format; the error lists all of them.
        GraphwireError: the file cannot be read.
    """
    place: Any = located(file)
    name = place.name if isinstance(place, RemoteFile) else os.fspath(place)
    if (suffix := Path(name).suffix) in _BARE_TREES:
        wire_format = default_registry().wire_format_of_suffix(suffix)
        with closing(open_source(place, DEFAULT_LIMITS)) as source:
            data = source.read_at(0, source.size)
        return canonical_json({"tree": tagged(read_document(data, wire_format, DEFAULT_LIMITS))})
    with open(place) as archive:
        problems = [each for each in archive.problems() if not _is_allowed(each)]
        if problems:
            raise ValidationError(problems)
        return canonical_json(_archive_form(archive))


def _is_allowed(problem: Problem) -> bool:
    return problem == NO_MANIFEST or problem.kind in _ALLOWED


def _archive_form(archive: Archive) -> dict[str, Any]:
    programs = {name: archive.program_of(name) for name in archive.methods}
    references = archive.weights.references
    return {
        "archive": _record_forms(archive),
        "programs": pairs((name, _program_form(archive, name)) for name in programs),
        "payloads": pairs((name, _payload_forms(archive, name)) for name in programs),
        "hash": pairs((name, content_hash(program)) for name, program in programs.items()),
    } | ({} if references is None else {"references": neutral_record(references)})


def _record_forms(archive: Archive) -> dict[str, Any]:
    """Return what the archive consists of, except what depends on the wire format."""
    left_out = {*archive.documents, MANIFEST, PROVIDERS}
    records = [
        {"name": name, "nbytes": tagged(archive.record_size(name)), "sha256": digest}
        for name, digest in archive.record_digests().items()
        if name not in left_out
    ]
    return {"layout": archive.layout.partition(" ")[0], "manifest": archive.has_manifest, "records": records}


def _program_form(archive: Archive, name: str) -> Any:
    """Return a program with the schema version of its document."""
    major, _, minor = archive.report(name).schema_version.partition(".")
    version = SchemaVersion(int(major), int(minor or 0))
    program = msgspec.structs.replace(archive.program_of(name), schema_version=version)
    if archive.payloads_of(name).examples is not None:  # from a pickle, which other readers need not read
        program.example_inputs = None
    return neutral_record(program)


# ------------------------------------------------------------------------------------------------------------- payloads


def _payload_forms(archive: Archive, name: str) -> dict[str, Any]:
    payloads = archive.payloads_of(name)
    samples = {} if payloads.examples is not None else payloads.sample_inputs
    return {
        kind: pairs((fqn, _payload_form(meta, folder, payloads, archive)) for fqn, meta in table.items())
        for kind, folder, table in (
            ("weights", WEIGHTS, payloads.weights),
            ("constants", CONSTANTS, payloads.constants),
            ("sample_inputs", SAMPLE_INPUTS, samples),
        )
    }


def _payload_form(meta: PayloadMeta, folder: str, payloads: Payloads, archive: Archive) -> dict[str, Any]:
    name, references = folder + meta.path_name, archive.weights.references
    if references is not None and meta.shared is not None and name not in archive.names:
        name = meta.shared  # the constant has no copy of its own
    where = "nowhere" if meta.placement is not None else _where(name, references)
    form = neutral_record(meta) | {"where": where}
    record = payloads.records.get(name)
    is_here = where in ("file", "store") and not meta.use_pickle
    if is_here and record is not None and meta.tensor_meta is not None:
        form["sha256"] = digest_of_elements(record.view(), meta.tensor_meta)
    return form


def _where(name: str, references: WeightReferences | None) -> str:
    """Return where a record is: in the file, in a store, or with whoever loads the file; `ranks` if that depends on the rank."""
    if references is None:
        return "file"
    if any(name in table for table in references.ranks):
        return "ranks"
    reference = references.records.get(name)
    if reference is None:
        return "file"
    return "store" if reference.regions else "caller"
