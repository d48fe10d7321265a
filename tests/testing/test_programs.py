"""`assert_same_program` sees every difference that a file could make, and says where it is."""

from __future__ import annotations

import collections
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from small_programs import SMALL_PROGRAMS
from torch import nn
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument
from torch.utils._sympy.value_ranges import ValueRanges

from graphwire.testing import assert_same_program, assert_same_values


def _node(program: ExportedProgram, name: str) -> torch.fx.Node:
    return next(node for node in program.graph.nodes if node.name == name)


def _set_args(name: str, change: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> Callable[[Any], None]:
    def apply(program: ExportedProgram) -> None:
        node = _node(program, name)
        node.args = change(node.args)

    return apply


def _set_meta(name: str, key: str, value: Any) -> Callable[[Any], None]:
    return lambda program: _node(program, name).meta.__setitem__(key, value)


def _set_state(name: str, change: Callable[[Any], Any]) -> Callable[[Any], None]:
    return lambda program: program.state_dict.__setitem__(name, change(program.state_dict[name]))


def _untie(program: ExportedProgram) -> None:
    program.state_dict["head.weight"] = nn.Parameter(program.state_dict["head.weight"].detach())


def _unshare(program: ExportedProgram) -> None:
    program.state_dict["row"] = program.state_dict["row"].clone()


def _reorder(program: ExportedProgram) -> None:
    state = program.state_dict
    state["tokens.weight"] = state.pop("tokens.weight")


def _spoil_branch(program: ExportedProgram) -> None:
    branch = program.graph_module.true_graph_0
    next(n for n in branch.graph.nodes if n.op == "call_function").target = torch.ops.aten.mul.Tensor


def _change_literal(program: ExportedProgram) -> None:
    spec = next(s for s in program.graph_signature.input_specs if isinstance(s.arg, ConstantArgument))
    spec.arg.value = not spec.arg.value


def _change_treespec(program: ExportedProgram) -> None:
    call = program.module_call_graph[0].signature
    call.out_spec = torch.utils._pytree.tree_structure([1, 2, 3])


def _nothing(program: ExportedProgram) -> None:
    pass


_CHANGES: list[tuple[str, Callable[[Any], Any], str]] = [
    ("guards", _nothing, ""),
    ("tied_weights", _nothing, ""),
    ("arguments_of_every_kind", _set_args("pad", lambda a: (a[0], tuple(a[1]), *a[2:])), "nodes.pad.args[1].class"),
    ("arguments_of_every_kind", _set_args("pad", lambda a: (*a[:3], 0.0)), "nodes.pad.args[3]"),
    ("arguments_of_every_kind", _set_args("clamp", lambda a: (a[0], a[1], 1)), "nodes.clamp.args[2]"),
    ("arguments_of_every_kind", lambda p: setattr(_node(p, "ones"), "kwargs", {}), "nodes.ones.kwargs.dtype"),
    ("cond", _spoil_branch, "attributes.true_graph_0.nodes."),
    ("annotated", _set_meta("sin", "custom", {"stage": 1, "tags": ("a", "b")}), "nodes.sin.meta.custom"),
    ("annotated", _set_meta("sin", "stack_trace", "elsewhere"), "nodes.sin.meta.stack_trace"),
    ("annotated", _set_meta("sin", "nn_module_stack", {}), "nodes.sin.meta.nn_module_stack"),
    ("annotated", _set_meta("sin", "torch_fn", ("a", "b")), "nodes.sin.meta.torch_fn"),
    ("strict_export", _set_meta("linear", "from_node", []), "nodes.linear.meta.from_node"),
    ("annotated", _set_meta("sin", "val", torch.empty(3, device="meta")), "nodes.sin.meta.val.device"),
    ("annotated", lambda p: p.graph_module.meta.pop("custom"), "program.custom"),
    ("strict_export", _set_meta("linear", "source_fn_stack", [("l", "f")]), "nodes.linear.meta.source_fn_stack"),
    ("unbacked_sizes", _set_meta("nonzero", "unbacked_bindings", {}), "nodes.nonzero.meta.unbacked_bindings"),
    (
        "ranges_of_dimensions",
        lambda p: p.range_constraints.update({next(iter(p.range_constraints)): ValueRanges(0, 7)}),
        "program.range_constraints.",
    ),
    ("inputs_of_every_kind", _change_literal, "program.signature.inputs["),
    ("containers", _change_treespec, "program.module_call_graph[0].out_spec.children"),
    ("guards", lambda p: p._guards_code.append("True"), "program.guards"),
    ("guards", lambda p: p.verifiers.append(object), "program.verifiers"),
    ("tied_weights", lambda p: setattr(p, "example_inputs", None), "program.example_inputs"),
    ("buffers_and_constants", lambda p: p.constants.pop("plain"), "program.constants.plain"),
    ("tied_weights", _untie, "program.memory.identical"),
    ("tied_weights", _unshare, "program.memory.sharing"),
    ("tied_weights", _reorder, "program.state_dict has another order"),
    ("tied_weights", _set_state("scale", nn.Parameter), "program.state_dict.scale.class"),
    ("tied_weights", _set_state("scale", lambda t: t.double()), "program.state_dict.scale.dtype"),
    ("tied_weights", _set_state("scale", lambda t: -t), "program.state_dict.scale.elements"),
    ("tied_weights", _set_state("row", lambda t: t.repeat(2)[::2]), "program.state_dict.row.strides"),
    ("buffers_and_constants", _set_state("frozen", nn.Parameter), "program.state_dict.frozen.requires_grad"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "place"), _CHANGES)
@pytest.mark.slow
def test_a_change_is_reported_with_its_place(name: str, change: Callable[[Any], Any], place: str) -> None:
    before, after = SMALL_PROGRAMS[name]().program, SMALL_PROGRAMS[name]().program
    _share_origins(before.graph_module, after.graph_module)
    change(after)
    if not place:
        assert_same_program(after, before)
        return
    with pytest.raises(AssertionError) as caught:
        assert_same_program(after, before)
    assert place in str(caught.value)


def _share_origins(before: torch.fx.GraphModule, after: torch.fx.GraphModule) -> None:
    """Give one program the provenance of the other: the numbers of graphs in it are new at each export."""
    for (_, old), (_, new) in zip(before.named_modules(), after.named_modules(), strict=True):
        if isinstance(old, torch.fx.GraphModule):
            for node, same in zip(new.graph.nodes, old.graph.nodes, strict=True):
                node.meta["from_node"] = same.meta.get("from_node", [])


def test_all_differences_are_listed() -> None:
    before, after = SMALL_PROGRAMS["tied_weights"]().program, SMALL_PROGRAMS["tied_weights"]().program
    _share_origins(before.graph_module, after.graph_module)
    _untie(after)
    _unshare(after)
    after.state_dict["scale"] += 1
    with pytest.raises(AssertionError, match=r"differ in \d+ places") as caught:
        assert_same_program(after, before)
    lines = str(caught.value).splitlines()
    assert any("identical" in line for line in lines)
    assert any("sharing" in line for line in lines)
    assert any("scale.elements" in line for line in lines)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(1, True, id="an integer and a truth value"),
        pytest.param(1, 1.0, id="an integer and a float"),
        pytest.param(0.0, -0.0, id="zeros of different sign"),
        pytest.param([1], (1,), id="a list and a tuple"),
        pytest.param({"a": 1, "b": 2}, {"b": 2, "a": 1}, id="dicts of another order"),
        pytest.param({"a": 1}, collections.OrderedDict(a=1), id="a dict and an ordered dict"),
        pytest.param(torch.zeros(1), torch.tensor([-0.0]), id="tensors with zeros of different sign"),
        pytest.param(torch.zeros(2, 2), torch.zeros(2, 2).t(), id="strides"),
        pytest.param(torch.zeros(2), torch.zeros(2, 1), id="shapes"),
        pytest.param(torch.zeros(1), torch.zeros(1, requires_grad=True), id="requires_grad"),
    ],
)
def test_values_of_other_types_or_bits_differ(one: Any, other: Any) -> None:
    assert_same_values(one, one)
    with pytest.raises(AssertionError):
        assert_same_values(one, other)


def test_nan_is_the_same_as_nan() -> None:
    nan = float("nan")
    assert_same_values([nan, torch.tensor(nan)], [nan, torch.tensor(nan)])


@pytest.mark.slow
def test_programs_are_compared_without_pytest_and_hypothesis() -> None:
    """Those are of the extra `test`; what compares programs needs what graphwire needs."""
    code = """
import sys

for name in ("pytest", "_pytest", "hypothesis", "numpy", "expecttest"):
    sys.modules[name] = None  # which makes an import fail as if it were not installed
import torch, graphwire
from graphwire.testing.programs import differences
from graphwire.testing import assert_same_program, assert_same_values
from graphwire.testing.snapshots import snapshot
import graphwire.testing

program = torch.export.export(torch.nn.Linear(2, 2), (torch.rand(1, 2),))
assert_same_program(graphwire.loads(graphwire.dumps(program)), snapshot(program))
assert_same_values(torch.ones(2), torch.ones(2))
for name in dir(graphwire.testing):
    try:
        getattr(graphwire.testing, name)
        assert name in ("assert_same_program", "assert_same_values"), name
    except ModuleNotFoundError as error:
        assert error.name.partition(".")[0] in ("pytest", "hypothesis"), error
try:
    graphwire.testing.absent
except AttributeError as error:
    assert "absent" in str(error)
else:
    raise AssertionError("absent")
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=120)
