"""How do records become plain trees, and trees records?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec.structs import astuple

from graphwire import schema
from graphwire.errors import SchemaError, SchemaVersionError, UnsupportedFeatureError
from graphwire.process import TYPE_ANALYSIS

# ---------------------------------------------------------------- programs from bytes that msgspec reads, or from trees
# Metas of values make up most of a document and are highly repetitive: a thousand values have a few dozen metas. Equal metas
# become one record, which is read, checked and freed once.


class _UnreadGraph(schema.Graph, omit_defaults=True):
    tensor_values: dict[str, msgspec.Raw]  # type: ignore[assignment]


class _UnreadModule(schema.GraphModule, omit_defaults=True):
    graph: _UnreadGraph


class _UnreadProgram(schema.Program, omit_defaults=True):
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
            self._metas = protocol.Decoder(list[schema.TensorMeta])

    def decode(self, data: bytes, *, exactly: bool = False) -> schema.Program:
        """Return the program of a document.

        Args:
            exactly: whether the protocol writes the records as these bytes: none has an unknown field, or a key twice.

        Raises:
            msgspec.MsgspecError, ValueError, RecursionError: the bytes are not a program, or not exactly.
        """
        encode = self._protocol.encode
        program = self._programs.decode(data)
        unread = program.graph_module.graph.tensor_values
        texts = [bytes(raw) for raw in unread.values()]
        distinct = dict.fromkeys(texts)
        listed = encode([msgspec.Raw(text) for text in distinct])
        metas = self._metas.decode(listed)
        # The bytes of metas are compared once for each distinct one: `program` still has them as they are.
        if exactly and (encode(program) != data or encode(metas) != listed):
            raise ValueError("the document has more than its records")
        known = dict(zip(distinct, metas, strict=True))
        return _with_values(program, {name: known[text] for name, text in zip(unread, texts, strict=True)})


class _UnreadMeta(schema.PayloadMeta, omit_defaults=True):
    """A payload whose tensor is still described by bytes."""

    tensor_meta: msgspec.Raw  # type: ignore[assignment]


class _UnreadConfig(msgspec.Struct):
    config: dict[str, _UnreadMeta]


with TYPE_ANALYSIS:
    _CONFIGS = msgspec.json.Decoder(_UnreadConfig)
    _DESCRIBED = msgspec.json.Decoder(list[schema.TensorMeta | None])


def payloads_of_config(data: bytes) -> dict[str, schema.PayloadMeta] | None:
    """Return the payloads of a config, if msgspec writes them as these bytes; None for any other, which may be damaged. Equal
    tensor metas are one record."""
    encode = msgspec.json.encode
    try:
        unread = _CONFIGS.decode(data)
        texts = [bytes(meta.tensor_meta) for meta in unread.config.values()]
        distinct = dict.fromkeys(texts)
        listed = encode([msgspec.Raw(text) for text in distinct])
        metas = _DESCRIBED.decode(listed)
        if encode(unread) != data or encode(metas) != listed:
            return None
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    known = dict(zip(distinct, metas, strict=True))
    config: dict[str, schema.PayloadMeta] = {}
    for (name, meta), text in zip(unread.config.items(), texts, strict=True):
        config[name] = made = schema.PayloadMeta(*astuple(meta))
        made.tensor_meta = known[text]
    return config


def program_of(tree: Any) -> schema.Program:
    """Return the program of a tree.

    Raises:
        msgspec.ValidationError, RecursionError: the tree has another shape.
    """
    try:
        module = tree["graph_module"]
        graph = module["graph"]
        given = graph["tensor_values"].items()
    except (LookupError, TypeError, AttributeError):
        return msgspec.convert(tree, schema.Program)
    known: dict[bytes, schema.TensorMeta] = {}
    values: dict[str, schema.TensorMeta] = {}
    try:
        for name, described in given:
            if type(name) is not str:
                return msgspec.convert(tree, schema.Program)
            text = msgspec.msgpack.encode(described)
            meta = known.get(text)
            if meta is None:
                meta = known[text] = msgspec.convert(described, schema.TensorMeta)
            values[name] = meta
    except (msgspec.MsgspecError, ValueError, OverflowError, TypeError):
        return msgspec.convert(tree, schema.Program)  # reports the place of the problem
    bare = {**tree, "graph_module": {**module, "graph": {**graph, "tensor_values": {}}}}
    return _with_values(msgspec.convert(bare, schema.Program), values)


def _with_values(program: schema.Program, values: dict[str, schema.TensorMeta]) -> schema.Program:
    module = program.graph_module
    graph = schema.Graph(*astuple(module.graph))
    graph.tensor_values = values
    whole = schema.Program(*astuple(program))
    whole.graph_module = schema.GraphModule(*astuple(module))
    whole.graph_module.graph = graph
    return whole


# ----------------------------------------------------------------------- conversion of records to plain trees, and back


Record = TypeVar("Record")

# Analysed here, once: `msgspec.convert` would do it in any thread.
with TYPE_ANALYSIS:
    msgspec.json.Decoder(schema.Program)
    msgspec.json.Decoder(schema.TensorMeta)


def to_tree(record: Any) -> Any:
    """Convert a record to dicts, lists and scalars, in the shape of torch's JSON.

    Do not change the result. The metas of a program's values, which make up most of it, are converted once for each
    distinct record, and the tree shares them.
    """
    if not isinstance(record, schema.Program):
        return _plain(record)
    module = record.graph_module
    graph = msgspec.structs.replace(module.graph, tensor_values={})
    bare = msgspec.structs.replace(record, graph_module=msgspec.structs.replace(module, graph=graph))
    tree = _plain(bare)
    metas: dict[int, Any] = {}
    values = tree["graph_module"]["graph"]["tensor_values"] = {}
    for name, meta in module.graph.tensor_values.items():
        made = metas.get(id(meta))
        if made is None:
            made = metas[id(meta)] = _plain(meta)
        values[name] = made
    return tree


def _plain(record: Any) -> Any:
    return msgspec.to_builtins(record, builtin_types=(bytes, bytearray, memoryview))


def from_tree(tree: Any, kind: type[Record]) -> Record:
    """Convert a tree to a record of type `kind`.

    Raises:
        SchemaError: the tree has another shape; `place` tells where.
    """
    try:
        return program_of(tree) if kind is schema.Program else msgspec.convert(tree, kind)  # type: ignore[return-value]
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `$")
        place = path.rstrip("`").removeprefix(".")
        raise SchemaError(text, place=place, remedy="The document is damaged, or of another kind") from error


def program_from_tree(tree: Any) -> schema.Program:
    """Convert a tree of the current schema to a program.

    Raises:
        SchemaVersionError: the tree has another major version.
        UnsupportedFeatureError: the tree requires an extension that this version does not know.
        SchemaError: the tree has another shape.
    """
    if not isinstance(tree, dict):
        raise SchemaError(f"a program is a mapping, not {type(tree).__name__}")
    version = tree.get("schema_version")
    major = version.get("major") if isinstance(version, dict) else version
    if major != schema.SCHEMA_VERSION[0]:
        raise SchemaVersionError(
            f"schema version {version!r} is not {schema.SCHEMA_VERSION[0]}.x",
            place="schema_version",
            remedy="A newer graphwire may read it",
        )
    required = tree.get("requires", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise SchemaError("a list of feature names is expected", place="requires")
    unknown = [name for name in required if name not in schema.FEATURES]
    if unknown:
        raise UnsupportedFeatureError(
            f"the document requires {', '.join(unknown)}, which this version of graphwire does not support",
            place="requires",
            remedy="Install a newer graphwire",
        )
    return from_tree(tree, schema.Program)


# ------------------------------ expansion of shared tables, such as stack traces, with bounds on the size of the result
# A table stores once what a thousand nodes share, and forty rows that refer to each other can expand to 2**40 parts. torch
# has no tables: it stores a text on each node, and copies the origins of each. Therefore each use is measured from the row
# lengths before it is expanded, and a use beyond the bounds is dropped. The data is informative only; the program computes
# the same without it.


MAX_DEPTH = 40
"""Nesting depth of rows. torch copies them by recursion, at most about a hundred deep. A real program has a handful."""
MAX_PARTS = 256
"""Rows that one row expands to, those inside it included."""
MAX_TRACES = 1 << 28
"""Characters of all stack traces: enough for 100,000 nodes with 3 KB each."""
MAX_PROVENANCE = 1 << 26
"""Characters of all origins: enough for 100,000 nodes with 400 each."""


OMITTED = "stack traces and origins of nodes"
"""The kind of data that is dropped, for messages."""
WHY_OMITTED = "{:,} are longer, written out, than any real ones; a program computes the same without"
"""The reason for dropping data; the placeholder is the number of dropped uses."""


class Unfolding:
    """Measures the uses of a table, and decides which of them to expand."""

    def __init__(
        self, left: int, lengths: Sequence[int], origins: Sequence[Sequence[int]] | None = None
    ) -> None:
        """Measure the rows of a table.

        Args:
            left: the total number of characters that may be written.
            lengths: the characters of each row alone.
            origins: for each row, the earlier rows that it refers to; None if rows do not refer to others.
        """
        self.left = left
        self.omitted = 0
        """The number of dropped uses."""
        self.whole = [True] * len(lengths)
        """For each row, whether it is expanded with the rows that it refers to. Otherwise it is written alone."""
        self._lengths = list(lengths)
        depths = [1] * len(lengths)
        parts = [1] * len(lengths)
        for index, earlier in enumerate(origins or ()):
            if not earlier:
                continue
            depth = 1 + max([depths[each] for each in earlier])
            count = 1 + sum([parts[each] for each in earlier])
            if depth > MAX_DEPTH or count > MAX_PARTS:
                self.whole[index] = False
                self.omitted += 1
                continue
            depths[index], parts[index] = depth, count
            self._lengths[index] += sum([self._lengths[each] for each in earlier])

    def take(self, indices: Sequence[int]) -> bool:
        """Whether to expand the rows of one use: true as long as enough characters are left."""
        return self.take_length(sum([self._lengths[index] for index in indices]))

    def take_length(self, length: int) -> bool:
        """Whether to write a text of a node: true as long as enough characters are left."""
        if length > self.left:
            self.omitted += 1
            return False
        self.left -= length
        return True


def provenance_of(rows: Sequence[schema.NodeSource]) -> Unfolding:
    """Measure a program's table of node origins."""
    return Unfolding(MAX_PROVENANCE, [row.length for row in rows], [row.from_node for row in rows])


def traces_of(frames: Sequence[str]) -> Unfolding:
    """Measure a program's stack frames, as Python prints them."""
    return Unfolding(MAX_TRACES, [len(frame) for frame in frames])


class TraceTexts:
    """Expands stack traces from table rows to the texts that torch stores on nodes."""

    def __init__(self, frames: Iterable[schema.StackFrame]) -> None:
        self._frames = [frame.text for frame in frames]
        self._bounds = traces_of(self._frames)
        self._texts: dict[tuple[int, ...], str] = {}

    @property
    def omitted(self) -> int:
        """The number of traces dropped because all traces together exceed the bounds."""
        return self._bounds.omitted

    def of(self, indices: Sequence[int]) -> str | None:
        """Return the trace with the given frames, as Python prints it; None if it exceeds the bounds."""
        if not self._bounds.take(indices):
            return None
        key = tuple(indices)
        return self._texts.get(key) or self._texts.setdefault(
            key, "".join([self._frames[index] for index in indices])
        )
