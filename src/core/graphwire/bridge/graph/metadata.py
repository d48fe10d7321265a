"""Converts the metadata of nodes (`node.meta`) to and from the texts and tables of the schema.

If torch's own schema has a text form, that form is used. Stack traces and provenance become tables with one row for each
distinct frame and source, since a program repeats them on every node.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.fx.traceback import NodeSource as TorchNodeSource, NodeSourceAction

from graphwire.analysis.load_report import Omission
from graphwire.bridge.context import DecodeContext, EncodeContext, KeptMetadata
from graphwire.bridge.graph.operators import name_of_operator
from graphwire.bridge.torch_compat.private import move_to_start
from graphwire.bridge.torch_compat.source_functions import function_table, name_of_function, operator_packet
from graphwire.errors import (
    DecodeError,
    EncodeError,
    SchemaError,
    UnknownTypeError,
    located,
    shown,
    unless_interrupted,
)
from graphwire.schema import NodeSource, ValueMetadata
from graphwire.schema.texts.metadata import (
    DECLARED,
    EXACT_SOURCE_FN,
    EXACT_STACK,
    EXACT_TORCH_FN,
    SourceRow,
    joined_module,
    parse_functions,
    parse_json,
    parse_modules,
    parse_parts,
    parse_sources,
    split_modules,
)
from graphwire.schema.texts.treespec import decode_value, encode_value
from graphwire.schema.trees import MAX_DEPTH, Unfolding
from graphwire.wire.document import check_expanded_size, check_plugin_tree

UNKNOWN_KEY = "nobody here knows what they say; a program computes the same without"
UNDECLARED = "no plugin in force declares the key. A save writes them as they are"
UNKNOWN_TYPE = "nobody has imported a type that is named there. A save writes them as they are"
NO_ROWS = "the text is no rows of a key, a path and a type"
NO_MAPPING = "the text is JSON of no mapping"
SAID_TWICE = "the node says it in another way, too"
NO_NODE = "the graph has no such node"
_SHOWN = 5
_KEPT = frozenset(("stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn", "custom", "from_node"))
_STACK_REMEDY = "Let `nn_module_stack` map keys to the qualified name and the class of a module"


def encode_metadata(context: EncodeContext, meta: dict[str, Any]) -> ValueMetadata:
    """Encode the metadata of a node: everything in `meta` that a program keeps, except `val`, which the outputs represent.

    Raises:
        EncodeError: JSON cannot represent the data in `custom`.
    """
    texts: dict[str, str] = {}
    sources = None
    trace = meta.get("stack_trace")
    if trace is not None and type(trace) is not str and not isinstance(trace, str):
        raise TypeError("the stack trace of a node is no text")  # its hash may take forever
    if trace:
        if trace not in context.traces:
            context.traces[trace] = context.numbers.trace(_with_line_feeds(trace))
        texts["stack_trace"] = context.traces[trace]
    if (modules := meta.get("nn_module_stack")) is not None:
        _encode_module_stack(context, modules, texts)
    # What most nodes lack is not asked for by a call.
    if "source_fn_stack" in meta and (functions := meta["source_fn_stack"]) is not None:
        _encode_source_fn(context, functions, texts)
    if (called := meta.get("torch_fn")) is not None:
        _encode_torch_fn(called, texts)
    if "custom" in meta and (custom := meta["custom"]) is not None:
        if not isinstance(custom, dict):
            raise EncodeError(
                f"meta['custom'] of a node is a {type(custom).__name__}, of which torch wants entries",
                remedy="Let it be a dict",
            )
        if custom:
            texts["custom"] = encode_custom(context, custom)
    origin = meta.get("from_node")
    if origin is not None:
        sources = [encode_source(context, s) for s in _checked_origins(origin)]
    if context.has_declared and not context.declared_keys.isdisjoint(meta):
        encode_declared(context, meta, texts)
    return ValueMetadata(texts, None, sources)


def has_saved_metadata(context: EncodeContext, meta: dict[str, Any]) -> bool:
    """Return whether `meta` may have something that `encode_metadata` writes. Most inputs have nothing."""
    return not _KEPT.isdisjoint(meta) or (context.has_declared and not context.declared_keys.isdisjoint(meta))


def decode_metadata(context: DecodeContext, record: Any) -> dict[str, Any]:
    """Decode `node.meta`, without `val`, from a Node or ValueMetadata record."""
    meta: dict[str, Any] = {}
    if record.stack is not None and (trace := decode_stack(context, record.stack)) is not None:
        meta["stack_trace"] = trace
    texts = context.texts
    for named in record.metadata.items():
        known = texts.get(named)
        if known is None:
            if named[0] == "from_node" and not context.describes:
                continue
            known = texts[named] = _decode_text(context, *named)
        name, value = known
        if value is None or (name == "from_node" and not context.provenance.take_length(len(named[1]))):
            continue
        if name in meta:
            note_unread(context, named[0], SAID_TWICE)
        kind = type(value)
        meta[name] = value.copy() if kind is dict or kind is list else value
    if "custom" in meta:
        meta["custom"] = json.loads(record.metadata["custom"])
    if record.from_node is not None and context.describes and context.provenance.take(record.from_node):
        if "from_node" in meta:
            note_unread(context, "from_node", SAID_TWICE)
        meta["from_node"] = [context.sources[index] for index in record.from_node]
    return meta


def note_unread(context: DecodeContext, key: str, reason: str) -> None:
    """Note a key of metadata that the document has and the program has not."""
    context.unread_metadata.setdefault(reason, set()).add(key)


def unread_metadata(context: DecodeContext) -> Iterator[Omission]:
    """What was noted of the whole program, by the names of the keys."""
    for reason, keys in sorted(context.unread_metadata.items()):
        shown_keys = [f"{key!r:.80}" for key in heapq.nsmallest(_SHOWN, keys)]
        more = f" and {len(keys) - _SHOWN:,} more" if len(keys) > _SHOWN else ""
        yield Omission(f"texts of nodes under {', '.join(shown_keys)}{more}", reason)


def _decode_text(context: DecodeContext, key: str, text: str) -> tuple[str, Any]:
    """What a text says under which name; None for nothing, and for what nobody here knows, which is noted."""
    if key.startswith(DECLARED):
        name = key.removeprefix(DECLARED)
        value = _decode_declared(context, text, name)
        return key if isinstance(value, KeptMetadata) else name, value
    if key not in _DECODERS:
        note_unread(context, key, UNKNOWN_KEY)
        return key, None
    name, decode = _DECODERS[key]
    return (name, decode(context, text)) if text else (key, None)


# ------------------------------------------------------------------------------------------------- stack traces


def _with_line_feeds(trace: str) -> str:
    """Return a trace in which only line feeds end lines: loaders write it into comments of generated code."""
    if "\r" not in trace and "\0" not in trace:
        return trace
    return trace.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")


def decode_stack(context: DecodeContext, indices: list[int]) -> str | None:
    """Return the stack trace, as Python prints it, of the given rows of the frame table; None if it exceeds the bounds."""
    key = tuple(indices)
    text = context.stacks.get(key)
    if text is None and context.traces.take(indices):
        text = context.stacks[key] = "".join([context.frames[index] for index in indices])
    return text


# ----------------------------------------------------------------------------------------------- module stacks


def _encode_module_stack(context: EncodeContext, stack: Any, texts: dict[str, str]) -> None:
    if not isinstance(stack, dict):
        raise EncodeError(f"the module stack is {shown(stack)}", remedy=_STACK_REMEDY)
    if not stack:
        return
    modules = tuple(stack)
    known = context.module_stacks.get(modules)
    if known is None or known[0] != stack:
        known = context.module_stacks[modules] = (stack, *_module_stack_text(context, stack))
    texts[known[1]] = known[2]


def _module_stack_text(context: EncodeContext, stack: dict[Any, Any]) -> tuple[str, str]:
    """Return the key and text of a module stack. Stacks share the rows of their outer modules."""
    known, rows = context.module_rows, []
    for entry in stack.items():
        try:
            row = known.get(entry)
        except TypeError:  # no key of a dict, so no path and type: `_module_parts` tells which
            row = None
        if row is None:
            parts = _module_parts(context, entry)
            row = joined_module(parts) if type(entry[0]) is str else None
            if row is None:
                return EXACT_STACK, json.dumps([_module_parts(context, entry) for entry in stack.items()])
            known[entry] = row
        rows.append(row)
    return "nn_module_stack", ";".join(rows)


def _module_parts(context: EncodeContext, entry: tuple[Any, Any]) -> tuple[str, str, str]:
    """Return the key, path and type of a module, as texts."""
    key, of_key = entry
    if not (type(of_key) is tuple or isinstance(of_key, tuple)) or len(of_key) != 2:
        raise EncodeError(f"the module stack has {shown(of_key)} for a path and a type", remedy=_STACK_REMEDY)
    path, kind = of_key
    if not isinstance(path, str) or not (type(kind) is str or callable(kind) or isinstance(kind, str)):
        wrong = kind if isinstance(path, str) else path
        raise EncodeError(
            f"the module stack has {shown(wrong)} in the entry of {shown(key)}", remedy=_STACK_REMEDY
        )
    key = context.numbers.module(str(key))
    return key, path, kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"


def _decode_module_stack(context: DecodeContext, text: str) -> dict[str, tuple[str, str]]:
    rows = split_modules(text, context.module_rows)
    if rows is None:
        note_unread(context, "nn_module_stack", NO_ROWS)
    return _stack_of(rows or ())


def _stack_of(rows: Iterable[tuple[str, str, str]]) -> dict[str, tuple[str, str]]:
    return {key: (path, kind) for key, path, kind in rows}


# -------------------------------------------------------------------------------------- functions and free data


def _function_name(context: EncodeContext, function: Any) -> str:
    if isinstance(function, str):
        return function
    return name_of_operator(context.registry, function) or name_of_function(function)


def _encode_source_fn(context: EncodeContext, stack: list[tuple[str, Any]], texts: dict[str, str]) -> None:
    try:
        rows = [(name + "", _function_name(context, function)) for name, function in stack]
    except (TypeError, ValueError) as error:
        raise EncodeError(
            "the stack of source functions is not a list of names and functions",
            remedy="Use pairs of a name and a function in `source_fn_stack`, or leave it out",
        ) from error
    if not rows:
        return
    if any("," in part or ";" in part for row in rows for part in row):
        texts[EXACT_SOURCE_FN] = json.dumps(rows)
    else:
        texts["source_fn_stack"] = ";".join(",".join(row) for row in rows)


def _decode_source_fn(context: DecodeContext, text: str) -> list[tuple[str, Any]]:
    return _functions(context, (row.partition(",")[::2] for row in text.split(";")))


def _functions(context: DecodeContext, rows: Iterable[tuple[str, str]]) -> list[tuple[str, Any]]:
    return [(name, _function(context, function)) for name, function in rows]


def _function(context: DecodeContext, name: str) -> Any:
    """Return the class or function of that name in torch, Python or an operator library; otherwise the name itself."""
    known = function_table().get(name) or operator_packet(name)
    if known is not None:
        return known
    handler = context.registry.op_handler(name)
    resolved = None if handler is None else handler.resolve(name)
    return name if resolved is None else resolved


def _encode_torch_fn(parts: tuple[str, ...], texts: dict[str, str]) -> None:
    text = ";".join(parts)
    if not parts:
        return
    if not text or text.count(";") != len(parts) - 1:
        texts[EXACT_TORCH_FN] = json.dumps(parts)
    else:
        texts["torch_fn"] = text


def encode_custom(context: EncodeContext, custom: Any) -> str:
    """Encode `meta["custom"]` as JSON, and note if it is read as something else, such as a list for a tuple.

    Raises:
        EncodeError: JSON cannot represent it.
    """
    check_expanded_size(custom, "meta['custom']")
    try:
        text = json.dumps(custom)
    except (TypeError, ValueError, RecursionError) as error:
        raise EncodeError(
            f"meta['custom'] is not data that JSON can represent ({error})", remedy="Keep plain data there"
        ) from error
    if repr(json.loads(text)) != repr(custom):
        context.unsaved.setdefault(
            "that values in meta['custom'] are tuples, or of others than JSON's types", ""
        )
    return text


def encode_declared(context: EncodeContext, meta: Mapping[str, Any], texts: dict[str, str]) -> None:
    """Add the metadata of a node or graph module that plugins declare.

    Raises:
        EncodeError: a value cannot be encoded exactly.
    """
    declared = context.registry.metadata_key_names
    for key in (*declared, *sorted(context.declared_keys.difference(declared))):
        if key not in meta:
            continue
        if not isinstance(value := meta[key], KeptMetadata):
            texts[DECLARED + key] = _declared_text(value, f"meta[{key!r}]")
            context.provided.add(("metadata_key", key))
        elif (known := key.removeprefix(DECLARED)) not in meta:
            texts[key] = value.text
            context.kept_plugins[known] = value.distribution, value.version


def _declared_text(value: Any, place: str) -> str:
    try:
        tree = encode_value(value, place)
        check_plugin_tree(tree, "the pass that set it", place, escaped=True)
        text = json.dumps(tree)
        decode_value(parse_json(text), place)
    except RecursionError as error:
        raise EncodeError("the value is nested too deeply, or contains itself", place=place) from error
    except (DecodeError, SchemaError) as error:
        raise EncodeError(f"the encoded value could not be decoded: {error.problem}", place=place) from error
    return text


def decode_declared(context: DecodeContext, metadata: Mapping[str, str]) -> dict[str, Any]:
    """Decode the metadata of a graph module that plugins declare."""
    found = {}
    for key, text in metadata.items():
        if key.startswith(DECLARED):
            name = key.removeprefix(DECLARED)
            if (value := _decode_declared(context, text, name)) is not None:
                found[key if isinstance(value, KeptMetadata) else name] = value
        elif key != "custom":
            note_unread(context, key, UNKNOWN_KEY)
    return found


def _decode_declared(context: DecodeContext, text: str, key: str) -> Any:
    if key not in context.registry.metadata_key_names:
        return _kept(context, text, key, UNDECLARED)
    try:
        return decode_value(parse_json(text), f"metadata[{key!r}]")
    except UnknownTypeError:  # an enum that nobody imported; a program computes the same without
        return _kept(context, text, key, UNKNOWN_TYPE)


def _kept(context: DecodeContext, text: str, key: str, reason: str) -> KeptMetadata:
    """Return what nobody here can read as its text, and note it with the plugin that the document names."""
    by = context.declarers.get(key)
    if by is None:
        note_unread(context, key, reason)
        return KeptMetadata(text)
    note_unread(context, key, f"{reason}. It comes with {by.distribution:.80} {by.version:.40}")
    return KeptMetadata(text, by.distribution, by.version)


def _decode_custom(context: DecodeContext, text: str) -> str | None:
    """The text itself: each node gets a value of its own."""
    if isinstance(parse_json(text), dict):
        return text
    note_unread(context, "custom", NO_MAPPING)  # torch copies the entries where it generates code
    return None


# ---------------------------------------------------------------------------------------------------- provenance


def _checked_origins(origins: Any) -> Iterable[TorchNodeSource]:
    if isinstance(origins, (list, tuple)) and all(isinstance(each, TorchNodeSource) for each in origins):
        return origins
    raise EncodeError(
        "where a node comes from is no list of torch's objects of it",
        place="from_node",
        remedy="Let `from_node` hold `torch.fx.traceback.NodeSource`s, or leave it out",
    )


def encode_source(context: EncodeContext, source: TorchNodeSource) -> int:
    """Return the index of a source in the table of sources; add the source, after its own sources. Each object is visited
    once,
    also if many nodes share it.

    Raises:
        EncodeError: a source is its own origin.
    """
    seen = context.seen_sources
    pending = [] if id(source) in seen else [(source, iter(source.from_node))]
    inside = {id(source)}
    while pending:
        each, rest = pending[-1]
        for origin in rest:
            if id(origin) in inside:
                raise EncodeError(
                    f"an origin of the node {each.name!r:.80} comes from itself", place="from_node"
                )
            if id(origin) not in seen:
                pending.append((origin, iter(origin.from_node)))
                inside.add(id(origin))
                break
        else:
            pending.pop()
            inside.discard(id(each))
            seen[id(each)] = (each, _row_of_source(context, each))
    return seen[id(source)][1]


def _row_of_source(context: EncodeContext, source: TorchNodeSource) -> int:
    earlier = tuple([context.seen_sources[id(origin)][1] for origin in source.from_node])
    action = "+".join([action.name.lower() for action in source.action])
    numbers = context.numbers
    target, graph = numbers.target(source.target), numbers.graph(source.graph_id)
    key = (source.name, target, graph, source.pass_name, action, earlier)
    index = context.sources.get(key)
    if index is None:
        index = context.sources[key] = len(context.source_records)
        context.source_records.append(NodeSource(*key[:5], list(earlier)))
    return index


def decode_sources(records: list[NodeSource], unfolding: Unfolding) -> list[TorchNodeSource]:
    """Decode the table of sources to torch's objects. Rows refer to earlier rows only; rows beyond the bounds get no origins.

    Raises:
        DecodeError: the installed torch does not have an action of a pass.
    """
    sources: list[TorchNodeSource] = []
    with located(lambda: f"node_sources[{index}]"):
        for index, record in enumerate(records):
            origins = record.from_node if unfolding.whole[index] else ()
            sources.append(_source(record, [sources[earlier] for earlier in origins]))
    return sources


def _source(record: NodeSource, origins: list[TorchNodeSource]) -> TorchNodeSource:
    source = TorchNodeSource(None, record.pass_name)
    source.action = [_action(name) for name in record.action.split("+") if name]
    source.from_node = origins
    if record.name or record.target or record.graph_id != -1:
        source.node_info = TorchNodeSource.NodeInfo(record.name, record.target, record.graph_id)
    return source


def _action(name: str) -> NodeSourceAction:
    action = NodeSourceAction.__members__.get(name.upper())
    if action is None:
        raise DecodeError(f"this torch does not support the action {name!r:.80} of a pass", place="action")
    return action


def decode_source_texts(context: DecodeContext, text: str) -> list[TorchNodeSource]:
    """Decode provenance from the JSON text that torch writes on each node."""
    return [_source_of_row(context, row, 1) for row in parse_sources(text)]


def _source_of_row(context: DecodeContext, row: SourceRow, depth: int) -> TorchNodeSource:
    record = NodeSource(row.name, row.target, row.graph_id, row.pass_name, row.action)
    if row.from_node and depth == MAX_DEPTH:
        context.provenance.omitted += 1
        return _source(record, [])
    return _source(record, [_source_of_row(context, origin, depth + 1) for origin in row.from_node])


_DECODERS: dict[str, tuple[str, Callable[[DecodeContext, str], Any]]] = {
    "nn_module_stack": ("nn_module_stack", _decode_module_stack),
    EXACT_STACK: ("nn_module_stack", lambda _, text: _stack_of(parse_modules(text))),
    "source_fn_stack": ("source_fn_stack", _decode_source_fn),
    EXACT_SOURCE_FN: ("source_fn_stack", lambda context, text: _functions(context, parse_functions(text))),
    "torch_fn": ("torch_fn", lambda _, text: tuple(text.split(";"))),
    EXACT_TORCH_FN: ("torch_fn", lambda _, text: tuple(parse_parts(text))),
    "custom": ("custom", _decode_custom),
    "stack_trace": ("stack_trace", lambda _, text: text),
    "from_node": ("from_node", decode_source_texts),
}
"""For each key of a document, the key in `node.meta`, and the decoder of its text."""


# --------------------------------- positions of `getitem` and `get_attr` nodes, which have no node records of their own
# By default such a node is next to the node that makes, or first uses, the value it reads; a graph record lists exceptions.


def append_in_default_order(
    order: dict[torch.fx.Node, None], node: torch.fx.Node, attributes: Collection[torch.fx.Node]
) -> None:
    """Append a node to the order that a record implies, after the nodes of `attributes` that it is the first to use."""
    for used in node.all_input_nodes:
        if used in attributes:
            order.setdefault(used)
    order.setdefault(node)


def nondefault_positions(
    nodes: Sequence[torch.fx.Node], by_rule: Mapping[torch.fx.Node, None]
) -> dict[str, str]:
    """Return the nodes that are not at their default position, each with the node before it (empty: it is the first).

    Args:
        nodes: the nodes in their actual order; those not in `by_rule` are skipped.
    """
    standing = [node for node in nodes if node in by_rule]
    expected = list(by_rule)
    if standing == expected:
        return {}
    before = dict(zip(expected[1:], expected, strict=False))
    moved: dict[str, str] = {}
    previous: torch.fx.Node | None = None
    for node in standing:
        if _reads(node) and (
            before.get(node) is not previous or (previous is not None and previous.name in moved)
        ):
            moved[node.name] = "" if previous is None else previous.name
        previous = node
    return moved


def _reads(node: torch.fx.Node) -> bool:
    import operator

    return node.op == "get_attr" or node.target is operator.getitem


def move_nodes(graph: torch.fx.Graph, placed: Mapping[str, str]) -> None:
    """Move nodes to their recorded positions. Skips nodes that an upgrade removed.

    Raises:
        DecodeError: a node would precede a node it reads, or follow one that uses it.
    """
    if not placed:
        return
    named = {node.name: node for node in graph.nodes}
    for name, behind in placed.items():
        node, anchor = named.get(name), named.get(behind)
        if node is None or not _reads(node) or (anchor is None and behind):
            continue
        if anchor is None:
            move_to_start(graph, node)
        else:
            anchor.append(node)
    try:
        graph.lint()
    except unless_interrupted(RuntimeError) as error:
        raise DecodeError(f"nodes cannot be at their recorded positions: {error}") from error
