"""ATen's history, shown by numbers: what an operator computed in an old version, written out, against the program that an
old file becomes; and what the operator computes now against the program that a file for an old version says."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from inside.evolve import apply, plan_for
from msgspec.structs import replace
from torch.export import ExportedProgram

import graphwire
from graphwire import Payloads
from graphwire.errors import OpsetError
from graphwire.hooks import OpsetUpgrader, default_registry
from graphwire.schema import Argument, Graph, Node, Program, ScalarType
from graphwire_plugins.opsets import ATEN_STEPS

INTS, MORE_INTS = torch.tensor([7, -7, 9, -9]), torch.tensor([2, 2, -4, -4])
FLOATS = torch.tensor([7.0, -7.0, 9.0, -9.0])


def quotients(one: list[Any], other: list[Any]) -> list[int]:
    """Division as it was before version 4: of integers, cut off towards zero."""
    return [int(a / b) for a, b in zip(one, other, strict=True)]


def export(function: Callable[..., Any], *args: Any) -> ExportedProgram:
    class Model(torch.nn.Module):
        def forward(self, *args: Any) -> Any:
            return function(*args)

    return torch.export.export(Model(), args)


def node_of(graph: Graph, operator: str) -> Node:
    (found,) = [node for node in graph.nodes if node.target.startswith(f"torch.ops.aten.{operator}.")]
    return found


def set_dtype(graph: Graph, node: Node, dtype: ScalarType) -> None:
    """Let a graph say of a node's result what an old torch said."""
    tensor = node.outputs[0].as_tensor
    assert tensor is not None
    graph.tensor_values[tensor.name] = replace(graph.tensor_values[tensor.name], dtype=dtype)


def aged(
    program: ExportedProgram, version: int, change: Callable[[Graph], None] = lambda _: None
) -> tuple[Program, Payloads]:
    """A program as a file of an old version says it."""
    record, payloads = graphwire.to_schema(program)
    change(record.graph_module.graph)
    record.opset_version["aten"] = version
    return record, payloads


def run(record: tuple[Program, Payloads], *args: Any) -> Any:
    loaded = graphwire.from_schema(*record)
    again = graphwire.loads(graphwire.dumps(loaded))
    result = again.module()(*(arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in args))
    assert graphwire.to_schema(loaded)[0].opset_version["aten"] == 10
    return result


def targets(program: Program) -> list[str]:
    return [node.target.removeprefix("torch.ops.aten.") for node in program.graph_module.graph.nodes]


def written_for(version: int, program: ExportedProgram) -> Program:
    with graphwire.open(graphwire.dumps(program, opset_version={"aten": version})) as archive:
        assert archive.program.opset_version["aten"] == version
        return archive.program


# -------------------------------------------------------------------------------------------------------- the facts


def test_the_overloads_and_their_versions_are_those_of_torch() -> None:
    theirs = {
        (name.removeprefix("aten::"), entry.bumped_at_version)
        for name, entries in torch._C._get_operator_version_map().items()
        for entry in entries
    }
    up = {
        (name.removeprefix("torch.ops.aten.").removesuffix(".default"), step.to_version)
        for step in ATEN_STEPS
        if step.to_version > step.from_version
        for name in step.operators
    }
    down = {
        (name.removeprefix("torch.ops.aten.").removesuffix(".default"), step.from_version)
        for step in ATEN_STEPS
        if step.to_version < step.from_version
        for name in step.operators
    }
    assert up == down == theirs
    assert len(theirs) == 18


def test_the_chain_ends_at_the_version_of_torch() -> None:
    newest = torch._C._get_max_operator_version()
    steps = {(step.from_version, step.to_version) for step in ATEN_STEPS}
    assert steps == {(v, v + 1) for v in range(1, newest)} | {(v + 1, v) for v in range(1, newest)}
    assert all(isinstance(step, OpsetUpgrader) and step.namespace == "aten" for step in ATEN_STEPS)


# ---------------------------------------------------------------------------------------------------- division: 3, 4


def to_long(operator: str) -> Callable[[Graph], None]:
    return lambda graph: set_dtype(graph, node_of(graph, operator), ScalarType.LONG)


def test_integers_were_divided_with_the_rest_cut_off() -> None:
    old = aged(export(lambda x, y: x / y, INTS, MORE_INTS), 3, to_long("div"))
    result = run(old, INTS, MORE_INTS)
    assert result.dtype == torch.int64
    assert result.tolist() == quotients(INTS.tolist(), MORE_INTS.tolist()) == [3, -3, -2, 2]


def test_integers_were_divided_by_an_integer_with_the_rest_cut_off() -> None:
    def divide_by_scalar(graph: Graph) -> None:
        to_long("div")(graph)
        node = node_of(graph, "div")
        node.target = "torch.ops.aten.div.Scalar"
        node.inputs[1].arg = Argument(as_int=2)

    old = aged(export(lambda x: x / 2, INTS), 3, divide_by_scalar)
    assert run(old, INTS).tolist() == quotients(INTS.tolist(), [2] * 4)


@pytest.mark.parametrize(
    ("one", "other"), [(FLOATS, MORE_INTS), (INTS, FLOATS + 0.5), (FLOATS, FLOATS + 0.5), (FLOATS + 1j, INTS)]
)
def test_where_an_operand_is_no_integer_nothing_was_cut_off(one: torch.Tensor, other: torch.Tensor) -> None:
    result = run(aged(export(lambda x, y: x / y, one, other), 3), one, other)
    expected = [a / b for a, b in zip(one.tolist(), other.tolist(), strict=True)]
    torch.testing.assert_close(result, torch.tensor(expected, dtype=result.dtype))


def test_integers_divided_by_a_float_were_not_cut_off() -> None:
    result = run(aged(export(lambda x: torch.ops.aten.div.Scalar(x, 2.0), INTS), 3), INTS)
    assert result.tolist() == [a / 2.0 for a in INTS.tolist()]


@pytest.mark.parametrize("scalar", [True, False])
def test_division_in_place_was_cut_off(scalar: bool) -> None:
    def in_place(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if scalar:
            return torch.ops.aten.div_.Scalar_mode(x.clone(), 2, rounding_mode="floor")
        return torch.ops.aten.div_.Tensor_mode(x.clone(), y, rounding_mode="floor")

    def without_mode(graph: Graph) -> None:
        node = node_of(graph, "div_")
        node.target = node.target.removesuffix("_mode")
        node.inputs = [named for named in node.inputs if named.name != "rounding_mode"]

    old = aged(export(in_place, INTS, MORE_INTS), 3, without_mode)
    divisors = [2] * 4 if scalar else MORE_INTS.tolist()
    assert run(old, INTS, MORE_INTS).tolist() == quotients(INTS.tolist(), divisors)


@pytest.mark.parametrize("out", [torch.empty(4, dtype=torch.int64), torch.empty(4)])
def test_division_into_a_tensor_was_cut_off_unless_that_has_fractions(out: torch.Tensor) -> None:
    def into(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.div.out_mode(x, y, rounding_mode="trunc", out=torch.empty_like(out))

    def without_mode(graph: Graph) -> None:
        node = node_of(graph, "div")
        node.target = "torch.ops.aten.div.out"
        node.inputs = [named for named in node.inputs if named.name != "rounding_mode"]

    result = run(aged(export(into, INTS, MORE_INTS), 3, without_mode), INTS, MORE_INTS)
    pairs = list(zip(INTS.tolist(), MORE_INTS.tolist(), strict=True))
    expected = [a / b for a, b in pairs] if out.is_floating_point() else [int(a / b) for a, b in pairs]
    assert result.tolist() == expected


@pytest.mark.parametrize("mode", ["trunc", "floor", None])
def test_a_division_that_says_how_it_rounds_stays(mode: str | None) -> None:
    def modes(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        kept = [torch.div(x, y, rounding_mode=mode), torch.ops.aten.div.Scalar_mode(x, 2, rounding_mode=mode)]
        if mode is not None:
            out = torch.empty_like(x)
            kept.append(torch.ops.aten.div.out_mode(x, y, rounding_mode=mode, out=out))
            kept.append(torch.ops.aten.div_.Tensor_mode(x.clone(), y, rounding_mode=mode))
            kept.append(torch.ops.aten.div_.Scalar_mode(x.clone(), 2, rounding_mode=mode))
        return kept

    rounding: dict[Any, Callable[[float], float]] = {"trunc": math.trunc, "floor": math.floor, None: float}
    result = run(aged(export(modes, INTS, MORE_INTS), 3), INTS, MORE_INTS)
    for index, each in enumerate(result):
        divisors = MORE_INTS.tolist() if index in (0, 2, 3) else [2] * 4
        assert each.tolist() == [rounding[mode](a / b) for a, b in zip(INTS.tolist(), divisors, strict=True)]


def test_a_true_division_of_integers_is_written_with_a_float_for_an_old_version() -> None:
    program = export(lambda x, y: (x / y, x / 4), INTS, MORE_INTS)
    old = written_for(3, program)
    assert targets(old) == ["_to_copy.default", "div.Tensor", "_to_copy.default", "div.Tensor"]
    # What version 3 computes: of floats a true division.
    first, second = run((old, graphwire.to_schema(program)[1]), INTS, MORE_INTS)
    assert first.tolist() == [a / b for a, b in zip(INTS.tolist(), MORE_INTS.tolist(), strict=True)]
    assert second.tolist() == [a / 4 for a in INTS.tolist()]


def test_a_division_of_floats_is_the_same_in_an_old_version() -> None:
    program = export(lambda x: x / 2, FLOATS)
    assert targets(written_for(3, program)) == ["div.Tensor"]


# --------------------------------------------------------------------------------------------------------- full: 4, 5


def without(operator: str, parameter: str, dtype: ScalarType | None = None) -> Callable[[Graph], None]:
    def change(graph: Graph) -> None:
        node = node_of(graph, operator)
        node.inputs = [named for named in node.inputs if named.name != parameter]
        if dtype is not None:
            set_dtype(graph, node, dtype)

    return change


@pytest.mark.parametrize("fill", [3, True, 0, 2.5])
def test_full_made_floats_of_integers_and_truth_values(fill: Any) -> None:
    change = without("full", "dtype", ScalarType.FLOAT)
    result = run(aged(export(lambda x: x + torch.full((4,), fill), FLOATS), 4, change), FLOATS)
    assert result.dtype == torch.float32
    assert result.tolist() == [x + float(fill) for x in FLOATS.tolist()]
    only = run(aged(export(lambda x: (torch.full((2,), fill), x.cos()), FLOATS), 4, change), FLOATS)[0]
    assert only.dtype == torch.float32
    assert only.tolist() == [float(fill)] * 2


def test_full_made_floats_of_a_size() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.full((2,), x.shape[0])

    program = torch.export.export(Model(), (torch.ones(3, 2),), dynamic_shapes=({0: torch.export.Dim("n")},))
    result = run(aged(program, 4, without("full", "dtype", ScalarType.FLOAT)), torch.ones(5, 2))
    assert result.dtype == torch.float32
    assert result.tolist() == [5.0, 5.0]


def test_full_with_an_element_type_stays() -> None:
    program = export(lambda x: x + torch.full((4,), 3, dtype=torch.int32), INTS)
    assert run(aged(program, 4), INTS).tolist() == [x + 3 for x in INTS.tolist()]


def test_full_into_a_tensor_stays() -> None:
    program = export(lambda x: torch.full((4,), 3, out=torch.empty_like(x)), INTS)
    assert run(aged(program, 4), INTS).tolist() == [3] * 4


@pytest.mark.parametrize(("fill", "dtype"), [(3, torch.int64), (True, torch.bool), (2.5, torch.float32)])
def test_full_says_its_element_type_for_an_old_version(fill: Any, dtype: torch.dtype) -> None:
    program = export(lambda x: (torch.full((2,), fill), x.cos()), FLOATS)
    record, payloads = graphwire.to_schema(program)
    without("full", "dtype")(record.graph_module.graph)
    for version in (9, 4):
        old = apply(record, plan_for(record, default_registry(), wanted={"aten": version}))
        result = run((old, payloads), FLOATS)[0]
        assert (result.dtype, result.tolist()) == (dtype, [fill] * 2)


# -------------------------------------------------------------------------------------- linspace and logspace: 7, 8, 9


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("into", [True, False])
def test_linspace_and_logspace_had_a_hundred_steps(given: bool, into: bool) -> None:
    steps = 4 if given else 100

    def spaces(x: torch.Tensor) -> list[torch.Tensor]:
        out = [torch.empty(steps), torch.empty(steps)] if into else [None, None]
        return [
            torch.linspace(0, 3, steps, out=out[0]),
            torch.logspace(0, 3, steps, 2.0, out=out[1]),
            x.cos(),
        ]

    def change(graph: Graph) -> None:
        if not given:
            without("linspace", "steps")(graph)
            without("logspace", "steps")(graph)

    linear, logarithmic, _ = run(aged(export(spaces, FLOATS), 7, change), FLOATS)
    expected = [3 * i / (steps - 1) for i in range(steps)]
    torch.testing.assert_close(linear, torch.tensor(expected))
    torch.testing.assert_close(logarithmic, torch.tensor([2.0**value for value in expected]))


def test_no_steps_at_all_were_a_hundred_too() -> None:
    def change(graph: Graph) -> None:
        node = node_of(graph, "linspace")
        (steps,) = [named for named in node.inputs if named.name == "steps"]
        steps.arg = Argument(as_none=True)

    program = export(lambda x: (torch.linspace(0, 99, 100), x.cos()), FLOATS)
    torch.testing.assert_close(run(aged(program, 7, change), FLOATS)[0], torch.arange(100.0))


def test_steps_are_said_in_an_old_version_too() -> None:
    program = export(lambda x: (torch.linspace(0, 3, 4), torch.logspace(0, 3, 4), x.cos()), FLOATS)
    old = written_for(1, program)
    assert targets(old) == ["linspace.default", "logspace.default", "cos.default"]
    result = run((old, graphwire.to_schema(program)[1]), FLOATS)
    assert result[0].tolist() == [0.0, 1.0, 2.0, 3.0]
    assert result[1].tolist() == [1.0, 10.0, 100.0, 1000.0]


# --------------------------------------------------------------------------------------------------------- gelu: 9, 10


def gelu(values: list[float]) -> torch.Tensor:
    """The exact one, as it always was before version 10."""
    return torch.tensor([x * (1 + math.erf(x / math.sqrt(2))) / 2 for x in values])


def tanh_gelu(values: list[float]) -> torch.Tensor:
    inner = [math.sqrt(2 / math.pi) * (x + 0.044715 * x**3) for x in values]
    return torch.tensor([x * (1 + math.tanh(t)) / 2 for x, t in zip(values, inner, strict=True)])


SMALL = torch.tensor([-1.5, -0.25, 0.0, 0.5, 2.0])


@pytest.mark.parametrize("into", [True, False])
def test_gelu_was_exact(into: bool) -> None:
    def activate(x: torch.Tensor) -> torch.Tensor:
        if into:
            return torch.ops.aten.gelu.out(x, out=torch.empty_like(x))
        return torch.nn.functional.gelu(x)

    result = run(aged(export(activate, SMALL), 9, without("gelu", "approximate")), SMALL)
    torch.testing.assert_close(result, gelu(SMALL.tolist()))


def test_exact_gelu_is_written_without_saying_so_for_an_old_version() -> None:
    program = export(lambda x: torch.nn.functional.gelu(x, approximate="none"), SMALL)
    old = written_for(9, program)
    assert [named.name for named in old.graph_module.graph.nodes[0].inputs] == ["self"]
    torch.testing.assert_close(run((old, graphwire.to_schema(program)[1]), SMALL), gelu(SMALL.tolist()))


def test_gelu_by_tanh_is_written_out_for_an_old_version() -> None:
    program = export(lambda x: torch.nn.functional.gelu(x, approximate="tanh"), SMALL)
    old = written_for(9, program)
    assert "gelu.default" not in targets(old)
    result = run((old, graphwire.to_schema(program)[1]), SMALL)
    torch.testing.assert_close(result, tanh_gelu(SMALL.tolist()))
    torch.testing.assert_close(result, program.module()(SMALL))


def test_gelu_by_tanh_of_halves_is_refused_for_an_old_version() -> None:
    program = export(lambda x: torch.nn.functional.gelu(x, approximate="tanh"), SMALL.half())
    with pytest.raises(OpsetError, match="float16") as caught:
        graphwire.dumps(program, opset_version={"aten": 9})
    assert [problem.place for problem in caught.value.problems] == ["graph_module.graph.nodes[0]"]
