"""A package: the archive of one or more programs, each a document, with the payloads they share.

    models/NAME.SUFFIX                                      the program, in the wire format of that suffix
    data/weights/NAME_weights_config.json                   its weights, by qualified name
    data/weights/weight_I                                   the bytes of one storage
    data/constants/NAME_constants_config.json, tensor_I     likewise, what is no part of the state dict
    data/sample_inputs/NAME_sample_inputs_config.json       likewise, the tensors of the example inputs
    data/sample_inputs/NAME.pt                              empty: torch expects the record
    extra/PATH                                              what the caller added

This is the layout of PyTorch's PT2 archive; a document in another format than JSON, and the third config, are ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from types import TracebackType
from typing import BinaryIO, NamedTuple

import msgspec

from graphwire.errors import ArchiveError, MissingRecordError
from graphwire.hooks.interfaces import Tree, WireFormat
from graphwire.hooks.registry import Registry
from graphwire.schema.tensor import PayloadConfig, PayloadMeta
from graphwire.wire.archive import ArchiveReader, ArchiveWriter, Readable
from graphwire.wire.document import read_document
from graphwire.wire.limits import DEFAULT_LIMITS, Limits
from graphwire.wire.payloads import CONSTANTS, SAMPLE_INPUTS, WEIGHTS, Payloads, Record

MODELS = "models/"
EXTRA = "extra/"

_CHUNK_BYTES = 1 << 22


class Document(NamedTuple):
    """A program as it stands in a package."""

    data: bytes
    suffix: str
    """The ending of its member, which names the wire format."""
    payloads: Payloads


def _configs(name: str) -> dict[str, str]:
    """The names of a program's payload configs, by the name of the attribute of Payloads."""
    return {
        "weights": f"{WEIGHTS}{name}_weights_config.json",
        "constants": f"{CONSTANTS}{name}_constants_config.json",
        "sample_inputs": f"{SAMPLE_INPUTS}{name}_sample_inputs_config.json",
    }


def write_package(
    stream: BinaryIO, documents: Mapping[str, Document], extra_files: Mapping[str, bytes] | None = None
) -> None:
    """Write a package to a stream that need not seek. Payloads are lent, not copied.

    Args:
        documents: the programs by name; records of one name are one record.
        extra_files: anything else to keep in the archive, by path below `extra/`.

    Raises:
        ArchiveError: a name leaves the archive.
    """
    with ArchiveWriter(stream) as archive:
        for name, document in documents.items():
            archive.write(f"{MODELS}{name}{document.suffix}", document.data, compress=True)
        for name, document in documents.items():
            for kind, member in _configs(name).items():
                metas = getattr(document.payloads, kind)
                if metas or kind != "sample_inputs":
                    archive.write(member, msgspec.json.encode(PayloadConfig(metas)), compress=True)
            archive.write(f"{SAMPLE_INPUTS}{name}.pt", b"", compress=False)
        for path, data in (extra_files or {}).items():
            archive.write(f"{EXTRA}{path}", data, compress=True)
        records: dict[str, Record] = {}
        for document in documents.values():
            records.update(document.payloads.records)
        for member, record in records.items():
            archive.write_stream(member, record.nbytes, _chunks(record))


def _chunks(record: Record) -> Iterator[memoryview]:
    view = record.view()
    for start in range(0, record.nbytes, _CHUNK_BYTES):
        yield view[start : start + _CHUNK_BYTES]


class _ArchiveRecord:
    """A record of an open archive."""

    __slots__ = ("_archive", "_copied", "_name", "nbytes")

    def __init__(self, archive: ArchiveReader, name: str, copied: bool) -> None:
        self._archive = archive
        self._name = name
        self._copied = copied
        self.nbytes = archive.size(name)

    def view(self) -> memoryview:
        """The bytes: mapped from the file, or read and checked where a copy was asked for or the record is packed."""
        return self._archive.copy(self._name) if self._copied else self._archive.map(self._name)


class _ArchiveRecords(Mapping[str, Record]):
    """The payload records of an open archive, by full name."""

    def __init__(self, archive: ArchiveReader, copied: bool) -> None:
        self._archive = archive
        self._copied = copied
        configs = ("_config.json", ".pt")
        self._names = tuple(n for n in archive.names if n.startswith("data/") and not n.endswith(configs))

    def __getitem__(self, name: str) -> Record:
        if name not in self._archive:
            raise KeyError(name)
        return _ArchiveRecord(self._archive, name, self._copied)

    def __contains__(self, name: object) -> bool:
        return name in self._archive

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class Package:
    """A package open for reading. Nothing but the directory is read before it is asked for.

    Args:
        source: a path, a binary file object, or bytes.

    Raises:
        ArchiveError: the source is no archive, a damaged one, or one without programs.
    """

    def __init__(self, source: Readable, registry: Registry, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self.archive = ArchiveReader(source, limits=limits)
        self._registry = registry
        self._limits = limits

    @cached_property
    def members(self) -> dict[str, str]:
        """The programs' members in the archive, by program name."""
        members: dict[str, str] = {}
        for member in self.archive.names:
            if member.startswith(MODELS) and member.count("/") == 1 and "." in member:
                name = member.removeprefix(MODELS).rpartition(".")[0]
                if name in members:
                    raise ArchiveError(f"two members hold the program {name!r}: {members[name]} and {member}")
                members[name] = member
        if not members:
            raise MissingRecordError(
                "the archive holds no program", place="models/", remedy="Was it written by graphwire or torch.export?"
            )
        return members

    def member_of(self, name: str) -> str:
        """The member that holds a program.

        Raises:
            MissingRecordError: there is no program of that name.
        """
        try:
            return self.members[name]
        except KeyError:
            names = ", ".join(map(repr, self.members))
            raise MissingRecordError(f"the archive holds no program {name!r}", remedy=f"It holds {names}") from None

    def format_of(self, name: str) -> WireFormat:
        """The wire format of a program's document.

        Raises:
            UnknownFormatError: no plugin provides it.
        """
        member = self.member_of(name)
        return self._registry.wire_format_of_suffix(member[member.rindex(".") :])

    def tree_of(self, name: str) -> Tree:
        """A program's document as a plain tree, whatever schema it is of.

        Raises:
            FormatError: the member is no document of its format.
        """
        return read_document(self.archive.read(self.member_of(name)), self.format_of(name), self._limits)

    def payloads_of(self, name: str, *, copied: bool = False) -> Payloads:
        """A program's payloads.

        Args:
            copied: read each record into memory and check it, rather than map it, when it is asked for.

        Raises:
            ArchiveError: a config is missing or damaged.
        """
        metas = {kind: self._metas(member, kind) for kind, member in _configs(name).items()}
        return Payloads(**metas, records=_ArchiveRecords(self.archive, copied))

    def _metas(self, member: str, kind: str) -> dict[str, PayloadMeta]:
        if kind == "sample_inputs" and member not in self.archive:
            return {}
        try:
            return msgspec.json.decode(self.archive.read(member), type=PayloadConfig).config
        except msgspec.DecodeError as error:
            raise ArchiveError(f"the payload config is damaged: {error}", place=member) from None

    @property
    def payload_records(self) -> tuple[str, ...]:
        """The names of the records that hold payloads' bytes."""
        return tuple(_ArchiveRecords(self.archive, copied=False))

    @cached_property
    def extra_files(self) -> tuple[str, ...]:
        """The paths of what the caller added."""
        return tuple(n.removeprefix(EXTRA) for n in self.archive.names if n.startswith(EXTRA))

    def read_extra(self, path: str) -> bytes:
        """The bytes of what the caller added.

        Raises:
            MissingRecordError: there is nothing under that path.
        """
        return self.archive.read(EXTRA + path)

    def close(self) -> None:
        """Close the file. Mapped payloads stay valid."""
        self.archive.close()

    def __enter__(self) -> Package:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
