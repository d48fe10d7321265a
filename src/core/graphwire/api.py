"""The public functions. Each composes steps of the layers below, and holds no logic of its own.

    save:  ExportedProgram → bridge.encode → Program + payloads → tree → WireFormat → archive
    load:  archive → WireFormat → tree → Program → validate → bridge.decode → ExportedProgram

torch is imported only by the functions that take or give a program of torch.
"""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TypeAlias, cast, overload

from graphwire.analysis.summary import Inspection, MethodInspection, summarize
from graphwire.analysis.validate import check, validate
from graphwire.errors import (
    ArchiveError,
    EncodeError,
    GraphwireError,
    OpsetError,
    Problem,
    ValidationError,
)
from graphwire.evolve.embedded import embedded_tensors
from graphwire.evolve.opsets import Plan, UnknownOps, apply, plan_for
from graphwire.evolve.requirements import check_plugins, kept_requirements, with_requirements
from graphwire.evolve.schema import upgrade as upgrade_tree
from graphwire.hooks.interfaces import Tree
from graphwire.hooks.registry import PluginInfo, Registry, default_registry
from graphwire.schema.program import Program
from graphwire.schema.tree import program_from_tree
from graphwire.schema.treespec import TreeSpec, format_treespec, parse_treespec
from graphwire.wire.archive import Readable
from graphwire.wire.atomic import replacing
from graphwire.wire.collector import paused_collector
from graphwire.wire.document import detect_format, read_document, write_program
from graphwire.wire.limits import DEFAULT_LIMITS, Limits
from graphwire.wire.package import Document, Package, write_package
from graphwire.wire.payloads import CONSTANTS, Payloads
from graphwire.wire.torch_save import read_embedded
from graphwire.wire.treespec_document import check_protocol, read_treespec, write_treespec

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

    from graphwire.analysis.diff import Diff
    from graphwire.bridge.context import OpaqueOrigin

PathOrFile: TypeAlias = "str | os.PathLike[str] | BinaryIO"
Source: TypeAlias = "Readable | Archive | Program | ExportedProgram"
"""A program wherever it is: in a file, opened or not, as records, or torch's own."""

DEFAULT_METHOD = "model"
"""The name of a program that is saved alone."""


# -------------------------------------------------------------------------------------------- programs of torch


def save(
    program: ExportedProgram | Mapping[str, ExportedProgram],
    file: PathOrFile,
    *,
    format: str = "json",
    opset_version: Mapping[str, int] | None = None,
    extra_files: Mapping[str, bytes] | None = None,
    registry: Registry | None = None,
) -> None:
    """Write a program, or several that share weights, to a file.

    A path is replaced in one step when everything is written and on the disk; after an error the old file is whole. With
    `format="json"`, a program that needs none of our extensions can be read by `torch.export.load`.

    Args:
        program: what `torch.export.export` made, or such programs by name.
        file: a path, or a binary file object open for writing (it need not seek).
        format: the name of an installed wire format (`graphwire.plugins()` lists them).
        opset_version: by operator namespace, the version to write instead of the installed one.
        extra_files: bytes to keep beside the program, by relative path.
        registry: the plugins in force; those installed by default.

    Raises:
        EncodeError: the program holds what the schema cannot say. Nothing is written.
        OpsetError: operators cannot be written in the version asked for. Nothing is written.
        UnknownFormatError: no installed plugin provides the format. Nothing is written.
        OSError: the path cannot be written.
    """
    registry = registry or default_registry()
    with paused_collector:
        documents = _documents(program, format, registry, opset_version)
    if isinstance(file, (str, os.PathLike)):
        with replacing(file) as stream:
            write_package(stream, documents, extra_files)
    else:
        write_package(file, documents, extra_files)


def dumps(
    program: ExportedProgram | Mapping[str, ExportedProgram],
    *,
    format: str = "json",
    opset_version: Mapping[str, int] | None = None,
    extra_files: Mapping[str, bytes] | None = None,
    registry: Registry | None = None,
) -> bytes:
    """The bytes of the file that `save` writes. Arguments and errors are those of `save`."""
    stream = io.BytesIO()
    save(
        program,
        stream,
        format=format,
        opset_version=opset_version,
        extra_files=extra_files,
        registry=registry,
    )
    return stream.getvalue()


def load(
    file: Readable,
    *,
    method: str | None = None,
    device: str | int | torch.device | None = None,
    weights: Literal["map", "copy"] | None = "map",
    verify: bool = False,
    unknown_ops: UnknownOps = "error",
    registry: Registry | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> ExportedProgram:
    """Read a program from a file that `save` or torch 2.9 and later wrote. Nothing that the file says is executed.

    Args:
        file: a path, a binary file object open for reading, or the file's bytes.
        method: which program to read from a file of several.
        device: where weights, metadata and the device arguments of nodes are put; by default where they were.
        weights: `map` shares the file's memory, copy-on-write, and reads what is touched when it is touched; `copy` reads
            all of it now; None reads none of it and makes weights without elements, on the meta device.
        verify: check the checksum of every payload now, which reads them. The program's own is always checked.
        unknown_ops: what becomes of operators that are not installed, or not in a version that the program can be brought
            to: `error`, or `opaque`: calls that can be looked at and saved again, and fail when they are run.
        registry: the plugins in force; those installed by default.
        limits: bounds on what the file may make us do.

    Raises:
        ArchiveError: the file is no archive, is damaged, or holds no such program.
        SchemaError: the document is not a valid program of a schema that we read; a ValidationError lists all problems.
        MissingPluginError: the program needs plugins that are not in force here; the message names all of them.
        OpsetError: its operators cannot be brought to the installed version.
        DecodeError: this installation lacks something that the program needs.
        LimitError: the file is beyond `limits`.
    """
    from graphwire.bridge.program import GraphwireWarning, decode_program
    from graphwire.bridge.tensors import target_device

    with open(file, registry=registry, limits=limits) as archive, paused_collector:
        name = archive.method(method)
        program = archive.program_of(name)
        payloads = archive.payloads_of(name, copied=weights == "copy")
        payloads.check_read(program)
        for warning in payloads.warnings:
            warnings.warn(warning, GraphwireWarning, stacklevel=2)
        if verify and weights is not None:
            archive.check_payloads()
        program, origin = _ready(program, archive.registry, unknown_ops)
        return decode_program(
            program,
            payloads,
            archive.registry,
            device=target_device(device),
            graph_only=weights is None,
            origin=origin,
        )


def loads(
    data: bytes | bytearray | memoryview,
    *,
    method: str | None = None,
    device: str | int | torch.device | None = None,
    weights: Literal["map", "copy"] | None = "map",
    verify: bool = False,
    unknown_ops: UnknownOps = "error",
    registry: Registry | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> ExportedProgram:
    """The program in the bytes of a file. Arguments and errors are those of `load`."""
    return load(
        data,
        method=method,
        device=device,
        weights=weights,
        verify=verify,
        unknown_ops=unknown_ops,
        registry=registry,
        limits=limits,
    )


def to_schema(program: ExportedProgram, *, registry: Registry | None = None) -> tuple[Program, Payloads]:
    """A program as schema records, and its payloads, which lend the memory of the program's own tensors.

    Raises:
        EncodeError: the program holds what the schema cannot say.
    """
    from graphwire.bridge.program import encode_program

    return encode_program(program, registry or default_registry())


def from_schema(
    program: Program,
    payloads: Payloads,
    *,
    device: str | int | torch.device | None = None,
    unknown_ops: UnknownOps = "error",
    registry: Registry | None = None,
) -> ExportedProgram:
    """The program of schema records, checked first, and brought to the installed opsets. `unknown_ops` as in `load`.

    Raises:
        ValidationError: the records break rules of the schema.
        MissingPluginError, OpsetError: as `load`.
        DecodeError: this installation lacks something that the program needs.
    """
    from graphwire.bridge.program import decode_program
    from graphwire.bridge.tensors import target_device

    registry = registry or default_registry()
    check(program)
    program, origin = _ready(program, registry, unknown_ops)
    return decode_program(program, payloads, registry, device=target_device(device), origin=origin)


def _ready(
    program: Program, registry: Registry, unknown_ops: UnknownOps
) -> tuple[Program, OpaqueOrigin | None]:
    """A checked program at the installed opsets, and what operators that cannot be had here are kept with."""
    from graphwire.bridge.context import OpaqueOrigin

    check_plugins(program, registry, operators=unknown_ops == "error")
    plan = plan_for(program, registry, unknown=unknown_ops)
    origin = None
    if unknown_ops == "opaque":
        kept = kept_requirements(program, registry, plan.opaque)
        versions = {namespace: program.opset_version[namespace] for namespace in plan.opaque}
        origin = OpaqueOrigin(versions, kept)
    return _applied(program, plan, registry), origin


def _applied(program: Program, plan: Plan, registry: Registry) -> Program:
    """The program that a plan leads to, checked: what upgraders make is no safer than what stands in a file."""
    changed = apply(program, plan)
    if changed is program:
        return program
    changed = with_requirements(changed, registry)
    try:
        check(changed)
    except ValidationError as error:
        names = ", ".join(str(step) for step in plan.steps if step.nodes)
        raise OpsetError(
            f"upgraders made a program that is not valid ({names})",
            problems=error.problems,
            remedy="Report it to the authors of the plugins that brought them",
        ) from None
    return changed


def _documents(
    program: ExportedProgram | Mapping[str, ExportedProgram],
    format: str,
    registry: Registry,
    opset_version: Mapping[str, int] | None,
) -> dict[str, Document]:
    from graphwire.bridge.program import encode_program, record_tables

    wire_format = registry.wire_format(format)
    programs = program if isinstance(program, Mapping) else {DEFAULT_METHOD: program}
    if not programs:
        raise EncodeError("there is no program to save")
    tables = record_tables(programs.values())
    documents = {}
    for name, each in programs.items():
        record, payloads = encode_program(each, registry, tables)
        if opset_version is not None:
            record = _applied(record, plan_for(record, registry, wanted=opset_version), registry)
        documents[name] = Document(write_program(record, wire_format), wire_format.suffix, payloads)
    return documents


# ---------------------------------------------------------------------------------------------------- documents


def encode(program: Program, format: str = "json", *, registry: Registry | None = None) -> bytes:
    """A program's records as a document of a wire format, without payloads.

    Raises:
        UnknownFormatError: no installed plugin provides the format.
    """
    return write_program(program, (registry or default_registry()).wire_format(format))


def decode(
    buffer: bytes | bytearray | memoryview,
    format: str | None = None,
    *,
    registry: Registry | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Program:
    """The program of a document.

    Args:
        format: its wire format; found by how the document begins when it is not given.

    Raises:
        UnknownFormatError: no installed format knows the document.
        FormatError: the bytes are no document of the format.
        SchemaError: the document is not a valid program of a schema that we read.
    """
    registry = registry or default_registry()
    if format is None:
        wire_format = detect_format(buffer, registry.wire_formats.values())
    else:
        wire_format = registry.wire_format(format)
    program = _program_of(read_document(buffer, wire_format, limits))
    check(program)
    return program


def _program_of(tree: Tree) -> Program:
    """The program of a document of any schema version."""
    current, _ = upgrade_tree(tree)
    return program_from_tree(current)


# ------------------------------------------------------------------------------------------------------- files


class Archive:
    """A file open for reading: its programs as records, its payloads by name. Nothing is read before it is asked for.

    Made by `graphwire.open`. Any thread may use it. Mapped payloads outlive it.
    """

    def __init__(self, file: Readable, registry: Registry, limits: Limits) -> None:
        self.registry = registry
        self._package = Package(file, registry, limits=limits)
        self._programs: dict[str, Program] = {}

    @property
    def methods(self) -> tuple[str, ...]:
        """The names of the programs."""
        return tuple(self._package.members)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all records."""
        return self._package.archive.names

    @property
    def size(self) -> int:
        """The file's length in bytes."""
        return self._package.archive.nbytes

    @property
    def extra_files(self) -> tuple[str, ...]:
        """The paths of what the caller of `save` added."""
        return self._package.extra_files

    def read_extra(self, path: str) -> bytes:
        """The bytes of what the caller of `save` added."""
        return self._package.read_extra(path)

    def method(self, name: str | None) -> str:
        """The program's name: `name`, or the only one there is.

        Raises:
            ArchiveError: there are several, or none of that name.
        """
        if name is None:
            if len(self.methods) > 1:
                names = ", ".join(map(repr, self.methods))
                raise ArchiveError(
                    f"the file holds several programs: {names}", remedy="Pass method= to pick one"
                )
            return self.methods[0]
        self._package.member_of(name)
        return name

    @cached_property
    def program(self) -> Program:
        """The records of the only program, checked."""
        return self.program_of(self.method(None))

    @cached_property
    def payloads(self) -> Payloads:
        """The payloads of the only program."""
        return self.payloads_of(self.method(None))

    def program_of(self, method: str) -> Program:
        """The records of a program, checked.

        Raises:
            SchemaError: the document is not a valid program of a schema that we read.
        """
        program = self._programs.get(method)
        if program is None:
            program = _program_of(self._package.tree_of(method))
            check(program)
            self.payloads_of(method).complete(program)
            self._programs[method] = program
        return program

    def payloads_of(self, method: str, *, copied: bool = False) -> Payloads:
        """The payloads of a program; with `copied`, records are read and checked rather than mapped."""
        payloads = self._package.payloads_of(method, copied=copied)
        if self._package.layout.spec.name == "A1":  # torch 2.1 writes lifted tensors into the document
            for index, tensor in enumerate(embedded_tensors(self._package.tree_of(method))):
                state = read_embedded(
                    tensor.name, cast("bytes", tensor.data), CONSTANTS, f"embedded_{index}_"
                )
                payloads.constants.update(state.metas)
                payloads.records = {**payloads.records, **state.records}
        return payloads

    def format_of(self, method: str) -> str:
        """The name of the wire format of a program's document."""
        return self._package.format_of(method).name

    def inspect(self, file: str = "") -> Inspection:
        """What the file holds.

        Args:
            file: how to call the file.
        """
        reader = self._package.archive
        methods = []
        producer = ""
        for name in self.methods:
            program, payloads = self.program_of(name), self.payloads_of(name)
            producer = program.producer or f"torch {program.torch_version}"
            member = self._package.member_of(name)
            summary = summarize(program, name=name, weights=payloads.weights, constants=payloads.constants)
            methods.append(
                MethodInspection(
                    name, self.format_of(name), reader.size(member), reader.stored_size(member), summary
                )
            )
        payload_bytes = sum(reader.size(name) for name in self._package.payload_records)
        return Inspection(
            file, self.size, self._package.layout.title, producer, methods, payload_bytes, list(self.names)
        )

    def problems(self) -> list[Problem]:
        """Every problem: records that are not what was written or that could be run, programs that break rules. Reads the
        whole file."""
        problems = self._package.problems()
        for name in self.names:
            try:
                self._package.archive.verify(name)
            except GraphwireError as error:
                problems.append(Problem(error.place or name, "record", error.problem))
        try:
            methods = self.methods
        except GraphwireError as error:
            return [*problems, Problem(error.place, "archive", error.problem)]
        for method in methods:
            place = self._package.member_of(method)
            try:
                program = _program_of(self._package.tree_of(method))
                payloads = self.payloads_of(method)
            except GraphwireError as error:
                problems.append(Problem(f"{place} {error.place}".rstrip(), "document", error.problem))
                continue
            problems += [p._replace(place=f"{place} {p.place}") for p in validate(program)]
            problems += [p._replace(place=f"{method}: {p.place}") for p in payloads.problems()]
        return problems

    def check_payloads(self) -> None:
        """Check the checksum of every payload.

        Raises:
            ChecksumError: a record's bytes are not the ones that were written.
        """
        for name in self._package.payload_records:
            self._package.archive.verify(name)

    def close(self) -> None:
        """Close the file."""
        self._package.close()

    def __enter__(self) -> Archive:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open(file: Readable, *, registry: Registry | None = None, limits: Limits = DEFAULT_LIMITS) -> Archive:
    """Open a file to look at its programs as records, without torch.

    Args:
        file: a path, a binary file object open for reading, or the file's bytes.

    Raises:
        ArchiveError: the file is no archive, or a damaged one.
    """
    return Archive(file, registry or default_registry(), limits)


def convert(
    src: Readable,
    dst: PathOrFile,
    *,
    format: str,
    opset_version: Mapping[str, int] | None = None,
    registry: Registry | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> None:
    """Write the programs of one file to another in another wire format, payloads and all, without torch.

    What the programs say stays as it is, the versions of their operators too: a program is converted where its plugins are
    not installed.

    Args:
        opset_version: by operator namespace, the version to bring operators to.

    Raises:
        As `open`, `Archive.program_of` and `save`.
    """
    with open(src, registry=registry, limits=limits) as archive:
        programs = {name: archive.program_of(name) for name in archive.methods}
        if opset_version is not None:
            plans = {
                name: plan_for(program, archive.registry, wanted=opset_version)
                for name, program in programs.items()
            }
            programs = {n: _applied(p, plans[n], archive.registry) for n, p in programs.items()}
        _rewrite(archive, programs, dst, dict.fromkeys(programs, format))


def upgrade(
    src: Readable,
    dst: PathOrFile,
    *,
    format: str | None = None,
    opset_version: Mapping[str, int] | None = None,
    registry: Registry | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> dict[str, Plan]:
    """Write the programs of one file to another with their operators at the installed opsets, without torch.

    Args:
        src: the file to read.
        dst: the file to write; it may be the same path.
        format: the wire format to write; that of each program by default.
        opset_version: by operator namespace, the version to bring operators to; the installed ones by default.

    Returns:
        What was done, by the name of the program.

    Raises:
        MissingPluginError: a program needs plugins that are not in force here.
        OpsetError: operators cannot be brought to that version. Nothing is written.
        As `open`, `Archive.program_of` and `save`.
    """
    with open(src, registry=registry, limits=limits) as archive:
        plans = _plans(archive, opset_version)
        programs = {n: _applied(archive.program_of(n), plan, archive.registry) for n, plan in plans.items()}
        formats = {name: format or archive.format_of(name) for name in programs}
        _rewrite(archive, programs, dst, formats)
    return plans


def plan_upgrade(
    src: Readable,
    *,
    opset_version: Mapping[str, int] | None = None,
    registry: Registry | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> dict[str, Plan]:
    """What `upgrade` would do, by the name of the program: the steps, the nodes each touches, and what it refuses.

    Raises:
        As `upgrade`; but what single nodes refuse stands in the plan.
    """
    with open(src, registry=registry, limits=limits) as archive:
        return _plans(archive, opset_version)


def _plans(archive: Archive, wanted: Mapping[str, int] | None) -> dict[str, Plan]:
    plans = {}
    for name in archive.methods:
        program = archive.program_of(name)
        check_plugins(program, archive.registry)
        plans[name] = plan_for(program, archive.registry, wanted=wanted)
    return plans


def _rewrite(
    archive: Archive, programs: Mapping[str, Program], dst: PathOrFile, formats: Mapping[str, str]
) -> None:
    """Write programs with the payloads and extra files of an archive."""
    documents = {}
    for name, program in programs.items():
        wire_format = archive.registry.wire_format(formats[name])
        document = write_program(program, wire_format)
        documents[name] = Document(document, wire_format.suffix, archive.payloads_of(name))
    extra_files = {path: archive.read_extra(path) for path in archive.extra_files}
    if isinstance(dst, (str, os.PathLike)):
        with replacing(dst) as stream:
            write_package(stream, documents, extra_files)
    else:
        write_package(dst, documents, extra_files)


def inspect(
    file: Readable, *, registry: Registry | None = None, limits: Limits = DEFAULT_LIMITS
) -> Inspection:
    """What a file holds, without reading a payload and without torch.

    Raises:
        As `open` and `Archive.program_of`.
    """
    with open(file, registry=registry, limits=limits) as archive:
        return archive.inspect("" if not isinstance(file, (str, os.PathLike)) else os.fspath(file))


def verify(
    file: Readable, *, registry: Registry | None = None, limits: Limits = DEFAULT_LIMITS
) -> list[Problem]:
    """Every problem of a file: records that are not what was written, programs that break rules. Reads all of it.

    Returns:
        The problems, each with its place; none for a file in order.
    """
    try:
        archive = open(file, registry=registry, limits=limits)
    except GraphwireError as error:
        return [Problem(error.place or "archive", "archive", error.problem)]
    with archive:
        return archive.problems()


# ------------------------------------------------------------------------------------------------- comparison


def canonicalize(
    source: Source,
    *,
    method: str | None = None,
    registry: Registry | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Program:
    """The canonical form of a program, as records: equal for two exports of one model, and a program that computes the
    same. Files are read without torch. `graphwire.analysis.canonical` says what is made the same.

    Raises:
        As `content_hash`.
    """
    from graphwire.analysis.canonical import canonicalize as canonical_program

    with _opened(source, method, registry, limits) as (program, _):
        return canonical_program(program)


def content_hash(
    source: Source,
    *,
    method: str | None = None,
    weights: bool = False,
    registry: Registry | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> str:
    """The SHA-256 of a program's canonical form, in hexadecimal: the same for two exports of one model, whatever wrote
    them to which file, and another one after any change of what it computes.

    Args:
        source: a file, opened or not, records, or what `torch.export.export` made.
        method: which program of a file of several.
        weights: whether the elements of weights and constants count, too, which reads them all.

    Raises:
        ArchiveError: the file is no archive, is damaged, or holds no such program.
        SchemaError: the program is not valid.
        EncodeError: torch's program holds what the schema cannot say, or records have no weights.
    """
    from graphwire.analysis.content import content_hash as hash_of

    with _opened(source, method, registry, limits) as (program, payloads):
        return hash_of(program, _weights_of(payloads) if weights else None)


def diff(
    a: Source,
    b: Source,
    *,
    method: str | None = None,
    weights: bool = False,
    registry: Registry | None = None,
    limits: Limits = DEFAULT_LIMITS,
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
        _opened(a, method, registry, limits) as (one, one_payloads),
        _opened(b, method, registry, limits) as (other, other_payloads),
    ):
        if weights or (one_payloads is not None and other_payloads is not None):
            payloads = (_weights_of(one_payloads), _weights_of(other_payloads))
            return diff_of(one, other, payloads, elements=weights)
        return diff_of(one, other)


@contextmanager
def _opened(
    source: Source, method: str | None, registry: Registry | None, limits: Limits
) -> Iterator[tuple[Program, Payloads | None]]:
    """A valid program, and its payloads where it has them, for as long as its file is open."""
    if isinstance(source, Program):
        check(source)
        yield source, None
    elif isinstance(source, Archive):
        name = source.method(method)
        yield source.program_of(name), source.payloads_of(name)
    elif isinstance(source, (str, os.PathLike, bytes, bytearray, memoryview)) or hasattr(source, "read"):
        with open(source, registry=registry, limits=limits) as archive:
            name = archive.method(method)
            yield archive.program_of(name), archive.payloads_of(name)
    else:
        yield to_schema(source, registry=registry)


def _weights_of(payloads: Payloads | None) -> Payloads:
    if payloads is None:
        raise EncodeError("records alone have no weights", remedy="Pass the file, or torch's program")
    return payloads


# -------------------------------------------------------------------------------------------------- treespecs


@overload
def treespec_dumps(
    spec: Any, protocol: int | None = None, format: None = None, *, registry: Registry | None = None
) -> str: ...


@overload
def treespec_dumps(
    spec: Any, protocol: int | None = None, *, format: str, registry: Registry | None = None
) -> bytes: ...


def treespec_dumps(
    spec: Any,
    protocol: int | None = None,
    format: str | None = None,
    *,
    registry: Registry | None = None,
) -> str | bytes:
    """The structure of a container as text that torch reads, or as a document of a wire format.

    Args:
        spec: a `graphwire.schema.treespec.TreeSpec`, for which torch is not needed, or a `torch.utils._pytree.TreeSpec`.
        protocol: of the text; 1 is the only one.
        format: the name of an installed wire format; None for text.

    Raises:
        EncodeError: a container type that nobody serves, or a context that cannot be said.
        SchemaError: there is no such protocol.
        UnknownFormatError: no installed plugin provides the format.
    """
    check_protocol(protocol)
    registry = registry or default_registry()
    if isinstance(spec, TreeSpec):
        text = format_treespec(spec)
    else:
        from graphwire.bridge.treespec import encode_treespec

        text = encode_treespec(spec, registry)
    return text if format is None else write_treespec(parse_treespec(text), registry.wire_format(format))


def treespec_loads(
    data: str | bytes | bytearray | memoryview,
    format: str | None = None,
    *,
    to_torch: bool = False,
    registry: Registry | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Any:
    """The structure of a container from text that torch or `treespec_dumps` wrote, or from a document of a wire format.

    Args:
        format: the wire format of bytes; found by how they begin when it is not given, where that tells.
        to_torch: give a `torch.utils._pytree.TreeSpec`, whose types this process must know, and not the records of
            `graphwire.schema.treespec`, for which torch is not needed.

    Raises:
        SchemaError: it is no treespec.
        FormatError: the bytes are no document of the format.
        UnknownTypeError: torch's is asked for, and nobody serves a container type in this process.
    """
    registry = registry or default_registry()
    if isinstance(data, str):
        spec = parse_treespec(data)
    else:
        formats = registry.wire_formats.values()
        wire_format = detect_format(data, formats) if format is None else registry.wire_format(format)
        spec = read_treespec(data, wire_format, limits)
    if not to_torch:
        return spec
    from graphwire.bridge.treespec import decode_treespec

    return decode_treespec(format_treespec(spec), registry)


def plugins() -> tuple[PluginInfo, ...]:
    """The plugins that are installed, and for each one that is off, why."""
    return default_registry().plugins
