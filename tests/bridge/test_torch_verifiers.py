"""What torch's verifiers refuse is refused, and nothing else."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from inside.bridge import check_program, dialects_of, verifier_of
from small_programs import SMALL_PROGRAMS, unused_example
from torch._export.verifier import TrainingIRVerifier, Verifier
from torch.export import ExportedProgram, export

from graphwire.errors import DecodeError


class _Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> Any:
        self.steps.add_(1)
        top, _ = x.topk(2)
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (top,)), x.shape[0] * 2


@pytest.fixture(scope="module")
def exported() -> ExportedProgram:
    dynamic = {"x": {0: torch.export.Dim("rows", min=3)}}
    return export(_Model(), (torch.ones(4),), dynamic_shapes=dynamic)


def _node(program: ExportedProgram, name: str) -> torch.fx.Node:
    return next(node for node in program.graph.nodes if name in node.name)


def _without_value(program: ExportedProgram) -> None:
    del _node(program, "topk").meta["val"]


def _with_a_strange_value(program: ExportedProgram) -> None:
    _node(program, "topk").meta["val"] = (object(), None)


def _with_a_function(program: ExportedProgram) -> None:
    _node(program, "topk").target = torch.topk


def _with_a_builtin_that_is_none_of_the_list(program: ExportedProgram) -> None:
    _node(program, "getitem").target = operator.setitem


def _with_a_method(program: ExportedProgram) -> None:
    _node(program, "topk").op = "call_method"


def _with_writing_in_core_aten(program: ExportedProgram) -> None:
    _node(program, "topk").target = torch.ops.aten.add_.Tensor
    program._verifiers = [Verifier]


def _with_a_parameter_that_is_none(program: ExportedProgram) -> None:
    program.graph_signature.input_specs[0].target = "nothing"


def _with_a_subgraph_that_calls_a_function(program: ExportedProgram) -> None:
    subgraph = program.graph_module.true_graph_0.graph
    next(node for node in subgraph.nodes if node.op == "call_function").target = torch.sin


def _with_a_name_twice(program: ExportedProgram) -> None:
    _node(program, "getitem").name = "topk"


def _with_a_value_that_is_made_later(program: ExportedProgram) -> None:
    getitem = _node(program, "getitem")
    getitem.append(_node(program, "topk"))


def _with_a_value_of_another_graph(program: ExportedProgram) -> None:
    _node(program, "getitem").args = (torch.fx.Graph().placeholder("topk"), 0)


def _with_an_attribute_that_is_a_number(program: ExportedProgram) -> None:
    program.graph_module.true_graph_0 = torch.nn.Linear(1, 1)


BREACHES = [
    _without_value,
    _with_a_strange_value,
    _with_a_function,
    _with_a_builtin_that_is_none_of_the_list,
    _with_a_method,
    _with_writing_in_core_aten,
    _with_a_parameter_that_is_none,
    _with_a_subgraph_that_calls_a_function,
    _with_a_name_twice,
    _with_a_value_that_is_made_later,
    _with_a_value_of_another_graph,
    _with_an_attribute_that_is_a_number,
]


@pytest.mark.parametrize("break_a_rule", BREACHES, ids=lambda function: function.__name__.strip("_"))
def test_what_torch_refuses_is_refused_with_torch_s_reason(
    break_a_rule: Callable[[ExportedProgram], None], exported: ExportedProgram
) -> None:
    program = copy.deepcopy(exported)
    check_program(program)
    break_a_rule(program)
    with pytest.raises(Exception) as theirs:
        program.validate()
    with pytest.raises(DecodeError, match="torch does not accept the program") as ours:
        check_program(program)
    assert str(theirs.value).splitlines()[0] in str(ours.value)


@pytest.mark.parametrize("name", SMALL_PROGRAMS)
def test_what_torch_accepts_is_accepted(name: str) -> None:
    program = unused_example(name).program
    program.validate()
    check_program(program)


def test_a_verifier_of_a_dialect_of_its_own_sees_each_operator_and_the_module() -> None:
    seen: list[Any] = []

    class _Watching(TrainingIRVerifier):
        dialect = "GRAPHWIRE_TEST"

        def check_valid_op(self, op: Any) -> None:
            seen.append(op)

        def check_additional(self, gm: torch.fx.GraphModule) -> None:
            seen.append(gm)

    program = export(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.ReLU()), (torch.ones(2),))
    program._verifiers = [_Watching]
    check_program(program)
    assert torch.ops.aten.relu.default in seen
    assert program.graph_module in seen
    assert dialects_of(program) == ["GRAPHWIRE_TEST"]
    assert verifier_of("GRAPHWIRE_TEST") is _Watching


def test_a_verifier_that_nobody_registered_is_an_error_that_names_it() -> None:
    assert verifier_of("TRAINING") is TrainingIRVerifier
    with pytest.raises(DecodeError, match="no verifier for dialect 'KLINGON'"):
        verifier_of("KLINGON")
