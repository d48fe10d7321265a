"""Our extensions of torch's schema, said in torch's own terms: what every step down begins with.

`vocabulary` says of each field, arm and extension which of these becomes of it:

    said        stack traces as the text of each node's metadata, laid out as torch writes it; provenance as JSON text there, as
                torch 2.12 writes it; of both, what is beyond the bounds of `schema.trees.unfolding` is left out; a sequence in
                the list arm for elements of its kind, where there is one; a tensor or None as one of them
    left out    what informs alone, and torch keeps none of: tuples, names of literals, metadata of values, producer, plugins …
    refused     obstacles: torch's schema has no word for them. So is whatever the vocabulary does not know

Contexts of dataclasses as torch 2.1 and 2.2 wrote them become the text that every release since reads. Texts in metadata under
`graphwire.…` stay: torch ignores what it does not know there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from graphwire.evolve.documents import (
    EXTENSIONS,
    FIELDS,
    OURS,
    ROOT,
    Edits,
    Record,
    Report,
    Where,
    arm_of,
    fields_of_torch,
    rewrite,
)
from graphwire.evolve.steps.schema_8_7 import without_optional
from graphwire.schema import (
    ARMS,
    FEATURES,
    Graph,
    GraphArgument,
    GraphModule,
    InputToTensorConstantSpec,
    ModuleCallSignature,
    NamedArgument,
    Node,
    NodeSource,
    Program,
    StackFrame,
    TensorMeta,
    UserInputSpec,
    UserOutputSpec,
)
from graphwire.schema.texts import TreeSpec, format_treespec, parse_treespec, split_version, treespec_nodes
from graphwire.schema.trees import WHY_OMITTED, TraceTexts, Unfolding, from_tree, provenance_of

_RETURNED = "torch.return_types."
"""What operators return: torch names these types from 2.15 on, whose schema is that of 2.12."""

_SPECS: Final[Mapping[str, type[msgspec.Struct]]] = {
    "user_input": UserInputSpec,
    "user_output": UserOutputSpec,
    "tensor_constant": InputToTensorConstantSpec,
}
"""The specs with fields of ours."""


class _Resolved:
    """One document on its way to torch's terms, and the extensions whose uses were reported."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self.reported: set[str] = set()

    def refuse(self, feature: str, where: Where, detail: object = "") -> None:
        """Report the use of an extension."""
        self.reported.add(feature)
        text = FEATURES.get(feature, f"the extension {feature}")
        self._report(where.obstacle(f"{text}: {detail}" if detail else text, OURS))

    def plain(self, kind: type[msgspec.Struct], record: Record, where: Where) -> Record:
        """A record without fields of ours. Obstacles are those that may not be left out, and those of which nothing is known."""
        known = _KNOWN[kind]
        if record.keys() <= known:
            return record
        rows = FIELDS[kind]
        for name, value in record.items():
            row = rows.get(name)
            if row is None:
                self._report(where.at(f".{name}").obstacle(f"{name} of a {kind.__name__}", OURS))
            elif row.feature and value not in (None, False):
                self.refuse(row.feature, where, value if isinstance(value, str) else "")
        return {name: value for name, value in record.items() if name in known}

    def spec(self, spec: Record, where: Where) -> Record:
        """A spec of an input or output, likewise."""
        arm = arm_of(spec)
        return {arm: self.plain(_SPECS[arm], spec[arm], where)} if arm in _SPECS else spec

    def argument(self, argument: Record, where: Where) -> Record:
        """An argument in an arm of torch's; as it is, and an obstacle, where there is none."""
        arm = arm_of(argument)
        row = ARMS.get(arm)
        if row is None:
            self._report(where.obstacle(f"an argument with {arm or 'no arm'}", OURS))
        elif arm == "as_graph":
            return {arm: self.plain(GraphArgument, argument[arm], where)}
        elif row.resolved:
            return without_optional(argument, where)
        elif row.feature:
            listed = _listed(argument[arm]["items"]) if arm == "as_sequence" else None
            if listed is not None:
                return listed
            self.refuse(row.feature, where)
        return argument


_KINDS: Final[tuple[type[msgspec.Struct], ...]] = (
    Program,
    GraphModule,
    Graph,
    Node,
    NamedArgument,
    TensorMeta,
    GraphArgument,
    ModuleCallSignature,
    *_SPECS.values(),
)
_KNOWN: Final = {kind: fields_of_torch(kind) for kind in _KINDS}
"""The records with fields of ours, and torch's fields of each."""


def resolve_extensions(tree: Record, report: Report, left_out: list[str] | None = None) -> Record:
    """A document of the current version without extensions; what cannot be said without is reported and left.

    Args:
        left_out: is given the reason why stack traces and origins are left out, if some are.
    """
    resolved = _Resolved(report)
    module = tree["graph_module"]
    traces = TraceTexts(from_tree(frame, StackFrame) for frame in module.get("stack_frames") or ())
    sources, provenance = _source_records(module.get("node_sources") or ())
    texts: dict[tuple[int, ...], str] = {}
    """What is written of origins, by their rows: nodes share it."""

    def origins(indices: list[int]) -> str:
        key = tuple(indices)
        return texts.get(key) or texts.setdefault(key, json.dumps([sources[index] for index in indices]))

    required = tree.get("requires") or ()
    for name in tree.get("encoded_values") or ():
        resolved.refuse("codecs", ROOT.at(f".encoded_values[{name!r}]"))
    _report_containers(tree, resolved)

    # A document that does not name its torch is older than 2.5; later ones may have such contexts of other containers.
    names_torch = tree.get("torch_version", "")[:1].isdigit()
    contexts = (lambda call: call) if names_torch else _with_contexts

    def of_node(node: Record, where: Where) -> Record:
        metadata = dict(node["metadata"])
        if node.get("stack") is not None and (trace := traces.of(node["stack"])) is not None:
            metadata["stack_trace"] = trace
        if node.get("from_node") is not None and provenance.take(node["from_node"]):
            metadata["from_node"] = origins(node["from_node"])
        inputs = [resolved.plain(NamedArgument, named, where) for named in node["inputs"]]
        return {**resolved.plain(Node, node, where), "inputs": inputs, "metadata": metadata}

    def of_call(call: Record, where: Where) -> Record:
        return contexts(resolved.plain(ModuleCallSignature, call, where))

    tree = rewrite(
        tree,
        Edits(
            argument=resolved.argument,
            node=of_node,
            graph=lambda graph, where: resolved.plain(Graph, graph, where),
            tensor_meta=lambda meta, where: resolved.plain(TensorMeta, meta, where),
            input_spec=resolved.spec,
            output_spec=resolved.spec,
            call=of_call,
        ),
    )
    for feature in required:
        fate = EXTENSIONS.get(feature)
        if fate is None or (fate == "refused" and feature not in resolved.reported):
            resolved.refuse(feature, ROOT.at(".requires"))
    module = resolved.plain(GraphModule, tree["graph_module"], ROOT.at(".graph_module"))
    omitted = traces.omitted + provenance.omitted
    if omitted and left_out is not None:
        left_out.append(WHY_OMITTED.format(omitted))
    return {**resolved.plain(Program, tree, ROOT), "graph_module": module}


def _report_containers(tree: Record, resolved: _Resolved) -> None:
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
        resolved.refuse("containers", ROOT.at(place), name)


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


# ----------------------------------------------------------------------------------------------------- arguments

_LISTS: dict[frozenset[str], tuple[str, Callable[[str, Any], Any]]] = {
    **{frozenset({row.items}): (arm, lambda arm, value: value) for arm, row in ARMS.items() if row.items},
    frozenset({"as_tensor", "as_none"}): ("as_optional_tensors", lambda arm, value: {arm: value}),
    frozenset({"as_sym_int", "as_int"}): (
        "as_sym_ints",
        lambda arm, value: value if arm == "as_sym_int" else {arm: value},
    ),
}
"""For the arms that the elements of a sequence have: the list arm that says them, and how it says each."""


def _listed(items: list[Record]) -> Record | None:
    """A sequence of these as one of torch's lists; None where there is none for them."""
    if not items:
        return {"as_tensors": []}
    kinds = [(arm_of(item), item) for item in items]
    found = _LISTS.get(frozenset(kind for kind, _ in kinds))
    if found is None:
        return None
    listed, convert = found
    return {listed: [convert(kind, item[kind]) for kind, item in kinds]}
