"""The facts about one file that a page shows: its inspection, problems, targets, and the costs of its nodes."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import msgspec

from graphwire.analysis.inspection import bytes_of_nodes
from graphwire.api.archive import Archive
from graphwire.api.viewing.sources import Shown
from graphwire.api.viewing.weight_facts import listed_weights
from graphwire.errors import Obstacle
from graphwire.evolve.targets import obstacles_by_target
from graphwire.hooks import Registry
from graphwire.schema import Program
from graphwire.schema.trees import to_tree
from graphwire.viewer import FileFacts, MethodCosts, MethodFacts, NodeCost, ProblemFact, TargetFact

_SIZES = "at the sizes of the example inputs; the nodes of a subgraph count once"
_MOST_OBSTACLES = 3


def facts_of(shown: Shown, *, targets: bool, use_torch: bool) -> FileFacts:
    """Return the facts about one file, without those about the elements of its weights.

    Args:
        targets: whether to list the releases of torch that the programs can be written for.
        use_torch: whether to import torch, if it is installed, for schemas of operators and counts of operations.
    """
    archive = shown.archive
    has_torch = use_torch and find_spec("torch") is not None
    return FileFacts(
        name=shown.name,
        inspection=None if archive is None else _inspection(archive),
        problems=None if archive is None else _problems(archive),
        targets=_targets(shown) if targets else None,
        methods={
            name: _method(program, shown.registry, has_torch) for name, (program, _) in shown.programs.items()
        },
        weights=listed_weights(shown),
    )


def _inspection(archive: Archive) -> dict[str, Any]:
    tree: dict[str, Any] = msgspec.to_builtins(archive.inspect())
    tree["records"] = len(tree["records"])
    for method in tree["methods"]:
        del method["summary"]
    return tree


def _problems(archive: Archive) -> list[ProblemFact]:
    return [ProblemFact(each.kind, each.place, each.message) for each in archive.problems(payloads=False)]


def _targets(shown: Shown) -> list[TargetFact]:
    found: dict[str, list[Obstacle]] = {}
    for program, _ in shown.programs.values():
        for target, obstacles in obstacles_by_target(to_tree(program)).items():
            if target.startswith("torch-"):
                found.setdefault(target, []).extend(obstacles)
    return [TargetFact(target, not each, _why_not(each)) for target, each in found.items()]


def _why_not(obstacles: list[Obstacle]) -> str:
    texts = list(
        dict.fromkeys(
            f"{each.construct} ({each.node})" if each.node else each.construct for each in obstacles
        )
    )
    more = f" and {len(texts) - _MOST_OBSTACLES} more" if len(texts) > _MOST_OBSTACLES else ""
    return "; ".join(texts[:_MOST_OBSTACLES]) + more


def _method(program: Program, registry: Registry, has_torch: bool) -> MethodFacts:
    sizes = bytes_of_nodes(program)
    if not has_torch:
        nodes = {name: NodeCost(size) for name, size in sizes.items()}
        return MethodFacts(
            MethodCosts(f"graphwire, {_SIZES}; without torch, operations are not counted", nodes)
        )
    from graphwire.bridge.program import operator_facts

    facts = operator_facts(program, registry)
    nodes = {name: NodeCost(size, facts.flops.get(name)) for name, size in sizes.items()}
    return MethodFacts(MethodCosts(f"{facts.source}, {_SIZES}", nodes), facts.schemas)
