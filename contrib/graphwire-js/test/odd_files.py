"""Archives and documents in forms that no writer of graphwire uses: legal ones, and ones that a reader must refuse."""

from __future__ import annotations

import json
import pickletools
import random
import struct
import zlib
from typing import Any

from making.zip_bytes import DESCRIPTOR, UTF8, End, Member, write_zip

_NUMBERS = (0, 1, 2, 4, 20, 45, 63, 0xFFFE, 0xFFFF, 0x10000, 2**31, 2**32 - 2, 2**32 - 1)
_FIELDS = {
    "version": 16,
    "flags": 16,
    "method": 16,
    "crc": 32,
    "packed": 32,
    "size": 32,
    "disk": 16,
    "offset": 32,
}
_FLAGS = (0, 1, UTF8, DESCRIPTOR, UTF8 | DESCRIPTOR, UTF8 | 0x40, UTF8 | 0x2000, UTF8 | 6)
_NAMES = (
    b"program/models/model.json",
    b"program/x/",
    b"program//x",
    b"other/x",
    b"x",
    b"",
    b"program/\x82t\x82",
    b"program/\xc3\xa9",
    b"program/e\xcc\x81",
)
_EXTRAS = (
    b"\x01",
    b"\x01\x00\x08\x00",
    struct.pack("<2HQ", 1, 8, 5),
    struct.pack("<2H3Q", 1, 24, 5, 5, 0),
    b"\x75\x70\x05\x00\x01abcd",
    struct.pack("<2H", 0x7777, 0),
)


def odd_archive(chance: random.Random, members: list[Member]) -> bytes:
    """An archive of members whose headers, directory or end differ in one to three places from what is true."""
    end, start = End(), b""
    for _ in range(chance.choice((1, 1, 2, 3))):
        if chance.random() < 0.65:
            _change_member(chance, members)
        elif chance.random() < 0.2:
            start = chance.choice((b"MZ", b"PK\x05\x06" + bytes(18), bytes(64)))
        else:
            _change_end(chance, end, len(members))
    try:
        return write_zip(members, end, start)
    except struct.error:  # a field that does not fit
        return write_zip([*members, *members[:1]])


def _change_member(chance: random.Random, members: list[Member]) -> None:
    member = chance.choice(members)
    header = chance.choice((member.local, member.central))
    way = chance.randrange(12)
    if way < 4:
        name = chance.choice(
            sorted(_FIELDS.keys() - ({"disk", "offset"} if header is member.local else set()))
        )
        header[name] = chance.choice(_NUMBERS) & ((1 << _FIELDS[name]) - 1)
    elif way == 4:
        header["name"] = chance.choice((*_NAMES, member.name.upper().encode(), member.name.encode() + b"\0"))
        if chance.random() < 0.7:
            member.local["name"] = member.central["name"] = header["name"]
            member.local["name_length"] = member.central["name_length"] = len(bytes(header["name"]))
    elif way == 5:
        header["extra"] = chance.choice(_EXTRAS)
    elif way == 6:
        member.flags = chance.choice(_FLAGS)
    elif way == 7:
        member.zip64 = not member.zip64
    elif way == 8:
        members.insert(chance.randrange(len(members) + 1), Member(member.name, member.data, member.method))
    elif way == 9:
        member.listed = False
    elif way == 10:
        member.before = chance.choice((b"x", b"PK\x03\x04", b"PK\x05\x06" + bytes(18), bytes(100)))
    else:
        member.packed = zlib.compress(member.data)[2:-4] + chance.choice((b"", b"\0"))


def _change_end(chance: random.Random, end: End, count: int) -> None:
    way = chance.randrange(4)
    if way == 0:
        end.comment = chance.choice((b"hello", b"PK\x05\x06" + bytes(18), bytes(200)))
    elif way == 1:
        end.zip64 = True
        name = chance.choice(("here", "entries", "directory_size", "directory_offset", "rest", "disk"))
        if chance.random() < 0.7:
            end.zip64_fields[name] = chance.choice((0, 1, 44, count, 2**32, 2**63))
    elif way == 2:
        end.fields[chance.choice(("here", "entries", "disk", "comment_length"))] = chance.choice(
            (0, 1, 2, count, 0xFFFF)
        )
    else:
        end.after = chance.choice((b"\0", b"x" * 30))


def odd_document(chance: random.Random, tree: Any, suffix: str) -> bytes:
    """A document in another form than the writer's: a few of its values have other lengths, tags, or keys twice."""
    return {"json": _json, "msgpack": _msgpack, "cbor": _cbor}[suffix](chance, tree)


def _is_odd(chance: random.Random) -> bool:
    return chance.random() < 0.01


_PLAIN = (
    b"1e400",
    b"-0",
    b"1.0",
    b"1E2",
    b"01",
    b"+1",
    b".5",
    b"1.",
    b"NaN",
    b"-Infinity",
    b"9" * 30,
    b"'x'",
    b"//",
    b'"\\x"',
    b'"\\ud800"',
    b'"\t"',
    b"\xff",
)


def _json(chance: random.Random, tree: Any) -> bytes:
    space = chance.choice((b" ", b"\n", b"\t", b"\r", b"\x0b", b"\xc2\xa0", b"")) if _is_odd(chance) else b""
    if isinstance(tree, dict):
        items = [_json(chance, key) + b":" + _json(chance, value) for key, value in tree.items()]
        if items and _is_odd(chance):
            items.append(chance.choice(items))
        return (
            b"{"
            + b",".join(items)
            + (b"," if _is_odd(chance) and chance.random() < 0.1 else b"")
            + b"}"
            + space
        )
    if isinstance(tree, list):
        return b"[" + b",".join(_json(chance, each) for each in tree) + b"]" + space
    if isinstance(tree, str) and _is_odd(chance):
        return (
            b'"'
            + "".join(f"\\u{ord(each):04X}" if ord(each) < 65536 else each for each in tree).encode()
            + b'"'
        )
    if not isinstance(tree, str) and chance.random() < 0.003:
        return chance.choice(_PLAIN)
    return space + json.dumps(tree, ensure_ascii=False).encode("utf-8", "surrogatepass")


_EXTENSIONS = (
    b"\xd4\x00x",
    b"\xd4\xffx",
    b"\xd6\xff\0\0\0\0",
    b"\xc7\x09\x01" + b"\x01" * 9,
    b"\xc7\x00\x01",
    b"\xc7\x02\x01\0\1",
    b"\xc1",
    b"\xca\x7f\xc0\0\1",
    b"\xcb\xff\xf8\0\0\0\0\0\1",
    b"\xc4\x01x",
    b"\xcf" + b"\xff" * 8,
)


def _msgpack(chance: random.Random, tree: Any) -> bytes:
    odd = _is_odd(chance)
    if chance.random() < 0.003:
        return chance.choice(_EXTENSIONS)
    if isinstance(tree, dict):
        items = [_msgpack(chance, key) + _msgpack(chance, value) for key, value in tree.items()]
        if items and odd:
            items.append(chance.choice(items))
        return _sized(len(items), (15, 0x80), b"\xde", b"\xdf", wide=odd) + b"".join(items)
    if isinstance(tree, list):
        return _sized(len(tree), (15, 0x90), b"\xdc", b"\xdd", wide=odd) + b"".join(
            _msgpack(chance, each) for each in tree
        )
    if isinstance(tree, str):
        data = tree.encode("utf-8", "surrogatepass")
        return (
            b"\xdb" + struct.pack(">I", len(data)) if odd or len(data) > 31 else bytes([0xA0 + len(data)])
        ) + data
    if isinstance(tree, bool) or tree is None:
        return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[tree]
    if isinstance(tree, int):
        if 0 <= tree < 128 and not odd:
            return bytes([tree])
        return (
            b"\xd3" + struct.pack(">q", tree)
            if -(2**63) <= tree < 2**63
            else b"\xcf" + struct.pack(">Q", tree & (2**64 - 1))
        )
    if isinstance(tree, float):
        return (
            b"\xca" + struct.pack(">f", tree)
            if odd and abs(tree) < 1e30
            else b"\xcb" + struct.pack(">d", tree)
        )
    return b"\xc6" + struct.pack(">I", len(tree)) + tree


def _sized(count: int, small: tuple[int, int], medium: bytes, large: bytes, *, wide: bool) -> bytes:
    if count <= small[0] and not wide:
        return bytes([small[1] + count])
    return large + struct.pack(">I", count) if wide else medium + struct.pack(">H", count)


_SIMPLE = (
    b"\xf7",
    b"\xe0",
    b"\xf8\x20",
    b"\xf8\x14",
    b"\xf9\x7e\x01",
    b"\xfa\x7f\xc0\0\1",
    b"\xc2\x41\x05",
    b"\xc2\x40",
    b"\xc3\x49" + b"\xff" * 9,
    b"\xff",
    b"\x1c",
    b"\x1f",
    b"\x3b" + b"\xff" * 8,
    b"\x1b" + b"\xff" * 8,
    b"\xd9\xd9\xf7\x01",
    b"\xc0\x60",
    b"\x5f\x41a\xff",
    b"\x5f\x61a\xff",
)


def _head(chance: random.Random, kind: int, count: int) -> bytes:
    width = 0 if count < 24 else 1 if count < 256 else 2 if count < 65536 else 3
    width = chance.randrange(width, 4) if _is_odd(chance) else width
    if width == 0:
        return bytes([kind << 5 | count])
    if count >= 2**32 or (width == 3 and chance.random() < 0.1):
        return bytes([kind << 5 | 27]) + struct.pack(">Q", count)
    return bytes([kind << 5 | 23 + width]) + struct.pack((">B", ">H", ">I")[width - 1], count)


def _cbor(chance: random.Random, tree: Any) -> bytes:
    odd = _is_odd(chance)
    if chance.random() < 0.003:
        return chance.choice(_SIMPLE)
    if chance.random() < 0.002:
        return _head(chance, 6, chance.choice((0, 1, 2, 4, 258, 55799, 2**40))) + _cbor(chance, tree)
    if isinstance(tree, dict | list):
        pairs = tree.items() if isinstance(tree, dict) else ((each,) for each in tree)
        items = [b"".join(_cbor(chance, each) for each in pair) for pair in pairs]
        if items and isinstance(tree, dict) and _is_odd(chance):
            items.append(chance.choice(items))
        kind = 5 if isinstance(tree, dict) else 4
        held = b"".join(items)
        return bytes([kind << 5 | 31]) + held + b"\xff" if odd else _head(chance, kind, len(items)) + held
    if isinstance(tree, str | bytes):
        data, kind = (tree, 2) if isinstance(tree, bytes) else (tree.encode("utf-8", "surrogatepass"), 3)
        if odd:
            at = chance.randrange(len(data) + 1)
            parts = b"".join(_head(chance, kind, len(part)) + part for part in (data[:at], data[at:]))
            return bytes([kind << 5 | 31]) + parts + b"\xff"
        return _head(chance, kind, len(data)) + data
    if isinstance(tree, bool) or tree is None:
        return {None: b"\xf6", False: b"\xf4", True: b"\xf5"}[tree]
    if isinstance(tree, int):
        count = tree if tree >= 0 else -1 - tree
        if count >= 2**64:
            data = count.to_bytes((count.bit_length() + 7) // 8, "big")
            return bytes([0xC2 if tree >= 0 else 0xC3]) + _head(chance, 2, len(data)) + data
        return _head(chance, 0 if tree >= 0 else 1, count)
    if odd and tree == struct.unpack(">e", struct.pack(">e", tree))[0]:
        return b"\xf9" + struct.pack(">e", tree)
    return b"\xfb" + struct.pack(">d", tree)


_LENGTHS = (
    0,
    1,
    2,
    3,
    5,
    6,
    7,
    255,
    256,
    65536,
    2**31 - 1,
    -1,
    2**31,
    2**59,
    2**63 - 1,
    2**63,
    -(2**63),
    2**70,
)
_GLOBALS = (
    *(
        f"torch\n{kind}Storage"
        for kind in ("Float", "Double", "Half", "Byte", "Untyped", "Quint8", "ComplexFloat")
    ),
    *(
        f"torch\n{kind}"
        for kind in ("float32", "float64", "float8_e4m3fn", "uint16", "float7", "int4", "Tensor")
    ),
    *(
        f"torch._utils\n_rebuild_{kind}"
        for kind in ("tensor_v2", "tensor_v3", "parameter", "tensor", "qtensor")
    ),
    *(
        "torch.storage\nUntypedStorage",
        "torch\nSize",
        "torch\ndevice",
        "collections\nOrderedDict",
        "os\nsystem",
    ),
)
_VALUES = (
    b"N",
    b"\x88",
    b"\x89",
    b")",
    b"]",
    b"}",
    b"K\x01",
    b"G?\xf0\0\0\0\0\0\0",
    b"C\x01x",
    b"\x8f",
    b"X\x01\0\0\0a",
)
_OPCODES = tuple(each.code.encode("latin-1") for each in pickletools.opcodes)


def odd_pickle(chance: random.Random, data: bytes) -> bytes:
    """A pickle of torch.save that differs in one to three of its opcodes, their arguments, its protocol or its end."""
    starts = [at for _, _, at in pickletools.genops(data)]
    steps = [data[at:end] for at, end in zip(starts, [*starts[1:], len(data)], strict=True)]
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        at = chance.randrange(len(steps))
        way = chance.randrange(12)
        if way == 0:
            steps[0] = b"\x80" + bytes([chance.choice((0, 1, 2, 3, 4, 5, 6, 255))])
        elif way == 1:
            steps.append(chance.choice((b".", b"\0", b"N.", b"x" * 9)))
        elif way == 2:
            steps[at] = chance.choice(_OPCODES) + steps[at][1:]
        elif way == 3:
            del steps[at]
        elif way == 4:
            steps.insert(at, chance.choice((steps[at], chance.choice(steps), *_VALUES)))
        elif way == 5:
            steps.insert(at, chance.choice((b"q", b"h")) + bytes([chance.choice((0, 1, 2, 9, 255))]))
        elif way == 6:
            steps.insert(at, b"\x95" + struct.pack("<Q", chance.choice((0, 1, len(data), 2**63))))
        else:
            alike = [
                index for index, step in enumerate(steps) if step[:1] in (b"J", b"K", b"X", b"c", b"\x8c")
            ]
            if alike:
                at = chance.choice(alike)
                steps[at] = _odd_step(chance, steps, steps[at])
    return b"".join(steps)


def _odd_step(chance: random.Random, steps: list[bytes], step: bytes) -> bytes:
    """Another number, text or global: a size, a stride, a key of a storage, a device or a name, perhaps one that is there."""
    if step[:1] == b"c":
        return b"c" + chance.choice(_GLOBALS).encode() + b"\n"
    if step[:1] in (b"X", b"\x8c"):
        texts = [each for each in steps if each[:1] == step[:1]]
        text = chance.choice(
            (
                "",
                "meta",
                "cuda:0",
                "cpu:0",
                "cpu:-1",
                "gpu",
                "0",
                "1",
                "../0",
                "storage",
                "a",
                "a.b",
                "\ud800",
            )
        )
        data = text.encode("utf-8", "surrogatepass")
        return chance.choice((chance.choice(texts), b"X" + struct.pack("<I", len(data)) + data))
    number = chance.choice(_LENGTHS)
    data = number.to_bytes(10, "little", signed=True)
    return chance.choice((b"\x8a\x0a" + data, b"\x8b\x0a\0\0\0" + data, b"J" + struct.pack("<i", number % 8)))


_NAMES_OF_RECORDS = (
    *(
        "weight_0",
        "data/weights/weight_0",
        "data/weights/weight_9",
        "data/weights/",
        "data/constants/tensor_0",
    ),
    *("data/weights/references.json", "manifest.json", "data/weights/../x", "DATA/WEIGHTS/weight_0"),
)
_LOCATIONS = (
    *(
        "",
        ".",
        "..",
        "../x.safetensors",
        "/x",
        "a/../x",
        "a//x",
        "a\\x",
        "C:x",
        "file:x",
        "http://x",
        "x\0",
        "x?y",
        "x#y",
    ),
    *("%2e%2e/x", "NUL", "x.", "x ", "é", "a" * 300),
)
_COUNTS = (0, 1, 3, 23, 24, 25, 2**31, 2**53, 2**53 + 1, 2**63 - 1, 2**63, -1, True, None, 1.0, "24")
_DIGESTS = ("", "0" * 64, "A" * 64, "0" * 63, "g" * 64, None)


def odd_references(chance: random.Random, tree: Any) -> Any:
    """References that differ in one to three places: names, locations, regions, sizes, digests or stores."""
    tree = json.loads(json.dumps(tree))
    for _ in range(chance.choice((1, 1, 2, 3))):
        holders: list[tuple[Any, Any]] = []
        _collect(tree, holders)
        holder, key = chance.choice(holders)
        value = holder[key]
        if isinstance(value, dict) and isinstance(holder, dict) and chance.random() < 0.6:
            holder[chance.choice(_NAMES_OF_RECORDS)] = value
            if chance.random() < 0.5:
                del holder[key]
        elif isinstance(value, list):
            holder[key] = chance.choice(([], value[1:], value[::-1], [*value, *value[:1]]))
        elif isinstance(value, bool) or not isinstance(value, (int, str)):
            holder[key] = chance.choice((None, True, {}, [], 0, ""))
        elif isinstance(value, int):
            holder[key] = chance.choice((value + 1, max(value - 1, 0), *_COUNTS))
        elif len(value) == 64:
            holder[key] = chance.choice((value.upper(), *_DIGESTS))
        else:
            holder[key] = chance.choice(
                (*_LOCATIONS, "float16", "F32", "float32", value.upper(), value + "/", "./" + value)
            )
    return tree


def _collect(tree: Any, holders: list[tuple[Any, Any]]) -> None:
    items = (
        list(tree.items())
        if isinstance(tree, dict)
        else list(enumerate(tree))
        if isinstance(tree, list)
        else []
    )
    for key, value in items:
        holders.append((tree, key))
        _collect(value, holders)
