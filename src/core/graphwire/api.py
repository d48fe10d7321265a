"""The public functions. Each composes steps of the layers below, and holds no logic of its own.

    save:  ExportedProgram → bridge.encode → Program + payloads → tree → WireFormat → archive
    load:  archive → WireFormat → tree → Program → validate → bridge.decode → ExportedProgram

torch is imported only by the functions that take or give a program of torch.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Literal, TypeAlias

from graphwire.analysis.summary import Inspection, MethodInspection, summarize
from graphwire.analysis.validate import check, validate
from graphwire.errors import ArchiveError, EncodeError, GraphwireError, Problem
from graphwire.hooks.registry import PluginInfo, Registry, default_registry
from graphwire.schema.program import Program
from graphwire.schema.tree import program_from_tree
from graphwire.wire.archive import Readable
from graphwire.wire.atomic import replacing
from graphwire.wire.collector import paused_collector
from graphwire.wire.document import detect_format, read_document, write_program
from graphwire.wire.limits import DEFAULT_LIMITS, Limits
from graphwire.wire.package import Document, Package, write_package
from graphwire.wire.payloads import Payloads

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

PathOrFile: TypeAlias = "str | os.PathLike[str] | BinaryIO"

DEFAULT_METHOD = "model"
"""The name of a program that is saved alone."""


# -------------------------------------------------------------------------------------------- programs of torch


def save(
    program: ExportedProgram | Mapping[str, ExportedProgram],
    file: PathOrFile,
    *,
    format: str = "json",
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
        extra_files: bytes to keep beside the program, by relative path.
        registry: the plugins in force; those installed by default.

    Raises:
        EncodeError: the program holds what the schema cannot say. Nothing is written.
        UnknownFormatError: no installed plugin provides the format. Nothing is written.
        OSError: the path cannot be written.
    """
    registry = registry or default_registry()
    with paused_collector():
        documents = _documents(program, format, registry)
    if isinstance(file, (str, os.PathLike)):
        with replacing(file) as stream:
            write_package(stream, documents, extra_files)
    else:
        write_package(file, documents, extra_files)


def dumps(
    program: ExportedProgram | Mapping[str, ExportedProgram],
    *,
    format: str = "json",
    extra_files: Mapping[str, bytes] | None = None,
    registry: Registry | None = None,
) -> bytes:
    """The bytes of the file that `save` writes. Arguments and errors are those of `save`."""
    stream = io.BytesIO()
    save(program, stream, format=format, extra_files=extra_files, registry=registry)
    return stream.getvalue()


def load(
    file: Readable,
    *,
    method: str | None = None,
    device: str | int | torch.device | None = None,
    weights: Literal["map", "copy"] | None = "map",
    verify: bool = False,
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
        registry: the plugins in force; those installed by default.
        limits: bounds on what the file may make us do.

    Raises:
        ArchiveError: the file is no archive, is damaged, or holds no such program.
        SchemaError: the document is not a valid program of a schema that we read; a ValidationError lists all problems.
        DecodeError: this installation lacks something that the program needs.
        LimitError: the file is beyond `limits`.
    """
    from graphwire.bridge.program import decode_program
    from graphwire.bridge.tensors import target_device

    with open(file, registry=registry, limits=limits) as archive, paused_collector():
        name = archive.method(method)
        program = archive.program_of(name)
        payloads = archive.payloads_of(name, copied=weights == "copy")
        payloads.check_read(program)
        if verify and weights is not None:
            archive.check_payloads()
        return decode_program(
            program, payloads, archive.registry, device=target_device(device), graph_only=weights is None
        )


def loads(
    data: bytes | bytearray | memoryview,
    *,
    method: str | None = None,
    device: str | int | torch.device | None = None,
    weights: Literal["map", "copy"] | None = "map",
    verify: bool = False,
    registry: Registry | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> ExportedProgram:
    """The program in the bytes of a file. Arguments and errors are those of `load`."""
    return load(
        data, method=method, device=device, weights=weights, verify=verify, registry=registry, limits=limits
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
    registry: Registry | None = None,
) -> ExportedProgram:
    """The program of schema records, checked first.

    Raises:
        ValidationError: the records break rules of the schema.
        DecodeError: this installation lacks something that the program needs.
    """
    from graphwire.bridge.program import decode_program
    from graphwire.bridge.tensors import target_device

    check(program)
    return decode_program(program, payloads, registry or default_registry(), device=target_device(device))


def _documents(
    program: ExportedProgram | Mapping[str, ExportedProgram], format: str, registry: Registry
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
    program = program_from_tree(read_document(buffer, wire_format, limits))
    check(program)
    return program


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
            program = program_from_tree(self._package.tree_of(method))
            check(program)
            self.payloads_of(method).complete(program)
            self._programs[method] = program
        return program

    def payloads_of(self, method: str, *, copied: bool = False) -> Payloads:
        """The payloads of a program; with `copied`, records are read and checked rather than mapped."""
        return self._package.payloads_of(method, copied=copied)

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
        return Inspection(file, self.size, self._package.layout.title, producer, methods, payload_bytes, list(self.names))

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
                program = program_from_tree(self._package.tree_of(method))
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
    registry: Registry | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> None:
    """Write the programs of one file to another in another wire format, payloads and all, without torch.

    Raises:
        As `open`, `Archive.program_of` and `save`.
    """
    with open(src, registry=registry, limits=limits) as archive:
        wire_format = archive.registry.wire_format(format)
        documents = {
            name: Document(
                write_program(archive.program_of(name), wire_format),
                wire_format.suffix,
                archive.payloads_of(name),
            )
            for name in archive.methods
        }
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


def plugins() -> tuple[PluginInfo, ...]:
    """The plugins that are installed, and for each one that is off, why."""
    return default_registry().plugins
