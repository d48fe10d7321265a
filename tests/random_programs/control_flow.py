"""Statements of control flow, with bodies that are drawn like any other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from hypothesis import strategies as st

from random_programs.scope import REFUSALS, Scope, expression

__all__ = ["CONTROL_FLOW"]


def _operands(scope: Scope, least: int = 0) -> dict[str, torch.Tensor]:
    """Some tensors with elements that can be computed with."""
    found = {
        name: value
        for name, value in scope.pool.items()
        if isinstance(value, torch.Tensor) and value.numel() and not _is_only_held(value)
    }
    if len(found) < least or not found:
        return {}
    names = scope.draw(st.lists(st.sampled_from(list(found)), min_size=least, max_size=2, unique=True))
    return {name: found[name] for name in names}


def _is_only_held(tensor: torch.Tensor) -> bool:
    return "float8" in str(tensor.dtype) or str(tensor.dtype) in ("torch.uint16", "torch.uint32")


def _body(
    scope: Scope,
    arguments: Sequence[Any],
    results: Callable[[Scope, list[str]], Sequence[str]],
    *,
    captures: bool = True,
) -> tuple[str, list[str], Any] | None:
    """A function of these arguments: its name, its lines, and what it returns for them.

    Args:
        results: the expressions that it returns, given its scope and its parameters.
        captures: whether it may read the model's tensors.
    """
    name = scope.name("f")
    inner = Scope(scope.draw, scope.numbers, scope.locals.get("self"))
    parameters = [scope.name("a") for _ in arguments]
    for parameter, value in zip(parameters, arguments, strict=True):
        inner.locals[parameter] = value
        inner.offer(parameter, value)
    if captures:
        inner.pool.update({name: value for name, value in scope.pool.items() if name.startswith("self.")})
    for _ in range(scope.draw(st.integers(0, 3))):
        scope.draw(st.sampled_from(_IN_BODIES))(inner)
    returned = "".join(f"{each}, " for each in results(inner, parameters))
    lines = [f"def {name}({', '.join(parameters)}):"]
    lines += [f"    {line}" for line in [*inner.lines, f"return ({returned})"]]
    try:
        inner.locals[name] = scope.evaluate(lines, name)
        return name, lines, inner.evaluate([], f"{name}({', '.join(parameters)})")
    except REFUSALS:
        return None


def _like(scope: Scope, parameters: Sequence[str]) -> list[str]:
    """A result of the shape and type of each parameter, made of what the body computes."""
    results = []
    for parameter in parameters:
        tensors = [name for name, value in scope.pool.items() if isinstance(value, torch.Tensor)]
        source = scope.draw(st.sampled_from(tensors))
        results.append(f"{parameter} + ({source} != 0).any()")
    return results


def cond(scope: Scope) -> None:
    """One of two bodies, by a truth value."""
    operands = _operands(scope)
    predicate = scope.fill(
        scope.draw(st.sampled_from(("{t}.any()", "{r}.sum() > 0", "{t}.shape[0] > 4", "{b}.all()")))
    )
    if not operands or predicate is None:
        return
    branches = [_body(scope, [*operands.values()], _like) for _ in range(2)]
    if branches[0] is None or branches[1] is None:
        return
    (yes, yes_lines, _), (no, no_lines, value) = branches[0], branches[1]
    name = scope.name("v")
    try:
        scope.evaluate([], predicate)
    except REFUSALS:
        return
    line = f"{name} = torch.cond({predicate}, {yes}, {no}, ({''.join(f'{each}, ' for each in operands)}))"
    scope.keep([*yes_lines, *no_lines, line], name, value)


def while_loop(scope: Scope) -> None:
    """A body as often as a counter says."""
    operands = _operands(scope, 1)
    if not operands:
        return
    body = _body(
        scope,
        [torch.zeros((), dtype=torch.int64), *operands.values()],
        lambda inner, names: [f"{names[0]} + 1", *_like(inner, names[1:])],
    )
    if body is None:
        return
    turns, go, name = scope.draw(st.integers(0, 3)), scope.name("f"), scope.name("v")
    names = [scope.name("a") for _ in range(len(operands) + 1)]
    lines = [f"def {go}({', '.join(names)}):", f"    return {names[0]} < {turns}"]
    carried = ", ".join(["torch.zeros((), dtype=torch.int64)", *operands])
    lines.append(f"{name} = torch._higher_order_ops.while_loop({go}, {body[0]}, ({carried}))")
    scope.keep([*body[1], *lines], name, body[2])


def map_rows(scope: Scope) -> None:
    """A body for each row of a tensor."""
    rows = {name: value for name, value in _operands(scope, 1).items() if value.dim() and value.shape[0]}
    if not rows:
        return
    (over, tensor), *_ = rows.items()
    body = _body(scope, [tensor[0]], _like, captures=False)
    if body is None:
        return
    name = scope.name("v")
    line = f"{name} = torch._higher_order_ops.map({body[0]}, {over})"
    scope.keep([*body[1], line], name, (tensor.clone(),))


def scan(scope: Scope) -> None:
    """A body for each row of a tensor, with what the one before left."""
    rows = {name: value for name, value in _operands(scope, 1).items() if value.dim() and value.shape[0]}
    if not rows:
        return
    (over, tensor), *_ = rows.items()
    body = _body(scope, [tensor[0], tensor[0]], lambda inner, names: [*_like(inner, names)], captures=False)
    if body is None:
        return
    name = scope.name("v")
    reverse = scope.draw(st.booleans())
    line = f"{name} = torch._higher_order_ops.scan({body[0]}, {over}[0].clone(), {over}, reverse={reverse})"
    scope.keep([*body[1], line], name, (tensor[0].clone(), tensor.clone()))


_IN_BODIES = (expression, expression, expression, cond)
CONTROL_FLOW = (cond, while_loop, map_rows, scan)
"""The statements."""
