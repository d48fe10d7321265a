"""Our extensions of torch's schema, said in torch's own terms: what every step down begins with.

    stack, stack_frames          the text of the trace in each node's metadata, laid out as torch writes it
    from_node, node_sources      JSON text in each node's metadata, as torch 2.12 writes it
                                 of both, what is beyond the bounds of `schema.unfolding` is left out
    as_sequence                  the list arm for elements of its kind, where there is one
    tuples, container, output_list, names of literals, subgraphs' nodes and values' metadata, producer,
    readable_from, plugins,
    example_inputs, sparse       left out: they inform, and torch keeps none of them
    as_mapping, as_slice, as_dtype_name, as_layout_name, as_constant, as_treespec, other sequences, encoded values,
    payload features             obstacles: torch's schema has no word for them
    treespecs of containers that torch cannot read: also obstacles
    contexts of dataclasses as torch 2.1 and 2.2 wrote them: the text that every release since reads

Texts in metadata under `graphwire.…` stay: torch ignores what it does not know there.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from graphwire.evolve.step import report_interface
from graphwire.evolve.trees import ROOT, Edits, Record, Report, Where, arm_of, rewrite
from graphwire.schema.program import FEATURES, NodeSource, StackFrame
from graphwire.schema.tree import from_tree
from graphwire.schema.treespec import TreeSpec, format_treespec, parse_treespec, split_version, treespec_nodes
from graphwire.schema.unfolding import Unfolding, provenance_of, traces_of

__all__ = ["resolve_extensions"]

OURS = "graphwire"
"""What an obstacle names as first where no release of torch can say something."""

_OBSTACLES = {
    "as_mapping": "mappings",
    "as_slice": "slices",
    "as_dtype_name": "dtypes",
    "as_layout_name": "layouts",
    "as_constant": "constants",
    "as_treespec": "treespecs",
    "as_sequence": "sequences",
}
"""The feature behind each arm that torch does not have."""

_RETURNED = "torch.return_types."
"""What operators return: torch names these types from 2.15 on, whose schema is that of 2.12."""

_SEEN_IN_PAYLOADS = ("lazy-bits", "placement")

_NODE = ("stack", "from_node", "container")
_GRAPH = (
    "input_names",
    "value_metadata",
    "output_metadata",
    "output_list",
    "placed",
    "copies",
    "compositions",
    "held_as",
)
_MODULE = ("stack_frames", "node_sources", "inline_constraints", "replacements")
_PROGRAM = (
    "requires",
    "producer",
    "readable_from",
    "plugins",
    "example_inputs",
    "edited_values",
    "encoded_values",
)
_META = ("sparse",)
_CALL = ("input_names", "output_names")


def resolve_extensions(tree: Record, report: Report) -> Record:
    """A document of the current version without extensions; what cannot be said without is reported and left."""
    module = tree["graph_module"]
    frames = [from_tree(frame, StackFrame).text for frame in module.get("stack_frames") or ()]
    traces = traces_of(frames)
    sources, provenance = _source_records(module.get("node_sources") or ())
    texts: dict[tuple[str, tuple[int, ...]], str] = {}
    """What is written of a table, by the table and the rows: nodes share it."""

    def stack_trace(indices: list[int]) -> str:
        key = ("stack", tuple(indices))
        return texts.get(key) or texts.setdefault(key, "".join([frames[index] for index in indices]))

    def origins(indices: list[int]) -> str:
        key = ("from_node", tuple(indices))
        return texts.get(key) or texts.setdefault(key, json.dumps([sources[index] for index in indices]))

    required = tree.get("requires") or ()
    for name in tree.get("encoded_values") or ():
        report(ROOT.at(f".encoded_values[{name!r}]").obstacle(FEATURES["codecs"], OURS))
    for feature in _SEEN_IN_PAYLOADS:
        if feature in required:
            report(ROOT.at(".requires").obstacle(FEATURES[feature], OURS))

    # torch writes a text as output, and no release of it reads one; it does not even write a symbolic truth value.
    unread = {"as_string": "a text as output", "as_sym_bool": "a symbolic truth value as output"}
    report_interface(tree, report, OURS, outputs=unread)
    _report_containers(tree, report)

    # A document that does not name its torch is older than 2.5; later ones may have such contexts of other containers.
    names_torch = tree.get("torch_version", "")[:1].isdigit()
    contexts = (lambda call: call) if names_torch else _with_contexts

    def of_node(node: Record, where: Where) -> Record:
        metadata = dict(node["metadata"])
        if node.get("stack") is not None and traces.take(node["stack"]):
            metadata["stack_trace"] = stack_trace(node["stack"])
        if node.get("from_node") is not None and provenance.take(node["from_node"]):
            metadata["from_node"] = origins(node["from_node"])
        inputs = [{key: value for key, value in named.items() if key != "tuples"} for named in node["inputs"]]
        return {**_without(node, _NODE), "inputs": inputs, "metadata": metadata}

    tree = rewrite(
        tree,
        Edits(
            argument=lambda argument, where: _plain_argument(argument, where, report),
            node=of_node,
            graph=lambda graph, where: _without(graph, _GRAPH),
            tensor_meta=lambda meta, where: _plain_meta(meta, where, report),
            input_spec=_nameless("user_input"),
            output_spec=_nameless("user_output"),
            call=lambda call, where: contexts(_without(call, _CALL)),
        ),
    )
    module = _without(tree["graph_module"], _MODULE)
    return {**_without(tree, _PROGRAM), "graph_module": module}


def _report_containers(tree: Record, report: Report) -> None:
    """Report the containers of the interface that torch's own reader does not know, once each."""
    unknown: dict[str, str] = {}
    for index, call in enumerate(tree["graph_module"]["module_call_graph"]):
        for field in ("in_spec", "out_spec"):
            text = (call.get("signature") or {}).get(field, "")
            if _RETURNED in text or "@" in text:
                for place, node, _ in treespec_nodes(parse_treespec(text)):
                    if node.type and (
                        node.type.startswith(_RETURNED) or split_version(node.type)[0] != node.type
                    ):
                        where = f".graph_module.module_call_graph[{index}].signature.{field}"
                        unknown.setdefault(node.type, f"{where}.{place}" if place else where)
    for name, place in unknown.items():
        report(ROOT.at(place).obstacle(f"{FEATURES['containers']}: {name}", OURS))


def _with_contexts(call: Record) -> Record:
    """A module call whose dataclasses have texts as contexts, not `[class, fields, fields that are None]`."""
    texts = {}
    for field in ("in_spec", "out_spec"):
        spec = parse_treespec(call[field])
        if any(_is_old_dataclass(node) for _, node, _ in treespec_nodes(spec)):
            texts[field] = format_treespec(_with_texts(spec))
    return {**call, **texts}


def _with_texts(spec: TreeSpec) -> TreeSpec:
    context = json.dumps(spec.context[1:]) if _is_old_dataclass(spec) else spec.context
    return TreeSpec(spec.type, context, [_with_texts(child) for child in spec.children])


def _is_old_dataclass(spec: TreeSpec) -> bool:
    match spec.context:
        case [str(), list(fields), list(none)]:
            return all(type(each) is str for each in (*fields, *none))
    return False


def _without(record: Record, fields: tuple[str, ...]) -> Record:
    return {key: value for key, value in record.items() if key not in fields}


def _nameless(arm: str) -> Callable[[Record, Where], Record]:
    def without_name(spec: Record, where: Where) -> Record:
        user = spec.get(arm)
        return spec if user is None else {arm: {"arg": user["arg"]}}

    return without_name


def _source_records(rows: Any) -> tuple[list[Record], Unfolding]:
    """Each row of the table of sources as the nested record that torch writes, and which of them are written out."""
    sources = [from_tree(row, NodeSource) for row in rows]
    unfolding = provenance_of(sources)
    records: list[Record] = []
    for source, whole in zip(sources, unfolding.whole, strict=True):
        records.append(
            {
                "name": source.name,
                "target": source.target,
                "graph_id": source.graph_id,
                "pass_name": source.pass_name,
                "action": source.action,
                "from_node": [records[index] for index in source.from_node if whole],
            }
        )
    return records, unfolding


def _plain_meta(meta: Record, where: Where, report: Report) -> Record:
    for field, feature in (("dtype_name", "dtypes"), ("layout_name", "layouts")):
        if meta.get(field) is not None:
            report(where.obstacle(f"{FEATURES[feature]}: {meta[field]}", OURS))
    return _without(meta, _META)


# ----------------------------------------------------------------------------------------------------- arguments

_LISTS: dict[frozenset[str], tuple[str, Callable[[str, Any], Any]]] = {
    frozenset({"as_int"}): ("as_ints", lambda arm, value: value),
    frozenset({"as_float"}): ("as_floats", lambda arm, value: value),
    frozenset({"as_bool"}): ("as_bools", lambda arm, value: value),
    frozenset({"as_string"}): ("as_strings", lambda arm, value: value),
    frozenset({"as_tensor"}): ("as_tensors", lambda arm, value: value),
    frozenset({"as_tensor", "as_none"}): ("as_optional_tensors", lambda arm, value: {arm: value}),
    frozenset({"as_sym_int"}): ("as_sym_ints", lambda arm, value: value),
    frozenset({"as_sym_int", "as_int"}): (
        "as_sym_ints",
        lambda arm, value: value if arm == "as_sym_int" else {arm: value},
    ),
    frozenset({"as_sym_float"}): ("as_sym_floats", lambda arm, value: value),
    frozenset({"as_sym_bool"}): ("as_sym_bools", lambda arm, value: value),
    frozenset({"as_tensors"}): ("as_nested_tensors", lambda arm, value: value),
    frozenset({"as_ints"}): ("as_int_lists", lambda arm, value: value),
    frozenset({"as_floats"}): ("as_float_lists", lambda arm, value: value),
}
"""For the arms that the elements of a sequence have: the list arm that says them, and how it says each."""


def _plain_argument(argument: Record, where: Where, report: Report) -> Record:
    arm = arm_of(argument)
    if arm == "as_graph":
        return {"as_graph": _without(argument[arm], ("node",))}
    if arm == "as_sequence":
        items = [(arm_of(item), item) for item in argument[arm]["items"]]
        found = _LISTS.get(frozenset(kind for kind, _ in items))
        if found is not None:
            listed, convert = found
            return {listed: [convert(kind, item[kind]) for kind, item in items]}
        if not items:
            return {"as_tensors": []}
    if arm in _OBSTACLES:
        report(where.obstacle(FEATURES[_OBSTACLES[arm]], OURS))
    return argument
