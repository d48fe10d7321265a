"""What an upgrader may do to a node, on records alone: read, give arguments, emit, replace, remove, refuse."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from growth import growth_of
from inside.analysis import validate
from inside.evolve import Value, apply, decode_value, encode_value, planner, rewrite_graph
from msgspec.structs import replace

from graphwire import Plan
from graphwire.errors import OpsetError, Problem
from graphwire.hooks import NodeEditor, OpsetStep
from graphwire.schema import (
    Argument,
    ArgumentKind,
    Device,
    Graph,
    GraphArgument,
    GraphModule,
    GraphSignature,
    InputSpec,
    Layout,
    MemoryFormat,
    NamedArgument,
    Node,
    OutputSpec,
    Program,
    ScalarType,
    SchemaVersion,
    SymExpr,
    SymInt,
    TensorArgument,
    TensorMeta,
    UserInputSpec,
    UserOutputSpec,
)

OLD, NEW, OTHER = ("torch.ops.lib.old.default", "torch.ops.lib.new.default", "torch.ops.lib.other.default")


def meta(*sizes: int | str, dtype: ScalarType = ScalarType.FLOAT) -> TensorMeta:
    extents = [
        SymInt(as_int=s) if isinstance(s, int) else SymInt(as_expr=SymExpr(f"Symbol('{s}', integer=True)"))
        for s in sizes
    ]
    return TensorMeta(
        dtype,
        extents,
        False,
        Device("cpu"),
        [SymInt(as_int=1)] * len(sizes),
        SymInt(as_int=0),
        Layout.Strided,
    )


def tensor(name: str) -> Argument:
    return Argument(as_tensor=TensorArgument(name))


def call(target: str, result: str | list[str], *inputs: str, **keywords: Any) -> Node:
    named = [NamedArgument(f"x{i}", tensor(name), ArgumentKind.POSITIONAL) for i, name in enumerate(inputs)]
    named += [
        NamedArgument(name, encode_value(value), ArgumentKind.KEYWORD) for name, value in keywords.items()
    ]
    results = [result] if isinstance(result, str) else result
    name = result if isinstance(result, str) else "several"
    return Node(target, named, [tensor(each) for each in results], {"nn_module_stack": "a,b,c"}, name=name)


def graph_of(*nodes: Node, returns: str = "y") -> Graph:
    names = ["x", *(output.as_tensor.name for node in nodes for output in node.outputs if output.as_tensor)]
    return Graph(
        [tensor("x")], [tensor(returns)], list(nodes), {name: meta(2, "s0") for name in names}, {}, {}
    )


def program_of(graph: Graph) -> Program:
    signature = GraphSignature(
        [InputSpec(user_input=UserInputSpec(argument)) for argument in graph.inputs],
        [OutputSpec(user_output=UserOutputSpec(argument)) for argument in graph.outputs],
    )
    return Program(GraphModule(graph, signature, []), {"lib": 1}, {}, SchemaVersion(8, 20))


def upgraded(graph: Graph, *upgrades: Callable[[NodeEditor], None]) -> Program:
    """A program after one step that rewrites `OLD`; valid, as all that an editor makes has to be."""
    steps = [OpsetStep("lib", version + 1, version + 2, {OLD: each}) for version, each in enumerate(upgrades)]
    before = program_of(graph)
    assert not validate(before)
    after = apply(before, planner.plan(before, {"lib": len(upgrades) + 1}, steps))
    assert not validate(after), validate(after)
    return after


def nodes_of(program: Program) -> list[tuple[str, list[str], list[str]]]:
    """Each node: its operator, the values it uses, and those it makes."""
    found = []
    for node in program.graph_module.graph.nodes:
        used = [named.arg.as_tensor.name for named in node.inputs if named.arg.as_tensor]
        made = [output.as_tensor.name for output in node.outputs if output.as_tensor]
        found.append((node.target.split(".")[3], used, made))
    return found


def problems_of(graph: Graph, upgrade: Callable[[NodeEditor], None]) -> list[Problem]:
    found = planner.plan(program_of(graph), {"lib": 2}, [OpsetStep("lib", 1, 2, {OLD: upgrade})])
    return list(found.problems)


# ---------------------------------------------------------------------------------------------------------- reading


def test_a_node_is_read_by_names() -> None:
    seen: list[Any] = []

    def read(edit: NodeEditor) -> None:
        x = edit.value("x0")
        seen.extend([edit.target, edit.name, edit.place, edit.parameters, edit.outputs, x])
        seen.extend([edit.dtype(x), edit.sizes(x), edit.device(x), edit.value("eps"), edit.value("gone", 7)])
        seen.extend([edit.has("eps"), edit.has("gone"), edit.argument("gone")])

    upgraded(graph_of(call(OLD, "y", "x", eps=0.5)), read)
    y, x = Value("y"), Value("x")
    first = [OLD, "y", "graph_module.graph.nodes[0]", ("x0", "eps"), (y,), x]
    second = ["float32", [2, "s0"], "cpu", 0.5, 7, True, False, None]
    # Once for the plan, once for the program.
    assert seen == (first + second) * 2


def test_an_argument_that_is_not_there_is_a_refusal_with_its_name() -> None:
    (problem,) = problems_of(graph_of(call(OLD, "y", "x")), lambda edit: edit.value("eps"))
    assert problem.place == "graph_module.graph.nodes[0]"
    assert "'eps'" in problem.message


def test_positional_arguments_without_names_are_read_by_position() -> None:
    node = call(OLD, "y", "x")
    node.inputs = [NamedArgument("", named.arg, ArgumentKind.POSITIONAL) for named in node.inputs]
    node.inputs.append(NamedArgument("mode", encode_value("a"), ArgumentKind.KEYWORD))

    def read(edit: NodeEditor) -> None:
        assert edit.value(0) == Value("x")
        assert not edit.has(1)
        edit.set(0, edit.value(0))
        edit.drop("mode")

    assert [n.name for n in upgraded(graph_of(node), read).graph_module.graph.nodes[0].inputs] == [""]


VALUES: list[Any] = [
    None, 3, -1, True, 0.5, float("inf"), "text", [1, 2], [0.5], [True], ["a"], [], {"a": 1, "b": [2]},
    ScalarType.HALF, Device("cuda", 1), Layout.Strided, MemoryFormat.ChannelsLast, Value("x"), Value("n", "sym_int"),
    [Value("x"), Value("y")], [Value("x"), None], [1, Value("n", "sym_int")], [Value("f", "sym_float"), 0.5],
    Value("b", "sym_bool"), Value("o", "custom_obj", "a.B"), [1, "a", None], (1, "a"), [[1, 2], [3]],
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_plain_value_is_written_and_read_back(value: Any) -> None:
    assert decode_value(encode_value(value)) == value


def test_what_no_argument_says_is_refused() -> None:
    (problem,) = problems_of(graph_of(call(OLD, "y", "x")), lambda edit: edit.set("function", print))
    assert "'function'" in problem.message


# -------------------------------------------------------------------------------------------------------- arguments


def test_arguments_are_added_renamed_defaulted_and_dropped() -> None:
    def change(edit: NodeEditor) -> None:
        edit.retarget(NEW)
        edit.set("eps", 2.5)
        edit.set("added", [1, 2], keyword=True)
        edit.default("eps", 9.0)
        edit.default("other", True)
        edit.rename("x0", "input")
        edit.rename("gone", "away")
        edit.drop("unused")
        edit.drop("gone")

    (node,) = upgraded(graph_of(call(OLD, "y", "x", eps=0.5, unused=1)), change).graph_module.graph.nodes
    assert node.target == NEW
    given = {named.name: (decode_value(named.arg), named.kind) for named in node.inputs}
    assert given == {
        "input": (Value("x"), ArgumentKind.POSITIONAL),
        "eps": (2.5, ArgumentKind.KEYWORD),
        "added": ([1, 2], ArgumentKind.KEYWORD),
        "other": (True, None),
    }


def test_the_records_that_went_in_stay_as_they_were() -> None:
    graph = graph_of(call(OLD, "y", "x", eps=0.5))
    before = graph_of(call(OLD, "y", "x", eps=0.5))
    upgraded(graph, lambda edit: (edit.set("eps", 1.0), edit.emit(NEW, [edit.value("x0")]), edit.drop("eps")))
    assert graph == before


def test_what_no_step_touches_is_shared() -> None:
    kept = call(OTHER, "y", "h")
    graph = graph_of(call(OLD, "h", "x"), kept)
    after = upgraded(graph, lambda edit: edit.retarget(NEW)).graph_module.graph
    assert after.nodes[1] is kept
    assert after.tensor_values is graph.tensor_values
    untouched = program_of(graph_of(call(OTHER, "y", "x")))
    step = OpsetStep("lib", 1, 2, {OLD: lambda edit: edit.remove()})
    assert (
        apply(untouched, planner.plan(untouched, {"lib": 2}, [step])).graph_module is untouched.graph_module
    )


# ------------------------------------------------------------------------------------------------------------ nodes


def test_an_operator_is_split_and_the_last_part_keeps_the_name() -> None:
    def split(edit: NodeEditor) -> None:
        first = edit.emit(NEW, {"x": edit.value("x0")}, like=edit.value("x0"))
        edit.retarget(OTHER, {"x": first})

    after = upgraded(graph_of(call(OLD, "h", "x"), call(OLD, "y", "h")), split)
    assert nodes_of(after) == [
        ("new", ["x"], ["new"]),
        ("other", ["new"], ["h"]),
        ("new", ["h"], ["new_1"]),
        ("other", ["new_1"], ["y"]),
    ]
    graph = after.graph_module.graph
    assert graph.tensor_values["new"] == graph.tensor_values["x"]
    assert graph.nodes[0].metadata == {"nn_module_stack": "a,b,c"}
    assert after.requires == []


def test_a_new_value_of_which_nothing_is_said_is_left_to_be_propagated() -> None:
    def split(edit: NodeEditor) -> None:
        edit.retarget(OTHER, {"x": edit.emit(NEW, {"x": edit.value("x0")})})

    after = upgraded(graph_of(call(OLD, "y", "x")), split)
    assert after.requires == ["propagate"]
    assert [node.propagate for node in after.graph_module.graph.nodes] == [True, False]
    assert "new" not in after.graph_module.graph.tensor_values


def test_what_is_not_known_yet_cannot_be_asked_by_a_later_step() -> None:
    found = planner.plan(
        program_of(graph_of(call(OLD, "y", "x"))),
        {"lib": 3},
        [
            OpsetStep("lib", 1, 2, {OLD: lambda edit: edit.propagate()}),
            OpsetStep("lib", 2, 3, {OLD: lambda edit: edit.dtype(edit.outputs[0])}),
        ],
    )
    assert "before the program is loaded" in found.problems[0].message


def test_another_node_takes_over_an_output_under_its_name() -> None:
    def take(edit: NodeEditor) -> None:
        low, high = edit.outputs
        edit.emit(NEW, {"x": edit.value("x0")}, makes=low)
        edit.emit(OTHER, {"x": edit.value("x0")}, makes=high)
        edit.remove()

    after = upgraded(graph_of(call(OLD, ["low", "high"], "x"), call(OTHER, "y", "low", "high")), take)
    assert nodes_of(after) == [
        ("new", ["x"], ["low"]),
        ("other", ["x"], ["high"]),
        ("other", ["low", "high"], ["y"]),
    ]
    assert [node.name for node in after.graph_module.graph.nodes] == ["low", "high", "y"]


def test_an_operator_gets_one_more_result() -> None:
    def more(edit: NodeEditor) -> None:
        edit.retarget(NEW)
        edit.set_outputs([*edit.outputs, meta(4)])

    after = upgraded(graph_of(call(OLD, "y", "x")), more)
    (node,) = after.graph_module.graph.nodes
    assert nodes_of(after) == [("new", ["x"], ["y", "y_1"])]
    assert node.name not in {"y", "y_1"}
    assert after.graph_module.graph.tensor_values["y_1"] == meta(4)


def test_uses_of_a_removed_node_are_replaced_everywhere() -> None:
    def drop(edit: NodeEditor) -> None:
        edit.replace(edit.outputs[0], edit.value("x0"))
        edit.remove()

    after = upgraded(graph_of(call(OLD, "h", "x"), call(OLD, "i", "h"), call(OTHER, "y", "i", "h")), drop)
    assert nodes_of(after) == [("other", ["x", "x"], ["y"])]
    last = upgraded(graph_of(call(OTHER, "h", "x"), call(OLD, "y", "h")), drop)
    assert nodes_of(last) == [("other", ["x"], ["h"])]
    assert last.graph_module.graph.outputs == [tensor("h")]
    assert last.graph_module.signature.output_specs[0].user_output == UserOutputSpec(tensor("h"))
    assert set(last.graph_module.graph.tensor_values) == {"x", "h"}


def test_a_removed_node_whose_value_is_used_is_a_problem_at_its_use() -> None:
    (problem,) = problems_of(graph_of(call(OLD, "h", "x"), call(OTHER, "y", "h")), lambda edit: edit.remove())
    assert problem.kind == "removed"
    assert "(y)" in problem.place
    assert "h" in problem.message


def test_a_value_is_only_replaced_by_one_of_its_kind() -> None:
    (problem,) = problems_of(
        graph_of(call(OLD, "y", "x")), lambda edit: edit.replace(edit.outputs[0], Value("n", "sym_int"))
    )
    assert "sym_int" in problem.message


@pytest.mark.parametrize(
    "misuse",
    [
        lambda edit: edit.replace(Value("x"), Value("y")),
        lambda edit: edit.emit(NEW, [], makes=Value("x")),
        lambda edit: edit.set_outputs([Value("x")]),
        lambda edit: edit.set(9, 1),
        lambda edit: edit.dtype(3),
        lambda edit: 1 / 0,
    ],
)
def test_misuse_is_told_with_the_place_of_the_node(misuse: Callable[[NodeEditor], None]) -> None:
    (problem,) = problems_of(graph_of(call(OLD, "y", "x")), misuse)
    assert problem.place == "graph_module.graph.nodes[0]"
    assert problem.message.startswith(OLD)


# --------------------------------------------------------------------------------------------------------- metadata


def test_what_is_known_of_an_output_is_declared_anew_or_propagated() -> None:
    wider = meta(8)
    after = upgraded(graph_of(call(OLD, "y", "x")), lambda edit: edit.declare(edit.outputs[0], wider))
    assert after.graph_module.graph.tensor_values["y"] == wider
    after = upgraded(graph_of(call(OLD, "y", "x")), lambda edit: edit.propagate())
    assert "y" not in after.graph_module.graph.tensor_values
    assert after.requires == ["propagate"]


def test_requirements_follow_what_is_used() -> None:
    graph = graph_of(call(OLD, "y", "x", mixed=[1, "a"]))
    before = replace(program_of(graph), requires=["outputs", "sequences"])
    assert not validate(before)
    steps = [OpsetStep("lib", 1, 2, {OLD: lambda edit: edit.drop("mixed")})]
    assert apply(before, planner.plan(before, {"lib": 2}, steps)).requires == ["outputs"]


# -------------------------------------------------------------------------------------------------------- subgraphs


def with_subgraph(inner: Graph) -> Graph:
    node = call("torch.ops.higher_order.cond", "y", "x")
    node.inputs.append(
        NamedArgument("", Argument(as_graph=GraphArgument("true", inner)), ArgumentKind.POSITIONAL)
    )
    return graph_of(node)


def test_nodes_of_subgraphs_are_rewritten_too_with_names_of_their_own() -> None:
    def split(edit: NodeEditor) -> None:
        edit.retarget(OTHER, {"x": edit.emit(NEW, {"x": edit.value("x0")}, like=edit.value("x0"))})

    graph = with_subgraph(with_subgraph(graph_of(call(OLD, "y", "x"))))
    before = program_of(graph)
    found = planner.plan(before, {"lib": 2}, [OpsetStep("lib", 1, 2, {OLD: split})])
    place = "graph_module.graph.nodes[0].inputs[1].arg.as_graph.graph.nodes[0].inputs[1].arg.as_graph.graph.nodes[0]"
    assert [node.place for step in found.steps for node in step.nodes] == [place]
    after = apply(before, found)
    assert not validate(after)
    inner = after.graph_module.graph
    for _ in range(2):
        argument = inner.nodes[0].inputs[1].arg.as_graph
        assert argument is not None
        inner = argument.graph
    assert [node.target for node in inner.nodes] == [NEW, OTHER]


def test_a_subgraph_that_several_nodes_call_is_rewritten_once() -> None:
    shared = graph_of(call(OLD, "y", "x"))
    outer = with_subgraph(shared)
    outer.nodes.insert(0, replace(outer.nodes[0], outputs=[tensor("h")], name="h"))
    outer.tensor_values["h"] = meta(2)
    touched: list[str] = []
    after, _ = rewrite_graph(
        outer, {OLD: lambda edit: edit.retarget(NEW)}, "graph", [], lambda place, _: touched.append(place)
    )
    first, second = (node.inputs[1].arg.as_graph for node in after.nodes)
    assert first is not None
    assert second is not None
    assert first.graph is second.graph
    assert len(touched) == 1


# ------------------------------------------------------------------------------------------------------------- cost


def test_the_cost_grows_with_the_number_of_nodes() -> None:
    def split(edit: NodeEditor) -> None:
        first = edit.emit(NEW, {"x": edit.value("x0")}, like=edit.value("x0"))
        edit.retarget(OTHER, {"x": first})

    def rewriting(count: int) -> Callable[[], object]:
        names = ["x", *(f"v{i}" for i in range(count - 1)), "y"]
        graph = graph_of(*(call(OLD, b, a) for a, b in itertools.pairwise(names)))
        return lambda: rewrite_graph(graph, {OLD: split}, "graph", [], lambda *_: None)

    assert growth_of(rewriting(500), rewriting(5000), bound=40) < 40


def test_a_plan_without_steps_gives_the_very_same_program() -> None:
    program = program_of(graph_of(call(OLD, "y", "x")))
    assert apply(program, Plan()) is program


def test_a_plan_that_refuses_is_not_applied() -> None:
    program = program_of(graph_of(call(OLD, "h", "x"), call(OLD, "y", "h")))
    found = planner.plan(
        program, {"lib": 2}, [OpsetStep("lib", 1, 2, {OLD: lambda edit: edit.refuse("it cannot be said")})]
    )
    with pytest.raises(OpsetError, match="2 nodes") as caught:
        apply(program, found)
    assert [problem.place for problem in caught.value.problems] == [
        "graph_module.graph.nodes[0]",
        "graph_module.graph.nodes[1]",
    ]
    assert "it cannot be said" in str(caught.value)
