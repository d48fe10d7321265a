"""Work grows as documents do: what a file shares, lists or nests twice as much of costs no more than about twice the calls."""

from __future__ import annotations

import copy
import io
import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from growth import calls_of
from hostile import DOCUMENT, WEIGHTS, Tree, Victim, victim
from nightly import one_in
from symbolic import PLACES, hostile_document, victim_of_sizes
from test_bounds import ends, ways

import graphwire
from graphwire.errors import GraphwireWarning

S0 = "Symbol('s0', positive=True, integer=True)"
SOURCE = {"name": "n", "target": "t", "graph_id": 1, "pass_name": "p", "action": "create"}


@pytest.fixture(scope="module")
def good() -> Victim:
    return victim()


class Plus(torch.nn.Module):
    """A node with an argument that no weight is."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


@pytest.fixture(scope="module")
def plain() -> Victim:
    return Victim.of(graphwire.dumps(torch.export.export(Plus(), (torch.ones(2),))))


@pytest.fixture(scope="module")
def sizes() -> Victim:
    return victim_of_sizes()


def _nodes(tree: Tree) -> Any:
    return tree["graph_module"]["graph"]["nodes"]


def _a_sum(tree: Tree, count: int) -> None:
    symbols = [f"Symbol('s{index}', positive=True, integer=True)" for index in range(count * 4)]
    for meta in tree["graph_module"]["graph"]["tensor_values"].values():
        for extent in meta["sizes"]:
            if "as_expr" in extent:
                extent["as_expr"] = {"expr_str": f"Add({', '.join(symbols)})", "hint": None}


def _sources(width: int) -> Callable[[Tree, int], None]:
    def change(tree: Tree, count: int) -> None:
        rows = [{**SOURCE, "from_node": [index - 1] * width if index else []} for index in range(count)]
        tree["graph_module"]["node_sources"] = rows
        for node in _nodes(tree):
            node["from_node"] = [count - 1]

    return change


def _frames(tree: Tree, count: int) -> None:
    frame = {"file": "f.py", "line": 1, "name": "g", "source": "x"}
    tree["graph_module"]["stack_frames"] = [{**frame, "line": index} for index in range(count)]
    for node in _nodes(tree):
        node["stack"] = list(range(count))


def _metadata(key: str, make: Callable[[int], str]) -> Callable[[Tree, int], None]:
    def change(tree: Tree, count: int) -> None:
        for node in _nodes(tree):
            node["metadata"][key] = make(count)

    return change


def _ranges(tree: Tree, count: int) -> None:
    for index in range(count):
        tree["range_constraints"][f"s{index + 5000}"] = {"min_val": 2, "max_val": 9}
        tree["range_constraints"][f"2*s0 + {index}"] = {"min_val": 2, "max_val": 99}


def _replacements(tree: Tree, count: int) -> None:
    tree["graph_module"]["replacements"] = {f"s{index + 5000}": S0 for index in range(count)}
    for index in range(count):
        tree["range_constraints"][f"s{index + 5000}"] = {"min_val": 2, "max_val": 9}


def _guards(tree: Tree, count: int) -> None:
    tree["guards_code"] = [f"L['x'].size()[0] >= {index}" for index in range(count)]


def _calls(tree: Tree, count: int) -> None:
    tree["graph_module"]["module_call_graph"] += [{"fqn": f"m{i}", "signature": None} for i in range(count)]


def _values(tree: Tree, count: int) -> None:
    """Nodes, each with a size of its own."""
    graph = tree["graph_module"]["graph"]
    node = graph["nodes"][0]
    meta = graph["tensor_values"][node["outputs"][0]["as_tensor"]["name"]]
    for index in range(count):
        name = f"zz{index}"
        graph["nodes"].append(
            {**copy.deepcopy(node), "outputs": [{"as_tensor": {"name": name}}], "name": name}
        )
        extent = {"as_expr": {"expr_str": f"Add({S0}, Integer({index + 1}))", "hint": None}}
        graph["tensor_values"][name] = {**meta, "sizes": [extent, *meta["sizes"][1:]]}


def _codec_values(good: Victim, count: int, width: int) -> bytes:
    tree, config = good.document, json.loads(good.records[WEIGHTS])
    config["config"][f"c{count}"] = config["config"].pop("b")
    names = ["b", *(f"c{index}" for index in range(count + 1))]
    tree["requires"] = ["codecs"]
    tree["encoded_values"] = {
        name: {"codec": "sparse", "tree": {}, "tensors": [part] * width}
        for name, part in itertools.pairwise(names)
    }
    changes = {DOCUMENT: json.dumps(tree).encode(), WEIGHTS: json.dumps(config).encode()}
    return good.with_records(changes)


def _argument(plain: Victim, opening: str, closing: str, count: int) -> bytes:
    """A file whose node has an argument that is nested so often."""
    tree = plain.document
    _nodes(tree)[0]["inputs"][-1]["arg"] = "@"
    features = {"sequences": "as_sequence", "mappings": "as_mapping", "slices": "as_slice"}
    tree["requires"] = [name for name, variant in features.items() if variant in opening]
    text = json.dumps(tree).replace('"@"', opening * count + '{"as_int": 1}' + closing * count)
    return plain.with_records({DOCUMENT: text.encode()})


_LIST = '{"as_sequence": {"kind": "list", "items": ['
_TUPLE = _LIST.replace("list", "tuple")
NESTED = {
    "lists": (_LIST, "]}}"),
    "tuples": (_TUPLE, "]}}"),
    "tuples in lists": (_LIST + _TUPLE, "]}}]}}"),
    "mappings": ('{"as_mapping": [{"key": {"as_int": 1}, "value": ', "}]}"),
    "mappings in lists": (_LIST + '{"as_mapping": [{"key": {"as_int": 1}, "value": ', "}]}]}}"),
    "texts in lists": (_LIST + '{"as_string_to_argument": {"a": ', "}}]}}"),
    "slices": ('{"as_slice": {"stop": {"as_int": 1}, "step": {"as_none": true}, "start": ', "}}"),
}

TABLES: dict[str, Callable[[Tree, int], None]] = {
    "a sum of symbols": _a_sum,
    "origins": _sources(1),
    "origins of two each": _sources(2),
    "stack frames": _frames,
    "module stacks": _metadata("nn_module_stack", lambda n: ";".join(f"k{i},p{i},t" for i in range(n))),
    "source functions": _metadata("source_fn_stack", lambda n: ";".join(f"k{i},f{i}" for i in range(n))),
    "provenance as text": _metadata("from_node", lambda n: json.dumps([{**SOURCE, "from_node": []}] * n)),
    "custom metadata": _metadata("custom", lambda n: json.dumps([[1]] * n)),
    "ranges": _ranges,
    "replacements": _replacements,
    "guards": _guards,
    "calls of modules": _calls,
    "values": _values,
}


def _each_way(good: Victim, data: bytes) -> Iterator[Callable[[], object]]:
    for name, way in ways(good, data):
        if name not in ("torch-2.1", "torch-2.5", "msgpack", "plan_upgrade", "inspect"):
            yield way
    yield lambda: graphwire.canonicalize(graphwire.open(io.BytesIO(data)).program_of("model"))


def _check(good: Victim, make: Callable[[int], bytes], count: int) -> None:
    small, large = (list(_each_way(good, make(each))) for each in (count, 2 * count))
    for one, two in zip(small, large, strict=True):
        first = calls_of(one)
        assert calls_of(two) < 2.4 * first + 2000


@pytest.mark.parametrize("what", one_in(2, TABLES))
def test_twice_as_much_in_a_table_takes_twice_the_calls(good: Victim, what: str) -> None:
    _check(good, lambda count: good.with_document(lambda tree: TABLES[what](tree, count)), 25)


@pytest.mark.parametrize("width", [1, 2])
def test_values_of_values_take_twice_the_calls(good: Victim, width: int) -> None:
    _check(good, lambda count: _codec_values(good, count, width), 20)


@pytest.mark.parametrize("what", NESTED)
def test_arguments_twice_as_deep_take_twice_the_calls(plain: Victim, what: str) -> None:
    _check(plain, lambda count: _argument(plain, *NESTED[what], count), 8)


@pytest.mark.parametrize("depth", [10, 100, 1000, 10_000])
@pytest.mark.parametrize("what", NESTED)
def test_a_deep_argument_is_read_or_refused(plain: Victim, what: str, depth: int) -> None:
    data = _argument(plain, *NESTED[what], depth)
    outcome = ends(lambda: graphwire.dumps(graphwire.loads(data)), 5)
    deepest = 10 if " in " in what else 100  # a list inside each level doubles the depth of the document
    assert outcome == ("done" if depth <= deepest else "refused")


def test_sizes_of_high_degree_end(sizes: Victim) -> None:
    """sympy takes the derivatives of a polynomial one by one, to find its sign."""
    symbol = "Symbol('s77', positive=True, integer=True)"
    powers = [f"Pow({symbol}, Integer({degree}))" for degree in (64, 63, 62, 61, 60, 59)]
    below = f"Add({symbol}, Integer(-1))"

    def change(tree: Tree) -> None:
        metas = tree["graph_module"]["graph"]["tensor_values"].values()
        extents = [each for meta in metas for each in meta["sizes"] if each.get("as_expr")]
        for extent, power in zip(extents, itertools.cycle(powers), strict=False):
            extent["as_expr"] = {"expr_str": f"Mod({power}, {below})", "hint": None}

    assert ends(lambda: graphwire.loads(sizes.with_document(change)), 3)


@pytest.mark.parametrize("text", ["[]", "[[1]]", "NaN", "1", "null", '"x"', "[{}]"])
def test_free_metadata_that_is_no_mapping_fails_nothing(good: Victim, text: str) -> None:
    """torch copies its entries where it generates code."""
    data = good.with_document(lambda tree: _nodes(tree)[0]["metadata"].update(custom=text))
    with pytest.warns(GraphwireWarning, match="'custom'"):
        program = graphwire.loads(data)
    assert "custom" not in next(node for node in program.graph.nodes if node.op == "call_function").meta
    program.module()


@pytest.mark.parametrize("seed", range(len(PLACES)))
def test_hostile_expressions_end_wherever_they_stand(sizes: Victim, seed: int) -> None:
    data = hostile_document(sizes, seed)
    for name, way in ways(sizes, data):
        assert ends(way, 10), name
