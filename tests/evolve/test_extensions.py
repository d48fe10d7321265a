"""What our extensions say is said in torch's terms, dropped where it only informs, or named as an obstacle."""

from __future__ import annotations

import json
from typing import Any

import torch
from corpus_documents import documents
from inside.evolve import CURRENT, RELEASES, downgrade, upgrade
from inside.schema import program_from_tree

import graphwire


class Layers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.l = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> Any:
        return self.l(x).relu().split([1, 2], dim=-1)


def test_a_document_of_torch_has_nothing_to_resolve() -> None:
    for model in ("linear", "cond_closure_params", "pytree_std"):
        tree = documents()["2.13.0", model]
        assert downgrade(tree, CURRENT) == tree


def test_tables_of_frames_and_sources_become_text_on_each_node() -> None:
    tree = documents()["2.13.0", "linear"]
    node = {
        **tree["graph_module"]["graph"]["nodes"][0],
        "stack": [0, 1],
        "from_node": [1],
        "container": "list",
    }
    frames = [
        {"file": "a.py", "line": 3, "name": "forward", "source": "    return f(x)\n"},
        {"file": "b.py", "line": 7, "name": "f"},
    ]
    sources = [
        {"name": "old", "target": "aten.t.default", "graph_id": 1},
        {"name": "new", "target": "aten.t.default", "graph_id": 2, "action": "create", "from_node": [0]},
    ]
    module = {**tree["graph_module"], "stack_frames": frames, "node_sources": sources}
    module["graph"] = {**module["graph"], "nodes": [node], "value_metadata": {"x": {"metadata": {}}}}
    extended = {**tree, "graph_module": module, "producer": "graphwire 1", "requires": []}
    plain = downgrade(extended, CURRENT)
    assert {"stack_frames", "node_sources"}.isdisjoint(plain["graph_module"])
    assert {"producer", "requires"}.isdisjoint(plain)
    assert "value_metadata" not in plain["graph_module"]["graph"]
    (linear,) = plain["graph_module"]["graph"]["nodes"]
    assert {"stack", "from_node", "container"}.isdisjoint(linear)
    text = '  File "a.py", line 3, in forward\n    return f(x)\n  File "b.py", line 7, in f\n'
    assert linear["metadata"]["stack_trace"] == text
    (source,) = json.loads(linear["metadata"]["from_node"])
    assert (source["name"], source["action"], source["from_node"][0]["name"]) == ("new", "create", "old")


def test_a_container_that_torch_has_no_name_for_is_an_obstacle_for_all() -> None:
    def forward(x: torch.Tensor) -> Any:
        return {(1, 2): x.topk(2)}

    module = type("Function", (torch.nn.Module,), {"forward": staticmethod(forward)})()
    program = torch.export.export(module, (torch.ones(3),))
    for target in (f"torch-{[*RELEASES][-1]}", "torch-2.8", "torch-2.1"):
        found = {each.construct.rpartition(": ")[2] for each in graphwire.supports(program, target)}
        assert found >= {"builtins.dict@2", "torch.return_types.topk"}


def test_a_tuple_of_one_kind_is_the_list_that_torch_would_write() -> None:
    tree = documents()["2.13.0", "linear"]
    node = tree["graph_module"]["graph"]["nodes"][0]
    items = {"kind": "tuple", "items": [{"as_int": 1}, {"as_sym_int": {"as_name": "n"}}]}
    odd = {**node, "inputs": [{"name": "odd", "arg": {"as_sequence": items}, "kind": 2}]}
    graph = {**tree["graph_module"]["graph"], "nodes": [odd]}
    plain = downgrade({**tree, "graph_module": {**tree["graph_module"], "graph": graph}}, CURRENT)
    (argument,) = (named["arg"] for named in plain["graph_module"]["graph"]["nodes"][0]["inputs"])
    assert argument == {"as_sym_ints": [{"as_int": 1}, {"as_name": "n"}]}


def test_arguments_by_position_alone_are_read() -> None:
    tree, _ = upgrade(documents()["2.13.0", "ops_activation"])
    for node in tree["graph_module"]["graph"]["nodes"][:1]:
        assert node["inputs"]
    nameless = json.loads(json.dumps(tree))
    for named in nameless["graph_module"]["graph"]["nodes"][0]["inputs"]:
        named["name"] = ""
    program = program_from_tree(nameless)
    payloads = graphwire.to_schema(torch.export.export(Layers(), (torch.ones(2, 3),)))[1]
    loaded = graphwire.from_schema(program, payloads)
    assert loaded.graph_module is not None
