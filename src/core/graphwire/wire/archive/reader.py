"""Reads an archive: the directory when it is opened, each record on request. Payloads are mapped from the file, or copied and
checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from zlib_ng import zlib_ng

from graphwire.errors import ArchiveError, ChecksumError, LimitError, MissingRecordError, locate
from graphwire.process import count_bytes
from graphwire.wire.archive import directory as zip_layout
from graphwire.wire.archive.source import (
    ALIGNMENT,
    CLOSED,
    BufferSource,
    Closing,
    FileSource,
    PartSource,
    Readable,
    Source,
    address,
    allocate,
    open_source,
)
from graphwire.wire.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    import hashlib

# -------------------------------------------------- deflate and CRC-32: the only module that uses a compression library
# zlib-ng compresses about 2 times and computes CRC-32 about 10 times as fast as the interpreter's zlib.


_LEVEL = 4
"""A 317 KB program becomes 17.0 KB in 0.2 ms at level 2, 13.4 KB in 0.4 ms at level 4, 11.9 KB in 0.7 ms at level 6."""

DeflateError: type[Exception] = zlib_ng.error  # type: ignore[assignment] # its stub declares an instance
"""Raised by an inflater for damaged data."""

crc32 = zlib_ng.crc32
"""Return the CRC-32 of bytes. The optional second argument is the CRC-32 of the bytes before them."""


def raw_deflate(data: bytes | memoryview) -> bytes:
    """Compress bytes to one raw deflate stream. Equal bytes give equal streams."""
    deflater = zlib_ng.compressobj(_LEVEL, zlib_ng.DEFLATED, -zlib_ng.MAX_WBITS)
    return deflater.compress(data) + deflater.flush()


def inflater() -> Any:
    """Return an object that decompresses a raw deflate stream (RFC 1951) incrementally, as `zlib.decompressobj` does."""
    return zlib_ng.decompressobj(-zlib_ng.MAX_WBITS)


_CHUNK_BYTES = 1 << 20
_HEADER_BYTES = 512
"""In bytes. Hardly any record has a longer header."""
_NAMES_COMPARED, _NAME_COMPARED = 500, 200
"""How many names are compared with a missing one, and how many of its characters: comparing is slow."""
REMEDY = "The file is damaged: fetch or write it again"


def damaged_record(name: str, problem: str, kind: type[ArchiveError] = ArchiveError) -> ArchiveError:
    """Return the error that a record is damaged, and what to do."""
    return kind(problem, place=f"record {name!r}", remedy=REMEDY)


class ArchiveReader(Closing):
    """A zip archive in one of PyTorch's layouts, open for reading. Any thread may read records.

    Names are relative to the archive's single root folder (PT2 archives: `models/model.json`), or to the archive itself if
    its records are at the top level (torch 2.1 to 2.7: `serialized_exported_program.json`).

    `root` is the folder's name or empty; `nbytes` is the size of the whole archive in bytes.

    Memory that `map` returned outlives the reader, and does not change when another file replaces the path. If the same file
    is truncated or overwritten while it is mapped, the mapped bytes are undefined, and access past the new end kills the
    process, as with every mapping. So replace files, as `atomic_file.atomic_write` does; do not overwrite them.

    Args:
        source: a path, a binary file object (read from its start), or bytes.
        limits: the limits that apply.

    Raises:
        OSError: the path cannot be opened.
        ArchiveError: the source is not an archive, or it is damaged.
        LimitError: it exceeds `limits`.
    """

    def __init__(self, source: Readable, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self._start(open_source(source, limits), limits)

    @classmethod
    def of(cls, source: Source, *, limits: Limits = DEFAULT_LIMITS) -> ArchiveReader:
        """Return a reader of an open source, which it closes."""
        made = cls.__new__(cls)
        made._start(source, limits)
        return made

    def _start(self, source: Source, limits: Limits) -> None:
        self._source = source
        self.limits = limits
        """The limits that apply."""
        try:
            self._directory = zip_layout.read_directory(source, limits)
            listed = self._directory.entries
            entries = [each for each in listed if each.size or not each.name.endswith("/")]  # or a folder's
            self.root = _root([entry.name for entry in entries])
        except BaseException:
            source.close()
            raise
        self.nbytes = source.size
        skipped = len(self.root) + 1 if self.root else 0
        self._entries = {entry.name[skipped:]: entry for entry in entries}
        self._offsets: dict[int, int] = {}
        """The offset of the data behind a checked header, by the header's offset, for a remote source."""

    @property
    def is_mapped(self) -> bool:
        """Whether `map` maps stored records from a file. Otherwise it may return copies."""
        return isinstance(self._source, FileSource)

    @property
    def marks_utf8(self) -> bool:
        """Whether every name is marked as UTF-8, as graphwire does. Python's zipfile marks only names that are not ASCII."""
        return all(entry.flags & zip_layout.FLAG_UTF8 for entry in self._directory.entries)

    @property
    def is_remote(self) -> bool:
        """Whether the bytes come over a network: each is compared with a checksum."""
        return self._source.is_remote

    def expect(self, names: Iterable[str], *, together: bool = False) -> None:
        """Announce records that are going to be read whole, so that those of a remote archive are fetched ahead, in parallel.

        Args:
            names: the records; others than those of the archive are ignored.
            together: whether to fetch neighbours with one request, however large they are.
        """
        if self._source.is_remote:
            entries = filter(None, map(self._entries.get, names))
            self._source.expect([(each.offset, each.end) for each in entries], together=together)

    @property
    def names(self) -> tuple[str, ...]:
        """The records' names, in the order of the archive."""
        return tuple(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def size(self, name: str) -> int:
        """Return the record's size after inflation, in bytes.

        Raises:
            MissingRecordError: the archive has no such record.
        """
        return self._entry(name).size

    def stored_size(self, name: str) -> int:
        """Return the record's size in the file, in bytes.

        Raises:
            MissingRecordError: the archive has no such record.
        """
        return self._entry(name).stored_bytes

    def listed_crc(self, name: str) -> int:
        """Return the CRC-32 that the directory lists for the record. The record is not read.

        Raises:
            MissingRecordError: the archive has no such record.
        """
        return self._entry(name).crc

    def full_name(self, name: str) -> str:
        """Return the record's name including the root folder.

        Raises:
            MissingRecordError: the archive has no such record.
        """
        return self._entry(name).name

    def is_stored(self, name: str) -> bool:
        """Return whether the record is stored in the file without compression.

        Raises:
            MissingRecordError: the archive has no such record.
        """
        return self._entry(name).method == zip_layout.STORED

    def offset(self, name: str) -> int:
        """Return the offset of the record's data, in bytes from the start of the archive.

        Raises:
            MissingRecordError: the archive has no such record.
            ArchiveError: its local header is damaged or contradicts the directory.
        """
        return self._data_offset(self._entry(name))

    def read(self, name: str) -> bytes:
        """Return the record's bytes, inflated and checked against their CRC-32.

        Raises:
            MissingRecordError: the archive has no such record.
            LimitError: it is larger than `Limits.program_bytes`, or exceeds `Limits.inflate_ratio`; no memory was allocated
                for it.
            ChecksumError: its bytes differ from the written ones.
            ArchiveError: it is damaged in another way.
        """
        entry = self._entry(name)
        if entry.size > self.limits.program_bytes:
            raise LimitError(
                f"the record has {entry.size:,} bytes, more than {self.limits.program_bytes:,}",
                place=f"record {name!r}",
                remedy="Raise Limits.program_bytes for a file that you trust",
            )
        data = b"".join(self._chunks(entry, whole=True))  # a single chunk is not copied
        _check(entry, crc32(data))
        return data

    def map(self, name: str, entry: zip_layout.Entry | None = None) -> memoryview:
        """Return the record as private writable memory. Writing to it changes neither the file nor another reader's view.

        A stored record of a regular file is mapped: a page is read on first access, and not checked (see `verify`). A stored
        record in memory is copied without a check. A deflated or remote record, and one whose memory would not be aligned, is
        copied and checked as by `copy`. (torch aligns records, but releases up to 2.7 do not align an archive inside an archive.)

        Args:
            entry: the record's, if it is known.

        Raises:
            MissingRecordError: the archive has no such record.
            ArchiveError: it is damaged.
        """
        entry, source = entry or self._entry(name), self._source
        if entry.method != zip_layout.STORED or source.is_remote:
            return self.copy(name)
        if entry.size == 0:
            return memoryview(bytearray())
        start = _data_offset(source, entry)
        view = source.map(start, entry.size)
        at = start + source.skew if type(source) is FileSource else address(view)
        return self.copy(name) if at % ALIGNMENT else view

    def head(self, name: str, count: int) -> bytes:
        """Return the first `count` bytes of the record, inflated but not checked; fewer if the record is shorter.

        Raises:
            MissingRecordError: the archive has no such record.
            LimitError: it exceeds `Limits.inflate_ratio`.
            ArchiveError: it is damaged.
        """
        entry = self._entry(name)
        if entry.method == zip_layout.STORED:
            return self._source.read_at(self._data_offset(entry), min(count, entry.size))
        return next(self._chunks(entry, whole=False), b"")[:count]

    def copy(self, name: str) -> memoryview:
        """Return the record in new memory, inflated and checked against its CRC-32. It may have any size.

        Raises:
            MissingRecordError: the archive has no such record.
            LimitError: it exceeds `Limits.inflate_ratio`; no memory was allocated for it.
            ChecksumError: its bytes differ from the written ones.
            ArchiveError: it is damaged in another way.
        """
        entry = self._entry(name)
        if entry.method == zip_layout.STORED:
            memory = allocate(entry.size)
            crc = 0
            for part in self._stored_parts(entry, memory):
                crc = crc32(part, crc)
            _check(entry, crc)
            return memory
        chunks = self._chunks(entry, whole=False)
        chunk = next(chunks, b"")
        memory = allocate(entry.size)
        at = crc = 0
        while chunk:
            memory[at : at + len(chunk)] = chunk
            at += len(chunk)
            crc = crc32(chunk, crc)
            chunk = next(chunks, b"")
        _check(entry, crc)
        return memory

    def read_into(self, name: str, offset: int, memory: memoryview) -> None:
        """Fill `memory` with bytes of a stored record. They are not checked (see `checksum`).

        Args:
            offset: in bytes, from the start of the record.
            memory: writable bytes.

        Raises:
            MissingRecordError: the archive has no such record.
            ArchiveError: the record is deflated, damaged or ends before the range does, or the file became shorter.
        """
        entry = self._entry(name)
        if entry.method != zip_layout.STORED or not 0 <= offset <= entry.size - memory.nbytes:
            raise ArchiveError(
                f"the record has no {memory.nbytes:,} stored bytes at {offset:,}", place=f"record {name!r}"
            )
        self._source.read_into(self._data_offset(entry) + offset, memory)

    def checksum(self, name: str) -> RunningChecksum:
        """Return a check of the record's CRC-32, for one reading in chunks.

        Raises:
            MissingRecordError: the archive has no such record.
        """
        return RunningChecksum(self._entry(name))

    def verify(self, name: str, digest: hashlib._Hash | None = None) -> None:
        """Check the record against its CRC-32, reading it in chunks. This takes a few MiB of memory at most.

        Args:
            digest: a hash to update with the record's bytes.

        Raises:
            MissingRecordError: the archive has no such record.
            ChecksumError: its bytes differ from the written ones.
            LimitError: it exceeds `Limits.inflate_ratio`.
            ArchiveError: it is damaged in another way.
        """
        entry = self._entry(name)
        crc = 0
        chunks: Iterable[bytes | memoryview] = (
            self._stored_parts(entry, memoryview(bytearray(min(entry.size, _CHUNK_BYTES))))
            if entry.method == zip_layout.STORED
            else self._chunks(entry, whole=False)
        )
        for chunk in chunks:
            crc = crc32(chunk, crc)
            if digest is not None:
                digest.update(chunk)
            count_bytes(len(chunk))
        _check(entry, crc)

    def unowned(self) -> list[tuple[str, int]]:
        """Return the parts of the file that belong to no record. Another zip reader might interpret them as different content.

        Returns:
            For each part a description of its position, and its size in bytes. Records with a damaged header are skipped.
        """
        entries = sorted(self._directory.entries, key=attrgetter("offset"))
        if self._source.is_remote:
            edges = ((each.offset, each.offset + _HEADER_BYTES) for each in entries)
            self._source.expect([*edges, *((each.end - _FEW_BYTES, each.end) for each in entries)])
        found: list[tuple[str, int]] = []
        for entry in entries:
            with suppress(ArchiveError):
                extra_bytes = _spare_extra_bytes(self._source, entry)
                following = self._data_offset(entry) + entry.stored_bytes
                following += _descriptor_bytes(self._source, entry, following)
                found.append((f"in the header of record {entry.name!r}", extra_bytes))
                found.append((f"behind record {entry.name!r}", entry.end - following))
            found.append((f"in the directory, for record {entry.name!r}", _notable(entry.spare_bytes)))
        found.append(("behind the directory", self._directory.spare_bytes))
        return [(place, count) for place, count in found if count]

    def nested(self, name: str) -> ArchiveReader:
        """Open a record that is itself an archive (a `torch.save` file inside a program of torch 2.1 to 2.8).

        It reads and maps through this reader, and closes with it.

        Raises:
            MissingRecordError: the archive has no such record.
            ArchiveError: the record is not an archive, or it is damaged.
        """
        entry = self._entry(name)
        source: Source
        if entry.method == zip_layout.STORED:
            source = PartSource(self._source, self._data_offset(entry), entry.size)
        else:
            source = BufferSource(self.read(name))
        try:
            return ArchiveReader.of(source, limits=self.limits)
        except Exception as error:
            locate(error, f"record {name!r}")
            raise

    def check_open(self) -> None:
        """Raise unless the archive is open.

        Raises:
            ArchiveError: the archive is closed.
        """
        if self._source.closed:
            raise ArchiveError(CLOSED)

    def close(self) -> None:
        """Close the source. Mapped memory stays valid."""
        self._source.close()

    def _entry(self, name: str) -> zip_layout.Entry:
        entry = self._entries.get(name)
        if entry is None:
            import difflib

            some = [each for each in islice(self._entries, _NAMES_COMPARED) if len(each) <= len(name) + 8]
            near = difflib.get_close_matches(name[:_NAME_COMPARED], some, 3)
            raise MissingRecordError(
                f"the archive has no record {name!r}",
                remedy=f"Similar names: {', '.join(map(repr, near))}" if near else "",
            )
        return entry

    def _data_offset(self, entry: zip_layout.Entry) -> int:
        """Return the offset of a record's data, after a check of its header."""
        if not self._source.is_remote:
            return _data_offset(self._source, entry)
        found = self._offsets.get(entry.offset)
        if found is None:
            found = self._offsets[entry.offset] = _data_offset(self._source, entry)
        return found

    def _stored_parts(self, entry: zip_layout.Entry, memory: memoryview) -> Iterator[memoryview]:
        """Yield the bytes of a stored record in parts of `memory`, which they fill; if the record is larger, again and again.

        Args:
            memory: writable, of the size of the record or of a chunk.
        """
        if self._source.is_remote:
            self._source.expect([(entry.offset, entry.end)])
        start = self._data_offset(entry)
        for at in range(0, entry.size, _CHUNK_BYTES):
            begin = at % memory.nbytes
            part = memory[begin : begin + min(_CHUNK_BYTES, entry.size - at)]
            self._source.read_into(start + at, part)
            yield part

    def _chunks(self, entry: zip_layout.Entry, *, whole: bool) -> Iterator[bytes]:
        """Yield the record's bytes, in one chunk or in chunks of bounded size; never more than the directory states."""
        if self._source.is_remote:
            self._source.expect([(entry.offset, entry.end)])
        start = self._data_offset(entry)
        step = entry.stored_bytes if whole else _CHUNK_BYTES
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
        stream = inflater()
        left, at, pending = entry.size, 0, b""
        try:
            while not stream.eof:
                if not pending:
                    taken = min(_CHUNK_BYTES, entry.stored_bytes - at)
                    pending = self._source.read_at(start + at, taken)
                    at += taken
                # Asking for one byte too many detects a longer record. Without input the call drains the inflater's buffer.
                chunk = stream.decompress(pending, left + 1 if whole else min(left + 1, _CHUNK_BYTES))
                stuck = not chunk and not pending and not stream.eof
                pending = stream.unconsumed_tail
                left -= len(chunk)
                if left < 0 or stuck:
                    break
                if chunk:
                    yield chunk
        except DeflateError as error:
            raise damaged_record(entry.name, f"the record is deflated, but damaged ({error})") from error
        if left != 0 or not stream.eof or stream.unused_data or at != entry.stored_bytes:
            raise damaged_record(entry.name, f"the record does not inflate to its {entry.size:,} bytes")


class RunningChecksum:
    """Compares a record with its CRC-32 while it is read; a `RecordCheck`."""

    def __init__(self, entry: zip_layout.Entry) -> None:
        self._entry = entry
        self._crc = 0

    def update(self, chunk: memoryview) -> None:
        """Add the next bytes."""
        self._crc = crc32(chunk, self._crc)

    def finish(self) -> None:
        """Raise if the bytes differ from the written ones.

        Raises:
            ChecksumError: they do.
        """
        _check(self._entry, self._crc)


def _check(entry: zip_layout.Entry, crc: int) -> None:
    if crc != entry.crc:
        problem = (
            f"the record's bytes are not the ones that were written (CRC-32 {crc:08x}, not {entry.crc:08x})"
        )
        raise damaged_record(entry.name, problem, ChecksumError)


def _data_offset(source: Source, entry: zip_layout.Entry) -> int:
    """Return the offset of a record's data, after comparing its local header with the directory."""
    length = len(entry.raw_name)
    layout = zip_layout.named_header(length)
    memory = source.memory if type(source) is FileSource else None
    magic, flags, method, crc, stored_bytes, full_size, name_bytes, extra_bytes, name = (
        layout.unpack(source.read_at(entry.offset, layout.size))
        if memory is None
        else layout.unpack_from(memory, entry.offset)
    )
    start: int = entry.offset + layout.size + extra_bytes
    if (
        magic != zip_layout.LOCAL_MAGIC
        or method != entry.method
        or name != entry.raw_name
        or name_bytes != length
        or (flags ^ entry.flags) & ~zip_layout.FLAG_UTF8
        or (
            not flags & zip_layout.FLAG_DESCRIPTOR
            and (
                crc != entry.crc
                or stored_bytes not in (entry.stored_bytes, zip_layout.MAX32)
                or full_size not in (entry.size, zip_layout.MAX32)
            )
        )
    ):
        raise damaged_record(entry.name, "the record's header contradicts the archive's directory")
    if start + entry.stored_bytes > entry.end:
        raise damaged_record(entry.name, "the record overlaps another one")
    return start


_FEW_BYTES = 64
"""In bytes. Other tools add extra fields of up to this size for a member's times and owners."""


def _notable(count: int) -> int:
    return count if count > _FEW_BYTES else 0


def _spare_extra_bytes(source: Source, entry: zip_layout.Entry) -> int:
    """Return the size of a local header's extra fields other than sizes and padding; 0 if it is at most `_FEW_BYTES`."""
    size = zip_layout.LOCAL_HEADER.size
    name_bytes, extra_bytes = zip_layout.LOCAL_HEADER.unpack(source.read_at(entry.offset, size))[-2:]
    extra = source.read_at(entry.offset + size + name_bytes, extra_bytes)
    spare = extra_bytes
    for kind, length, content in zip_layout.extra_fields(extra):
        is_padding = kind == zip_layout.PADDING_FIELD and content.count(content[:1]) == len(content)
        is_size = kind == zip_layout.ZIP64_FIELD and length <= 24
        spare -= zip_layout.EXTRA_HEAD.size + (len(content) if is_padding or is_size else 0)
    return _notable(spare)


def _descriptor_bytes(source: Source, entry: zip_layout.Entry, at: int) -> int:
    """Return the size of the data descriptor after a record's data; 0 if there is none, or it contradicts the directory."""
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
    """Return the folder that contains all records; empty if a record is at the top level."""
    folder, slash, _ = min(names, default="").partition("/")
    if slash and max(names).startswith(folder + slash):  # and so do all between these two
        return folder
    folders = {name.partition("/")[0] if "/" in name else "" for name in names}
    if not folders or "" in folders:
        return ""
    if len(folders) > 1:
        some = ", ".join(sorted(folders)[:3])
        raise ArchiveError(f"the archive's records are in several folders ({some})", remedy=REMEDY)
    return folders.pop()


class ArchiveRecord:
    """A payload record of an open archive.

    Args:
        copied: whether each view is a checked copy in memory, not a mapping.
    """

    __slots__ = ("_archive", "_copied", "_entry", "_name", "nbytes")

    def __init__(self, archive: ArchiveReader, name: str, entry: zip_layout.Entry, copied: bool) -> None:
        self._archive = archive
        self._name = name
        self._copied = copied
        self._entry = entry
        self.nbytes = entry.size

    @property
    def checksums(self) -> dict[str, str]:
        """The checksums of its bytes that the archive lists, by kind. Nothing is read."""
        crc = self._archive.listed_crc(self._name)
        return {"CRC-32": f"{crc:08x}"} if crc else {}  # torch can be told to write none

    @property
    def lends(self) -> bool:
        """Whether views are mapped from a file; otherwise each view is a copy."""
        archive, name = self._archive, self._name
        if self._copied or not (archive.is_mapped and archive.is_stored(name)):
            return False
        return archive.offset(name) % ALIGNMENT == 0

    def verify(self) -> None:
        """Compare the bytes with the CRC-32 that the archive lists, reading them in chunks.

        Raises:
            ChecksumError: they differ from the written ones.
        """
        self._archive.verify(self._name)

    def view(self) -> memoryview:
        """Return the bytes: a checked copy if the caller chose copies, otherwise as of `ArchiveReader.map`."""
        archive = self._archive
        return archive.copy(self._name) if self._copied else archive.map(self._name, self._entry)


class StoredRecord(ArchiveRecord):
    """A payload record that is stored without compression, so that its ranges can be read (a `RangedRecord`)."""

    __slots__ = ()

    def read_into(self, offset: int, memory: memoryview) -> None:
        """Fill `memory` with the bytes that begin at `offset`, read from the file and not mapped.

        Raises:
            ArchiveError: the archive is closed or damaged, the range is not inside the record, or the file became shorter.
        """
        self._archive.read_into(self._name, offset, memory)

    def check(self) -> RunningChecksum | None:
        """Return a check of the CRC-32 if the caller chose checked copies."""
        return self._archive.checksum(self._name) if self._copied else None


def payload_record(archive: ArchiveReader, name: str, *, copied: bool) -> ArchiveRecord:
    """Return a record of an open archive.

    Args:
        copied: as in `ArchiveRecord`.

    Raises:
        MissingRecordError: the archive has no such record.
    """
    entry = archive._entry(name)
    kind = StoredRecord if entry.method == zip_layout.STORED else ArchiveRecord
    return kind(archive, name, entry, copied)
