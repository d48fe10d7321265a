"""A file and its programs as sections of facts and tables, which `graphwire inspect` prints and notebooks show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from graphwire.display import Section, size_text
from graphwire.errors import count_text

if TYPE_CHECKING:
    from graphwire.analysis.load_report import LoadReport
    from graphwire.analysis.summary import Inspection, MethodInspection, ModuleSummary, Summary, TensorSizes

_MOST_OPERATORS = 20
"""The maximum number of operators to list; JSON output lists all."""
_MOST_ON_A_LINE = 100
"""The maximum length of a result that is printed on one line."""
_MOST_NAMES = 12


def some_names(names: Sequence[str]) -> str:
    """Return the first names of a list, and how many more there are."""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def inspection_sections(
    inspection: Inspection,
    details: Mapping[str, Sequence[Section]] = MappingProxyType({}),
    extra_files: Sequence[str] = (),
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
        facts.append(("extra files", some_names(extra_files)))
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
    if output.container and len(str(output)) > _MOST_ON_A_LINE:
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


def _operator_section(summary: Summary) -> Section:
    listed = list(summary.operators.items())
    rows = [(name, f"{count:,}") for name, count in listed[:_MOST_OPERATORS]]
    if len(listed) > _MOST_OPERATORS:
        rest = sum(count for _, count in listed[_MOST_OPERATORS:])
        rows.append((f"({len(listed) - _MOST_OPERATORS} others)", f"{rest:,}"))
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


def module_section(title: str, modules: Iterable[ModuleSummary]) -> Section:
    """Return the section of submodules, with the numbers of their nodes and of the elements of their parameters."""
    rows = [(each.name, each.type, f"{each.nodes:,}", f"{each.elements:,}") for each in modules]
    return Section(title, ("name", "class", "nodes", "parameters"), rows, frozenset({2, 3}))
