"""Writes zip archives byte by byte, right ones and wrong ones, the same on every machine."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

LOCAL, CENTRAL, END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
UTF8, DESCRIPTOR = 1 << 11, 1 << 3
STORED, DEFLATED = 0, 8


@dataclass
class Member:
    """One member of an archive. Every field of its headers can be replaced."""

    name: str
    data: bytes
    method: int = STORED
    local: dict[str, int | bytes] = field(default_factory=dict)
    """Fields of the local header that differ from what is true."""
    central: dict[str, int | bytes] = field(default_factory=dict)
    """Fields of the entry of the directory that differ from what is true."""
    packed: bytes | None = None
    """The data in the file; None for the data, deflated if the method is."""
    flags: int = UTF8
    before: bytes = b""
    """Bytes between the member before and this one."""
    align: int = 64
    """Stored data begins at a multiple of this number of bytes."""
    zip64: bool = False
    """Whether sizes and the offset are in a zip64 field although they are small."""
    listed: bool = True
    """Whether the directory has an entry for it."""


@dataclass
class End:
    """The end of an archive."""

    fields: dict[str, int] = field(default_factory=dict)
    comment: bytes = b""
    zip64: bool = False
    zip64_fields: dict[str, int] = field(default_factory=dict)
    locator_fields: dict[str, int] = field(default_factory=dict)
    before_directory: bytes = b""
    after: bytes = b""


_LOCAL = "version flags method time date crc packed size name_length extra_length".split()
_CENTRAL = (
    "made_by version flags method time date crc packed size name_length extra_length comment_length disk internal"
    " external offset"
).split()
_END = "disk directory_disk here entries directory_size directory_offset comment_length".split()
_END64 = "rest made_by version disk directory_disk here entries directory_size directory_offset".split()
_LOCATOR = "disk offset disks".split()


def _pack(
    magic: bytes, layout: str, names: Sequence[str], values: dict[str, int], changes: dict[str, int | bytes]
) -> bytes:
    merged = {**values, **{key: value for key, value in changes.items() if key in names}}
    return magic + struct.pack(f"<{layout}", *(merged[name] for name in names))


def write_zip(members: Iterable[Member], end: End | None = None, start: bytes = b"") -> bytes:
    """Return an archive of members, in their order."""
    end = end or End()
    data = bytearray(start)
    directory = bytearray()
    count = 0
    for member in members:
        data += member.before
        offset = len(data)
        packed = member.packed
        if packed is None:
            packed = deflate(member.data) if member.method == DEFLATED else member.data
        name = member.name.encode("utf-8", "surrogateescape")
        true = {
            "made_by": 20,
            "version": 45 if member.zip64 else 20,
            "flags": member.flags,
            "method": member.method,
            "time": 0,
            "date": 33,
            "crc": zlib.crc32(member.data),
            "packed": len(packed),
            "size": len(member.data),
            "name_length": len(name),
            "comment_length": 0,
            "disk": 0,
            "internal": 0,
            "external": 0,
            "offset": offset,
        }
        local, central = dict(true), dict(true)
        local_extra = central_extra = b""
        if member.zip64:
            central_extra = struct.pack("<2H3Q", 1, 24, len(member.data), len(packed), offset)
            central |= dict.fromkeys(("packed", "size", "offset"), 0xFFFFFFFF)
            local_extra = struct.pack("<2H2Q", 1, 16, len(member.data), len(packed))
            local |= dict.fromkeys(("packed", "size"), 0xFFFFFFFF)
        if member.flags & DESCRIPTOR:
            local |= {"crc": 0, "packed": 0, "size": 0}
        if member.method == STORED and member.align > 1:
            gap = -(offset + 30 + len(name) + len(local_extra) + 4) % member.align
            local_extra += struct.pack("<2H", int.from_bytes(b"FB", "little"), gap) + b"Z" * gap
        local_extra = bytes(member.local.get("extra", local_extra))
        central_extra = bytes(member.central.get("extra", central_extra))
        local["extra_length"], central["extra_length"] = len(local_extra), len(central_extra)
        comment = bytes(member.central.get("comment", b""))
        central["comment_length"] = len(comment)
        data += _pack(bytes(member.local.get("magic", LOCAL)), "5H3I2H", _LOCAL, local, member.local)
        data += bytes(member.local.get("name", name)) + local_extra + packed
        if member.flags & DESCRIPTOR:
            width = "Q" if member.zip64 else "I"
            data += b"PK\x07\x08" + struct.pack(f"<I2{width}", true["crc"], len(packed), len(member.data))
        if member.listed:
            count += 1
            directory += _pack(
                bytes(member.central.get("magic", CENTRAL)), "6H3I5H2I", _CENTRAL, central, member.central
            )
            directory += bytes(member.central.get("name", name)) + central_extra + comment
    data += end.before_directory
    begin = len(data)
    data += directory
    true_end = {
        "disk": 0,
        "directory_disk": 0,
        "here": count,
        "entries": count,
        "directory_size": len(directory),
        "directory_offset": begin,
        "comment_length": len(end.comment),
    }
    if end.zip64:
        true64 = {**true_end, "rest": 44, "made_by": 45, "version": 45}
        at = len(data)
        data += _pack(b"PK\x06\x06", "Q2H2I4Q", _END64, true64, dict(end.zip64_fields))
        data += _pack(
            b"PK\x06\x07", "IQI", _LOCATOR, {"disk": 0, "offset": at, "disks": 1}, dict(end.locator_fields)
        )
        true_end |= {
            "here": 0xFFFF,
            "entries": 0xFFFF,
            "directory_size": 0xFFFFFFFF,
            "directory_offset": 0xFFFFFFFF,
        }
    data += _pack(END, "4H2IH", _END, true_end, dict(end.fields)) + end.comment + end.after
    return bytes(data)


# -------------------------------------------------------------------------------------------------------------- deflate


class _Bits:
    """Bits, the lowest of each byte first."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.held = self.count = 0

    def put(self, value: int, width: int) -> None:
        self.held |= value << self.count
        self.count += width
        while self.count >= 8:
            self.data.append(self.held & 255)
            self.held >>= 8
            self.count -= 8

    def put_code(self, code: int, width: int) -> None:
        self.put(int(f"{code:0{width}b}"[::-1], 2), width)

    def finish(self) -> bytes:
        if self.count:
            self.put(0, 8 - self.count)
        return bytes(self.data)


def _fixed(bits: _Bits, symbol: int) -> None:
    if symbol < 144:
        bits.put_code(0x30 + symbol, 8)
    elif symbol < 256:
        bits.put_code(0x190 + symbol - 144, 9)
    elif symbol < 280:
        bits.put_code(symbol - 256, 7)
    else:
        bits.put_code(0xC0 + symbol - 280, 8)


def _bases(first: int, groups: int, each: int) -> list[tuple[int, int]]:
    """Return the smallest value and the number of extra bits of each code (RFC 1951, 3.2.5)."""
    rows, value = [], first
    for group in range(groups):
        extra = max(0, group - 1)
        for _ in range(each):
            rows.append((value, extra))
            value += 1 << extra
    return rows


_LENGTHS = [*_bases(3, 7, 4)[:28], (258, 0)]
_DISTANCES = _bases(1, 15, 2)


def _split(rows: list[tuple[int, int]], value: int) -> tuple[int, int, int]:
    index = max(index for index, (least, _) in enumerate(rows) if least <= value)
    least, extra = rows[index]
    return index, value - least, extra


def deflate(data: bytes) -> bytes:
    """Deflate bytes in one block with the fixed codes. zlib's output differs between its versions, and this does not."""
    bits = _Bits()
    bits.put(0b011, 3)
    seen: dict[bytes, int] = {}
    at = 0
    while at < len(data):
        key = data[at : at + 3]
        start = seen.get(key, -1) if len(key) == 3 else -1
        length = 0
        if start >= 0 and at - start <= 32768:
            while length < 258 and at + length < len(data) and data[start + length] == data[at + length]:
                length += 1
        if length == 258 or length < 3:
            length = 0 if length < 3 else 257  # 258 has a code of its own, without extra bits
        for index in range(at, at + max(length, 1)):
            seen[data[index : index + 3]] = index
        if not length:
            _fixed(bits, data[at])
            at += 1
            continue
        code, rest, extra = _split(_LENGTHS, length)
        _fixed(bits, 257 + code)
        bits.put(rest, extra)
        code, rest, extra = _split(_DISTANCES, at - start)
        bits.put_code(code, 5)
        bits.put(rest, extra)
        at += length
    _fixed(bits, 256)
    return bits.finish()


Change = Callable[[list[Member]], list[Member]]
