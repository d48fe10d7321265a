"""Valid files: archives, payloads and weights elsewhere."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import zlib
from collections.abc import Iterator
from typing import Any

from making.documents import meta, row_major, simple
from making.files import (
    FORMATS,
    Archive,
    Case,
    Member,
    Payload,
    float32,
    holding,
    json_bytes,
    manifest_of,
    member,
    numbers,
    with_weights,
)
from making.zip_bytes import DEFLATED, DESCRIPTOR, STORED, UTF8, End

ITEMS = {
    1: 1,
    2: 1,
    3: 2,
    4: 4,
    5: 8,
    6: 2,
    7: 4,
    8: 8,
    9: 4,
    10: 8,
    11: 16,
    12: 1,
    13: 2,
    28: 2,
    29: 1,
    30: 1,
    31: 1,
    32: 1,
}
ITEMS |= {33: 1, 34: 4, 35: 8}
"""The size of an element in bytes, by the number of the element type."""


def archive_cases() -> Iterator[Case]:
    """What an archive may be: compression, order, names, alignment, zip64, manifests."""
    weights = {"weight": float32()}
    base = with_weights(weights)

    def case(name: str, about: str, data: bytes) -> Case:
        return Case(f"archives/{name}", about, data)

    yield case("deflated", "documents and configs are deflated", base.build())
    stored = with_weights(weights)
    stored.method = STORED
    yield case("stored", "every record is stored", stored.build())

    def all_deflated(members: list[Member]) -> None:
        for each in members:
            each.method = DEFLATED

    yield case("deflated_payloads", "payloads are deflated, too", base.build(all_deflated))

    def dynamic(members: list[Member]) -> None:
        document = member(members, "models/model.json")
        document.data, document.packed = zlib.decompress(_DYNAMIC, -15), _DYNAMIC

    plain = Archive({"model": simple()})
    yield case(
        "deflated_with_dynamic_codes",
        "a document is deflated in blocks with dynamic codes",
        plain.build(dynamic),
    )

    def blocks(members: list[Member]) -> None:
        document = member(members, "models/model.json")
        half = len(document.data) // 2
        parts = document.data[:half], b"", document.data[half:]
        document.packed = b"".join(
            struct.pack("<B2H", index == 2, len(part), len(part) ^ 0xFFFF) + part
            for index, part in enumerate(parts)
        )

    yield case(
        "deflated_in_stored_blocks",
        "a document is deflated in three blocks that are stored, one of them empty",
        base.build(blocks),
    )

    def described(members: list[Member]) -> None:
        for each in members:
            each.flags = UTF8 | DESCRIPTOR

    yield case("data_descriptors", "checksums and sizes follow the data", base.build(described))

    def without_utf8(members: list[Member]) -> None:
        for each in members:
            each.flags = 0

    yield case(
        "without_the_flag_of_utf8", "names are ASCII and lack the flag of UTF-8", base.build(without_utf8)
    )

    def unaligned(members: list[Member]) -> None:
        for each in members:
            each.align = 1

    yield case("unaligned", "payloads begin anywhere", base.build(unaligned))

    def wide(members: list[Member]) -> None:
        for each in members:
            each.zip64 = True

    for name, changes, end in (
        ("zip64_end", (), End(zip64=True)),
        ("zip64_members", (wide,), End()),
        ("zip64", (wide,), End(zip64=True)),
        ("zip64_described", (wide, described), End(zip64=True)),
    ):
        archive = with_weights(weights)
        archive.end = end
        yield case(name, "zip64 fields and records, though nothing is large", archive.build(*changes))
    for name, root in (("another_root", "some folder"), ("root_not_ascii", "\u00e9t\u00e9")):
        archive = with_weights(weights)
        archive.root = root
        yield case(name, f"the root folder is {root!r}", archive.build())
    archive = with_weights(weights)
    archive.manifest = False
    yield case("without_a_manifest", "a file without a manifest can be read", archive.build())

    def singly(members: list[Member]) -> None:
        listed = {each.name: hashlib.sha256(each.data).hexdigest() for each in members}
        members.append(Member("manifest.json", json_bytes({"sha256": listed})))

    many = with_weights({f"w{index}": float32(record=f"weight_{index}", seed=index) for index in range(5)})
    yield case("digests_together", "five payloads share a digest", many.build())
    many.manifest = False
    yield case("digests_alone", "each record has a digest of its own", many.build(singly))

    def upper(members: list[Member]) -> None:
        made = manifest_of(members)
        text = json.loads(made.data)
        text["sha256"] = {name: digest.upper() for name, digest in text["sha256"].items()}
        members.append(Member("manifest.json", json_bytes(text)))

    many.manifest = False
    yield case("digests_in_upper_case", "digests in upper case", many.build(upper))

    def gaps(members: list[Member]) -> None:
        for each in members[1:]:
            each.before = b"PK\x03\x04 what is between records has no meaning"

    yield case("gaps", "bytes between records", base.build(after=gaps))

    def other_padding(members: list[Member]) -> None:
        weight = member(members, "weight_0")
        weight.align = 1
        weight.local["extra"] = (
            struct.pack("<2H", int.from_bytes(b"FB", "little"), 9) + b"\x00PK\x03\x04\xff\xff\xff\xff"
        )

    yield case("other_padding", "padding of other bytes, and of another length", base.build(other_padding))

    def strangers(members: list[Member]) -> None:
        members += [
            Member("later/record", b"new"),
            Member("data/later.json", b"{"),
            Member("models/note", b"no document"),
        ]
        provider = {"distribution": "somebody", "version": "1.0", "provides": ["wire_format:hologram"]}
        members.append(Member("data/wire_formats.json", json_bytes({".hologram": provider})))
        members.append(Member("data/sample_inputs/model.pt", b""))

    yield case("unknown_records", "records that the specification does not name", base.build(strangers))

    def folders(members: list[Member]) -> None:
        for name in ("extra/", "data/", "data/weights/"):
            members.insert(0, Member(f"program/{name}", b""))

    yield case("folders", "entries that only name folders", base.build(after=folders))

    def reversed_order(members: list[Member]) -> None:
        members.reverse()

    yield case("reversed", "the manifest is first and the document last", base.build(after=reversed_order))
    archive = with_weights(weights)
    archive.extra = {
        "notes.txt": b"text",
        "deep/er/\u00e9.bin": bytes(range(256)),
        "empty": b"",
        "setup.py": b"import this\n",
    }
    yield case(
        "extra_files",
        "extra files of the caller, one of them code, which is data like any other",
        archive.build(),
    )
    archive.first = {name: data for name, data in archive.first.items() if name != "byteorder"}
    yield case(
        "without_byteorder", "an archive without the record byteorder is little-endian", archive.build()
    )

    def large_padding(members: list[Member]) -> None:
        member(members, "weight_0").align = 4096

    yield case("large_padding", "padding up to 4096 bytes", base.build(large_padding))

    def unknown_extra(members: list[Member]) -> None:
        for each in members:
            each.local["extra"] = struct.pack("<2H", 0x5455, 5) + b"\x01\x00\x00\x00\x00"
            each.central["extra"] = struct.pack("<2H", 0x5455, 5) + b"\x01\x00\x00\x00\x00"

    yield case("unknown_extra_fields", "headers with extra fields of another kind", base.build(unknown_extra))


def payload(
    number: int,
    sizes: list[int],
    strides: list[int] | None = None,
    offset: int = 0,
    count: int = 0,
    **fields: Any,
) -> Payload:
    """A weight of an element type, whose storage has `count` elements."""
    item = ITEMS[number]
    strides = row_major(sizes) if strides is None else strides
    reach = offset + 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    count = count or (reach if all(sizes) else 0)
    data = (
        bytes(index % 2 for index in range(count))
        if number == 12
        else numbers(count, item)
        if item > 1
        else bytes(range(1, count + 1))
    )
    described = meta(number, sizes, strides, storage_offset={"as_int": offset})
    return Payload("weight_0", data, described, fields=fields)


STRIDED = {
    "contiguous": ([2, 3], [3, 1], 0, 0),
    "transposed": ([3, 2], [1, 3], 0, 0),
    "offset": ([2, 2], [2, 1], 3, 0),
    "every_other": ([3], [2], 1, 0),
    "expanded": ([3, 2], [0, 1], 0, 0),
    "overlapping": ([3, 3], [1, 1], 0, 0),
    "scalar": ([], [], 0, 0),
    "scalar_with_offset": ([], [], 4, 0),
    "empty": ([0, 3], [3, 1], 0, 0),
    "empty_with_offset": ([2, 0], [1, 1], 0, 4),
    "ones_with_odd_strides": ([1, 2, 1], [77, 1, 99], 0, 2),
    "channels_last": ([1, 2, 2, 2], [8, 1, 4, 2], 0, 0),
    "longer_storage": ([2], [1], 0, 9),
    "three_dimensions": ([2, 2, 3], [1, 6, 2], 0, 12),
}
"""Sizes, strides, offset and the number of elements of the storage (0: what is needed)."""


def payload_cases() -> Iterator[Case]:
    """Weights and constants: element types, strides, sharing, what only describes."""

    def case(name: str, about: str, archive: Archive) -> Case:
        return Case(f"payloads/{name}", about, archive.build())

    for number in ITEMS:
        yield case(
            f"dtype_{number}",
            f"a weight of element type {number}, transposed",
            with_weights({"w": payload(number, [3, 2], [1, 3])}).small(),
        )
    for name, (sizes, strides, offset, count) in STRIDED.items():
        yield case(
            name,
            f"a weight: {name.replace('_', ' ')}",
            with_weights({"w": payload(7, sizes, strides, offset, count)}).small(),
        )
    yield case(
        "complex_strided",
        "complex numbers of 16 bytes with a stride of 0",
        with_weights({"w": payload(11, [2, 2], [0, 1], 1)}).small(),
    )
    shared = {
        "a": Payload("weight_0", numbers(12), meta(7, (2, 3))),
        "b": Payload("weight_0", numbers(12), meta(7, (2, 3), storage_offset={"as_int": 6})),
        "tied": Payload("weight_0", numbers(12), meta(7, (2, 3)), fields={"same_as": "a"}),
        "c": Payload("weight_1", numbers(2, seed=3), meta(7, (2,)), is_param=False, fields={"buffer": True}),
    }
    yield case(
        "shared_storage", "weights that share a storage, one of which is another one", with_weights(shared)
    )
    constants = {
        "k": Payload(
            "tensor_0",
            numbers(6),
            meta(),
            is_param=False,
            fields={"shared": "data/weights/weight_0", "weight": "a"},
        ),
        "l": Payload("tensor_1", numbers(3, 8), meta(5, (3,)), is_param=False),
    }
    yield case(
        "constants",
        "constants, one of them a copy of a weight's storage",
        with_weights({"a": float32()}, constants),
    )
    archive = with_weights({"w": float32()}, wire_format="json")
    leaves = {"leaf_0": Payload("tensor_0", numbers(6, seed=4), meta(), is_param=False)}
    archive.samples = leaves
    leaf = '{"type": null, "context": null, "children_spec": []}'
    archive.programs = {
        "model": holding(
            archive.weights,
            example_inputs={"spec": f"[1, {leaf}]", "leaves": [{"as_tensor": {"name": "leaf_0"}}]},
        )
    }
    yield case("sample_inputs", "example inputs with a config of their own", archive)
    bits = {
        "conj": Payload("weight_0", numbers(4, 8), meta(10, (4,)), fields={"conj": True}),
        "neg": Payload("weight_1", numbers(4, 4), meta(7, (4,)), fields={"neg": True}),
    }
    yield case(
        "lazy_bits",
        "weights read through a conjugation and a negation",
        with_weights(bits, requires=["lazy-bits"]),
    )
    placed = {
        "meta": Payload(
            "", b"", meta(7, (4, 4), device={"type": "meta", "index": None}), fields={"placement": "meta"}
        ),
        "fake": Payload("", b"", meta(7, (2,)), fields={"placement": "fake"}),
        "real": float32(),
    }
    yield case("placement", "weights without elements", with_weights(placed, requires=["placement"]))
    named_type = Payload("weight_0", bytes(range(6)), meta(0, (2, 3), dtype_name="float4_e2m1fn_x2"))
    yield case(
        "dtype_name",
        "a weight of an element type without a number",
        with_weights({"w": named_type}, requires=["dtypes"]),
    )
    big = {f"w{number}": payload(number, [3]) for number in (1, 3, 7, 8, 11)}
    for index, each in enumerate(big.values()):
        each.record = f"weight_{index}"
    archive = with_weights(big)
    for each in big.values():
        width = ITEMS[each.meta["dtype"]]
        width = width // 2 if each.meta["dtype"] in (9, 10, 11) else width
        each.data = b"".join(each.data[at : at + width][::-1] for at in range(0, len(each.data), width))
    archive.first = {**archive.first, "byteorder": b"big"}
    yield case("big_endian", "payloads are big-endian; the digests are of little-endian elements", archive)
    for wire_format in FORMATS:
        data = with_weights(shared, constants, wire_format).build()
        yield Case(
            f"formats/payloads_{wire_format}",
            "weights and constants, in each wire format",
            data,
            needs=(wire_format,),
        )
    two = Archive({"one": holding({"w": float32()}), "two": simple()}, {"w": float32()})

    def of_two(members: list[Member]) -> None:
        member(members, "two_weights_config.json").data = b'{"config":{}}'

    yield Case("payloads/two_programs", "two programs, of which one has weights", two.build(of_two))


# ------------------------------------------------------------------------------------------------------------- elsewhere


def safetensors(tensors: dict[str, tuple[str, list[int], bytes]], spare: int = 0) -> tuple[bytes, str]:
    """A file of safetensors and the digest of its length and header."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, (kind, shape, data) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json_bytes(header)
    text += b" " * (-len(text) % 8 + spare)
    head = len(text).to_bytes(8, "little") + text
    return head + b"".join(data for _, _, data in tensors.values()), hashlib.sha256(head).hexdigest()


def store(name: str, data: bytes, digest: str, folder: str | None = "") -> dict[str, Any]:
    """A reference to a store of one file."""
    made: dict[str, Any] = {"kind": "safetensors", "location": name}
    if folder != "":
        made["folder"] = folder
    return made | {"files": {name: {"nbytes": len(data), "index_sha256": digest}}}


def sha256(data: bytes) -> str:
    """The SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def referring(weights: dict[str, Payload], references: Any, **fields: Any) -> Archive:
    """An archive whose weights are elsewhere."""
    archive = with_weights(weights, requires=["external-weights"], **fields)
    archive.references = references
    archive.without = list(references["records"])
    return archive


def reference_cases() -> Iterator[Case]:
    """Weights in safetensors files and blobs, whole, in boxes, transposed, or with whoever loads the file."""
    a, b = numbers(6), numbers(12, seed=50)
    file, digest = safetensors({"first": ("F32", [2, 3], a), "second": ("F32", [3, 4], b)})
    whole = {"tensor": "first", "dtype": "float32", "shape": [2, 3]}

    def case(
        name: str, about: str, archive: Archive, beside: dict[str, bytes], wire_format: str = "json"
    ) -> Case:
        return Case(
            f"references/{name}", about, archive.build(), needs=(wire_format, "references"), beside=beside
        )

    def one(
        name: str, about: str, region: dict[str, Any], sizes: list[int], data: bytes, **changes: Any
    ) -> Case:
        weight = Payload("weight_0", b"", meta(7, sizes))
        at = f"{name}.safetensors"
        table = {
            "stores": [store(at, file, digest)],
            "records": {
                "data/weights/weight_0": {"nbytes": len(data), "regions": [region], "sha256": sha256(data)}
                | changes
            },
        }
        return case(name, about, referring({"w": weight}, table), {at: file})

    yield one("safetensors", "a weight that is a whole tensor of a safetensors file", whole, [2, 3], a)
    second = {"tensor": "second", "dtype": "float32", "shape": [3, 4]}
    rows = b"".join(b[4 * (4 * row + 1 + 2 * column) :][:4] for row in (0, 1) for column in (0, 1))
    yield one(
        "box", "a box of a tensor, with a step", {**second, "box": [[0, 2, 1], [1, 2, 2]]}, [2, 2], rows
    )
    turned = b"".join(b[4 * (4 * row + column) :][:4] for column in range(4) for row in range(3))
    yield one(
        "transposed", "a tensor that is transposed on the way", {**second, "strides": [1, 3]}, [4, 3], turned
    )
    row = b[16:32]
    yield one("row", "a row of a tensor", {**second, "box": [[1, 1, 1], [0, 4, 1]]}, [4], row)
    yield one("without_a_digest", "a record without a digest", whole, [2, 3], a, sha256="")
    joined = b + a
    table = {
        "stores": [store("several_regions.safetensors", file, digest)],
        "records": {
            "data/weights/weight_0": {
                "nbytes": len(joined),
                "regions": [second, {**whole, "offset": 12}],
                "sha256": sha256(joined),
            }
        },
    }
    archive = referring({"w": Payload("weight_0", b"", meta(7, [18]))}, table)
    yield case("several_regions", "a record of two tensors", archive, {"several_regions.safetensors": file})
    interleaved = b"".join(a[4 * index :][:4] + a[4 * index :][:4] for index in range(6))
    table = {
        "stores": [store("interleaved.safetensors", file, digest)],
        "records": {
            "data/weights/weight_0": {
                "nbytes": len(interleaved),
                "regions": [{**whole, "strides": [6, 2]}, {**whole, "strides": [6, 2], "offset": 1}],
                "sha256": sha256(interleaved),
            }
        },
    }
    archive = referring({"w": Payload("weight_0", b"", meta(7, [12]))}, table)
    yield case("interleaved", "a record whose regions alternate", archive, {"interleaved.safetensors": file})
    for wire_format in FORMATS:
        name = f"folder_{wire_format}"
        at = "weights of it/m.safetensors"
        table = {
            "stores": [store("m.safetensors", file, digest, "weights of it")],
            "records": {"data/weights/weight_0": {"nbytes": len(a), "regions": [whole], "sha256": sha256(a)}},
        }
        weights = {"w": Payload("weight_0", b"", meta()), "inside": float32([2], "weight_1", 3)}
        archive = referring(weights, table, wire_format=wire_format)
        yield case(
            name, "one weight in a folder beside the file, one in the file", archive, {at: file}, wire_format
        )
    rows_0, rows_1 = a[:12], a[12:]
    table = {
        "stores": [store("ranks.safetensors", file, digest)],
        "records": {},
        "ranks": [
            {
                "data/weights/weight_0": {
                    "nbytes": 12,
                    "regions": [{**whole, "box": [[rank, 1, 1], [0, 3, 1]]}],
                    "sha256": sha256(rows),
                }
            }
            for rank, rows in enumerate((rows_0, rows_1))
        ],
    }
    archive = referring({"w": Payload("weight_0", b"", meta(7, [1, 3]))}, table)
    archive.without = ["data/weights/weight_0"]
    yield case("ranks", "two ranks with a row of a tensor each", archive, {"ranks.safetensors": file})
    one_file, one_digest = safetensors({"first": ("F32", [2, 3], a)})
    two_file, two_digest = safetensors({"second": ("F32", [3, 4], b)})
    shards = {"shard-1.safetensors": (one_file, one_digest), "shard-2.safetensors": (two_file, two_digest)}
    listed = {"metadata": {}, "weight_map": {"first": "shard-1.safetensors", "second": "shard-2.safetensors"}}
    table = {
        "stores": [
            {
                "kind": "safetensors",
                "location": "m.safetensors.index.json",
                "folder": "shards",
                "files": {
                    name: {"nbytes": len(data), "index_sha256": head} for name, (data, head) in shards.items()
                },
            }
        ],
        "records": {
            "data/weights/weight_0": {"nbytes": len(a), "regions": [whole], "sha256": sha256(a)},
            "data/weights/weight_1": {"nbytes": len(b), "regions": [second], "sha256": sha256(b)},
        },
    }
    weights = {"v": Payload("weight_0", b"", meta()), "w": Payload("weight_1", b"", meta(7, [3, 4]))}
    beside = {f"shards/{name}": data for name, (data, _) in shards.items()}
    beside["shards/m.safetensors.index.json"] = json_bytes(listed)
    yield case("index_file", "weights in two files with an index file", referring(weights, table), beside)
    table = {
        "stores": [
            store("left.safetensors", one_file, one_digest),
            store("right.safetensors", two_file, two_digest),
        ],
        "records": {
            "data/weights/weight_0": {"nbytes": len(a), "regions": [whole], "sha256": sha256(a)},
            "data/weights/weight_1": {
                "nbytes": len(b),
                "regions": [{**second, "store": 1}],
                "sha256": sha256(b),
            },
        },
        "providers": {
            "holograms": {
                "distribution": "somebody",
                "version": "1.0",
                "provides": ["weight_store:holograms"],
            }
        },
    }
    beside = {"left.safetensors": one_file, "right.safetensors": two_file}
    yield case("two_stores", "weights in two stores", referring(weights, table), beside)
    nothing = {"records": {"data/weights/weight_0": {"nbytes": len(a)}}}
    archive = referring({"w": Payload("weight_0", b"", meta())}, nothing)
    yield case(
        "written_nowhere", "weights that were not written: whoever loads the file gives them", archive, {}
    )
    table = {
        "stores": [store("shared.safetensors", file, digest)],
        "records": {"data/weights/weight_0": {"nbytes": len(a), "regions": [whole], "sha256": sha256(a)}},
    }
    constant = Payload(
        "tensor_0",
        b"",
        meta(7, (3,), storage_offset={"as_int": 3}),
        is_param=False,
        fields={"shared": "data/weights/weight_0"},
    )
    archive = with_weights(
        {"w": Payload("weight_0", b"", meta())}, {"k": constant}, requires=["external-weights"]
    )
    archive.references, archive.without = table, ["data/weights/weight_0", "data/constants/tensor_0"]
    yield case(
        "shared",
        "a constant in the storage of a weight that is elsewhere; it has no copy",
        archive,
        {"shared.safetensors": file},
    )
    blob = sha256(a)
    index = json_bytes({"format": "graphwire-blobs", "version": 1})
    table = {
        "stores": [
            {
                "kind": "blobs",
                "location": "",
                "folder": "blobs",
                "files": {blob_path(blob): {"nbytes": len(a)}},
            }
        ],
        "records": {
            "data/weights/weight_0": {
                "nbytes": len(a),
                "regions": [{"tensor": blob, "dtype": "uint8", "shape": [len(a)]}],
                "sha256": blob,
            }
        },
    }
    archive = referring({"w": Payload("weight_0", b"", meta())}, table)
    yield case(
        "blobs",
        "a weight in a folder of blobs",
        archive,
        {f"blobs/{blob_path(blob)}": a, "blobs/blobs.json": index},
    )


def blob_path(digest: str) -> str:
    """The file of a blob in its folder."""
    return f"{digest[:2]}/{digest[2:]}"


_DYNAMIC = base64.b64decode(
    "1VXLbtswEPyVgGdBiONDC996KnLJoejNNghaXNlMKFLhI7Vr+N87Kyl+xHaKAM2hF0Fa7s7OPobaimVQ7Uo2XmdLYrLtv/nFuDanKCbTrVBRJn"
    "LRB7Y71cBRrMVuNy+Ez+ldt0A2957Oa+r9kgpLSjhMPlSr0rexVAgs2bfUVKtskyiOCQxgkWyNA4RzhmusCvFknBaT0cf4NZSUVknhEBAmypVv"
    "ZTRuaWkIk4FSDk5MXLa2OEUAwOD0omzmQrcgg4dOmxZuXwoRzW/aEzEODbjbFYePMWMEes4mUJQYA0qolY1UCE0vpuqm04OJqs1dgzStezZgHF"
    "Mw+k2C8XGCrh8RPVdLkr6uI8/gcHwLDKs2aBjY7oq+rv+3AAbcNHxymMhgW3hvT4wY9uVBD/SrjKyN9IvHM6zaenWcgc1m6RTiaa8iGVuq+sJy"
    "pCA7Y0f9/U0+UthbiN76F4xhuQEDWr3EZaWslYPIAVY/o0whLrH+h9o3ruMP23RU3Gxn3RrMxORmJhbZ2GRcLFNuLWwFbJV3idapd+DtGMwrY3"
    "WgHosPp5+C1Kn7NHZvOoubc2+vVKRNlS7QmM6vkWCwuega++n9+nCVTKz24ZcKWmLnJA85DuI9vz9TIOLwzk13XGVtyOpXleDWJwiHQjTedQuM"
    "/YHGWcVBOSgczHAlKCj4VW/Vihp1HNOoR964r8huHL/dcTgcDHIF3kzx88e3+4f7h++Cb2j+3xzixV05Gpe3qGuZUVVERo29RbV/AA=="
)
"""A document as zlib deflates it: in a block with dynamic codes."""


def all_cases() -> Iterator[Case]:
    """Every case of this module."""
    for cases in (archive_cases, payload_cases, reference_cases):
        yield from cases()
