"""A package: the archive of one or more programs, each a document, with the payloads they share.

    models/NAME.SUFFIX                                      the program, in the wire format of that suffix
    data/weights/NAME_weights_config.json                   its weights, by qualified name
    data/weights/weight_I                                   the bytes of one storage
    data/constants/NAME_constants_config.json, tensor_I     likewise, what is no part of the state dict
    data/sample_inputs/NAME_sample_inputs_config.json       likewise, the tensors of the example inputs
    data/sample_inputs/NAME.pt                              empty: torch expects the record
    data/wire_formats.json                                  which distribution provides a wire format that is not in the box
    extra/PATH                                              what the caller added

This is the layout of PyTorch's PT2 archive since torch 2.9; a document in another format than JSON, and the third config,
are ours. Older layouts are read and written too: see `layouts`.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Mapping
from functools import cached_property
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple

import msgspec

from graphwire.errors import ArchiveError, GraphwireError, MissingRecordError, Problem, UnknownFormatError
from graphwire.hooks.interfaces import Tree, WireFormat
from graphwire.hooks.registry import Registry
from graphwire.schema.program import PluginRequirement, Program
from graphwire.schema.tensor import PayloadConfig, PayloadMeta
from graphwire.wire.archive import ArchiveReader, ArchiveWriter, Readable
from graphwire.wire.archive_source import type_text
from graphwire.wire.atomic import replacing, sync, write_all
from graphwire.wire.digests import MANIFEST, read_manifest
from graphwire.wire.document import read_document, read_program
from graphwire.wire.layouts import (
    Layout,
    LayoutSpec,
    config_members,
    executable_members,
    layout_named,
    open_layout,
    schema_version_text,
)
from graphwire.wire.limits import DEFAULT_LIMITS, Limits
from graphwire.wire.payloads import CONSTANTS, SAMPLE_INPUTS, WEIGHTS, Payloads, Record
from graphwire.wire.torch_save_writer import PackedFile, pack_examples, pack_state_dict, record_chunks

_PROVIDERS = "data/wire_formats.json"
"""Who provides the wire formats that are not the box's, by suffix: what a reader without them can say."""
_read_providers = msgspec.json.Decoder(dict[str, PluginRequirement]).decode


BARE = "document"
"""The layout of one document without an archive: for a target that has none, whose documents hold the weights."""


_STREAMED_BYTES = 1 << 20
"""Payloads from this size on are written while they are checked."""


class Document(NamedTuple):
    """A program as it stands in a package."""

    data: bytes
    suffix: str
    """The ending of its member, which names the wire format."""
    payloads: Payloads
    provider: PluginRequirement | None = None
    """Who provides the wire format, where that is not the box."""


# ------------------------------------------------------------------------------------------------------- write


def write_package(
    stream: BinaryIO,
    documents: Mapping[str, Document],
    extra_files: Mapping[str, bytes] | None = None,
    *,
    layout: str = "B2",
    settle: Callable[[], object] | None = None,
) -> None:
    """Write a package to a stream that need not seek. Payloads are lent, not copied.

    Args:
        documents: the programs by name; records of one name are one record. In any layout but B2 a document is JSON of the
            schema that goes with it, and its payloads carry the example inputs (`Payloads.examples`), which are left out
            where they have no plain form. A1 to A4 hold one program.
        extra_files: anything else to keep in the archive, by path.
        layout: a key of `layouts.LAYOUTS`, `pt2` for the newest, or `BARE`.
        settle: see `ArchiveWriter`.

    Raises:
        ArchiveError: a name leaves the archive, or the layout cannot hold the documents.
        EncodeError: a payload has no form in the layout.
    """
    if layout == BARE:
        if len(documents) != 1 or extra_files:
            raise ArchiveError(
                "a bare document is one program, with nothing beside it",
                remedy="Write each program to a file of its own, without extra files",
            )
        write_all(stream, next(iter(documents.values())).data)
        return
    spec = layout_named(layout)
    if spec.has_configs:
        with ArchiveWriter(stream, manifest=True, settle=settle) as archive:
            _write_records(archive, documents, extra_files or {}, spec)
    else:
        _write_packed(stream, documents, extra_files or {}, spec)


def save_package(
    file: str | os.PathLike[str] | BinaryIO,
    documents: Mapping[str, Document],
    extra_files: Mapping[str, bytes] | None = None,
    *,
    layout: str = "B2",
) -> None:
    """Write a package to a stream, or to a path, which is replaced when everything is written and on the disk.

    Raises:
        OSError: the path cannot be written. Other errors are those of `write_package`.
    """
    if not isinstance(file, (str, os.PathLike)):
        _check_stream(file)
        write_package(file, documents, extra_files, layout=layout)
        return
    with replacing(file) as stream:
        write_package(stream, documents, extra_files, layout=layout, settle=functools.partial(sync, stream))


def _check_stream(stream: Any) -> None:
    """Refuse what takes no bytes.

    Raises:
        ArchiveError: it does not.
    """
    try:
        stream.write(b"")
    except AttributeError:
        raise ArchiveError(f"{type_text(stream)} is no path and no binary file") from None
    except TypeError as error:
        raise ArchiveError(
            "the file object takes text", remedy='Open the file in binary mode, "wb"'
        ) from error
    except ValueError as error:
        raise ArchiveError(
            f"the file object takes no bytes ({error})", remedy='Open the file with "wb"'
        ) from error


def _write_records(
    archive: ArchiveWriter,
    documents: Mapping[str, Document],
    extra_files: Mapping[str, bytes],
    spec: LayoutSpec,
) -> None:
    for name, document in documents.items():
        member = spec.member("document", name).removesuffix(".json") + document.suffix
        archive.write(member, document.data, compress=True)
    for name, document in documents.items():
        for kind, member in config_members(name).items():
            metas = getattr(document.payloads, kind)
            if metas or kind != "sample_inputs":
                archive.write(member, msgspec.json.encode(PayloadConfig(metas)), compress=True)
        archive.write(spec.member("sample_inputs", name), b"", compress=False)
    providers = {each.suffix: each.provider for each in documents.values() if each.provider is not None}
    if providers:
        archive.write(_PROVIDERS, msgspec.json.encode(providers), compress=True)
    for path, data in extra_files.items():
        archive.write(spec.extra + path, data, compress=True)
    records: dict[str, Record] = {}
    for document in documents.values():
        records.update(document.payloads.records)
    for member, record in records.items():
        if record.nbytes < _STREAMED_BYTES:  # its checksum is known before its header is written
            archive.write(member, record.view(), compress=False)
        else:
            lent = getattr(record, "lends", False)
            archive.write_stream(member, record.nbytes, record_chunks(record), lent=lent)


def _write_packed(
    stream: BinaryIO, documents: Mapping[str, Document], extra_files: Mapping[str, bytes], spec: LayoutSpec
) -> None:
    """A layout whose payloads are torch.save files. Nothing is written before all of them can be."""
    if spec.is_flat and len(documents) != 1:
        raise ArchiveError(f"an archive of torch {spec.releases} holds one program, not {len(documents)}")
    if any(document.suffix != ".json" for document in documents.values()):
        raise ArchiveError(f"the program in an archive of torch {spec.releases} is JSON")
    packed: dict[str, PackedFile | None] = {}
    for name, document in documents.items():
        packed.update(_pack(name, document, spec))
    version = schema_version_text(next(iter(documents.values())).data) if spec.is_flat else ""
    root = "" if spec.is_flat else "program"
    with ArchiveWriter(stream, root=root) as archive:
        for name, document in documents.items():
            archive.write(spec.member("document", name), document.data, compress=False)
        for member, file in packed.items():
            if file is None:
                archive.write(member, b"", compress=False)
            else:
                archive.write_stream(member, file.nbytes, file.chunks())
        if spec.is_flat:
            archive.write("version", version.encode(), compress=False)
        for path, data in extra_files.items():
            archive.write(spec.extra + path, data, compress=False)


def _pack(name: str, document: Document, spec: LayoutSpec) -> dict[str, PackedFile | None]:
    """The torch.save files of a program, by member; None for an empty one."""
    payloads = document.payloads
    records = {record: payloads.records[record] for record in payloads.records}
    weights = {key: (WEIGHTS, meta) for key, meta in payloads.weights.items()}
    constants = {key: (CONSTANTS, meta) for key, meta in payloads.constants.items()}
    moved = _buffers(document, spec)
    weights.update((key, value) for key, value in constants.items() if key in moved)
    constants = {key: value for key, value in constants.items() if key not in moved}
    files: dict[str, PackedFile | None] = {}
    for kind, values in (("weights", weights), ("constants", constants)):
        member = spec.member(kind, name)
        if member:
            metas = {key: _moved(folder, meta) for key, (folder, meta) in values.items()}
            files[member] = pack_state_dict(metas, records, "", payloads.encoded, untyped=spec.untyped)
    member = spec.member("sample_inputs", name)
    if member:
        files[member] = None
        if payloads.examples is not None:
            try:
                samples = payloads.sample_inputs
                files[member] = pack_examples(
                    payloads.examples, samples, records, SAMPLE_INPUTS, untyped=spec.untyped
                )
            except GraphwireError:
                pass  # the program does not need them
    return files


def _moved(folder: str, meta: PayloadMeta) -> PayloadMeta:
    """A payload whose path counts from the archive's root: weights and constants come from two folders."""
    return msgspec.structs.replace(meta, path_name=folder + meta.path_name if meta.path_name else "")


def _buffers(document: Document, spec: LayoutSpec) -> set[str]:
    """The constants that stand in the state dict: all of them in A1, the buffers among them in A2."""
    if not spec.constants:
        return set(document.payloads.constants)
    if spec.name != "A2":
        return set()
    try:
        specs = json.loads(document.data)["graph_module"]["signature"]["input_specs"]
        return {each["buffer"]["buffer_name"] for each in specs if each.get("buffer")}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise ArchiveError("the document is no JSON of the schema of torch 2.2") from None


# -------------------------------------------------------------------------------------------------------- read


class Package:
    """A package open for reading. Nothing but the directory is read before it is asked for.

    Args:
        source: a path, a binary file object, or bytes.

    Raises:
        ArchiveError: the source is no archive, or a damaged one.
    """

    def __init__(self, source: Readable, registry: Registry, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self.archive = ArchiveReader(source, limits=limits)
        self._registry = registry
        self._limits = limits
        self._fetched: dict[str, bytes] = {}

    @cached_property
    def layout(self) -> Layout:
        """How the archive lays its records out.

        Raises:
            MissingRecordError: it holds no program.
        """
        return open_layout(self.archive)

    @property
    def members(self) -> dict[str, str]:
        """The programs' members in the archive, by program name.

        Raises:
            ArchiveError: there is none, or two members hold one program.
        """
        return self.layout.members

    def member_of(self, name: str) -> str:
        """The member that holds a program.

        Raises:
            MissingRecordError: there is no program of that name.
        """
        try:
            return self.members[name]
        except KeyError:
            names = ", ".join(map(repr, self.members))
            raise MissingRecordError(
                f"the archive holds no program {name!r}", remedy=f"It holds {names}"
            ) from None

    def format_of(self, name: str) -> WireFormat:
        """The wire format of a program's document.

        Raises:
            UnknownFormatError: no plugin provides it.
        """
        member = self.member_of(name)
        suffix = member[member.rindex(".") :]
        try:
            return self._registry.wire_format_of_suffix(suffix)
        except UnknownFormatError as error:
            raise self._missing_format(member, suffix) or error from None

    def _missing_format(self, member: str, suffix: str) -> UnknownFormatError | None:
        """What to say of a wire format that is not there, if the archive says who provides it."""
        try:
            provider = _read_providers(self.archive.read(_PROVIDERS)).get(suffix)
        except (GraphwireError, msgspec.MsgspecError, UnicodeDecodeError):
            return None
        if provider is None or not provider.is_installable:
            return None
        wanted = f"{provider.distribution}>={provider.version}"
        remedy = f"Install what is missing: pip install {wanted!r}"
        for plugin in self._registry.plugins:
            if plugin.distribution == provider.distribution and plugin.status != "active":
                remedy = f"The {plugin} is {plugin.status}: {plugin.reason}"
        return UnknownFormatError(
            f"the program is in the wire format of {provider.distribution} {provider.version}, which is not in force here",
            place=member,
            remedy=remedy,
        )

    def tree_of(self, name: str) -> Tree:
        """A program's document as a plain tree, whatever schema it is of.

        Raises:
            FormatError: the member is no document of its format.
        """
        return read_document(self.archive.read(self.member_of(name)), self.format_of(name), self._limits)

    def fetch(self, name: str) -> None:
        """Read a program's document now, for `program_or_tree_of` to make something of.

        Raises:
            ArchiveError: it is damaged.
        """
        self._fetched[name] = self.archive.read(self.member_of(name))

    def program_or_tree_of(self, name: str) -> Program | Tree:
        """A program as records where its document is read without a tree in between, or else the tree.

        Raises:
            FormatError: the member is no document of its format.
        """
        data, wire_format = self._fetched.pop(name, None), self.format_of(name)
        if data is None:
            data = self.archive.read(self.member_of(name))
        program = read_program(data, wire_format, self._limits)
        return program or read_document(data, wire_format, self._limits)

    def payloads_of(self, name: str, *, copied: bool = False) -> Payloads:
        """A program's payloads.

        Args:
            copied: read each record into memory and check it, rather than map it, when it is asked for.

        Raises:
            ArchiveError: a member is missing or damaged.
            DecodeError: a torch.save file holds no dict of tensors.
        """
        self.member_of(name)
        return self.layout.payloads_of(name, copied=copied)

    @cached_property
    def digests(self) -> dict[str, str]:
        """The SHA-256 of each record that the archive's manifest lists, by name; none for an archive without a manifest.

        Raises:
            ArchiveError: the manifest is damaged.
        """
        return read_manifest(self.archive.read(MANIFEST)) if MANIFEST in self.archive else {}

    @property
    def payload_records(self) -> tuple[str, ...]:
        """The names of the records that hold payloads' bytes."""
        return self.layout.payload_records

    @property
    def extra_files(self) -> tuple[str, ...]:
        """The paths of what the caller added."""
        return self.layout.extra_files

    def read_extra(self, path: str) -> bytes:
        """The bytes of what the caller added.

        Raises:
            MissingRecordError: there is nothing under that path.
        """
        return self.archive.read(self.layout.spec.extra + path)

    def verify(self, name: str) -> None:
        """Read a record in pieces, and compare its checksum, and its digest where the manifest has one.

        Raises:
            As `ArchiveReader.verify`.
        """
        self.archive.verify(name, self.digests.get(name))

    def problems(self) -> list[Problem]:
        """Every problem of the archive's records, all of which are read: what is not what was written, what the manifest and
        the archive do not both have, and what somebody might run (nothing here ever does)."""
        problems = executable_members(self.archive)
        try:
            listed = set(self.digests)
        except GraphwireError as error:
            problems.append(Problem(error.place, "manifest", error.problem))
            listed, self.digests = set(), {}
        for name in self.archive.names:
            try:
                self.verify(name)
            except GraphwireError as error:
                problems.append(Problem(error.place or name, "record", error.problem))
        if listed:
            missing, unlisted = "the manifest lists it, and it is not there", "the manifest does not list it"
            names = set(self.archive.names) - {MANIFEST}
            problems += [Problem(f"record {name!r}", "manifest", missing) for name in sorted(listed - names)]
            problems += [Problem(f"record {name!r}", "manifest", unlisted) for name in sorted(names - listed)]
        return problems

    def close(self) -> None:
        """Close the file. Mapped payloads stay valid."""
        self.archive.close()

    def __enter__(self) -> Package:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
