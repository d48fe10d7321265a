"""Format summaries of files, programs and plugins as sections of text."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from graphwire.cli.terminal import Section, size_text
from graphwire.schema import Graph, named_subgraphs_in

if TYPE_CHECKING:
    import argparse

    from graphwire.analysis.load_report import LoadReport
    from graphwire.analysis.summary import Inspection, MethodInspection, ModuleSummary, Summary, TensorSizes
    from graphwire.api.saved_weights import WeightInfo
    from graphwire.errors import Obstacle, Problem
    from graphwire.registry import PluginInfo

MOST_OPERATORS = 20
"""The maximum number of operators to list; JSON output lists all."""
MOST_NAMES = 12
"""The maximum number of names of one kind to list for a plugin; JSON output lists all."""

MOST_ON_A_LINE = 100
"""The maximum length of a result that is printed on one line."""


def inspection_sections(
    inspection: Inspection, details: Mapping[str, Sequence[Section]], extra_files: Sequence[str] = ()
) -> Iterator[Section]:
    """Yield the sections of a file and its programs.

    Args:
        inspection: the summary of the file.
        details: more sections of each program, by its name.
        extra_files: the paths of the extra files.
    """
    facts = [
        ("layout", inspection.layout),
        ("written by", inspection.producer or "unknown"),
        ("size", f"{size_text(inspection.size)} in {count_text(len(inspection.records), 'record')}"),
        ("payloads", size_text(inspection.payload_bytes)),
    ]
    if extra_files:
        facts.append(("extra files", _some(extra_files)))
    yield Section(inspection.file, rows=facts)
    for method in inspection.methods:
        yield from _method_sections(method)
        yield from details.get(method.name, ())


def _method_sections(method: MethodInspection) -> Iterator[Section]:
    summary = method.summary
    yield Section(f"Program {method.name}", rows=list(_facts(method)))
    yield Section("Interface", rows=list(_interface(summary)))
    heads = ("name", "role", "kind", "dtype", "shape", "device", "value")
    for title, values in (("Inputs", summary.inputs), ("Outputs", summary.outputs)):
        rows = [
            (each.name, each.role, each.kind, each.dtype, each.shape, each.device, each.value)
            for each in values
        ]
        yield Section(title, heads, rows)
    sizes = [
        (each.label, "" if each.label == each.name else each.name, each.range) for each in summary.symbols
    ]
    yield Section("Dynamic sizes", ("size", "symbol", "range"), sizes)
    yield _load_section(method.report)
    yield Section("Guards", rows=[(guard,) for guard in summary.guards])
    yield module_section("Modules", summary.modules)
    yield _operator_section(summary)
    yield _group_section(summary)
    yield Section(
        "Metadata of plugins",
        ("key", "values", "plugin"),
        [(each.key, f"{each.values:,}", each.plugin) for each in summary.metadata],
        frozenset({1}),
    )
    for each in summary.metadata:
        yield Section(f"Metadata {each.key}", rows=each.rows)


def _interface(summary: Summary) -> Iterator[tuple[str, str]]:
    yield from summary.interface.arguments()
    output = summary.interface.output
    if output.container and len(str(output)) > MOST_ON_A_LINE:
        yield "→", output.container.removeprefix("builtins.")
        yield from ((f"  {child.name}", str(child)) for child in output.children)
    else:
        yield "→", str(output)


def _load_section(report: LoadReport) -> Section:
    """Return the section of a load report."""
    rows = [("step", each.step, ", ".join(each.nodes)) for each in report.steps]
    rows += [("derived", text, "") for text in report.derived]
    rows += [("absent", text, "") for text in report.absent]
    rows += [("dropped", each.what, each.reason) for each in report.dropped]
    return Section("Changes during load", ("", "what", "nodes or reason"), rows)


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


def _operator_section(summary: Summary) -> Section:
    listed = list(summary.operators.items())
    rows = [(name, f"{count:,}") for name, count in listed[:MOST_OPERATORS]]
    if len(listed) > MOST_OPERATORS:
        rest = sum(count for _, count in listed[MOST_OPERATORS:])
        rows.append((f"({len(listed) - MOST_OPERATORS} others)", f"{rest:,}"))
    return Section("Operators", ("operator", "calls"), rows, frozenset({1}))


def _group_section(summary: Summary) -> Section:
    rows = [
        (
            group.name,
            " or ".join(map(str, group.sizes or filter(None, [group.saved_size]))),
            ", ".join(f"{name} {count:,}" for name, count in group.operators.items()),
        )
        for group in summary.process_groups
    ]
    return Section("Process groups", ("name", "size", "operators and calls"), rows, frozenset({1}))


def _facts(method: MethodInspection) -> Iterator[tuple[str, str]]:
    summary = method.summary
    stored = (
        f", {size_text(method.stored_bytes)} stored" if method.stored_bytes != method.program_bytes else ""
    )
    yield "format", f"{method.format}, {size_text(method.program_bytes)}{stored}"
    yield "torch", summary.torch_version
    report = method.report
    read_as = f", read as {summary.schema_version}" if report.schema_version != summary.schema_version else ""
    yield "schema", report.schema_version + read_as
    yield "readable from", f"{report.readable_from} on"
    yield (
        "opsets",
        ", ".join(f"{namespace} {version}" for namespace, version in summary.opset_versions.items()),
    )
    if summary.dialects:
        yield "dialects", ", ".join(summary.dialects)
    inside = f" in {count_text(summary.subgraphs + 1, 'graph')}" if summary.subgraphs else ""
    operators = count_text(len(summary.operators), "operator")
    yield (
        "nodes",
        f"{count_text(summary.nodes, 'node')}{inside}, {operators}, {count_text(summary.values, 'value')}",
    )
    for label, held in (
        ("parameters", summary.parameters),
        ("buffers", summary.buffers),
        ("constants", summary.constants),
    ):
        if held.count:
            yield label, _holding_text(held)
    if summary.features:
        yield "requires", ", ".join(summary.features)
    for plugin in summary.plugins:
        yield "plugin", f"{plugin.distribution} {plugin.version}: {', '.join(plugin.provides)}"


def _holding_text(held: TensorSizes) -> str:
    return (
        f"{count_text(held.count, 'tensor')}, {count_text(held.elements, 'element')}, {size_text(held.bytes)}"
    )


def count_text(number: int, noun: str) -> str:
    """Return a number and a noun, such as `1 file` or `2 files`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def module_section(title: str, modules: Iterable[ModuleSummary]) -> Section:
    """Return the section of submodules, with the numbers of their nodes and of the elements of their parameters."""
    rows = [(each.name, each.type, f"{each.nodes:,}", f"{each.elements:,}") for each in modules]
    return Section(title, ("name", "class", "nodes", "parameters"), rows, frozenset({2, 3}))


_ORDERS: dict[str, Callable[[WeightInfo], Any]] = {
    "size": lambda weight: -weight.nbytes,
    "name": lambda weight: weight.name,
    "dtype": lambda weight: (weight.dtype, -weight.nbytes),
}
"""What weights are sorted by, for each choice of `--sort`. Equal ones keep their order in the program."""


class WeightList(NamedTuple):
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


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def _steps(names: Sequence[str]) -> list[str]:
    """Return the steps `NAMESPACE OLD->NEW` of upgrader names, each with its number of operators."""
    counts = Counter(" ".join(name.split()[:2]) for name in names if len(name.split()) > 2)
    steps = dict.fromkeys(" ".join(name.split()[:2]) for name in names)
    return [f"{step} ({count_text(counts[step], 'operator')})" if counts[step] else step for step in steps]


def plugin_sections(plugins: Sequence[PluginInfo]) -> Iterator[Section]:
    """Yield the sections of the installed plugins, and of the reasons why some are inactive."""
    from graphwire.registry import REMEDY_OF_HEAVY

    rows = [
        (
            plugin.name,
            f"{plugin.distribution} {plugin.version}".strip(),
            plugin.status,
            f"{plugin.load_seconds * 1000:.1f}",
            "; ".join(
                f"{kind.replace('_', ' ')} {_some(_steps(names) if kind == 'opset_upgrader' else names)}"
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
