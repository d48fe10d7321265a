"""Archives and documents in forms that no writer of graphwire uses: legal ones, and ones that a reader must refuse."""

from __future__ import annotations

import json
import pickletools
import random
import struct
import zlib
from typing import Any

from making.torch_saves import called, number_of, strided, text_of, tuple_of
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


def _odd_call(chance: random.Random) -> bytes:
    """A value by one of the functions that pickles of tensors call, whose arguments are right, or nearly."""
    tensor, layout = (
        strided("0"),
        chance.choice(("sparse_coo", "sparse_csr", "strided", "sparse_bsc", "sparse")),
    )
    sizes, flag = tuple_of(number_of(2), number_of(3)), chance.choice((b"\x88", b"\x89", b"N"))
    hooks, number = (
        chance.choice((called("collections.OrderedDict"), b"N", b"}")),
        number_of(chance.randrange(4)),
    )
    get_layout = called("torch.serialization._get_layout", text_of(f"torch.{layout}"))
    kind = chance.choice(
        ("torch\nTensor", "torch.nn.parameter\nParameter", "builtins\nlist", "torch\nfloat32")
    )
    inner = tuple_of(dtype := b"ctorch\nfloat32\n", sizes, sizes, flag)
    parts = [tensor] * chance.choice((2, 3))
    known: dict[str, list[bytes]] = {
        "torch._utils._rebuild_sparse_tensor": [
            get_layout,
            tuple_of(*parts, sizes, *chance.choice(([], [flag]))),
        ],
        "torch._utils._rebuild_meta_tensor_no_storage": [dtype, sizes, sizes, flag],
        "torch._utils._rebuild_parameter": [tensor, flag, hooks],
        "torch._utils._rebuild_parameter_with_state": [tensor, flag, hooks, b"}"],
        "torch._tensor._rebuild_from_type_v2": [
            b"ctorch._utils\n_rebuild_meta_tensor_no_storage\n",
            f"c{kind}\n".encode(),
            inner,
            chance.choice((b"}", b")", b"]", b"N")),
        ],
        "torch.serialization._get_layout": [text_of(f"torch.{layout}")],
        "torch.Size": [sizes],
        "torch.device": [text_of(chance.choice(("cpu", "cuda", "é", "a-b", ""))), number],
        "collections.OrderedDict": [],
    }
    name = chance.choice(list(known))
    given = known[name]
    if chance.random() < 0.4:
        at = chance.randrange(len(given) + 1)
        given[at : at + chance.randrange(2)] = chance.choice(
            ([], [tensor], [chance.choice(_VALUES)], [sizes])
        )
    return called(name, *given)


def odd_pickle(chance: random.Random, data: bytes) -> bytes:
    """A pickle of torch.save that differs in one to three of its opcodes, their arguments, its protocol or its end."""
    starts = [at for _, _, at in pickletools.genops(data)]
    steps = [data[at:end] for at, end in zip(starts, [*starts[1:], len(data)], strict=True)]
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        at = chance.randrange(len(steps))
        way = chance.randrange(15)
        if way > 11 and steps[-2:-1] == [b"u"]:
            steps[-2:-2] = [b"X\1\0\0\0z", _odd_call(chance)]
        elif way == 0:
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


_LOCATIONS = (
    *("", ".", "..", "../x.safetensors", "/x", "a/../x", "a//x", "a\\x", "C:x", "file:x", "http://x", "x\0"),
    *("x?y", "x#y", "%2e%2e/x", "NUL", "x.", "x ", "é", "a" * 300),
)
_DIGESTS = ("", "0" * 64, "A" * 64, "0" * 63, "g" * 64, None)
_SAME_SIZE = ("int32", "uint32", "complex32", "float16", "uint8", "float7", "")


def odd_references(chance: random.Random, tree: Any) -> Any:
    """References that differ in one to three places. Most keep their sense, or miss it by one, and then have no digests."""
    tree = json.loads(json.dumps(tree))
    for _ in range(chance.choice((1, 1, 2, 3))):
        tables = [tree.setdefault("records", {}), *tree.get("ranks", [])]
        records = [(table, name) for table in tables for name in table]
        if not records or chance.random() < 0.25:
            _change_stores(chance, tree)
            continue
        table, name = chance.choice(records)
        reference = table[name]
        if chance.random() < 0.8:
            reference["sha256"] = chance.choice(("", "", "", "", reference.get("sha256", ""), *_DIGESTS))
        regions = reference.get("regions", [])
        if regions and chance.random() < 0.7:
            _change_regions(chance, regions)
        else:
            _change_record(chance, tree, table, name)
    return tree


def _row_major(counts: list[int]) -> list[int]:
    strides = [1] * len(counts)
    for at in range(len(counts) - 2, -1, -1):
        strides[at] = strides[at + 1] * counts[at + 1]
    return strides


def _change_regions(chance: random.Random, regions: list[Any]) -> None:
    """Spell a region otherwise, divide it, move it, or miss one of its numbers."""
    region = chance.choice(regions)
    if region.get("box") is None:
        region["box"] = [[0, size, 1] for size in region["shape"]]
    box = region["box"]
    if region.get("strides") is None:
        region["strides"] = _row_major([count for _, count, _ in box])
    way = chance.randrange(9)
    large = [at for at, (_, count, _) in enumerate(box) if count > 1]
    if way < 3 and large:
        at = chance.choice(large)
        other = json.loads(json.dumps(region))
        first, count, step = box[at]
        if way == 0:  # every other one
            box[at] = [first, (count + 1) // 2, 2 * step]
            other["box"][at] = [first + step, count // 2, 2 * step]
            other["offset"] = region.get("offset", 0) + region["strides"][at]
            region["strides"][at] *= 2
            other["strides"] = list(region["strides"])
        else:
            some = chance.randrange(count + 1)
            box[at][1] = some
            other["box"][at] = [first + some * step, count - some, step]
            other["offset"] = region.get("offset", 0) + some * region["strides"][at]
        regions.append(other)
        region = chance.choice((region, other))
    elif way == 3:
        regions.append(
            {**region, "box": [[0, 0, 1] for _ in box], "offset": chance.choice((0, 1, 6, 2**59, -1))}
        )
    elif way == 4:
        chance.shuffle(regions)
    elif way == 5:
        region["dtype"] = chance.choice(_SAME_SIZE)
    elif way == 6:
        chance.shuffle(region["strides"])
    elif way == 7:
        del region[chance.choice(["box", "strides"])]
    if chance.random() < 0.4:
        key = chance.choice([each for each in ("box", "strides", "shape") if region.get(each)] or ["offset"])
        numbers = chance.choice(region[key]) if key == "box" else region[key] if key != "offset" else []
        if isinstance(numbers, list) and numbers:
            at = chance.randrange(len(numbers))
            numbers[at] = chance.choice(
                (numbers[at] + 1, numbers[at] - 1, 0, 1, numbers[at] * 2, 2**31, 2**63)
            )
        else:
            region["offset"] = chance.choice((0, 1, -1, 2**59, 2**59 + 1, True, 1.0))


def _change_record(chance: random.Random, tree: Any, table: Any, name: str) -> None:
    """Name a record otherwise, put it into ranks, or change its size or digest."""
    reference = table[name]
    way = chance.randrange(8)
    if way == 0:
        table[chance.choice(("data/weights/unused", "data/weights/a/b", "data/weights/", f"{name}.0"))] = (
            reference
        )
    elif way == 1:
        table[
            chance.choice(("data/constants/tensor_0", "weight_0", f"{name}/", f"./{name}", name.upper()))
        ] = table.pop(name)
    elif way == 2:
        tree["ranks"] = [{name: reference} for _ in range(chance.choice((1, 1, 2)))]
        if chance.random() < 0.5:
            tree["records"].pop(name, None)
    elif way == 3:
        tree["ranks"] = chance.choice(([], [{}], [{}, {}], [{name: reference}, {}]))
    elif way == 4:
        reference["regions"] = []
    elif way == 5:
        reference["nbytes"] = chance.choice(
            (0, reference["nbytes"] + 1, reference["nbytes"] - 1, -1, 2**62, True, 1.0)
        )
    else:
        reference["sha256"] = chance.choice(_DIGESTS)


def _change_stores(chance: random.Random, tree: Any) -> None:
    """Change a place, the facts about files, or add a store that nothing uses."""
    stores = tree.get("stores") or [{"kind": "safetensors", "location": "x.safetensors"}]
    tree["stores"] = stores
    each = chance.choice(stores)
    files = each.setdefault("files", {})
    way = chance.randrange(9)
    if way == 0:
        stores.append(
            {"kind": chance.choice(("blobs", "other", "Other", "")), "location": chance.choice(_LOCATIONS)}
        )
    elif way == 1:
        each["files"] = {}
    elif way == 2 and files:
        facts = files[chance.choice(list(files))]
        facts["index_sha256"] = chance.choice(("", facts.get("index_sha256", "").upper(), *_DIGESTS))
    elif way == 3 and files:
        facts = files[chance.choice(list(files))]
        facts["nbytes"] = chance.choice((facts["nbytes"] + 1, facts["nbytes"] - 1, 0, -1, True, 2**63))
    elif way == 4:
        files[chance.choice(_LOCATIONS)] = {"nbytes": 0}
    elif way == 5:
        each["folder"] = chance.choice((None, "", "a", "a/..", *_LOCATIONS))
    elif way == 6:
        each["location"] = chance.choice((f"./{each['location']}", f"{each['location']}/", *_LOCATIONS))
    elif way == 7:
        tree["providers"] = {
            each["kind"]: {"distribution": "d", "version": chance.choice(("1", "", 1)), "provides": []}
        }
    else:
        each["kind"] = chance.choice(("safetensors", "blobs", "other", "x-y"))


def odd_config(chance: random.Random, tree: Any) -> Any:
    """A config in which an entry has another record, role or number, mostly one that is there or almost right."""
    tree = json.loads(json.dumps(tree))
    entries = tree.get("config") or {
        "w": {"path_name": "", "is_param": False, "use_pickle": True, "tensor_meta": None}
    }
    tree["config"] = entries
    names = list(entries)
    for _ in range(chance.choice((1, 1, 2))):
        name = chance.choice(names)
        each = entries[name]
        meta = each.get("tensor_meta") or {}
        way = chance.randrange(11)
        if way == 0:
            each["same_as"] = chance.choice((*names, "nobody", ""))
        elif way == 1:
            each["weight"] = chance.choice((*names, "w", "nobody"))
        elif way == 2:
            each["shared"] = chance.choice(
                (
                    "data/weights/weight_0",
                    "data/weights/weight_1",
                    "data/constants/tensor_0",
                    "data/weights/",
                    "weight_0",
                )
            )
        elif way == 3:
            each["placement"] = chance.choice(("meta", "fake", "other", ""))
            if chance.random() < 0.7:
                each["path_name"] = ""
        elif way == 4:
            each["use_pickle"] = True
        elif way == 5:
            each["path_name"] = chance.choice(
                (
                    "",
                    "weight_0",
                    "weight_1",
                    "tensor_0",
                    "weight_0/",
                    "../weights/weight_0",
                    "model_weights_config.json",
                )
            )
        elif way == 6:
            entries[chance.choice((f"{name}_", f"{name}.a", "a b", f"{name}#0", "é", "", "x.0"))] = (
                json.loads(json.dumps(each))
            )
        elif way == 7:
            each[chance.choice(("conj", "neg", "buffer", "is_param"))] = chance.choice((True, False, None))
        elif way == 8 and meta:
            device = chance.choice(("cpu", "cuda", "meta", "CPU", "a-b", ""))
            meta["device"] = {"type": device, "index": chance.choice((None, 0, 127, 128, -1, 32767, 32768))}
        elif meta and meta.get("sizes"):
            key = chance.choice(("sizes", "strides"))
            at = chance.randrange(len(meta[key]))
            number = meta[key][at].get("as_int", 1)
            meta[key][at] = {
                "as_int": chance.choice((number + 1, number - 1, 0, 1, 2**31, 2**59, 2**63 - 1, 2**63))
            }
    return tree


def odd_store(chance: random.Random, data: bytes, change: Any) -> bytes:
    """A safetensors file whose header differs as `change` changes trees, or in its form or place."""
    size = int.from_bytes(data[:8], "little")
    header, elements = json.loads(data[8 : 8 + size]), data[8 + size :]
    way = chance.randrange(6)
    if way == 0:
        elements = chance.choice((elements[:-1], elements + b"\0", b""))
    elif way == 1:
        header["__metadata__"] = chance.choice((None, {}, {"a": "b"}, {"a": 1}, [], "x"))
    elif way == 2:
        begin, end = chance.choice(((0, 0), (len(elements), len(elements)), (1, 1), (0, 1), (-1, 0)))
        header["odd"] = {
            "dtype": chance.choice(("U8", "F4", "F32", "f32", "")),
            "shape": [end - begin],
            "data_offsets": [begin, end],
        }
    elif way < 5:
        header = change(chance, header)
    text = json.dumps(header, indent=chance.choice((None, None, 1))).encode("utf-8", "surrogatepass")
    text = chance.choice((text, text, text + b"   ", b" " + text, text + b"\0", b"\xef\xbb\xbf" + text))
    return (
        chance.choice((len(text),) * 8 + (len(text) + 1, len(text) - 1)).to_bytes(8, "little")
        + text
        + elements
    )
