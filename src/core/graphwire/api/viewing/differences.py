"""What a page of two files says about their difference: one sentence, and how much weights changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from graphwire.analysis.diff import Diff, diff
from graphwire.api.viewing.sources import Shown
from graphwire.viewer import WeightChange

FEW = 3
"""The largest number of kinds of changes in a sentence that begins with "nothing"."""
MOST_PARTS = 6
"""The largest number of kinds of changes that a sentence lists."""


def paired_methods(a: Shown, b: Shown) -> dict[str, str]:
    """Return the programs of A that are compared, each with that of B. The only programs of two files form a pair."""
    if len(a.programs) == len(b.programs) == 1:
        return dict(zip(a.programs, b.programs, strict=True))
    return {name: name for name in a.programs if name in b.programs}


def sentence(a: Shown, b: Shown, changes: dict[str, dict[str, WeightChange]] | None) -> str:
    """Return the difference of two files in one sentence.

    Args:
        changes: the changes of weights by program and name; None if their elements were not compared.
    """
    pairs = paired_methods(a, b)
    parts: list[str] = []
    if len(pairs) < len(a.programs):
        parts.append(_count(len(a.programs) - len(pairs), "removed program"))
    if len(pairs) < len(b.programs):
        parts.append(_count(len(b.programs) - len(pairs), "added program"))
    counts: Counter[str] = Counter()
    for name, other in pairs.items():
        found = diff(a.programs[name][0], b.programs[other][0])
        counts.update(_changes(found))
        told = {change.name.rpartition(" ")[2] for change in found.changes if change.section == "input"}
        for weight, change in (changes or {}).get(name, {}).items():
            counts["weight with other elements"] += not change.equal and weight not in told
    parts += [_count(number, what) for what, number in counts.items() if number]
    unread = "" if changes is not None else " The elements of weights were not compared."
    if not parts:
        return f"Nothing changed.{unread}"
    if len(parts) > MOST_PARTS:
        parts = [*parts[:MOST_PARTS], f"{len(parts) - MOST_PARTS} other kinds of changes"]
    listed = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    return f"{'Changes:' if len(parts) > FEW else 'Nothing changed but'} {listed}.{unread}"


def _changes(found: Diff) -> Iterator[str]:
    for node in found.nodes:
        if not node.derived:
            yield f"{node.change} node"
    for change in found.changes:
        held = change.name.rpartition(" ")[0] if change.section == "input" else ""
        yield f"{change.change} {held if held in _HELD else change.section}"


_HELD = frozenset({"parameter", "buffer", "tensor constant", "custom obj"})
"""The inputs that the program itself holds, by the start of their entry in a diff."""


def _count(number: int, what: str) -> str:
    if number == 1:
        return f"1 {what}"
    noun, space, rest = what.partition(" with ")
    return f"{number:,} {noun}s{space}{rest}"
