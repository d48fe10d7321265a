"""Compare programs (`diff`, `content_hash`, `canonicalize`) and list the readers that support one (`supports`, `targets`)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, Unpack

from graphwire.analysis.validation.program_rules import check_valid
from graphwire.api.archive import Archive, open
from graphwire.api.documents import check_ranges, program_at_current_schema
from graphwire.api.error_boundary import source_name
from graphwire.api.options import OpenOptions, Ranges, options_of, public_function
from graphwire.api.programs import to_schema
from graphwire.errors import EncodeError, GraphwireError, MissingPluginError, MissingRecordError, Obstacle
from graphwire.evolve.chain import downgrade
from graphwire.evolve.expressions import narrow_ranges
from graphwire.evolve.planner import forms_of_release, with_forms
from graphwire.evolve.step import first_release
from graphwire.evolve.targets import obstacles_by_target, supports as obstacles_of, target_named
from graphwire.registry.registry import registry_or_installed
from graphwire.schema import SCHEMA_VERSION, Program, Version
from graphwire.schema.trees import to_tree
from graphwire.wire.archive.source import Readable, type_text, url_of
from graphwire.wire.payloads import Payloads

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from graphwire.analysis.diff.program_diff import Diff

Source: TypeAlias = "Readable | Archive | Program | ExportedProgram"
"""A program in any form: a file, an open archive, schema records, or an `ExportedProgram`."""

_FILES = (str, os.PathLike, bytes, bytearray, memoryview)


@public_function("source")
@options_of(open)
def canonicalize(source: Source, *, method: str | None = None, **options: Unpack[OpenOptions]) -> Program:
    """Return the canonical form of a program, as records.

    The result computes the same as the program, and is equal for two exports of one model.
    `graphwire.analysis.canonical.canonical_form` describes what is normalized. Files are read without torch.

    Args:
        source: a file, an open archive, schema records, or an `ExportedProgram`.
        method: the name of the program, for a file with several.

    Raises:
        GraphwireError: as `content_hash`.
    """
    from graphwire.analysis.canonical.canonical_form import canonicalize as canonical_program

    with open_program(source, method, options) as stored:
        return canonical_program(stored.program)


@public_function("source")
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
    from graphwire.analysis.canonical.content_hashing import content_hash as hash_of

    with open_program(source, method, options, checked=weights) as stored:
        return hash_of(stored.program, _weights_of(stored.payloads) if weights else None)


@public_function("a", "b")
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

    `Diff.compared` states what was compared of weights and constants: always their types, shapes and the checksums that both
    files list, and with `weights` their elements.

    If a file has an older schema, such as one that was written for an older torch, what that schema cannot hold is no
    difference: it is in `Diff.not_held`.

    Args:
        a: a file, an open archive, schema records, or an `ExportedProgram`.
        b: the same, for the other program.
        method: the name of the program, for files with several. A file with one program is compared with that one.
        weights: whether to compare the elements of weights and constants too, which reads all of them, and tells how much each
            one changed.

    Raises:
        GraphwireError: as `content_hash`.
    """
    from graphwire.analysis.diff.program_diff import diff as diff_of, without_not_held

    with _open_both(a, b, method, options, checked=weights) as (one, other):
        _check_named(method, one, other)
        payloads = one.payloads, other.payloads
        if weights:
            payloads = _weights_of(one.payloads), _weights_of(other.payloads)
        found = diff_of(one.program, other.program, payloads, elements=weights)
        if found.same or one.version == other.version:
            return found
        older = min(one.version, other.version)
        try:
            held = as_held_by(one, older), as_held_by(other, older)
        except GraphwireError:  # the older schema holds no such program, so all of it is different
            return found
        holder = f"schema {older} ({first_release(older).replace('-', ' ')})"
        return without_not_held(found, diff_of(*held, payloads, elements=weights), holder)


def as_held_by(stored: Stored, version: Version) -> Program:
    """Return a program as a file of an older schema holds it: written in that schema, and read again.

    Raises:
        TargetError: the schema cannot hold the program.
    """
    if stored.version <= version:
        return stored.program
    release = first_release(version).removeprefix("torch-")
    program, _ = narrow_ranges(stored.program, version)
    tree = downgrade(to_tree(with_forms(program, lambda: forms_of_release(release))), version)
    return program_at_current_schema(tree)[0]


@public_function("source")
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
    with open_program(source, method, options) as stored:
        wanted = stored.program
        if ranges == "narrowed":
            wanted, _ = narrow_ranges(wanted, target_named(target).version)
        return obstacles_of(to_tree(wanted), target)


@public_function("source")
@options_of(open)
def targets(
    source: Source, *, method: str | None = None, **options: Unpack[OpenOptions]
) -> dict[str, list[Obstacle]]:
    """Return, for every target by name (releases first), the obstacles that `supports` returns.

    Args:
        source: a file, an open archive, schema records, or an `ExportedProgram`.
        method: the name of the program, for a file with several.
    """
    with open_program(source, method, options) as stored:
        return obstacles_by_target(to_tree(stored.program))


class Stored(NamedTuple):
    """A program, its payloads, and the schema version of its document."""

    program: Program
    payloads: Payloads | None
    """None for records alone."""
    version: Version
    name: str = ""
    """The name of the program in its file."""


@contextmanager
def open_program(
    source: Source, method: str | None, options: OpenOptions, *, checked: bool = False, only: bool = False
) -> Iterator[Stored]:
    """Yield a valid program, and close its file afterwards.

    Args:
        source: the program.
        method: its name, for a file with several.
        options: the options of `open`.
        checked: whether to verify the checksums of payloads first, so that damage is no difference.
        only: whether `method` does not count for a file with one program.
    """
    registry = registry_or_installed(options.get("registry"))
    if isinstance(source, Program):
        check_valid(source)
        yield Stored(source, None, Version(*SCHEMA_VERSION))
    elif isinstance(source, Archive):
        yield _stored_in(source, method, checked=checked, only=only)
    elif isinstance(source, _FILES) or hasattr(source, "read") or url_of(source) is not None:
        with open(source, **options) as archive:
            yield _stored_in(archive, method, checked=checked, only=only)
    else:
        if not any(each.__module__.startswith("torch.") for each in type(source).__mro__):
            remedy = (
                "Pass a path, a file object or bytes, schema records, or what torch.export.export returns"
            )
            raise EncodeError("this is neither a file nor a program", remedy=remedy).of(type_text(source))
        yield Stored(*to_schema(source, registry=registry), Version(*SCHEMA_VERSION))


@contextmanager
def _open_both(
    a: Source, b: Source, method: str | None, options: OpenOptions, *, checked: bool
) -> Iterator[tuple[Stored, Stored]]:
    """Yield two programs. An error lists the plugins that either lacks."""
    with ExitStack() as stack:
        found: list[Stored] = []
        missing: list[MissingPluginError] = []
        for source in (a, b):
            try:
                found.append(
                    stack.enter_context(open_program(source, method, options, checked=checked, only=True))
                )
            except MissingPluginError as error:
                error.of(source_name(source))
                missing.append(error)
        if len(missing) == 1:
            raise missing[0]
        if missing:
            raise MissingPluginError(
                "each of the two files needs plugins that are not in force here",
                problems=[
                    problem._replace(place=f"{each.file}: {problem.place}")
                    for each in missing
                    for problem in each.problems
                ],
                remedy=". ".join(dict.fromkeys(each.remedy for each in missing)),
            ).of(" and ".join(each.file for each in missing))
        yield found[0], found[1]


def _check_named(method: str | None, *found: Stored) -> None:
    """Raise an error if no file has a program of that name."""
    names = {each.name for each in found}
    if method is not None and method not in names and "" not in names:
        held = " and ".join(map(repr, sorted(names)))
        raise MissingRecordError(f"the archives hold no program {method!r}", remedy=f"They hold {held}")


def _stored_in(archive: Archive, method: str | None, *, checked: bool, only: bool) -> Stored:
    name = archive.method(None if only and len(archive.methods) == 1 else method)
    if checked:
        archive.check_payloads()
    return Stored(archive.program_of(name), archive.payloads_of(name), archive.version_of(name), name)


def _weights_of(payloads: Payloads | None) -> Payloads:
    if payloads is None:
        raise EncodeError("records alone have no weights", remedy="Pass the file or the ExportedProgram")
    return payloads
