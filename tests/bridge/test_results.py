"""What operators can return, and how their results can be used."""

from __future__ import annotations

import copy
import io
import json
import operator
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._ops import HigherOrderOperator
from torch.export import Dim, ExportedProgram, export

import graphwire
from graphwire.errors import GraphwireWarning
from graphwire.testing import assert_same_program, assert_same_values

FORMATS = ("json", "msgpack", "cbor")


@pytest.fixture(scope="module", autouse=True)
def _operators() -> Iterator[None]:
    with torch.library._scoped_library("graphwire_results", "DEF") as library:
        for schema, function in (
            ("flag(Tensor x) -> (Tensor, bool)", lambda x: (x + 1, True)),
            ("count(Tensor x) -> (Tensor, SymInt)", lambda x: (x + 1, x.shape[0])),
            ("mixed(Tensor x) -> (Tensor[], Tensor?, Tensor[])", lambda x: ([x + 1, x + 2], None, [])),
            ("nothing(Tensor x) -> Tensor[]", lambda _x: []),
        ):
            library.define(schema)
            name = schema.partition("(")[0]
            library.impl(name, function, "CompositeExplicitAutograd")
            torch.library.register_fake(f"graphwire_results::{name}", function, lib=library)
        yield


class _Function(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def _assert_comes_back(
    program: ExportedProgram, x: torch.Tensor | None, requires: list[str]
) -> ExportedProgram:
    loaded = program
    for format in FORMATS:
        data = graphwire.dumps(program, format=format)
        loaded = graphwire.loads(data)
        if x is not None:
            assert_same_values(loaded.module()(x), program.module()(x))
        assert graphwire.dumps(loaded, format=format) == data
        with graphwire.open(data) as archive:
            assert archive.program.requires == requires
    return loaded


def test_a_truth_value_beside_a_tensor() -> None:
    program = export(_Function(lambda x: torch.ops.graphwire_results.flag(x)[0]), (torch.ones(3),))
    _assert_comes_back(program, torch.zeros(3), [])


def test_a_symbolic_integer_beside_a_tensor() -> None:
    class Counted(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y, n = torch.ops.graphwire_results.count(x)
            return y + n

    program = export(Counted(), (torch.ones(3),), dynamic_shapes={"x": {0: Dim("n", min=2)}})
    assert_same_program(_assert_comes_back(program, torch.zeros(5), []), program)


def test_a_list_in_several_results_with_none_and_an_empty_list() -> None:
    program = export(_Function(lambda x: torch.ops.graphwire_results.mixed(x)[0][1]), (torch.ones(3),))
    _assert_comes_back(program, torch.zeros(3), [])


def test_an_empty_list() -> None:
    def ignoring(x: torch.Tensor) -> torch.Tensor:
        torch.ops.graphwire_results.nothing(x)
        return x + 1

    program = export(_Function(ignoring), (torch.ones(3),))
    assert_same_program(_assert_comes_back(program, torch.zeros(3), []), program)


def test_two_readers_of_one_result_stay_two() -> None:
    program = export(_Function(lambda x: torch.split(x, 2)[0] * 2), (torch.ones(4),))
    reader, _unread = program.graph.find_nodes(op="call_function", target=operator.getitem)
    (mul,) = program.graph.find_nodes(op="call_function", target=torch.ops.aten.mul.Tensor)
    with program.graph.inserting_before(mul):
        other = program.graph.node_copy(reader)
    mul.args = (reader, other)
    program.graph_module.recompile()
    loaded = _assert_comes_back(program, torch.arange(4.0), [])
    assert_same_program(loaded, program)
    (mul,) = loaded.graph.find_nodes(op="call_function", target=torch.ops.aten.mul.Tensor)
    assert [each.name for each in mul.args] == [reader.name, other.name]


def test_results_taken_together_as_an_argument() -> None:
    program = export(_Function(lambda x: torch.split(x, 2)[0] + 1), (torch.ones(4),))
    (split,) = program.graph.find_nodes(op="call_function", target=torch.ops.aten.split.Tensor)
    (add,) = program.graph.find_nodes(op="call_function", target=torch.ops.aten.add.Tensor)
    with program.graph.inserting_before(add):
        joined = program.graph.call_function(torch.ops.aten.cat.default, (split,))
        joined.meta = {**add.meta, "val": split.args[0].meta["val"]}
        half = program.graph.call_function(torch.ops.aten.slice.Tensor, (joined, 0, 2, 4))
        half.meta = dict(add.meta)
    add.args = (add.args[0], half)
    program.graph_module.recompile()
    program.validate()
    loaded = _assert_comes_back(program, torch.arange(4.0), ["results"])
    assert_same_program(loaded, program)


class _Named(HigherOrderOperator):
    """An operator of a graph that gives its results names, as Triton's functional wrapper does."""

    def __init__(self) -> None:
        super().__init__("graphwire_named_results")

    def __call__(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"more": x + 1, "less": x - 1}


_named = _Named()


def test_a_dict_of_results() -> None:
    program = export(_Function(lambda x: x + 1), (torch.ones(4),))
    (add,) = program.graph.find_nodes(op="call_function", target=torch.ops.aten.add.Tensor)
    (x,) = program.graph.find_nodes(op="placeholder")
    value = x.meta["val"]
    with program.graph.inserting_before(add):
        called = program.graph.call_function(_named, (x,))
        called.meta = {**add.meta, "val": {"more": value, "less": value}}
        less = program.graph.call_function(operator.getitem, (called, "less"))
        less.meta = {**add.meta, "val": value}
    add.args = (less, 1)
    program.graph_module.recompile()
    loaded = _assert_comes_back(program, None, ["outputs"])
    assert_same_program(loaded, program)
    x = torch.arange(4.0)
    assert torch.equal(loaded.graph_module(x)[0], x)


def test_the_results_of_a_node_that_is_not_there_are_refused() -> None:
    program = export(_Function(lambda x: torch.cat(list(torch.split(x, 2)))), (torch.ones(4),))
    record, payloads = graphwire.to_schema(program)
    cat = record.graph_module.graph.nodes[-1]
    cat.inputs[0].arg = type(cat.inputs[0].arg)(as_results="elsewhere")
    record.requires = ["results"]
    with pytest.raises(
        graphwire.errors.ValidationError, match="no earlier node with several results is named 'elsewhere'"
    ):
        graphwire.from_schema(record, payloads)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", ["flag", "count", "mixed"])
def test_an_element_that_states_no_value_comes_back_without_one(name: str, format: str) -> None:
    program = export(_Function(getattr(torch.ops.graphwire_results, name)), (torch.ones(3),))
    (call,) = (node for node in program.graph.nodes if node.name == name)
    readers = [node for node in program.graph.nodes if node.target is operator.getitem]
    if name != "mixed":
        readers += [_reading(program, call, 1)]
    for reader in readers:
        reader.meta["val"] = None
    data = graphwire.dumps(program, format=format)
    loaded = graphwire.loads(data)
    assert_same_program(loaded, program)
    stated = {node.name for node in loaded.graph.nodes if node.meta.get("val") is not None}
    assert call.name in stated
    assert stated.isdisjoint(reader.name for reader in readers)
    assert graphwire.dumps(loaded, format=format) == data


def _reading(program: ExportedProgram, call: torch.fx.Node, index: int) -> torch.fx.Node:
    known = next((user for user in call.users if user.args == (call, index)), None)
    if known is not None:
        return known
    with program.graph.inserting_after(call):
        return program.graph.call_function(operator.getitem, (call, index))


def test_a_reader_of_an_attribute_that_nothing_uses_is_dropped_with_a_warning() -> None:
    program = export(
        _Function(lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))), (torch.ones(3),)
    )
    data = graphwire.dumps(program)
    first = next(iter(program.graph.nodes))
    with program.graph.inserting_before(first):
        unused = program.graph.get_attr("true_graph_0")
    with pytest.warns(GraphwireWarning, match=f"{unused.name}.*true_graph_0.*not saved"):
        assert graphwire.dumps(program) == data


def _several(x: torch.Tensor) -> Any:
    a, b = torch.topk(x, 2)
    c, d = torch.std_mean(x)
    _, f = x.unbind()
    return a + 1, b, d, c * f


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("target", [None, "torch-2.6", "torch-2.9", "torch"])
def test_an_element_that_is_used_is_read_whatever_it_is_called(target: str | None, swapped: bool) -> None:
    """Readers find no node for what is called unused, so its name alone must not tell."""
    x = torch.tensor([[1.0, 3.0, 2.0], [4.0, -1.0, 0.5]])
    program = export(_Function(_several), (x,))
    edited = copy.deepcopy(program)
    named = {}
    for node in edited.graph.nodes:
        if node.target is operator.getitem:
            whole, index = node.args
            named[node.name] = f"{whole.name}_unused_{1 - index if swapped else index}"
            node.name = named[node.name]
    for spec in edited.graph_signature.output_specs:
        spec.arg = type(spec.arg)(named.get(spec.arg.name, spec.arg.name))
    edited.graph_module.recompile()
    loaded = graphwire.loads(graphwire.dumps(edited, target=target))
    assert target or set(named.values()) <= {node.name for node in loaded.graph.nodes}
    assert_same_values(loaded.module()(x), program.module()(x))


def _edited(data: bytes, edit: Callable[[dict[str, Any]], None]) -> bytes:
    """An archive of torch with another document."""
    result = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(result, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name.endswith("models/model.json"):
                tree = json.loads(content)
                edit(tree)
                content = json.dumps(tree).encode()
            new.writestr(name, content)
    return result.getvalue()


@pytest.mark.parametrize("kind", ["sym_int", "sym_float"])
def test_lists_of_symbolic_numbers_among_results_are_read_as_by_torch(kind: str) -> None:
    """Its reader takes them, though its writer writes none."""

    def largest(x: torch.Tensor) -> Any:
        return x.max(dim=0).values + x.shape[0]

    program = export(_Function(largest), (torch.ones(3, 2),), dynamic_shapes=({0: Dim("n")},))
    saved = io.BytesIO()
    torch.export.save(program, saved)

    def edit(tree: dict[str, Any]) -> None:
        graph = tree["graph_module"]["graph"]
        (node,) = [node for node in graph["nodes"] if node["target"].endswith("max.dim")]
        (add,) = [node for node in graph["nodes"] if node["target"].endswith("add.Tensor")]
        (size,) = graph["sym_int_values"].values()
        del graph["tensor_values"][node["outputs"][1]["as_tensor"]["name"]]
        node["outputs"][1] = {f"as_{kind}s": [{"as_name": "one"}, {"as_name": "two"}]}
        add["inputs"][1]["arg"] = {f"as_{kind}": {"as_name": "two"}}
        known = size if kind == "sym_int" else {"as_float": 3.0}
        graph[f"{kind}_values"] |= {"one": known, "two": known}

    data = _edited(saved.getvalue(), edit)
    theirs, ours = torch.export.load(io.BytesIO(data)), graphwire.loads(data)
    again = graphwire.loads(graphwire.dumps(ours, format="cbor"))

    def picture(program: ExportedProgram) -> list[tuple[str, str]]:
        """The calls, with the nodes by number: before 2.9, no file names a node of several results."""
        numbers: Any = {node: f"node {number}" for number, node in enumerate(program.graph.nodes)}
        return [
            (str(node.target), str(torch.fx.node.map_arg(node.args, numbers.__getitem__)))
            for node in program.graph.nodes
            if node.op == "call_function"
        ]

    pictures = [picture(each) for each in (theirs, ours, again)]
    assert pictures[0] == pictures[1] == pictures[2]
    assert sum("getitem" in target for target, _ in pictures[0]) == 4
    assert graphwire.verify(data) == []
