"""Weights and constants that lie: extents, records, codecs, pickles."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from typing import Any

import torch
from hostile import CONSTANTS, DOCUMENT, WEIGHTS, Attack, Change, Victim, get, put

import graphwire
from graphwire.errors import (
    ArchiveError,
    DecodeError,
    GraphwireError,
    LimitError,
    MissingRecordError,
    ValidationError,
)

W = "['lin.weight']"
META = f"{W}.tensor_meta"


def _weights(
    name: str,
    told: str,
    *changes: Change,
    error: type[Exception] | tuple[type[Exception], ...] | None = (ArchiveError, ValidationError),
) -> Attack:
    return Attack(name, lambda victim: victim.with_config(WEIGHTS, *changes), error, told)


def _ints(*values: int) -> list[Any]:
    return [{"as_int": value} for value in values]


EXTENTS = [
    _weights(
        "a weight of nothing with a huge side",
        "lin.weight",
        put(f"{META}.sizes", _ints(0, 1 << 62)),
        put(f"{META}.strides", _ints(1 << 62, 1)),
    ),
    _weights(
        "a weight of nothing at a huge offset",
        "lin.weight",
        put(f"{META}.sizes", _ints(0, 3)),
        put(f"{META}.storage_offset", {"as_int": 1 << 62}),
    ),
    _weights(
        "a weight at an offset beyond 64 bits",
        "lin.weight",
        put(f"{META}.storage_offset", {"as_int": 1 << 80}),
    ),
    _weights(
        "a weight of integers with a gradient", "lin.weight", put(f"{META}.dtype", 4), error=GraphwireError
    ),
    _weights(
        "a weight on a device that is not there",
        "lin.weight",
        put(f"{META}.device.type", "mtia"),
        error=GraphwireError,
    ),
    _weights("a weight that is a pickle", "lin.weight", put(f"{W}.use_pickle", True), error=GraphwireError),
    _weights(
        "a weight outside of the archive",
        "lin.weight",
        put(f"{W}.path_name", "../../../../etc/passwd"),
        error=MissingRecordError,
    ),
    _weights(
        "a weight at an absolute path",
        "lin.weight",
        put(f"{W}.path_name", "/etc/passwd"),
        error=MissingRecordError,
    ),
    _weights(
        "a weight in the program's record",
        "lin.weight",
        put(f"{W}.path_name", "../../models/model.json"),
        error=MissingRecordError,
    ),
    _weights("a weight that is its own twin", "lin.weight", put(f"{W}.same_as", "lin.weight"), error=None),
    _weights(
        "a weight of another type than the program says",
        "lin.weight",
        put(f"{META}.dtype", 4),
        put(f"{META}.requires_grad", False),
        put(f"{W}.is_param", False),
        error=GraphwireError,
    ),
    _weights("a weight too many", "", lambda tree: tree.update({"more": get(tree, W)}), error=None),
]

OTHERS = [
    _weights(
        f"a weight of {what}",
        rf"lin.weight.*{told}, but the graph states",
        *(put(f"{META}{field}", value) for field, value in fields.items()),
        error=ValidationError,
    )
    for what, told, fields in (
        ("another shape", r"float32\[3, 2\]", {".sizes": _ints(3, 2), ".strides": _ints(2, 1)}),
        ("fewer elements", r"float32\[1, 3\]", {".sizes": _ints(1, 3)}),
        ("fewer dimensions", r"float32\[6\]", {".sizes": _ints(6), ".strides": _ints(1)}),
        ("no elements", r"float32\[0, 3\]", {".sizes": _ints(0, 3)}),
        ("a narrower type", r"bfloat16\[2, 3\]", {".dtype": 13}),
        ("another order in memory", r"strides \[1, 2\]", {".strides": _ints(1, 2)}),
        ("one row seen twice", r"strides \[0, 1\]", {".strides": _ints(0, 1)}),
    )
]


def _raw_config(data: bytes) -> Callable[[Victim], bytes]:
    return lambda victim: victim.with_records({WEIGHTS: data})


CONFIGS = [
    Attack("a config nested without end", _raw_config(b"[" * 100_000), ArchiveError, "config"),
    Attack(
        "a config nested in an unknown field",
        _raw_config(b'{"config":{},"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
        ArchiveError,
        "config",
    ),
    Attack("a config of nothing", _raw_config(b'{"config":{}}'), ValidationError, "lin.weight.*lin.bias"),
]

# ---------------------------------------------------------------------------------------------------------- codecs


def _encoded(
    codec: str, tree: Any, tensors: list[str] | None = None, name: str = "b"
) -> Callable[[Victim], bytes]:
    """The file with its buffer `b` as a value of a codec, made of the weights that are named."""

    def make(victim: Victim) -> bytes:
        document = victim.document
        document["requires"] = ["codecs"]
        document["encoded_values"] = {name: {"codec": codec, "tree": tree, "tensors": tensors or []}}
        config = json.loads(victim.records[WEIGHTS])
        if tensors:
            for each in tensors:
                config["config"].setdefault(each, config["config"]["b"])
        config["config"].pop("b")
        return victim.with_records(
            {DOCUMENT: json.dumps(document).encode(), WEIGHTS: json.dumps(config).encode()}
        )

    return make


def _sparse(**fields: Any) -> dict[str, Any]:
    return {
        "layout": "sparse_coo",
        "sizes": [2],
        "coalesced": True,
        "parameter": False,
        "requires_grad": False,
    } | fields


_CLASS = {
    "attributes": ["a"],
    "context": None,
    "sizes": [2],
    "strides": [1],
    "parameter": False,
    "requires_grad": False,
}

_CODECS = {
    "an unknown codec": ("pickle", {}, ["b#0"]),
    "a codec that is a module": ("os.system", "id", []),
    "a sparse tensor of no data": ("sparse", None, ["b#0"]),
    "a sparse tensor of floats as indices": ("sparse", _sparse(), ["b#0", "b#1"]),
    "a sparse tensor of huge sizes": ("sparse", _sparse(sizes=[1 << 62, 1 << 62]), ["b#0", "b#1"]),
    "a sparse tensor of negative sizes": ("sparse", _sparse(sizes=[-2]), ["b#0", "b#1"]),
    "a sparse tensor of textual sizes": ("sparse", _sparse(sizes=["x"]), ["b#0", "b#1"]),
    "a sparse tensor of an unknown layout": ("sparse", _sparse(layout="load"), ["b#0", "b#1"]),
    "a compressed tensor without indices": ("sparse", _sparse(layout="sparse_csr", coalesced=None), ["b#0", "b#1"]),
    "a compressed tensor of floats as indices": ("sparse", _sparse(layout="sparse_csr", coalesced=None, sizes=[2, 2]), ["b#0", "b#1", "b#2"]),
    "a quantized tensor of floats": ("quantized", {"scheme": "per_tensor", "scale": 1.0, "zero_point": 0, "axis": None, "strides": [1]}, ["b#0"]),
    "a quantized tensor of a huge zero point": ("quantized", {"scheme": "per_tensor", "scale": 1.0, "zero_point": 1 << 70, "axis": None, "strides": [1]}, ["b#0"]),
    "a quantized tensor of an absurd axis": ("quantized", {"scheme": "per_channel", "axis": 1 << 40, "scale": None, "zero_point": None, "strides": [1]}, ["b#0", "b#1", "b#2"]),
    "a quantized tensor of no scheme": ("quantized", {"scheme": "evil"}, ["b#0"]),
    "a subclass that nobody has": ("tensor_subclass", {"class": "os.system", **_CLASS}, ["b#0"]),
    "a subclass that is no subclass": ("tensor_subclass", {"class": "builtins.dict", **_CLASS}, ["b#0"]),
    "a subclass of other fields": ("tensor_subclass", {"class": "torch.Tensor"}, ["b#0"]),
    "a subclass of more attributes than tensors": ("tensor_subclass", {"class": "torch.Tensor", **_CLASS, "attributes": ["a"] * 9}, ["b#0"]),
    "a jagged tensor of no data": ("jagged", None, ["b#0"]),
    "a jagged tensor of floats as offsets": ("jagged", {"ragged": 1, "sizes": [2], "requires_grad": False, "parameter": False}, ["b#0", "b#1"]),
    "an object of a class that nobody declares": ("object", {"class": "subprocess.Popen", "state": ["id"]}, []),
    "an object that is a function": ("object", {"class": "builtins.eval", "state": "1"}, []),
}  # fmt: skip
CODECS = [
    Attack(name, _encoded(codec, tree, tensors), GraphwireError, r"\bb\b|codec|weights")
    for name, (codec, tree, tensors) in _CODECS.items()
]


def _self_made(victim: Victim) -> bytes:
    document = victim.document
    document["requires"] = ["codecs"]
    document["encoded_values"] = {"b": {"codec": "sparse", "tree": {}, "tensors": ["b"]}}
    return victim.with_records({DOCUMENT: json.dumps(document).encode()})


CODECS.append(Attack("a value that consists of itself", _self_made, ValidationError, "is a part of itself"))

# --------------------------------------------------------------------------------------------------------- pickles


class _Runs:
    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> Any:
        return self.call


def _torch_save(content: bytes, **records: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("archive/data.pkl", content)
        archive.writestr("archive/version", "3\n")
        archive.writestr("archive/byteorder", "little")
        for name, data in records.items():
            archive.writestr(f"archive/data/{name}", data)
    return stream.getvalue()


def _saved(value: Any) -> bytes:
    stream = io.BytesIO()
    torch.save(value, stream)
    return stream.getvalue()


def _b1(content: bytes, member: str = "data/weights/model.pt") -> Callable[[Victim], bytes]:
    """The file with its weights as torch 2.8 has them: a torch.save file."""

    def make(victim: Victim) -> bytes:
        config = json.loads(victim.records[CONSTANTS])["config"]
        program = graphwire.loads(victim.data)
        good, constants = program.state_dict, {n: c for n, c in program.constants.items() if n in config}
        records: dict[str, bytes | None] = {
            "data/weights/model.pt": _saved(good),
            "data/constants/model.pt": _saved(constants),
            WEIGHTS: None,
            CONSTANTS: None,
            "data/sample_inputs/model_sample_inputs_config.json": None,
        }
        return victim.with_records({**records, member: content})

    return make


_EVAL = pickle.dumps({"b": _Runs(eval, ("__import__('os').system('id')",))})
_REBUILD = b"ctorch._utils\n_rebuild_tensor_v2\n"


def _storage(kind: str = "FloatStorage", key: str = "0", count: str = "2") -> bytes:
    """The opcodes of a persistent id: a storage of `count` elements in record `key`."""
    return f"(Vstorage\nctorch\n{kind}\nV{key}\nVcpu\nL{count}L\ntQ".encode()


def _tensor(storage: bytes, offset: str = "I0\n", sizes: str = "(I2\nt", strides: str = "(I1\nt") -> bytes:
    return (
        _REBUILD
        + b"("
        + storage
        + offset.encode()
        + sizes.encode()
        + strides.encode()
        + b"I00\nccollections\nOrderedDict\n)RtR"
    )


def _state(tensor: bytes) -> bytes:
    return b"(Vb\n" + tensor + b"d."


DATA = {"0": b"\0" * 8}
_PICKLES: dict[str, bytes] = {
    "a call of eval": _torch_save(_EVAL),
    "a call of os.system": _torch_save(b"cos\nsystem\n(S'id'\ntR."),
    "an attribute of a global": _torch_save(b"\x80\x04\x8c\x05torch\x8c\x0cos.path.join\x93\x8c\x02id\x85R."),
    "a state that is set": _torch_save(b"ccollections\nOrderedDict\n)R(S'__class__'\nI1\ndb."),
    "a persistent id that is a path": _torch_save(b"P/etc/passwd\n."),
    "a frame that lies": _torch_save(b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f}."),
    "a text longer than the file": _torch_save(b"\x80\x04X\xff\xff\xff\x7fabc."),
    "a bomb of references": _torch_save(b"\x80\x02]q\x00" + b"".join(b"]q" + bytes([i + 1]) + (b"h" + bytes([i])) * 2 + b"\x86a" for i in range(60)) + b"."),
    "lists without an end": _torch_save(b"\x80\x02" + b"]" * 50_000 + b"a" * 49_999 + b"."),
    "no end": _torch_save(b"\x80\x02}"),
    "nothing": _torch_save(b""),
    "a list in place of a dict": _torch_save(b"]."),
    "a number in place of a tensor": _torch_save(_state(b"I1\n")),
    "a tensor of a storage that is not there": _torch_save(_state(_tensor(_storage(key="77")))),
    "a tensor in a record outside": _torch_save(_state(_tensor(_storage(key="../../x"))), **DATA),
    "a tensor larger than its storage": _torch_save(_state(_tensor(_storage(), sizes="(I2000\nt")), **DATA),
    "a tensor of overflowing sizes": _torch_save(_state(_tensor(_storage(), sizes="(L4294967296L\nL4294967296L\nt", strides="(I0\nI0\nt")), **DATA),
    "a storage larger than its record": _torch_save(_state(_tensor(_storage(count="99999999"))), **DATA),
    "no archive": b"\x80\x02}.",
    "a plain pickle": _EVAL,
}  # fmt: skip
PICKLES = [
    Attack(
        f"weights that are {what}",
        _b1(content),
        (ArchiveError, DecodeError, LimitError),
        r"model.pt|weights|\bb\b|lin.weight",
    )  # type: ignore[arg-type]
    for what, content in _PICKLES.items()
] + [
    Attack(
        "constants that are a call",
        _b1(_torch_save(_EVAL), "data/constants/model.pt"),
        (ArchiveError, DecodeError, LimitError),
        r"constants|\bc_|lifted|read",
    ),  # type: ignore[arg-type]
]
SAMPLES = [
    Attack(f"example inputs that are {what}", _b1(content, "data/sample_inputs/model.pt"), None)
    for what, content in _PICKLES.items()
]
