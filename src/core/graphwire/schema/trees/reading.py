"""Programs from bytes that msgspec reads, or from trees.

Metas of values make up most of a document and are highly repetitive: a thousand values have a few dozen metas. Equal
metas become one record, which is read, checked and freed once.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec
from msgspec.structs import astuple

from graphwire.process import TYPE_ANALYSIS
from graphwire.schema import Graph, GraphModule, Program, TensorMeta


class _UnreadGraph(Graph, omit_defaults=True):
    tensor_values: dict[str, msgspec.Raw]  # type: ignore[assignment]


class _UnreadModule(GraphModule, omit_defaults=True):
    graph: _UnreadGraph


class _UnreadProgram(Program, omit_defaults=True):
    """A program whose top-level metas are still bytes; those of subgraphs are records."""

    graph_module: _UnreadModule


class _Protocol(Protocol):
    """`msgspec.json` or `msgspec.msgpack`."""

    Decoder: Any
    encode: Any


class ProgramDecoder:
    """Reads programs from JSON or MessagePack bytes.

    Create it while a module is imported, and use it in any thread.
    """

    def __init__(self, protocol: _Protocol) -> None:
        self._protocol = protocol
        with TYPE_ANALYSIS:
            self._programs = protocol.Decoder(_UnreadProgram)
            self._metas = protocol.Decoder(list[TensorMeta])

    def decode(self, data: bytes) -> Program:
        """Return the program of a document.

        Raises:
            msgspec.MsgspecError, ValueError, RecursionError: the bytes are not a program.
        """
        program = self._programs.decode(data)
        unread = program.graph_module.graph.tensor_values
        texts = [bytes(raw) for raw in unread.values()]
        distinct = dict.fromkeys(texts)
        metas = self._metas.decode(self._protocol.encode([msgspec.Raw(text) for text in distinct]))
        known = dict(zip(distinct, metas, strict=True))
        return _with_values(program, {name: known[text] for name, text in zip(unread, texts, strict=True)})


def program_of(tree: Any) -> Program:
    """Return the program of a tree.

    Raises:
        msgspec.ValidationError, RecursionError: the tree has another shape.
    """
    try:
        module = tree["graph_module"]
        graph = module["graph"]
        given = graph["tensor_values"].items()
    except (LookupError, TypeError, AttributeError):
        return msgspec.convert(tree, Program)
    known: dict[bytes, TensorMeta] = {}
    values: dict[str, TensorMeta] = {}
    try:
        for name, described in given:
            if type(name) is not str:
                return msgspec.convert(tree, Program)
            text = msgspec.msgpack.encode(described)
            meta = known.get(text)
            if meta is None:
                meta = known[text] = msgspec.convert(described, TensorMeta)
            values[name] = meta
    except (msgspec.MsgspecError, ValueError, OverflowError, TypeError):
        return msgspec.convert(tree, Program)  # reports the place of the problem
    bare = {**tree, "graph_module": {**module, "graph": {**graph, "tensor_values": {}}}}
    return _with_values(msgspec.convert(bare, Program), values)


def _with_values(program: Program, values: dict[str, TensorMeta]) -> Program:
    module = program.graph_module
    graph = Graph(*astuple(module.graph))
    graph.tensor_values = values
    whole = Program(*astuple(program))
    whole.graph_module = GraphModule(*astuple(module))
    whole.graph_module.graph = graph
    return whole
