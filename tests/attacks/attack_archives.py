"""Archives and documents that lie about themselves: names, directories, lengths, compression, encodings."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Callable
from typing import Any

import cbor2
import msgpack
import torch
from hostile import DOCUMENT, WEIGHTS, Attack, Victim, get, put
from inside.wire import directory as layout
from torch.utils import _pytree as pytree

from graphwire.errors import (
    ArchiveError,
    ChecksumError,
    DecodeError,
    FormatError,
    GraphwireError,
    LimitError,
    MissingRecordError,
    UnknownFormatError,
    UnknownTypeError,
    ValidationError,
)

_REFUSED: Any = (ArchiveError, LimitError)


def _packed(
    change: Callable[[str, bytes], list[tuple[str, bytes, int]]],
) -> Callable[[Victim], bytes]:
    """The file, written by the standard library, with each record as `change` makes it: name, bytes, compression."""

    def make(victim: Victim) -> bytes:
        stream = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(victim.data)) as old, zipfile.ZipFile(stream, "w") as new:
            for info in old.infolist():
                for name, data, method in change(info.filename, old.read(info)):
                    made = zipfile.ZipInfo(name)
                    made.compress_type = method
                    made.external_attr = info.external_attr
                    new.writestr(made, data)
        return stream.getvalue()

    return make


def _with_member(name: str, data: bytes = b"x") -> Callable[[Victim], bytes]:
    return lambda victim: _packed(
        lambda each, content: [(each, content, 0)] + ([(name, data, 0)] if each.endswith("byteorder") else [])
    )(victim)


_NAMES = {
    "that steps out": "program/../../evil",
    "that steps out at once": "../evil",
    "that is absolute": "/etc/evil",
    "with a drive": "C:/evil",
    "with backslashes": "program\\..\\evil",
    "with an escape": "program/\x1b[2Jevil",
    "with a line": "program/a\nb",
    "with a double slash": "program//evil",
    "with a dot": "program/./evil",
    "below another root": "other/evil",
    "of four thousand characters": "program/" + "a" * 5000,
}
NAMES = [
    Attack(f"a record {what}", _with_member(name), _REFUSED, "record|records|folder|name")
    for what, name in _NAMES.items()
]


def _field(offset: int, code: str, value: int) -> Callable[[bytearray, int], None]:
    return lambda data, at: struct.pack_into(f"<{code}", data, at + offset, value)


def _central(
    name: str, told: str, offset: int, code: str, value: int, record: str = "weight_0", error: Any = _REFUSED
) -> Attack:
    return Attack(name, lambda v: v.at(record, _field(offset, code, value), directory=True), error, told)


def _local(
    name: str,
    told: str,
    offset: int,
    code: str,
    value: int,
    record: str = "model.json",
    error: Any = _REFUSED,
) -> Attack:
    return Attack(name, lambda v: v.at(record, _field(offset, code, value), directory=False), error, told)


DIRECTORY = [
    _central("an encrypted record", "weight_0.*encrypted", 8, "H", 0x0801),
    _central("a strongly encrypted record", "weight_0.*", 8, "H", 0x0841),
    _central("a patched record", "weight_0.*flags", 8, "H", 0x0820),
    _central("a record of another method", "weight_0.*method", 10, "H", 12),
    _central("a weight that says it is deflated", "weight_0", 10, "H", 8),
    _central("a record larger than the file", "weight_0", 20, "I", 0x7FFFFFFF),
    _central("a record that inflates without being packed", "weight_0", 24, "I", 0x7FFFFFFF),
    _central("a record of zip64 size without a field", "weight_0", 24, "I", 0xFFFFFFFF),
    _central("a record on another disk", "weight_0.*disk", 34, "H", 7),
    _central("a record behind the end", "weight_0", 42, "I", 0x7FFFFFFF),
    _central("a record at another one's header", "overlaps|contradicts", 42, "I", 0),
    _central(
        "a record of another checksum",
        "weight_0|model.json",
        16,
        "I",
        0xDEADBEEF,
        record="models/model.json",
        error=ArchiveError,
    ),
    _central("a program that inflates to more", "model.json", 24, "I", 1 << 24, record="models/model.json"),
    _central("a program that inflates to less", "model.json", 24, "I", 10, record="models/model.json"),
    _central("a program of fewer packed bytes", "model.json", 20, "I", 10, record="models/model.json"),
    _central("a name longer than the directory", "directory", 28, "H", 0xFFFF),
    _central("an extra field longer than the directory", "directory", 30, "H", 0xFFFF),
    _central("a comment longer than the directory", "directory", 32, "H", 0xFFFF),
    _central("a directory without its magic", "directory", 0, "I", 0),
    _local("a header of another method", "model.json.*contradicts", 8, "H", 0),
    _local("a header of another checksum", "model.json.*contradicts", 14, "I", 1),
    _local("a header of another size", "model.json.*contradicts", 22, "I", 1),
    _local("a header of another packed size", "model.json.*contradicts", 18, "I", 1),
    _local("a header of another name", "model.json.*contradicts", 31, "B", 0x41),
    _local("a header that is encrypted", "model.json.*contradicts", 6, "H", 0x0801),
    _local("a header with a longer extra field", "model.json.*overlaps", 28, "H", 0xFFFF),
    _local("a header without its magic", "model.json.*contradicts", 0, "I", 0),
    _local("a weight's header of another name", "weight_0.*contradicts", 40, "B", 0x41, record="weight_0"),
    _local(
        "a weight's header with a longer extra field",
        "weight_0.*overlaps",
        28,
        "H",
        0xFFFF,
        record="weight_0",
    ),
]


def _end(offset: int, code: str, value: int) -> Callable[[Victim], bytes]:
    def make(victim: Victim) -> bytes:
        data = bytearray(victim.data)
        struct.pack_into(f"<{code}", data, len(data) - layout.END.size + offset, value)
        return bytes(data)

    return make


def _symlink(victim: Victim) -> bytes:
    data = bytearray(victim.with_records({"data/weights/weight_0": b"/etc/passwd"}))
    at = data.rindex(b"program/data/weights/weight_0") - layout.CENTRAL_ENTRY.size
    struct.pack_into("<I", data, at + 38, 0o120777 << 16)
    return bytes(data)


def _cut(part: float | bytes) -> Callable[[Victim], bytes]:
    if isinstance(part, bytes):
        return lambda v: v.data[: v.data.index(part) + 2]
    return lambda v: v.data[: int(len(v.data) * part)]


def _bomb(victim: Victim) -> bytes:
    return victim.with_records({DOCUMENT: b" " * (64 << 20)}, compress=True)


def _many_records(victim: Victim) -> bytes:
    return victim.with_records({f"extra/{index}": b"" for index in range(3000)} | {WEIGHTS: None})


FILES = [
    Attack("a count of records beyond the directory", _end(8, "H", 9), _REFUSED, "several files|directory"),
    Attack("a directory of another size", _end(12, "I", 5), _REFUSED, "directory"),
    Attack("a directory elsewhere", _end(16, "I", 5), _REFUSED, "directory"),
    Attack("a directory behind the end", _end(16, "I", 0x7FFFFFFF), _REFUSED, "directory"),
    Attack("an archive of several disks", _end(4, "H", 3), _REFUSED, "several files"),
    Attack("a comment that is not there", _end(20, "H", 100), _REFUSED, "end record"),
    Attack("a zip64 directory that is not there", _end(12, "I", 0xFFFFFFFF), _REFUSED, "directory"),
    Attack("an empty file", lambda _: b"", _REFUSED, "empty"),
    Attack("a shared library", lambda _: b"\x7fELF" + bytes(5000), _REFUSED, "not an archive"),
    Attack("a pickle", lambda _: b"\x80\x04\x95", _REFUSED, "not an archive"),
    Attack("a shared library before the archive", lambda v: b"\x7fELF" + bytes(60) + v.data, _REFUSED, "not an archive"),
    Attack("bytes before the archive", lambda v: b"PK\x03\x04" + bytes(60) + v.data, _REFUSED, "directory|header"),
    Attack("bytes behind the archive", lambda v: v.data + b"x", _REFUSED, "end record"),
    Attack("two archives", lambda v: v.data + v.data, _REFUSED, "directory"),
    Attack("an end record in a comment", lambda v: v.data[:-2] + b"\x16\x00" + v.data[-22:], _REFUSED, "directory|end record"),
    Attack("only an end record", lambda _: layout.END.pack(layout.END_MAGIC, 0, 0, 0, 0, 0, 0, 0), MissingRecordError, "no program"),
    Attack("a file cut behind its first header", _cut(b"PK\x03\x04"), _REFUSED, ""),
    Attack("a file cut in the middle", _cut(0.5), _REFUSED, "end record"),
    Attack("a file cut in the directory", _cut(b"PK\x01\x02"), _REFUSED, "end record"),
    Attack("a file cut in the end record", lambda v: v.data[:-7], _REFUSED, "end record"),
    Attack("two records of one name", lambda v: _doubled(v), _REFUSED, "two records|name"),
    Attack("a bomb", _bomb, LimitError, "model.json.*inflates"),
    Attack("a program of other bytes", lambda v: v.with_records({}).replace(b'"graph_module"', b'"graph_modulE"'), ChecksumError, "model.json"),
    Attack("a link in place of a weight", _symlink, ArchiveError, "lin.weight"),
    Attack("thousands of records, and one that is missing", _many_records, MissingRecordError, "weights_config"),
    Attack("two programs of one name", lambda v: v.with_records({"models/model.cbor": b"x"}), ArchiveError, "two members"),
    Attack("a program of an unknown format", lambda v: v.with_records({DOCUMENT: None, "models/model.pickle": b"x"}), UnknownFormatError, "pickle"),
    Attack("a program of compiled code", lambda v: v.with_records({DOCUMENT: None, "data/aotinductor/model/x.so": b"\x7fELF"}), MissingRecordError, "compiled code"),
    Attack("no program", lambda v: v.with_records({DOCUMENT: None}), MissingRecordError, "no program"),
    Attack("a program of text", lambda v: v.with_records({DOCUMENT: b"import os"}), FormatError, "JSON"),
    Attack("weights packed by another method", _packed(lambda n, d: [(n, d, zipfile.ZIP_BZIP2 if n.endswith("weight_0") else 0)]), _REFUSED, "weight_0.*method"),
    Attack("weights that are deflated", _packed(lambda n, d: [(n, d, zipfile.ZIP_DEFLATED if n.endswith("weight_0") else 0)]), None),
]  # fmt: skip


def _doubled(victim: Victim) -> bytes:
    data = _with_member("program/byteordes", b"little")(victim)
    return data.replace(b"program/byteordes", b"program/byteorder")


# -------------------------------------------------------------------------------------------------------- documents


def _raw(suffix: str, data: bytes) -> Callable[[Victim], bytes]:
    return lambda victim: victim.with_records({DOCUMENT: None, f"models/model{suffix}": data})


_C = b"\xd9\xd9\xf7"


def _nested_cbor(tag: int, count: int) -> bytes:
    return _C + b"\x81" * count + bytes([tag])


_JSON = {
    "a key twice": lambda v: v.with_text('"opset_version"', '"requires": [], "requires": [], "opset_version"'),
    "a number that is none": lambda v: v.with_text('"min_val":2', '"min_val":NaN'),
    "an infinite number": lambda v: v.with_text('"min_val":2', '"min_val":1e999'),
    "a number of many digits": lambda v: v.with_text('"min_val":2', '"min_val":' + "9" * 10_000),
    "a lone surrogate": lambda v: v.with_text('"torch_version":"', '"torch_version":"\\ud800'),
    "an overlong encoding": lambda v: v.with_records({DOCUMENT: v.records[DOCUMENT].replace(b'"torch_version":"', b'"torch_version":"\xc0\xaf')}),
    "bytes that are no UTF-8": lambda v: v.with_records({DOCUMENT: v.records[DOCUMENT].replace(b'"torch_version":"', b'"torch_version":"\xff')}),
    "another encoding": lambda v: v.with_records({DOCUMENT: v.records[DOCUMENT].decode().encode("utf-16")}),
    "lists without an end": lambda v: v.with_records({DOCUMENT: b"[" * 1_000_000}),
    "lists nested deeply": lambda v: v.with_records({DOCUMENT: b"[" * 100_000 + b"]" * 100_000}),
    "objects nested deeply": lambda v: v.with_records({DOCUMENT: b'{"a":' * 100_000 + b"1" + b"}" * 100_000}),
    "a comment": lambda v: v.with_records({DOCUMENT: b"/* */" + v.records[DOCUMENT]}),
    "bytes behind it": lambda v: v.with_records({DOCUMENT: v.records[DOCUMENT] + b"{}"}),
    "half of it": lambda v: v.with_records({DOCUMENT: v.records[DOCUMENT][:-100]}),
    "nothing": lambda v: v.with_records({DOCUMENT: b""}),
    "bytes that are no base64": lambda v: v.with_text(f'"{torch.__version__}"', '{"$bytes": "!"}'),
}  # fmt: skip
DOCUMENTS = [
    *(Attack(f"JSON with {what}", make, GraphwireError, "") for what, make in _JSON.items()),
    Attack("msgpack with an extension", _raw(".msgpack", msgpack.packb({"graph_module": msgpack.ExtType(5, b"x")})), FormatError, "extension type 5"),
    Attack("msgpack with a timestamp", _raw(".msgpack", b"\x81\xacgraph_module\xd6\xff\x00\x00\x00\x00"), FormatError, "Timestamp"),
    Attack("msgpack with a list that lies", _raw(".msgpack", b"\x81\xacgraph_module\xdd\xff\xff\xff\xff"), FormatError, "MessagePack"),
    Attack("msgpack with a map that lies", _raw(".msgpack", b"\x81\xacgraph_module\xdf\xff\xff\xff\xff"), FormatError, "MessagePack"),
    Attack("msgpack with a text that lies", _raw(".msgpack", b"\x81\xacgraph_module\xdb\xff\xff\xff\xffa"), FormatError, "MessagePack"),
    Attack("msgpack with bytes that lie", _raw(".msgpack", b"\x81\xacgraph_module\xc6\xff\xff\xff\xffa"), FormatError, "MessagePack"),
    Attack("msgpack with lists in lists", _raw(".msgpack", b"\x81\xacgraph_module" + b"\x91" * 100_000 + b"\xc0"), GraphwireError, "MessagePack|deep"),
    Attack("msgpack with maps in maps", _raw(".msgpack", b"\x81\xacgraph_module" + b"\x81\xa1a" * 2_000 + b"\xc0"), GraphwireError, "MessagePack|deep"),
    Attack("msgpack with a key that is a number", _raw(".msgpack", b"\x82\xacgraph_module\xc0\x01\x02"), FormatError, "MessagePack|key"),
    Attack("msgpack with a key twice", _raw(".msgpack", b"\x82\xacgraph_module\xc0\xacgraph_module\xc0"), FormatError, "MessagePack|twice"),
    Attack("msgpack with bytes behind it", _raw(".msgpack", b"\x81\xacgraph_module\xc0\xc0"), FormatError, "MessagePack"),
    Attack("msgpack with an unused code", _raw(".msgpack", b"\x81\xacgraph_module\xc1"), FormatError, "MessagePack"),
    Attack("msgpack with text that is no UTF-8", _raw(".msgpack", b"\x81\xacgraph_module\xa2\xff\xff"), FormatError, "MessagePack"),
    Attack("msgpack of millions of lists", _raw(".msgpack", b"\x81\xacgraph_module\xdd\x00\x02\x00\x00" + b"\x90" * (1 << 17)), GraphwireError, ""),
    Attack("CBOR with a date", _raw(".cbor", _C + b"\xa1\x6cgraph_module\xc0\x74" + b"2013-03-21T20:04:00Z"), FormatError, "CBOR"),
    Attack("CBOR with a regular expression", _raw(".cbor", _C + b"\xa1\x6cgraph_module\xd8\x23\x64(a+)"), FormatError, "CBOR"),
    Attack("CBOR with a shared value", _raw(".cbor", _C + b"\xa1\x6cgraph_module\xd8\x1c\x81\xd8\x1d\x00"), FormatError, "CBOR"),
    Attack("CBOR with references of texts", _raw(".cbor", _C + b"\xd9\x01\x00\xa1\x6cgraph_module\x00"), FormatError, "CBOR"),
    Attack("CBOR with a fraction", _raw(".cbor", _C + b"\xa1\x6cgraph_module\xc4\x82\x3a\x7f\xff\xff\xff\x01"), FormatError, "CBOR"),
    Attack("CBOR with a big float", _raw(".cbor", _C + b"\xa1\x6cgraph_module\xc5\x82\x1a\x7f\xff\xff\xff\x01"), FormatError, "CBOR"),
    Attack("CBOR with an unknown tag", _raw(".cbor", _C + b"\xa1\x6cgraph_module\xd9\x30\x39\x00"), FormatError, "CBOR"),
    Attack("CBOR with a list that does not end", _raw(".cbor", _C + b"\xa1\x6cgraph_module\x9f\x00\xff"), FormatError, "CBOR"),
    Attack("CBOR with undefined", _raw(".cbor", _C + b"\xa1\x6cgraph_module\xf7"), FormatError, "UndefinedType"),
    Attack("CBOR with a simple value", _raw(".cbor", _C + b"\xa1\x6cgraph_module\xf8\x64"), FormatError, "CBOR|CBORSimpleValue"),
    Attack("CBOR with a list that lies", _raw(".cbor", _C + b"\xa1\x6cgraph_module\x9b\xff\xff\xff\xff\xff\xff\xff\xff"), FormatError, "CBOR"),
    Attack("CBOR with a map that lies", _raw(".cbor", _C + b"\xa1\x6cgraph_module\xbb\x00\xff\xff\xff\xff\xff\xff\xff"), FormatError, "CBOR"),
    Attack("CBOR with a text that lies", _raw(".cbor", _C + b"\xa1\x6cgraph_module\x7b\x00\xff\xff\xff\xff\xff\xff\xff"), FormatError, "CBOR"),
    Attack("CBOR with bytes that lie", _raw(".cbor", _C + b"\xa1\x6cgraph_module\x5b\x7f\xff\xff\xff\xff\xff\xff\xff"), FormatError, "CBOR"),
    Attack("CBOR with a bignum that lies", _raw(".cbor", _C + b"\xa1\x6cgraph_module\xc2\x5b\x7f\xff\xff\xff\xff\xff\xff\xff"), FormatError, "CBOR"),
    Attack("CBOR with a bignum of kilobytes", _raw(".cbor", _C + b"\xa1\x6cgraph_module\xc2\x59\xff\xff" + b"\xff" * 65535), GraphwireError, ""),
    Attack("CBOR with lists in lists", _raw(".cbor", _nested_cbor(0, 100_000)), GraphwireError, "CBOR|deep"),
    Attack("CBOR with tags in tags", _raw(".cbor", _C + b"\xc1" * 100_000 + b"\x00"), GraphwireError, "CBOR|deep"),
    Attack("CBOR with bignums in bignums", _raw(".cbor", _C + b"\xc2" * 100_000 + b"\x40"), GraphwireError, "CBOR|deep"),
    Attack("CBOR with a key that is a list", _raw(".cbor", _C + b"\xa1\x80\x00"), FormatError, "CBOR|key"),
    Attack("CBOR with a key twice", _raw(".cbor", _C + b"\xa2\x61a\x00\x61a\x01"), FormatError, "CBOR"),
    Attack("CBOR without its mark", _raw(".cbor", cbor2.dumps({"graph_module": None})), FormatError, "CBOR"),
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
    "nested too deeply": (_deep(401), ValidationError, "out_spec.*treespec"),
    "no JSON": ("import os", ValidationError, "out_spec.*treespec"),
    "of another protocol": ("[2, null]", ValidationError, "out_spec.*treespec"),
    "of a leaf with children": ({**LEAF, "children_spec": [LEAF]}, ValidationError, "out_spec.*treespec"),
    "of unknown fields": ({**LEAF, "eval": "1"}, ValidationError, "out_spec.*treespec"),
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
