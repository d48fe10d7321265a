"""Edits of what is noted of nodes."""

from __future__ import annotations

import torch

from random_programs.editing import Editing

__all__ = ["EDITS"]


def edit_metadata(editing: Editing) -> str | None:
    """Change, remove or share what is noted of a node."""
    node = editing.pick(lambda _: True)
    if node is None:
        return None
    other = editing.pick(lambda each: each.op == node.op) or node
    value = node.meta.get("val")
    kind = editing.chance.randrange(9)
    if kind == 0 and node.op not in ("placeholder", "output"):
        node.meta.pop("val", None)
    elif (
        kind == 1
        and node.op != "output"
        and isinstance(value, torch.Tensor)
        and value.layout is torch.strided
    ):
        with value.fake_mode if hasattr(value, "fake_mode") else torch.device("meta"):
            node.meta["val"] = torch.empty([3, *value.shape], dtype=torch.float64)
    elif kind == 2:
        node.meta.pop("stack_trace", None)
    elif kind == 3:
        node.meta["odd"] = object()
        node.meta["tensor_meta"] = {1: 2}
    elif kind == 4:
        node.meta["custom"] = {"note": [1, "two", None, {"three": 3.5}]}
    elif kind == 5:
        shared = {key: held for key, held in other.meta.items() if key != "val"} | {"val": value}
        node.meta = other.meta = shared if other is node else node.meta
    elif kind == 6:
        node.meta["stack_trace"] = editing.chance.choice(
            ["", "no trace", '  File "a, b", line 3, in f\n    x = 1\n']
        )
    elif kind == 7:
        node.meta = {"val": value} if value is not None else {}
    elif kind == 8:
        node.meta["nn_module_stack"] = {"a": ("L['self'].a,b", torch.nn.Linear), "b;c": ("", "x.Y")}
    return f"what is noted of {node} is edited ({kind})"


def restate(editing: Editing) -> str | None:
    """Let a node state that it makes something else: a number, nothing, what another node makes, or a container of it."""
    node = editing.pick(
        lambda each: each.op == "call_function" and all(user.op != "output" for user in each.users)
    )
    other = editing.pick(lambda each: each.op != "output" and "val" in each.meta)
    if node is None or other is None:
        return None
    value = node.meta.get("val")
    stated = editing.chance.choice(
        [3, 0.5, True, None, "text", (), other.meta["val"], (value,), [value, value], {"a": value}, [3, None]]
    )
    node.meta["val"] = stated
    return f"{node} states {stated!r:.80}"


EDITS = (
    edit_metadata,
    restate,
)
