"""A diff as readable text: a sign for each entry (`+` added, `-` removed, `~` changed, `>` moved), nodes grouped by module."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from graphwire.analysis.diff.nodes import Detail, NodeChange
from graphwire.analysis.diff.program_diff import Change, Diff

_SIGNS = {"added": "+", "removed": "-", "changed": "~", "moved": ">"}


def diff_lines(found: Diff, *, a: str = "A", b: str = "B", limit: int | None = 200) -> Iterator[str]:
    """Yield the lines of a diff's text.

    Args:
        a: the name to show for side A, such as its file.
        b: the name to show for side B.
        limit: the largest number of nodes to list; None lists all.
    """
    if found.same:
        yield f"{a} and {b} are the same ({found.hash_a[:16]}, {_count(found.nodes_a, 'node')})"
        return
    yield f"--- {a} ({found.hash_a[:16]}, {_count(found.nodes_a, 'node')})"
    yield f"+++ {b} ({found.hash_b[:16]}, {_count(found.nodes_b, 'node')})"
    inputs = {change.name.rpartition(" ")[2]: change for change in found.changes if change.section == "input"}
    for section, group in groupby(found.changes, key=lambda change: change.section):
        changes = list(group)
        shown = [change for change in changes if not _is_shown_as_input(change, inputs.get(change.name))]
        yield ""
        yield f"{section[:1].upper()}{section[1:]}s"
        for change in shown:
            yield from _change_lines(change)
        if len(shown) < len(changes):
            yield f"  {len(changes) - len(shown):,}{' more' if shown else ''}, as under Inputs"
    yield from _node_lines(found, limit)


def _is_shown_as_input(change: Change, of_input: Change | None) -> bool:
    """Return whether the change of the corresponding input already shows all details of a weight's or constant's change."""
    return (
        of_input is not None
        and change.section in ("weight", "constant")
        and change.change == of_input.change
        and set(_shown(change)) <= set(_shown(of_input))
    )


def _shown(change: Change) -> list[Detail]:
    return [detail for detail in change.details if change.change == "changed" or detail.what in _TELLING]


def _change_lines(change: Change) -> Iterator[str]:
    shown = _shown(change)
    yield f"  {_SIGNS[change.change]} {change.name}{_inline(change.change, shown)}"
    if change.change == "changed":
        yield from _detail_lines(shown, "      ")


_TELLING = frozenset({"dtype", "shape", "range", "version", "value", "codec"})
"""The facts to show about an entry that only one side has."""


def _inline(change: str, details: Sequence[Detail]) -> str:
    if change == "changed" or not details:
        return ""
    return f" ({', '.join(f'{detail.what} {detail.a or detail.b}' for detail in details)})"


def _node_lines(found: Diff, limit: int | None) -> Iterator[str]:
    own = [change for change in found.nodes if not change.derived]
    derived = len(found.nodes) - len(own)
    if own:
        counts = (
            (sum(change.change == kind for change in own), kind)
            for kind in ("added", "removed", "changed", "moved")
        )
        yield ""
        yield f"Nodes: {', '.join(f'{count} {kind}' for count, kind in counts if count)}"
    for (graph, module), changes in groupby(own[:limit], key=lambda change: (change.graph, change.module)):
        yield f"  {module or '(root)'}{f' in {graph}' if graph else ''}"
        for change in changes:
            operator = change.operator.removeprefix("torch.ops.")
            yield f"    {_SIGNS[change.change]} {operator} {change.name}{_place(change)}"
            yield from _detail_lines(change.details, "        ")
    if limit is not None and len(own) > limit:
        yield f"  … and {_count(len(own) - limit, 'more node')}"
    if derived:
        yield ""
        yield f"{_count(derived, 'node')} with other results only because of other inputs"


def _place(change: NodeChange) -> str:
    before, after = change.index_a, change.index_b
    if before is None or after is None:
        return f" (node {after if before is None else before})"
    return f" (node {before})" if before == after else f" (node {before} → {after})"


def _detail_lines(details: Sequence[Detail], indent: str) -> Iterator[str]:
    for detail in details:
        absent = "(contiguous)" if detail.what.endswith("strides") else "(none)"
        yield f"{indent}{detail.what}: {detail.a or absent} → {detail.b or absent}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
