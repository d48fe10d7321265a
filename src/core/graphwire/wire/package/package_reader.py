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
are ours. Older layouts are read and written too: see `layouts`. Here one is read; `package_writer` writes it.
"""

from __future__ import annotations

from functools import cached_property

import msgspec

from graphwire.errors import GraphwireError, MissingRecordError, Problem, UnknownFormatError
from graphwire.hooks import Registry, Tree, WireFormat, remedy_for_requirements
from graphwire.schema import PluginRequirement, Program
from graphwire.wire import DEFAULT_LIMITS, Closing, Limits, Payloads
from graphwire.wire.archive import MANIFEST, ArchiveReader, Manifest, Readable, manifest_errors, read_manifest
from graphwire.wire.package.document import read_document, read_program
from graphwire.wire.package.layouts import PROVIDERS, Layout, executable_members, open_layout

NO_MANIFEST = Problem(
    f"record {MANIFEST!r}",
    "manifest",
    "it is not there, and graphwire writes one: whether records were exchanged cannot be told",
)
_OF_TORCH = ".data/serialization_id"
_read_providers = msgspec.json.Decoder(dict[str, PluginRequirement]).decode


class Package(Closing):
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
            provider = _read_providers(self.archive.read(PROVIDERS)).get(suffix)
        except (GraphwireError, msgspec.MsgspecError, UnicodeDecodeError):
            return None
        if provider is None or not provider.is_installable:
            return None
        remedy = remedy_for_requirements([(provider, [("wire_format", suffix)])], self._registry)
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
    def manifest(self) -> Manifest:
        """The digests of the archive's records; an empty one for an archive without.

        Raises:
            ArchiveError: the manifest is damaged.
        """
        return read_manifest(self.archive.read(MANIFEST)) if MANIFEST in self.archive else Manifest({})

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

    def check_payloads(self) -> None:
        """Read the records of all payloads, and compare their checksums, and their digests where the manifest has some.

        Raises:
            As `ArchiveReader.verify`.
        """
        for fault in manifest_errors(self.archive, self.manifest, self.payload_records):
            raise fault

    @property
    def has_manifest(self) -> bool:
        """Whether there is a manifest at all."""
        return MANIFEST in self.archive

    @property
    def lacks_manifest(self) -> bool:
        """Whether there is no manifest, though graphwire wrote the archive, as far as its records tell: torch's writer leaves a
        record of its own in each, and graphwire a manifest in each that torch 2.9 or later can read."""
        return not self.has_manifest and self.layout.spec.has_configs and _OF_TORCH not in self.archive

    def problems(self) -> list[Problem]:
        """Every problem of the archive's records, all of which are read: what is not what was written, what the manifest and
        the archive do not both have, what no record owns, and what somebody might run (nothing here ever does)."""
        problems = executable_members(self.archive)
        manifest = Manifest({})
        try:
            manifest = self.manifest
            listed = set(manifest.names) if self.has_manifest else None
        except GraphwireError as error:
            problems.append(Problem(error.place, "manifest", error.problem))
            listed = None
        found = manifest_errors(self.archive, manifest, self.archive.names)
        problems += [Problem(fault.place, "record", fault.problem) for fault in found]
        if listed is not None:
            missing, unlisted = "the manifest lists it, and it is not there", "the manifest does not list it"
            names = set(self.archive.names) - {MANIFEST}
            problems += [Problem(f"record {name!r}", "manifest", missing) for name in sorted(listed - names)]
            problems += [Problem(f"record {name!r}", "manifest", unlisted) for name in sorted(names - listed)]
        for place, count in self.archive.unowned():
            problems.append(Problem(place, "unowned", f"{count:,} bytes belong to no record"))
        return problems

    def close(self) -> None:
        """Close the file. Mapped payloads stay valid."""
        self.archive.close()
