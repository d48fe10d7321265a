"""Inspections as tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterator

from graphwire.analysis.inspection.summary import Inspection, MethodInspection
from graphwire.display import Table


def inspection_tables(inspection: Inspection) -> list[Table]:
    """Return the tables of a file and its programs."""
    facts = [
        ("layout", inspection.layout),
        ("written by", inspection.producer or "unknown"),
        ("size", f"{inspection.size:,} bytes in {len(inspection.records):,} records"),
        ("payloads", f"{inspection.payload_bytes:,} bytes"),
    ]
    methods = [table for method in inspection.methods for table in _method_tables(method)]
    return [*methods, Table("File", facts)]


def _method_tables(method: MethodInspection) -> Iterator[Table]:
    summary, name = method.summary, method.name
    held = summary.parameters
    facts = [
        ("torch", summary.torch_version),
        ("schema", method.report.schema_version),
        ("readable from", f"{method.report.readable_from} on"),
        ("nodes", f"{summary.nodes:,}"),
        ("parameters", f"{held.count:,} tensors, {held.elements:,} elements, {held.bytes:,} bytes"),
        ("requires", ", ".join(summary.features)),
    ]
    interface = [*summary.interface.arguments(), ("→", str(summary.interface.output))]
    yield Table(f"Interface of {name}", interface)
    yield Table(f"Program {name}", [row for row in facts if row[1]])
    sizes = [(each.label, each.name, each.range) for each in summary.symbols]
    yield Table(f"Dynamic sizes of {name}", sizes, ("size", "symbol", "range"))
    modules = [(each.name, each.type, f"{each.nodes:,}", f"{each.elements:,}") for each in summary.modules]
    yield Table(f"Modules of {name}", modules, ("name", "class", "nodes", "parameters"))
    calls = [(operator, f"{count:,}") for operator, count in summary.operators.items()]
    yield Table(f"Operators of {name}", calls, ("operator", "calls"))
