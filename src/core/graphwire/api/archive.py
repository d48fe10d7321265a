"""A file open for reading."""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import cached_property
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from graphwire.analysis.inspection import Inspection, LoadReport, MethodInspection, summarize
from graphwire.analysis.validation import check_payload_names, check_valid, validate, weight_problems
from graphwire.api.argument_checks import check_limits
from graphwire.api.bare_document import Bare, add_embedded, bare_document
from graphwire.api.documents import upgraded
from graphwire.api.error_boundary import Boundary, reading
from graphwire.api.load_report import Origin, build_load_report, plan_or_problems
from graphwire.errors import ArchiveError, GraphwireError, Obstacle, Problem
from graphwire.evolve.targets import obstacles_by_target as targets_of
from graphwire.hooks import Registry, registry_or_installed
from graphwire.schema import Program
from graphwire.schema.trees import to_tree
from graphwire.wire import DEFAULT_LIMITS, Closing, Limits, Payloads
from graphwire.wire.archive import Readable, file_name
from graphwire.wire.package import (
    BARE_DOCUMENT,
    NO_MANIFEST,
    Package,
    sanitize_payload_names,
    sanitize_weight_names,
)

P = ParamSpec("P")
R = TypeVar("R")


def _bounded(function: Callable[Concatenate[Archive, P], R]) -> Callable[Concatenate[Archive, P], R]:
    """What the method raises is an error of ours, of the archive's file, and of the program's record where it is given one."""

    @functools.wraps(function)
    def bounded(archive: Archive, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(archive, *args, **kwargs)
        except Exception:
            method: Any = kwargs.get("method", args[0] if args else None)
            with archive.boundary(method):
                raise

    return bounded


class Archive(Closing):
    """A file open for reading: its programs as records, its payloads by name. Nothing is read before it is asked for.

    Made by `graphwire.open`. Any thread may use it. Mapped payloads outlive it.
    """

    def __init__(self, file: Readable, registry: Registry, limits: Limits) -> None:
        check_limits(limits)
        self.registry = registry
        self.file = file_name(file)
        """What the file is called in messages: its path, or what it is read from."""
        self._bare: Bare | None = None
        self._payloads: dict[tuple[str, bool], Payloads] = {}
        """By method, and whether records are copied."""
        try:
            self._package = Package(file, registry, limits=limits)
        except ArchiveError:
            self._bare = bare_document(file, registry, limits)
            if self._bare is None:
                raise
            self._package = Package(self._bare.archive, registry, limits=limits)
        self._programs: dict[str, Program] = {}
        self._origins: dict[str, Origin] = {}

    @property
    @_bounded
    def methods(self) -> tuple[str, ...]:
        """The names of the programs."""
        return tuple(self._package.members)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all records."""
        return () if self._bare is not None else self._package.archive.names

    @property
    def size(self) -> int:
        """The file's length in bytes."""
        return self._bare.size if self._bare is not None else self._package.archive.nbytes

    @property
    def is_bare(self) -> bool:
        """Whether the file is a bare document, and no archive."""
        return self._bare is not None

    @property
    @_bounded
    def layout(self) -> str:
        """How the file is laid out, for a person."""
        return BARE_DOCUMENT if self._bare is not None else self._package.layout.title

    @property
    @_bounded
    def extra_files(self) -> tuple[str, ...]:
        """The paths of what the caller of `save` added."""
        return self._package.extra_files

    @_bounded
    def read_extra(self, path: str) -> bytes:
        """The bytes of what the caller of `save` added."""
        return self._package.read_extra(path)

    def boundary(self, method: str | None = None) -> Boundary:
        """A block whose errors are ours and name this file; the record and format of a program, too, where it is about one."""
        return Boundary(self.file, self.registry, lambda: self._record_of(method))

    def _record_of(self, method: str | None) -> tuple[str, str]:
        if method not in self.methods:
            return "", ""
        record = "" if self._bare is not None else self._package.member_of(method)
        return record, self._package.format_of(method).name

    @_bounded
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
    @_bounded
    def program(self) -> Program:
        """The records of the only program, checked."""
        return self.program_of(self.method(None))

    @cached_property
    @_bounded
    def payloads(self) -> Payloads:
        """The payloads of the only program."""
        return self.payloads_of(self.method(None))

    @_bounded
    def fetch(self, method: str) -> None:
        """Read a program's document now, which `program_of` would: whoever then takes a turn holds nobody up for the disk.

        Raises:
            ArchiveError: it is damaged.
        """
        if method not in self._programs:
            self._package.fetch(method)

    @_bounded
    def program_of(self, method: str) -> Program:
        """The records of a program, checked.

        Raises:
            SchemaError: the document is not a valid program of a schema that we read.
        """
        program = self._programs.get(method)
        if program is None:
            program, version, taken = upgraded(self._package.program_or_tree_of(method))
            renamed = sanitize_weight_names(program) if self._package.layout.spec.is_flat else []
            check_valid(program)
            payloads = self.payloads_of(method)
            check_payload_names([*payloads.weights, *payloads.constants])
            payloads.complete(program)
            self._origins[method] = Origin(version, taken, payloads, renamed)
            self._programs[method] = program
        return program

    @_bounded
    def report(self, method: str) -> LoadReport:
        """What `load` does with a program: every step that it takes, what it finds itself, and what it leaves out.

        Raises:
            As `program_of`.
        """
        program = self.program_of(method)
        origin = self._origins[method]
        return build_load_report(
            program,
            origin,
            plan_or_problems(program, self.registry),
            method=method,
            layout=self.layout,
            format=self.format_of(method),
        )

    @_bounded
    def targets(self, method: str) -> dict[str, list[Obstacle]]:
        """Every target by name, releases first, and what keeps a program from being written for it: nothing, or each
        construct with its node and the first target that has it. Nothing is written.

        Raises:
            As `program_of`.
        """
        return targets_of(to_tree(self.program_of(method)))

    @_bounded
    def payloads_of(self, method: str, *, copied: bool = False) -> Payloads:
        """The payloads of a program; with `copied`, records are read and checked rather than mapped."""
        key = (method, copied and self._bare is None)
        if key in self._payloads:
            return self._payloads[key]
        payloads = self._payloads[key] = self._package.payloads_of(method, copied=copied)
        if self._bare is not None:
            add_embedded(
                payloads, self._package.tree_of(method), self._bare.folder, self._package.archive.limits
            )
        elif self._package.layout.spec.name == "A1":  # torch 2.1 writes lifted tensors into the document
            add_embedded(payloads, self._package.tree_of(method), None, self._package.archive.limits)
        if self._package.layout.spec.is_flat:
            sanitize_payload_names(payloads)
        return payloads

    @_bounded
    def format_of(self, method: str) -> str:
        """The name of the wire format of a program's document."""
        return self._package.format_of(method).name

    @_bounded
    def inspect(self, file: str = "") -> Inspection:
        """What the file holds.

        Args:
            file: how to call the file.
        """
        reader = self._package.archive
        methods = []
        for name in self.methods:
            program, payloads = self.program_of(name), self.payloads_of(name)
            member = self._package.member_of(name)
            summary = summarize(program, name=name, weights=payloads.weights, constants=payloads.constants)
            methods.append(
                MethodInspection(
                    name,
                    self.format_of(name),
                    reader.size(member),
                    reader.stored_size(member),
                    summary,
                    self.report(name),
                )
            )
        producer = methods[-1].report.producer if methods else ""
        payload_bytes = sum(reader.size(name) for name in self._package.payload_records)
        if self._bare is not None:
            payload_bytes += sum(payloads.nbytes for payloads in self._payloads.values())
        return Inspection(file, self.size, self.layout, producer, methods, payload_bytes, list(self.names))

    @_bounded
    def problems(self) -> list[Problem]:
        """Every problem: records that are not what was written or that could be run, programs that break rules. Reads the
        whole file.

        Raises:
            ArchiveError: the archive is closed.
        """
        problems = self._package.problems()
        self._package.archive.check_open()  # else its being closed is the problem of whatever comes next
        try:
            methods = self.methods
        except GraphwireError as error:
            return [*problems, Problem(error.place, "archive", error.problem)]
        if self._bare is None and self._package.lacks_manifest:
            problems.append(NO_MANIFEST)
        for method in methods:
            problems += self._problems_of(method)
        self._package.archive.check_open()
        return list(dict.fromkeys(problems))

    def _problems_of(self, method: str) -> list[Problem]:
        """What is wrong with one program, each part of it looked at whatever is wrong with the others."""
        place = self._package.member_of(method)
        problems: list[Problem] = []
        told = _Told(problems, place, self.boundary(method))
        program = payloads = None
        with told:
            program, _, _ = upgraded(self._package.program_or_tree_of(method))
            if self._package.layout.spec.is_flat:
                sanitize_weight_names(program)
            problems += [p._replace(place=f"{place} {p.place}") for p in validate(program)]
            if program.producer is not None and self._bare is None and not self._package.has_manifest:
                problems.append(NO_MANIFEST)
        with told:
            payloads = self.payloads_of(method)
            check_payload_names([*payloads.weights, *payloads.constants])
        if program is not None and payloads is not None:
            with told:
                payloads.complete(program)
                held = weight_problems(program, payloads.weights, payloads.constants, payloads.unread)
                problems += [p._replace(place=f"{method}: {p.place}") for p in (*payloads.problems(), *held)]
        return problems

    @_bounded
    def check_payloads(self) -> None:
        """Check the checksum of every payload.

        Raises:
            ChecksumError: a record's bytes are not the ones that were written.
        """
        self._package.check_payloads()

    def close(self) -> None:
        """Close the file."""
        self._package.close()


class _Told:
    """A block whose error is one more problem.

    Args:
        problems: gets it.
        place: where the block looks.
        boundary: makes every error ours.
    """

    def __init__(self, problems: list[Problem], place: str, boundary: Boundary) -> None:
        self._problems = problems
        self._place = place
        self._boundary = boundary

    def __enter__(self) -> None:
        """Nothing is done before there is an error."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        try:
            self._boundary.__exit__(kind, error, trace)
        except GraphwireError as ours:
            error = ours
        if isinstance(error, GraphwireError):
            self._problems.append(Problem(f"{self._place} {error.place}".rstrip(), "document", error.problem))
        return isinstance(error, GraphwireError)


@reading("file")
def open(
    file: Readable,
    *,
    registry: Registry | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Archive:
    """Open a file to look at its programs as records, without torch.

    Args:
        file: a path, a binary file object open for reading, or the file's bytes; an archive, or a bare document of any
            schema and wire format, whose weights stand inside or, for a path, in files of the same folder.
        registry: the plugins in force; those installed by default.
        limits: bounds on what the file may make us do.

    Raises:
        ArchiveError: the file is neither an archive nor a document, or a damaged archive.
    """
    return Archive(file, registry_or_installed(registry), limits)
