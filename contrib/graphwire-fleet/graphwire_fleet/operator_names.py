"""The parts of an operator's serialized name, and the words that name it."""

from __future__ import annotations

_TORCH_OPS = "torch.ops."


def split_target(target: str) -> tuple[str, str]:
    """Return the operator and the overload of a serialized name: `aten.add` and `Tensor` of `torch.ops.aten.add.Tensor`."""
    parts = target.removeprefix(_TORCH_OPS).split(".")
    if target.startswith(_TORCH_OPS) and len(parts) == 3:
        return ".".join(parts[:2]), parts[2]
    return ".".join(parts), ""


def spellings(target: str) -> set[str]:
    """Return the names that a serialized name answers to: with and without its namespace, and its overload."""
    operator, overload = split_target(target)
    names = {operator, operator.rpartition(".")[2]}
    return names | {f"{name}.{overload}" for name in names if overload}


def plain_name(word: str) -> str:
    """Return a word as `spellings` has it: `aten.add` of `aten::add` and `torch.ops.aten.add`."""
    return word.strip().replace("::", ".").removeprefix(_TORCH_OPS)
