"""Reports constructs on which the loader of a single release fails, although its schema and its neighbours support them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from graphwire.evolve.documents import (
    Edits,
    Record,
    Refuse,
    Report,
    Version,
    Where,
    arm_of,
    refusing,
    report_unmet_symbols,
    rewrite,
)

_Check: TypeAlias = Callable[[Refuse, Record, Where], None]


def report_loader_bugs(tree: Record, version: Version, report: Report) -> None:
    """Report the constructs in a document of `version` on which that version's loader fails."""
    if version in _FAULTS:
        first, checks = _FAULTS[version]
        refuse = refusing(report, first)
        rewrite(tree, Edits(**{kind: partial(check, refuse) for kind, check in checks.items()}))


def _unbacked_beside_subgraph(refuse: Refuse, graph: Record, where: Where) -> None:
    """Report a subgraph beside unbacked symbols: 2.7 asserts at its beginning that no such symbol waits for its node."""
    values = [*graph["sym_int_values"].values(), *graph["sym_bool_values"].values()]
    texts = [value["as_expr"]["expr_str"] for value in values if value.get("as_expr") is not None]
    if any("Symbol('u" in text for text in texts):
        for index, node in enumerate(graph["nodes"]):
            if any(arm_of(named["arg"]) == "as_graph" for named in node["inputs"]):
                place = where.at(f".nodes[{index}]")
                refuse(place, "a subgraph in a graph with unbacked symbols, on which 2.7 alone fails")
                break


def _constant_of_submodule(refuse: Refuse, spec: Record, where: Where) -> None:
    """Report a constant of a submodule: 2.2 registers a constant as an attribute of the module, and such names have no dots."""
    name = (spec.get("tensor_constant") or {}).get("tensor_constant_name", "")
    if "." in name:
        refuse(where, f"a constant of a submodule ({name}), on which 2.2 alone fails")


_FAULTS: Final[dict[Version, tuple[str, dict[str, _Check]]]] = {
    Version(1): ("torch-2.3", {"graph": report_unmet_symbols}),
    Version(2): ("torch-2.3", {"graph": report_unmet_symbols, "input_spec": _constant_of_submodule}),
    Version(8, 7): ("torch-2.8", {"graph": _unbacked_beside_subgraph}),
}
"""The first target without the fault, and the check of each kind of record, by the version whose loader has the fault."""
