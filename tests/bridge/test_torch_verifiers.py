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
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, TensorArgument

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


def _specs(program: ExportedProgram, *changed: tuple[int, str, Any], side: str = "input") -> None:
    """Change attributes of the specs of a signature, each given by its index."""
    for index, name, value in changed:
        setattr(getattr(program.graph_signature, f"{side}_specs")[index], name, value)


def _call(program: ExportedProgram, **changed: str) -> None:
    """Change the name of the first input or output of the call of a module."""
    for call in program.module_call_graph:
        for side, name in changed.items():
            if call.fqn == "0" and call.signature is not None:
                getattr(call.signature, side)[0].name = name


def _with_a_late_input(program: ExportedProgram) -> None:
    with program.graph.inserting_before(next(iter(reversed(program.graph.nodes)))):
        program.graph.placeholder("late")


def _without_a_weight(program: ExportedProgram) -> None:
    del program._state_dict["0.weight"]


def _with_a_weight_that_is_no_parameter(program: ExportedProgram) -> None:
    program._state_dict["0.weight"] = torch.ones(2, 2)


EDITS: dict[str, Callable[[ExportedProgram], object]] = {
    "nothing": lambda _: None,
    "another input": lambda p: _specs(p, (-1, "arg", TensorArgument("nothing"))),
    "another parameter": lambda p: _specs(p, (0, "arg", TensorArgument("nothing"))),
    "a constant for a parameter": lambda p: _specs(p, (0, "arg", ConstantArgument("p_0_weight", 1))),
    "a constant for an input": lambda p: _specs(p, (-1, "arg", ConstantArgument("nothing", None))),
    "a path that is missing": lambda p: _specs(p, (0, "target", "0.nothing")),
    "no path": lambda p: _specs(p, (0, "target", None)),
    "a parameter that is passed": lambda p: _specs(p, (0, "kind", InputKind.USER_INPUT)),
    "a parameter that is a buffer": lambda p: _specs(p, (0, "kind", InputKind.BUFFER)),
    "an input that is a token": lambda p: _specs(p, (-1, "kind", InputKind.TOKEN)),
    "inputs in another order": lambda p: p.graph_signature.input_specs.reverse(),
    "an input too few": lambda p: p.graph_signature.input_specs.pop(),
    "a late input": _with_a_late_input,
    "a missing weight": _without_a_weight,
    "a weight that is no parameter": _with_a_weight_that_is_no_parameter,
    "another output": lambda p: _specs(p, (0, "arg", TensorArgument("nothing")), side="output"),
    "a constant for an output": lambda p: _specs(p, (0, "arg", ConstantArgument("relu", 1)), side="output"),
    "an output that is a loss": lambda p: _specs(p, (0, "kind", OutputKind.LOSS_OUTPUT), side="output"),
    "an output that mutates": lambda p: _specs(
        p, (0, "kind", OutputKind.BUFFER_MUTATION), (0, "target", "nothing"), side="output"
    ),
    "outputs in another order": lambda p: p.graph_signature.output_specs.reverse(),
    "an output too few": lambda p: p.graph_signature.output_specs.pop(),
    "a call that takes a missing value": lambda p: _call(p, inputs="nothing"),
    "a call that returns a missing value": lambda p: _call(p, outputs="nothing"),
    "a call that takes an inner value": lambda p: _call(p, inputs="linear"),
}


class _Twice(torch.nn.Sequential):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return super().forward(x), x * 2


@pytest.mark.parametrize("keeps_calls", [False, True])
@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_signature_is_judged_as_by_torch(edit: str, keeps_calls: bool) -> None:
    """Most programs have nothing but parameters, inputs and outputs that are tensors, which torch is not asked about."""
    module = _Twice(torch.nn.Linear(2, 2), torch.nn.ReLU())
    program = export(module, (torch.ones(1, 2),), preserve_module_call_signature=("0",) * keeps_calls)
    EDITS[edit](program)
    theirs = _refusal(program.validate)
    ours = _refusal(lambda: check_program(program))
    assert (ours is None) is (theirs is None)
    assert str(theirs or "").partition("\n")[0].strip() in str(ours or "")


def _refusal(check: Callable[[], object]) -> Exception | None:
    try:
        check()
    except Exception as error:
        return error
    return None


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
