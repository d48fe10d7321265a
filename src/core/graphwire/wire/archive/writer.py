"""Writing an archive from front to back, in PyTorch's PT2 record layout."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType, TracebackType
from typing import BinaryIO

import msgspec

from graphwire.errors import ArchiveError
from graphwire.wire.archive import zip_layout
from graphwire.wire.archive.atomic_file import PieceBuffer, Replacement, write_all, write_pieces
from graphwire.wire.archive.deflate import crc32, deflate
from graphwire.wire.archive.digests import Digests
from graphwire.wire.archive.manifest import MANIFEST, write_manifest

PT2_RECORDS: Mapping[str, bytes] = MappingProxyType(
    {"archive_format": b"pt2", "archive_version": b"0", "byteorder": b"little", ".data/version": b"6"}
)
"""What PyTorch's reader looks for before anything else. `archive_format` comes first: a file's head tells what it is."""

_PIECE_BYTES, _PIECES = 1 << 16, 512
"""A file gets this much, or so many pieces, in one call: fewer calls for many small pieces, and not so much that the system
has to look for room for it, for longer than it then writes."""
_CHUNK_BYTES = 1 << 20
"""Any other stream gets larger data in chunks that fit the processor's cache, as the pieces do: checksum and copy read memory
once."""

_DATE, _TIME = 1 << 5 | 1, 0  # 1980-01-01 00:00:00: equal programs make equal files
_VERSION, _VERSION_ZIP64 = 20, 45


class _WrittenRecord(msgspec.Struct):
    """A record's line in the directory."""

    name: bytes
    flags: int
    method: int
    crc: int
    stored_bytes: int
    size: int
    offset: int


class ArchiveWriter:
    """Writes records one after the other to a stream that need not seek; the same records always make the same bytes.

    Streamed records carry their checksum behind the data and in the directory, as PyTorch's own do. Used as a context
    manager it closes the archive, but not after an exception: a file without a directory is no archive.

    Args:
        stream: a binary file object to write to. It stays open. A raw file, or memory, gets small records together.
        root: the folder that all records stand below; empty for the flat layout of torch 2.1 to 2.7.
        records: small records that open the archive. By default those that make it a PT2 archive; none in the flat layout.
        digests: takes those of the records, which become the last record, the manifest. It is closed with the archive.
        settle: called when large records are written and still being hashed: waiting for the disk takes no processor.
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
        """Writes pieces together, where the stream can."""
        if own and type(stream) is io.BytesIO:
            self._write_many = stream.writelines
        elif own and isinstance(stream, (PieceBuffer, Replacement)):
            self._write_many = stream.write_many
        elif own and type(stream) is io.FileIO:
            self._write_many = functools.partial(write_pieces, stream)
        in_calls = self._write_many is not None and not isinstance(stream, PieceBuffer)
        self._piece_bytes = _PIECE_BYTES if in_calls else _CHUNK_BYTES
        self._pieces: list[bytes | memoryview] = []
        """What the file is yet to get."""
        self._pending_bytes = 0
        """Bytes in them."""
        self._prefix = f"{root}/" if root else ""
        self._position = 0
        self._written: list[_WrittenRecord] = []
        self._names: set[str] = set()
        self._usable = True
        self._digests = digests
        self._settle = settle
        if records is None:
            records = PT2_RECORDS if root else {}
        for name, data in records.items():
            self.write(name, data, compress=False)

    def write(
        self, name: str, data: bytes | bytearray | memoryview, *, compress: bool, hashed: bool = False
    ) -> None:
        """Write one record that is in memory. It is deflated if `compress` is set and it gets smaller by that; `hashed` says that
        its digest is being taken already.

        `data` must not change until `close`: where a raw file or memory is written, it is kept until as much as goes into one
        call follows; and where there are `digests`, until it is hashed.

        Raises:
            ArchiveError: the name is taken, or leaves the archive.
        """
        full_name = self._claim(name)
        content = memoryview(data).cast("B")
        crc = crc32(content)
        method = zip_layout.STORED
        packed: bytes | memoryview = content
        if compress:
            deflated = deflate(content)
            if len(deflated) < content.nbytes:
                method, packed = zip_layout.DEFLATED, deflated
        record = _WrittenRecord(
            full_name, zip_layout.FLAG_UTF8, method, crc, len(packed), content.nbytes, self._position
        )
        self._put(_local_header(record))
        if len(packed) <= self._piece_bytes:
            self._put(packed)
        else:
            for start in range(0, len(packed), self._piece_bytes):
                self._put(packed[start : start + self._piece_bytes])
        if self._digests is not None and not hashed:
            self._digests.take(name, content)
        self._written.append(record)
        self._usable = True

    def write_stream(
        self,
        name: str,
        nbytes: int,
        chunks: Iterable[bytes | bytearray | memoryview],
        *,
        lent: bool = False,
    ) -> None:
        """Write one stored record of `nbytes` bytes from chunks of any size. No chunk is copied; for the manifest, chunks are
        kept until they are hashed.

        Args:
            lent: whether the chunks are memory that is there anyway, so that any number of them may be kept until `close`.

        Raises:
            ArchiveError: the name is taken or leaves the archive, or the chunks do not come to `nbytes` bytes. After the
                latter the archive can not be closed.
        """
        full_name = self._claim(name)
        flags = zip_layout.FLAG_UTF8 | zip_layout.FLAG_DESCRIPTOR
        record = _WrittenRecord(full_name, flags, zip_layout.STORED, 0, nbytes, nbytes, self._position)
        self._put(_local_header(record))
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
            for start in range(0, view.nbytes, self._piece_bytes):
                piece = view[start : start + self._piece_bytes]
                crc = crc32(piece, crc)
                self._put(piece)
            self._flush()
        if seen != nbytes:
            count = f"{seen:,} bytes" if seen < nbytes else "more bytes"
            raise ArchiveError(
                f"the record was announced with {nbytes:,} bytes but has {count}",
                place=f"record {name!r}",
                remedy="Announce as many bytes as its chunks have",
            )
        record.crc = crc
        self._put(_descriptor(record))
        self._written.append(record)
        self._usable = True

    def close(self) -> None:
        """Write the directory. The stream is neither flushed nor closed.

        Raises:
            ArchiveError: a record was left unfinished by an error.
        """
        digests, self._digests = self._digests, None
        try:
            if not self._usable:
                raise ArchiveError(
                    "the archive holds an unfinished record", remedy="Write it again from its start"
                )
            if digests is not None:
                if digests.busy and self._settle is not None:
                    self._flush()
                    self._settle()
                self.write(MANIFEST, write_manifest(digests.finish()), compress=False)
        finally:
            if digests is not None:
                digests.close()
        self._usable = False
        start = self._position
        self._put(b"".join(map(_central_entry, self._written)))
        self._put(_end(len(self._written), self._position - start, start))
        self._flush()

    def __enter__(self) -> ArchiveWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        elif self._digests is not None:
            self._digests.close()

    def _claim(self, name: str) -> bytes:
        """Check a record's name, and hold the archive for unfinished until the record is written."""
        if not self._usable:
            raise ArchiveError(
                "the archive is closed, or broken by an earlier error", place=f"record {name!r}"
            )
        full_name = self._prefix + name
        zip_layout.check_name(full_name)
        encoded = full_name.encode("utf-8")
        if full_name in self._names:
            raise ArchiveError("a record of this name is written already", place=f"record {name!r}")
        if full_name.endswith("/") or len(encoded) > zip_layout.MAX16:
            raise ArchiveError("the record name is a folder's, or too long", place=f"record {name[:80]!r}")
        self._names.add(full_name)
        self._usable = False
        return encoded

    def _put(self, data: bytes | memoryview) -> None:
        """Write all of `data`, now or with what follows."""
        size = len(data)
        self._position += size
        if self._write_many is None:
            write_all(self._stream, data)
            return
        self._pieces.append(data)
        self._pending_bytes += size
        if self._pending_bytes >= self._piece_bytes or len(self._pieces) == _PIECES:
            self._flush()

    def _flush(self) -> None:
        """Let the stream have what was gathered."""
        pieces, self._pieces, self._pending_bytes = self._pieces, [], 0
        if self._write_many is not None and pieces:
            self._write_many(pieces)


_PADDINGS = tuple(
    zip_layout.PADDING_FIELD.to_bytes(2, "little") + count.to_bytes(2, "little") + b"Z" * count
    for count in range(zip_layout.ALIGNMENT)
)
"""The fields that fill up a local header, by how many bytes they add beyond their own head."""


def _local_header(record: _WrittenRecord) -> bytes:
    name, flags, method = record.name, record.flags, record.method
    crc, stored, size = record.crc, record.stored_bytes, record.size
    version, extra = _VERSION, b""
    if flags & zip_layout.FLAG_DESCRIPTOR:
        crc = 0
    if size >= zip_layout.MAX32:
        version, extra = _VERSION_ZIP64, _zip64_field(size, stored)
        stored = size = zip_layout.MAX32
    elif flags & zip_layout.FLAG_DESCRIPTOR:
        stored = size = 0
    if method == zip_layout.STORED:
        unpadded = record.offset + zip_layout.LOCAL_HEADER.size + len(name) + len(extra) + 4
        extra += _PADDINGS[-unpadded % zip_layout.ALIGNMENT]
    head = zip_layout.LOCAL_HEADER.pack(
        zip_layout.LOCAL_MAGIC, version, flags, method, _TIME, _DATE, crc, stored, size, len(name), len(extra)
    )
    return head + name + extra


def _descriptor(record: _WrittenRecord) -> bytes:
    width = 8 if record.size >= zip_layout.MAX32 else 4
    crc = record.crc.to_bytes(4, "little")
    return zip_layout.DESCRIPTOR_MAGIC + crc + 2 * record.size.to_bytes(width, "little")


def _central_entry(record: _WrittenRecord) -> bytes:
    wide = record.size >= zip_layout.MAX32
    far = record.offset >= zip_layout.MAX32
    extra, version = b"", _VERSION
    if wide or far:
        values = ([record.size, record.stored_bytes] if wide else []) + ([record.offset] if far else [])
        extra, version = _zip64_field(*values), _VERSION_ZIP64
    return (
        zip_layout.CENTRAL_ENTRY.pack(
            zip_layout.CENTRAL_MAGIC,
            version,
            version,
            record.flags,
            record.method,
            _TIME,
            _DATE,
            record.crc,
            zip_layout.MAX32 if wide else record.stored_bytes,
            zip_layout.MAX32 if wide else record.size,
            len(record.name),
            len(extra),
            0,
            0,
            0,
            0,
            zip_layout.MAX32 if far else record.offset,
        )
        + record.name
        + extra
    )


def _end(count: int, size: int, start: int) -> bytes:
    tail = b""
    if count >= zip_layout.MAX16 or size >= zip_layout.MAX32 or start >= zip_layout.MAX32:
        rest = zip_layout.END64.size - 12
        tail = zip_layout.END64.pack(
            zip_layout.END64_MAGIC, rest, _VERSION_ZIP64, _VERSION_ZIP64, 0, 0, count, count, size, start
        ) + zip_layout.END64_LOCATOR.pack(zip_layout.END64_LOCATOR_MAGIC, 0, start + size, 1)
    entries = min(count, zip_layout.MAX16)
    return tail + zip_layout.END.pack(
        zip_layout.END_MAGIC,
        0,
        0,
        entries,
        entries,
        min(size, zip_layout.MAX32),
        min(start, zip_layout.MAX32),
        0,
    )


def _zip64_field(*values: int) -> bytes:
    head = zip_layout.ZIP64_FIELD.to_bytes(2, "little") + (8 * len(values)).to_bytes(2, "little")
    return head + b"".join(value.to_bytes(8, "little") for value in values)
