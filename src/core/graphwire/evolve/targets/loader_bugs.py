"""Reports constructs on which the loader of a single release fails, although its schema and its neighbours support them."""

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
    """Report the constructs in a document of `version` on which that version's loader fails."""
    fault = _FAULTS.get(version)
    if fault is not None:
        rewrite(tree, Edits(graph=lambda graph, where: fault(graph, where, report)))
    if version == Version(2):
        rewrite(tree, Edits(input_spec=lambda spec, where: _constant_of_submodule(spec, where, report)))


def _unbacked_beside_subgraph(graph: Record, where: Where, report: Report) -> Record:
    """Report a subgraph beside unbacked symbols: 2.7 asserts at its beginning that no such symbol waits for its node."""
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
    """Report a constant of a submodule: 2.2 registers a constant as an attribute of the module, and such names have no dots."""
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
