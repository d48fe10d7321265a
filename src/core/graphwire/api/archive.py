"""`Archive`: an open file, whose programs are read as records on demand, without torch."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from msgspec.structs import replace

from graphwire import errors
from graphwire.analysis.load_report import Disclosure, LoadReport, Omission, StepReport, disclosures
from graphwire.analysis.validation.program_rules import check_payloads, validate
from graphwire.analysis.validation.value_rules import weight_problems
from graphwire.api import options, weights
from graphwire.api.documents import ProgramRecords, program_at_current_schema, read_records
from graphwire.api.error_boundary import Boundary
from graphwire.api.options import StorageOptions
from graphwire.api.weights import LoadWeights
from graphwire.evolve.plain_values import walk_nodes
from graphwire.evolve.planner import plan_for
from graphwire.evolve.step import release_of, releases_with, version_of
from graphwire.evolve.targets import first_reader_of, obstacles_by_target
from graphwire.process import LOG
from graphwire.registry.registry import Registry, registry_or_installed
from graphwire.schema import SCHEMA_VERSION, Program, Version
from graphwire.schema.trees import to_tree
from graphwire.wire import package_reader
from graphwire.wire.archive.manifest import RecordCache, keep_records, records_to_fetch
from graphwire.wire.archive.source import Closing, Readable, file_name, located, type_text
from graphwire.wire.limits import DEFAULT_LIMITS, Limits
from graphwire.wire.payloads import WEIGHTS, Payloads

if TYPE_CHECKING:
    import torch

    from graphwire.analysis.summary import Inspection
    from graphwire.api.bare_document import BareDocument
    from graphwire.api.options import Groups
    from graphwire.evolve.planner import UnknownOps


P = ParamSpec("P")
R = TypeVar("R")


def _bounded(function: Callable[Concatenate[Archive, P], R]) -> Callable[Concatenate[Archive, P], R]:
    """Convert what the method raises to a `GraphwireError` that names the file and, for a method name, the record."""

    @functools.wraps(function)
    def bounded(archive: Archive, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            if args or kwargs:
                options.check_types(function, (archive, *args), kwargs, errors.DecodeError)
            return function(archive, *args, **kwargs)
        except Exception as error:
            if isinstance(error, TypeError) and error.__traceback__ and error.__traceback__.tb_next is None:
                raise  # The call itself is wrong: nothing of the function ran.
            method: Any = kwargs.get("method", args[0] if args else None)
            with archive.boundary(method):
                raise

    return bounded


class Archive(Closing):
    """An open file: programs as schema records, payloads by name, each read on first access.

    `graphwire.open` returns it. It is thread-safe. Mapped payloads stay valid after it is closed.
    """

    def __init__(
        self,
        file: Readable,
        registry: Registry,
        limits: Limits,
        weights_from: LoadWeights = weights.AS_SAVED,
        rank: int | None = None,
        storage_options: StorageOptions = None,
        cache: str | os.PathLike[str] | None = None,
    ) -> None:
        options.check_limits(limits)
        options.check_storage_options(storage_options)
        file = located(file, storage_options)
        weights_from = weights.located_weights(weights_from, storage_options)
        weights.check_weights_choice(weights_from, tensors=True)
        self.registry = registry
        self.file = file_name(file)
        """The name of the file in messages: its path, or a description of its source."""
        self._bare: BareDocument | None = None
        self._cache = None if cache is None else RecordCache(cache)
        self._payloads: dict[tuple[str, bool], Payloads] = {}
        """The payloads of each (program name, whether records are copied)."""
        try:
            self._package = package_reader.Package(file, registry, limits=limits)
        except errors.ArchiveError:
            from graphwire.api.bare_document import find_bare_document

            self._bare = find_bare_document(file, registry, limits)
            if self._bare is None:
                raise
            self._package = package_reader.Package(self._bare.archive, registry, limits=limits)
        try:
            references = None if self._bare is not None else self._package.references
            self.weights = weights.AttachedWeights(
                references, file, weights_from, rank, registry, limits, self._cache
            )
            """The weights that are not in the file."""
        except BaseException:
            self._package.close()
            raise
        self._programs: dict[str, Program] = {}
        self._records: dict[str, ProgramRecords] = {}

    def __repr__(self) -> str:
        return f"<Archive {self.file!r:.200}>"

    def _repr_html_(self) -> str | None:
        try:
            return self.inspect(self.file)._repr_html_()
        except errors.unless_interrupted(
            errors.GraphwireError, OSError
        ):  # closed or damaged: a notebook then shows the text
            return None

    @property
    @_bounded
    def methods(self) -> tuple[str, ...]:
        """The names of the programs in the file."""
        return tuple(self._package.layout.members)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all records of the archive; none for a bare document."""
        return () if self._bare is not None else self._package.archive.names

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return self._bare.size if self._bare is not None else self._package.archive.nbytes

    @property
    def is_bare(self) -> bool:
        """Whether the file is a bare document instead of an archive."""
        return self._bare is not None

    @property
    def is_recognized(self) -> bool:
        """Whether the file is an archive, or a document that declares a schema. Other bytes may begin as a document does."""
        try:
            return self._bare is None or bool(list(map(version_of, map(self._package.tree_of, self.methods))))
        except errors.GraphwireError:
            return False

    @property
    @_bounded
    def layout(self) -> str:
        """The title of the archive layout, for display."""
        return package_reader.BARE_DOCUMENT if self._bare is not None else self._package.layout.title

    @_bounded
    def weight_files(self) -> list[str]:
        """Return the paths or URLs of the files that the file refers to. A folder stands for all that is below it."""
        if self._bare is not None:
            from graphwire.api.bare_document import files_beside

            return files_beside(self._bare.folder, map(self._package.tree_of, self.methods))
        return list(self.weights.files())

    @property
    @_bounded
    def extra_files(self) -> tuple[str, ...]:
        """The paths of the extra files that were passed to `save`."""
        return self._package.layout.extra_files

    @_bounded
    def read_extra(self, path: str) -> bytes:
        """Return the bytes of an extra file that was passed to `save`."""
        return self._package.archive.read(self._package.layout.spec.extra + path)

    def boundary(self, method: str | None = None) -> Boundary:
        """Return a context manager that converts errors to `GraphwireError`s with this file, its record and format.

        Args:
            method: the program that the block reads; None if it reads none.
        """
        return Boundary(self.file, self.registry, lambda: self._record_of(method))

    def _record_of(self, method: str | None) -> tuple[str, str]:
        if method not in self.methods:
            return "", ""
        record = "" if self._bare is not None else self._package.member_of(method)
        return record, self._package.format_of(method).name

    def method(self, name: str | None) -> str:
        """Return `name` after a check that the program exists; for None, the name of the only program.

        Raises:
            ArchiveError: no program has the name, or it is None and the file has several programs.
        """
        if name is None:
            names = self.methods
            if len(names) > 1:
                known = ", ".join(map(repr, names))
                raise errors.ArchiveError(
                    f"the file holds several programs: {known}", remedy="Pass method= to pick one"
                )
            return names[0]
        if not isinstance(name, str):
            raise errors.DecodeError(
                f"method= is {type_text(name)}", remedy="Pass the name of a program in the file"
            ).about("method")
        self._package.member_of(name)
        return name

    @cached_property
    @_bounded
    def program(self) -> Program:
        """The validated records of the only program."""
        return self.program_of(self.method(None))

    @cached_property
    @_bounded
    def payloads(self) -> Payloads:
        """The payloads of the only program."""
        return self.payloads_of(self.method(None))

    @_bounded
    def fetch(self, method: str, *, payloads: bool = False) -> None:
        """Read the bytes of a program's document ahead of `program_of`.

        `load` calls it before it takes the build lock, so that no thread waits for the disk of another.

        Args:
            payloads: whether all payloads are going to be read, too. Those of remote files are fetched ahead, in parallel.

        Raises:
            ArchiveError: the record is damaged.
        """
        if method not in self._programs:
            self._package.fetch(method)
        if payloads:
            self._package.archive.expect(
                records_to_fetch(self.payloads_of(method).records) if self.is_remote else ()
            )

    def records_of(self, method: str) -> ProgramRecords:
        """Return the records of a program, checked without a look at its weights."""
        if method not in self._records:
            self._records[method] = read_records(self._package, method)
        return self._records[method]

    @_bounded
    def program_of(self, method: str) -> Program:
        """Return the validated records of a program.

        Raises:
            SchemaError: the document is not a valid program of a supported schema.
        """
        program = self._programs.get(method)
        if program is None:
            records = self.records_of(method)
            program = records.program
            payloads = self.payloads_of(method)
            check_payloads(program, payloads.weights, payloads.constants, payloads.sample_inputs)
            payloads.complete(program)
            self._programs[method] = program
            LOG.info("%s: read program %r of schema %s", self.file, method, records.version)
            for step in records.taken:
                LOG.info("%s: upgraded %s", self.file, step.what)
            for name, why in payloads.unread.items():
                LOG.info("%s: skipped %s: %s", self.file, name, why)
        return program

    def unchecked_program_of(self, method: str) -> Program:
        """Return the records of a program, also of one that breaks rules of the format: to be shown, never to be built.

        Raises:
            GraphwireError: the document cannot be read as records.
        """
        return program_at_current_schema(self._package.program_or_tree_of(method))[0]

    def version_of(self, method: str) -> Version:
        """Return the schema version of a program's document in the file.

        Raises:
            GraphwireError: as `program_of`.
        """
        self.program_of(method)
        return self.records_of(method).version

    @_bounded
    def report(self, method: str) -> LoadReport:
        """Return the report of a load: the steps it applies, and what it derives, misses or drops.

        Raises:
            GraphwireError: as `program_of`.
        """
        self.program_of(method)
        return build_load_report(
            self.records_of(method),
            self.payloads_of(method),
            self.registry,
            method=method,
            layout=self.layout,
            format=self.format_of(method),
            is_of_torch=self._bare is not None or self._package.is_of_torch,
        )

    @_bounded
    def targets(self, method: str) -> dict[str, list[errors.Obstacle]]:
        """Return, for every target by name (releases first), the obstacles to writing a program for it.

        An obstacle names a construct, its node, and the first target that supports it. Nothing is written.

        Raises:
            GraphwireError: as `program_of`.
        """
        return obstacles_by_target(to_tree(self.program_of(method)))

    @_bounded
    def disclosures(self, method: str) -> list[Disclosure]:
        """Return what the file contains besides a program and its weights, which `strip=` of `save` and `convert` drops.

        Raises:
            GraphwireError: as `program_of`.
        """
        program = self.program_of(method)
        tensors = len(self.payloads_of(method).sample_inputs)
        return disclosures(program, tensors=tensors, extra_files=self.extra_files)

    @_bounded
    def payloads_of(self, method: str, *, copied: bool = False) -> Payloads:
        """Return the payloads of a program: mapped or, with `copied`, read into memory with their checksums verified."""
        key = (method, copied and self._bare is None)
        if key in self._payloads:
            return self._payloads[key]
        self._package.member_of(method)  # An unknown name has an error of its own.
        payloads = self._payloads[key] = self._package.layout.payloads_of(method, copied=copied)
        if self._bare is not None or self._package.layout.spec.name == "A1":
            from graphwire.api.bare_document import add_embedded

            # torch 2.1 writes lifted tensors into the document.
            folder = None if self._bare is None else self._bare.folder
            add_embedded(payloads, self._package.tree_of(method), folder, self._package.archive.limits)
        if self._package.layout.spec.is_flat:
            package_reader.sanitize_payload_names(payloads)
        if self._cache is not None and self.is_remote and self._package.has_manifest:
            archive, manifest = self._package.archive, self._package.manifest
            payloads.records = keep_records(payloads.records, archive, manifest, self._cache)
        self.weights.attach(payloads, copied=copied)
        if (elsewhere := self._package.references) is not None:
            metas = (*payloads.weights.values(), *payloads.constants.values())
            names = {name for table in (elsewhere.records, *elsewhere.ranks) for name in table}
            if any(f"{WEIGHTS}{each.path_name}" in names or each.shared in names for each in metas):
                payloads.requires.add("external-weights")
        return payloads

    @_bounded
    def module(
        self,
        method: str | None = None,
        *,
        device: str | int | torch.device | None = None,
        copy: bool = False,
        unknown_ops: UnknownOps = "error",
        groups: Groups | None = None,
        check_guards: bool = True,
    ) -> torch.fx.GraphModule:
        """Return a program as a module that runs, with the weights that the archive was opened with. Needs torch.

        Args:
            method: the name of the program, for a file with several.
            device: as in `load_module`; so are the others.

        Raises:
            GraphwireError: as `load_module`.
        """
        from graphwire.api.loading import decode_from
        from graphwire.bridge.module.module import decode_module
        from graphwire.bridge.torch_compat.modes import modes_set_aside

        options.check_choice("unknown_ops", unknown_ops, ("error", "opaque"))
        with modes_set_aside():
            loaded = decode_from(
                partial(decode_module, check_guards=check_guards),
                self,
                self.method(method),
                device=device,
                copy=copy,
                unknown_ops=unknown_ops,
                names=options.group_names(groups),
            )
        for text in loaded.warnings:
            errors.warn(text)
        return loaded.value

    @property
    def is_remote(self) -> bool:
        """Whether the file is at a URL."""
        return self._package.archive.is_remote

    @_bounded
    def check_weights(self, method: str) -> None:
        """Check that the weights of a program that are outside of the file are there, without reading their elements.

        Raises:
            WeightsError: files or tensors are missing or changed; the error lists all of them.
        """
        self.weights.check(self.payloads_of(method))

    @_bounded
    def format_of(self, method: str) -> str:
        """Return the name of the wire format of a program's document."""
        return self._package.format_of(method).name

    @_bounded
    def inspect(self, file: str = "") -> Inspection:
        """Return a summary of the file: programs, weights, sizes and producers. Reads no payloads.

        Args:
            file: the name of the file in the summary.
        """
        from graphwire.analysis.summary import Inspection, MethodInspection, summarize

        reader = self._package.archive
        methods = []
        for name in self.methods:
            program, payloads = self.program_of(name), self.payloads_of(name)
            member = self._package.member_of(name)
            summary = summarize(
                program,
                name=name,
                weights=payloads.weights,
                constants=payloads.constants,
                registry=self.registry,
            )
            if stores := self.weights.plugins:
                summary = replace(summary, plugins=[*summary.plugins, *stores])
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
        payload_bytes = sum(reader.size(name) for name in self._package.layout.payload_records)
        if self._bare is not None:
            payload_bytes += sum(payloads.nbytes for payloads in self._payloads.values())
        return Inspection(file, self.size, self.layout, producer, methods, payload_bytes, list(self.names))

    @_bounded
    def problems(self, *, payloads: bool = True) -> list[errors.Problem]:
        """Return every problem: damaged records, records with executable content, and invalid programs.

        Args:
            payloads: whether to read the whole file. If false, the elements of weights, constants and example inputs are not
                read, and damage there is not found.

        Raises:
            ArchiveError: the archive is closed.
        """
        problems = self._package.problems(payloads=payloads)
        self._package.archive.check_open()  # Otherwise each later step would report a closed archive.
        try:
            methods = self.methods
        except errors.GraphwireError as error:
            return [*problems, *errors.problems_of(error, "archive")]
        if self._bare is None and self._package.lacks_manifest:
            problems.append(package_reader.NO_MANIFEST)
        for method in methods:
            problems += self._problems_of(method, payloads)
        self._package.archive.check_open()
        # A document and its weights may lack one plugin; only the remedies differ, and the first is of all.
        kept: dict[object, errors.Problem] = {}
        for each in problems:
            kept.setdefault(each.message.partition(". ")[0] if each.kind == "missing-plugin" else each, each)
        return list(kept.values())

    def _problems_of(self, method: str, elements: bool) -> list[errors.Problem]:
        """Return the problems of one program; a problem of one part does not hide those of the others."""
        place = self._package.member_of(method)
        problems: list[errors.Problem] = []
        collected = partial(_collected, problems, place, self.boundary(method))
        program = payloads = None
        with collected():
            program = None if elements else self._programs.get(method)  # which was validated when it was read
            if program is None:
                program, _, _ = program_at_current_schema(self._package.program_or_tree_of(method))
                if self._package.layout.spec.is_flat:
                    package_reader.sanitize_weight_names(program)
                problems += [p._replace(place=f"{place} {p.place}") for p in validate(program)]
            if program.producer is not None and self._bare is None and not self._package.has_manifest:
                problems.append(package_reader.NO_MANIFEST)
        with collected():
            payloads = self.payloads_of(method)
        if program is not None and payloads is not None:  # type: ignore[redundant-expr] # errors are collected
            with collected():
                check_payloads(program, payloads.weights, payloads.constants, payloads.sample_inputs)
            with collected():
                payloads.complete(program)
                held = weight_problems(program, payloads.weights, payloads.constants, payloads.unread)
                problems += [p._replace(place=f"{method}: {p.place}") for p in (*payloads.problems(), *held)]
        if payloads is not None:
            with collected():
                if not elements:
                    self.weights.check(payloads)
                outside = self.weights.problems_of_all(payloads) if elements else []
                problems += [p._replace(place=f"{method}: {p.place}") for p in outside]
        return problems

    @property
    def has_manifest(self) -> bool:
        """Whether the archive has a manifest."""
        return self._bare is None and self._package.has_manifest

    @_bounded
    def record_digests(self) -> dict[str, str]:
        """Return the SHA-256 of every record in hexadecimal, by name. Reads the whole file.

        Raises:
            ArchiveError: a record is damaged.
        """
        import hashlib

        digests = {name: hashlib.sha256() for name in self.names}
        for name, digest in digests.items():
            self._package.archive.verify(name, digest)
        return {name: digest.hexdigest() for name, digest in digests.items()}

    @_bounded
    def listed_crc(self, name: str) -> int | None:
        """Return the CRC-32 that the file lists for a record; None if it has no such record. Nothing is read."""
        return self._package.archive.listed_crc(name) if name in self.names else None

    @_bounded
    def listed_digest(self, name: str) -> str | None:
        """Return the SHA-256 that the manifest lists for a record, in hexadecimal; None if it lists none for it alone.

        Small records share digests. Nothing but the manifest is read.
        """
        return self._package.manifest.sha256.get(name) if name in self.names else None

    @_bounded
    def record_size(self, name: str) -> int:
        """Return the size of a record after inflation, in bytes."""
        return self._package.archive.size(name)

    @property
    @_bounded
    def documents(self) -> tuple[str, ...]:
        """The names of the records with the documents of programs."""
        return tuple(self._package.layout.members.values())

    @_bounded
    def check_payloads(self, *, outside: bool = True) -> None:
        """Verify the checksum of every payload.

        Args:
            outside: whether to verify weights outside of the file, too.

        Raises:
            ChecksumError: the bytes of a record differ from those that were written.
        """
        self._package.check_payloads()
        for method in self.methods if outside else ():
            self.check_weights(method)
            for error in self.weights.damage(self.payloads_of(method)):
                raise error

    def close(self) -> None:
        """Close the file."""
        self._package.close()
        self.weights.close()


@contextmanager
def _collected(problems: list[errors.Problem], place: str, boundary: Boundary) -> Iterator[None]:
    """A context that appends an error of its block to a list of problems.

    Args:
        place: the start of the problem's place.
        boundary: converts every error to a `GraphwireError`.
    """
    try:
        with boundary:
            yield
    except errors.MissingPluginError as error:
        problems += errors.problems_of(error, "document")
    except errors.GraphwireError as error:
        what = ". ".join(filter(None, (error.problem, error.remedy)))
        problems.append(errors.Problem(f"{place} {error.place}".rstrip(), "document", what))


@options.public_function("file")
def open(
    file: Readable,
    *,
    registry: Registry | None = None,
    limits: Limits = DEFAULT_LIMITS,
    weights_from: LoadWeights = weights.AS_SAVED,
    rank: int | None = None,
    storage_options: StorageOptions = None,
    cache: str | os.PathLike[str] | None = None,
) -> Archive:
    """Open a file to read its programs as schema records, without torch.

    The file is an archive, or a bare document of any schema and wire format. The weights of a bare document are inside it
    or, if `file` is a path, in files of the same folder.

    Args:
        file: a path, a readable binary file object, or the file's bytes; or a URL that fsspec knows, or a path of
            universal_pathlib, whose file is read by ranges.
        registry: the plugins to use. None uses the installed ones.
        limits: bounds on the time and memory that reading the file may take.
        weights_from: where the weights are: a file or folder of weights, a `Checkpoint`, or `Blobs`. By default they are where
            the file states.
        rank: for a program that is divided between ranks, the rank whose weights are read.
        storage_options: what the file system of a URL takes, such as credentials, as fsspec has it; or a mapping with such
            options for each protocol.
        cache: a folder on this machine that keeps the weights of files at URLs, by their digests. Weights that are there are
            mapped, after a comparison with their digest, and not read again.

    Raises:
        RemoteError: a file at a URL cannot be read.
        ArchiveError: the file is neither an archive nor a document, or it is damaged.
    """
    if cache is not None and not isinstance(cache, (str, os.PathLike)):
        raise errors.DecodeError(f"cache= is {type_text(cache)}", remedy="Pass the path of a folder").about(
            "cache"
        )
    return Archive(file, registry_or_installed(registry), limits, weights_from, rank, storage_options, cache)


open_within: Callable[..., Archive] = inspect.unwrap(open)
"""`open` for functions that are public themselves: what its decorator does is done."""


def build_load_report(
    records: ProgramRecords,
    payloads: Payloads,
    registry: Registry,
    *,
    method: str = "",
    layout: str = "",
    format: str = "",
    is_of_torch: bool = True,
) -> LoadReport:
    """Return the load report of a program.

    Args:
        records: the program at the current schema and the opsets of the file, and how it was stored.
        registry: has the installed opsets.
        method: the name of the program.
        layout: the title of the archive layout.
        format: the name of the wire format.
        is_of_torch: whether torch's own writer may have made the file.
    """
    program, version, taken = records.program, records.version, records.taken
    schema_steps = [each.schema for each in taken if each.schema is not None]
    steps = [StepReport(each.what, list(each.nodes)) for each in taken]
    try:
        for step in plan_for(program, registry).steps:
            name = f"opset {step.namespace} {step.from_version} → {step.to_version}"
            steps.append(StepReport(name, [node.name or node.target for node in step.nodes]))
    except errors.OpsetError as error:
        steps += [StepReport(f"opset: {problem.message}") for problem in error.problems]
    derived = [text for step in schema_steps for text in step.derived]
    derived += [f"the name {new!r} of the weight {old!r}" for old, new in records.renamed]
    unstated = [node for _, node in walk_nodes(program.graph_module.graph) if node.propagate]
    derived += [f"what {node.name or node.target} makes, by running it on metadata" for node in unstated]
    dropped = [Omission(what, why) for step in schema_steps for what, why in step.dropped]
    dropped += [Omission(name, why) for name, why in payloads.unread.items()]
    dropped += [Omission("example inputs", why) for why in payloads.warnings]
    absent = [text for step in schema_steps for text in step.absent]
    if program.example_inputs is None and not payloads.warnings:
        absent.append("example inputs")
    return LoadReport(
        method=method,
        producer=program.producer or _producer(program, version, is_of_torch=is_of_torch),
        schema_version=str(version),
        layout=layout,
        format=format,
        readable_from=first_reader_of(version, program),
        steps=steps,
        derived=derived,
        absent=absent,
        dropped=dropped,
    )


def _producer(program: Program, version: Version, *, is_of_torch: bool) -> str:
    """Return what wrote a document that does not record it: torch, or graphwire for the releases of torch that read it."""
    readers = releases_with(version)
    if not is_of_torch and readers and version < Version(*SCHEMA_VERSION):
        return f"graphwire, for torch {' to '.join(dict.fromkeys((readers[0], readers[-1])))}"
    return f"torch {release_of(version) or program.torch_version}"
