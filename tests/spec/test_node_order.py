"""docs/spec/restoration.md: a reader of the text alone restores torch's nodes, names and order."""

from __future__ import annotations

import json
import operator
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from inside.schema import to_tree
from small_programs import shared_example
from torch.export import ExportedProgram, export

import graphwire

Record = dict[str, Any]


def restored(graph: Record, literals: Sequence[str | None]) -> list[str]:
    """Return the names of torch's nodes, without the output, by the rules GRA-54 to GRA-58."""
    given, order = graph.get("input_names") or literals, list[str]()
    for index, argument in enumerate(graph["inputs"]):
        named = given[index] if index < len(given) else None
        order.append(name_of(argument) or named or f"arg{index}")
    for node in graph["nodes"]:
        for named in node["inputs"]:
            order += [each for each in attributes(named["arg"]) if each not in order]
        order.append(node["name"])
        bare = len(node["outputs"]) == 1 and node.get("is_hop_single_tensor_return") is not False
        results = elements(node["outputs"][0]) if bare else node["outputs"]
        order += readers(graph, results or [], f"{node['name']}_unused", node["name"])
    copies = graph.get("copies", {})
    for name, copy in copies.items():
        place = order.index(copy["of"]) + 1
        while place < len(order) and copies.get(order[place], {}).get("of") == copy["of"]:
            place += 1
        order.insert(place, name)
    for name, behind in graph.get("placed", {}).items():
        if name in order and (not behind or behind in order):
            order.remove(name)
            order.insert(order.index(behind) + 1 if behind else 0, name)
    return order


def readers(graph: Record, results: list[Record], stem: str, path: str) -> Iterator[str]:
    metadata = graph.get("value_metadata", {})
    for index, result in enumerate(results):
        inner, own = elements(result), metadata.get(f"{path}[{index}]", {}).get("name")
        if inner is not None:
            if own:
                yield own
                yield from readers(graph, inner, f"{own}_unused", f"{path}[{index}]")
        elif (name := name_of(result)) is None:
            yield from [own] if own else []
        elif name != f"{stem}_{index}" or name in metadata:
            yield name


def name_of(argument: Record) -> str | None:
    ((_, held),) = argument.items()
    return (held.get("as_name") or held.get("name")) if isinstance(held, dict) else None


def elements(argument: Record) -> list[Record] | None:
    ((variant, held),) = argument.items()
    if variant in ("as_tensors", "as_sym_ints", "as_sym_floats"):
        return [{variant.removesuffix("s"): each} for each in held]
    if variant in ("as_sequence", "as_mapping"):
        return held["items"] if variant == "as_sequence" else [each["value"] for each in held]
    return list(held.values()) if variant == "as_string_to_argument" else None


def attributes(argument: Record) -> Iterator[str]:
    ((variant, held),) = argument.items()
    if variant in ("as_graph", "as_treespec"):
        yield held.get("node") or held["name"]
    elif variant == "as_constant":
        yield held["node"] if isinstance(held, dict) else held.partition(".")[2].replace(".", "_")
    else:
        for each in elements(argument) or ():
            yield from attributes(each) if len(each) == 1 else ()


class _Several(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        values, indices = torch.topk(x, 2)
        chosen = torch.cond(x.sum() > 0, lambda t: (t + 1,), lambda t: (t - 1,), (x,))
        first, last = x.split(2)
        return values + indices, chosen[0] * 2, first, last, values


def edited() -> ExportedProgram:
    """A program in which passes duplicated readers and moved nodes that documents do not contain."""
    program = export(_Several(), (torch.ones(4, 4),))
    graph = program.graph
    reading = [node for node in graph.nodes if node.target is operator.getitem]
    output = graph.output_node()
    for anchor in (reading[1], output.prev):
        with graph.inserting_after(anchor):
            copy = graph.call_function(operator.getitem, reading[0].args, {})
            copy.meta = dict(reading[0].meta)
    addition = next(node for node in graph.nodes if str(node.target) == "aten.add.Tensor")
    addition.args = (reading[1].next, addition.args[1])
    next(iter(graph.nodes)).append(next(node for node in graph.nodes if node.op == "get_attr"))
    output.prepend(reading[-1])
    graph.lint()
    return program


@pytest.mark.parametrize("name", ["edited", "multiple_outputs", "map_and_scan", "inputs_of_every_kind"])
def test_nodes_that_are_not_written_are_restored_by_the_text(name: str, tmp_path: Path) -> None:
    program = edited() if name == "edited" else shared_example(name).program
    graphwire.save(program, tmp_path / "program.pt2")
    with graphwire.open(tmp_path / "program.pt2") as archive:
        document = json.loads(json.dumps(to_tree(archive.program_of(archive.method(None)))))
    graph, signature = document["graph_module"]["graph"], document["graph_module"]["signature"]
    assert (name == "edited") == ("copies" in graph and "placed" in graph)
    specs = [spec.get("constant_input") or spec.get("user_input") or {} for spec in signature["input_specs"]]
    names = [node.name for node in program.graph.nodes if node.op != "output"]
    assert restored(graph, [spec.get("name") for spec in specs]) == names
