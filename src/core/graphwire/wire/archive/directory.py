"""Reads the central directory of a zip archive, and checks all of it before any record is read."""

from __future__ import annotations

import functools
import re
import string
import struct
from collections.abc import Iterator
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias

import msgspec

from graphwire.errors import ArchiveError, LimitError, NotAnArchiveError
from graphwire.wire.archive.source import Source
from graphwire.wire.limits import Limits

# --------------------------- the byte layout of a zip file (PKWARE's APPNOTE 6.3.10), as far as PyTorch archives use it
# All numbers are little-endian.
#
# A zip file is a sequence of members, each a local header and its data, then the central directory (one entry for each
# member), then the end record. If a size or an offset exceeds 32 bits, its field is all ones and a zip64 extra field holds
# the value.


LOCAL_MAGIC = b"PK\x03\x04"
LOCAL_HEADER = struct.Struct("<4s5H3I2H")
"""magic, version needed, flags, method, time, date, crc, compressed size, size, name length, extra length"""


@functools.lru_cache
def named_header(name_bytes: int) -> struct.Struct:
    """Return the layout of a local header with its name, of so many bytes; without what nobody reads: version and times."""
    return struct.Struct(f"<4s2x2H4x3I2H{name_bytes}s")


CENTRAL_MAGIC = b"PK\x01\x02"
CENTRAL_ENTRY = struct.Struct("<4s6H3I5H2I")
"""magic, version made by, version needed, flags, method, time, date, crc, compressed size, size, name length, extra length,
comment length, disk, internal attributes, external attributes, offset of the local header"""
LOCAL_SUMS, CENTRAL_SUMS = struct.Struct("<3I2H"), struct.Struct("<3I2H10xI")
"""`LOCAL_HEADER` and `CENTRAL_ENTRY` from the checksum on; comment, disk and attributes are zeros."""
_READ_ENTRY = struct.Struct("<4s4x2H4x3I4H6xI")
"""`CENTRAL_ENTRY` without what nobody reads: versions, times, attributes."""

END_MAGIC = b"PK\x05\x06"
END = struct.Struct("<4s4H2IH")
"""magic, disk, disk of the directory, entries on this disk, entries, directory size, directory offset, comment length"""

END64_LOCATOR_MAGIC = b"PK\x06\x07"
END64_LOCATOR = struct.Struct("<4sIQI")
"""magic, disk, offset of the zip64 end record, disks"""

END64_MAGIC = b"PK\x06\x06"
END64 = struct.Struct("<4sQ2H2I4Q")
"""magic, bytes that follow in this record, version made by, version needed, disk, disk of the directory, entries on this
disk, entries, directory size, directory offset"""

DESCRIPTOR_MAGIC = b"PK\x07\x08"

STORED, DEFLATED = 0, 8
FLAG_DESCRIPTOR = 1 << 3
"""The checksum and sizes follow the data instead of being in the local header. The directory has them in any case."""
FLAG_UTF8 = 1 << 11
MAX16, MAX32 = 0xFFFF, 0xFFFF_FFFF

EXTRA_HEAD = struct.Struct("<2H")
"""The head of an extra field: kind, length of its content"""

ZIP64_FIELD = 1
PADDING_FIELD = int.from_bytes(b"FB", "little")
"""The extra field with which PyTorch pads local headers, so that stored data begins at a multiple of `ALIGNMENT`."""


def extra_fields(extra: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield the kind, the length and the content of each extra field. A content that is cut off is shorter than its length."""
    at = 0
    while at + EXTRA_HEAD.size <= len(extra):
        kind, length = EXTRA_HEAD.unpack_from(extra, at)
        at += EXTRA_HEAD.size + length
        yield kind, length, extra[at - length : at]


_USUAL_BYTES = f"-./_{string.ascii_letters}{string.digits}".encode()


def _are_usual(names: list[bytes]) -> bool:
    """Return whether `check_name` certainly accepts all names. One look at them together takes a quarter of its time."""
    path = b"/%b/" % b"/".join(names)
    return not (path.translate(None, _USUAL_BYTES) or any(part in path for part in (b"//", b"/./", b"/../")))


_SUSPECT_NAME = r"[\x00-\x1f\x7f-\x9f\\:]|^/|^$|//|(?:^|/)\.\.?(?:/|$)"


def check_name(name: str) -> None:
    """Check that a member name cannot refer to a path outside the archive when a tool unpacks it.

    Raises:
        ArchiveError: the name is empty, absolute, contains `.` or `..` as a part, or contains control characters.
    """
    if not re.search(_SUSPECT_NAME, name):
        return
    parts = name.replace("\\", "/").split("/")
    if not name:
        problem = "is empty"
    elif any(character < " " or "\x7f" <= character <= "\x9f" for character in name):
        problem = "holds control characters"
    elif not parts[0] or parts[0][1:2] == ":":
        problem = "is an absolute path"
    elif ".." in parts or "." in parts:
        problem = "steps out of its folder"
    elif "" in parts[:-1]:
        problem = "holds an absolute path"
    else:
        return
    raise ArchiveError(f"the record name {name[:80]!r} {problem}", place=f"record {name[:80]!r}")


# Bits 1 and 2 give the effort of the compressor.
_FLAGS_READ = FLAG_DESCRIPTOR | FLAG_UTF8 | 0b110
_REMEDY = "The file is damaged or was cut: fetch or write it again"


def _damaged(problem: str, record: str = "") -> ArchiveError:
    return ArchiveError(problem, place=f"record {record!r}" if record else "", remedy=_REMEDY)


class Entry(msgspec.Struct, frozen=True, gc=False):
    """The directory's entry for one member."""

    name: str
    raw_name: bytes
    flags: int
    method: int
    crc: int
    stored_bytes: int
    """The size of its data in the file, in bytes."""
    size: int
    """The size of its data after inflation, in bytes."""
    spare_bytes: int
    """Unused bytes of its entry: a comment, extra fields other than zip64."""
    offset: int
    """The offset of its local header, in bytes from the start of the file."""
    end: int
    """The offset of the next member's header, or of the directory."""


_Row: TypeAlias = tuple[str, bytes, int, int, int, int, int, int, int]
"""The fields of an `Entry` except `end`, which depends on the other entries."""


class Directory(msgspec.Struct, frozen=True):
    """The central directory of an archive."""

    entries: list[Entry]
    """Every member, including folders, in the order of the directory."""
    spare_bytes: int
    """Unused bytes of the end records: a comment, an extension."""


class _End(NamedTuple):
    records: int
    size: int
    offset: int
    spare_bytes: int


def read_directory(source: Source, limits: Limits) -> Directory:
    """Read and check the directory of an archive. Of a remote one, only the end is read.

    Raises:
        ArchiveError: this is not a zip archive, or its directory is damaged or contradicts the file. The error names the
            record if there is one.
        LimitError: it has more records, or longer names, than `limits` allow.
    """
    end = _find_end(source)
    if end.records > limits.records:
        raise LimitError(
            f"the archive has {end.records:,} records, more than {limits.records:,}",
            remedy="Raise Limits.records",
        )
    if end.records * CENTRAL_ENTRY.size > end.size:
        raise _damaged("the archive's directory is too small for its count of records")
    directory = source.read_at(end.offset, end.size)
    rows = _read_entries(directory, end.records, end.offset, limits)
    if source.is_remote and min((row[-1] for row in rows), default=1):
        _check_head(source)  # no record begins there, whose header would be checked
    return Directory(_separate(rows, end.offset), end.spare_bytes)


def _find_end(source: Source) -> _End:
    """Return the end record, in its zip64 form if there is one."""
    if source.size == 0:
        raise NotAnArchiveError("the file is empty", remedy="Was it saved, and saved to the end?")
    if not source.is_remote:
        _check_head(source)
    at, tail = -1, b""
    for comment_bytes in (MAX16,) if source.is_remote else (0, MAX16):  # graphwire writes no comment
        size = min(source.size, END.size + comment_bytes)
        tail = source.read_at(source.size - size, size)
        if (at := _end_in(tail)) >= 0:
            break
    if at < 0:
        _check_head(source)
        raise _damaged("the archive has no end record: the file was cut, or bytes were added to it")
    _, disk, start_disk, here, count, size, offset, _ = END.unpack_from(tail, at)
    end_at = source.size - len(tail) + at
    end = _End(count, size, offset, len(tail) - at - END.size)
    if disk != start_disk or here != count or disk not in (0, MAX16):
        raise ArchiveError("the archive spans several files", remedy="Join them into one zip file")
    locator_at = end_at - END64_LOCATOR.size
    if locator_at >= 0:
        locator = source.read_at(locator_at, END64_LOCATOR.size)
        if locator.startswith(END64_LOCATOR_MAGIC):
            end, end_at = _read_end64(source, locator, locator_at, end)
    if end.offset + end.size != end_at:
        raise _damaged("the archive's directory is not where its end record states")
    return end


def _end_in(tail: bytes) -> int:
    """Return where the last end record is whose comment ends with the file; -1 if there is none."""
    at = len(tail) - END.size
    while at >= 0:
        at = tail.rfind(END_MAGIC, 0, at + 4)
        if at < 0 or at + END.size + int.from_bytes(tail[at + 20 : at + 22], "little") == len(tail):
            break
        at -= 1
    return at


def _check_head(source: Source) -> None:
    head = source.read_at(0, min(4, source.size))
    if head not in (LOCAL_MAGIC, END_MAGIC):
        start = source.read_at(0, min(16, source.size))
        other = next((what for what, pattern in _OTHERS.items() if re.match(pattern, start, re.DOTALL)), None)
        raise NotAnArchiveError(
            f"this is not an archive (it starts with {head!r}, not with a zip header)"
            if other is None
            else f"this is not an archive but {other}",
            remedy="graphwire reads files that graphwire.save or torch.export.save wrote",
        )


_OTHERS: Final = {
    "a safetensors file: weights, without a program": rb".{5}\0{3}\{",
    "an ONNX model": rb"\x08[\x01-\x1f]\x12.[a-z]",
    "a GGUF file: weights, without a program": rb"GGUF",
    "an HDF5 file": rb"\x89HDF",
    "a TensorFlow Lite model": rb".{4}TFL3",
    "a program for ExecuTorch": rb".{4}ET12",
}
"""What files of other kinds begin with."""


def _read_end64(source: Source, locator: bytes, locator_at: int, short: _End) -> tuple[_End, int]:
    _, disk, at, disks = END64_LOCATOR.unpack(locator)
    if disk != 0 or disks > 1:
        raise ArchiveError("the archive spans several files", remedy="Join them into one zip file")
    if at + END64.size > locator_at:
        raise _damaged("the archive's zip64 end record is not where its locator states")
    magic, rest, _, _, disk, start_disk, here, count, size, offset = END64.unpack(
        source.read_at(at, END64.size)
    )
    expected = END64_MAGIC, locator_at, 0, 0, count
    if (magic, at + 12 + rest, disk, start_disk, here) != expected:
        raise _damaged("the archive's zip64 end record is damaged")
    full = _End(count, size, offset, short.spare_bytes + rest - (END64.size - 12))
    for narrow, value, ones in zip(short[:3], full[:3], (MAX16, MAX32, MAX32), strict=True):
        if narrow not in (ones, value):
            raise _damaged("the archive's two end records contradict each other")
    return full, at


def _read_entries(directory: bytes, count: int, limit: int, limits: Limits) -> list[_Row]:
    """Return the entries of the directory. Records must end before offset `limit`."""
    rows: list[_Row] = []
    position, end = 0, len(directory)
    unpack, entry_bytes, longest = _READ_ENTRY.unpack_from, CENTRAL_ENTRY.size, limits.name_bytes
    for _ in range(count):
        names_at = position + entry_bytes
        if names_at > end:
            raise _damaged("the archive's directory is cut short")
        (
            magic,
            flags,
            method,
            crc,
            stored_bytes,
            size,
            name_bytes,
            extra_bytes,
            comment_bytes,
            disk,
            offset,
        ) = unpack(directory, position)
        position = names_at + name_bytes + extra_bytes + comment_bytes
        if magic != CENTRAL_MAGIC or position > end:
            raise _damaged("the archive's directory is damaged")
        raw_name = directory[names_at : names_at + name_bytes]
        if name_bytes > longest:
            raise LimitError(f"a record's name has {name_bytes:,} bytes, more than {longest:,}")
        try:
            name = raw_name.decode("utf-8" if flags & FLAG_UTF8 else "cp437")
        except UnicodeDecodeError as error:
            raise _damaged(f"the record name {raw_name[:80]!r} is not UTF-8 text") from error
        spare_bytes = extra_bytes + comment_bytes
        if MAX32 in (stored_bytes, size, offset):
            spare_bytes -= min(spare_bytes, 4 + 8 * (stored_bytes, size, offset).count(MAX32))
            extra = directory[names_at + name_bytes : names_at + name_bytes + extra_bytes]
            size, stored_bytes, offset = _read_zip64(extra, name, (size, stored_bytes, offset))
        is_usual = method == STORED and stored_bytes == size and not (disk or flags & ~_FLAGS_READ)
        problem = "" if is_usual else _entry_problem(flags, method, stored_bytes, size, disk)
        if not problem and offset + LOCAL_HEADER.size + name_bytes + stored_bytes > limit:
            problem = "reaches past the end of the records"
        if problem:
            raise _damaged(f"the record {problem}", name)
        rows.append((name, raw_name, flags, method, crc, stored_bytes, size, spare_bytes, offset))
    if position != end:
        raise _damaged("the archive's directory has bytes that belong to no record")
    if not _are_usual([row[1] for row in rows]):
        for row in rows:
            check_name(row[0])
    return rows


def _entry_problem(flags: int, method: int, stored_bytes: int, size: int, disk: int) -> str:
    if flags & 1:
        return "is encrypted"
    if flags & ~_FLAGS_READ:
        return f"has unsupported flags ({flags:#06x})"
    if method not in (STORED, DEFLATED):
        return f"is compressed by an unsupported method ({method})"
    if method == STORED and stored_bytes != size:
        return f"is stored, yet has {stored_bytes:,} bytes in the file and {size:,} bytes to read"
    if disk not in (0, MAX16):
        return "is on another disk"
    return ""


def _read_zip64(extra: bytes, name: str, narrow: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return size, stored size and offset, each from the zip64 extra field if its own field is all ones."""
    fields = [(content, length) for kind, length, content in extra_fields(extra) if kind == ZIP64_FIELD]
    content = next((content for content, length in fields if len(content) == length), b"")
    count = narrow.count(MAX32)
    if len(content) < 8 * count:
        raise _damaged("the record's size or offset is missing", name)
    wide = iter(struct.unpack_from(f"<{count}Q", content))
    size, stored_bytes, offset = [next(wide) if value == MAX32 else value for value in narrow]
    return size, stored_bytes, offset


def _separate(rows: list[_Row], directory_at: int) -> list[Entry]:
    """Add to each entry the offset of the next member. Raise for duplicate names, overlapping members, and bytes before them."""
    names: set[str] = set()
    for row in rows if len({row[0] for row in rows}) < len(rows) else ():
        if row[0] in names:
            raise _damaged("two records have this name", row[0])
        names.add(row[0])
    ends: dict[int, int] = {}
    following = directory_at
    for name, raw_name, _, _, _, stored_bytes, _, _, offset in sorted(rows, key=itemgetter(-1), reverse=True):
        if offset + LOCAL_HEADER.size + len(raw_name) + stored_bytes > following:
            raise _damaged("the record overlaps another one", name)
        ends[offset] = following
        following = offset
    if rows and following:
        raise _damaged("bytes precede the first record")
    return [Entry(*row, ends[row[-1]]) for row in rows]
