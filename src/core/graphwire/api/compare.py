"""Whether two programs are one, where they differ, and who can read one."""

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

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from graphwire.analysis.diff import Diff

Source: TypeAlias = "Readable | Archive | Program | ExportedProgram"
"""A program wherever it is: in a file, opened or not, as records, or torch's own."""


@reading("source")
@options_of(open)
def canonicalize(source: Source, *, method: str | None = None, **options: Unpack[OpenOptions]) -> Program:
    """The canonical form of a program, as records: equal for two exports of one model, and a program that computes the
    same. Files are read without torch. `graphwire.analysis.canonical.canonical_form` says what is made the same.

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
    """What a program means, as a text to keep: `gw1:` and a SHA-256 in hexadecimal, or `gw1w:` with weights. The same for two
    exports of one model, whatever wrote them to which file, and in every later release; another one after any change of what the
    program computes. `docs/content-hash.md` says what counts.

    Args:
        source: a file, opened or not, records, or what `torch.export.export` made.
        method: which program of a file of several.
        weights: whether the elements of weights and constants count, too, which reads them all.

    Raises:
        ArchiveError: the file is no archive, is damaged, or holds no such program.
        SchemaError: the program is not valid.
        EncodeError: torch's program holds what the schema cannot say, or records have no weights.
        LimitError: the program nests too deeply.
    """
    from graphwire.analysis.canonical import content_hash as hash_of

    with open_program(source, method, options) as (program, payloads):
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
    """What is not the same in two programs: nodes by module and operator, inputs, outputs, ranges, versions, weights.

    Args:
        a: a file, opened or not, records, or what `torch.export.export` made.
        b: likewise.
        method: which program of files of several.
        weights: whether the elements of weights and constants are compared, too, which reads them all.

    Raises:
        As `content_hash`.
    """
    from graphwire.analysis.diff import diff as diff_of

    with (
        open_program(a, method, options) as (one, one_payloads),
        open_program(b, method, options) as (other, other_payloads),
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
    """Everything in a program that a target (`torch-2.6`, a schema version) cannot express; empty when it can be written.

    Args:
        source: a file, opened or not, records, or what `torch.export.export` made.
        target: what is to read it.
        method: which program of a file of several.
        ranges: as in `save`.

    Raises:
        SchemaVersionError: there is no such target.
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
    """Every target by name, releases first, and what keeps a program from being written for it, as `supports` says.

    Args:
        source: a file, opened or not, records, or what `torch.export.export` made.
        method: which program of a file of several.
    """
    with open_program(source, method, options) as (program, _):
        return obstacles_by_target(to_tree(program))


@contextmanager
def open_program(
    source: Source, method: str | None, options: OpenOptions
) -> Iterator[tuple[Program, Payloads | None]]:
    """A valid program, and its payloads where it has them, for as long as its file is open."""
    registry = registry_or_installed(options.get("registry"))
    if isinstance(source, Program):
        check_valid(source)
        yield source, None
    elif isinstance(source, Archive):
        name = source.method(method)
        yield source.program_of(name), source.payloads_of(name)
    elif isinstance(source, (str, os.PathLike, bytes, bytearray, memoryview)) or hasattr(source, "read"):
        with open(source, **options) as archive:
            name = archive.method(method)
            yield archive.program_of(name), archive.payloads_of(name)
    else:
        yield to_schema(source, registry=registry)


def _weights_of(payloads: Payloads | None) -> Payloads:
    if payloads is None:
        raise EncodeError("records alone have no weights", remedy="Pass the file, or torch's program")
    return payloads
