"""A valid program has no problems; a program that is broken in one way has that one problem, at its place.

Most ways are files of the conformance suite, whose places `tests/conformance/test_refusals.py` holds; here are the others."""

from __future__ import annotations

import copy
import io
import json
import warnings
import zipfile
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import torch
from growth import growth_of
from inside.analysis import (
    check_valid,
    program_rules as validation,
    validate,
)
from inside.schema import from_tree, to_tree

from graphwire.errors import ValidationError
from graphwire.schema import (
    Argument,
    GraphArgument,
    InputSpec,
    OutputSpec,
    Program,
    SequenceValue,
    SymInt,
    calls_in,
)

Tree = dict[str, Any]
Found = list[tuple[str, str]]


class Whole(torch.nn.Module):
    """A bit of everything that the mainstream uses."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4)])
        self.register_buffer("steps", torch.zeros(1))

    def forward(self, x, flag, n, *, scale=2.0):
        self.steps.add_(1)
        y = torch.relu(self.linear(x)) + torch.tensor([1.0])
        a, b = torch.split(self.layers[0](y), 2, dim=1)
        z = torch.cond(flag, lambda t: (t * 2,), lambda t: (t - 1,), (y,))[0]
        return {"z": z * scale, "r": y.view(x.shape[0] * 2, 2), "n": x.shape[0] * n, "a": a + b}


def exported() -> torch.export.ExportedProgram:
    dynamic = {"x": {0: torch.export.Dim("batch", min=2, max=64)}, "flag": None, "n": None, "scale": None}
    arguments = (torch.randn(3, 4), torch.tensor(True), 5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, while it traces the branches of the condition
        program = torch.export.export(Whole(), arguments, {"scale": 2.0}, dynamic_shapes=dynamic)
        return program.run_decompositions({})


def document_of(program: torch.export.ExportedProgram) -> Tree:
    """The document that torch itself writes."""
    file = io.BytesIO()
    torch.export.save(program, file)
    with zipfile.ZipFile(file) as archive:
        member = next(name for name in archive.namelist() if name.endswith("models/model.json"))
        return json.loads(archive.read(member))


@pytest.fixture(scope="module")
def written() -> Tree:
    return document_of(exported())


@pytest.fixture
def tree(written: Tree) -> Tree:
    return copy.deepcopy(written)


def graph_of(tree: Tree) -> Tree:
    return tree["graph_module"]["graph"]


def found_in(tree: Tree) -> Found:
    return [(problem.place, problem.kind) for problem in validate(from_tree(tree, Program))]


def node_at(tree: Tree, target: str) -> tuple[str, Tree]:
    """The first node that calls `target`, and its place."""
    for index, node in enumerate(graph_of(tree)["nodes"]):
        if node["target"] == target:
            return f"graph_module.graph.nodes[{index}]", node
    raise LookupError(target)


LINEAR = "torch.ops.aten.linear.default"
COND = "torch.ops.higher_order.cond"
VIEW = "torch.ops.aten.view.default"
SIGNATURE = "graph_module.signature"


# ------------------------------------------------------------------------------------------------- valid programs


def test_a_program_that_torch_wrote_has_no_problems(tree):
    assert found_in(tree) == []
    check_valid(from_tree(tree, Program))


def test_the_program_has_what_the_tests_break(tree):
    specs = tree["graph_module"]["signature"]
    inputs = {variant for spec in specs["input_specs"] for variant in spec}
    outputs = {variant for spec in specs["output_specs"] for variant in spec}
    assert inputs == {"parameter", "buffer", "tensor_constant", "user_input", "constant_input"}
    assert outputs == {"buffer_mutation", "user_output"}


def test_extensions_that_are_listed_are_no_problem(tree):
    _, node = node_at(tree, VIEW)
    items = [{"as_int": 1}, {"as_slice": {part: {"as_none": True} for part in ("start", "stop", "step")}}]
    node["inputs"].append({"name": "extra", "arg": {"as_sequence": {"kind": "tuple", "items": items}}})
    node["stack"] = [0]
    node["from_node"] = [1]
    tree["graph_module"]["stack_frames"] = [{"file": "a.py", "line": 1, "name": "f"}]
    tree["graph_module"]["node_sources"] = [
        {"name": "v", "target": "t", "graph_id": 1},
        {"name": "w", "target": "t", "graph_id": 2, "from_node": [0]},
    ]
    graph_of(tree)["value_metadata"] = {"x": {"stack": [0]}, "n": {}}
    graph_of(tree)["output_metadata"] = {"from_node": [1]}
    tree["requires"] = ["sequences", "slices"]
    assert found_in(tree) == []


# ------------------------------------------------------------------------------------------------ one way of breaking

Break = Callable[[Tree], "Found"]
BREAKS: dict[str, Break] = {}


def breaks(function: Break) -> Break:
    BREAKS[function.__name__] = function
    return function


@breaks
def no_variant_of_a_symbolic_value(tree):
    name = next(iter(graph_of(tree)["sym_int_values"]))
    graph_of(tree)["sym_int_values"][name] = {}
    return [(f"graph_module.graph.sym_int_values['{name}']", "variant")]


@breaks
def no_variant_of_a_hint(tree):
    graph_of(tree)["tensor_values"]["x"]["sizes"][0]["as_expr"]["hint"] = {}
    return [("graph_module.graph.tensor_values['x'].sizes[0].as_expr.hint", "variant")]


def constant_input(tree: Tree) -> tuple[str, Tree]:
    specs = tree["graph_module"]["signature"]["input_specs"]
    place = next(index for index, spec in enumerate(specs) if "constant_input" in spec)
    return f"{SIGNATURE}.input_specs[{place}].constant_input", specs[place]["constant_input"]


@breaks
def two_variants_of_a_literal(tree):
    place, spec = constant_input(tree)
    spec["value"]["as_bool"] = True
    return [(f"{place}.value", "variant")]


@breaks
def an_owner_that_reaches_for_a_subgraphs_values(tree):
    _, node = node_at(tree, COND)
    inner = node["inputs"][1]["arg"]["as_graph"]["graph"]
    inner["nodes"][0]["outputs"][0]["as_tensor"]["name"] = "inner_only"
    inner["tensor_values"]["inner_only"] = inner["tensor_values"].pop(
        inner["outputs"][0]["as_tensor"]["name"]
    )
    inner["outputs"][0]["as_tensor"]["name"] = "inner_only"
    place, user = node_at(tree, VIEW)
    user["inputs"][0]["arg"]["as_tensor"]["name"] = "inner_only"
    return [(f"{place}.inputs[0].arg", "dangling-reference")]


@breaks
def a_size_of_very_many_digits(tree):
    graph_of(tree)["tensor_values"]["b_steps"]["sizes"][0] = {"as_int": 1 << 100_000}
    return [("graph_module.graph.tensor_values['b_steps'].sizes[0]", "extent")]


@breaks
def a_provenance_beyond_its_table(tree):
    place, node = node_at(tree, LINEAR)
    node["from_node"] = [0]
    return [(f"{place}.from_node[0]", "index")]


@breaks
def a_name_of_an_input_that_is_not_its_own(tree):
    place, node = node_at(tree, COND)
    inner = node["inputs"][1]["arg"]["as_graph"]["graph"]
    inner["input_names"] = ["other" for _ in inner["inputs"]]
    return [(f"{place}.inputs[1].arg.as_graph.graph.input_names[0]", "mismatch")]


@breaks
def an_empty_range_that_tracing_found(tree):
    tree["graph_module"]["inline_constraints"] = {"u0": {"min_val": 3, "max_val": 2}}
    return [("graph_module.inline_constraints['u0']", "range")]


@breaks
def a_composition_of_a_tensor_of_negative_size(tree):
    name, meta = next(iter(graph_of(tree)["tensor_values"].items()))
    part = {"meta": {**meta, "sizes": [{"as_int": -1}], "strides": [{"as_int": 1}]}}
    inner = {"meta": meta, "composition": {"codec": "tensor_subclass", "tree": None, "parts": [part]}}
    composition = {"codec": "tensor_subclass", "tree": None, "parts": [inner], "integers": [{}]}
    graph_of(tree)["compositions"] = {name: composition}
    place = f"graph_module.graph.compositions['{name}']"
    return [
        (f"{place}.integers[0]", "variant"),
        (f"{place}.parts[0].composition.parts[0].meta.sizes[0]", "extent"),
    ]


@breaks
def an_example_input_without_a_variant(tree):
    spec = tree["graph_module"]["module_call_graph"][0]["signature"]["in_spec"]
    tree["example_inputs"] = {"spec": spec, "leaves": [{"as_int": 1}, {}]}
    return [("example_inputs.leaves[1]", "variant")]


@breaks
def an_encoded_value_under_no_path(tree):
    tree["encoded_values"] = {'a"b': {"codec": "sparse", "tree": None, "tensors": []}}
    tree["requires"] = ["codecs"]
    return [("encoded_values['a\"b']", "path")]


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_program_has_that_problem_alone(tree, name):
    expected = BREAKS[name](tree)
    assert found_in(tree) == expected


# ------------------------------------------------------------------------------------------------ many ways at once


def test_every_problem_is_reported_not_just_the_first(tree):
    expected = [each for name in BREAKS for each in BREAKS[name](tree)]
    assert sorted(found_in(tree)) == sorted(expected)


def test_check_raises_one_error_with_every_problem(tree):
    expected = [each for name in BREAKS for each in BREAKS[name](tree)]
    with pytest.raises(ValidationError, match=f"{len(expected)} problems in the program") as raised:
        check_valid(from_tree(tree, Program))
    assert len(raised.value.problems) == len(expected)
    assert expected[0][0] in str(raised.value)


def test_a_bad_target_is_reported_wherever_it_stands(tree):
    nodes = graph_of(tree)["nodes"]
    for node in nodes:
        node["target"] = "torch.ops.aten.relu.default()"
    expected = [(f"graph_module.graph.nodes[{index}].target", "target") for index in range(len(nodes))]
    assert [each for each in found_in(tree) if each in expected] == expected


def test_the_operators_of_all_graphs_are_found(tree):
    program = from_tree(tree, Program)
    calls = check_valid(program)
    assert COND in calls
    assert "torch.ops.aten.mul.Tensor" in calls  # in a branch of the condition alone
    found = calls_in(program.graph_module.graph)
    assert calls.keys() == found.keys()
    assert all(node.target == target for target, node in calls.items())


def test_a_bad_expression_is_reported_wherever_it_stands(tree):
    values = graph_of(tree)["tensor_values"]
    for name in ("x", "linear"):
        values[name]["sizes"][0]["as_expr"]["expr_str"] = "System(1)"
    places = [
        f"graph_module.graph.tensor_values['{name}'].sizes[0].as_expr.expr_str" for name in ("x", "linear")
    ]
    assert sorted(found_in(tree)) == sorted((place, "expression") for place in places)


# ------------------------------------------------------------------------------------------------------- programmatic


def test_a_truth_value_is_no_size(tree):
    program = from_tree(tree, Program)
    values = program.graph_module.graph.tensor_values
    values["b_steps"] = msgspec.structs.replace(values["b_steps"], sizes=[SymInt(as_int=True)])
    problems = validate(program)
    assert [(each.place, each.kind) for each in problems] == [
        ("graph_module.graph.tensor_values['b_steps'].sizes[0]", "extent")
    ]


def test_references_to_constants_are_not_resolved(tree):
    _, node = node_at(tree, LINEAR)
    node["inputs"][1]["arg"] = {"as_custom_obj": {"name": "_custom_obj_0", "class_fqn": "__torch__.torch.A"}}
    node["inputs"][2]["arg"] = {"as_constant": "graph::0.tables.0"}
    tree["requires"] = ["constants"]
    assert found_in(tree) == []


def deep_argument(depth: int) -> Argument:
    argument = Argument(as_int=1)
    for _ in range(depth):
        argument = Argument(as_sequence=SequenceValue("list", [argument]))
    return argument


@pytest.mark.parametrize("depth", [200, 20_000])
def test_arguments_that_are_nested_too_deeply_are_a_problem_and_no_crash(tree, depth):
    tree["requires"] = ["sequences"]
    program = from_tree(tree, Program)
    node = program.graph_module.graph.nodes[-1]
    node.inputs[0].arg = deep_argument(depth)
    problems = validate(program)
    assert [each.kind for each in problems] == ["too-deep"]
    assert problems[0].place.startswith("graph_module.graph.nodes[")
    dismantle(node.inputs[0].arg)


def dismantle(argument: Argument) -> None:
    """Take a deep argument apart from its outside: dropping it whole would recurse as deep as it is."""
    while argument.as_sequence is not None:
        argument = argument.as_sequence.items.pop()


def test_graphs_that_are_nested_too_deeply_are_a_problem_and_no_crash(tree):
    program = from_tree(tree, Program)
    graph = program.graph_module.graph
    cond = next(node for node in graph.nodes if node.target == COND)
    inner = cond.inputs[1].arg.as_graph.graph
    node = copy.copy(cond)
    for _ in range(300):
        wrapped = type(inner)([], [], [node], {}, {}, {})
        node = type(node)(
            COND, [type(cond.inputs[0])("", Argument(as_graph=GraphArgument("g", wrapped)))], [], {}
        )
    graph.nodes.append(node)
    assert [each.kind for each in validate(program)] == ["too-deep"]


# --------------------------------------------------------------------------------------------------------- tables


def test_every_variant_of_a_spec_has_a_rule():
    assert set(validation._SPEC_RULES) == {*InputSpec.__struct_fields__, *OutputSpec.__struct_fields__}


# ----------------------------------------------------------------------------------------------------------- speed


def test_the_time_grows_with_the_program_and_no_faster(tree):
    def program_of(copies: int) -> Program:
        program = from_tree(tree, Program)
        graph = program.graph_module.graph
        relu = next(node for node in graph.nodes if node.target == "torch.ops.aten.relu.default")
        text = to_tree(relu)
        meta = graph.tensor_values["relu"]
        for index in range(copies):
            node = from_tree(text, type(relu))
            node.outputs[0] = Argument(as_tensor=type(relu.outputs[0].as_tensor)(f"copy_{index}"))
            graph.nodes.append(node)
            graph.tensor_values[f"copy_{index}"] = meta
        return program

    small, large = program_of(4_000), program_of(16_000)
    assert validate(large) == []
    assert growth_of(lambda: validate(small), lambda: validate(large), bound=8) < 8
