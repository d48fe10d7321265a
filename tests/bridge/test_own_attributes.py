"""What somebody sets on the objects of a program, and a file does not keep, is named at save; what torch sets is not."""

from __future__ import annotations

import copy
import functools
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from attribute_differences import lost_attributes
from hypothesis import given, settings, strategies as st
from nightly import by_day
from small_programs import SMALL_PROGRAMS
from torch import nn
from torch.export import ExportedProgram, export
from torch.export.graph_signature import SymIntArgument
from torch.fx import GraphModule

import graphwire
from graphwire.errors import EncodeError, GraphwireWarning

Edit = Callable[[Any, str], object]


def _attribute(value: Any) -> Edit:
    return lambda holder, name: setattr(holder, name, value)


OF_ALL: dict[str, Edit] = {
    "a text": _attribute("x"),
    "nothing": _attribute(None),
    "a list": _attribute([object()]),
    "a function": _attribute(lambda: 0),
}
OF_MODULES: dict[str, Edit] = {
    **OF_ALL,
    "a parameter": _attribute(nn.Parameter(torch.ones(2))),
    "a tensor": _attribute(torch.ones(2)),
    "a buffer": lambda module, name: module.register_buffer(name, torch.ones(2)),
    "a module": _attribute(nn.Linear(2, 2)),
}


def _hook(*_: Any) -> None:
    return None


HOOKS = [each for each in dir(nn.Module) if each.startswith("register_") and each.endswith("_hook")]


def _owners(program: ExportedProgram) -> Iterator[tuple[str, Any]]:
    yield "the program", program
    for module in program.graph_module.modules():
        yield "", module
        if isinstance(module, GraphModule):
            yield "the graph", module.graph
            yield from ((node.name, node) for node in module.graph.nodes)


def _warnings_of(program: ExportedProgram) -> tuple[bytes, str]:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        data = graphwire.dumps(program)
    return data, "\n".join(str(each.message) for each in told if each.category is GraphwireWarning)


@functools.cache
def _made(name: str) -> tuple[ExportedProgram, bytes]:
    program = SMALL_PROGRAMS[name]().program
    plain, told = _warnings_of(program)
    assert told == ""
    return program, plain


@settings(max_examples=by_day(30, by_night=300), deadline=None)
@given(
    data=st.data(),
    names=st.sets(
        st.builds("own{}".format, st.text(st.characters(exclude_characters="."), max_size=4)),
        min_size=1,
        max_size=4,
    ),
)
def test_each_attribute_of_ones_own_is_named_and_changes_nothing(
    data: st.DataObject, names: set[str]
) -> None:
    program, plain = _made(data.draw(st.sampled_from(("cond", "mutated_buffers", "custom_operator"))))
    owners, done = [*_owners(program)], dict[str, tuple[str, Any]]()
    try:
        for name in sorted(names):
            where, holder = done.setdefault(name, data.draw(st.sampled_from(owners)))
            edits = OF_MODULES if isinstance(holder, nn.Module) else OF_ALL
            edits[data.draw(st.sampled_from(sorted(edits)))](holder, name)
        edited, told = _warnings_of(program)
    finally:
        for name, (_, holder) in done.items():
            delattr(holder, name)
    assert edited == plain
    for name, (where, _) in done.items():
        named = f"{name!r}" + (f" of {where}" if where else "")
        assert f"the attribute {named}" in told or f"the submodule {named}" in told


def test_subgraphs_that_export_leaves_behind_are_not_named() -> None:
    class Unused(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            def branch(a: torch.Tensor) -> torch.Tensor:
                torch.cond(a.sum() > 0, torch.sin, torch.cos, (a,))
                return a + 1

            return torch.cond(x.sum() > 0, branch, torch.cos, (x,))

    program = torch.export.export(Unused(), (torch.ones(2),))
    unread = [name for name, _ in program.graph_module.true_graph_0.named_children()]
    assert unread == ["true_graph_0", "false_graph_0"]
    assert _warnings_of(program)[1] == ""


@pytest.mark.parametrize("register", HOOKS)
def test_hooks_of_modules_are_named(register: str) -> None:
    program, plain = _made("cond")
    for holder, name in (
        (program.graph_module, "graph module"),
        (program.graph_module.true_graph_0, "graph module"),
    ):
        handle = getattr(holder, register)(_hook)
        edited, told = _warnings_of(program)
        assert edited == plain
        assert re.search(rf"not saved: hooks of the {name} \(\w+_hooks\)", told), told
        handle.remove()
        holder._is_full_backward_hook = None
    assert _warnings_of(program) == (plain, "")


def test_the_mode_of_evaluation_is_named() -> None:
    program = export(nn.ReLU(), (torch.ones(2),))
    program.graph_module.eval()
    with pytest.warns(GraphwireWarning, match="not saved: the attribute 'training'"):
        graphwire.dumps(program)


def test_many_are_named_each() -> None:
    program = export(nn.ReLU(), (torch.ones(2),))
    for index in range(20):
        setattr(program, f"own{index}", 1)
    _, told = _warnings_of(program)
    assert all(f"the attribute 'own{index}' of the program" in told for index in range(20))


class _Trained(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Conv1d(3, 4, 3), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.GELU())
        self.inner.register_forward_hook(_hook)
        self.inner.notes = "of the model, which is no part of the program"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.inner(x)
        return torch.cond(y.sum() > 0, lambda y: y + 1, lambda y: y * 2, (y,))


def test_what_torch_sets_on_joint_graphs_and_other_devices_is_not_named() -> None:
    from torch.export.experimental import _export_forward_backward
    from torch.export.passes import move_to_device_pass

    class Loss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return nn.functional.cross_entropy(self.inner(x), y)

    program = export(Loss(), (torch.ones(5, 4), torch.zeros(5, dtype=torch.int64)))
    for each in (_export_forward_backward(program), move_to_device_pass(program, "meta")):
        data, told = _warnings_of(each)
        assert told == ""
        assert lost_attributes(each, graphwire.loads(data)) == []


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("strict", [True, False])
def test_what_torch_sets_is_not_named(training: bool, strict: bool) -> None:
    model, x = _Trained().train(training), torch.ones(2, 3, 8)
    program = export(model, (x,), strict=strict, preserve_module_call_signature=("inner",))
    programs = [
        program,
        program.run_decompositions(),
        program.run_decompositions({}),
        export(program.module(), (x,)),
    ]
    programs.append(graphwire.loads(graphwire.dumps(program)))
    program.module()(x)
    program.graph_module.meta["_user_preserved_attributes"] = {}  # as torchao's quantization does
    torch.compile(program.graph_module, backend="eager")
    for each in programs:
        assert _warnings_of(each)[1] == ""


class _Named(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.count = nn.Buffer(torch.ones(4))

    def forward(self, x: torch.Tensor, n: int) -> Any:
        self.count.add_(1)
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,)) + self.count, x.sum() * 2


def _node(program: ExportedProgram, op: str, index: int = 0) -> Any:
    return program.graph.find_nodes(op=op)[index]


def _spec(side: str, index: int, field: str, value: Any) -> Callable[[ExportedProgram], None]:
    def edit(program: ExportedProgram) -> None:
        spec = getattr(program.graph_signature, side)[index]
        setattr(spec.arg if field.startswith("arg.") else spec, field.removeprefix("arg."), value)

    return edit


def _rename_in_place(program: ExportedProgram) -> None:
    program.graph.output_node().name = "end"


UNKEPT: dict[str, Callable[[ExportedProgram], object]] = {
    "graph_signature.output_specs[1].arg (the graph has a TensorArgument)": _spec(
        "output_specs", 1, "arg", SymIntArgument("add")
    ),
    "graph_signature.output_specs[2].arg.name (the graph has 'mul')": _spec(
        "output_specs", 2, "arg.name", "nobodys"
    ),
    "graph_signature.output_specs[2].target (a file has none)": _spec("output_specs", 2, "target", "count"),
    "graph_signature.input_specs[1].target (a file has none)": _spec("input_specs", 1, "target", "x"),
    "graph_signature.input_specs[1].persistent (a file has none)": _spec(
        "input_specs", 1, "persistent", True
    ),
    "the arguments of end": lambda program: setattr(_node(program, "output"), "kwargs", {"a": 1}),
    "the arguments of true_graph_0": lambda program: setattr(_node(program, "get_attr"), "args", (1,)),
    "the arguments of x": lambda program: setattr(_node(program, "placeholder", 1), "kwargs", {"a": 1}),
    "the default value of n": lambda program: setattr(_node(program, "placeholder", 2), "args", (3,)),
    "the target of end": lambda program: setattr(_node(program, "output"), "target", "end"),
    "the name of end": _rename_in_place,
    "the target 'mul' of x": lambda program: setattr(_node(program, "placeholder", 1), "target", "mul"),
    "the target 'a b' of n": lambda program: setattr(_node(program, "placeholder", 2), "target", "a b"),
    "meta['unbacked_bindings'] of x": lambda program: _node(program, "placeholder", 1).meta.update(
        unbacked_bindings={1: 2}
    ),
    "meta['val'] of true_graph_0": lambda program: _node(program, "get_attr").meta.update(val=1),
    "meta['val'] of the graph's module": lambda program: program.graph_module.meta.update(val=1),
    "meta['custom'] of a subgraph's module, of which files keep none": lambda program: (
        program.graph_module.true_graph_0.meta.update(custom={"a": 1})
    ),
    "example inputs are not saved: their structure": lambda program: setattr(
        program, "_example_inputs", ((torch.ones(2),), {})
    ),
}
"""What a file does not keep, with an edit of it."""


def test_what_a_load_makes_otherwise_is_named_and_changes_nothing() -> None:
    program = export(_Named(), (torch.ones(3, 4), 3)).run_decompositions()
    example = program.example_inputs
    plain, told = _warnings_of(program)
    assert told == ""
    before = graphwire.loads(plain)
    for edit in UNKEPT.values():
        edit(program)
    _, told = _warnings_of(program)
    assert [each for each in UNKEPT if each not in told] == []
    program._example_inputs = example
    assert lost_attributes(before, graphwire.loads(_warnings_of(program)[0])) == []


def test_an_input_of_a_subgraph_that_is_used_states_its_value() -> None:
    program = export(_Named(), (torch.ones(3, 4), 3))
    x = program.graph_module.true_graph_0.graph.find_nodes(op="placeholder")[0]
    for value in (None, "x"):
        x.meta["val"] = value
        with pytest.raises(EncodeError, match=r"graph\.x: an input that is used has"):
            graphwire.dumps(program)


def test_a_parameter_whose_argument_is_no_tensor_is_refused_with_its_place() -> None:
    program = export(nn.Linear(2, 2), (torch.ones(2, 2),))
    spec = program.graph_signature.input_specs[1]
    spec.arg = SymIntArgument(spec.arg.name)
    with pytest.raises(
        EncodeError, match=r"input_specs\[1\]: 'p_bias' is a parameter, and its `arg` a SymInt"
    ):
        graphwire.dumps(program)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_names_that_a_deep_copy_changes_are_not_named() -> None:
    class Builtins(nn.Module):
        def forward(self, input: torch.Tensor, *, max: torch.Tensor) -> torch.Tensor:
            input.add_(1)
            return input * 2 + max

    program = export(Builtins(), (torch.ones(2, 3),), {"max": torch.ones(3)}).run_decompositions()
    assert _warnings_of(copy.deepcopy(program))[1] == ""
