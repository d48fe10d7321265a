"""The adapter shows every node of every program of a file, without loading it through torch."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import graphwire_model_explorer.main
import pytest
import torch
from graphwire_model_explorer.main import GraphwireAdapter
from model_explorer import ModelExplorerGraphs
from model_explorer.extension_manager import ExtensionManager

import graphwire
from graphwire.schema import Graph


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("offset", torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).relu() + self.offset


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.Sequential(Block(), Block())

    def forward(self, x: torch.Tensor, other: torch.Tensor) -> Any:
        one, two = torch.split(self.blocks(x), 2, dim=1)
        chosen = torch.cond(x.sum() > 0, torch.sin, lambda each: each.cos() + 1, (one,))
        return chosen, torch.cat([two, other], dim=-1), x.shape[0]


@pytest.fixture(scope="module")
def program() -> Any:
    n = torch.export.Dim("n", min=2, max=64)
    return torch.export.export(
        Model(), (torch.ones(3, 4), torch.ones(3, 2)), dynamic_shapes={"x": {0: n}, "other": {0: n}}
    )


@pytest.fixture(params=["cbor.pt2", "json.pt2", "torch.pt2"])
def path(request: pytest.FixtureRequest, program: Any, tmp_path: Path) -> Path:
    path = tmp_path / request.param
    if path.name == "torch.pt2":
        torch.export.save(program, path)
    else:
        graphwire.save(program, path, format=path.stem)
    return path


def graphs(path: Path) -> list[Any]:
    shown: ModelExplorerGraphs = GraphwireAdapter().convert(str(path), {})
    return list(shown["graphs"])


def every_graph(graph: Graph) -> Iterator[Graph]:
    yield graph
    for node in graph.nodes:
        for named in node.inputs:
            if named.arg.as_graph is not None:
                yield from every_graph(named.arg.as_graph.graph)


def test_every_node_of_every_graph_is_shown(path: Path) -> None:
    shown = graphs(path)
    with graphwire.open(path) as archive:
        expected = list(every_graph(archive.program.graph_module.graph))
    assert len(shown) == len(expected) == 3
    for one, other in zip(shown, expected, strict=True):
        assert len(one.nodes) == len(other.inputs) + len(other.nodes) + 1
        targets = Counter(each.value for node in one.nodes for each in node.attrs if each.key == "target")
        assert targets == Counter(node.target for node in other.nodes)


def test_every_edge_leads_from_a_node_to_a_node(path: Path) -> None:
    for graph in graphs(path):
        nodes = {node.id: node for node in graph.nodes}
        assert len(nodes) == len(graph.nodes)
        for node in graph.nodes:
            for edge in node.incomingEdges:
                outputs = {each.id for each in nodes[edge.sourceNodeId].outputsMetadata}
                assert edge.sourceNodeOutputId in outputs


def test_subgraphs_open_from_their_node(path: Path) -> None:
    shown = graphs(path)
    (cond,) = [node for node in shown[0].nodes if node.subgraphIds]
    assert cond.label == "higher_order.cond"
    assert cond.subgraphIds == [graph.id for graph in shown[1:]]
    assert cond.subgraphIds == ["model/cond/true_graph_0", "model/cond/false_graph_0"]


def test_programs_and_subgraphs_of_a_file_have_ids_of_their_own(program: Any, tmp_path: Path) -> None:
    """Ids are unique even if a program is named like a subgraph of another."""
    names = ("model", "model/cond", "model/cond/true_graph_0", "model/cond/true_graph_0 (2)")
    graphwire.save(dict.fromkeys(names, program), tmp_path / "several.pt2", format="msgpack")
    shown = graphs(tmp_path / "several.pt2")
    ids = [graph.id for graph in shown]
    assert len(set(ids)) == len(ids) == 3 * len(names)
    assert set(names) <= set(ids)
    opened = [each for graph in shown for node in graph.nodes for each in node.subgraphIds]
    assert sorted([*opened, *names]) == sorted(ids)


def _uncounted(trace: str) -> str:
    """A stack trace without the counters of generated code, which a file replaces."""
    return re.sub(r"<eval_with_key>\.[0-9]+", "<eval_with_key>", trace)


def test_calls_tell_their_stack_traces_whole(path: Path, program: Any) -> None:
    expected = {
        node.name: node.meta["stack_trace"].rstrip("\n")
        for node in program.graph.nodes
        if node.op == "call_function" and node.meta.get("stack_trace")
    }
    shown = {}
    for node in graphs(path)[0].nodes:
        names = {each.value for item in node.outputsMetadata for each in item.attrs if each.key == "name"}
        traces = [each.value for each in node.attrs if each.key == "stack_trace"]
        shown.update({name: traces[0] for name in names if traces and name in expected})
    assert shown
    assert {name: _uncounted(text) for name, text in shown.items()} == {
        name: _uncounted(expected[name]) for name in shown
    }
    assert shown.keys() >= {"linear", "linear_1", "relu", "add", "cat"}


def test_nodes_lie_in_their_modules_and_tell_types_and_literals(path: Path) -> None:
    main = graphs(path)[0]
    linear = [node for node in main.nodes if node.label == "aten.linear"]
    assert [node.namespace for node in linear] == ["blocks/0/linear", "blocks/1/linear"]
    shapes = {each.key: each.value for each in linear[0].outputsMetadata[0].attrs}
    assert shapes["tensor_shape"].startswith("float32[")
    assert shapes["tensor_shape"].endswith(", 4]")
    (split,) = [node for node in main.nodes if node.label.startswith("aten.split")]
    assert {"2", "1"} <= {each.value for each in split.attrs}
    weight = [node for node in main.nodes if node.label == "blocks.0.linear.weight"]
    assert [(node.namespace, node.attrs[0].value) for node in weight] == [("blocks/0/linear", "parameter")]


def test_model_explorer_finds_it_and_draws_the_file(path: Path) -> None:
    manager = ExtensionManager(["graphwire_model_explorer"])
    manager.load_extensions()
    assert "graphwire" in {each["id"] for each in manager.get_extensions_metadata()}
    command = {"cmdId": "convert", "extensionId": "graphwire", "modelPath": str(path), "settings": {}}
    drawn = manager.run_cmd({**command, "deleteAfterConversion": False})
    (collection,) = [drawn] if "graphs" in drawn else drawn["graphCollections"]
    assert [len(graph["nodes"]) for graph in collection["graphs"]] == [
        len(graph.nodes) for graph in graphs(path)
    ]


def test_nothing_is_loaded_through_torch(path: Path) -> None:
    code = (
        "import sys, types\n"
        "for name in ('torch', 'tensorflow'): sys.modules[name] = None\n"  # an import of it fails
        "from graphwire_model_explorer.main import GraphwireAdapter\n"
        "print(len(GraphwireAdapter().convert(sys.argv[1], {})['graphs']))\n"
    )
    folder = str(Path(graphwire_model_explorer.main.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code, path],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={"PYTHONPATH": folder, "HOME": str(path.parent)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "3"


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "none.pt2"
    path.write_bytes(b"no archive")
    with pytest.raises(graphwire.errors.GraphwireError):
        GraphwireAdapter().convert(str(path), {})
