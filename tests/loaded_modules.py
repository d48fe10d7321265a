"""Compares what `load_module` makes of a file with what `load(file).module()` makes of it."""

from __future__ import annotations

import copy
import math
import random
import re
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from inside.bridge import InputChecks
from this_torch import RELEASE
from torch.utils import _pytree as pytree

import graphwire
from graphwire.testing import assert_same_values


def assert_same_module(
    data: bytes | Path,
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
        violations: how many calls to try with arguments that may not fit. Both modules refuse the same ones.

    Returns:
        The module of `load_module`.
    """
    options = {} if RELEASE == (2, 8) else {"check_guards": check_guards}  # it has none
    theirs = graphwire.load(data).module(**options)
    ours: Any = graphwire.load_module(data, check_guards=check_guards)
    for each in ("state_dict", "named_parameters", "named_buffers", "named_modules"):
        found = [
            name for name in dict(getattr(ours, each)()) if name != "_guards_fn" or hasattr(theirs, name)
        ]
        assert found == list(dict(getattr(theirs, each)())), each
    assert_same_values(_attributes(ours), _attributes(theirs))
    for mode in ("train", "eval"):
        with pytest.raises(NotImplementedError) as refused:
            getattr(theirs, mode)()
        with pytest.raises(NotImplementedError, match=re.escape(str(refused.value))):
            getattr(ours, mode)()
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
    """Fail if only one of the modules refuses a call, the results of a call differ, or ours does not refuse before it computes
    what the checks of torch's module refuse."""
    rng = random.Random(0)
    for _ in range(violations):
        given, named = rng.choice(_CHANGES)(rng, args, kwargs)
        one, other = outcome(ours, given, named)[0], outcome(theirs, given, named)[0]
        if isinstance(one, str) and isinstance(other, str):
            assert one.startswith("fails: InputError: ") or not other.startswith(_CHECKED), (
                f"{_told(given, named)}: {one:.300} · {other:.300}"
            )
            _assert_names_an_input(ours, one)
        else:
            assert type(one) is type(other), f"{_told(given, named)}: {one!s:.300} · {other!s:.300}"
            assert_same_values(one, other)


def _assert_names_an_input(module: Any, message: str) -> None:
    """Fail unless the message of an `InputError` names what it is about."""
    checks = [each for each in module.modules() if isinstance(each, InputChecks)]
    if message.startswith("fails: InputError: ") and checks:
        about = ("argument", *checks[0]._names)
        assert any(name in message for name in about), message


_CHECKED = (
    "fails: AssertionError: Guard failed: ",
    "fails: ValueError: Trying to flatten user inputs",
    "fails: RuntimeError: Expected input at ",
    "fails: RuntimeError: Unexpected number of dimensions in input",
)
"""What the checks of torch's module say."""


def _told(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    told = pytree.tree_map_only(torch.Tensor, lambda each: f"{each.dtype} {list(each.shape)}", (args, kwargs))
    return f"{told!s:.600}"


# ----------------------------------------------------------------------------------------------- calls that may not fit

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def _of_one_leaf(change: Callable[[random.Random, Any], Any]) -> Callable[..., Arguments]:
    def changed(rng: random.Random, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        leaves, structure = pytree.tree_flatten((args, kwargs))
        if leaves:
            index = rng.randrange(len(leaves))
            leaves[index] = change(rng, leaves[index])
        made: Arguments = pytree.tree_unflatten(leaves, structure)
        return made

    return changed


def _another_size(rng: random.Random, value: Any) -> Any:
    """A tensor of another size in one dimension; another value in place of a number."""
    if not isinstance(value, torch.Tensor) or value.ndim == 0:
        return value + 1 if type(value) in (int, float) else None
    dimension = rng.randrange(value.ndim)
    sizes = list(value.shape)
    sizes[dimension] = rng.choice([0, 1, 2, sizes[dimension] + 1, 2 * sizes[dimension], 129])
    return _ones(value, sizes)


def _ones(value: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    if value.layout is not torch.strided or math.prod(sizes) > max(1 << 16, 4 * value.numel()):
        return value
    return value.detach().new_ones(sizes)


def _another_rank(rng: random.Random, value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return torch.ones(2)
    value = value.detach()
    if rng.random() < 0.5 or value.ndim == 0:
        return value[None]
    return _ones(value, list(value.shape[1:]))


def _another_kind(rng: random.Random, value: Any) -> Any:
    of_value = [[value], {"key": value}, (value, value), torch.Size([2, 3])]
    return rng.choice(
        [None, 3, -1, 2.5, math.nan, True, "text", b"bytes", 1j, torch.tensor(3), [], (), *of_value]
    )


def _another_batch(rng: random.Random, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
    """Tensors in which one size is another one wherever it is, and its multiples follow it."""
    sizes = {
        size
        for each in pytree.tree_leaves((args, kwargs))
        if isinstance(each, torch.Tensor)
        for size in each.shape
    }
    if not sizes:
        return args, kwargs
    old = rng.choice(sorted(sizes))
    new = rng.choice([0, 1, 2, 3, old + 1, max(old - 1, 0), 2 * old, 17, 64, 65, 129])

    def size_of(size: int) -> int:
        return size // old * new if old and size % old == 0 and (size == old or rng.random() < 0.5) else size

    made: Arguments = pytree.tree_map_only(
        torch.Tensor, lambda each: _ones(each, [size_of(size) for size in each.shape]), (args, kwargs)
    )
    return made


def _another_structure(rng: random.Random, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
    match rng.randrange(7):
        case 0:
            return args[:-1], kwargs
        case 1:
            return (*args, *args[:1]), kwargs
        case 2:
            return args[:-1], {
                **kwargs,
                rng.choice(["x", "input", "args_0", "other"]): args[-1] if args else 3,
            }
        case 3:
            return args, dict(list(kwargs.items())[:-1])
        case 4:
            return (*args, *kwargs.values()), {}
        case 5:
            return args, dict(reversed(kwargs.items()))
        case _:
            return _another_container(rng, (args, kwargs))


def _another_container(rng: random.Random, given: Arguments) -> Arguments:
    """Arguments of which one container is of another kind, has an element more or less, or has them in another order."""
    containers: list[Any] = []

    def is_one(value: Any) -> bool:
        if type(value) in (list, tuple, dict) and all(value is not each for each in (given, *given)):
            containers.append(value)
        return False

    pytree.tree_map(lambda leaf: leaf, given, is_leaf=is_one)
    if not containers:
        return given
    chosen = rng.choice(containers)
    items = list(chosen.items()) if type(chosen) is dict else list(chosen)
    changed: Any
    if type(chosen) is dict:
        more = {**chosen, "more": 3}
        changed = rng.choice([more, dict(items[:-1]), dict(reversed(items)), items, OrderedDict(items)])
    else:
        others = [items[:-1], [*items, 3], {"key": items}, torch.Size([2] * len(items))]
        changed = rng.choice([items, tuple(items), *others])
    made: Arguments = pytree.tree_map(
        lambda each: changed if each is chosen else each, given, is_leaf=lambda each: each is chosen
    )
    return made


_CHANGES: list[Callable[..., Arguments]] = [
    *(_of_one_leaf(each) for each in (_another_size, _another_size, _another_rank, _another_kind)),
    *(_another_batch, _another_batch, _another_structure),
]


def _attributes(module: torch.nn.Module) -> dict[str, Any]:
    """The tensors of a module by name, with their kinds: parameter, buffer, or another attribute."""
    found: dict[str, Any] = {}
    tied: dict[int, str] = {}
    for path, owner in module.named_modules():
        if path == "_guards_fn":
            continue
        for kind in ("_parameters", "_buffers", "__dict__"):
            for name, value in (vars(owner) if kind == "__dict__" else vars(owner)[kind]).items():
                if isinstance(value, torch.Tensor):
                    same = tied.setdefault(id(value), f"{path}.{name}")
                    found[f"{path}.{name}"] = [kind, same, value.requires_grad, value.detach()]
        found[f"{path} non-persistent"] = sorted(owner._non_persistent_buffers_set)
        found[f"{path} trains"] = owner.training
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


def _is_sparse(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is not torch.strided


def outcome(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a call gives, with what becomes of the arguments and of the tensors of the module; or that it fails."""
    sparse = [each for each in pytree.tree_leaves((args, kwargs)) if _is_sparse(each)]  # have no deep copies
    args, kwargs = copy.deepcopy((args, kwargs), {id(each): each.clone() for each in sparse})
    torch.manual_seed(0)
    try:
        given = module(*args, **kwargs)
    except Exception as error:
        given = f"fails: {type(error).__name__}: {error}"
    held = {name: each.detach() for name, each in module.state_dict().items()}
    return given, args, kwargs, held
