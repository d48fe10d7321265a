"""What is fuzzed, each with seeds that it reads, and the tokens of its grammar."""

from __future__ import annotations

import functools
import io
import json
import random
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import cbor2
import msgpack
from trees import Stock, changed

import graphwire
from graphwire.errors import GraphwireError
from graphwire.hooks import parse_expression
from graphwire.schema.texts.guard import check_guard
from graphwire.schema.texts.infix import parse_infix
from graphwire.schema.texts.operations import FUNCTIONS, OPERATIONS
from graphwire.schema.texts.treespec import keywords_of, parse_treespec
from graphwire.wire.archive.digests import Digests
from graphwire.wire.archive.reader import ArchiveReader
from graphwire.wire.archive.writer import ArchiveWriter
from graphwire.wire.document import read_document
from graphwire.wire.torch_files.torch_save_reader import read_state_dict
from graphwire_plugins.cbor_format import CborFormat
from graphwire_plugins.json_format import JsonFormat
from graphwire_plugins.msgpack_format import MsgpackFormat

for _folder in ("attacks", "api", "../contrib/demo"):
    sys.path.append(str(Path(__file__).parents[1] / _folder))


class Target(NamedTuple):
    """Something that reads what a file says."""

    name: str
    run: Callable[[bytes], Any]
    seeds: Callable[[], Sequence[bytes]]
    tokens: Sequence[bytes] = ()
    batch: int = 50
    """Executions between two looks at the clock."""
    make: Callable[[random.Random], bytes] | None = None
    """Makes an input that knows more of the grammar than bits and tokens."""


@functools.cache
def _victim() -> Any:
    from hostile import victim

    return victim()


_TREE = {
    "graph_module": {"nodes": [{"name": "x", "inputs": [1, -1, 2**70, None, True, 0.5]}] * 3},
    "text": "é" * 20,
    "bytes": b"\0\xff" * 10,
    "floats": [float("inf"), 1e-300],
}


def _json_seeds() -> list[bytes]:
    return [
        JsonFormat().encode(_TREE),
        b'{"a":[1,2.5,-3e9,"\\u00e9\\n",null,true,false,{"b":{}}]}',
        b'[{"$float":"nan"}]',
    ]


def _archive(data: bytes) -> None:
    archive = ArchiveReader(data)
    for name in archive.names[:20]:
        archive.verify(name)
        archive.map(name)


def _archive_seeds() -> list[bytes]:
    stream = io.BytesIO()
    with ArchiveWriter(stream, digests=Digests()) as archive:
        archive.write("models/model.json", b'{"a": 1}' * 50, compress=True)
        archive.write("data/weights/weight_0", b"\0" * 40, compress=False)
        archive.write_stream("data/weights/weight_1", 64, [bytes(64)])
    return [stream.getvalue()]


def _pickle(data: bytes) -> None:
    stream = io.BytesIO()
    with ArchiveWriter(stream, root="archive", records={}) as archive:
        archive.write("data.pkl", data, compress=False)
        archive.write("byteorder", b"little", compress=False)
        for key in range(4):
            archive.write(f"data/{key}", bytes(64), compress=False)
    read_state_dict(ArchiveReader(stream.getvalue()), "data/weights/", "weight_", copied=False)


def _pickle_seeds() -> list[bytes]:
    import torch

    seeds = []
    for value in (
        {"a": torch.ones(16), "b": torch.nn.Parameter(torch.ones(4, 4))},
        {"c": [1, 2.5, "x", None, (True, 2**70)], "d": torch.ones(32, dtype=torch.bfloat16)},
    ):
        stream = io.BytesIO()
        torch.save(value, stream)
        stream.seek(0)
        seeds.append(ArchiveReader(stream).read("data.pkl"))
    return seeds


def _text(parse: Callable[[str], Any]) -> Callable[[bytes], Any]:
    return lambda data: parse(data.decode("utf-8", "surrogateescape"))


def _spec(text: str) -> None:
    keywords_of(parse_treespec(text))


def _load(data: bytes) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graphwire.loads(data)


def _document(data: bytes) -> None:
    """A program whose JSON was mutated, in an archive that is in order."""
    _load(_victim().with_records({"models/model.json": data}))


FORMATS = (JsonFormat(), MsgpackFormat(), CborFormat())
_PROGRAMS = (
    "arguments_of_every_kind",
    "cond",
    "guards",
    "inputs_of_every_kind",
    "map_and_scan",
    "tied_weights",
    "unbacked_sizes",
)


@functools.cache
def documents() -> list[Any]:
    """Good files, as the records that hostile ones are made of."""
    from hostile import Victim, victim
    from small_programs import SMALL_PROGRAMS

    return [victim(), *(Victim.of(graphwire.dumps(SMALL_PROGRAMS[name]().program)) for name in _PROGRAMS)]


@functools.cache
def _trees() -> tuple[list[Any], Stock]:
    trees = [program.document for program in documents()]
    return trees, Stock(trees)


def made_document(chance: random.Random) -> bytes:
    """A program whose tree was changed, in any format, in an archive that is in order."""
    trees, stock = _trees()
    index = chance.randrange(len(trees))
    wire_format = chance.choice(FORMATS)
    while True:
        try:
            document = wire_format.encode(changed(chance, trees[index], stock))
        except GraphwireError:  # no format can say it
            continue
        member = f"models/model{wire_format.suffix}"
        return bytes(documents()[index].with_records({"models/model.json": None, member: document}))


@functools.cache
def _old_trees() -> tuple[list[Any], Stock]:
    folder = Path(__file__).parents[1] / "evolve" / "golden"
    trees = [case["older"] for path in sorted(folder.glob("*.json")) for case in json.loads(path.read_text())]
    return trees, Stock(trees)


def _old_document_tree(chance: random.Random) -> bytes:
    """A document of an old schema whose tree was changed."""
    trees, stock = _old_trees()
    while True:
        try:
            return chance.choice(FORMATS).encode(changed(chance, chance.choice(trees), stock))
        except GraphwireError:
            continue


def _decode(data: bytes) -> None:
    graphwire.verify(data)
    graphwire.decode(data)


def _read(data: bytes) -> None:
    graphwire.verify(data)
    _load(data)


def _words(*texts: str) -> list[bytes]:
    return [text.encode() for text in texts]


_JSON_TOKENS = _words(
    "[", "]", "{", "}", ",", ":", '"', "\\ud800", "NaN", "1e999", "null", '"$bytes"', "9999999999999999999999"
)
_SYNTAX = _words(
    "(",
    ")",
    ",",
    "'",
    "**",
    "//",
    "-",
    "~",
    "[0]",
    ".size()",
    "9999999999",
    "L['x']",
    "Symbol('s0')",
    " == ",
    "not ",
    "\\",
    '"',
)

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target("json", lambda d: read_document(d, JsonFormat()), _json_seeds, _JSON_TOKENS),
        Target("msgpack", lambda d: read_document(d, MsgpackFormat()), lambda: [MsgpackFormat().encode(_TREE), msgpack.packb([{}, [], "a", b"b", 1.5])], [b"\x91", b"\xdd\xff\xff\xff\xff", b"\xdf", b"\xc7", b"\xd6\xff", b"\x81\xa1a"]),
        Target("cbor", lambda d: read_document(d, CborFormat()), lambda: [CborFormat().encode(_TREE), b"\xd9\xd9\xf7" + cbor2.dumps([{}, [], "a", b"b", 1.5])], [b"\x81", b"\x9f", b"\xff", b"\xc2", b"\xd8\x1c", b"\xbb\xff", b"\xa1\x61a", b"\xf7"]),
        Target("archive", _archive, _archive_seeds, [b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06", b"PK\x06\x06", b"../", b"\xff\xff\xff\xff"]),
        Target("expression", _text(parse_expression), lambda: _words("Add(Mul(Integer(2), Symbol('s0', positive=True, integer=True)), Integer(-1))", "Piecewise(ExprCondPair(Float('1.5', precision=53), true), ExprCondPair(Rational(1, 2), GreaterThan(Symbol('u0'), Integer(3))))"), _SYNTAX + _words(*OPERATIONS)),
        Target("infix", _text(parse_infix), lambda: _words("2*s0 - 1", "((s0 + 3)//4)*Mod(s1, 2**3) <= Max(1, -s2/3)", "~(s0 > 1) & (u0 == 2) | sqrt(s0)"), _SYNTAX + _words(*OPERATIONS)),
        Target("guard", _text(check_guard), lambda: _words("L['x'].size()[0] % 8 == 0", "not (max(L['a']['b'].stride()[1], 2**3) <= 10 and math.floor(L['x'].item() / 2) != 1)"), _SYNTAX + _words(*FUNCTIONS, "lambda", "__class__", " if 1 else ", " and ")),
        Target("treespec", _text(_spec), lambda: _words('[1, {"type": "builtins.tuple", "context": "null", "children_spec": [{"type": "builtins.tuple", "context": "null", "children_spec": []}, {"type": "builtins.dict", "context": "[\\"a\\"]", "children_spec": [{"type": null, "context": null, "children_spec": []}]}]}]'), _JSON_TOKENS + _words("children_spec", "builtins.dict", "@2")),
        Target("pickle", _pickle, _pickle_seeds, [b"c", b"R", b"Q", b"\x81", b"b", b"]", b"(", b"t", b"q\x00", b"h\x00", b"\x8c\x02os\x8c\x06system\x93", b"."]),
        Target("document", _document, lambda: [_victim().records["models/model.json"]], _JSON_TOKENS + _words('"as_int"', '"as_tensor"', "null", "-1", "s77", '"linear"'), 5),
        Target("trees", _read, lambda: [program.data for program in documents()], batch=5, make=made_document),
        Target("old trees", _decode, lambda: [JsonFormat().encode(tree) for tree in _old_trees()[0]], batch=20, make=_old_document_tree),
        Target("load", _load, lambda: [_victim().data, _victim().with_records({})], [b"PK\x03\x04", b"\xff\xff\xff\xff"], 5),
    )
}  # fmt: skip
