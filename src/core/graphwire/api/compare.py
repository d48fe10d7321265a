"""Compare programs (`diff`, `content_hash`, `canonicalize`) and list the readers that support one (`supports`, `targets`)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias, Unpack

from graphwire.analysis.validation import check_valid
from graphwire.api.archive import Archive, open
from graphwire.api.error_boundary import reading
from graphwire.api.options import OpenOptions, Ranges, options_of
from graphwire.api.programs import to_schema
from graphwire.api.targets import check_ranges
from graphwire.errors import EncodeError, Obstacle
from graphwire.evolve.documents import narrow_ranges
from graphwire.evolve.targets import obstacles_by_target, target_named
from graphwire.evolve.targets import supports as obstacles_of
from graphwire.hooks import registry_or_installed
from graphwire.schema import Program
from graphwire.schema.trees import to_tree
from graphwire.wire import Payloads
from graphwire.wire.archive import Readable
from graphwire.wire.remote import url_of

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from graphwire.analysis.diff import Diff

Source: TypeAlias = "Readable | Archive | Program | ExportedProgram"
"""A program in any form: a file, an open archive, schema records, or an `ExportedProgram`."""

_FILES = (str, os.PathLike, bytes, bytearray, memoryview)


@reading("source")
@options_of(open)
def canonicalize(source: Source, *, method: str | None = None, **options: Unpack[OpenOptions]) -> Program:
    """Return the canonical form of a program, as records.

    The result computes the same as the program, and is equal for two exports of one model.
    `graphwire.analysis.canonical.canonical_form` describes what is normalized. Files are read without torch.

    Args:
        source: a file, an open archive, schema records, or an `ExportedProgram`.
        method: the name of the program, for a file with several.

    Raises:
        As `content_hash`.
    """
    from graphwire.analysis.canonical import canonicalize as canonical_program

    with open_program(source, method, options) as (program, _):
        return canonical_program(program)


@reading("source")
@options_of(open)
def content_hash(
    source: Source,
    *,
    method: str | None = None,
    weights: bool = False,
    **options: Unpack[OpenOptions],
) -> str:
    """Return a hash of what a program computes, equal for two exports of one model.

    The hash is `gw1:` and a SHA-256 in hexadecimal, or `gw1w:` with weights. It does not depend on the file, the wire format
    or the writer, and later releases compute the same one, so it can be stored. It changes with any change of what the
    program computes. `docs/content-hash.md` lists what is hashed. Files are read without torch.

    Args:
        source: a file, an open archive, schema records, or an `ExportedProgram`.
        method: the name of the program, for a file with several.
        weights: whether to hash the elements of weights and constants too, which reads all of them.

    Raises:
        ArchiveError: the file is not an archive, is damaged, or does not contain that program. With `weights`, the checksum
            of every weight is verified first.
        SchemaError: the program is not valid.
        EncodeError: the schema cannot represent the program, or `weights` is true for records alone.
        LimitError: the program is nested too deeply.
    """
    from graphwire.analysis.canonical import content_hash as hash_of

    with open_program(source, method, options, checked=weights) as (program, payloads):
        return hash_of(program, _weights_of(payloads) if weights else None)


@reading("a", "b")
@options_of(open)
def diff(
    a: Source,
    b: Source,
    *,
    method: str | None = None,
    weights: bool = False,
    **options: Unpack[OpenOptions],
) -> Diff:
    """Return the differences of two programs: nodes by module and operator, inputs, outputs, ranges, versions, weights.

    Args:
        a: a file, an open archive, schema records, or an `ExportedProgram`.
        b: the same, for the other program.
        method: the name of the program in both files, for files with several.
        weights: whether to compare the elements of weights and constants too, which reads all of them.

    Raises:
        As `content_hash`.
    """
    from graphwire.analysis.diff import diff as diff_of

    with (
        open_program(a, method, options, checked=weights) as (one, one_payloads),
        open_program(b, method, options, checked=weights) as (other, other_payloads),
    ):
        if weights or (one_payloads is not None and other_payloads is not None):
            payloads = (_weights_of(one_payloads), _weights_of(other_payloads))
            return diff_of(one, other, payloads, elements=weights)
        return diff_of(one, other)


@reading("source")
@options_of(open)
def supports(
    source: Source,
    target: str,
    *,
    method: str | None = None,
    ranges: Ranges = "exact",
    **options: Unpack[OpenOptions],
) -> list[Obstacle]:
    """Return every obstacle to writing a program for a target; an empty list if it can be written.

    Args:
        source: a file, an open archive, schema records, or an `ExportedProgram`.
        target: the reader, such as "torch-2.6", or a schema version.
        method: the name of the program, for a file with several.
        ranges: as in `save`.

    Raises:
        SchemaVersionError: no such target exists.
    """
    check_ranges(ranges, target)
    with open_program(source, method, options) as (program, _):
        wanted = narrow_ranges(program, target_named(target).version)[0] if ranges == "narrowed" else program
        return obstacles_of(to_tree(wanted), target)


@reading("source")
@options_of(open)
def targets(
    source: Source, *, method: str | None = None, **options: Unpack[OpenOptions]
) -> dict[str, list[Obstacle]]:
    """Return, for every target by name (releases first), the obstacles that `supports` returns.

    Args:
        source: a file, an open archive, schema records, or an `ExportedProgram`.
        method: the name of the program, for a file with several.
    """
    with open_program(source, method, options) as (program, _):
        return obstacles_by_target(to_tree(program))


@contextmanager
def open_program(
    source: Source, method: str | None, options: OpenOptions, *, checked: bool = False
) -> Iterator[tuple[Program, Payloads | None]]:
    """Yield a valid program and its payloads (None for records alone), and close the file afterwards.

    Args:
        source: the program.
        method: its name, for a file with several.
        options: the options of `open`.
        checked: whether to verify the checksums of payloads first, so that damage is no difference.
    """
    registry = registry_or_installed(options.get("registry"))
    if isinstance(source, Program):
        check_valid(source)
        yield source, None
    elif isinstance(source, Archive):
        name = source.method(method)
        if checked:
            source.check_payloads()
        yield source.program_of(name), source.payloads_of(name)
    elif isinstance(source, _FILES) or hasattr(source, "read") or url_of(source) is not None:
        with open(source, **options) as archive:
            name = archive.method(method)
            if checked:
                archive.check_payloads()
            yield archive.program_of(name), archive.payloads_of(name)
    else:
        yield to_schema(source, registry=registry)


def _weights_of(payloads: Payloads | None) -> Payloads:
    if payloads is None:
        raise EncodeError("records alone have no weights", remedy="Pass the file or the ExportedProgram")
    return payloads
