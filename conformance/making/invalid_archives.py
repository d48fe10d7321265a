"""Invalid files: archives, payloads and references that break one rule."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Iterator
from typing import Any

from making.documents import meta, simple, symbolic, whole
from making.files import (
    REMOVED,
    Archive,
    Case,
    Member,
    Payload,
    edited,
    float32,
    holding,
    json_bytes,
    manifest_of,
    member,
    numbers,
    with_weights,
)
from making.valid_archives import blob_path, referring, safetensors, sha256, store
from making.zip_bytes import DEFLATED, UTF8, End, deflate

WEIGHT, DOCUMENT = "data/weights/weight_0", "models/model.json"
Rewrite = Callable[[list[Member]], None]


def _base() -> Archive:
    return with_weights({"weight": float32()}).small()


def case(name: str, rule: str, about: str, data: bytes) -> Case:
    """An invalid archive."""
    return Case(f"archives/{name}", about, data, tuple(rule.split()), valid=False, needs=("json", "archive"))


def _header(of: str, where: str, **fields: int | bytes) -> Rewrite:
    """Replace fields of the headers of a record."""

    def change(members: list[Member]) -> None:
        getattr(member(members, of), where).update(fields)

    return change


def directory_cases() -> Iterator[Case]:
    """Archives whose end, directory or headers lie."""
    good = _base().build()
    yield case("empty", "ARC-1", "an empty file", b"")
    yield case("text", "ARC-1", "a file that is no archive", b"This is no archive.\n" * 40)
    yield case("truncated", "ARC-1 ARC-2", "the last byte is missing", good[:-1])
    yield case(
        "truncated_directory",
        "ARC-1 ARC-2",
        "the end record and a part of the directory are missing",
        good[:-60],
    )
    yield case("truncated_half", "ARC-1 ARC-2", "half of the file is missing", good[: len(good) // 2])
    yield case("first_bytes", "ARC-1", "the file begins with other bytes than a header", b"X" + good[1:])
    archive = _base()
    archive.start = b"#!/bin/sh\n"
    yield case("stub", "ARC-1", "bytes precede the first header", archive.build())
    archive.start = b"PK\x05\x06" + bytes(18)
    yield case("end_record_in_front", "ARC-1", "an empty archive precedes the first header", archive.build())
    hidden = Member("program/hidden", b"x", listed=False)
    yield case(
        "first_header_without_an_entry",
        "ARC-1",
        "the first header belongs to no entry of the directory",
        _base().build(after=lambda members: members.insert(0, hidden)),
    )
    yield case("bytes_after_the_end", "ARC-2", "bytes follow the end record", good + b"\x00")
    for name, rule, about, end in (
        (
            "comment_length",
            "ARC-2",
            "the comment is longer than the rest of the file",
            End({"comment_length": 5}),
        ),
        ("disk", "ARC-3", "the end record is on another disk", End({"disk": 1})),
        ("directory_disk", "ARC-3", "the directory begins on another disk", End({"directory_disk": 1})),
        ("counts", "ARC-3", "the counts of entries differ", End({"here": 3})),
        (
            "count_too_large",
            "ARC-6",
            "there are fewer entries than counted",
            End({"here": 30, "entries": 30}),
        ),
        ("count_too_small", "ARC-6", "there are more entries than counted", End({"here": 3, "entries": 3})),
        ("directory_size", "ARC-6", "the directory has another size", End({"directory_size": 40})),
        (
            "directory_size_beyond",
            "ARC-6",
            "the directory is larger than the file",
            End({"directory_size": 0x7FFFFFFF}),
        ),
        ("directory_offset", "ARC-6", "the directory is elsewhere", End({"directory_offset": 64})),
        (
            "directory_offset_beyond",
            "ARC-6",
            "the directory begins after the end",
            End({"directory_offset": 0x7FFFFFFF}),
        ),
        (
            "bytes_before_the_end",
            "ARC-6",
            "the directory ends before the end record",
            End({"directory_size": 0, "entries": 0, "here": 0}),
        ),
        (
            "zip64_counts",
            "ARC-4",
            "the counts of the zip64 end record differ",
            End(zip64=True, zip64_fields={"here": 2}),
        ),
        (
            "zip64_disk",
            "ARC-4",
            "the zip64 end record is on another disk",
            End(zip64=True, zip64_fields={"disk": 1}),
        ),
        (
            "zip64_rest",
            "ARC-4",
            "the zip64 end record has another length",
            End(zip64=True, zip64_fields={"rest": 45}),
        ),
        (
            "zip64_huge_rest",
            "ARC-4",
            "the zip64 end record is longer than the file",
            End(zip64=True, zip64_fields={"rest": 2**63}),
        ),
        (
            "zip64_locator",
            "ARC-4",
            "the locator leads elsewhere",
            End(zip64=True, locator_fields={"offset": 64}),
        ),
        (
            "zip64_locator_beyond",
            "ARC-4",
            "the locator leads beyond the file",
            End(zip64=True, locator_fields={"offset": 2**62}),
        ),
        (
            "zip64_disks",
            "ARC-4",
            "the locator counts two disks",
            End(zip64=True, locator_fields={"disks": 2}),
        ),
        (
            "zip64_contradicts",
            "ARC-4",
            "the end record has another count than the zip64 end record",
            End({"here": 3, "entries": 3}, zip64=True),
        ),
        (
            "zip64_offset",
            "ARC-6",
            "the zip64 end record has an offset beyond the file",
            End(zip64=True, zip64_fields={"directory_offset": 2**62}),
        ),
    ):
        archive = _base()
        archive.end = end
        yield case(f"end_{name}", rule, about, archive.build())
    wide = struct.pack("<2HQ", 1, 8, 24)
    for name, rule, about, changes in (
        ("magic", "ARC-7", "an entry without its signature", {"magic": b"PK\x01\x03"}),
        ("disk", "ARC-7", "an entry on another disk", {"disk": 2}),
        ("encrypted", "ARC-8", "a record is encrypted", {"flags": UTF8 | 1}),
        ("strongly_encrypted", "ARC-8", "a record is strongly encrypted", {"flags": UTF8 | 0x41}),
        ("patched", "ARC-8", "a record is patched data", {"flags": UTF8 | 0x20}),
        ("masked", "ARC-8", "the directory is masked", {"flags": UTF8 | 0x2000}),
        ("bzip2", "ARC-8", "a record is compressed with bzip2", {"method": 12}),
        ("zstd", "ARC-8", "a record is compressed with Zstandard", {"method": 93}),
        (
            "zip64_without_a_field",
            "ARC-9",
            "a size is all ones, and there is no field with it",
            {"size": 0xFFFFFFFF},
        ),
        (
            "zip64_with_a_short_field",
            "ARC-9",
            "two sizes are all ones, and the field has one",
            {"size": 0xFFFFFFFF, "packed": 0xFFFFFFFF, "extra": wide},
        ),
        (
            "zip64_with_a_field_cut_off",
            "ARC-9",
            "a size is all ones, and the field with it says that it is longer than the extra fields",
            {"size": 0xFFFFFFFF, "extra": struct.pack("<2HQ", 1, 16, 24)},
        ),
        (
            "zip64_offset_without_a_field",
            "ARC-9",
            "the offset is all ones, and there is no field with it",
            {"offset": 0xFFFFFFFF},
        ),
        ("sizes_of_a_stored_record", "ARC-10", "a stored record has two sizes", {"size": 20}),
        (
            "larger_than_the_file",
            "ARC-11",
            "a record is larger than the file",
            {"size": 0x7FFFFFFF, "packed": 0x7FFFFFFF},
        ),
        ("overlapping", "ARC-11", "a record reaches into the next", {"size": 400, "packed": 400}),
        ("offset_of_another", "ARC-11", "two entries give one offset", {"offset": 0}),
        ("offset_beyond", "ARC-11", "a record begins after the end", {"offset": 0x7FFFFFFF}),
        ("name_not_utf8", "ARC-18", "a name is not UTF-8", {"name": b"program/data/weights/weight_\xff"}),
    ):
        yield case(f"entry_{name}", rule, about, _base().build(after=_header(WEIGHT, "central", **changes)))
    for name, rule, about, changes in (
        ("magic", "ARC-12", "a local header without its signature", {"magic": b"PK\x03\x05"}),
        ("name", "ARC-12", "a local header with another name", {"name": b"program/data/weights/weight_1"}),
        ("method", "ARC-12", "a local header with another method", {"method": 8}),
        ("flags", "ARC-12", "a local header with other flags", {"flags": UTF8 | 1}),
        ("crc", "ARC-12", "a local header with another CRC-32", {"crc": 1}),
        ("size", "ARC-12", "a local header with another size", {"size": 1}),
        ("packed", "ARC-12", "a local header with another compressed size", {"packed": 1}),
        (
            "extra_length",
            "ARC-11",
            "a local header whose extra field reaches over its data",
            {"extra_length": 0x7FFF},
        ),
    ):
        yield case(f"header_{name}", rule, about, _base().build(after=_header(WEIGHT, "local", **changes)))


def _packed(data: bytes, size: int | None = None, method: int = DEFLATED) -> Rewrite:
    def change(members: list[Member]) -> None:
        document = member(members, DOCUMENT)
        document.packed, document.method = data, method
        if size is not None:
            document.central["size"] = document.local["size"] = size

    return change


def content_cases() -> Iterator[Case]:
    """Records that do not inflate, and names that are not legal."""
    text = json_bytes(simple())
    plain = Archive({"model": text}, manifest=False)
    good = deflate(text)

    def of(name: str, rule: str, about: str, *changes: Rewrite, after: Rewrite | None = None) -> Case:
        return case(name, rule, about, plain.build(*changes, after=after))

    yield of(
        "deflate_garbage",
        "ARC-14",
        "a deflated record that is no deflate stream",
        _packed(b"\xff" * len(good)),
    )
    yield of("deflate_truncated", "ARC-14", "a deflated record that is cut short", _packed(good[:-4]))
    yield of("deflate_trailing", "ARC-14", "bytes follow the deflate stream", _packed(good + b"\x00"))
    yield of(
        "deflate_zlib", "ARC-14", "a deflated record with the header of zlib", _packed(b"\x78\x9c" + good)
    )
    yield of("deflate_empty", "ARC-14", "a deflated record without bytes", _packed(b""))
    yield of(
        "deflate_larger",
        "ARC-14",
        "a record that inflates to more than its size",
        _packed(good, len(text) - 1),
    )
    yield of(
        "deflate_smaller",
        "ARC-14",
        "a record that inflates to less than its size",
        _packed(good, len(text) + 1),
    )
    bomb = deflate(b"a" * (1 << 18))
    yield of("deflate_bomb", "ARC-14", "a record that inflates to far more than its size", _packed(bomb))
    wrong = _header(DOCUMENT, "central", crc=1)

    def both(members: list[Member]) -> None:
        wrong(members)
        _header(DOCUMENT, "local", crc=1)(members)

    unlisted = _base()
    unlisted.manifest = False

    def flipped_bit(members: list[Member]) -> None:
        member(members, WEIGHT).packed = bytes([1 ^ float32().data[0]]) + float32().data[1:]

    yield case("crc_of_a_payload", "ARC-15", "a bit of a payload differs", unlisted.build(flipped_bit))
    yield of("crc_of_a_document", "ARC-15", "a document has another CRC-32", after=both)

    def flipped(members: list[Member]) -> None:
        each = member(members, "byteorder")
        each.packed = b"lIttle"

    yield of("crc_of_a_stored_record", "ARC-15", "a byte of a stored record differs", flipped)
    names = {
        "parent": ("program/../evil", "a name that steps out of its folder"),
        "parent_at_once": ("../evil", "a name that steps out of the archive"),
        "absolute": ("/etc/evil", "an absolute name"),
        "drive": ("C:/evil", "a name with a drive"),
        "backslash": ("program\\..\\evil", "a name that steps out with backslashes"),
        "dot": ("program/./evil", "a name with a dot as a part"),
        "double_slash": ("program//evil", "a name with an empty part"),
        "control": ("program/\x1b[2Jevil", "a name with a control character"),
        "line": ("program/a\nb", "a name with a line feed"),
        "nul": ("program/a\x00b", "a name with a NUL"),
        "c1": ("program/a\u0085b", "a name with a control character above ASCII"),
        "empty": ("", "an empty name"),
    }
    for name, (text_name, about) in names.items():

        def add(members: list[Member], text_name: str = text_name) -> None:
            members.insert(4, Member(text_name, b"x"))

        yield of(f"name_{name}", "ARC-19", about, after=add)

    def double(members: list[Member]) -> None:
        members.insert(3, Member(f"program/{DOCUMENT}", text, DEFLATED))

    yield of("name_twice", "ARC-20", "two records have the same name", after=double)

    def elsewhere(members: list[Member]) -> None:
        members.insert(3, Member("other/evil", b"x"))

    yield of("two_roots", "ARC-21", "records are in two folders", after=elsewhere)
    yield case("no_program", "ARC-27", "an archive without a document", Archive({}).build())
    yield of(
        "two_formats",
        "ARC-27",
        "two documents of one program",
        lambda members: members.append(Member("models/model.msgpack", b"\x80")),
    )
    yield of(
        "unknown_format",
        "ARC-29",
        "a document in an unknown wire format",
        lambda members: setattr(member(members, DOCUMENT), "name", "models/model.hologram"),
    )
    later = Archive({})
    later.first = {"archive_format": b"pt2", "later/model.json": b"{}"}
    yield case(
        "another_major_version",
        "VER-13",
        "a file of a later major version, in which a reader finds no program",
        later.build(),
    )


def manifest_cases() -> Iterator[Case]:
    """Manifests that lie."""

    def of(
        name: str, rule: str, about: str, change: Callable[[dict[str, Any]], None], weights: int = 3
    ) -> Case:
        archive = with_weights(
            {f"w{index}": float32(record=f"weight_{index}", seed=index) for index in range(weights)}
        )
        archive.manifest = False

        def rewrite(members: list[Member]) -> None:
            tree = json.loads(manifest_of(members).data)
            change(tree)
            members.append(Member("manifest.json", json_bytes(tree)))

        return case(f"manifest_{name}", rule, about, archive.build(rewrite))

    def digest_of(tree: dict[str, Any], name: str, value: Any) -> None:
        tree["sha256"][name] = value

    other = hashlib.sha256(b"other").hexdigest()
    yield of(
        "digest", "ARC-41", "a document has another digest", lambda tree: digest_of(tree, DOCUMENT, other)
    )
    yield of(
        "digest_of_a_payload",
        "ARC-41",
        "a payload has another digest",
        lambda tree: digest_of(tree, WEIGHT, other),
        1,
    )
    yield of(
        "digest_together",
        "ARC-41",
        "a group of payloads has another digest",
        lambda tree: tree["together"][0].update(sha256=other),
    )
    yield of(
        "size_together",
        "ARC-41",
        "a payload of a group has another size",
        lambda tree: tree["together"][0]["sizes"].update({WEIGHT: 23}),
    )
    yield of(
        "missing_record",
        "ARC-38",
        "the manifest lists a record that is not there",
        lambda tree: digest_of(tree, "extra/gone", other),
    )
    yield of(
        "unlisted_record",
        "ARC-38",
        "a record is not in the manifest",
        lambda tree: tree["sha256"].pop("byteorder"),
    )
    yield of(
        "listed_twice",
        "ARC-38",
        "a record is listed alone and in a group",
        lambda tree: digest_of(tree, WEIGHT, hashlib.sha256(float32().data).hexdigest()),
    )
    yield of("without_digests", "ARC-35", "the manifest lacks its field", lambda tree: tree.pop("sha256"))
    yield of("digest_not_text", "ARC-35", "a digest is a number", lambda tree: digest_of(tree, DOCUMENT, 1))
    archive = Archive({"model": simple()}, manifest=False)
    yield case(
        "manifest_not_json",
        "ARC-34",
        "the manifest is not JSON",
        archive.build(lambda members: members.append(Member("manifest.json", b"{"))),
    )
    yield case(
        "manifest_not_an_object",
        "ARC-35",
        "the manifest is a list",
        archive.build(lambda members: members.append(Member("manifest.json", b"[]"))),
    )

    def repeated(members: list[Member]) -> None:
        data = manifest_of(members).data
        entry = json_bytes({"byteorder": json.loads(data)["sha256"]["byteorder"]})[1:-1]
        members.append(
            Member("manifest.json", data.replace(b'{"sha256":{', b'{"sha256":{' + entry + b",", 1))
        )

    yield case("manifest_duplicate_key", "ARC-34", "the manifest has a key twice", archive.build(repeated))


def payload_cases() -> Iterator[Case]:
    """Configs and elements."""

    def of(name: str, rule: str, about: str, archive: Archive, *changes: Rewrite) -> Case:
        return Case(
            f"payloads/{name}",
            about,
            archive.small().build(*changes),
            (rule,),
            valid=False,
            needs=("json", "payloads"),
        )

    def one(name: str, rule: str, about: str, path: str, value: Any) -> Case:
        weight = float32()
        program = holding({"w": weight}, edited_values=["w"])
        archive = Archive(
            {"model": program}, {"w": Payload("weight_0", weight.data, edited(weight.meta, path, value))}
        )
        return of(name, rule, about, archive)

    def entry(name: str, rule: str, about: str, key: str, value: Any) -> Case:
        archive = with_weights({"w": float32()})

        def change(members: list[Member]) -> None:
            record = member(members, "model_weights_config.json")
            record.data = json_bytes(edited(json.loads(record.data), f"config.w.{key}", value))

        return of(name, rule, about, archive, change)

    def raw(name: str, rule: str, about: str, change: Callable[[bytes], bytes]) -> Case:
        def rewrite(members: list[Member]) -> None:
            record = member(members, "model_weights_config.json")
            record.data = change(record.data)

        return of(name, rule, about, with_weights({"w": float32()}), rewrite)

    yield one("negative_size", "PAY-8", "a negative size", "sizes", whole(-2, 3))
    yield one("negative_stride", "PAY-8", "a negative stride", "strides", whole(-3, 1))
    yield one("negative_offset", "PAY-8", "a negative offset", "storage_offset", {"as_int": -1})
    yield one(
        "symbolic_size",
        "PAY-8",
        "a size that is an expression",
        "sizes.0",
        symbolic("Symbol('s0', integer=True)"),
    )
    yield one("fewer_strides", "PAY-8", "fewer strides than sizes", "strides", whole(3))
    yield one("dimensions", "PAY-8", "65 dimensions", "sizes", whole(*[1] * 65))
    yield one("product", "PAY-8", "sizes whose product is 2**64", "sizes", whole(2**32, 2**32))
    yield one("product_wraps", "PAY-8", "sizes whose product is 0 in 64 bits", "sizes", whole(2**62, 4))
    yield one("reach", "PAY-8", "an offset that reaches 2**63", "storage_offset", {"as_int": 2**63 - 1})
    yield one(
        "one_element_too_many",
        "PAY-10",
        "a tensor that needs one element more than there is",
        "sizes",
        whole(2, 4),
    )
    yield one(
        "offset_too_large",
        "PAY-10",
        "a tensor that begins one element too late",
        "storage_offset",
        {"as_int": 1},
    )
    yield one("strides_too_large", "PAY-10", "strides that reach over the end", "strides", whole(4, 1))
    yield one("element_too_large", "PAY-10", "an element type that needs twice the bytes", "dtype", 8)
    yield one("dtype_unknown", "PAY-12", "an element type without a number and a name", "dtype", 0)
    yield one("number_of_no_dtype", "VER-8", "an element type of an unknown number", "dtype", 99)
    yield entry("missing_record", "PAY-21", "a weight whose record is not there", "path_name", "weight_7")
    yield entry("placement_unknown", "PAY-19", "an unknown placement", "placement", "moon")
    yield entry("without_is_param", "PAY-4", "an entry lacks a field", "is_param", REMOVED)
    yield entry("path_name_number", "PAY-4", "a field of another type", "path_name", 0)
    yield entry("without_meta", "PAY-4", "an entry lacks its metadata", "tensor_meta", REMOVED)
    yield raw("config_not_json", "ARC-34", "a config that is not JSON", lambda data: data[:-1])
    yield raw("config_empty", "ARC-34", "a config without bytes", lambda data: b"")
    yield raw("config_without_its_field", "PAY-2", "a config without its field", lambda data: b"{}")
    yield raw("config_is_a_list", "PAY-2", "a config that is a list", lambda data: b"[]")
    yield raw(
        "config_duplicate_key",
        "ARC-34",
        "a name occurs twice in a config",
        lambda data: data[:-2] + b"," + data[len(b'{"config":{') :],
    )
    without = with_weights({"w": float32()})

    def dropped(members: list[Member]) -> None:
        members.remove(member(members, "model_weights_config.json"))

    yield of("without_config", "PAY-3", "the config of the weights is absent", without, dropped)
    shared = Payload(
        "tensor_0", numbers(6), meta(), is_param=False, fields={"shared": "data/weights/weight_9"}
    )
    yield of(
        "shared_with_nothing",
        "PAY-14",
        "a constant that shares a record that is not there",
        with_weights({"w": float32()}, {"k": shared}),
    )
    tied = {"a": float32(), "b": Payload("weight_0", numbers(6), meta(7, (3, 2)), fields={"same_as": "a"})}
    yield of("same_as_another_shape", "PAY-34", "a tied weight of another shape", with_weights(tied))
    tied = {"a": float32(), "b": float32(record="weight_1", seed=4, same_as="a")}
    yield of("same_as_another_record", "PAY-34", "a tied weight of another record", with_weights(tied))
    constant = Payload("tensor_0", numbers(6), meta(7, (3, 2)), is_param=False, fields={"weight": "w"})
    yield of(
        "weight_of_another_shape",
        "PAY-34",
        "a constant that is a weight of another shape",
        with_weights({"w": float32()}, {"k": constant}),
    )
    yield of(
        "weight_with_shared",
        "PAY-35",
        "a weight that shares a record as constants do",
        with_weights({"w": float32(), "v": float32(record="weight_1", shared="data/weights/weight_0")}),
    )
    yield of(
        "weight_with_weight",
        "PAY-35",
        "a weight that names a weight as constants do",
        with_weights({"w": float32(), "v": float32(record="weight_1", weight="w")}),
    )
    constant = Payload(
        "tensor_0", numbers(6), meta(), is_param=False, fields={"shared": "data/constants/tensor_0"}
    )
    yield of(
        "shared_outside_of_weights",
        "PAY-35",
        "a constant that shares a record of constants",
        with_weights({"w": float32()}, {"k": constant}),
    )
    values = {
        "own_part": (
            {"a": {"codec": "c", "tree": None, "tensors": ["a"]}},
            "a coded value that is a part of itself",
        ),
        "circle": (
            {
                "a": {"codec": "c", "tree": None, "tensors": ["b"]},
                "b": {"codec": "c", "tree": None, "tensors": ["a"]},
            },
            "two coded values that are parts of each other",
        ),
    }
    for name, (encoded, about) in values.items():
        yield of(
            name, "PAY-24", about, Archive({"model": simple(requires=["codecs"], encoded_values=encoded)})
        )


def reference_cases() -> Iterator[Case]:
    """References that lead outside, do not fit, or find something else."""
    data = numbers(6)
    file, digest = safetensors(
        {"first": ("F32", [2, 3], data), "second": ("F32", [3, 4], numbers(12, seed=50))}
    )
    region = {"tensor": "first", "dtype": "float32", "shape": [2, 3]}

    def of(
        name: str, rule: str, about: str, table: Any, beside: dict[str, bytes] | None = None, **changes: Any
    ) -> Case:
        table.setdefault("records", {})
        archive = referring({"w": Payload("weight_0", b"", meta())}, table, **changes)
        archive.without = [WEIGHT]
        at = f"{name}.safetensors"
        return Case(
            f"references/{name}",
            about,
            archive.small().build(),
            (rule,),
            valid=False,
            needs=("json", "references"),
            beside={at: file} if beside is None else beside,
        )

    def table(name: str, **fields: Any) -> dict[str, Any]:
        record = {"nbytes": 24, "regions": [region], "sha256": sha256(data)}
        return {"stores": [store(f"{name}.safetensors", file, digest)], "records": {WEIGHT: record | fields}}

    def box(name: str, rule: str, about: str, **fields: Any) -> Case:
        return of(name, rule, about, table(name, regions=[region | fields]))

    yield box("store_out_of_range", "REF-14", "a region of a store that is not there", store=1)
    yield box("store_negative", "REF-14", "a region of a negative store", store=-1)
    yield box("dtype_unknown", "REF-14", "a region of an unknown element type", dtype="float33")
    yield box("negative_size", "REF-14", "a stored tensor with a negative size", shape=[-2, -3])
    yield box("box_too_large", "REF-14", "a box that reaches beyond the tensor", box=[[0, 2, 1], [1, 3, 1]])
    yield box(
        "box_step_beyond", "REF-14", "a box whose steps reach beyond the tensor", box=[[0, 2, 1], [0, 3, 2]]
    )
    yield box("box_negative", "REF-14", "a box that begins before the tensor", box=[[-1, 2, 1], [0, 3, 1]])
    yield box("box_without_step", "REF-14", "a box with a step of 0", box=[[0, 2, 0], [0, 3, 1]])
    yield box("box_dimensions", "REF-14", "a box of fewer dimensions", box=[[0, 2, 1]])
    yield box("box_side", "REF-14", "a side of a box with two numbers", box=[[0, 2], [0, 3, 1]])
    yield box("strides_dimensions", "REF-14", "fewer strides than dimensions", strides=[1])
    yield box("stride_zero", "REF-14", "two elements go to one place", strides=[0, 1])
    yield box("stride_negative", "REF-14", "a negative stride", strides=[-3, 1])
    yield box("offset_beyond", "REF-14", "a region that reaches beyond the record", offset=1)
    yield box("offset_negative", "REF-14", "a region with a negative offset", offset=-1)
    yield box("offset_huge", "REF-14", "a region with an offset of 2**62", offset=2**62)
    yield box("product_wraps", "REF-14", "a shape whose product is 0 in 64 bits", shape=[2**62, 4])
    yield box(
        "smaller_than_the_record",
        "REF-15",
        "regions that make fewer bytes than the record has",
        box=[[0, 1, 1], [0, 3, 1]],
    )
    yield of(
        "overlapping",
        "REF-15",
        "two regions that make the same bytes",
        table("overlapping", regions=[region, region]),
    )
    yield box("another_tensor", "REF-13", "a tensor that the store does not have", tensor="third")
    yield box("another_shape", "REF-13", "a tensor of another shape than stated", shape=[3, 2])
    yield box("another_type", "REF-13", "a tensor of another element type than stated", dtype="int32")
    yield of("digest", "REF-16", "a record with another digest", table("digest", sha256=sha256(b"other")))
    yield of(
        "digest_not_hexadecimal",
        "REF-16",
        "a digest that is none",
        table("digest_not_hexadecimal", sha256="x" * 64),
    )
    yield of("nbytes_negative", "REF-11", "a record of a negative size", table("nbytes_negative", nbytes=-24))
    locations = {
        "parent": "../m.safetensors",
        "absolute": "/etc/passwd",
        "url": "https://example.org/m.safetensors",
        "backslash": "a\\m.safetensors",
        "drive": "C:m.safetensors",
        "dot": "./m.safetensors",
        "empty_part": "a//m.safetensors",
        "device": "nul.safetensors",
        "control": "a\u0007.safetensors",
        "space_at_the_end": "m.safetensors ",
        "point_at_the_end": "m.safetensors.",
        "direction": "m\u202etxt.safetensors",
        "wildcard": "*.safetensors",
        "long": "a" * 256,
    }
    for name, location in locations.items():
        made = table(name)
        made["stores"][0] |= {"location": location, "files": {}}
        yield of(f"location_{name}", "REF-9", f"a location that is not plain: {location[:40]!r}", made, {})
    made = table("folder")
    made["stores"][0]["folder"] = "../other"
    yield of("folder_parent", "REF-9", "a folder that is not plain", made, {})
    made = table("no_folder")
    made["stores"][0]["folder"] = None
    yield of("folder_of_the_caller", "REF-8", "weights at a place that nobody gives", made)
    made = table("file")
    made["stores"][0]["files"] = {"../m.safetensors": {"nbytes": 1}}
    yield of("file_parent", "REF-9", "a file that is not plain", made, {})
    made = table("unknown")
    made["stores"][0]["kind"] = "holograms"
    yield of("unknown_kind", "REF-7", "a store of an unknown kind", made, {"unknown.safetensors": file})
    made = table("kind")
    made["stores"][0]["kind"] = "Not A Kind"
    yield of("kind_not_legal", "REF-5", "a kind of store that is not legal", made, {"kind.safetensors": file})
    made = table("digest_absent")
    del made["stores"][0]["files"]["digest_absent.safetensors"]["index_sha256"]
    yield of("digest_absent", "REF-22", "a safetensors file without the digest of its header", made)
    yield of("missing_file", "REF-6", "a file that is not there", table("missing_file"), {})
    yield of(
        "longer_file",
        "REF-6",
        "a file of another size",
        table("longer_file"),
        {"longer_file.safetensors": file + b"\x00"},
    )
    changed = bytearray(file)
    at = file.index(b'"pt"')
    changed[at : at + 4] = b'"tf"'
    yield of(
        "other_header",
        "REF-6",
        "a file with another header",
        table("other_header"),
        {"other_header.safetensors": bytes(changed)},
    )
    changed = bytearray(file)
    changed[-60] ^= 1
    yield of(
        "other_elements",
        "REF-16",
        "a file with other elements",
        table("other_elements"),
        {"other_elements.safetensors": bytes(changed)},
    )
    record = {"nbytes": 24, "regions": [region], "sha256": sha256(data)}
    archive = with_weights({"w": float32()}, requires=["external-weights"])
    archive.references = {"stores": [store("both.safetensors", file, digest)], "records": {WEIGHT: record}}
    yield Case(
        "references/both",
        "a record that is in the archive and elsewhere",
        archive.build(),
        ("REF-3",),
        False,
        ("json", "references"),
        {"both.safetensors": file},
    )
    other = {
        "stores": [store("name.safetensors", file, digest)],
        "records": {"data/constants/tensor_0": record},
    }
    yield of(
        "name_of_a_constant",
        "REF-4",
        "a record that is not one of weights",
        {
            **table("name_of_a_constant"),
            "records": {**table("name_of_a_constant")["records"], **other["records"]},
        },
    )
    bad = table("name_parent")
    bad["records"]["data/weights/../x"] = record
    yield of("name_parent", "REF-4", "a record whose name steps out of its folder", bad)
    ranks = table("ranks")
    ranks["ranks"] = [{WEIGHT: record}, {WEIGHT: {**record, "nbytes": 48}}]
    yield of("ranks_sizes", "REF-17", "ranks with records of other sizes", ranks, {"ranks.safetensors": file})
    ranks = table("ranks")
    ranks["ranks"] = [{WEIGHT: record}, {"data/weights/weight_1": record}]
    yield of("ranks_names", "REF-17", "ranks with other records", ranks, {"ranks.safetensors": file})

    ranks = table("ranks")
    ranks["ranks"] = [{WEIGHT: record}, {WEIGHT: {**record, "sha256": sha256(b"")}}]
    ranks["records"] = {}
    yield of(
        "ranks_digest",
        "REF-16",
        "weights of the second rank with a wrong digest",
        ranks,
        {"ranks.safetensors": file},
    )

    def broken(name: str, about: str, content: bytes) -> Case:
        made = table(name)
        length = int.from_bytes(content[:8], "little")
        head = sha256(content[: 8 + length]) if length <= len(content) else ""
        made["stores"][0]["files"] = {f"{name}.safetensors": {"nbytes": len(content), "index_sha256": head}}
        if not head:
            del made["stores"][0]["files"][f"{name}.safetensors"]["index_sha256"]
        return of(name, "REF-21", about, made, {f"{name}.safetensors": content})

    def header(tree: Any, elements: bytes = data) -> bytes:
        text = tree if isinstance(tree, bytes) else json_bytes(tree)
        return len(text).to_bytes(8, "little") + text + elements

    tensor = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}
    yield broken(
        "safetensors_length", "a header longer than the file", (1 << 40).to_bytes(8, "little") + file[8:]
    )
    yield broken("safetensors_json", "a header that is not JSON", header(b"{"))
    yield broken(
        "safetensors_duplicate",
        "a header with a name twice",
        header(b'{"first":{},' + json_bytes({"first": tensor})[1:]),
    )
    yield broken(
        "safetensors_gap",
        "elements with a gap before them",
        header({"first": {**tensor, "data_offsets": [4, 28]}}, b"\x00" * 4 + data),
    )
    yield broken(
        "safetensors_rest", "bytes after the last element", header({"first": tensor}, data + b"\x00" * 4)
    )
    yield broken(
        "safetensors_overlap",
        "two tensors that overlap",
        header({"first": tensor, "other": {**tensor, "data_offsets": [4, 28]}}, data + b"\x00" * 4),
    )
    yield broken(
        "safetensors_range",
        "a range of another length than the tensor",
        header({"first": {**tensor, "data_offsets": [0, 20]}}, data[:20]),
    )
    yield broken(
        "safetensors_negative",
        "a negative offset",
        header({"first": {**tensor, "data_offsets": [-24, 0]}}, b""),
    )
    none, half = (
        {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]},
        {"dtype": "F4", "data_offsets": [24, 25]},
    )
    for name, about, tree in (
        ("metadata_text", "metadata that are a text", {"__metadata__": "x"}),
        ("metadata_numbers", "metadata that are numbers", {"__metadata__": {"a": 1}}),
        ("type", "a type that no row has", {"other": {**none, "dtype": "f32"}}),
        ("shape", "a shape beyond all integers", {"other": {**none, "shape": [0, 2**62, 2]}}),
        ("truth", "an offset that is a truth value", {"other": {**none, "data_offsets": [False, 0]}}),
        (
            "odd_pairs",
            "pairs of numbers whose last size is odd",
            {"other": {**none, "dtype": "F4", "shape": [1], "data_offsets": [24, 24]}},
        ),
        ("no_offsets", "an empty list of offsets", {"other": {**none, "data_offsets": []}}),
        ("no_pairs", "pairs of numbers without a size", {"other": {**half, "shape": []}}),
        ("empty_beyond", "no elements beyond the end", {"other": {**none, "data_offsets": [25, 25]}}),
    ):
        more = b"\x00" if name == "no_pairs" else b""
        yield broken(f"safetensors_{name}", about, header({"first": tensor, **tree}, data + more))
    blob = sha256(data)
    index = json_bytes({"format": "graphwire-blobs", "version": 1})
    for name, rule, about, beside in (
        (
            "blobs_without_marker",
            "REF-24",
            "a folder of blobs without its file",
            {f"NAME/{blob_path(blob)}": data},
        ),
        (
            "blobs_version",
            "REF-24",
            "a folder of blobs of another version",
            {f"NAME/{blob_path(blob)}": data, "NAME/blobs.json": index.replace(b":1", b":2")},
        ),
        *(
            (
                f"blobs_version_{what}",
                "REF-24",
                f"a folder of blobs whose version is a {what}",
                {
                    f"NAME/{blob_path(blob)}": data,
                    "NAME/blobs.json": index.replace(b":1", f":{version}".encode()),
                },
            )
            for what, version in {"truth": "true", "float": "1.0", "one_of_two_fields": '1,"x":1'}.items()
        ),
        (
            "blobs_content",
            "REF-26",
            "a blob with other content than its name states",
            {f"NAME/{blob_path(blob)}": data[::-1], "NAME/blobs.json": index},
        ),
    ):
        made = {
            "stores": [
                {"kind": "blobs", "location": "", "folder": name, "files": {blob_path(blob): {"nbytes": 24}}}
            ],
            "records": {
                WEIGHT: {
                    "nbytes": 24,
                    "regions": [{"tensor": blob, "dtype": "uint8", "shape": [24]}],
                    "sha256": blob,
                }
            },
        }
        yield of(
            name, rule, about, made, {path.replace("NAME", name): content for path, content in beside.items()}
        )
    listed = {"metadata": {}, "weight_map": {"first": "shard.safetensors", "third": "shard.safetensors"}}
    made = table("index_file")
    made["stores"][0] |= {"location": "m.safetensors.index.json", "folder": "index_file", "files": {}}
    beside = {"index_file/m.safetensors.index.json": json_bytes(listed), "index_file/shard.safetensors": file}
    yield of("index_file", "REF-19", "an index file with a tensor that its file lacks", made, beside)
    not_json = referring({"w": Payload("weight_0", b"", meta())}, table("not_json"))

    def cut(members: list[Member]) -> None:
        each = member(members, "references.json")
        each.data = each.data[:-1]

    yield Case(
        "references/not_json",
        "references that are not JSON",
        not_json.build(cut),
        ("ARC-34",),
        False,
        ("json", "references"),
        {"not_json.safetensors": file},
    )


def all_cases() -> Iterator[Case]:
    """Every case of this module."""
    for cases in (directory_cases, content_cases, manifest_cases, payload_cases, reference_cases):
        yield from cases()
