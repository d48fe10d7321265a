"""Schema 1 (torch 2.1). It has a call spec, six name maps for a signature, and a wrapper around each tensor's meta.

The step to 2 (torch 2.2) replaced the name maps by specs and the call spec by the root's entry in the module call graph,
added `dialect` and hints other than integers, and dropped equality constraints and example inputs.

Upward: an input tuple of a tuple and a dict with identifiers as keys is `(args, kwargs)`; any other is the positional
arguments alone. (2.1 writes no empty kwargs, so a call with such a tuple and dict as positional arguments is
indistinguishable.) A constant of the graph becomes an input; the document holds its tensor (`evolve.steps.embedded`).
Bounds that 2.1 made too strict are relaxed (`evolve.operators`).
Downward: tensor constants become buffers, as 2.1 stores them. A hint other than an integer is dropped. A size known only at
run time is at least 2, as 2.1 writes it: otherwise 2.1 cannot decide whether it is 0 or 1 (the program still runs with
these). 2.1 writes backward signatures and the calls of modules but cannot read them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from graphwire.evolve.expressions import (
    greatest_integer_from_infinity,
    infinity_from_greatest_integer,
    report_small_sizes,
)
from graphwire.evolve.operators import relax_size_assertions
from graphwire.evolve.step import Step
from graphwire.evolve.steps import early_records
from graphwire.evolve.trees import ROOT, Edit, Edits, Record, Refuse, Where, rewrite, variant_edit, without
from graphwire.schema import Version
from graphwire.schema.texts.treespec import LEAF, TreeSpec, format_treespec, parse_treespec

_Convert: TypeAlias = Callable[[str], str]

DIALECT = "ATEN"
_NO_KWARGS = TreeSpec("builtins.dict", "[]", [])
_UNBACKED = r"\bi\d+\b"
_LEAST_SIZE = 2
"""The lower bound that 2.1 assumes for a size known only at run time, and the least that it reads for other sizes."""


def up(tree: Record) -> Record:
    """Convert 1 to 2."""
    tree = rewrite(tree, _UP)
    module = dict(tree["graph_module"])
    call = module.pop("call_spec")
    module["signature"] = early_records.signature_up(module["signature"], module["graph"])
    module["graph"], module["signature"] = early_records.lift_constants(module["graph"], module["signature"])
    specs = {"in_spec": in_spec_up(call["in_spec"]), "out_spec": call["out_spec"]}
    root = {"fqn": "", "signature": {"inputs": [], "outputs": [], **specs}}
    entries = [entry for entry in module["module_call_graph"] if entry["fqn"]]
    module["module_call_graph"] = [root, *entries]
    tree = without(tree, "equality_constraints", "example_inputs")
    tree = relax_size_assertions({**tree, "graph_module": module, "dialect": DIALECT})
    return infinity_from_greatest_integer(tree)


def down(tree: Record, refuse: Refuse) -> Record:
    """Convert 2 to 1."""
    report_small_sizes(tree, refuse, _LEAST_SIZE)
    sizes: set[str] = set()
    rewrite(tree, Edits(tensor_meta=partial(_note_sizes, sizes)))
    tree = rewrite({**tree, "range_constraints": _as_sizes(tree["range_constraints"], sizes)}, _DOWN)
    module = dict(tree["graph_module"])
    module["signature"] = early_records.signature_down(module["signature"], refuse)
    root, *entries = module["module_call_graph"] or [{}]
    for index, entry in enumerate(entries, 1):
        if entry.get("signature") is not None:
            place = ROOT.at(f".graph_module.module_call_graph[{index}].signature")
            refuse(place, f"the call of the module {entry['fqn']}")
    call = root.get("signature") or {
        f"{side}_spec": format_treespec(tuple_of(len(module["signature"][f"user_{side}puts"])))
        for side in ("in", "out")
    }
    module["call_spec"] = {"in_spec": in_spec_down(call["in_spec"]), "out_spec": call["out_spec"]}
    module["module_call_graph"] = entries
    rest = without(tree, "dialect")
    tree = {**rest, "graph_module": module, "equality_constraints": [], "example_inputs": None}
    return early_records.with_all_variants(greatest_integer_from_infinity(tree))


def _note_sizes(sizes: set[str], meta: Record, where: Where) -> None:
    """Add the unbacked symbols in a tensor's sizes to `sizes`."""
    for size in meta["sizes"]:
        if (expression := size.get("as_expr")) is not None:
            sizes.update(re.findall(_UNBACKED, expression["expr_str"]))


def _as_sizes(ranges: dict[str, Record], sizes: set[str]) -> dict[str, Record]:
    return {
        name: {**limits, "min_val": max(limits["min_val"], _LEAST_SIZE)}
        if name in sizes and limits["max_val"] >= _LEAST_SIZE
        else limits
        for name, limits in ranges.items()
    }


def tuple_of(count: int) -> TreeSpec:
    """Return the structure of a tuple of tensors."""
    return TreeSpec("builtins.tuple", "null", [LEAF] * count)


def in_spec_up(text: str) -> str:
    """Convert the input structure that 2.1 wrote to the structure of `(args, kwargs)`."""
    spec = parse_treespec(text)
    if _is_call(spec):
        return text
    return format_treespec(TreeSpec("builtins.tuple", "null", [spec, _NO_KWARGS]))


def in_spec_down(text: str) -> str:
    """Convert the structure of `(args, kwargs)` to what 2.1 writes."""
    spec = parse_treespec(text)
    if len(spec.children) == 2 and spec.children[1] == _NO_KWARGS:
        return format_treespec(spec.children[0])
    return text


def _is_call(spec: TreeSpec) -> bool:
    inner = [child.type for child in spec.children]
    if spec.type != "builtins.tuple" or inner != ["builtins.tuple", "builtins.dict"]:
        return False
    try:
        keys = json.loads(spec.children[1].context)
    except (TypeError, ValueError, RecursionError):
        return False
    return bool(keys) and all(isinstance(key, str) and key.isidentifier() for key in keys)


def _hint_up(expression: Record) -> Record:
    hint = expression.get("hint")
    return {"as_expr": {**expression, "hint": None if hint is None else {"as_int": hint}}}


def _hint_down(expression: Record) -> Record:
    hint = expression.get("hint") or {}
    return {"as_expr": {"expr_str": expression["expr_str"], "hint": hint.get("as_int")}}


def _graph_up(graph: Record, where: Where) -> Record:
    values = {name: value["meta"] for name, value in graph["tensor_values"].items()}
    graph = {**graph, "tensor_values": values}
    if where.path == "graph_module.graph" and graph.get("constants"):
        return graph  # lifted once the signature exists
    return without(graph, "constants")


def _graph_down(graph: Record, where: Where) -> Record:
    values = {name: {"meta": meta} for name, meta in graph["tensor_values"].items()}
    return {**graph, "tensor_values": values, "constants": {}}


def _metadata_edit(old: str, new: str, of_function: _Convert, of_stack: _Convert) -> Edit:
    """Return an edit of nodes that renames and converts the text of the source function, and converts the module stack."""

    def edit(node: Record, where: Where) -> Record:
        metadata = {}
        for key, text in node["metadata"].items():
            if key == old:
                metadata[new] = of_function(text)
            else:
                metadata[key] = of_stack(text) if key == "nn_module_stack" else text
        return {**node, "metadata": metadata}

    return edit


_UP = Edits(
    node=_metadata_edit("source_fn", "source_fn_stack", lambda text: text, early_records.module_stack_up),
    graph=_graph_up,
    sym_int=variant_edit("as_expr", _hint_up),
    sym_bool=variant_edit("as_expr", lambda text: {"as_expr": {"expr_str": text, "hint": None}}),
)
_DOWN = Edits(
    node=_metadata_edit(
        "source_fn_stack", "source_fn", lambda text: text.rsplit(";", 1)[-1], early_records.module_stack_down
    ),
    graph=_graph_down,
    sym_int=variant_edit("as_expr", _hint_down),
    sym_bool=variant_edit("as_expr", lambda expression: {"as_expr": expression["expr_str"]}),
)

STEP = Step(
    Version(1),
    Version(2),
    up,
    down,
    derived=(
        "the specs of inputs and outputs, from six maps of names",
        "the structure of keyword arguments, from the last positional one",
    ),
    dropped=(("equality constraints", "equal sizes have one symbol"),),
)
