"""Compares what `load_module` makes of a file with what `load(file).module()` makes of it."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

import graphwire
from graphwire.testing import assert_same_values


def assert_same_module(
    data: bytes,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    check_guards: bool = True,
    violations: int = 0,
) -> Any:
    """Fail unless both modules of a file have the same attributes and graph, and compute and change the same.

    Args:
        data: the file.
        args: what to call both with; and so are `kwargs`.
        check_guards: as in `load_module`.
        violations: how many calls to try with arguments that differ in one place. Both modules refuse the same ones.

    Returns:
        The module of `load_module`.
    """
    theirs = graphwire.loads(data).module(check_guards=check_guards)
    ours: Any = graphwire.load_module(data, check_guards=check_guards)
    for each in ("state_dict", "named_parameters", "named_buffers", "named_modules"):
        assert list(dict(getattr(ours, each)())) == list(dict(getattr(theirs, each)())), each
    assert_same_values(_attributes(ours), _attributes(theirs))
    # The first call comes before the look at the code, which it does without.
    assert_same_values(outcome(ours, args, kwargs or {}), outcome(theirs, args, kwargs or {}))
    if hasattr(theirs, "_guards_fn") or not check_guards:
        assert str(ours.graph) == str(theirs.graph)
        assert ours.code == theirs.code
        assert_same_values(_descriptions(ours), _descriptions(theirs))
    _assert_same_refusals(ours, theirs, args, kwargs or {}, violations)
    return ours


def _assert_same_refusals(
    ours: torch.nn.Module,
    theirs: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    violations: int,
) -> None:
    """Fail if only one of the modules refuses a call, or the results of a call differ."""
    rng = random.Random(0)
    leaves, structure = pytree.tree_flatten((args, kwargs))
    for _ in range(violations if leaves else 0):
        changed = list(leaves)
        index = rng.randrange(len(leaves))
        changed[index] = wrong = rng.choice(_CHANGES)(rng, changed[index])
        given, named = pytree.tree_unflatten(changed, structure)
        one, other = outcome(ours, given, named)[0], outcome(theirs, given, named)[0]
        where = f"input {index} is {wrong if not isinstance(wrong, torch.Tensor) else wrong.shape}"
        if isinstance(one, str) or isinstance(other, str):
            assert type(one) is type(other), f"{where}: {one!s:.300} · {other!s:.300}"
        else:
            assert_same_values(one, other)


def _another_size(rng: random.Random, value: Any) -> Any:
    """A tensor of another size in one dimension; another value in place of a number."""
    if not isinstance(value, torch.Tensor) or value.ndim == 0:
        return value + 1 if type(value) in (int, float) else None
    dimension = rng.randrange(value.ndim)
    sizes = list(value.shape)
    sizes[dimension] = rng.choice([0, 1, 2, sizes[dimension] + 1, 2 * sizes[dimension], 129])
    return value.detach().new_ones(sizes) if value.layout is torch.strided else value


def _another_rank(rng: random.Random, value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return torch.ones(2)
    value = value.detach()
    return value[None] if rng.random() < 0.5 or value.ndim == 0 else value.sum(0).to(value.dtype)


def _another_kind(rng: random.Random, value: Any) -> Any:
    return rng.choice([None, 3, "text", [value], {"key": value}, (value, value)])


_CHANGES: list[Callable[[random.Random, Any], Any]] = [
    _another_size,
    _another_size,
    _another_rank,
    _another_kind,
]


def _attributes(module: torch.nn.Module) -> dict[str, Any]:
    """The tensors of a module by name, with their kinds: parameter, buffer, or another attribute."""
    found: dict[str, Any] = {}
    tied: dict[int, str] = {}
    for path, owner in module.named_modules():
        for kind in ("_parameters", "_buffers", "__dict__"):
            for name, value in (vars(owner) if kind == "__dict__" else vars(owner)[kind]).items():
                if isinstance(value, torch.Tensor):
                    same = tied.setdefault(id(value), f"{path}.{name}")
                    found[f"{path}.{name}"] = [kind, same, value.requires_grad, value.detach()]
        found[f"{path} non-persistent"] = sorted(owner._non_persistent_buffers_set)
    return found


def _descriptions(module: torch.fx.GraphModule) -> list[Any]:
    """What the nodes of a module and of its subgraphs say of their values."""
    graphs = [each.graph for each in module.modules() if isinstance(each, torch.fx.GraphModule)]
    return [
        [node.name, "val" in node.meta, node.meta.get("val"), "unbacked_bindings" in node.meta]
        for graph in graphs
        for node in graph.nodes
        if node.op != "call_module"
    ]


def outcome(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a call gives, with what becomes of the arguments and of the tensors of the module; or that it fails."""
    args, kwargs = copy.deepcopy((args, kwargs))
    torch.manual_seed(0)
    try:
        given = module(*args, **kwargs)
    except Exception as error:
        given = f"fails: {type(error).__name__}: {error}"
    held = {name: each.detach() for name, each in module.state_dict().items()}
    return given, args, kwargs, held
