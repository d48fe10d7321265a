"""The strategy: inputs, a model and what it computes, put together to a source and exported."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from types import ModuleType
from typing import Any, cast

import torch
from hypothesis import reject, strategies as st
from torch.export import ExportedProgram

from random_programs import parts
from random_programs.control_flow import CONTROL_FLOW
from random_programs.inputs import (
    LITERALS,
    Inputs,
    container,
    indented,
    model_lines,
    state_lines,
)
from random_programs.scope import SIMPLE, Scope
from random_programs.text import function_of, module_of

__all__ = ["ExportableProgram", "exportable_programs", "program_sources"]

_STATEMENTS = (*SIMPLE, *CONTROL_FLOW)
_KEYWORD = '"k"'


class ExportableProgram:
    """A program that torch exports, and the source that makes it."""

    def __init__(self, source: str, module: ModuleType) -> None:
        self.source = source
        """A Python module: `Model`, `inputs` and `program`."""
        self._module = module

    @property
    def program(self) -> ExportedProgram:
        """The program, exported."""
        return cast("ExportedProgram", self._module.program)

    def inputs(self, **sizes: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments for a call, made anew; `n` and `m` are the dynamic sizes."""
        args, kwargs, _ = self._module.inputs(**sizes)
        return args, kwargs

    def again(self) -> ExportedProgram:
        """The program, exported once more from the same source."""
        return cast("ExportedProgram", module_of(self.source).program)

    def __repr__(self) -> str:
        return f"\n{self.source}"


@st.composite
def exportable_programs(draw: st.DrawFn, *, max_statements: int = 8) -> ExportableProgram:
    """Random programs that this torch exports.

    Args:
        max_statements: how many statements a program has at most, those of the bodies of control flow aside.

    Returns:
        A strategy of `ExportableProgram`.
    """
    source = draw(program_sources(max_statements=max_statements))
    try:
        with warnings.catch_warnings(action="ignore"):
            return ExportableProgram(source, module_of(source))
    except Exception:
        reject()


@st.composite
def program_sources(draw: st.DrawFn, *, max_statements: int = 8) -> str:
    """The sources of `exportable_programs`, and of a few that torch does not export."""
    numbers = itertools.count()
    state, inputs = state_lines(draw), Inputs(draw, numbers)
    positional = [container(draw, inputs.leaf) for _ in range(draw(st.integers(1, 3)))]
    keyword = [container(draw, inputs.leaf)] if draw(st.integers(0, 3)) == 3 else []
    if not inputs.lines:
        positional.append(inputs.tensor())
    names = [f"x{index}" for index in range(len(positional))]
    given = f"{_tuple(positional)}, {{{', '.join(f'{_KEYWORD}: {each}' for each in keyword)}}}"
    model = model_lines(state)
    scope = Scope(draw, numbers, function_of((), tuple(model), "Model()")())
    _offer_inputs(scope, names, function_of((), ("n, m = 7, 11", *inputs.lines), given)())
    for _ in range(draw(st.integers(1, max_statements))):
        draw(st.sampled_from(_STATEMENTS))(scope)
    scope.lines.append(f"return {_result(scope)}")
    signature = ", ".join(["self", *names, *(["*", "k"] if keyword else [])])
    model += ["", *indented("", indented(f"def forward({signature}):", scope.lines))[1:]]
    sizes = ", ".join(f"{name}: {dims}" for name, dims in inputs.sizes.items())
    function = indented("def inputs(n=7, m=11):", [*inputs.lines, f"return {given}, {{{sizes}}}"])
    return (
        "\n".join([parts.PREAMBLE, "", *model, "", "", *function, "", "", *_export(draw, inputs, positional)])
        + "\n"
    )


def _tuple(inner: Sequence[str]) -> str:
    return f"({''.join(f'{each}, ' for each in inner)})"


def _offer_inputs(scope: Scope, names: Sequence[str], given: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
    """Let the body read what it is given and what its model holds."""
    args, kwargs = given
    for name, value in [*zip(names, args, strict=True), *kwargs.items()]:
        scope.locals[name] = value
        scope.offer(name, value)
    scope.changeable.update(scope.pool)
    model = scope.locals["self"]
    buffers = dict(model.named_buffers(recurse=False))
    constants = {name: value for name, value in vars(model).items() if isinstance(value, torch.Tensor)}
    for name, value in {**dict(model.named_parameters(recurse=False)), **buffers, **constants}.items():
        scope.offer(f"self.{name}", value)
    scope.changeable.update(f"self.{name}" for name in buffers)


def _result(scope: Scope) -> str:
    """What is returned: containers of what was computed last, and of anything else."""
    made = [name for name in scope.locals if name.startswith("v")] + scope.last
    read = [*reversed(made), *scope.pool] if made else [*scope.pool]
    choices = st.sampled_from([*read, *LITERALS] if made or not read else read)
    return container(scope.draw, lambda: scope.draw(choices))


def _export(draw: st.DrawFn, inputs: Inputs, positional: Sequence[str]) -> list[str]:
    """The lines that export the program."""
    lines = ["args, kwargs, sizes = inputs()"]
    strict = draw(st.integers(0, 7)) == 7
    numbers = [i for i, text in enumerate(positional) if text == "3" and draw(st.booleans())]
    if inputs.sizes or numbers:
        lines = [f"{name} = {inputs.size_name(name)}" for name in ("rows", "columns")] + lines
        lines += [
            "shapes = torch.export.ShapesCollection()",
            "for tensor, dims in sizes.items():",
            "    shapes[tensor] = dims",
            "dynamic_shapes = shapes.dynamic_shapes(Model(), args, kwargs)",
            *(f'dynamic_shapes["x{index}"] = Dim.DYNAMIC' for index in numbers),
        ]
    shapes = ", dynamic_shapes=dynamic_shapes" if inputs.sizes or numbers else ""
    lines.append(f"program = torch.export.export(Model(), args, kwargs{shapes}, strict={strict})")
    if draw(st.integers(0, 7)) == 7:
        lines.append("program = program.run_decompositions()")
    return lines
