"""What the loader of one release cannot read though its schema says it, and the releases before and after read it."""

from __future__ import annotations

from collections.abc import Callable

from graphwire.evolve.documents import (
    Edits,
    Record,
    Report,
    Version,
    Where,
    arm_of,
    report_unmet_symbols,
    rewrite,
)


def report_loader_bugs(tree: Record, version: Version, report: Report) -> None:
    """Report what the loader of `version` fails on in a document of that version."""
    fault = _FAULTS.get(version)
    if fault is not None:
        rewrite(tree, Edits(graph=lambda graph, where: fault(graph, where, report)))
    if version == Version(2):
        rewrite(tree, Edits(input_spec=lambda spec, where: _constant_of_submodule(spec, where, report)))


def _unbacked_beside_subgraph(graph: Record, where: Where, report: Report) -> Record:
    """2.7 asserts, when it begins a subgraph, that no symbol without backing is waiting for the node that makes it."""
    values = [*graph["sym_int_values"].values(), *graph["sym_bool_values"].values()]
    texts = [value["as_expr"]["expr_str"] for value in values if value.get("as_expr") is not None]
    if not any("Symbol('u" in text for text in texts):
        return graph
    for index, node in enumerate(graph["nodes"]):
        if any(arm_of(named["arg"]) == "as_graph" for named in node["inputs"]):
            construct = "a subgraph in a graph with unbacked symbols, on which 2.7 alone fails"
            report(where.at(f".nodes[{index}]").obstacle(construct, "torch-2.8"))
            break
    return graph


def _constant_of_submodule(spec: Record, where: Where, report: Report) -> Record:
    """2.2 registers a constant with the module as one of its attributes, whose names have no dots."""
    constant = spec.get("tensor_constant")
    if constant is not None and "." in constant["tensor_constant_name"]:
        construct = (
            f"a constant of a submodule ({constant['tensor_constant_name']}), on which 2.2 alone fails"
        )
        report(where.obstacle(construct, "torch-2.3"))
    return spec


_FAULTS: dict[Version, Callable[[Record, Where, Report], Record]] = {
    Version(1): report_unmet_symbols,
    Version(2): report_unmet_symbols,
    Version(8, 7): _unbacked_beside_subgraph,
}
