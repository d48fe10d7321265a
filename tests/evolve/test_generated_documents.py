"""Steps are each other's reverse on documents that nobody wrote: made at schema 1, whose words every version has."""

from __future__ import annotations

import json
from typing import Any

from corpus_documents import same, stepped_up
from hypothesis import given, settings, strategies as st
from inside.analysis import validate
from inside.evolve import CURRENT, STEPS, compact_5_3, operators_down, upgrade
from inside.schema import program_from_tree

from graphwire.schema import Version

Tree = dict[str, Any]

LEAF = '{"type": null, "context": null, "children_spec": []}'
EXPRESSIONS = [
    "s0",
    "2*s0",
    "s0 + s1",
    "2*s0*s1 - 1",
    "(s0//2)",
    "Mod(s0, 3)",
    "s0**2",
    "Max(1, s0)",
    "i0",
    "3*i1",
]
CONDITIONS = ["Eq(i0, 1)", "i0 >= 2", "s0 < 4", "Ne(s0, s1)", "-s0 <= -2"]

sizes = st.one_of(
    st.integers(0, 2**40).map(lambda n: {"as_int": n}),
    st.tuples(st.sampled_from(EXPRESSIONS), st.none() | st.integers(0, 99)).map(
        lambda pair: {"as_expr": {"expr_str": pair[0], "hint": pair[1]}}
    ),
)
devices = st.fixed_dictionaries(
    {"type": st.sampled_from(["cpu", "cuda", "meta"]), "index": st.none() | st.integers(0, 7)}
)


@st.composite
def metas(draw: st.DrawFn) -> Tree:
    rank = draw(st.integers(0, 3))
    return {
        "dtype": draw(st.integers(1, 13)),
        "sizes": draw(st.lists(sizes, min_size=rank, max_size=rank)),
        "requires_grad": draw(st.booleans()),
        "device": draw(devices),
        "strides": draw(st.lists(sizes, min_size=rank, max_size=rank)),
        "storage_offset": draw(st.integers(0, 2**40)),
        "layout": 7,
    }


def arguments(tensors: list[str], integers: list[str]) -> st.SearchStrategy[Tree]:
    tensor = st.sampled_from(tensors)
    floats = st.floats(allow_nan=False)
    symbol = st.sampled_from([{"as_name": name} for name in integers] or [{"as_int": 5}]) | st.integers().map(
        lambda n: {"as_int": n}
    )
    return st.one_of(
        st.just({"as_none": []}),
        tensor.map(lambda n: {"as_tensor": {"name": n}}),
        st.lists(tensor).map(lambda ns: {"as_tensors": [{"name": n} for n in ns]}),
        st.integers(-(2**63), 2**63 - 1).map(lambda n: {"as_int": n}),
        st.lists(st.integers()).map(lambda ns: {"as_ints": ns}),
        floats.map(lambda x: {"as_float": x}),
        st.lists(floats).map(lambda xs: {"as_floats": xs}),
        st.text().map(lambda t: {"as_string": t}),
        st.booleans().map(lambda b: {"as_bool": b}),
        st.lists(st.booleans()).map(lambda bs: {"as_bools": bs}),
        symbol.map(lambda s: {"as_sym_int": s}),
        st.lists(symbol).map(lambda ss: {"as_sym_ints": ss}),
        st.integers(1, 13).map(lambda n: {"as_scalar_type": n}),
        st.integers(1, 4).map(lambda n: {"as_memory_format": n}),
        st.integers(1, 7).map(lambda n: {"as_layout": n}),
        devices.map(lambda d: {"as_device": d}),
        st.lists(st.none() | tensor).map(
            lambda ns: {
                "as_optional_tensors": [{"as_none": []} if n is None else {"as_tensor": n} for n in ns]
            }
        ),
    )


@st.composite
def programs(draw: st.DrawFn) -> Tree:
    """A document of schema 1: weights, inputs, integers, conditions, and calls of one operator with any arguments."""
    weights, inputs = draw(st.integers(0, 2)), draw(st.integers(1, 2))
    names = [f"p{index}" for index in range(weights)] + [f"x{index}" for index in range(inputs)]
    tensors, nodes = list(names), []
    integers: list[str] = []
    values: Tree = {"tensor_values": {name: {"meta": draw(metas())} for name in names}}
    values |= {"sym_int_values": {}, "sym_bool_values": {}}
    for index in range(draw(st.integers(0, 4))):
        given_ = draw(st.lists(arguments(tensors, integers), min_size=1, max_size=3))
        kind = draw(st.sampled_from(["as_tensor", "as_tensor", "as_sym_int", "as_sym_bool"]))
        name = f"v{index}"
        if kind == "as_tensor":
            output: Tree = {kind: {"name": name}}
            values["tensor_values"][name] = {"meta": draw(metas())}
        elif kind == "as_sym_int":
            output = {kind: {"as_name": name}}
            text = {"expr_str": draw(st.sampled_from(EXPRESSIONS)), "hint": None}
            values["sym_int_values"][name] = {"as_expr": text}
        else:
            output = {kind: {"as_name": name}}
            values["sym_bool_values"][name] = {"as_expr": draw(st.sampled_from(CONDITIONS))}
        trace = f'  File "model.py", line {draw(st.integers(1, 5))}, in forward\n    return x\n'
        nodes.append(
            {
                "target": draw(st.sampled_from(["torch.ops.aten.add.Tensor", "torch.ops.lib.thing.default"])),
                "inputs": [{"name": f"a{position}", "arg": each} for position, each in enumerate(given_)],
                "outputs": [output],
                "metadata": draw(
                    st.sampled_from([{}, {"stack_trace": trace}, {"nn_module_stack": "l:(L['s'].l,M)"}])
                ),
            }
        )
        tensors += [name] if kind == "as_tensor" else []
        integers += [name] if kind == "as_sym_int" else []
    results = draw(st.lists(st.sampled_from(tensors), min_size=1, max_size=2, unique=True))
    return {
        "graph_module": {
            "graph": {
                "inputs": [{"as_tensor": {"name": name}} for name in names],
                "outputs": [{"as_tensor": {"name": name}} for name in results],
                "nodes": nodes,
                **values,
                "is_single_tensor_return": False,
                "constants": {},
            },
            "signature": {
                "inputs_to_parameters": {f"p{index}": f"layer.w{index}" for index in range(weights)},
                "inputs_to_buffers": {},
                "user_inputs": names[weights:],
                "user_outputs": results,
                "buffers_to_mutate": {},
                "backward_signature": None,
            },
            "call_spec": {"in_spec": spec(inputs), "out_spec": spec(len(results))},
            "module_call_graph": [],
        },
        "opset_version": {"aten": 10},
        "range_constraints": draw(
            st.dictionaries(
                st.sampled_from(["s0", "s1", "i0", "2*s0"]),
                st.builds(
                    lambda low, high: {"min_val": low, "max_val": high},
                    st.integers(2, 9),
                    st.just(2**63 - 2) | st.integers(9, 99),
                ),
            )
        ),
        "equality_constraints": [],
        "schema_version": 1,
        "example_inputs": None,
    }


def spec(leaves: int) -> str:
    return f'[1, {{"type": "builtins.tuple", "context": "null", "children_spec": [{", ".join([LEAF] * leaves)}]}}]'


@given(programs())
@settings(max_examples=60, deadline=None)
def test_each_step_is_undone_by_its_reverse(document: Tree) -> None:
    tree = document
    for step in STEPS[1:]:
        newer = stepped_up(step, tree)
        ignored: list[Any] = []
        older = step.down(operators_down(newer, step.newer, ignored.append), ignored.append)
        assert not ignored
        assert same(older, tree), step.name
        assert same(stepped_up(step, older), newer), step.name
        tree = newer


@given(programs())
@settings(max_examples=40, deadline=None)
def test_the_whole_way_up_gives_a_valid_program(document: Tree) -> None:
    before = json.dumps(document)
    tree, _ = upgrade(document)
    problems = validate(program_from_tree(tree))
    assert [problem for problem in problems if problem.kind != "extent"] == []  # strides are drawn at random
    assert tree["schema_version"] == {"major": CURRENT.major, "minor": CURRENT.minor}
    assert json.dumps(document) == before


@given(programs())
@settings(max_examples=40, deadline=None)
def test_stack_traces_go_into_the_file_table_and_come_back(document: Tree) -> None:
    tree = document
    for step in STEPS[1:]:
        if step.older == Version(5, 3):
            break
        tree = stepped_up(step, tree)
    compact = compact_5_3.down(tree, _refuse)
    assert same(compact_5_3.up(compact), tree)
    assert same(compact_5_3.down(compact_5_3.up(compact), _refuse), compact)


def _refuse(obstacle: object) -> None:
    raise AssertionError(obstacle)
