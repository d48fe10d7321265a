"""Converts graphwire's extensions of the schema to torch's own terms; every step down begins with this.

Each field, variant and extension of graphwire's own (`vocabulary`) gets one of these treatments:

    converted   stack traces as the text of each node's metadata, in torch's layout; provenance as JSON text there, as torch
                2.12 writes it (both without what exceeds the bounds of `schema.trees`); a sequence in the list
                variant for elements of its kind, where there is one; a tensor or None as one of them
    dropped     what is only informative and torch does not store: tuples, names of literals, metadata of values, producer …
    refused     obstacles: torch's schema cannot express them. The same holds for what the vocabulary does not list

Contexts of dataclasses in the form of torch 2.1 and 2.2 become the text that every release since reads. Texts in metadata
under `graphwire.…` stay: torch ignores unknown keys there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

import msgspec
from msgspec.structs import asdict

from graphwire import schema
from graphwire.evolve import trees
from graphwire.evolve.steps.order import without_optional
from graphwire.evolve.trees import Record, Where
from graphwire.evolve.vocabulary import EXTENSIONS, FIELDS, fields_of_torch
from graphwire.schema import VARIANTS
from graphwire.schema.texts import treespec
from graphwire.schema.trees import WHY_OMITTED, TraceTexts, Unfolding, from_tree, provenance_of

_RETURNED = "torch.return_types."
"""The prefix of operators' return types. Torch names these types since 2.15, whose schema version is that of 2.12."""

_SPECS: Final[Mapping[str, type[msgspec.Struct]]] = {
    "user_input": schema.UserInputSpec,
    "user_output": schema.UserOutputSpec,
    "tensor_constant": schema.InputToTensorConstantSpec,
}
"""The specs with fields of graphwire's own."""


class _Resolved:
    """One document during the conversion to torch's terms, and the extensions whose uses were reported."""

    def __init__(self, report: trees.Report) -> None:
        self._refuse = trees.refusing(report, trees.OURS)
        self.reported: set[str] = set()

    def refuse(self, feature: str, where: Where, detail: object = "") -> None:
        """Report the use of an extension."""
        self.reported.add(feature)
        text = schema.FEATURES.get(feature, f"the extension {feature}")
        self._refuse(where, f"{text}: {detail}" if detail else text)

    def plain(self, kind: type[msgspec.Struct], record: Record, where: Where) -> Record:
        """Return a record without fields of graphwire's own. Report those that must not be dropped, and unknown ones."""
        known = _KNOWN[kind]
        if record.keys() <= known:
            return record
        rows = FIELDS[kind]
        for name, value in record.items():
            row = rows.get(name)
            if row is None:
                self._refuse(where.at(f".{name}"), f"{name} of a {kind.__name__}")
            elif row.feature and value not in (None, False):
                self.refuse(row.feature, where, value if isinstance(value, str) else "")
        return {name: value for name, value in record.items() if name in known}

    def spec(self, spec: Record, where: Where) -> Record:
        """Return a spec of an input or output without fields of graphwire's own."""
        variant = trees.variant_of(spec)
        return {variant: self.plain(_SPECS[variant], spec[variant], where)} if variant in _SPECS else spec

    def argument(self, argument: Record, where: Where) -> Record:
        """Return an argument in a variant of torch's. Where there is none, report it and return it unchanged."""
        variant = trees.variant_of(argument)
        row = VARIANTS.get(variant)
        if row is None:
            self._refuse(where, f"an argument with {variant or 'no variant'}")
        elif variant == "as_graph":
            return {variant: self.plain(schema.GraphArgument, argument[variant], where)}
        elif row.resolved:
            return without_optional(argument, where)
        elif row.feature:
            listed = _listed(argument[variant]["items"]) if variant == "as_sequence" else None
            if listed is not None:
                return listed
            self.refuse(row.feature, where)
        return argument


_KNOWN: Final = {kind: fields_of_torch(kind) for kind in FIELDS}
"""Torch's fields of each record."""


def resolve_extensions(tree: Record, report: trees.Report, dropped: list[str] | None = None) -> Record:
    """Convert a document of the current version to one without extensions; report and keep what has no other form.

    Args:
        dropped: receives the reason when stack traces and origins are dropped.
    """
    resolved = _Resolved(report)
    module = tree["graph_module"]
    traces = TraceTexts(from_tree(frame, schema.StackFrame) for frame in module.get("stack_frames") or ())
    sources, provenance = _source_records(module.get("node_sources") or ())

    @cache  # nodes share origins
    def origins(indices: tuple[int, ...]) -> str:
        return json.dumps([sources[index] for index in indices])

    required = tree.get("requires") or ()
    for name in tree.get("encoded_values") or ():
        resolved.refuse("codecs", trees.ROOT.at(f".encoded_values[{name!r}]"))
    _report_containers(tree, resolved)

    # A document that does not name its torch is older than 2.5; later ones may have such contexts of other containers.
    names_torch = tree.get("torch_version", "")[:1].isdigit()
    contexts = (lambda call: call) if names_torch else _with_contexts

    def of_node(node: Record, where: Where) -> Record:
        metadata = dict(node["metadata"])
        if node.get("stack") is not None and (trace := traces.of(node["stack"])) is not None:
            metadata["stack_trace"] = trace
        if node.get("from_node") is not None and provenance.take(node["from_node"]):
            metadata["from_node"] = origins(tuple(node["from_node"]))
        inputs = [resolved.plain(schema.NamedArgument, named, where) for named in node["inputs"]]
        return {**resolved.plain(schema.Node, node, where), "inputs": inputs, "metadata": metadata}

    def of_call(call: Record, where: Where) -> Record:
        return contexts(resolved.plain(schema.ModuleCallSignature, call, where))

    tree = trees.rewrite(
        tree,
        trees.Edits(
            argument=resolved.argument,
            node=of_node,
            graph=lambda graph, where: resolved.plain(schema.Graph, graph, where),
            tensor_meta=lambda meta, where: resolved.plain(schema.TensorMeta, meta, where),
            input_spec=resolved.spec,
            output_spec=resolved.spec,
            call=of_call,
        ),
    )
    for feature in required:
        fate = EXTENSIONS.get(feature)
        if fate is None or (fate == "refused" and feature not in resolved.reported):
            resolved.refuse(feature, trees.ROOT.at(".requires"))
    module = resolved.plain(schema.GraphModule, tree["graph_module"], trees.ROOT.at(".graph_module"))
    omitted = traces.omitted + provenance.omitted
    if omitted and dropped is not None:
        dropped.append(WHY_OMITTED.format(omitted))
    return {**resolved.plain(schema.Program, tree, trees.ROOT), "graph_module": module}


def _report_containers(tree: Record, resolved: _Resolved) -> None:
    """Report the containers of the interface that torch's own reader does not support, once each."""
    unknown: dict[str, Where] = {}
    for where, text in trees.treespecs(tree):
        if _RETURNED in text or "@" in text:
            for place, node, _ in treespec.treespec_nodes(treespec.parse_treespec(text)):
                name = node.type or ""
                if name.startswith(_RETURNED) or treespec.split_version(name)[0] != name:
                    unknown.setdefault(name, where.at(f".{place}") if place else where)
    for name, where in unknown.items():
        resolved.refuse("containers", where, name)


def _with_contexts(call: Record) -> Record:
    """Write the contexts of dataclasses in a module call as texts, not as `[class, fields, fields that are None]`."""
    texts = {}
    for field in ("in_spec", "out_spec"):
        spec = treespec.parse_treespec(call[field])
        if any(_is_old_dataclass(node) for _, node, _ in treespec.treespec_nodes(spec)):
            texts[field] = treespec.format_treespec(_with_texts(spec))
    return {**call, **texts}


def _with_texts(spec: treespec.TreeSpec) -> treespec.TreeSpec:
    context = json.dumps(spec.context[1:]) if _is_old_dataclass(spec) else spec.context
    return treespec.TreeSpec(spec.type, context, [_with_texts(child) for child in spec.children])


def _is_old_dataclass(spec: treespec.TreeSpec) -> bool:
    match spec.context:
        case [str(), list(fields), list(none)]:
            return all(type(each) is str for each in (*fields, *none))
    return False


def _source_records(rows: Any) -> tuple[list[Record], Unfolding]:
    """Return each row of the table of sources as the nested record that torch writes, and which rows are written completely."""
    sources = [from_tree(row, schema.NodeSource) for row in rows]
    unfolding = provenance_of(sources)
    records: list[Record] = []
    for source, whole in zip(sources, unfolding.whole, strict=True):
        below = [records[index] for index in source.from_node if whole]
        records.append({**asdict(source), "from_node": below})
    return records, unfolding


# ----------------------------------------------------------------------------------------------------- arguments

_LISTS: dict[frozenset[str], tuple[str, Callable[[str, Any], Any]]] = {
    **{
        frozenset({row.items}): (variant, lambda variant, value: value)
        for variant, row in VARIANTS.items()
        if row.items
    },
    frozenset({"as_tensor", "as_none"}): ("as_optional_tensors", lambda variant, value: {variant: value}),
    frozenset({"as_sym_int", "as_int"}): (
        "as_sym_ints",
        lambda variant, value: value if variant == "as_sym_int" else {variant: value},
    ),
}
"""For the variants of a sequence's elements: the list variant that represents them, and the conversion of each element."""


def _listed(items: list[Record]) -> Record | None:
    """Convert a sequence of these items to one of torch's lists; return None if no list fits."""
    if not items:
        return {"as_tensors": []}
    kinds = [(trees.variant_of(item), item) for item in items]
    found = _LISTS.get(frozenset(kind for kind, _ in kinds))
    if found is None:
        return None
    listed, convert = found
    return {listed: [convert(kind, item[kind]) for kind, item in kinds]}
