"""A diff as readable text: a sign for each entry (`+` added, `-` removed, `~` changed, `>` moved), nodes grouped by module."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

import msgspec

from graphwire.analysis.diff.nodes import Detail, NodeChange
from graphwire.analysis.diff.program_diff import Change, Diff
from graphwire.analysis.diff.weights import ElementChange, compared_text
from graphwire.errors import count_text

_SIGNS = {"added": "+", "removed": "-", "changed": "~", "moved": ">"}


def diff_lines(found: Diff, *, a: str = "A", b: str = "B", limit: int | None = 200) -> Iterator[str]:
    """Yield the lines of a diff's text.

    Args:
        a: the name to show for side A, such as its file.
        b: the name to show for side B.
        limit: the largest number of nodes to list; None lists all.
    """
    if found.same:
        hashes = " and ".join(dict.fromkeys((found.hash_a[:16], found.hash_b[:16])))
        yield f"{a} and {b} are the same ({hashes}, {count_text(found.nodes_a, 'node')}): {_compared(found)}"
        yield from _not_held_lines(found)
        return
    yield from _title_lines(found, a, b)
    yield f"Compared: {_compared(found)}"
    yield from _difference_lines(found, limit)


def _title_lines(found: Diff, a: str, b: str) -> Iterator[str]:
    yield f"--- {a} ({found.hash_a[:16]}, {count_text(found.nodes_a, 'node')})"
    yield f"+++ {b} ({found.hash_b[:16]}, {count_text(found.nodes_b, 'node')})"


def _difference_lines(found: Diff, limit: int | None) -> Iterator[str]:
    inputs = {
        (change.change, change.name.rpartition(" ")[2]): change
        for change in found.changes
        if change.section == "input"
    }
    for section, group in groupby(found.changes, key=lambda change: change.section):
        changes = list(group)
        shown = [
            change
            for change in changes
            if not _is_shown_as_input(change, inputs.get((change.change, change.name)))
        ]
        yield ""
        yield f"{section[:1].upper()}{section[1:]}s"
        for change in shown:
            yield from _change_lines(change, _measured(found, change))
        if len(shown) < len(changes):
            yield f"  {len(changes) - len(shown):,}{' more' if shown else ''}, as under Inputs"
    yield from _node_lines(found, limit)
    yield from _not_held_lines(found)


def _not_held_lines(found: Diff) -> Iterator[str]:
    if not found.not_held:
        return
    yield ""
    yield f"Not held by {found.holder}, and no difference"
    for change in found.not_held:
        yield from _change_lines(msgspec.structs.replace(change, name=f"{change.section} {change.name}"))


def _compared(found: Diff, quoted: Callable[[str], str] = str) -> str:
    """Return what was compared."""
    graph = "same graph" if found.same else "graph"
    held = f", as far as {found.holder} holds it" if found.not_held else ""
    return f"{graph}{held}; {compared_text(found.compared, quoted)}"


def _measured(found: Diff, change: Change) -> ElementChange | None:
    """Return how much the elements of a weight differ; None if they were not read."""
    compared = found.compared.get(change.section)
    return None if compared is None else compared.differ.get(change.name)


_MARKS = {"+": "+", "-": "-", "~": "!", ">": "!"}
"""How each sign begins a line of Markdown's `diff` blocks, which colour lines by their first character."""


def markdown_lines(found: Diff, *, a: str = "A", b: str = "B", limit: int | None = 200) -> Iterator[str]:
    """Yield the lines of a diff as Markdown, such as for a comment on a pull request.

    Args:
        found: the differences.
        a: the name to show for side A.
        b: the name to show for side B.
        limit: the largest number of nodes to list; None lists all.
    """
    if found.same:
        yield f"**No differences** between {_code(a)} and {_code(b)}: {_compared(found, _code)}."
        if not found.not_held:
            return
        yield ""
        yield from _folded(list(_not_held_lines(found))[1:])
        return
    own = [change for change in found.nodes if not change.derived]
    counts = [count_text(len(own), "changed node")] if own else []
    counts += [
        f"{count_text(len(list(group)), 'difference')} in {kind}s"
        for kind, group in groupby(found.changes, key=lambda each: each.section)
    ]
    yield f"**{_code(a)} → {_code(b)}**: {', '.join(counts)}"
    yield ""
    yield f"Compared: {_compared(found, _code)}."
    yield ""
    yield from _folded([*_title_lines(found, a, b), *_difference_lines(found, limit)])


def program_lines(
    removed: Sequence[str], added: Sequence[str], *, a: str, b: str, markdown: bool
) -> Iterator[str]:
    """Yield lines on programs that only one of two files has; none if there are none.

    Args:
        removed: the names of the programs of A only.
        added: the names of those of B only.
        a: the name to show for file A.
        b: the name to show for file B.
        markdown: whether the lines are Markdown.
    """
    if not removed and not added:
        return
    if markdown:
        yield f"**{_code(a)} → {_code(b)}**: other programs"
        yield ""
        yield from (f"- {_code(name)} is removed" for name in removed)
        yield from (f"- {_code(name)} is new" for name in added)
    else:
        yield f"--- {a}"
        yield f"+++ {b}"
        yield from (f"- program {name}" for name in removed)
        yield from (f"+ program {name}" for name in added)


def _folded(lines: list[str]) -> Iterator[str]:
    """Yield lines as a block that is folded until somebody opens it."""
    yield "<details><summary>Differences</summary>"
    yield ""
    marked = [_marked(line) for line in lines]
    fence = "`" * max(3, 1 + max(_run_of_ticks(line) for line in marked))
    yield f"{fence}diff"
    yield from marked
    yield fence
    yield ""
    yield "</details>"


def _marked(line: str) -> str:
    """Return a line with its sign, if it has one, as the first character."""
    text = line.lstrip()
    if line.startswith(" ") and text[:2] in {f"{sign} " for sign in _MARKS}:
        return f"{_MARKS[text[0]]}{line[: len(line) - len(text)]}{text[2:]}"
    return f" {line}" if line and not line.startswith(("---", "+++")) else line


def _code(text: str) -> str:
    fence = "`" * (1 + _run_of_ticks(text))
    return f"{fence} {text} {fence}" if "`" in text else f"`{text}`"


def _run_of_ticks(text: str) -> int:
    """Return the length of the longest run of backticks."""
    return max(map(len, re.findall("`+", text)), default=0)


def _is_shown_as_input(change: Change, of_input: Change | None) -> bool:
    """Return whether the change of the corresponding input already shows all details of a weight's or constant's change."""
    return (
        of_input is not None
        and change.section in ("weight", "constant")
        and set(_shown(change)) <= set(_shown(of_input))
    )


def _shown(change: Change) -> list[Detail]:
    return [detail for detail in change.details if change.change == "changed" or detail.what in _TELLING]


def _change_lines(change: Change, measured: ElementChange | None = None) -> Iterator[str]:
    shown = _shown(change)
    if change.section == "layer" and shown:
        yield f"  > {shown[0].a} → {shown[0].b}"
        return
    yield f"  {_SIGNS[change.change]} {change.name}{_inline(change.change, shown)}"
    if change.change == "changed":
        yield from _detail_lines(shown, "      ")
        if measured is not None and measured != ElementChange():
            numbers = map(_number, (measured.max_abs, measured.cosine, measured.norm))
            yield "      largest difference: {}, cosine: {}, norm of the difference: {}".format(*numbers)


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.6g}"


_TELLING = frozenset({"dtype", "shape", "range", "version", "value", "codec"})
"""The facts to show about an entry that only one side has."""


def _inline(change: str, details: Sequence[Detail]) -> str:
    if change == "changed" or not details:
        return ""
    return f" ({', '.join(f'{detail.what} {detail.a or detail.b}' for detail in details)})"


def details_text(change: Change | NodeChange) -> str:
    """Return the details of a change on one line: what differs, or what tells most about an entry that only one side has."""
    if change.change in ("added", "removed"):
        return ", ".join(
            f"{each.what} {each.a or each.b}" for each in change.details if each.what in _TELLING
        )
    return "; ".join(_detail_lines(change.details, ""))


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
        yield f"  … and {count_text(len(own) - limit, 'more node')}"
    if derived:
        yield ""
        yield f"{count_text(derived, 'node')} with other results only because of other inputs"


def _place(change: NodeChange) -> str:
    before, after = change.index_a, change.index_b
    if before is None or after is None:
        return f" (node {after if before is None else before})"
    return f" (node {before})" if before == after else f" (node {before} → {after})"


def _detail_lines(details: Sequence[Detail], indent: str) -> Iterator[str]:
    for detail in details:
        absent = "(contiguous)" if detail.what.endswith("strides") else "(none)"
        yield f"{indent}{detail.what}: {detail.a or absent} → {detail.b or absent}"
