"""Edits that torch's own passes make."""

from __future__ import annotations

from typing import Any

from torch.fx import Node

from graphwire.testing.random_programs.editing import Editing, is_pure

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


EDITS = (
    eliminate_dead_code,
    eliminate_common_subexpressions,
)
