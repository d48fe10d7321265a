"""Writes an archive from front to back, in the record layout of PyTorch's PT2 archive."""

from __future__ import annotations

import functools
import io
import struct
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType, TracebackType
from typing import BinaryIO, cast

from graphwire.errors import ArchiveError
from graphwire.process import count_bytes
from graphwire.wire.archive import directory as zip_layout
from graphwire.wire.archive.atomic_file import ChunkBuffer, Replacement, write_all, write_chunks
from graphwire.wire.archive.digests import Digests
from graphwire.wire.archive.manifest import MANIFEST, write_manifest
from graphwire.wire.archive.reader import crc32, raw_deflate
from graphwire.wire.archive.source import ALIGNMENT
from graphwire.wire.limits import DEFAULT_LIMITS

PT2_RECORDS: Mapping[str, bytes] = MappingProxyType(
    {"archive_format": b"pt2", "archive_version": b"0", "byteorder": b"little", ".data/version": b"6"}
)
"""The records that PyTorch's reader requires. `archive_format` comes first, so that a file's first bytes identify it."""

_CHUNK_BYTES, _CHUNKS = 1 << 16, 512
"""The bytes, and the number of chunks, after which small records are written: enough to save calls, and not so much that the
system spends more time on finding memory than on writing."""
_STREAM_CHUNK_BYTES = 1 << 19
"""In bytes. Streamed records, and all data for a stream that takes no chunks, are written in chunks of this size. They fit the
processor's cache, so that the checksum and the copy read memory once. Chunks of 64 KiB and of 2 MiB take a fifth more processor
time or two fifths; a whole tensor in one call takes two to three times as much."""

_FEW_BYTES = 16
"""In bytes. So few hardly become fewer by deflating, and an empty config has 13."""

_DATE, _TIME = 1 << 5 | 1, 0  # 1980-01-01 00:00:00, so that equal programs make equal files
_VERSION, _VERSION_ZIP64 = 20, 45
_FLAGS = zip_layout.FLAG_UTF8
_MAX_NAME_BYTES = DEFAULT_LIMITS.name_bytes


class ArchiveWriter:
    """Writes records in order to a stream, which need not be seekable. Equal records always give equal bytes.

    The checksum of a streamed record follows its data and is in the directory, as in PyTorch's own archives. As a context
    manager the writer closes the archive, except after an exception: a file without a directory is not an archive.

    Args:
        stream: a binary file object to write to. It stays open. Small records are combined for a raw file or a buffer.
        root: the folder that contains all records; empty for the flat layout of torch 2.1 to 2.7.
        records: small records at the start of the archive. By default those that identify a PT2 archive; none in the flat
            layout.
        digests: computes the digests for the manifest, which becomes the last record. It is closed with the archive.
        settle: called after the last record if large ones are still being hashed, to wait for the disk meanwhile.
    """

    def __init__(
        self,
        stream: BinaryIO,
        *,
        root: str = "program",
        records: Mapping[str, bytes] | None = None,
        digests: Digests | None = None,
        settle: Callable[[], object] | None = None,
    ) -> None:
        self._stream = stream
        own = "write" not in getattr(stream, "__dict__", ())
        self._write_many: Callable[[list[bytes | memoryview]], object] | None = None
        """Writes several chunks in one call, if the stream supports that."""
        if own and type(stream) is io.BytesIO:
            self._write_many = stream.writelines
        elif own and isinstance(stream, (ChunkBuffer, Replacement)):
            self._write_many = stream.write_many
        elif own and type(stream) is io.FileIO:
            self._write_many = functools.partial(write_chunks, stream)
        in_calls = self._write_many is not None and not isinstance(stream, ChunkBuffer)
        self._chunk_bytes = _CHUNK_BYTES if in_calls else _STREAM_CHUNK_BYTES
        self._pending: list[bytes | memoryview] = []
        """The data not yet written to the stream."""
        self._pending_bytes = 0
        """The size of `_pending` in bytes."""
        self._prefix = f"{root}/" if root else ""
        self._position = 0
        self._entries: dict[str, bytes] = {}
        """The entries of the written records in the directory, by the names of the records."""
        self._stems: set[str] = set()
        """The names so far without the number at their end: of many weights, only the first name is checked."""
        self._usable = True
        self._digests = digests
        self._settle = settle
        if records is None and root:
            data, entries, known = _beginning(root)
            self._entries.update(entries)
            self._put(len(data), (data,))
            if digests is not None:
                digests.known.update(known)
        for name, data in (records or {}).items():
            self.write(name, data, compress=False)

    def write(
        self, name: str, data: bytes | bytearray | memoryview, *, compress: bool, hashed: bool = False
    ) -> None:
        """Write one record from memory.

        Args:
            name: the record's name below the root folder.
            data: the bytes. They must not change until `close`, because small records are written in groups, and threads may
                still hash them.
            compress: deflate the record if that makes it smaller.
            hashed: whether a thread computes the digest already.

        Raises:
            ArchiveError: the name is already used, or refers to a path outside the archive.
        """
        full_name, encoded = self._begin(name)
        content = (
            data
            if type(data) is bytes or (hashed and type(data) is memoryview)
            else memoryview(data).cast("B")
        )
        crc, size = crc32(content), len(content)
        method, stored = _STORED, size
        packed = content
        if compress and size > _FEW_BYTES:
            deflated = raw_deflate(content)
            if len(deflated) < size:
                method, packed, stored = zip_layout.DEFLATED, deflated, len(deflated)
        header, entry = _headers(encoded, _FLAGS, method, crc, stored, size, self._position)
        if 0 < stored <= self._chunk_bytes:
            self._put(len(header) + stored, (header, packed))
        else:
            self._put(len(header), (header,))
            whole = memoryview(packed)
            for start in range(0, stored, self._chunk_bytes):
                part = whole[start : start + self._chunk_bytes]
                self._put(len(part), (part,))
        if self._digests is not None and not hashed:
            self._digests.take(name, content)
        self._entries[full_name] = entry
        self._usable = True

    def write_stream(
        self,
        name: str,
        nbytes: int,
        chunks: Iterable[bytes | bytearray | memoryview],
        *,
        lent: bool = False,
    ) -> None:
        """Write one stored record of `nbytes` bytes from chunks of any size. Chunks are not copied, but kept until hashed.

        Args:
            lent: whether the chunks are memory that exists anyway, so that any number of them may be kept until `close`.

        Raises:
            ArchiveError: the name is already used or refers to a path outside the archive, or the chunks have more or fewer
                than `nbytes` bytes. In the latter case the archive cannot be closed.
        """
        full_name, encoded = self._begin(name)
        flags = zip_layout.FLAG_UTF8 | zip_layout.FLAG_DESCRIPTOR
        start_of_record = self._position
        header, _ = _headers(encoded, flags, zip_layout.STORED, 0, nbytes, nbytes, start_of_record)
        self._put(len(header), (header,))
        crc = seen = 0
        digests = self._digests
        if digests is not None:
            digests.begin(name, nbytes, lent=lent)
        for chunk in chunks:
            view = memoryview(chunk).cast("B")
            seen += view.nbytes
            if seen > nbytes:
                break
            if digests is not None:
                digests.add(view)
            for start in range(0, view.nbytes, _STREAM_CHUNK_BYTES):
                part = view[start : start + _STREAM_CHUNK_BYTES]
                crc = crc32(part, crc)
                self._put(part.nbytes, (part,))
                count_bytes(part.nbytes)
            if nbytes > self._chunk_bytes:  # what waits would keep a copy of the whole record
                self.flush()
        if seen != nbytes:
            count = f"{seen:,} bytes" if seen < nbytes else "more bytes"
            raise ArchiveError(
                f"the record was announced with {nbytes:,} bytes but has {count}",
                place=f"record {name!r}",
                remedy="Announce as many bytes as its chunks have",
            )
        _, entry = _headers(encoded, flags, zip_layout.STORED, crc, nbytes, nbytes, start_of_record)
        self._entries[full_name] = entry
        descriptor = _descriptor(crc, nbytes)
        self._put(len(descriptor), (descriptor,))
        self._usable = True

    def close(self) -> None:
        """Write the manifest and the directory. The stream is neither flushed nor closed.

        Raises:
            ArchiveError: a record is unfinished because of an error.
        """
        digests, self._digests = self._digests, None
        try:
            if not self._usable:
                raise ArchiveError(
                    "the archive holds an unfinished record", remedy="Write it again from its start"
                )
            if digests is not None:
                if digests.busy and self._settle is not None:
                    self.flush()
                    self._settle()
                self.write(MANIFEST, write_manifest(digests.finish()), compress=False)
        finally:
            if digests is not None:
                digests.close()
        self._usable = False
        start = self._position
        directory = b"".join(self._entries.values())
        end = _end(len(self._entries), len(directory), start)
        self._put(len(directory) + len(end), (directory, end))
        self.flush()

    def __enter__(self) -> ArchiveWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        elif self._digests is not None:
            self._digests.close()

    def _begin(self, name: str) -> tuple[str, bytes]:
        """Check a record's name, and mark the archive as unfinished until the record is written.

        Returns:
            The full name, and its bytes.
        """
        if not self._usable:
            raise ArchiveError(
                "the archive is closed, or broken by an earlier error", place=f"record {name!r}"
            )
        full_name = self._prefix + name
        stem = full_name.rstrip("0123456789")
        if stem not in self._stems or stem == full_name:  # `a/.` is bad, `a/.1` is not
            zip_layout.check_name(full_name)
            self._stems.add(stem)
        encoded = full_name.encode()
        if full_name in self._entries:
            raise ArchiveError("a record of this name is written already", place=f"record {name!r}")
        if full_name[-1] == "/" or len(encoded) > _MAX_NAME_BYTES:
            raise ArchiveError("the record name is a folder's, or too long", place=f"record {name[:80]!r}")
        self._usable = False
        return full_name, encoded

    def _put(self, size: int, chunks: tuple[bytes | memoryview, ...]) -> None:
        """Write all of some chunks, now or together with later ones.

        Args:
            size: how many bytes all chunks have.
        """
        self._position += size
        if self._write_many is None:
            for chunk in chunks:
                write_all(self._stream, chunk)
            return
        self._pending += chunks
        self._pending_bytes += size
        if self._pending_bytes >= self._chunk_bytes or len(self._pending) >= _CHUNKS:
            self.flush()

    def flush(self) -> None:
        """Write the collected chunks to the stream."""
        chunks, self._pending, self._pending_bytes = self._pending, [], 0
        if self._write_many is not None and chunks:
            self._write_many(chunks)


@functools.lru_cache(maxsize=16)
def _beginning(root: str) -> tuple[bytes, Mapping[str, bytes], Mapping[str, str]]:
    """Return the bytes of `PT2_RECORDS`, with which each archive of a root folder begins, their entries, and their digests."""
    stream, digests = ChunkBuffer(), Digests()
    writer = ArchiveWriter(cast("BinaryIO", stream), root=root, records=PT2_RECORDS, digests=digests)
    writer.flush()
    return b"".join(stream.parts), writer._entries, digests.finish().sha256


_MAX32, _FLAG_DESCRIPTOR, _STORED = zip_layout.MAX32, zip_layout.FLAG_DESCRIPTOR, zip_layout.STORED
_pack_local, _pack_entry = zip_layout.LOCAL_SUMS.pack, zip_layout.CENTRAL_SUMS.pack
_HEADER_BYTES = zip_layout.LOCAL_HEADER.size + zip_layout.EXTRA_HEAD.size
"""In bytes: the size of a local header before its name, and of the head of its padding."""
_PADDINGS = tuple(
    zip_layout.EXTRA_HEAD.pack(zip_layout.PADDING_FIELD, count) + b"Z" * count for count in range(ALIGNMENT)
)
"""The padding fields of a local header, indexed by their number of bytes after the 4 bytes of field header."""


@functools.cache
def _starts(flags: int, method: int, version: int) -> tuple[bytes, bytes]:
    """Return what a local header and an entry of the directory have before the checksum."""
    row = struct.pack("<5H", version, flags, method, _TIME, _DATE)
    return zip_layout.LOCAL_MAGIC + row, zip_layout.CENTRAL_MAGIC + row[:2] + row


def _headers(
    name: bytes, flags: int, method: int, crc: int, stored: int, size: int, offset: int
) -> tuple[bytes, bytes]:
    """Return a record's local header, and its entry in the directory."""
    length, extra, wide = len(name), b"", b""
    local, central = _starts(flags, method, _VERSION)
    if size >= _MAX32:
        local, central = _starts(flags, method, _VERSION_ZIP64)
        extra = wide = _zip64_field(size, stored)
        size = stored = _MAX32
    if method == _STORED:
        extra += _PADDINGS[-(offset + _HEADER_BYTES + length + len(extra)) % ALIGNMENT]
    if offset >= _MAX32:
        _, central = _starts(flags, method, _VERSION_ZIP64)
        wide = _zip64_field(offset, after=wide)
        offset = _MAX32
    entry = _pack_entry(crc, stored, size, length, len(wide), offset)
    if flags & _FLAG_DESCRIPTOR:
        crc = 0
        size = stored = _MAX32 if size == _MAX32 else 0
    head = _pack_local(crc, stored, size, length, len(extra))
    return b"".join((local, head, name, extra)), b"".join((central, entry, name, wide))


def _descriptor(crc: int, size: int) -> bytes:
    width = 8 if size >= zip_layout.MAX32 else 4
    return zip_layout.DESCRIPTOR_MAGIC + crc.to_bytes(4, "little") + 2 * size.to_bytes(width, "little")


def _end(count: int, size: int, start: int) -> bytes:
    tail = b""
    if count >= zip_layout.MAX16 or size >= zip_layout.MAX32 or start >= zip_layout.MAX32:
        rest = zip_layout.END64.size - 12
        tail = zip_layout.END64.pack(
            zip_layout.END64_MAGIC, rest, _VERSION_ZIP64, _VERSION_ZIP64, 0, 0, count, count, size, start
        ) + zip_layout.END64_LOCATOR.pack(zip_layout.END64_LOCATOR_MAGIC, 0, start + size, 1)
        count, size = min(count, zip_layout.MAX16), min(size, zip_layout.MAX32)
        start = min(start, zip_layout.MAX32)
    return tail + zip_layout.END.pack(zip_layout.END_MAGIC, 0, 0, count, count, size, start, 0)


def _zip64_field(*values: int, after: bytes = b"") -> bytes:
    """Return the field of numbers of 64 bits; `after` is one whose numbers come first."""
    content = after[zip_layout.EXTRA_HEAD.size :] + struct.pack(f"<{len(values)}Q", *values)
    return zip_layout.EXTRA_HEAD.pack(zip_layout.ZIP64_FIELD, len(content)) + content
