"""The byte layout of a zip file (PKWARE's APPNOTE 6.3.10), as far as PyTorch archives use it. All numbers are little-endian.

A zip file is a sequence of members, each a local header and its data, then the central directory (one entry for each member),
then the end record. If a size or an offset exceeds 32 bits, its field is all ones and a zip64 extra field holds the value.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from graphwire.errors import ArchiveError
from graphwire.lazy import pattern

LOCAL_MAGIC = b"PK\x03\x04"
LOCAL_HEADER = struct.Struct("<4s5H3I2H")
"""magic, version needed, flags, method, time, date, crc, compressed size, size, name length, extra length"""

CENTRAL_MAGIC = b"PK\x01\x02"
CENTRAL_ENTRY = struct.Struct("<4s6H3I5H2I")
"""magic, version made by, version needed, flags, method, time, date, crc, compressed size, size, name length, extra length,
comment length, disk, internal attributes, external attributes, offset of the local header"""

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
ALIGNMENT = 64
"""In bytes."""


def extra_fields(extra: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield the kind, the length and the content of each extra field. A content that is cut off is shorter than its length."""
    at = 0
    while at + EXTRA_HEAD.size <= len(extra):
        kind, length = EXTRA_HEAD.unpack_from(extra, at)
        at += EXTRA_HEAD.size + length
        yield kind, length, extra[at - length : at]


_USUAL_NAME = pattern(r"[\w-][\w.-]*(?:/[\w-][\w.-]*)*", re.ASCII)
_SUSPECT_NAME = pattern(r"[\x00-\x1f\x7f-\x9f\\:]|^/|^$|//|(?:^|/)\.\.?(?:/|$)")


def check_name(name: str) -> None:
    """Check that a member name cannot refer to a path outside the archive when a tool unpacks it.

    Raises:
        ArchiveError: the name is empty, absolute, contains `.` or `..` as a part, or contains control characters.
    """
    if _USUAL_NAME.fullmatch(name) or not _SUSPECT_NAME.search(name):
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
