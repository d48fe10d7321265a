"""Cases with records that `torch.save` wrote: constants in early files of the current layout, and example inputs."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from typing import Any

from making.files import Archive, Case, Member, Payload, config, float32, holding, numbers
from making.zip_bytes import write_zip


def text_of(text: str) -> bytes:
    """The opcodes of a text."""
    data = text.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def tuple_of(*items: bytes) -> bytes:
    """The opcodes of a tuple, given those of its items."""
    return b"(" + b"".join(items) + b"t"


def number_of(value: int) -> bytes:
    """The opcodes of an integer of 32 bits."""
    return b"J" + struct.pack("<i", value)


def called(name: str, *arguments: bytes) -> bytes:
    """The opcodes of a call of a global."""
    module, _, function = name.rpartition(".")
    return f"c{module}\n{function}\n".encode() + tuple_of(*arguments) + b"R"


def strided(key: str, sizes: tuple[int, ...] = (2, 3), count: int | None = None) -> bytes:
    """The opcodes of a contiguous tensor of float32 that begins a storage."""
    strides = [math.prod(sizes[at + 1 :]) for at in range(len(sizes))]
    storage = tuple_of(
        text_of("storage"),
        b"ctorch\nFloatStorage\n",
        text_of(key),
        text_of("cpu"),
        number_of(math.prod(sizes) if count is None else count),
    )
    return called(
        "torch._utils._rebuild_tensor_v2",
        storage + b"Q",
        number_of(0),
        tuple_of(*map(number_of, sizes)),
        tuple_of(*map(number_of, strides)),
        b"\x89",
        called("collections.OrderedDict"),
    )


def torch_save(value: bytes, storages: Mapping[str, bytes], **more: bytes) -> bytes:
    """A file of `torch.save`, given the opcodes of its value."""
    members = [Member("archive/data.pkl", b"\x80\x02" + value + b".")]
    members += [Member(f"archive/data/{key}", data) for key, data in storages.items()]
    return write_zip([*members, *(Member(f"archive/{name}", data) for name, data in more.items())])


def table(**values: bytes) -> bytes:
    """The opcodes of a dict."""
    return b"}(" + b"".join(text_of(name) + value for name, value in values.items()) + b"u"


def all_cases() -> Iterator[Case]:
    """Every case of this module."""
    stated = {"k": Payload("tensor_0", numbers(6), float32().meta, is_param=False)}
    program = holding({"w": float32()}, stated)
    own, other = numbers(6), numbers(6, seed=5)

    def of(
        name: str,
        rules: str,
        about: str,
        records: Mapping[str, bytes],
        valid: bool = True,
        constants: Mapping[str, Payload] = stated,
        programs: Mapping[str, Any] | None = None,
        needs: tuple[str, ...] = ("torch-save",),
        drop: str = "",
    ) -> Case:
        def change(members: list[Member]) -> None:
            members[:] = [each for each in members if not any(part in each.name for part in drop.split())]
            members += [Member(record, data) for record, data in records.items()]

        archive = Archive(programs or {"model": program}, {"w": float32()}, constants).small()
        return Case(
            f"payloads/{name}",
            about,
            archive.build(change),
            tuple(rules.split()),
            valid,
            ("json", "payloads", *needs),
        )

    record = "data/constants/model.pt"
    saved = torch_save(table(k=strided("0")), {"0": other})
    both = "HIS-39 ARC-43"
    yield of(
        "constants_without_a_config",
        both,
        "constants in a torch.save file, without a config",
        {record: saved},
        drop="constants_config",
    )
    yield of(
        "damaged_config_beside_torch_save",
        both,
        "a config of constants that is not read",
        {record: saved, "data/constants/model_constants_config.json": b"no"},
        drop="constants_config",
    )
    held = table(k=strided("7"), other=strided("3", (3,)), beside=number_of(3))
    yield of(
        "storages_of_other_keys",
        f"{both} NEU-16 HIS-40",
        "storages that are numbered in another way, and a value that is no tensor",
        {record: torch_save(held, {"3": numbers(3), "7": own})},
    )
    tied = table(k=strided("0") + b"q\x01", again=b"h\x01")
    yield of(
        "one_tensor_under_two_names",
        f"{both} NEU-16",
        "one tensor of a torch.save file under two names",
        {record: torch_save(tied, {"0": own})},
    )
    big = torch_save(table(k=strided("0")), {"0": other}, byteorder=b"big")
    yield of(
        "big_endian_torch_save",
        f"{both} HIS-40",
        "a big-endian torch.save file in a little-endian archive",
        {record: big},
    )
    yield of(
        "big_endian_archive_of_torch_save",
        f"{both} HIS-40 ARC-25",
        "a little-endian torch.save file in a big-endian archive",
        {record: saved, "byteorder": b"big"},
    )
    yield of(
        "torch_save_of_no_program",
        both,
        "torch.save files that belong to no program",
        {"data/weights/other.pt": b"no", "data/constants/other.pt": b"no"},
        needs=(),
    )
    programs = {"first": holding({"w": float32()}, stated), "second": holding({"w": float32()}, stated)}
    yield of(
        "torch_save_of_one_program",
        both,
        "constants of one of two programs in a torch.save file",
        {"data/constants/second.pt": saved},
        programs=programs,
    )
    weights = torch_save(table(w=strided("0")), {"0": other})
    yield of(
        "torch_save_of_one_programs_weights",
        both,
        "weights of one of two programs in a torch.save file",
        {"data/weights/second.pt": weights},
        programs=programs,
        needs=("torch-save", "older"),
    )
    for name, data in {
        "beyond_their_storage": torch_save(tuple_of(tuple_of(strided("0", count=5)), b"}"), {"0": own[:20]}),
        "no_zip": b"no pickle",
        "no_pickle": torch_save(b"", {}),
        "code": torch_save(b"cos\nsystem\n" + tuple_of(text_of("true")) + b"R", {}),
    }.items():
        yield of(
            f"inputs_of_{name}",
            "ARC-32",
            f"example inputs that are {name.replace('_', ' ')}",
            {"data/sample_inputs/model.pt": data},
            needs=(),
        )

    pickled = {"data/weights/model.pt": torch_save(table(w=strided("0")), {"0": float32().data})}
    for name, dropped in {"without_a_copy": "data/constants/tensor_0", "with_a_copy": ""}.items():
        shared = Payload(
            "tensor_0", float32().data, float32().meta, False, {"shared": "data/weights/weight_0"}
        )
        yield of(
            f"shared_storage_of_torch_save_{name}",
            "PAY-14 HIS-39",
            "a constant that shares a storage of a torch.save file, which is no record",
            pickled,
            valid=False,
            constants={"k": shared},
            drop=f"data/weights/weight {dropped} weights_config",
        )

    elsewhere = {"data/weights/references.json": b'{"records": {"data/weights/weight_0": {"nbytes": 24}}}'}
    entry = Payload("weight_0", b"", float32().meta, fields={"use_pickle": True})
    for name, records in {
        "torch_save": pickled,
        "pickled_entry": {"data/weights/model_weights_config.json": config({"w": entry})},
    }.items():
        yield of(
            f"references_beside_{name}",
            "REF-3",
            "references in an archive whose weights are pickled",
            {**records, **elsewhere},
            valid=False,
            drop="data/weights/weight weights_config",
            needs=("torch-save", "references"),
        )

    def wrong(name: str, rules: str, about: str, data: bytes) -> Case:
        return of(name, rules, about, {record: data}, valid=False)

    yield wrong(
        "empty_torch_save",
        "SIG-22",
        "constants that the config has, and the torch.save file lacks",
        b"",
    )
    yield wrong("torch_save_that_is_no_zip", "HIS-39", "a torch.save file that is no archive", b"no")
    yield wrong("torch_save_of_a_list", "HIS-39", "a torch.save file with a list", torch_save(b"]", {}))
    default = b"ccollections\ndefaultdict\n)R(" + text_of("k") + strided("0") + b"u"
    yield wrong(
        "torch_save_of_a_default_dict",
        "HIS-39",
        "a torch.save file with a dict of another type",
        torch_save(default, {"0": own}),
    )
    yield wrong(
        "torch_save_of_another_byte_order",
        "HIS-39",
        "a torch.save file whose byte order is neither little nor big",
        torch_save(table(k=strided("0")), {"0": own}, byteorder=b"Big"),
    )
    yield wrong(
        "torch_save_without_a_storage",
        "HIS-39",
        "a tensor whose storage is absent",
        torch_save(table(k=strided("0")), {}),
    )
    yield wrong(
        "torch_save_of_a_long_storage",
        "HIS-39",
        "a storage that is longer than the pickle states",
        torch_save(table(k=strided("0")), {"0": own + own}),
    )
    yield wrong(
        "torch_save_beyond_its_storage",
        "PAY-10",
        "a tensor that is larger than its storage",
        torch_save(table(k=strided("0", count=5)), {"0": own[:20]}),
    )
    doubled = b")" + b"".join(b"q" + bytes([level]) + b"h" + bytes([level]) + b"\x86" for level in range(64))
    doubled = torch_save(b"}(" + text_of("k") + doubled + b"u", {})
    yield wrong("torch_save_that_doubles", "HIS-41", "a tuple that unfolds to 2⁶⁴ values", doubled)
