"""Differences between the nodes of two graphs: added, removed, moved and changed nodes, with details of each change."""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Literal, NamedTuple

import msgspec

from graphwire.analysis.canonical.graph_content import References, argument_content, steps_of
from graphwire.analysis.canonical.node_order import Effect, Step
from graphwire.analysis.canonical.symbol_names import content_bytes
from graphwire.analysis.diff.facts import Facts, Labels, argument_text, value_facts
from graphwire.schema import Argument, Graph, GraphArgument, Node, named_subgraphs_in, names_in

# -------------------------------------------------- matching of the elements of two sequences by keys ("patience" diff)
# Every element has several keys, the most specific first. Keys that occur once in each sequence are anchors: the longest run
# of anchors with the same order on both sides is matched. The parts between anchors are matched in the same way, then by the
# next key. So the time is near O(n log n) in the length of the sequences, however different they are.


Keys = Sequence[Hashable]

_QUICK = 10_000
"""The largest number of pairs for which a part is compared with difflib, which is thorough, but at least quadratic."""


class _Gap(NamedTuple):
    """The two parts, one of each sequence, between matched elements."""

    a: range
    b: range
    level: int


def match(a: Sequence[Keys], b: Sequence[Keys], *, moved_levels: int = 0) -> list[tuple[int, int]]:
    """Return the pairs of matching indices, sorted by the first. Each index is in at most one pair.

    Args:
        a: the keys of each element of the first sequence, the most specific first; all of the same length.
        b: the same for the second sequence.
        moved_levels: the number of keys by which elements that moved are matched.
    """
    levels = len(a[0]) if a else 0
    pairs: list[tuple[int, int]] = []
    pending = [_Gap(range(len(a)), range(len(b)), 0)]
    while pending:
        gap = _trimmed(pending.pop(), a, b, pairs)
        if not gap.a or not gap.b or gap.level >= levels:
            continue
        anchors = _anchors(gap, a, b)
        if not anchors:
            if gap.level + 1 < levels:
                pending.append(gap._replace(level=gap.level + 1))
            else:
                pairs += _in_turn(gap, a, b)
            continue
        pairs += anchors
        last_a, last_b = gap.a.start, gap.b.start
        for at_a, at_b in [*anchors, (gap.a.stop, gap.b.stop)]:
            pending.append(_Gap(range(last_a, at_a), range(last_b, at_b), gap.level))
            last_a, last_b = at_a + 1, at_b + 1
    _match_moved(a, b, pairs, moved_levels)
    return sorted(pairs)


def _trimmed(gap: _Gap, a: Sequence[Keys], b: Sequence[Keys], pairs: list[tuple[int, int]]) -> _Gap:
    """Match equal elements at both ends of the gap, and return the rest of the gap."""
    start_a, stop_a, start_b, stop_b, level = gap.a.start, gap.a.stop, gap.b.start, gap.b.stop, gap.level
    while start_a < stop_a and start_b < stop_b and a[start_a][level] == b[start_b][level]:
        pairs.append((start_a, start_b))
        start_a, start_b = start_a + 1, start_b + 1
    while start_a < stop_a and start_b < stop_b and a[stop_a - 1][level] == b[stop_b - 1][level]:
        stop_a, stop_b = stop_a - 1, stop_b - 1
        pairs.append((stop_a, stop_b))
    return _Gap(range(start_a, stop_a), range(start_b, stop_b), level)


def _anchors(gap: _Gap, a: Sequence[Keys], b: Sequence[Keys]) -> list[tuple[int, int]]:
    """Return the longest run of keys that occur once on each side, in the same order on both."""
    level = gap.level
    count_a = Counter(a[index][level] for index in gap.a)
    count_b = Counter(b[index][level] for index in gap.b)
    places = {b[index][level]: index for index in gap.b}
    alone = [
        (index, places[key])
        for index in gap.a
        if count_a[key := a[index][level]] == 1 and count_b.get(key) == 1
    ]
    return [alone[place] for place in increasing_run([at_b for _, at_b in alone])]


def increasing_run(values: Sequence[int]) -> list[int]:
    """Return the positions of a longest increasing subsequence of distinct numbers."""
    ends: list[int] = []
    places: list[int] = []
    before: list[int] = []
    for place, value in enumerate(values):
        length = bisect_left(ends, value)
        before.append(places[length - 1] if length else -1)
        if length == len(ends):
            ends.append(value)
            places.append(place)
        else:
            ends[length], places[length] = value, place
    run: list[int] = []
    place = places[-1] if places else -1
    while place >= 0:
        run.append(place)
        place = before[place]
    return run[::-1]


def _in_turn(gap: _Gap, a: Sequence[Keys], b: Sequence[Keys]) -> list[tuple[int, int]]:
    """Match repeated keys: by longest common runs in small gaps, and otherwise each with the next equal key after the last
    match."""
    if len(gap.a) * len(gap.b) <= _QUICK:
        keys_a, keys_b = ([side[i][gap.level] for i in places] for side, places in ((a, gap.a), (b, gap.b)))
        blocks = SequenceMatcher(None, keys_a, keys_b, autojunk=False).get_matching_blocks()
        return [(gap.a[one + i], gap.b[other + i]) for one, other, size in blocks for i in range(size)]
    places: dict[Hashable, deque[int]] = {}
    for index in gap.b:
        places.setdefault(b[index][gap.level], deque()).append(index)
    pairs, reached = [], gap.b.start
    for index in gap.a:
        waiting = places.get(a[index][gap.level], deque())
        while waiting and waiting[0] < reached:
            waiting.popleft()
        if waiting:
            reached = waiting.popleft() + 1
            pairs.append((index, reached - 1))
    return pairs


def _match_moved(a: Sequence[Keys], b: Sequence[Keys], pairs: list[tuple[int, int]], levels: int) -> None:
    """Match the remaining elements of both sides regardless of position, and add them to `pairs`."""
    for level in range(levels):
        matched_a, matched_b = {one for one, _ in pairs}, {other for _, other in pairs}
        places: dict[Hashable, deque[int]] = {}
        for index, keys in enumerate(b):
            if index not in matched_b:
                places.setdefault(keys[level], deque()).append(index)
        for index, keys in enumerate(a):
            if index not in matched_a and (waiting := places.get(keys[level])):
                pairs.append((index, waiting.popleft()))


class Detail(msgspec.Struct, frozen=True):
    """One fact that differs between the two sides; the text is empty on a side without it."""

    what: str
    a: str
    b: str


class NodeChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node that only one side has, or that differs between the two sides."""

    change: Literal["added", "removed", "changed", "moved"]
    operator: str
    """The operator on side B if it has the node, and on side A otherwise."""
    module: str
    """The qualified name of the module that called it; empty for the root."""
    name: str
    """The node's name in its own program (on side B if it has the node)."""
    graph: str = ""
    """The names of the subgraphs that contain it, joined by slashes; empty in the top-level graph."""
    index_a: int | None = None
    index_b: int | None = None
    details: list[Detail] = []
    derived: bool = False
    """Whether the node itself is the same, and only the type or shape of its results differs because its inputs do."""


class Side(NamedTuple):
    """One of the two graphs that are compared."""

    graph: Graph
    identities: Mapping[str, str]
    """For each input, by name, a text that identifies it and is the same on both sides."""
    labels: Labels
    renamed: Callable[[str], str] | None = None
    """Returns the path on side B of a module, where layers have other numbers there."""


def fact_details(a: Facts, b: Facts, prefix: str = "") -> list[Detail]:
    """Return the facts about an entry that differ."""
    pairs = {fact: (a.get(fact, ""), b.get(fact, "")) for fact in [*a, *b]}
    return [Detail(f"{prefix}{fact}", one, other) for fact, (one, other) in pairs.items() if one != other]


def diff_graphs(a: Side, b: Side, place: str = "") -> tuple[list[NodeChange], dict[str, str]]:
    """Return the differences between two graphs, including their subgraphs.

    Args:
        place: the names of the enclosing subgraphs and of the graphs themselves, joined by slashes.

    Returns:
        The changes in the order of side B, removed nodes at their former position; and the name on side B of each value of
        side A.
    """
    steps_a, steps_b = steps_of(a.graph), steps_of(b.graph)
    keys = _keys(a, steps_a), _keys(b, steps_b)
    pairs = match(*keys, moved_levels=2 if a.renamed is None else 4)
    names = _matched_names(a, b, steps_a, steps_b, pairs)
    found: list[tuple[float, NodeChange]] = []
    matched_a, matched_b = dict(pairs), {other: one for one, other in pairs}
    moved = _moved(steps_a, steps_b, pairs)
    differing = {
        names[name]
        for name in a.identities
        if name in names
        and value_facts(a.graph, name, a.labels) != value_facts(b.graph, names[name], b.labels)
    }
    """The values of side B whose type or shape differs."""
    for one, other in sorted(pairs, key=lambda pair: pair[1]):
        node_a, node_b = a.graph.nodes[one], b.graph.nodes[other]
        details = list(_node_details(a, b, node_a, node_b, names))
        of_results = [detail.what.startswith("result") for detail in details]
        derived = any(of_results) and all(of_results) and not differing.isdisjoint(steps_b[other].uses)
        if any(of_results):
            differing.update(steps_b[other].makes)
        if details or other in moved:
            kind: Literal["changed", "moved"] = "changed" if details else "moved"
            found.append((other, _change(kind, node_b, place, one, other, details, derived)))
        found += ((other, each) for each in _subgraph_changes(a, b, node_a, node_b, place))
    last = -1.0
    for index, node in enumerate(a.graph.nodes):
        if index in matched_a:
            last = matched_a[index]
        else:
            found.append((last + 0.5, _change("removed", node, place, index, None)))
    for index, node in enumerate(b.graph.nodes):
        if index not in matched_b:
            found.append((index, _change("added", node, place, None, index)))
    return [change for _, change in sorted(found, key=lambda each: each[0])], names


def _change(
    kind: Literal["added", "removed", "changed", "moved"],
    node: Node,
    place: str,
    one: int | None,
    other: int | None,
    details: Sequence[Detail] = (),
    derived: bool = False,
) -> NodeChange:
    name = node.name or next(iter(_names(node.outputs)), "")
    return NodeChange(
        kind, node.target, module_path(node), name, place, one, other, list(details), derived=derived
    )


def module_path(node: Node) -> str:
    """Return the qualified name of the module that called a node, from its metadata; empty for the root, or if unknown."""
    exact = node.metadata.get("graphwire.nn_module_stack")
    if exact is not None:
        try:
            rows = json.loads(exact)
            return str(rows[-1][1]) if rows else ""
        except (ValueError, LookupError, TypeError, RecursionError):
            return ""
    innermost = node.metadata.get("nn_module_stack", "").rpartition(";")[2]
    # `KEY,PATH,CLASS`; the path may contain commas.
    return innermost.partition(",")[2].rpartition(",")[0].partition("@")[0]


# -------------------------------------------------------------------------------------------------------- matching


def _keys(side: Side, steps: Sequence[Step]) -> list[tuple[Any, ...]]:
    """Return the keys of each node, the most specific first: all that it computes from the inputs; the node and the operators
    that make its arguments; the node alone; its module and operator."""
    values = {name: f"input {identity}".encode() for name, identity in side.identities.items()}
    makers = {name: f"input {identity}" for name, identity in side.identities.items()}
    keys: list[tuple[Any, ...]] = []
    effects = 0
    for step, node in zip(steps, side.graph.nodes, strict=True):
        effects += step.effect is not Effect.PURE
        turn = b"" if step.effect is Effect.PURE else str(effects).encode()
        parts = [
            step.operator.encode(),
            step.shape,
            turn,
            *(values.get(name, name.encode()) for name in step.uses),
        ]
        computed = hashlib.blake2b(b"\0".join(parts), digest_size=16).digest()
        for position, name in enumerate(step.makes):
            values[name] = computed + position.to_bytes(4, "little")
            makers[name] = step.operator
        module = module_path(node) if side.renamed is None else side.renamed(module_path(node))
        itself = (module, step.operator, step.shape)
        sources = tuple([makers.get(name, name) for name in step.uses])
        keys.append((computed, (itself, sources), itself, itself[:2]))
    return keys


def _matched_names(
    a: Side, b: Side, steps_a: Sequence[Step], steps_b: Sequence[Step], pairs: Sequence[tuple[int, int]]
) -> dict[str, str]:
    """Return the name on side B of each value that both sides have, by its name on side A."""
    inputs_b = {identity: name for name, identity in b.identities.items()}
    names = {name: inputs_b[identity] for name, identity in a.identities.items() if identity in inputs_b}
    for one, other in pairs:
        names.update(zip(steps_a[one].makes, steps_b[other].makes, strict=False))
    return names


def _moved(steps_a: Sequence[Step], steps_b: Sequence[Step], pairs: Sequence[tuple[int, int]]) -> set[int]:
    """Return the indices on side B of nodes with effects whose relative order changed. Pure nodes never count as moved."""
    effects = [
        (one, other)
        for one, other in pairs
        if steps_a[one].effect is not Effect.PURE and steps_b[other].effect is not Effect.PURE
    ]
    kept = increasing_run([other for _, other in effects])
    return {other for _, other in effects} - {effects[place][1] for place in kept}


# -------------------------------------------------------------------------------------------------------- one node


def _node_details(a: Side, b: Side, node_a: Node, node_b: Node, names: Mapping[str, str]) -> Iterator[Detail]:
    if node_a.target != node_b.target:
        yield Detail("operator", node_a.target, node_b.target)
    inputs_a = {_input_name(named.name, index): named.arg for index, named in enumerate(node_a.inputs)}
    inputs_b = {_input_name(named.name, index): named.arg for index, named in enumerate(node_b.inputs)}
    for name in dict.fromkeys([*inputs_a, *inputs_b]):
        one, other = inputs_a.get(name), inputs_b.get(name)
        if one is None or other is None or _argument_bytes(one, names) != _argument_bytes(other, None):
            yield Detail(
                name, "" if one is None else argument_text(one), "" if other is None else argument_text(other)
            )
    made_a, made_b = _names(node_a.outputs), _names(node_b.outputs)
    if len(made_a) != len(made_b):
        yield Detail("results", str(len(made_a)), str(len(made_b)))
    for position, (one_name, other_name) in enumerate(zip(made_a, made_b, strict=False)):
        facts_a = value_facts(a.graph, one_name, a.labels)
        facts_b = value_facts(b.graph, other_name, b.labels)
        yield from fact_details(facts_a, facts_b, f"result {position} " if len(made_a) > 1 else "result ")


def _input_name(name: str, index: int) -> str:
    return name or f"input {index}"


def _argument_bytes(argument: Argument, names: Mapping[str, str] | None) -> bytes:
    """Return the content of an argument as bytes, with the names of side B for values, and without content of subgraphs.

    Args:
        names: the names on side B of the values of side A; None for an argument of side B.
    """

    found = References([], [])
    content = argument_content(argument, found)
    for place, name in found.values:
        # A value that side B lacks must differ from all names on side B.
        place[-1] = name if names is None else names.get(name, f"\0{name}")
    return content_bytes(content)


def _subgraph_changes(a: Side, b: Side, node_a: Node, node_b: Node, place: str) -> Iterator[NodeChange]:
    for one, other in zip(_subgraphs_of(node_a), _subgraphs_of(node_b), strict=False):
        inner = f"{place}/{other.name}" if place else other.name
        side_a = a._replace(graph=one.graph, identities=_positions(one.graph))
        side_b = b._replace(graph=other.graph, identities=_positions(other.graph))
        changes, names = diff_graphs(side_a, side_b, inner)
        yield from changes
        returned_a, returned_b = ([*map(argument_text, held.graph.outputs)] for held in (one, other))
        if [_argument_bytes(o, names) for o in one.graph.outputs] != [
            _argument_bytes(o, None) for o in other.graph.outputs
        ]:
            details = [Detail("outputs", ", ".join(returned_a), ", ".join(returned_b))]
            yield NodeChange(
                "changed", node_b.target, module_path(node_b), other.name, inner, details=details
            )


def _subgraphs_of(node: Node) -> list[GraphArgument]:
    """Return the subgraphs among a node's arguments, without the subgraphs inside them."""
    return [held for named in node.inputs for held in named_subgraphs_in(named.arg)]


def _positions(graph: Graph) -> dict[str, str]:
    return {name: str(position) for position, name in enumerate(_names(graph.inputs))}


def _names(arguments: Sequence[Argument]) -> list[str]:
    return [name for argument in arguments for name in names_in(argument)]
