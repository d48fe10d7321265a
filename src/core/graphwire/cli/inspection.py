"""Format the weights and nodes of programs, targets, problems and plugins as sections of text."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from graphwire.analysis.inspection_text import some_names
from graphwire.display import Section, size_text
from graphwire.errors import count_text
from graphwire.schema import Graph, named_subgraphs_in

if TYPE_CHECKING:
    import argparse

    from graphwire.api.saved_weights import WeightInfo
    from graphwire.errors import Obstacle, Problem
    from graphwire.registry.discovery import PluginInfo

_TARGET_GROUPS = {"release": "Releases of torch", "schema": "Schemas", "draft": "Drafts of the schema"}
"""The headings of the groups of targets, in the order of the sections."""


def target_sections(targets: Mapping[str, Sequence[Obstacle]], name: str = "") -> Iterator[Section]:
    """Yield a section of each group of targets: whether a program can be written for them, and the obstacles.

    Args:
        name: the program, if the titles name it. A single target has it as its title.
    """
    from graphwire.evolve.targets import target_named

    heads = ("target", "writable", "node", "obstacle", "supported from")
    groups: dict[str, list[tuple[str, str, str, str, str]]] = {group: [] for group in _TARGET_GROUPS}
    for target, obstacles in targets.items():
        rows = groups[target_named(target).group]
        if not obstacles:
            rows.append((target, "yes", "", "", ""))
        rows += [
            (target if not index else "", "no" if not index else "", each.node, each.construct, each.first)
            for index, each in enumerate(obstacles)
        ]
    for group, rows in groups.items():
        title = name if len(targets) == 1 else ": ".join(filter(None, (name, _TARGET_GROUPS[group])))
        yield Section(title, heads, rows)


_ORDERS: dict[str, Callable[[WeightInfo], Any]] = {
    "size": lambda weight: -weight.nbytes,
    "name": lambda weight: weight.name,
    "dtype": lambda weight: (weight.dtype, -weight.nbytes),
}
"""What weights are sorted by, for each choice of `--sort`. Equal ones keep their order in the program."""


class WeightList(msgspec.Struct, frozen=True):
    """The weights that a command shows, and the others, which it counts."""

    shown: Sequence[WeightInfo]
    more: Sequence[WeightInfo] = ()

    def more_tree(self) -> dict[str, int]:
        """Return the count of the weights that are not shown, and their bytes, as JSON has them."""
        return {"count": len(self.more), "nbytes": sum(each.nbytes for each in self.more)}

    def section(self) -> Section:
        """Return the weights as a table. The bytes of each are those of its elements, as they are stored."""
        rows: list[tuple[str, ...]] = [
            (each.name, each.dtype, str(each.shape), size_text(each.nbytes), each.tied_to, each.place)
            for each in self.shown
        ]
        if self.more:
            more = self.more_tree()
            rows.append((f"… and {more['count']:,} more, {size_text(more['nbytes'])}",))
        return Section("Weights", ("name", "type", "shape", "size", "tied to", "where"), rows, frozenset({3}))


def selected(weights: Sequence[WeightInfo], arguments: argparse.Namespace) -> WeightList:
    """Return the weights that `--sort` and `--top` choose, in their order."""
    order = arguments.sort or ("size" if arguments.top is not None else None)
    found = weights if order is None else sorted(weights, key=_ORDERS[order])
    count = len(found) if arguments.top is None else arguments.top
    return WeightList(found[:count], found[count:])


def node_section(nodes: Iterable[NodeText]) -> Section:
    """Return the section of the nodes."""
    rows = [(each.graph, str(each.index), each.target, each.inputs, each.outputs) for each in nodes]
    return Section("Nodes", ("graph", "index", "operator", "inputs", "outputs"), rows, frozenset({1}))


def problem_section(file: str, problems: Sequence[Problem]) -> Section:
    """Return the section of the problems of a file."""
    title = f"{file}: {count_text(len(problems), 'problem')}"
    return Section(title, ("place", "kind", "problem"), problems)


def _steps(names: Sequence[str]) -> list[str]:
    """Return the steps `NAMESPACE OLD->NEW` of upgrader names, each with its number of operators."""
    counts = Counter(" ".join(name.split()[:2]) for name in names if len(name.split()) > 2)
    steps = dict.fromkeys(" ".join(name.split()[:2]) for name in names)
    return [f"{step} ({count_text(counts[step], 'operator')})" if counts[step] else step for step in steps]


def plugin_sections(plugins: Sequence[PluginInfo]) -> Iterator[Section]:
    """Yield the sections of the installed plugins, and of the reasons why some are inactive."""
    from graphwire.registry.discovery import REMEDY_OF_HEAVY

    rows = [
        (
            plugin.name,
            f"{plugin.distribution} {plugin.version}".strip(),
            plugin.status,
            f"{plugin.load_seconds * 1000:.1f}",
            "; ".join(
                f"{kind.replace('_', ' ')} {some_names(_steps(names) if kind == 'opset_upgrader' else names)}"
                for kind, names in plugin.names.items()
                if names
            ),
        )
        for plugin in plugins
    ]
    title = count_text(len(plugins), "plugin")
    yield Section(title, ("name", "distribution", "status", "ms", "provides"), rows, frozenset({3}))
    reasons = [(plugin.name, plugin.reason) for plugin in plugins if plugin.reason]
    yield Section("Not active, or not completely", ("name", "reason"), reasons)
    slow = [(plugin.name, f"{plugin.heavy}. {REMEDY_OF_HEAVY}") for plugin in plugins if plugin.heavy]
    yield Section("Slow: each start of graphwire waits for them", ("name", "reason"), slow)
    ignored = [(plugin.name, plugin.ignored) for plugin in plugins if plugin.ignored]
    yield Section("Stated in vain", ("name", "reason"), ignored)


# ------------------------------------------------------------------ format the nodes of a program as text, one per line


class NodeText(msgspec.Struct, frozen=True):
    """The texts of one node."""

    graph: str
    """The names of its enclosing subgraphs, joined by slashes; empty in the top-level graph."""
    index: int
    target: str
    inputs: str
    outputs: str


def node_texts(graph: Graph) -> Iterator[NodeText]:
    """Yield the nodes of a graph, and after each graph those of its subgraphs."""
    from graphwire.analysis.diff.facts import argument_text

    pending = deque([("", graph)])
    while pending:
        place, current = pending.popleft()
        for index, node in enumerate(current.nodes):
            for named in node.inputs:
                for held in named_subgraphs_in(named.arg):
                    pending.append((f"{place}/{held.name}" if place else held.name, held.graph))
            inputs = [
                f"{each.name}={argument_text(each.arg)}" if each.name else argument_text(each.arg)
                for each in node.inputs
            ]
            outputs = [argument_text(output) for output in node.outputs]
            yield NodeText(place, index, node.target, ", ".join(inputs), ", ".join(outputs))
