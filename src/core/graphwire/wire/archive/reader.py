"""Reading an archive: its directory at once, its records when they are asked for."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from operator import attrgetter

from graphwire.errors import ArchiveError, ChecksumError, LimitError, MissingRecordError, locate
from graphwire.wire import DEFAULT_LIMITS, Closing, Limits, allocate
from graphwire.wire.archive import zip_layout
from graphwire.wire.archive.deflate import DeflateError, crc32, inflater
from graphwire.wire.archive.directory import Entry, read_directory
from graphwire.wire.archive.source import (
    CLOSED,
    BufferSource,
    FileSource,
    PartSource,
    Readable,
    Source,
    open_source,
)

_PIECE_BYTES = 1 << 20
_NAMES_COMPARED, _NAME_COMPARED = 500, 200
"""How many names, and how much of the one that is not there, a message is made of: comparing takes long."""
DAMAGED_REMEDY = "The file is damaged: fetch or write it again"


class ArchiveReader(Closing):
    """A zip archive in one of PyTorch's layouts. Any thread may read records.

    Names are relative to the archive's one root folder (PT2 archives: `models/model.json`), or to the archive itself where
    records stand at its top level (torch 2.1 to 2.7: `serialized_exported_program.json`).

    `root` is that folder's name or empty, `nbytes` the size of the whole archive in bytes.

    Memory that `map` gave outlives the reader, and does not change when another file takes the path. When the same file is
    cut or written over while it is mapped, the mapped bytes are undefined, and touching bytes past its new end ends the
    process, as with every mapping: replace files instead of writing into them, as `atomic.replacing` does.

    Args:
        source: a path, a binary file object (read from its start), or bytes.
        limits: the bounds in force.

    Raises:
        OSError: the path cannot be opened.
        ArchiveError: the source is no archive, or a damaged one.
        LimitError: it goes beyond `limits`.
    """

    def __init__(self, source: Readable, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self._start(open_source(source, limits), limits)

    def _start(self, source: Source, limits: Limits) -> None:
        self._source = source
        self.limits = limits
        """The bounds in force."""
        try:
            self._directory = read_directory(source, limits)
            entries = [entry for entry in self._directory.entries if not entry.is_folder]
            self.root = _root([entry.name for entry in entries])
        except BaseException:
            source.close()
            raise
        self.nbytes = source.size
        skipped = len(self.root) + 1 if self.root else 0
        self._entries = {entry.name[skipped:]: entry for entry in entries}

    @property
    def is_mapped(self) -> bool:
        """Whether `map` lends memory of a file for stored records; else it makes copies, or may."""
        return isinstance(self._source, FileSource)

    @property
    def names(self) -> tuple[str, ...]:
        """The records' names, in the order of the archive."""
        return tuple(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def size(self, name: str) -> int:
        """The record's size when it is read, in bytes.

        Raises:
            MissingRecordError: there is no such record.
        """
        return self._entry(name).size

    def stored_size(self, name: str) -> int:
        """The record's size in the file, in bytes.

        Raises:
            MissingRecordError: there is no such record.
        """
        return self._entry(name).stored_bytes

    def full_name(self, name: str) -> str:
        """The record's name with the root folder.

        Raises:
            MissingRecordError: there is no such record.
        """
        return self._entry(name).name

    def is_stored(self, name: str) -> bool:
        """Whether the record lies in the file as it is, not deflated.

        Raises:
            MissingRecordError: there is no such record.
        """
        return self._entry(name).method == zip_layout.STORED

    def offset(self, name: str) -> int:
        """Where the record's data begins, in bytes from the start of the archive.

        Raises:
            MissingRecordError: there is no such record.
            ArchiveError: its local header is damaged or contradicts the directory.
        """
        return _data_offset(self._source, self._entry(name))

    def read(self, name: str) -> bytes:
        """The record's bytes, inflated, and checked against their checksum.

        Raises:
            MissingRecordError: there is no such record.
            LimitError: it is larger than `Limits.program_bytes`, or inflates beyond `Limits.inflate_ratio`; nothing was
                allocated for it.
            ChecksumError: its bytes are not the ones that were written.
            ArchiveError: it is damaged in another way.
        """
        entry = self._entry(name)
        if entry.size > self.limits.program_bytes:
            raise LimitError(
                f"the record has {entry.size:,} bytes, more than {self.limits.program_bytes:,}",
                place=f"record {name!r}",
                remedy="Raise Limits.program_bytes for a file that you trust",
            )
        pieces = list(self._pieces(entry, whole=True))
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        _check(entry, crc32(data))
        return data

    def map(self, name: str) -> memoryview:
        """The record as writable memory of our own; writing to it changes neither the file nor another reader's view.

        A stored record of a real file is mapped: no page is read before it is touched, and none is checked (see `verify`).
        Stored records of other sources are copied without a check, and deflated ones as `copy` does.

        Raises:
            MissingRecordError: there is no such record.
            ArchiveError: it is damaged.
        """
        entry = self._entry(name)
        if entry.method != zip_layout.STORED:
            return self.copy(name)
        if entry.size == 0:
            return memoryview(bytearray())
        return self._source.map(_data_offset(self._source, entry), entry.size)

    def head(self, name: str, count: int) -> bytes:
        """The first bytes of the record, inflated, and not checked; all of a shorter one.

        Raises:
            MissingRecordError: there is no such record.
            LimitError: it inflates beyond `Limits.inflate_ratio`.
            ArchiveError: it is damaged.
        """
        entry = self._entry(name)
        if entry.method == zip_layout.STORED:
            return self._source.read_at(_data_offset(self._source, entry), min(count, entry.size))
        return next(self._pieces(entry, whole=False), b"")[:count]

    def copy(self, name: str) -> memoryview:
        """The record in new memory of its own, inflated, and checked against its checksum. It may be of any size.

        Raises:
            MissingRecordError: there is no such record.
            LimitError: it inflates beyond `Limits.inflate_ratio`; nothing was allocated for it.
            ChecksumError: its bytes are not the ones that were written.
            ArchiveError: it is damaged in another way.
        """
        entry = self._entry(name)
        pieces = self._pieces(entry, whole=False)
        piece = next(pieces, b"")
        memory = allocate(entry.size)
        at = crc = 0
        while piece:
            memory[at : at + len(piece)] = piece
            at += len(piece)
            crc = crc32(piece, crc)
            piece = next(pieces, b"")
        _check(entry, crc)
        return memory

    def verify(self, name: str, digest: hashlib._Hash | None = None) -> None:
        """Read the record in pieces, and compare its checksum. Memory stays below a few MiB.

        Args:
            digest: is updated with the record's bytes meanwhile.

        Raises:
            MissingRecordError: there is no such record.
            ChecksumError: its bytes are not the ones that were written.
            LimitError: it inflates beyond `Limits.inflate_ratio`.
            ArchiveError: it is damaged in another way.
        """
        entry = self._entry(name)
        crc = 0
        for piece in self._pieces(entry, whole=False):
            crc = crc32(piece, crc)
            if digest is not None:
                digest.update(piece)
        _check(entry, crc)

    def unowned(self) -> list[tuple[str, int]]:
        """What lies in the file and belongs to no record, so that whoever reads it in another way may find something else.

        Returns:
            Where it lies, for a person, and its bytes. Records whose header is damaged are passed over.
        """
        entries = sorted(self._directory.entries, key=attrgetter("offset"))
        first = entries[0].offset if entries else 0
        found = [("before the first record", first)]
        for entry in entries:
            with suppress(ArchiveError):
                extra_bytes = _spare_extra_bytes(self._source, entry)
                following = _data_offset(self._source, entry) + entry.stored_bytes
                following += _descriptor_bytes(self._source, entry, following)
                found.append((f"in the header of record {entry.name!r}", extra_bytes))
                found.append((f"behind record {entry.name!r}", entry.end - following))
            found.append((f"in the directory, for record {entry.name!r}", _notable(entry.spare_bytes)))
        found.append(("behind the directory", self._directory.spare_bytes))
        return [(place, count) for place, count in found if count]

    def nested(self, name: str) -> ArchiveReader:
        """The archive that a record is (`torch.save` files inside a program of torch 2.1 to 2.8), mapped like this one.

        It reads through this reader, and ends with it.

        Raises:
            MissingRecordError: there is no such record.
            ArchiveError: the record is no archive, or damaged.
        """
        entry = self._entry(name)
        inner = ArchiveReader.__new__(ArchiveReader)
        source: Source
        if entry.method == zip_layout.STORED:
            source = PartSource(self._source, _data_offset(self._source, entry), entry.size)
        else:
            source = BufferSource(self.read(name))
        try:
            inner._start(source, self.limits)
        except Exception as error:
            locate(error, f"record {name!r}")
            raise
        return inner

    def check_open(self) -> None:
        """Refuse to go on without a source.

        Raises:
            ArchiveError: the archive is closed.
        """
        if self._source.closed:
            raise ArchiveError(CLOSED)

    def close(self) -> None:
        """Let go of the source. Mapped memory stays valid."""
        self._source.close()

    def _entry(self, name: str) -> Entry:
        entry = self._entries.get(name)
        if entry is None:
            some = [each for each in islice(self._entries, _NAMES_COMPARED) if len(each) <= len(name) + 8]
            near = difflib.get_close_matches(name[:_NAME_COMPARED], some, 3)
            raise MissingRecordError(
                f"the archive has no record {name!r}",
                remedy=f"Near names: {', '.join(map(repr, near))}" if near else "",
            )
        return entry

    def _pieces(self, entry: Entry, *, whole: bool) -> Iterator[bytes]:
        """The record's bytes, in one piece or in several of bounded size; never more of them than the directory says."""
        start = _data_offset(self._source, entry)
        step = entry.stored_bytes if whole else _PIECE_BYTES
        if entry.method == zip_layout.STORED:
            for at in range(0, entry.size, max(step, 1)):
                yield self._source.read_at(start + at, min(step, entry.size - at))
            return
        limits = self.limits
        if entry.size > max(limits.inflate_free_bytes, limits.inflate_ratio * entry.stored_bytes):
            raise LimitError(
                f"the record inflates from {entry.stored_bytes:,} to {entry.size:,} bytes",
                place=f"record {entry.name!r}",
                remedy="Raise Limits.inflate_ratio for a file that you trust",
            )
        yield from _inflate(self._source, entry, start, whole=whole)


def _inflate(source: Source, entry: Entry, start: int, *, whole: bool) -> Iterator[bytes]:
    stream = inflater()
    left = entry.size
    at = 0
    pending = b""
    try:
        while not stream.eof:
            if not pending:
                taken = min(_PIECE_BYTES, entry.stored_bytes - at)
                pending = source.read_at(start + at, taken)
                at += taken
            # One byte more than is due shows a record that goes on. Without input the call drains what is held back.
            piece = stream.decompress(pending, left + 1 if whole else min(left + 1, _PIECE_BYTES))
            stuck = not piece and not pending and not stream.eof
            pending = stream.unconsumed_tail
            left -= len(piece)
            if left < 0 or stuck:
                break
            if piece:
                yield piece
    except DeflateError as error:
        raise ArchiveError(
            f"the record is deflated, but damaged ({error})",
            place=f"record {entry.name!r}",
            remedy=DAMAGED_REMEDY,
        ) from error
    if left != 0 or not stream.eof or stream.unused_data or at != entry.stored_bytes:
        raise ArchiveError(
            f"the record does not inflate to its {entry.size:,} bytes",
            place=f"record {entry.name!r}",
            remedy=DAMAGED_REMEDY,
        )


def _check(entry: Entry, crc: int) -> None:
    if crc != entry.crc:
        raise ChecksumError(
            f"the record's bytes are not the ones that were written (CRC-32 {crc:08x}, not {entry.crc:08x})",
            place=f"record {entry.name!r}",
            remedy=DAMAGED_REMEDY,
        )


def _data_offset(source: Source, entry: Entry) -> int:
    """Where the record's data begins, after its local header was compared with the directory."""
    size = zip_layout.LOCAL_HEADER.size
    header = source.read_at(entry.offset, size + len(entry.raw_name))
    magic, _, flags, method, _, _, crc, stored_bytes, full_size, name_bytes, extra_bytes = (
        zip_layout.LOCAL_HEADER.unpack_from(header)
    )
    start = entry.offset + size + name_bytes + extra_bytes
    consistent = (
        magic == zip_layout.LOCAL_MAGIC and method == entry.method and header[size:] == entry.raw_name
    )
    consistent = (
        consistent and name_bytes == len(entry.raw_name) and not (flags ^ entry.flags) & ~zip_layout.FLAG_UTF8
    )
    if not flags & zip_layout.FLAG_DESCRIPTOR:
        consistent = consistent and crc == entry.crc
        consistent = consistent and stored_bytes in (entry.stored_bytes, zip_layout.MAX32)
        consistent = consistent and full_size in (entry.size, zip_layout.MAX32)
    if not consistent:
        raise ArchiveError(
            "the record's header contradicts the archive's directory",
            place=f"record {entry.name!r}",
            remedy=DAMAGED_REMEDY,
        )
    if start + entry.stored_bytes > entry.end:
        raise ArchiveError(
            "the record overlaps another one", place=f"record {entry.name!r}", remedy=DAMAGED_REMEDY
        )
    return int(start)


_FEW_BYTES = 64
"""So many bytes of extra fields are what other tools note of a member: times, owners."""


def _notable(count: int) -> int:
    return count if count > _FEW_BYTES else 0


def _spare_extra_bytes(source: Source, entry: Entry) -> int:
    """The bytes of a local header's extra fields that are neither sizes, nor padding, nor few."""
    size = zip_layout.LOCAL_HEADER.size
    name_bytes, extra_bytes = zip_layout.LOCAL_HEADER.unpack(source.read_at(entry.offset, size))[-2:]
    extra = source.read_at(entry.offset + size + name_bytes, extra_bytes)
    spare = at = 0
    while at + 4 <= extra_bytes:
        kind, length = (
            int.from_bytes(extra[at : at + 2], "little"),
            int.from_bytes(extra[at + 2 : at + 4], "little"),
        )
        content = extra[at + 4 : at + 4 + length]
        at += 4 + len(content)
        if kind == zip_layout.PADDING_FIELD and content.count(content[:1]) == len(content):
            continue
        if kind != zip_layout.ZIP64_FIELD or length > 24:
            spare += len(content)
    return _notable(spare + extra_bytes - at)


def _descriptor_bytes(source: Source, entry: Entry, at: int) -> int:
    """The bytes of the checksum and sizes behind a record's data, as far as they are what the directory says."""
    if not entry.flags & zip_layout.FLAG_DESCRIPTOR:
        return 0
    crc = entry.crc.to_bytes(4, "little")
    found = source.read_at(at, min(24, entry.end - at))
    for magic in (zip_layout.DESCRIPTOR_MAGIC, b""):
        for width in (8, 4):
            if max(entry.size, entry.stored_bytes) < 1 << 8 * width:
                sizes = entry.stored_bytes.to_bytes(width, "little") + entry.size.to_bytes(width, "little")
                if found.startswith(magic + crc + sizes):
                    return len(magic + crc + sizes)
    return 0


def _root(names: list[str]) -> str:
    """The folder that all records stand below; empty where one stands at the top level."""
    folders = {name.partition("/")[0] if "/" in name else "" for name in names}
    if not folders or "" in folders:
        return ""
    if len(folders) > 1:
        some = ", ".join(sorted(folders)[:3])
        raise ArchiveError(f"the archive's records lie below several folders ({some})", remedy=DAMAGED_REMEDY)
    return folders.pop()
