"""Reads a package: an archive of one or more programs, each a document, and the payloads that they share.

    models/NAME.SUFFIX                                      the program, in the wire format with that suffix
    data/weights/NAME_weights_config.json                   its weights, by qualified name
    data/weights/weight_I                                   the bytes of one storage
    data/constants/NAME_constants_config.json, tensor_I     likewise for tensors outside the state dict
    data/sample_inputs/NAME_sample_inputs_config.json       likewise for the tensors of the example inputs
    data/sample_inputs/NAME.pt                              the example inputs for torch, or empty: torch requires the record
    data/weights/references.json                            where weights are that the archive lacks
    data/wire_formats.json                                  which distribution provides a wire format of a plugin
    extra/PATH                                              the caller's extra files

This is the layout of PyTorch's PT2 archive since torch 2.9. Documents in formats other than JSON, and the third config, are
graphwire's. `layouts` describes the older layouts, which are supported too. `package_writer` writes packages.
"""

from __future__ import annotations

from functools import cached_property
from itertools import chain

import msgspec

from graphwire.errors import GraphwireError, MissingRecordError, Problem, UnknownFormatError
from graphwire.process import TYPE_ANALYSIS
from graphwire.registry import Registry, Tree, WireFormat, remedy_for_requirements
from graphwire.schema import PluginRequirement, Program, WeightReferences
from graphwire.wire.archive.archive_record import MANIFEST, Manifest, manifest_errors, read_manifest
from graphwire.wire.archive.reader import ArchiveReader, damaged_record
from graphwire.wire.archive.source import Closing, Readable
from graphwire.wire.document import decode_json_record, read_document, read_program
from graphwire.wire.layouts import PROVIDERS, Layout, descriptions, executable_members, open_layout
from graphwire.wire.limits import DEFAULT_LIMITS, Limits
from graphwire.wire.payloads import Payloads
from graphwire.wire.weights.reference_table import REFERENCES, read_references

NO_MANIFEST = Problem(
    f"record {MANIFEST!r}",
    "manifest",
    "it is missing, though graphwire writes one: exchanged records cannot be detected",
)
_OF_TORCH = ".data/serialization_id"
with TYPE_ANALYSIS:
    _PROVIDERS = msgspec.json.Decoder(dict[str, PluginRequirement])


class Package(Closing):
    """A package open for reading. Opening reads only the directory; other parts are read on request.

    Args:
        source: a path, a binary file object, or bytes.

    Raises:
        ArchiveError: the source is not an archive, or it is damaged.
    """

    def __init__(self, source: Readable, registry: Registry, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self.archive = ArchiveReader(source, limits=limits)
        self.archive.expect(descriptions(self.archive.names), together=True)
        self._registry = registry
        self._limits = limits
        self._fetched: dict[str, bytes] = {}

    @cached_property
    def layout(self) -> Layout:
        """The archive's layout.

        Raises:
            MissingRecordError: the archive contains no program.
        """
        return open_layout(self.archive)

    @property
    def members(self) -> dict[str, str]:
        """The member that stores each program, by program name.

        Raises:
            ArchiveError: there is no program, or two members store the same one.
        """
        return self.layout.members

    def member_of(self, name: str) -> str:
        """Return the member that stores a program.

        Raises:
            MissingRecordError: no program has that name.
        """
        try:
            return self.members[name]
        except KeyError:
            names = ", ".join(map(repr, self.members))
            raise MissingRecordError(
                f"the archive holds no program {name!r}", remedy=f"It holds {names}"
            ) from None

    def format_of(self, name: str) -> WireFormat:
        """Return the wire format of a program's document.

        Raises:
            UnknownFormatError: no installed plugin provides it.
        """
        member = self.member_of(name)
        suffix = member[member.rindex(".") :]
        try:
            return self._registry.wire_format_of_suffix(suffix)
        except UnknownFormatError as error:
            raise self._missing_format(member, suffix) or error from None

    def _missing_format(self, member: str, suffix: str) -> UnknownFormatError | None:
        """Return an error that names the provider of a missing wire format, if the archive states one, else None."""
        try:
            data = self.archive.read(PROVIDERS)
            providers = decode_json_record(_PROVIDERS, data, "the providers of formats are", PROVIDERS)
        except GraphwireError:
            return None
        provider = providers.get(suffix)
        if provider is None or not provider.is_installable:
            return None
        remedy = remedy_for_requirements([(provider, [("wire_format", suffix)])], self._registry)
        return UnknownFormatError(
            f"the program is in the wire format of {provider.distribution} {provider.version}, which is not in force here",
            place=member,
            remedy=remedy,
        )

    def tree_of(self, name: str) -> Tree:
        """Return a program's document as a plain tree, in whatever schema version it is.

        Raises:
            FormatError: the member is not a document of its format.
        """
        return read_document(self.archive.read(self.member_of(name)), self.format_of(name), self._limits)

    def fetch(self, name: str) -> None:
        """Read the bytes of a program's document now. `program_or_tree_of` decodes them later.

        Raises:
            ArchiveError: the record is damaged.
        """
        self._fetched[name] = self.archive.read(self.member_of(name))

    def program_or_tree_of(self, name: str) -> Program | Tree:
        """Return a program as records if its document can be decoded without a tree, otherwise its tree.

        Raises:
            FormatError: the member is not a document of its format.
        """
        data, wire_format = self._fetched.pop(name, None), self.format_of(name)
        if data is None:
            data = self.archive.read(self.member_of(name))
        program = read_program(data, wire_format, self._limits)
        return program or read_document(data, wire_format, self._limits)

    def payloads_of(self, name: str, *, copied: bool = False) -> Payloads:
        """Return a program's payloads.

        Args:
            copied: whether each view of a record is a checked copy in memory, not a mapping.

        Raises:
            ArchiveError: a member is missing or damaged.
            DecodeError: a torch.save file does not contain a dict of tensors.
        """
        self.member_of(name)
        return self.layout.payloads_of(name, copied=copied)

    @cached_property
    def references(self) -> WeightReferences | None:
        """Where the weights are that the archive lacks; None if it has all of them.

        Raises:
            ArchiveError: the record with the references is damaged, or the archive has a record that it refers to.
            WeightsError: references leave the folder of the file, or do not fit; the error lists all problems.
        """
        if REFERENCES not in self.archive:
            return None
        references = read_references(self.archive.read(REFERENCES))
        for name in chain(references.records, *references.ranks):
            if name in self.archive:  # readers would differ in which of both they take
                raise damaged_record(REFERENCES, f"it refers to {name!r:.200}, which the archive has")
        return references

    @cached_property
    def manifest(self) -> Manifest:
        """The digests of the archive's records; empty if the archive has no manifest.

        Raises:
            ArchiveError: the manifest is damaged.
        """
        return read_manifest(self.archive.read(MANIFEST)) if MANIFEST in self.archive else Manifest({})

    @property
    def payload_records(self) -> tuple[str, ...]:
        """The names of the records that store the bytes of payloads."""
        return self.layout.payload_records

    @property
    def extra_files(self) -> tuple[str, ...]:
        """The paths of the caller's extra files."""
        return self.layout.extra_files

    def read_extra(self, path: str) -> bytes:
        """Return the bytes of an extra file.

        Raises:
            MissingRecordError: no extra file has that path.
        """
        return self.archive.read(self.layout.spec.extra + path)

    def check_payloads(self) -> None:
        """Check the records of all payloads against their checksums and the digests in the manifest.

        Raises:
            GraphwireError: as `ArchiveReader.verify`.
        """
        self.archive.expect(self.payload_records)
        for fault in manifest_errors(self.archive, self.manifest, self.payload_records):
            raise fault

    @property
    def has_manifest(self) -> bool:
        """Whether the archive has a manifest."""
        return MANIFEST in self.archive

    @property
    def lacks_manifest(self) -> bool:
        """Whether the manifest is missing although graphwire apparently wrote the archive.

        torch's writer adds a record of its own to each archive. graphwire adds a manifest to each archive in layout B2.
        """
        return not self.has_manifest and self.layout.spec.has_configs and _OF_TORCH not in self.archive

    @property
    def is_of_torch(self) -> bool:
        """Whether torch's own writer may have made the archive: Python's zipfile until 2.7, and torch's archive writer later."""
        return not self.archive.marks_utf8 if self.layout.spec.is_flat else _OF_TORCH in self.archive

    def problems(self, *, payloads: bool = True) -> list[Problem]:
        """Read all records, or with `payloads=False` all but those of payloads, and return every problem of the archive.

        Problems are records that differ from what was written, that only the manifest or only the archive has, or that contain
        executable code (which graphwire never runs), and bytes that belong to no record.
        """
        self.archive.expect(self.archive.names)
        problems = executable_members(self.archive)
        manifest = Manifest({})
        try:
            manifest = self.manifest
            listed = set(manifest.names) if self.has_manifest else None
        except GraphwireError as error:
            problems.append(Problem(error.place, "manifest", error.problem))
            listed = None
        skipped = frozenset() if payloads else frozenset(self.payload_records)
        read = [name for name in self.archive.names if name not in skipped]
        found = manifest_errors(self.archive, manifest, read)
        problems += [Problem(fault.place, "record", fault.problem) for fault in found]
        if listed is not None:
            missing, unlisted = "the manifest lists it, but it is missing", "the manifest does not list it"
            names = set(self.archive.names) - {MANIFEST}
            problems += [Problem(f"record {name!r}", "manifest", missing) for name in sorted(listed - names)]
            problems += [Problem(f"record {name!r}", "manifest", unlisted) for name in sorted(names - listed)]
        for place, count in self.archive.unowned():
            problems.append(Problem(place, "unowned", f"{count:,} bytes belong to no record"))
        return problems

    def close(self) -> None:
        """Close the file. Mapped payloads stay valid."""
        self.archive.close()
