"""A reader of archives written from docs/spec/archive.md alone, without code of graphwire. Each refusal names its rule."""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

ONES16, ONES32 = 0xFFFF, 0xFFFF_FFFF
MAX_RECORDS, MAX_NAME, FREE_BYTES, RATIO = 1_000_000, 4096, 16_777_216, 500


class Refused(Exception):
    """The number of the rule that a file breaks."""


def need(condition: object, rule: str) -> None:
    if not condition:
        raise Refused(rule)


class Entry(NamedTuple):
    name: str
    raw: bytes
    flags: int
    method: int
    crc: int
    packed: int
    size: int
    offset: int


class Directory(NamedTuple):
    count: int
    size: int
    offset: int
    end: int


def read_directory(data: bytes) -> dict[str, tuple[Entry, int]]:
    """Return each record's entry and the offset at which the next one begins, by its name below the root folder."""
    need(data[:4] == b"PK\3\4", "ARC-1")
    found = find_directory(data)
    need(found.count <= MAX_RECORDS, "ARC-42")
    entries, at = [], found.offset
    for _ in range(found.count):
        entry, at = read_entry(data, at, found.end)
        entries.append(entry)
    need(at == found.end, "ARC-6")
    need(len({each.name for each in entries}) == len(entries), "ARC-20")
    following, ends = found.offset, {}
    for each in sorted(entries, key=lambda each: -each.offset):
        need(each.offset + 30 + len(each.raw) + each.packed <= following, "ARC-11")
        ends[each.name] = following
        following = each.offset
    records = [each for each in entries if not (each.name.endswith("/") and each.size == 0)]
    roots = {each.name.partition("/")[0] if "/" in each.name else "" for each in records}
    need("" in roots or len(roots) <= 1, "ARC-21")
    skipped = 0 if "" in roots or not roots else len(roots.pop()) + 1
    return {each.name[skipped:]: (each, ends[each.name]) for each in records}


def find_directory(data: bytes) -> Directory:
    least = max(0, len(data) - 22 - ONES16)
    at = len(data) - 22
    while True:
        at = data.rfind(b"PK\5\6", least, max(at + 4, 0))
        need(at >= 0, "ARC-2")
        if at + 22 <= len(data) and at + 22 + int.from_bytes(data[at + 20 : at + 22], "little") == len(data):
            break
        at -= 1
    disk, first_disk, here, count, size, offset = struct.unpack_from("<4H2I", data, at + 4)
    need(disk == first_disk and disk in (0, ONES16) and here == count, "ARC-3")
    found = Directory(count, size, offset, at)
    if at >= 20 and data[at - 20 : at - 16] == b"PK\6\7":
        found = read_zip64(data, at - 20, found)
    need(found.offset + found.size == found.end, "ARC-6")
    return found


def read_zip64(data: bytes, locator: int, narrow: Directory) -> Directory:
    disk, at, disks = struct.unpack_from("<IQI", data, locator + 4)
    need(disk == 0 and disks <= 1 and at + 56 <= locator, "ARC-4")
    magic, rest, _, _, *disks_here, here, count, size, offset = struct.unpack_from("<4sQ2H2I4Q", data, at)
    need(magic == b"PK\6\6" and at + 12 + rest == locator, "ARC-4")
    need(disks_here == [0, 0] and here == count, "ARC-4")
    wide = Directory(count, size, offset, at)
    for short, value, ones in zip(narrow[:3], wide[:3], (ONES16, ONES32, ONES32), strict=True):
        need(short in (value, ones), "ARC-4")
    return wide


def read_entry(data: bytes, at: int, end: int) -> tuple[Entry, int]:
    need(at + 46 <= end, "ARC-6")
    magic, _, _, flags, method, _, _, crc, packed, size, *lengths, disk, _, _, offset = struct.unpack_from(
        "<4s6H3I5H2I", data, at
    )
    need(magic == b"PK\1\2" and disk in (0, ONES16), "ARC-7")
    following = at + 46 + sum(lengths)
    need(following <= end, "ARC-6")
    need(lengths[0] <= MAX_NAME, "ARC-42")
    need(method in (0, 8) and not flags & ~0b1000_0000_1110, "ARC-8")
    raw = data[at + 46 : at + 46 + lengths[0]]
    extra = data[at + 46 + lengths[0] : at + 46 + sum(lengths[:2])]
    if count := (size, packed, offset).count(ONES32):
        content = zip64_field(extra)
        need(len(content) >= 8 * count, "ARC-9")
        wide = iter(struct.unpack_from(f"<{count}Q", content))
        size, packed, offset = [next(wide) if each == ONES32 else each for each in (size, packed, offset)]
    need(method == 8 or packed == size, "ARC-10")
    try:
        name = raw.decode("utf-8" if flags & 1 << 11 else "cp437")
    except UnicodeDecodeError:
        raise Refused("ARC-18") from None
    check_name(name)
    return Entry(name, raw, flags, method, crc, packed, size, offset), following


def zip64_field(extra: bytes) -> bytes:
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        if kind == 1:
            return extra[at + 4 : at + 4 + length]
        at += 4 + length
    return b""


def check_name(name: str) -> None:
    text = name.replace("\\", "/")
    need(text and not text.startswith("/") and "//" not in text, "ARC-19")
    need(not any(each < " " or "\x7f" <= each <= "\x9f" for each in text), "ARC-19")
    parts = text.split("/")
    need("." not in parts and ".." not in parts and parts[0][1:2] != ":", "ARC-19")


def read_record(data: bytes, entry: Entry, following: int) -> bytes:
    """Return the bytes of a record, checked."""
    header = data[entry.offset : entry.offset + 30 + len(entry.raw)]
    magic, _, flags, method, _, _, crc, packed, size, *lengths = struct.unpack_from("<4s5H3I2H", header)
    need(magic == b"PK\3\4" and method == entry.method and not (flags ^ entry.flags) & ~(1 << 11), "ARC-12")
    need(lengths[0] == len(entry.raw) and header[30:] == entry.raw, "ARC-12")
    if not flags & 1 << 3:
        need(crc == entry.crc, "ARC-12")
        need(packed in (entry.packed, ONES32) and size in (entry.size, ONES32), "ARC-12")
    start = entry.offset + 30 + sum(lengths)
    need(start + entry.packed <= following, "ARC-11")
    content = data[start : start + entry.packed]
    if entry.method == 8:
        need(entry.size <= max(FREE_BYTES, RATIO * entry.packed), "ARC-42")
        content = inflated(content, entry.size)
    need(zlib.crc32(content) == entry.crc, "ARC-15")
    return content


def inflated(packed: bytes, size: int) -> bytes:
    stream = zlib.decompressobj(-15)
    try:
        content = stream.decompress(packed, size + 1)
        while len(content) <= size and not stream.eof and stream.unconsumed_tail:
            content += stream.decompress(stream.unconsumed_tail, size + 1 - len(content))
    except zlib.error:
        raise Refused("ARC-14") from None
    need(len(content) == size and stream.eof and not stream.unused_data, "ARC-14")
    return content
