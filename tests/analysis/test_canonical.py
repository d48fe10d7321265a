"""The canonical form: what has no meaning changes no hash, what has one changes it. On made-up programs, without torch."""

from __future__ import annotations

import copy
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st
from inside.analysis import SPEC_KINDS, canonicalize, validate
from inside.schema import from_tree, to_tree
from nightly import by_day

from graphwire import content_hash, diff
from graphwire.errors import SchemaError
from graphwire.schema import (
    Argument,
    InputSpec,
    OutputSpec,
    Program,
    TensorArgument,
    value_name,
)

PURE = ["aten.add.Tensor", "aten.mul.Tensor", "aten.sub.Tensor", "aten.relu.default"]
ORDERED = ["aten.bernoulli.default", "aten.dropout.default"]
FIXED = ["aten.add_.Tensor", "mine.unknown.default"]

BATCH, WIDTH = "Symbol('s77', positive=True, integer=True)", "Symbol('s53', positive=True, integer=True)"
SIZES = [BATCH, WIDTH, f"Mul(Integer(2), {BATCH})", f"Add({WIDTH}, {BATCH})", "Integer(4)"]


def _meta(size: int) -> dict[str, Any]:
    return {
        "dtype": 7,
        "sizes": [{"as_expr": {"expr_str": SIZES[size], "hint": {"as_int": 4}}}],
        "requires_grad": False,
        "device": {"type": "cpu", "index": None},
        "strides": [{"as_int": 1}],
        "storage_offset": {"as_int": 0},
        "layout": 7,
    }


def _tensor(name: str) -> dict[str, Any]:
    return {"as_tensor": {"name": name}}


@st.composite
def programs(draw: st.DrawFn) -> dict[str, Any]:
    """A valid program as a tree: two parameters, a buffer that is changed, two arguments, and some nodes."""
    inputs = ["p_b", "p_a", "b_count", "x", "y"]
    values, metas, nodes = list(inputs), {name: _meta(0 if name == "x" else 1) for name in inputs}, []
    sizes: dict[Any, int] = {}
    for index in range(draw(st.integers(1, 9))):
        name = f"n{index}"
        operator = draw(st.sampled_from(PURE * 3 + ORDERED + FIXED))
        read = draw(st.lists(st.sampled_from(values), min_size=1, max_size=2))
        arguments = [{"name": "self", "arg": _tensor(read[0]), "kind": 1}]
        if len(read) > 1:
            arguments.append({"name": "other", "arg": _tensor(read[1]), "kind": 1})
        alpha = draw(st.integers(0, 1))
        arguments.append({"name": "alpha", "arg": {"as_int": alpha}, "kind": 2})
        metadata = {"nn_module_stack": f"L,{draw(st.sampled_from(['left', 'right']))},Net"}
        node = {"target": f"torch.ops.{operator}", "inputs": arguments, "outputs": [_tensor(name)]}
        nodes.append({**node, "metadata": metadata, "name": name, "stack": [], "from_node": None})
        values.append(name)
        # One operator makes results of one shape of the same arguments.
        metas[name] = _meta(sizes.setdefault((operator, *read, alpha), draw(st.integers(0, 4))))
    made = values[len(inputs) :]
    outputs = [draw(st.sampled_from(made)) for _ in range(3)]
    specs_in = [
        {"parameter": {"arg": {"name": "p_b"}, "parameter_name": "b"}},
        {"parameter": {"arg": {"name": "p_a"}, "parameter_name": "a"}},
        {"buffer": {"arg": {"name": "b_count"}, "buffer_name": "count", "persistent": True}},
        {"user_input": {"arg": _tensor("x")}},
        {"user_input": {"arg": _tensor("y")}},
    ]
    specs_out = [
        {"buffer_mutation": {"arg": {"name": outputs[0]}, "buffer_name": "count"}},
        *({"user_output": {"arg": _tensor(name)}} for name in outputs[1:]),
    ]
    leaf = '{"type": null, "context": null, "children_spec": []}'
    spec = f'[1, {{"type": "builtins.tuple", "context": "null", "children_spec": [{leaf}, {leaf}]}}]'
    root = {"inputs": [_tensor("x"), _tensor("y")], "outputs": [_tensor(name) for name in outputs[1:]]}
    return {
        "graph_module": {
            "graph": {
                "inputs": [_tensor(name) for name in inputs],
                "outputs": [_tensor(name) for name in outputs],
                "nodes": nodes,
                "tensor_values": metas,
                "sym_int_values": {},
                "sym_bool_values": {},
            },
            "signature": {"input_specs": specs_in, "output_specs": specs_out},
            "module_call_graph": [
                {"fqn": "", "signature": {**root, "in_spec": spec, "out_spec": spec}},
                {"fqn": "right", "signature": None},
                {"fqn": "left", "signature": None},
            ],
        },
        "opset_version": {"aten": 10, "mine": 1},
        "range_constraints": {"s77": {"min_val": 2, "max_val": 64}, "s53": {"min_val": 2, "max_val": None}},
        "schema_version": {"major": 8, "minor": 20},
        "verifiers": ["TRAINING"],
        "torch_version": "2.13.0",
        "guards_code": ["L['x'].size()[0] <= 10", "L['y'].size()[0] != 7"],
    }


def _program(tree: dict[str, Any]) -> Program:
    program = from_tree(tree, Program)
    assert validate(program) == []
    return program


# --------------------------------------------------------------------------------------------- what has no meaning


def _renamed(tree: dict[str, Any], salt: random.Random) -> dict[str, Any]:
    """Every value under another name."""
    graph = tree["graph_module"]["graph"]
    names = list(graph["tensor_values"])
    others = [f"z{number}" for number in range(len(names))]
    salt.shuffle(others)
    table = dict(zip(names, others, strict=True))

    def walk(part: Any) -> Any:
        if isinstance(part, dict):
            fields = {key: walk(value) for key, value in part.items()}
            if part.keys() == {"name"}:
                fields["name"] = table[part["name"]]
            return fields
        return [walk(item) for item in part] if isinstance(part, list) else part

    tree = walk(tree)
    values = list(tree["graph_module"]["graph"]["tensor_values"].items())
    salt.shuffle(values)
    tree["graph_module"]["graph"]["tensor_values"] = {table[name]: meta for name, meta in values}
    return tree


def _reordered(tree: dict[str, Any], salt: random.Random) -> dict[str, Any]:
    """Neighbours exchanged that neither read from each other nor could see each other's effect."""
    tree = copy.deepcopy(tree)
    nodes = tree["graph_module"]["graph"]["nodes"]
    for _ in range(40):
        at = salt.randrange(len(nodes))
        if at + 1 < len(nodes) and _may_pass(nodes[at], nodes[at + 1]):
            nodes[at], nodes[at + 1] = nodes[at + 1], nodes[at]
    return tree


def _may_pass(one: dict[str, Any], other: dict[str, Any]) -> bool:
    made = one["outputs"][0]["as_tensor"]["name"]
    if any(made == named["arg"].get("as_tensor", {}).get("name") for named in other["inputs"]):
        return False
    operators = [node["target"].removeprefix("torch.ops.") for node in (one, other)]
    return not any(operator in FIXED for operator in operators) and any(o in PURE for o in operators)


def _registered_otherwise(tree: dict[str, Any], salt: random.Random) -> dict[str, Any]:
    """Parameters and buffers among the inputs in another order, and module calls."""
    tree = copy.deepcopy(tree)
    module = tree["graph_module"]
    pairs = list(zip(module["signature"]["input_specs"], module["graph"]["inputs"], strict=True))
    held, passed = pairs[:3], pairs[3:]
    salt.shuffle(held)
    module["signature"]["input_specs"] = [spec for spec, _ in held + passed]
    module["graph"]["inputs"] = [argument for _, argument in held + passed]
    module["module_call_graph"][1:] = reversed(module["module_call_graph"][1:])
    tree["guards_code"].reverse()
    return tree


def _numbered_otherwise(tree: dict[str, Any], salt: random.Random) -> dict[str, Any]:
    """Symbols with other numbers, and the operands of sums where their new names sort."""
    text = msgspec.json.encode(tree).decode()
    one, other = salt.sample(range(100, 200), 2)
    text = text.replace("s77", f"s{one}").replace("s53", f"s{other}")
    batch, width = BATCH.replace("s77", f"s{one}"), WIDTH.replace("s53", f"s{other}")
    if one < other:
        text = text.replace(f"Add({width}, {batch})", f"Add({batch}, {width})")
    renumbered: dict[str, Any] = msgspec.json.decode(text)
    ranges = renumbered["range_constraints"]
    renumbered["range_constraints"] = dict(reversed(ranges.items()))
    return renumbered


def _exported_elsewhere(tree: dict[str, Any], salt: random.Random) -> dict[str, Any]:
    """Everything that only says when, where and how it was exported."""
    tree = copy.deepcopy(tree)
    graph = tree["graph_module"]["graph"]
    tree["torch_version"] = f"2.{salt.randrange(20)}"
    tree["producer"] = "somebody"
    tree["readable_from"] = "torch-2.9"
    tree["graph_module"]["stack_frames"] = [{"file": f"/{salt.random()}.py", "line": 3, "name": "forward"}]
    for node in graph["nodes"]:
        node["metadata"] = {"stack_trace": str(salt.random())}
        node["stack"], node["name"] = [0], None
    for meta in graph["tensor_values"].values():
        for size in meta["sizes"]:
            size["as_expr"]["hint"] = None
    return tree


MEANINGLESS = [_renamed, _reordered, _registered_otherwise, _numbered_otherwise, _exported_elsewhere]


@pytest.mark.parametrize("change", MEANINGLESS, ids=lambda change: change.__name__)
@given(tree=programs(), seed=st.integers(0, 2**32))
@settings(max_examples=by_day(12, by_night=200), deadline=None)
def test_a_change_without_meaning_changes_nothing(change, tree, seed) -> None:
    before, after = _program(tree), _program(change(tree, random.Random(seed)))
    assert to_tree(canonicalize(after)) == to_tree(canonicalize(before))
    assert content_hash(after) == content_hash(before)
    assert diff(before, after).same


@given(tree=programs(), seed=st.integers(0, 2**32))
@settings(max_examples=by_day(30, by_night=100), deadline=None)
def test_all_of_them_together_change_nothing(tree, seed) -> None:
    salt, other = random.Random(seed), tree
    for change in salt.sample(MEANINGLESS, len(MEANINGLESS)):
        other = change(other, salt)
    assert content_hash(_program(other)) == content_hash(_program(tree))


@given(tree=programs())
@settings(max_examples=by_day(25, by_night=60), deadline=None)
def test_the_canonical_form_is_a_valid_program_and_its_own_canonical_form(tree) -> None:
    program = _program(tree)
    before = to_tree(program)
    canonical = canonicalize(program)
    assert validate(canonical) == []
    assert to_tree(canonicalize(canonical)) == to_tree(canonical)
    assert to_tree(program) == before, "the program that was given has changed"


# ------------------------------------------------------------------------------------------------ what has a meaning


def _small(nodes: list[tuple[str, list[str], str]], outputs: list[str]) -> Program:
    """A program of two arguments, from (operator, arguments, result) for each node."""
    names = ["x", "y", *(result for *_, result in nodes)]
    tree = {
        "graph_module": {
            "graph": {
                "inputs": [_tensor("x"), _tensor("y")],
                "outputs": [_tensor(name) for name in outputs],
                "nodes": [
                    {
                        "target": f"torch.ops.{operator}",
                        "inputs": [
                            {"name": f"a{i}", "arg": _tensor(a), "kind": 1} for i, a in enumerate(read)
                        ],
                        "outputs": [_tensor(result)],
                        "metadata": {},
                    }
                    for operator, read, result in nodes
                ],
                "tensor_values": {name: _meta(0) for name in names},
                "sym_int_values": {},
                "sym_bool_values": {},
            },
            "signature": {
                "input_specs": [{"user_input": {"arg": _tensor(name)}} for name in ("x", "y")],
                "output_specs": [{"user_output": {"arg": _tensor(name)}} for name in outputs],
            },
            "module_call_graph": [],
        },
        "opset_version": {"aten": 10},
        "range_constraints": {"s77": {"min_val": 2, "max_val": 64}},
        "schema_version": {"major": 8, "minor": 20},
    }
    return _program(tree)


RELU, SIN, ADD = "aten.relu.default", "aten.sin.default", "aten.add.Tensor"


def test_the_order_of_outputs_and_of_arguments_counts() -> None:
    base = [(RELU, ["x"], "a"), (SIN, ["y"], "b")]
    assert content_hash(_small(base, ["a", "b"])) != content_hash(_small(base, ["b", "a"]))
    one, other = ([*base, (ADD, read, "c")] for read in (["a", "b"], ["b", "a"]))
    assert content_hash(_small(one, ["c"])) != content_hash(_small(other, ["c"]))


@pytest.mark.parametrize(
    "effect",
    ["aten.relu_.default", "aten.sin.out", "aten.batch_norm.default", "mine.any.default", "torch.mine"],
)
def test_nothing_passes_what_may_change_a_tensor(effect) -> None:
    one, other = (RELU, ["x"], "a"), (effect, ["x"], "b")
    before, after = _small([one, other], ["a", "b"]), _small([other, one], ["a", "b"])
    assert content_hash(before) != content_hash(after)
    assert not diff(before, after).same


def test_random_operators_keep_their_order_and_let_pure_ones_pass() -> None:
    drawn, other = ("aten.bernoulli.default", ["x"], "a"), ("aten.rand_like.default", ["x"], "b")
    pure = (RELU, ["x"], "c")
    outputs = ["a", "b", "c"]
    base = content_hash(_small([drawn, other, pure], outputs))
    assert content_hash(_small([drawn, pure, other], outputs)) == base
    swapped = _small([other, drawn, pure], outputs)
    assert content_hash(swapped) != base
    found = diff(_small([drawn, other, pure], outputs), swapped)
    assert [change.change for change in found.nodes] == ["moved"]


def test_nodes_that_do_the_same_are_told_apart_by_who_reads_them() -> None:
    twins = [(RELU, ["x"], "a"), (RELU, ["x"], "b"), (SIN, ["b"], "c"), (ADD, ["a", "c"], "d")]
    others = [(RELU, ["x"], "a"), (RELU, ["x"], "b"), (SIN, ["a"], "c"), (ADD, ["b", "c"], "d")]
    assert content_hash(_small(twins, ["d"])) == content_hash(_small(others, ["d"]))


def test_a_chain_of_nodes_as_long_as_any_needs_no_recursion() -> None:
    chain = [(RELU, ["x"], "v0"), *((SIN, [f"v{index}"], f"v{index + 1}") for index in range(3_000))]
    program = _small(chain, ["v3000"])
    assert value_name(canonicalize(program).graph_module.graph.outputs[0]) == "v_3000"


def test_nodes_that_wait_for_each_other_are_refused() -> None:
    program = _small([(RELU, ["x"], "a"), (SIN, ["a"], "b")], ["b"])
    program.graph_module.graph.nodes[0].inputs[0].arg = Argument(as_tensor=TensorArgument("b"))
    with pytest.raises(SchemaError, match="waits"):
        canonicalize(program)


# --------------------------------------------------------------------------------------------------------- the tables


def test_every_kind_of_input_and_output_has_a_rank() -> None:
    assert set(SPEC_KINDS) == {*InputSpec.__struct_fields__, *OutputSpec.__struct_fields__}
