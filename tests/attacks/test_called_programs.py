"""A tampered call of a program: what loads can be called, and `load` and `load_module` refuse the same files.

The call is what the file says of the arguments and results (treespecs), of the names of parameters, and of guards.
"""

from __future__ import annotations

import json
import warnings
from contextlib import suppress
from typing import Any

import pytest
import torch
from hostile import Change, Victim, get, put
from hypothesis import example, given, settings, strategies as st
from torch import Tensor, nn
from torch.export import Dim, export
from torch.utils import _pytree as pytree

import graphwire
from graphwire.errors import EncodeError, GraphwireError, GraphwireWarning
from graphwire.testing import assert_same_values

CALL = "graph_module.module_call_graph[0].signature"


class Model(nn.Module):
    """Takes a list by position and a tensor by name, and returns a dict."""

    def forward(self, x: Tensor, pair: list[Tensor], *, scale: Tensor) -> dict[str, Any]:
        return {"sum": x * scale + pair[0], "parts": (pair[1], x.sin())}


INPUTS = [torch.arange(3.0), torch.ones(3), torch.full((3,), 2.0), torch.tensor(4.0)]
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    PROGRAM = export(
        Model(),
        (INPUTS[0], INPUTS[1:3]),
        {"scale": INPUTS[3]},
        dynamic_shapes={"x": {0: Dim.AUTO}, "pair": [{0: Dim.AUTO}, {0: Dim.AUTO}], "scale": None},
    )
    GOOD = Victim.of(graphwire.dumps(PROGRAM))
    STRIPPED = Victim.of(graphwire.dumps(PROGRAM, strip=["example_inputs"]))


def _loaded(data: bytes) -> tuple[Any, Any]:
    """The modules of both ways to load a file, or the one error of both."""
    made: list[Any] = []
    for load in (lambda: graphwire.loads(data).module(), lambda: graphwire.load_module(data)):
        try:
            made.append(load())
        except GraphwireError as error:
            made.append(f"{type(error).__name__}: {error}")
    if any(isinstance(each, str) for each in made):
        assert made[0] == made[1]
    return made[0], made[1]


def _container(name: str, children: list[Any], keys: list[str]) -> dict[str, Any]:
    context = {
        "builtins.tuple": None,
        "builtins.list": None,
        "builtins.dict": keys,
        "collections.OrderedDict": keys,
        "torch.Size": None,
        "collections.deque": None,
    }[name]
    return {"type": name, "context": json.dumps(context), "children_spec": children}


LEAF = {"type": None, "context": None, "children_spec": []}
names = st.sampled_from(["x", "pair", "scale", "arg_0", "args", "kwargs", "y"])
containers = st.sampled_from(
    ["builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict", "collections.deque"]
)


@st.composite
def _container_of(draw: Any, children: Any, kinds: Any = containers) -> dict[str, Any]:
    found = draw(children)
    keys = draw(st.lists(names, min_size=len(found), max_size=len(found), unique=True))
    return _container(draw(kinds), found, keys)


values = st.recursive(st.just(LEAF), lambda of: _container_of(st.lists(of, max_size=3)), max_leaves=4)
_arguments = st.tuples(
    _container_of(st.lists(values, max_size=4), st.just("builtins.tuple") | containers),
    _container_of(st.lists(values, max_size=2), st.just("builtins.dict") | containers),
).map(lambda both: _container("builtins.tuple", list(both), []))
structures = _arguments | values

_LISTED = _container("builtins.list", [LEAF] * 4, [])
_BY_NAME = _container("builtins.dict", [LEAF] * 4, ["x", "pair", "scale", "y"])
_TUPLES = [_container("builtins.tuple", [LEAF] * 3, []), _container("builtins.tuple", [LEAF], [])]


@pytest.mark.filterwarnings("ignore:.*refer to no input:graphwire.errors.GraphwireWarning")
@example(_LISTED, None, None)
@example(_BY_NAME, None, None)
@example(_container("builtins.list", _TUPLES, []), None, None)
@example(_container("builtins.tuple", _TUPLES, []), None, None)
@example(
    _container("builtins.tuple", [_TUPLES[0], _container("collections.OrderedDict", [LEAF], ["y"])], []),
    None,
    None,
)
@example(None, ["x"], None)
@example(None, ["x", "pair", "scale", "y"], None)
@example(None, ["scale", "x", "pair"], None)
@example(None, None, LEAF)
@given(
    st.none() | structures,
    st.none() | st.lists(names, max_size=4, unique=True),
    st.none() | values,
)
def test_what_loads_can_be_called(in_spec: Any, parameters: list[str] | None, out_spec: Any) -> None:
    changes: list[Change] = []
    for field, spec in (("in_spec", in_spec), ("out_spec", out_spec)):
        if spec is not None:
            changes.append(put(f"{CALL}.{field}", json.dumps([1, spec])))
    if parameters is not None:
        changes.append(put(f"{CALL}.forward_arg_names", parameters))
    theirs, ours = _loaded(STRIPPED.with_document(*changes))
    if not isinstance(theirs, str):
        args, kwargs = pytree.tree_unflatten(INPUTS, ours._in_spec)
        assert_same_values(ours(*args, **kwargs), theirs(*args, **kwargs))


_SOURCES = [
    *(
        "L['x'].size()[0]",
        "L['pair'][0].size()[0]",
        "L['pair'][1].size()[0]",
        "L['flat_args'][3].storage_offset()",
    ),
    *("L['self'].size()[0]", "L['y'].size()[0]", "L['pair'][2].size()[0]", "L['flat_args'][4].size()[0]"),
    *("L['x_0'].size()[0]", "L['pair'].size()[0]", "L['args'][0]", "L['flat_args'][-1].size()[0]"),
]


@given(st.lists(st.sampled_from(_SOURCES), min_size=1, max_size=3), st.sampled_from(["<=", ">", "=="]))
def test_guards_refer_to_inputs(sources: list[str], comparison: str) -> None:
    guards = put("guards_code", [f"{source} {comparison} 3" for source in sources])
    theirs, ours = _loaded(GOOD.with_document(guards))
    unknown = [source for source in sources if source in _SOURCES[4:]]
    if unknown:
        assert f"the guard {unknown[0]}" in theirs
        assert "refers to something that is no input" in theirs
    else:
        assert not isinstance(theirs, str)
        assert not isinstance(ours, str)


def test_without_example_inputs_a_guard_of_no_input_is_told() -> None:
    """torch's module checks no guards then."""
    data = STRIPPED.with_document(put("guards_code", ["L['self'].size()[0] <= 3"]))
    graphwire.loads(data)
    with pytest.warns(GraphwireWarning, match="guards .* are not loaded: they refer to no input"):
        module = graphwire.load_module(data)
    module(INPUTS[0], INPUTS[1:3], scale=INPUTS[3])


def test_a_save_refuses_what_no_load_accepts() -> None:
    program = graphwire.loads(GOOD.data)
    program._guards_code = ["L['self'].size()[0] <= 3"]
    with pytest.raises(EncodeError, match=r"guards_code\[0\].*no input of the program"):
        graphwire.dumps(program)
    program._guards_code = []
    program.module_call_graph[0].signature.forward_arg_names = ["x", "pair"]
    with (
        pytest.raises(EncodeError, match="2 names of parameters, and 3 arguments"),
        pytest.warns(GraphwireWarning, match="example inputs are not saved"),
    ):
        graphwire.dumps(program)


# -------------------------------------------------------------------------------------------------- hostile structures


def _deep(levels: int) -> str:
    start, end = '{"type": "builtins.list", "context": "null", "children_spec": [', "]}"
    return start * levels + json.dumps(LEAF) + end * levels


def _of_type(name: str, context: Any) -> str:
    return json.dumps({"type": name, "context": context, "children_spec": [LEAF]})


_HOSTILE = {
    "a function": _of_type("os.system", '"touch x"'),
    "a class that is not registered": _of_type("subprocess.Popen", "null"),
    "a factory": _of_type(
        "collections.defaultdict",
        '{"default_factory_module": "os", "default_factory_name": "system", "dict_context": ["a"]}',
    ),
    "a context that is no JSON": _of_type("builtins.dict", "__import__('os')"),
    "keys that cannot be keys": _of_type("builtins.dict", "[[1], {}]"),
    "more keys than children": _of_type("builtins.dict", '["a", "b"]'),
    "the same key twice": _of_type("builtins.dict", '["a", "a"]'),
    "a namedtuple of no name": _of_type("collections.namedtuple", '"os.stat_result"'),
    "a deque of no length": _of_type("collections.deque", "-3"),
    "many levels": _deep(5000),
}


@pytest.mark.parametrize("place", ["in_spec", "out_spec"])
@pytest.mark.parametrize("name", _HOSTILE)
def test_hostile_structures_are_refused_alike(name: str, place: str) -> None:
    def change(tree: Any) -> None:
        call = get(tree, CALL)
        spec = json.loads(call[place])
        (spec[1]["children_spec"][0] if place == "in_spec" else spec[1])["children_spec"][0] = "@"
        call[place] = json.dumps(spec).replace('"@"', _HOSTILE[name])

    theirs, _ = _loaded(GOOD.with_document(change))
    assert isinstance(theirs, str)


# ------------------------------------------------------------------------------------------------------ the calls of nodes


class Sum(nn.Module):
    """The sum of two tensors."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y


class Calls(nn.Module):
    """Calls an operator with a schema, a function of Python and a higher-order operator."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        z = torch.sub(x, y, alpha=2).new_full((x.shape[0] * 2 - y.shape[0],), 1.0)
        return torch.cond(z.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (z,))


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    SIZES = {"x": {0: Dim("n", min=3, max=9)}, "y": {0: 1}}
    NODES = Victim.of(graphwire.dumps(export(Calls(), (torch.ones(4), torch.ones(1)), dynamic_shapes=SIZES)))
TARGETS = ["_operator.sub", "torch.ops.aten.sub.Tensor", "torch.ops.higher_order.cond"]
COMPUTED: dict[str, list[str]] = {}
"""What programs compute, by their content hash."""


def _call(node: torch.fx.Node) -> str:
    """What a node computes: an argument of an operator with a schema may be passed by position or by keyword."""
    schema = getattr(node.target, "_schema", None)
    names = [each.name for each in schema.arguments] if schema else []
    by_name = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    return f"{node.target} {() if schema else node.args} {sorted(by_name.items())}"


@settings(max_examples=200)
@example(TARGETS[0], [0, 1], ["a", "b"], [1, 1])
@example(TARGETS[0], [1, 0], ["b", "a"], [1, 1])
@example(TARGETS[0], [0, 1], ["z", "y"], [1, 1])
@example(TARGETS[0], [1, 0], ["y", "z"], [1, 1])
@example(TARGETS[2], [0, 2, 1, 3], ["a", "c", "b", "d"], [1, 1, 1, 1])
@example(TARGETS[2], [0, 1, 2, 3], ["a", "b", "c", "d"], [1, 1, 1, 1])
@example(TARGETS[2], [0, 2, 3, 1], ["", "", "a", ""], [1, 1, 2, 1])
@example(TARGETS[2], [0, 2, 3, 1], ["", "", "a", ""], [1, 1, 1, 1])
@example(TARGETS[2], [0, 1, 2, 3], ["", "", "", "a"], [1, 1, 1, 2])
@example(TARGETS[2], [0, 1, 2, 3], ["", "", "", "a"], [1, 1, 1, 1])
@example(TARGETS[0], [0, 1], ["", "c"], [1, 1])
@example(TARGETS[0], [0, 1], ["", "c"], [1, 2])
@given(
    st.sampled_from(TARGETS),
    st.permutations(range(4)),
    st.lists(st.sampled_from(["", "a", "b", "self", "other", "alpha", "z"]), min_size=4, max_size=4),
    st.lists(st.sampled_from([None, 0, 1, 2]), min_size=4, max_size=4),
)
def test_programs_of_one_hash_call_operators_alike(
    target: str, order: list[int], names: list[str], kinds: list[int | None]
) -> None:
    def change(tree: Any) -> None:
        node = next(each for each in get(tree, "graph_module.graph.nodes") if each["target"] == target)
        inputs = [node["inputs"][index] for index in order if index < len(node["inputs"])]
        for each, name, kind in zip(inputs, names, kinds, strict=False):
            each["name"], each["kind"] = name, kind
        node["inputs"] = inputs

    data = NODES.with_document(change)
    with suppress(GraphwireError):
        calls = [_call(node) for node in graphwire.loads(data).graph.nodes if node.op == "call_function"]
        assert COMPUTED.setdefault(graphwire.content_hash(data), calls) == calls


def test_two_inputs_for_one_parameter_are_refused() -> None:
    def change(tree: Any) -> None:
        (node,) = (
            each for each in get(tree, "graph_module.graph.nodes") if each["target"].endswith("sub.Tensor")
        )
        node["inputs"] = [{**node["inputs"][1], "name": ""}, *node["inputs"]]

    for load in (graphwire.loads, graphwire.load_module):
        with pytest.raises(GraphwireError, match="two inputs for one parameter"):
            load(NODES.with_document(change))


# --------------------------------------------------------------------------------------- the attributes that a graph reads

own_names = st.sampled_from(["true_graph_0", "false_graph_0", "a", "b", "a_b"])
readers = st.none() | own_names


@pytest.mark.filterwarnings("ignore::graphwire.errors.GraphwireWarning")
@example(["true_graph_0", "false_graph_0"], ["a", "a"])
@example(["true_graph_0", "false_graph_0"], ["false_graph_0", "true_graph_0"])
@given(st.lists(own_names, min_size=2, max_size=2), st.lists(readers, min_size=2, max_size=2))
def test_subgraphs_are_those_that_a_file_shows(attributes: list[str], nodes: list[str | None]) -> None:
    def change(tree: Any) -> None:
        (node,) = (each for each in get(tree, "graph_module.graph.nodes") if each["target"].endswith("cond"))
        graphs = [each["arg"]["as_graph"] for each in node["inputs"] if "as_graph" in each["arg"]]
        for graph, attribute, reader in zip(graphs, attributes, nodes, strict=True):
            graph["name"], graph["node"] = attribute, reader

    with suppress(GraphwireError):
        module = graphwire.loads(NODES.with_document(change)).graph_module
        (called,) = module.graph.find_nodes(op="call_function", target=torch.ops.higher_order.cond)
        branches = [getattr(module, str(each.target)) for each in called.args[1:3]]
        found = [next(each for each in of.graph.nodes if each.op == "call_function") for of in branches]
        assert [str(each.target) for each in found] == ["aten.sin.default", "aten.cos.default"]


def test_positions_of_inputs_are_those_of_the_signature() -> None:
    victim = Victim.of(graphwire.dumps(export(nn.Linear(2, 2), (torch.ones(1, 2),))))
    data = victim.with_document(put("graph_module.graph.placed", {"p_bias": "linear", "input": ""}))
    modules = graphwire.loads(data).module(), graphwire.load_module(data)
    assert torch.equal(*(module(torch.ones(1, 2)) for module in modules))
