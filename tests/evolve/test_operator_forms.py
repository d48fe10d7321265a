"""Each operator that changed is rewritten to the form of the next release, and back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from corpus_documents import documents
from inside.evolve import (
    SCHEMA_CHANGES as CHANGES,
    first_release,
    obstacles_to,
    operators_down,
    operators_up,
    supports,
    upgrade,
)
from inside.schema import parse_treespec, treespec_nodes
from torch._ops import _higher_order_ops

from graphwire.errors import Obstacle
from graphwire.schema import Version

Tree = dict[str, Any]

HOP = "torch.ops.higher_order."
META: Tree = {
    "dtype": 7,
    "sizes": [{"as_int": 2}, {"as_int": 3}],
    "requires_grad": False,
    "device": {"type": "cpu", "index": None},
    "strides": [{"as_int": 3}, {"as_int": 1}],
    "storage_offset": {"as_int": 0},
    "layout": 7,
}


def tensor(name: str) -> Tree:
    return {"as_tensor": {"name": name}}


def listed(*names: str) -> Tree:
    return {"as_tensors": [{"name": name} for name in names]}


def branch(*, bare: bool) -> Tree:
    graph = {"inputs": [tensor("a")], "outputs": [tensor("a")], "nodes": [], "is_single_tensor_return": bare}
    tables = {"tensor_values": {"a": META}, "sym_int_values": {}, "sym_bool_values": {}}
    return {"as_graph": {"name": "body", "graph": graph | tables}}


def program(target: str, arguments: list[Tree], outputs: list[Tree], **fields: Any) -> Tree:
    inputs = [each if "arg" in each else {"name": "", "arg": each} for each in arguments]
    node = {"target": target, "inputs": inputs, "outputs": outputs, "metadata": {}, **fields}
    names = [output["as_tensor"]["name"] for output in outputs if "as_tensor" in output]
    values = {name: META for name in ("x", "y", "z", *names)}
    graph = {"inputs": [], "outputs": [], "nodes": [node], "tensor_values": values}
    return {"graph_module": {"graph": graph | {"sym_int_values": {}, "sym_bool_values": {}}}}


def nodes(tree: Tree) -> list[Tree]:
    found: list[Tree] = tree["graph_module"]["graph"]["nodes"]
    return found


def arguments(node: Tree) -> list[Tree]:
    return [named["arg"] for named in node["inputs"]]


CASES = {
    "rrelu 2.5": (
        Version(8, 2),
        program(
            "torch.ops.aten.rrelu_with_noise.default",
            [{"name": "self", "arg": tensor("x")}, {"name": "noise", "arg": tensor("y")}],
            [tensor("r")],
        ),
        program(
            "torch.ops.aten.rrelu_with_noise_functional.default",
            [{"name": "self", "arg": tensor("x")}, {"name": "noise", "arg": tensor("y")}],
            [tensor("r"), tensor("r_noise")],
        ),
    ),
    "cond 2.1": (
        Version(2),
        program(
            f"{HOP}cond", [tensor("x"), branch(bare=True), branch(bare=True), listed("y")], [tensor("z")]
        ),
        program(
            f"{HOP}cond", [tensor("x"), branch(bare=False), branch(bare=False), listed("y")], [listed("z")]
        ),
    ),
    "cond 2.2": (
        Version(5, 1),
        program(f"{HOP}cond", [tensor("x"), listed("y")], [listed("y", "z")]),
        program(f"{HOP}cond", [tensor("x"), listed("y")], [tensor("y"), tensor("z")]),
    ),
    "map 2.1": (
        Version(2),
        program("torch.ops.map_impl", [branch(bare=False), {"as_int": 1}, tensor("x")], [listed("y")]),
        program(f"{HOP}map_impl", [branch(bare=False), {"as_int": 1}, tensor("x")], [listed("y")]),
    ),
    "map 2.2": (
        Version(5, 1),
        program(
            f"{HOP}map_impl", [branch(bare=False), {"as_int": 1}, tensor("x"), tensor("y")], [listed("z")]
        ),
        program(f"{HOP}map_impl", [branch(bare=False), listed("x"), listed("y")], [listed("z")]),
    ),
    "while_loop 2.3": (
        Version(5, 3),
        program(f"{HOP}while_loop", [branch(bare=True), branch(bare=False), listed("x")], [tensor("y")]),
        program(
            f"{HOP}while_loop", [branch(bare=True), branch(bare=False), listed("x"), listed()], [tensor("y")]
        ),
    ),
    "can_cast 2.3": (
        Version(5, 3),
        program("torch.ops.aten.can_cast.default", [{"name": "from", "arg": {"as_scalar_type": 7}}], []),
        program("torch.ops.aten.can_cast.default", [{"name": "from_", "arg": {"as_scalar_type": 7}}], []),
    ),
    "set_grad 2.4": (
        Version(7, 3),
        program(
            "torch._higher_order_ops.wrap.wrap_with_set_grad_enabled", [{"as_bool": False}], [tensor("y")]
        ),
        program(f"{HOP}wrap_with_set_grad_enabled", [{"as_bool": False}], [tensor("y")]),
    ),
    "scan 2.6": (
        Version(8, 7),
        program(
            f"{HOP}scan",
            [branch(bare=False), listed("x"), listed("y"), {"as_int": 0}, {"as_bool": False}, listed()],
            [tensor("z")],
        ),
        program(f"{HOP}scan", [branch(bare=False), listed("x"), listed("y"), listed()], [tensor("z")]),
    ),
    "invoke_subgraph 2.7": (
        Version(8, 8),
        program(
            f"{HOP}invoke_subgraph", [branch(bare=False), {"as_string": "n"}, listed("x", "y")], [tensor("z")]
        ),
        program(
            f"{HOP}invoke_subgraph",
            [branch(bare=False), {"as_string": "n"}, tensor("x"), tensor("y")],
            [tensor("z")],
        ),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_operator_takes_the_form_of_the_next_release(case: str) -> None:
    newer, older_tree, newer_tree = CASES[case]
    tree, told = operators_up(older_tree, newer)
    assert tree == newer_tree
    assert told


@pytest.mark.parametrize("case", CASES)
def test_an_operator_takes_the_form_of_the_release_before(case: str) -> None:
    newer, older_tree, newer_tree = CASES[case]
    assert operators_down(newer_tree, newer, [].append) == older_tree


def test_a_reversed_scan_flips_what_it_maps_and_what_it_gives() -> None:
    call = [branch(bare=False), listed("x"), listed("y"), {"as_int": 1}, {"as_bool": True}, listed()]
    tree, _ = operators_up(program(f"{HOP}scan", call, [tensor("c"), tensor("r")]), Version(8, 7))
    moved, flipped, scan, result = nodes(tree)
    assert [node["target"] for node in (moved, flipped, scan, result)] == [
        "torch.ops.aten.movedim.int",
        "torch.ops.aten.flip.default",
        f"{HOP}scan",
        "torch.ops.aten.flip.default",
    ]
    values = tree["graph_module"]["graph"]["tensor_values"]
    assert values["y_moved"]["sizes"] == [{"as_int": 3}, {"as_int": 2}]
    assert values["y_moved"]["strides"] == [{"as_int": 1}, {"as_int": 3}]
    assert arguments(scan)[2] == listed("y_moved_flipped")
    assert scan["outputs"] == [tensor("c"), tensor("r_flipped")]
    assert arguments(result)[0] == tensor("r_flipped")
    assert result["outputs"] == [tensor("r")]


def test_a_changed_tensor_among_the_bases_is_passed_under_its_own_name() -> None:
    given = [
        {"name": "", "arg": {"as_operator": "torch.ops.lib.add_.default"}, "kind": 1},
        {"name": "other", "arg": tensor("y"), "kind": 2},
        {"name": "_x_base_index", "arg": {"as_int": 0}, "kind": 2},
        {"name": "_all_bases", "arg": listed("x"), "kind": 2},
    ]
    tree = program(f"{HOP}auto_functionalized_v2", given, [{"as_none": True}, tensor("z")])
    obstacles: list[Obstacle] = []
    (node,) = nodes(operators_down(tree, Version(8, 15), obstacles.append))
    assert obstacles == []
    assert node["target"] == f"{HOP}auto_functionalized"
    assert [(each["name"], each["arg"]) for each in node["inputs"]] == [
        ("", {"as_operator": "torch.ops.lib.add_.default"}),
        ("other", tensor("y")),
        ("x", tensor("x")),
    ]


def test_a_view_among_the_bases_has_no_older_form() -> None:
    given = [
        {"name": "_x_base_index", "arg": {"as_int": 0}, "kind": 2},
        {"name": "_x_size", "arg": {"as_ints": [1]}, "kind": 2},
        {"name": "_all_bases", "arg": listed("x"), "kind": 2},
    ]
    obstacles: list[Obstacle] = []
    operators_down(program(f"{HOP}auto_functionalized_v2", given, []), Version(8, 15), obstacles.append)
    assert {obstacle.first for obstacle in obstacles} == {"torch-2.10"}


def test_flash_attention_on_a_cpu_is_an_operator_of_its_own_and_comes_back() -> None:
    tree, told = upgrade(documents()["2.2.2", "mha_sdpa"])
    (node,) = [node for node in nodes(tree) if "flash_attention" in node["target"]]
    assert node["target"] == "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default"
    assert len(node["outputs"]) == 2
    assert any("flash_attention" in step.what and step.nodes for step in told)


def test_a_parameter_that_is_newer_is_dropped_where_it_has_its_default() -> None:
    name = "torch.ops.aten.scaled_dot_product_attention.default"
    for value, refused in ((False, False), (True, True)):
        given = [{"name": "query", "arg": tensor("x")}, {"name": "enable_gqa", "arg": {"as_bool": value}}]
        obstacles: list[Obstacle] = []
        (node,) = nodes(operators_down(program(name, given, [tensor("z")]), Version(7, 3), obstacles.append))
        assert bool(obstacles) is refused
        assert (len(node["inputs"]) == 1) is not refused


@pytest.mark.parametrize(
    ("operator", "newer"),
    [("prims.var.default", Version(5, 3)), ("aten._fused_rms_norm.default", Version(8, 14))],
)
def test_an_operator_that_was_called_otherwise_is_refused(operator: str, newer: Version) -> None:
    tree = program(f"torch.ops.{operator}", [{"name": "self", "arg": tensor("x")}], [tensor("z")])
    obstacles: list[Obstacle] = []
    operators_down(tree, newer, obstacles.append)
    assert [(each.construct, each.first) for each in obstacles] == [
        (f"the operator torch.ops.{operator} in its present form", first_release(newer))
    ]


def test_the_forms_of_today_are_operators_of_this_torch() -> None:
    for change in CHANGES:
        if change.newer_target.startswith(HOP):
            assert change.newer_target.removeprefix(HOP) in _higher_order_ops
    assert "auto_functionalized" in _higher_order_ops


def test_views_of_attention_are_reshapes_before_2_5() -> None:
    tree, _ = upgrade(documents()["2.6.0", "transformer_layer"])
    older, obstacles = obstacles_to(tree, Version(5, 3))
    assert obstacles == []
    targets = [node["target"] for node in nodes(older)]
    assert targets.count("torch.ops.aten.reshape.default") == 1
    assert "torch.ops.aten.view.default" in targets


def test_a_fault_of_one_release_stands_in_its_way_alone() -> None:
    tree, _ = upgrade(documents()["2.6.0", "symbool_item"])
    assert [obstacle.first for obstacle in supports(tree, "torch-2.7")] == ["torch-2.8"]
    assert supports(tree, "torch-2.6") == []


def test_a_constant_of_a_submodule_stands_in_the_way_of_2_2_alone() -> None:
    tree, _ = upgrade(documents()["2.5.1", "lifted_constant"])
    assert [obstacle.first for obstacle in supports(tree, "torch-2.2")] == ["torch-2.3"]
    assert supports(tree, "torch-2.1") == supports(tree, "torch-2.3") == []


def test_values_called_like_a_builtin_get_another_name_before_2_4() -> None:
    tree, _ = upgrade(documents()["2.13.0", "linear"])
    assert tree["graph_module"]["graph"]["inputs"][-1] == tensor("input")
    older, obstacles = obstacles_to(tree, Version(5, 1))
    assert obstacles == []
    module = older["graph_module"]
    assert module["graph"]["inputs"][-1] == tensor("input_1")
    assert module["signature"]["input_specs"][-1] == {"user_input": {"arg": tensor("input_1")}}
    assert '"input"' not in json.dumps(module["graph"]["nodes"][0]["inputs"][0]["arg"])


def test_a_value_called_as_the_reader_calls_a_node_gets_another_name() -> None:
    tree, _ = upgrade(documents()["2.1.0", "cond_nested_dyn"])
    output = tree["graph_module"]["graph"]["outputs"][0]
    assert output == tensor("cond")
    older, obstacles = obstacles_to(tree, Version(8, 2))
    assert obstacles == []
    module = older["graph_module"]
    assert module["graph"]["outputs"][0] == tensor("cond_value")
    assert module["signature"]["output_specs"][0] == {"user_output": {"arg": tensor("cond_value")}}
    (inner,) = [
        each["arg"]["as_graph"]["graph"] for each in nodes(older)[-1]["inputs"] if "as_graph" in each["arg"]
    ][:1]
    assert "cond" not in inner["tensor_values"]


def test_a_dataclass_of_2_2_has_the_context_that_later_releases_read() -> None:
    tree, _ = upgrade(documents()["2.2.2", "pytree_dataclass_tensors"])
    older, obstacles = obstacles_to(tree, Version(8, 2))
    assert obstacles == []
    call = older["graph_module"]["module_call_graph"][0]["signature"]
    contexts = {
        each.context
        for _, each, _ in treespec_nodes(parse_treespec(call["in_spec"]))
        if each.type == "corpus.Span"
    }
    assert contexts == {'[["lo", "hi"], []]'}
