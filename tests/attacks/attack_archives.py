"""Archives and documents that lie about themselves: names, directories, lengths, compression, encodings."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

import torch
from hostile import DOCUMENT, WEIGHTS, Attack, Victim, get, put
from inside.wire import directory as layout
from torch.utils import _pytree as pytree

from graphwire.errors import (
    ArchiveError,
    DecodeError,
    FormatError,
    GraphwireError,
    LimitError,
    MissingRecordError,
    UnknownTypeError,
    ValidationError,
)

_REFUSED: Any = (ArchiveError, LimitError)


def _symlink(victim: Victim) -> bytes:
    data = bytearray(victim.with_records({"data/weights/weight_0": b"/etc/passwd"}))
    at = data.rindex(b"program/data/weights/weight_0") - layout.CENTRAL_ENTRY.size
    struct.pack_into("<I", data, at + 38, 0o120777 << 16)
    return bytes(data)


def _many_records(victim: Victim) -> bytes:
    return victim.with_records({f"extra/{index}": b"" for index in range(3000)} | {WEIGHTS: None})


FILES = [
    Attack("a pickle", lambda _: b"\x80\x04\x95", _REFUSED, "not an archive"),
    Attack("two archives", lambda v: v.data + v.data, _REFUSED, "directory"),
    Attack("an end record in a comment", lambda v: v.data[:-2] + b"\x16\x00" + v.data[-22:], _REFUSED, "directory|end record"),
    Attack("only an end record", lambda _: layout.END.pack(layout.END_MAGIC, 0, 0, 0, 0, 0, 0, 0), MissingRecordError, "no program"),
    Attack("a link in place of a weight", _symlink, ArchiveError, "lin.weight"),
    Attack("thousands of records, and one that is missing", _many_records, MissingRecordError, "weights_config"),
    Attack("weights that are deflated", lambda v: v.with_records({}, compress=True), None),
]  # fmt: skip


# -------------------------------------------------------------------------------------------------------- documents


def _raw(suffix: str, data: bytes) -> Callable[[Victim], bytes]:
    return lambda victim: victim.with_records({DOCUMENT: None, f"models/model{suffix}": data})


_C = b"\xd9\xd9\xf7"


def _nested_cbor(tag: int, count: int) -> bytes:
    return _C + b"\x81" * count + bytes([tag])


_JSON = {
    "a number that is none": lambda v: v.with_text('"min_val":2', '"min_val":NaN'),
    "an infinite number": lambda v: v.with_text('"min_val":2', '"min_val":1e999'),
    "lists without an end": lambda v: v.with_records({DOCUMENT: b"[" * 1_000_000}),
    "lists nested deeply": lambda v: v.with_records({DOCUMENT: b"[" * 100_000 + b"]" * 100_000}),
    "objects nested deeply": lambda v: v.with_records({DOCUMENT: b'{"a":' * 100_000 + b"1" + b"}" * 100_000}),
    "bytes that are no base64": lambda v: v.with_text(f'"{torch.__version__}"', '{"$bytes": "!"}'),
}  # fmt: skip
DOCUMENTS = [
    *(Attack(f"JSON with {what}", make, GraphwireError, "") for what, make in _JSON.items()),
    Attack("msgpack with a map that lies", _raw(".msgpack", b"\x81\xacgraph_module\xdf\xff\xff\xff\xff"), FormatError, "MessagePack"),
    Attack("msgpack with a text that lies", _raw(".msgpack", b"\x81\xacgraph_module\xdb\xff\xff\xff\xffa"), FormatError, "MessagePack"),
    Attack("msgpack with lists in lists", _raw(".msgpack", b"\x81\xacgraph_module" + b"\x91" * 100_000 + b"\xc0"), GraphwireError, "MessagePack|deep"),
    Attack("msgpack with maps in maps", _raw(".msgpack", b"\x81\xacgraph_module" + b"\x81\xa1a" * 2_000 + b"\xc0"), GraphwireError, "MessagePack|deep"),
    Attack("msgpack of millions of lists", _raw(".msgpack", b"\x81\xacgraph_module\xdd\x00\x02\x00\x00" + b"\x90" * (1 << 17)), GraphwireError, ""),
    Attack("CBOR with a big float", _raw(".cbor", _C + b"\xa1\x6cgraph_module\xc5\x82\x1a\x7f\xff\xff\xff\x01"), FormatError, "CBOR"),
    Attack("CBOR with a map that lies", _raw(".cbor", _C + b"\xa1\x6cgraph_module\xbb\x00\xff\xff\xff\xff\xff\xff\xff"), FormatError, "CBOR"),
    Attack("CBOR with a text that lies", _raw(".cbor", _C + b"\xa1\x6cgraph_module\x7b\x00\xff\xff\xff\xff\xff\xff\xff"), FormatError, "CBOR"),
    Attack("CBOR with a bignum that lies", _raw(".cbor", _C + b"\xa1\x6cgraph_module\xc2\x5b\x7f\xff\xff\xff\xff\xff\xff\xff"), FormatError, "CBOR"),
    Attack("CBOR with a bignum of kilobytes", _raw(".cbor", _C + b"\xa1\x6cgraph_module\xc2\x59\xff\xff" + b"\xff" * 65535), GraphwireError, ""),
    Attack("CBOR with lists in lists", _raw(".cbor", _nested_cbor(0, 100_000)), GraphwireError, "CBOR|deep"),
    Attack("CBOR with tags in tags", _raw(".cbor", _C + b"\xc1" * 100_000 + b"\x00"), GraphwireError, "CBOR|deep"),
    Attack("CBOR with bignums in bignums", _raw(".cbor", _C + b"\xc2" * 100_000 + b"\x40"), GraphwireError, "CBOR|deep"),
    Attack("CBOR of millions of lists", _raw(".cbor", _C + b"\xa1\x6cgraph_module\x9a\x00\x02\x00\x00" + b"\x80" * (1 << 17)), GraphwireError, ""),
]  # fmt: skip


def _bombed(suffix: str, data: bytes) -> Callable[[Victim], bytes]:
    """The file with a program that inflates to sixteen mebibytes of empty lists."""
    return lambda victim: victim.with_records({DOCUMENT: None, f"models/model{suffix}": data}, compress=True)


def _unknown_operators(victim: Victim) -> bytes:
    def change(tree: Any) -> None:
        nodes = get(tree, "graph_module.graph.nodes")
        for index in range(300):
            nodes.append({**nodes[0], "target": f"torch.ops.aten.linearr{index}.default", "outputs": []})

    return victim.with_document(change)


BOMBS = [
    Attack(
        "a bomb of lists in JSON",
        _bombed(".json", b'{"graph_module":[' + b"[]," * (0x90 << 16) + b"[]]}"),
        LimitError,
        "containers",
    ),
    Attack(
        "a bomb of arguments in JSON",
        lambda victim: victim.with_records(
            {
                DOCUMENT: victim.records[DOCUMENT].replace(
                    b'"inputs":[', b'"inputs":[' + b"{}," * (0x90 << 16), 1
                )
            },
            compress=True,
        ),
        LimitError,
        "containers",
    ),
    Attack(
        "a bomb of lists in msgpack",
        _bombed(".msgpack", b"\x81\xacgraph_module\xdd\x00\xff\x00\x00" + b"\x90" * (0xFF << 16)),
        LimitError,
        "containers",
    ),
    Attack(
        "a bomb of lists in CBOR",
        _bombed(".cbor", _C + b"\xa1\x6cgraph_module\x9a\x00\xff\x00\x00" + b"\x80" * (0xFF << 16)),
        LimitError,
        "containers",
    ),
    Attack(
        "a missing record among long names",
        lambda v: v.with_records(
            {f"extra/{'a' * 1000}{index}": b"" for index in range(5000)} | {WEIGHTS: None}
        ),
        MissingRecordError,
        "weights_config",
    ),
    Attack(
        "hundreds of unknown operators", _unknown_operators, DecodeError, "20 or more operators are missing"
    ),
]

# -------------------------------------------------------------------------------------------------------- treespecs

CALL = "graph_module.module_call_graph[0].signature"
LEAF = {"type": None, "context": None, "children_spec": []}


def _spec(spec: Any) -> Callable[[Victim], bytes]:
    text = spec if isinstance(spec, str) else json.dumps([1, spec])
    return lambda victim: victim.with_document(put(f"{CALL}.out_spec", text))


def _node(kind: Any, context: Any = "null", *children: Any) -> Any:
    return {"type": kind, "context": context, "children_spec": list(children)}


def _deep(depth: int) -> str:
    return (
        "[1, "
        + '{"type":"builtins.tuple","context":"null","children_spec":[' * depth
        + json.dumps(LEAF)
        + "]}" * depth
        + "]"
    )


_SPECS: dict[str, tuple[Any, type[Exception], str]] = {
    "nested without end": (_deep(100_000), ValidationError, "out_spec.*treespec"),
    "of a module": (_node("os.system"), UnknownTypeError, "os.system"),
    "of a builtin function": (_node("builtins.eval"), UnknownTypeError, "builtins.eval"),
    "of a class that is no container": (_node("subprocess.Popen"), UnknownTypeError, "subprocess.Popen"),
    "of a huge version": (_node("builtins.tuple@999999999", "null"), DecodeError, "version"),
    "of a version of many digits": (_node("builtins.tuple@" + "9" * 10_000), UnknownTypeError, "builtins.tuple"),
    "of a tuple with a context": (_node("builtins.tuple", '"x"', LEAF), DecodeError, "context"),
    "of a dict with too few children": (_node("builtins.dict", '["a","b"]', LEAF), DecodeError, "2 children"),
    "of a dict with a key twice": (_node("builtins.dict", '["a","a"]', LEAF, LEAF), DecodeError, "duplicate key"),
    "of a dict whose keys are text": (_node("builtins.dict", '"ab"', LEAF, LEAF), DecodeError, "keys"),
    "of a dict whose keys are objects": (_node("builtins.dict", '[{"a":1}]', LEAF), DecodeError, "key"),
    "of a dict whose context is no JSON": (_node("builtins.dict", "__import__('os')", LEAF), DecodeError, "JSON"),
    "of a dict whose context is nested": (_node("builtins.dict", "[" * 100_000, LEAF), DecodeError, "context|JSON"),
    "of an enum that is not there": (_node("builtins.dict", '[{"__enum__":true,"fqn":"os:system","name":"x"}]', LEAF), UnknownTypeError, "os:system"),
    "of an enum that is a dunder": (_node("builtins.dict", '[{"__enum__":true,"fqn":"enum:Enum","name":"__class__"}]', LEAF), GraphwireError, "enum"),
    "of a defaultdict of a function": (_node("collections.defaultdict", {"default_factory_module": "os", "default_factory_name": "system", "dict_context": ["a"]}, LEAF), DecodeError, "os.system"),
    "of a defaultdict of eval": (_node("collections.defaultdict", {"default_factory_module": "builtins", "default_factory_name": "eval", "dict_context": ["a"]}, LEAF), DecodeError, "builtins.eval"),
    "of a defaultdict of a path": (_node("collections.defaultdict@2", '{"factory":"os.path.join","keys":["a"]}', LEAF), DecodeError, "os.path.join"),
    "of a deque of negative length": (_node("collections.deque", "-1", LEAF), DecodeError, "maxlen"),
    "of a deque of huge length": (_node("collections.deque", "9" * 1000, LEAF), DecodeError, "maxlen"),
    "of a namedtuple that is not there": (_node("collections.namedtuple", '"os.system"', LEAF), UnknownTypeError, "namedtuple|os.system"),
    "of a namedtuple made of a call": (_node("collections.namedtuple", {"class_name": "a=breakpoint()", "fields": ["b"]}, LEAF), UnknownTypeError, "namedtuple"),
    "of a schema that is nested": (_node("torch.FunctionSchema", {"schema": "f(" + "Tuple(" * 100_000}), DecodeError, "schema"),
    "of a schema that is nested in lists": (_node("torch.FunctionSchema", {"schema": "f(int" + "[]" * 100_000 + " x) -> ()"}), DecodeError, "schema"),
    "of a schema that is overlong": (_node("torch.FunctionSchema", {"schema": "f(" + "int a, " * 100_000 + ") -> ()"}), DecodeError, "schema"),
    "of a schema that is text": (_node("torch.FunctionSchema", {"schema": "os.system"}), DecodeError, "schema"),
    "of a constant function": (_node("torch._higher_order_ops.flat_apply._ConstantFunction", {"function": "os.system"}), UnknownTypeError, "os.system"),
    "of a size with a context": (_node("torch.Size", '{"a":1}', LEAF), DecodeError, "context"),
}  # fmt: skip
pytree.register_constant(torch.FunctionSchema)

SPECS = [
    Attack(f"an output structure {what}", _spec(spec), error, told)
    for what, (spec, error, told) in _SPECS.items()
]
