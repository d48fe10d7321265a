"""The body of one function while it is drawn, and the statements that it may have, control flow aside.

Each statement is tried on real values as soon as it is drawn; one that makes no sense there is dropped.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from hypothesis import strategies as st

from random_programs import parts
from random_programs.text import function_of

__all__ = ["REFUSALS", "SIMPLE", "Scope", "expression"]

MAX_ELEMENTS, MAX_NUMBER = 3000, 200
"""Bounds on the values of a program: tensors, and the numbers that become sizes."""

REFUSALS = (RuntimeError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError)
"""What torch raises of a call that makes no sense."""


class Scope:
    """The body of one function while it is drawn: what can be read in it, with values to try things on."""

    def __init__(self, draw: st.DrawFn, numbers: Iterator[int], model: torch.nn.Module | None) -> None:
        self.draw = draw
        self.numbers = numbers
        self.lines: list[str] = []
        self.locals: dict[str, Any] = {} if model is None else {"self": model}
        self.pool: dict[str, Any] = {}
        """The values that expressions have here."""
        self.last: list[str] = []
        """Names of values that may only be returned."""
        self.changeable: set[str] = set()

    def name(self, letter: str) -> str:
        """A name that is not taken."""
        return f"{letter}{next(self.numbers)}"

    def evaluate(self, lines: Sequence[str], result: str) -> Any:
        """The value of an expression after some lines.

        Raises:
            One of `REFUSALS`.
        """
        words = set(re.findall(r"\w+", "\n".join([*lines, result])))
        used = {name: value for name, value in self.locals.items() if name in words}
        # torch gives many a warning once a process only, and what is drawn must not hang on that.
        with warnings.catch_warnings(action="ignore"), torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(0)
            return function_of(tuple(used), tuple(lines), result)(**used)

    def fill(self, template: str) -> str | None:
        """A template with its slots filled; None where nothing fits one of them."""
        filled: list[str] = []
        for index, part in enumerate(re.split(r"\{(\w)\}", template)):
            if index % 2 and (found := self._slot(part)) is None:
                return None
            filled.append(part if index % 2 == 0 else str(found))
        return "".join(filled)

    def _slot(self, letter: str) -> str | None:
        if letter in parts.LITERALS:
            return self.draw(st.sampled_from(parts.LITERALS[letter]))
        fits = parts.SLOTS[letter]
        found = [name for name, value in self.pool.items() if fits(value)]
        if found:
            return self.draw(st.sampled_from(found))
        return self.fill(parts.SUBSTITUTES[letter]) if letter in parts.SUBSTITUTES else None

    def keep(self, lines: Sequence[str], name: str, value: Any) -> None:
        """Add a statement that names a value."""
        self.lines.extend(lines)
        self.locals[name] = value
        self.offer(name, value)

    def offer(self, expression: str, value: Any) -> None:
        """Let statements read the value of an expression, and what is in it."""
        if isinstance(value, torch.Tensor) or type(value) in (int, float, bool):
            self.pool[expression] = value
        elif isinstance(value, Mapping):
            for key, inner in value.items():
                self.offer(f"{expression}[{key!r}]", inner)
        elif isinstance(value, parts.Box):
            self.offer(f"{expression}.inside", value.inside)
        elif isinstance(value, Sequence) and not isinstance(value, str):
            for index, inner in enumerate(value):
                self.offer(f"{expression}[{index}]", inner)


def _is_bounded(value: Any) -> bool:
    leaves = torch.utils._pytree.tree_leaves(value)
    return all(
        leaf.numel() <= MAX_ELEMENTS if isinstance(leaf, torch.Tensor) else abs(leaf) <= MAX_NUMBER
        for leaf in leaves
        if isinstance(leaf, (torch.Tensor, int, float))
    )


def expression(scope: Scope) -> None:
    """The value of an expression."""
    template = scope.draw(st.sampled_from(scope.draw(st.sampled_from(parts.EXPRESSIONS))))
    _assign(scope, scope.fill(template))


def _assign(scope: Scope, expression: str | None, *, last: bool = False) -> None:
    if expression is None:
        return
    name = scope.name("v")
    try:
        value = scope.evaluate([], expression)
    except REFUSALS:
        return
    if last:
        scope.lines.append(f"{name} = {expression}")
        scope.last.append(name)
    elif _is_bounded(value):
        scope.keep([f"{name} = {expression}"], name, value)


def unknown(scope: Scope) -> None:
    """A value whose sizes nobody knows beforehand."""
    _assign(scope, scope.fill(scope.draw(st.sampled_from(parts.LAST))), last=True)


def alteration(scope: Scope) -> None:
    """A tensor is changed in place."""
    targets = [name for name, value in scope.pool.items() if isinstance(value, torch.Tensor)]
    targets = [name for name in targets if name in scope.changeable or name.startswith("v")]
    template = scope.draw(st.sampled_from(parts.ALTERATIONS))
    if not targets:
        return
    line = scope.fill(re.sub(r"\{\w\}", scope.draw(st.sampled_from(targets)), template, count=1))
    if line is None:
        return
    try:
        scope.evaluate([line], "None")
    except REFUSALS:
        return
    scope.lines.append(line)


def block(scope: Scope) -> None:
    """Statements under a context manager."""
    head = scope.draw(st.sampled_from(parts.BLOCKS))
    before = len(scope.lines)
    for _ in range(scope.draw(st.integers(1, 3))):
        expression(scope)
    inside = scope.lines[before:]
    if inside:
        scope.lines[before:] = [head, *(f"    {line}" for line in inside)]


def call_of_module(scope: Scope) -> None:
    """A module of the model is called."""
    name = scope.draw(st.sampled_from(sorted(parts.MODULES)))
    if hasattr(scope.locals.get("self"), name):
        _assign(scope, scope.fill(f"self.{name}({parts.MODULES[name][1]})"))


SIMPLE = (*(expression,) * 12, alteration, call_of_module, unknown, block)
"""The statements, as often as they shall be drawn."""
