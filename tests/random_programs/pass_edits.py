"""Edits that torch's own passes make."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node, subgraph_rewriter
from torch.fx.passes.annotate_getitem_nodes import annotate_getitem_nodes
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.fx.passes.tools_common import legalize_graph

from random_programs.editing import Editing, is_pure

__all__ = ["EDITS"]


def eliminate_dead_code(editing: Editing) -> str:
    """Remove what nothing uses."""
    return f"dead code is removed: {editing.graph.eliminate_dead_code()}"


def eliminate_common_subexpressions(editing: Editing) -> str | None:
    """Let equal calls be one, as torch's pass does."""
    from torch.fx.passes.dialect.common.cse_pass import CSEPass

    if editing.top or any(node.op == "get_attr" for node in editing.nodes):
        seen: dict[Any, Node] = {}
        for node in editing.nodes:
            if not is_pure(node) or node.op != "call_function":
                continue
            key = repr((node.target, node.args, node.kwargs))
            if (known := seen.setdefault(key, node)) is not node:
                for user in list(node.users):
                    if user.op == "output" and editing.top:
                        editing.replace_output(user, node, known)
                    else:
                        user.replace_input_with(node, known)
                editing.graph.erase_node(node)
        return "equal calls are one"
    changed = CSEPass()(editing.module)
    if changed is not None and changed.modified:
        editing.module.graph = changed.graph_module.graph
    return "equal calls are one, by torch's pass"


def replace_pattern(editing: Editing) -> str:
    """Replace a pattern of calls by other calls."""

    def pattern(x: Any, y: Any) -> Any:
        return torch.ops.aten.add.Tensor(x, y)

    def replacement(x: Any, y: Any) -> Any:
        return torch.ops.aten.sub.Tensor(x, torch.ops.aten.neg.default(y))

    found = subgraph_rewriter.replace_pattern(editing.module, pattern, replacement)
    outputs = editing.graph.output_node().args[0]
    if editing.top and found:
        for spec, value in zip(editing.program.graph_signature.output_specs, outputs, strict=True):
            if isinstance(value, Node) and hasattr(spec.arg, "name"):
                spec.arg.name = value.name
    return f"{len(found)} sums are differences"


def propagate_values(editing: Editing) -> str | None:
    """Let every node state what its operator makes of what its inputs state."""
    given = [node.meta.get("val") for node in editing.nodes if node.op == "placeholder"]
    mode = next((value.fake_mode for value in given if hasattr(value, "fake_mode")), None)
    if mode is None or not editing.top:
        return None
    try:
        FakeTensorProp(editing.module, mode).propagate_dont_convert_inputs(*given)
    except Exception as error:  # an earlier edit left what no operator takes
        return f"values are propagated up to a {type(error).__name__}"
    return "values are propagated"


def sort_nodes(editing: Editing) -> str:
    """Put the nodes into an order of torch's choice, in a new graph."""
    legalize_graph(editing.module)
    return "the nodes are sorted"


def annotate_elements(editing: Editing) -> str:
    """Note the types of elements, as torch's pass does."""
    annotate_getitem_nodes(editing.graph)
    return "elements have types"


def copy_graph(editing: Editing) -> str:
    """Put a copy of the graph into its place, node by node."""
    graph = torch.fx.Graph()
    values: dict[Node, Node] = {}
    for node in editing.graph.nodes:
        values[node] = graph.node_copy(node, values.__getitem__)
    for old, new in values.items():
        if old.op == "output" or new.name != old.name:
            new.meta = dict(old.meta)
            new.name = old.name
    editing.module.graph = graph
    return "the graph is copied"


EDITS = (
    copy_graph,
    eliminate_dead_code,
    eliminate_common_subexpressions,
    replace_pattern,
    propagate_values,
    sort_nodes,
    annotate_elements,
)
