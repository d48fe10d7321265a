"""Time, memory and depth: whatever a document nests or shares, each way to read it ends, in a result or in an error of ours."""

from __future__ import annotations

import ast
import io
import itertools
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from hostile import DOCUMENT, WEIGHTS, Tree, Victim, victim
from inside.schema import OMITTED
from torch.fx.traceback import NodeSource

import graphwire
from graphwire import LoadReport, WriteReport
from graphwire.errors import GraphwireError, GraphwireWarning

S0 = "Symbol('s0', positive=True, integer=True)"


@pytest.fixture(scope="module")
def good() -> Victim:
    return victim()


def nested(opening: str, inner: str, closing: str) -> Callable[[int], str]:
    return lambda depth: opening * depth + inner + closing * depth


def _size(tree: Tree, text: str, hint: int = 7) -> None:
    extent = {"as_expr": {"expr_str": text, "hint": {"as_int": hint}}}
    for meta in tree["graph_module"]["graph"]["tensor_values"].values():
        meta["sizes"] = [extent if "as_expr" in each else each for each in meta["sizes"]]


def _range(tree: Tree, text: str) -> None:
    tree["range_constraints"][text] = {"min_val": 1, "max_val": 9}


def _guard(tree: Tree, text: str) -> None:
    tree.setdefault("guards_code", []).append(text)


def _metadata(key: str) -> Callable[[Tree, str], None]:
    return lambda tree, text: tree["graph_module"]["graph"]["nodes"][0]["metadata"].update({key: text})


def _in_spec(tree: Tree, text: str) -> None:
    tree["graph_module"]["module_call_graph"][0]["signature"]["in_spec"] = f"[1, {text}]"


def _examples(tree: Tree, text: str) -> None:
    tree["example_inputs"]["spec"] = f"[1, {text}]"


_TUPLE = '{"type": "builtins.tuple", "context": "null", "children_spec": ['
_LEAF = '{"type": null, "context": null, "children_spec": []}'
_ORIGIN = '{"name": "a", "target": "b", "graph_id": 1, "pass_name": "p", "action": "create", "from_node": ['

TEXTS: dict[str, tuple[Callable[[Tree, str], None], Callable[[int], str]]] = {
    "an expression": (_size, nested("Abs(", S0, ")")),
    "an expression's tail": (_size, nested("Add(Integer(1), ", S0, ")")),
    "infix parentheses": (_range, nested("(", "s0", ")")),
    "infix signs": (_range, nested("-", "s0", "")),
    "infix powers": (_range, nested("s0**", "2", "")),
    "infix quotients": (_range, lambda depth: "s0" + "//2" * depth),
    "infix negations": (_range, nested("~", "s0", "")),
    "infix calls": (_range, nested("Max(s0, ", "s0", ")")),
    "guard parentheses": (_guard, nested("(", "L['x'].size()[0] == 1", ")")),
    "guard attributes": (_guard, lambda depth: "L['x']" + ".a" * depth + ".size()[0] == 1"),
    "guard subscripts": (_guard, lambda depth: "L['x']" + "[0]" * depth + " == 1"),
    "guard negations": (_guard, nested("not ", "L['x'].size()[0] == 1", "")),
    "guard signs": (_guard, nested("-", "L['x'].size()[0] == 1", "")),
    "guard sums": (_guard, lambda depth: "L['x'].size()[0]" + "+1" * depth + " == 1"),
    "guard choices": (_guard, nested("1 if L['x'].size()[0] == 1 else ", "2", "")),
    "guard calls": (_guard, nested("max(1, ", "L['x'].size()[0]", ") == 1")),
    "a treespec": (_in_spec, nested(_TUPLE, _LEAF, "]}")),
    "the inputs' treespec": (_examples, nested(_TUPLE, _LEAF, "]}")),
    "custom metadata": (_metadata("custom"), nested("[", "1", "]")),
    "provenance as text": (_metadata("from_node"), lambda depth: f"[{nested(_ORIGIN, '', ']}')(depth)}]"),
    "a module stack": (_metadata("nn_module_stack"), lambda depth: nested("(", "a", ")")(depth) + ",a,b"),
}


def _sources(tree: Tree, depth: int, width: int) -> None:
    row = {"name": "n", "target": "t", "graph_id": 1, "pass_name": "p", "action": "create"}
    module = tree["graph_module"]
    module["node_sources"] = [{**row, "from_node": [i - 1] * width if i else []} for i in range(depth)]
    for node in module["graph"]["nodes"]:
        node["from_node"] = [depth - 1]


def _frames(tree: Tree, depth: int) -> None:
    module = tree["graph_module"]
    module["stack_frames"] = [{"file": "f.py", "line": 1, "name": "g", "source": "x" * 100 * depth}] * 9
    for node in module["graph"]["nodes"]:
        node["stack"] = [0] * depth


def _with_values(good: Victim, depth: int, width: int) -> bytes:
    tree, config = good.document, json.loads(good.records[WEIGHTS])
    config["config"][f"c{depth}"] = config["config"].pop("b")
    names = ["b", *(f"c{index}" for index in range(depth + 1))]
    tree["requires"] = ["codecs"]
    tree["encoded_values"] = {
        name: {"codec": "sparse", "tree": {}, "tensors": [part] * width}
        for name, part in itertools.pairwise(names)
    }
    changes = {DOCUMENT: json.dumps(tree).encode(), WEIGHTS: json.dumps(config).encode()}
    return good.with_records(changes)


def _changed(good: Victim, change: Callable[[Tree, int], None], depth: int) -> bytes:
    return good.with_document(lambda tree: change(tree, depth))


SHARED: dict[str, Callable[[Victim, int], bytes]] = {
    "a chain of origins": lambda good, depth: _changed(good, lambda t, n: _sources(t, n, 1), depth),
    "origins of two each": lambda good, depth: _changed(good, lambda t, n: _sources(t, n, 2), depth),
    "frames": lambda good, depth: _changed(good, _frames, min(depth, 200)),
    "a chain of values": lambda good, depth: _with_values(good, depth, 1),
    "values of two each": lambda good, depth: _with_values(good, depth, 2),
}


def ways(good: Victim, data: bytes) -> Iterator[tuple[str, Callable[[], object]]]:
    """Each way to read a file."""
    yield "load, module and save", lambda: _again(data)
    yield "diff", lambda: graphwire.diff(data, good.data)
    yield "content_hash", lambda: graphwire.content_hash(data)
    yield "verify", lambda: graphwire.verify(data)
    yield "inspect", lambda: str(graphwire.inspect(data))
    yield "plan_upgrade", lambda: graphwire.plan_upgrade(data)
    for target in ("torch-2.13", "torch-2.5", "torch-2.1"):
        yield target, lambda target=target: graphwire.convert(data, io.BytesIO(), target=target)
    for name in ("msgpack", "cbor"):
        yield name, lambda name=name: graphwire.convert(data, io.BytesIO(), format=name)


def _again(data: bytes) -> None:
    program = graphwire.loads(data)
    program.module()
    graphwire.loads(graphwire.dumps(program, format="cbor"))


def ends(way: Callable[[], object], seconds: float) -> str:
    """What came of it: `done`, or `refused`; anything else is raised."""
    started = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            way()
        outcome = "done"
    except GraphwireError:
        outcome = "refused"
    assert time.process_time() - started < seconds
    return outcome


@pytest.mark.parametrize("depth", [10, 100, 1000, 10_000])
@pytest.mark.parametrize("what", TEXTS)
def test_a_text_of_any_depth_is_read_or_refused(good: Victim, what: str, depth: int) -> None:
    put, make = TEXTS[what]
    data = good.with_document(lambda tree: put(tree, make(depth)))
    outcome = ends(lambda: graphwire.loads(data).module(), 5)
    assert outcome == "refused" or depth < 1000 or what == "a module stack"
    if depth == 1000:
        for name, way in ways(good, data):
            assert ends(way, 5), name


@pytest.mark.parametrize("depth", [20, 40, 1000])
@pytest.mark.parametrize("what", SHARED)
def test_what_is_shared_is_never_unfolded(good: Victim, what: str, depth: int) -> None:
    data = SHARED[what](good, depth)
    for name, way in ways(good, data):
        assert ends(way, 5), name


def test_provenance_beyond_the_bounds_is_dropped_and_said(good: Victim) -> None:
    data = good.with_document(lambda tree: _sources(tree, 300, 2))
    reports: list[LoadReport] = []
    with pytest.warns(GraphwireWarning, match="origins of nodes are not loaded: [0-9]+ are longer"):
        program = graphwire.loads(data, report=reports.append)
    assert "dropped: stack traces and origins of nodes (" in str(reports[0])
    program.module()
    assert all(node.meta["from_node"] for node in program.graph.nodes if node.op == "call_function")


@pytest.mark.parametrize("target", ["torch-2.13", "torch-2.8"])
def test_a_target_that_loses_provenance_says_so(good: Victim, target: str) -> None:
    data = good.with_document(lambda tree: _sources(tree, 300, 2))
    reports: list[WriteReport] = []
    with pytest.warns(GraphwireWarning, match="of 'model' are not all written: [0-9]+ are longer"):
        graphwire.convert(data, io.BytesIO(), target=target, report=reports.append)
    assert [(each.what, each.method) for each in reports[0].dropped] == [(OMITTED, "model")]
    assert "dropped: model: stack traces and origins" in str(reports[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = graphwire.open(io.BytesIO(data)).program_of("model")
    with pytest.warns(GraphwireWarning, match="are not all written: [0-9]+ are longer"):
        graphwire.encode(program, target=target)


@pytest.mark.parametrize("target", ["torch-2.13", "torch-2.1", "draft-2022"])
def test_what_a_target_loses_is_said_of_a_program_too(target: str) -> None:
    program = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
    for node in program.graph.nodes:
        node.meta["stack_trace"] = f'File "f.py", line 1, in {"f" * 100}\n' * 10
        node.meta["from_node"] = [_chain(60)]
    with pytest.warns(GraphwireWarning, match="are not all written"):
        graphwire.dumps(program, target=target)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graphwire.dumps(program)


def _chain(depth: int) -> NodeSource:
    source = NodeSource(None, "p")
    for _ in range(depth):
        outer = NodeSource(None, "p")
        outer.from_node = [source]
        source = outer
    return source


def test_provenance_as_text_counts_like_that_in_a_table(
    good: Victim, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {
        "name": "n" * 1000,
        "target": "t",
        "graph_id": 1,
        "pass_name": "p",
        "action": "create",
        "from_node": [],
    }
    data = good.with_document(lambda tree: _metadata("from_node")(tree, json.dumps([row] * 100)))
    monkeypatch.setattr("graphwire.schema.trees.MAX_PROVENANCE", 50_000)
    with pytest.warns(GraphwireWarning, match="1 are longer"):
        graphwire.loads(data)


HOSTILE_SIZES = {
    "a power of a size": (f"Pow(Integer(2), {S0})", 10**12),
    "a product of sums": (f"Mul({', '.join([f'Add({S0}, Integer({n}))' for n in range(1, 60)])})", 7),
    "a number of many digits": (f"Add({S0}, Integer({10**4000}))", 7),
    "quotients of quotients": ("FloorDiv(" * 60 + S0 + f", Add({S0}, Integer(3)))" * 60, 7),
    "the greatest of many": (f"Max({', '.join([f'Mod({S0}, Integer({n}))' for n in range(2, 400)])})", 1),
    "a root": (f"Pow(Integer({10**290 + 7}), Rational(1, 3))", 3),
    "a float beyond": (f"FloatPow(Float('9e300', precision=53), {S0})", 10**12),
}


@pytest.mark.parametrize("what", HOSTILE_SIZES)
def test_no_size_makes_torch_compute_without_end(good: Victim, what: str) -> None:
    text, hint = HOSTILE_SIZES[what]
    data = good.with_document(lambda tree: _size(tree, text, hint))
    for name, way in ways(good, data):
        assert ends(way, 5), name


def _within(frames: int, way: Callable[[], object]) -> object:
    return _within(frames - 1, way) if frames else way()


@pytest.mark.parametrize("left", [60, 120, 200, 300, 400])
def test_whoever_has_little_stack_left_gets_a_result_or_an_error_of_ours(good: Victim, left: int) -> None:
    depth = len(_stack())
    frames = sys.getrecursionlimit() - depth - left
    for name, way in [
        ("load", lambda: graphwire.loads(good.data)),
        *[w for w in ways(good, good.data) if w[0] in ("verify", "content_hash", "diff")],
    ]:
        assert ends(lambda way=way: _within(frames, way), 5), name


def _stack() -> list[object]:
    frame, found = sys._getframe(), []
    while frame is not None:
        found.append(frame)
        frame = frame.f_back
    return found


def _catches_nesting(place: ast.Try) -> bool:
    """Whether a block that reads JSON of strangers expects that it nests deeper than Python's stack, if it expects anything."""
    reads = any(
        isinstance(each, ast.Call) and ast.unparse(each.func) == "json.loads"
        for step in place.body
        for each in ast.walk(step)
    )
    caught = {ast.unparse(name) for each in place.handlers if each.type for name in ast.walk(each.type)}
    return not reads or "ValueError" not in caught or "RecursionError" in caught


def test_whoever_expects_text_that_is_no_json_expects_text_that_nests_deeply() -> None:
    root = Path(__file__).resolve().parents[2]
    files = [
        *root.glob("src/**/*.py"),
        *root.glob("contrib/*/graphwire_*/**/*.py"),
        *root.glob("contrib/*/*.py"),
    ]
    missing = [
        f"{path.name}:{each.lineno}"
        for path in files
        for each in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(each, ast.Try) and not _catches_nesting(each)
    ]
    assert len(files) > 200
    assert missing == []
