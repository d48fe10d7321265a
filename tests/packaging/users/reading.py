"""A program of a user who has files and no torch: every function for files, and what they return."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Unpack

import graphwire
from graphwire import Payloads, PickleLimits, errors
from graphwire.hooks import Limits, NodeEditor, PluginInfo, Registry, Tree
from graphwire.schema import Argument, Graph, InputSpec, Node, Program, RangeConstraint, TensorMeta


def summary(file: Path, **options: Unpack[graphwire.OpenOptions]) -> str:
    inspection: graphwire.Inspection = graphwire.inspect(file, **options)
    sizes: list[int] = [method.summary.nodes for method in inspection.methods]
    return f"{inspection.layout} {sum(sizes)}"


def shapes(program: Program) -> dict[str, TensorMeta]:
    graph: Graph = program.graph_module.graph
    nodes: Sequence[Node] = graph.nodes
    names = [node.target for node in nodes]
    inputs: Sequence[Argument] = graph.inputs
    specs: Sequence[InputSpec] = program.graph_module.signature.input_specs
    ranges: Mapping[str, RangeConstraint] = program.range_constraints
    print(len(names), len(inputs), len(specs), len(ranges))
    return {name: meta for name, meta in graph.tensor_values.items() if meta.sizes}


def first_weight(archive: graphwire.Archive) -> int:
    payloads: Payloads = archive.payloads
    weight = payloads["linear.weight"]
    return weight.nbytes


def problems(files: Sequence[Path]) -> list[graphwire.Problem]:
    found: list[graphwire.Problem] = []
    limits = Limits(tree_nodes=10_000, pickle=PickleLimits(values=1_000))
    for file in files:
        try:
            found += graphwire.verify(file, limits=limits)
        except errors.LimitError as error:
            print(error.file, error.place, error.remedy)
        except errors.ValidationError as error:
            found += error.problems
    return found


def main(argv: Sequence[str]) -> int:
    files = [Path(name) for name in argv]
    registry: Registry = graphwire.Registry.discover()
    infos: tuple[PluginInfo, ...] = graphwire.plugins()
    print([info.name for info in infos])
    for file in files:
        print(summary(file, registry=registry))
        with graphwire.open(file) as archive:
            print(first_weight(archive), shapes(archive.program))
            print(archive.methods, archive.read_extra("labels.txt").decode())
            canonical: Program = graphwire.canonicalize(archive)
            document: bytes = graphwire.encode(canonical, format="cbor")
            again: Program = graphwire.decode(document)
        difference: graphwire.Diff = graphwire.diff(again, file)
        text: str = graphwire.content_hash(file, weights=True)
        print(difference.same, str(difference), text)
        plan: dict[str, graphwire.Plan] = graphwire.plan_upgrade(file)
        done: dict[str, graphwire.Plan] = graphwire.upgrade(file, file.with_suffix(".new"))
        print(plan, done)
        graphwire.convert(
            file, file.with_suffix(".cbor"), format="cbor", strip=["stack_traces"], report=print
        )
        for name, obstacles in graphwire.targets(file).items():
            print(name, [obstacle.first for obstacle in obstacles])
        infos_of_weights: list[graphwire.WeightInfo] = graphwire.weights(file)
        print([info.name for info in infos_of_weights])
        page: graphwire.View = graphwire.view(file)
        page.save(file.with_suffix(".html"))
    tree: Tree = {"a": [1, None, b""]}
    print(tree, NodeEditor)
    return len(problems(files))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
