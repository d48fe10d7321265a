"""The canonical order of a graph's nodes, which does not depend on their original order.

Fixed nodes (see `analysis.canonical.effects`) divide the nodes into segments. Within a segment, a heap holds the nodes whose
arguments are all available: the smallest operator name comes first, then the smallest ranks of the arguments, where a
value's rank is its number in the new order. Nodes that are still equal call the same operator on the same arguments. A digest
of the readers of their results decides between them, and then their original order.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from graphwire.analysis.canonical.effects import Effect
from graphwire.analysis.canonical.encoding import digest
from graphwire.errors import SchemaError


class Step(NamedTuple):
    """The facts about a node that its canonical position depends on."""

    operator: str
    shape: bytes
    """The content of its inputs, without the names of the values."""
    uses: tuple[str, ...]
    """The values that it reads, in their order in `shape`."""
    makes: tuple[str, ...]
    """The values that are its results."""
    effect: Effect


def node_order(inputs: Sequence[str], steps: Sequence[Step], outputs: Sequence[str]) -> list[int]:
    """Return the indices of `steps` in canonical order. Takes O(n log n) time and linear memory.

    Args:
        inputs: the values that exist before any step, in canonical order.
        steps: the steps, in an order in which they can run.
        outputs: the values that are read after all steps.

    Raises:
        SchemaError: steps depend on each other's results in a cycle.
    """
    use_digests = _use_digests(inputs, steps, outputs)
    ranks = {name: rank for rank, name in enumerate(inputs)}
    order: list[int] = []
    for segment in _segments(steps):
        before = len(order)
        order.extend(_ordered(segment, steps, use_digests, ranks))
        if len(order) - before != len(segment):
            late = min(set(segment) - set(order))
            raise SchemaError("the node waits for its own results", place=f"nodes[{late}]")
    return order


def _segments(steps: Sequence[Step]) -> Iterable[list[int]]:
    """Yield the runs of steps that may be reordered and, between them, each fixed step alone."""
    segment: list[int] = []
    for index, step in enumerate(steps):
        if step.effect is Effect.FIXED:
            yield segment
            yield [index]
            segment = []
        else:
            segment.append(index)
    yield segment


def _ordered(
    segment: list[int], steps: Sequence[Step], use_digests: Sequence[bytes], ranks: dict[str, int]
) -> Iterable[int]:
    """Yield the indices of one segment in canonical order, and add the ranks of their results. Omits steps in a cycle."""
    waiting, readers = _dependencies(segment, steps, ranks)

    def entry(index: int) -> tuple[str, tuple[int, ...], bytes, bytes, int]:
        step = steps[index]
        # A value that no step makes, such as a constant referenced by name, has the lowest rank.
        used = tuple([ranks.get(name, -1) for name in step.uses])
        return step.operator, used, step.shape, use_digests[index], index

    heap = [entry(index) for index in segment if not waiting[index]]
    heapq.heapify(heap)
    while heap:
        index = heapq.heappop(heap)[-1]
        yield index
        for name in steps[index].makes:
            ranks.setdefault(name, len(ranks))
        for reader in readers.get(index, ()):
            waiting[reader] -= 1
            if not waiting[reader]:
                heapq.heappush(heap, entry(reader))


def _dependencies(
    segment: list[int], steps: Sequence[Step], ranks: Mapping[str, int]
) -> tuple[dict[int, int], dict[int, list[int]]]:
    """Return for each step the number of steps it waits for, and the steps that wait for it."""
    makers = {name: index for index in segment for name in steps[index].makes}
    waiting: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    last_ordered = -1
    for index in segment:
        step = steps[index]
        awaited = {makers[name] for name in step.uses if name not in ranks and name in makers}
        if step.effect is Effect.ORDERED:
            if last_ordered >= 0:
                awaited.add(last_ordered)
            last_ordered = index
        waiting[index] = len(awaited)
        for each in awaited:
            readers.setdefault(each, []).append(index)
    return waiting, readers


# -------------------------------------------------------------------------------------------------------- readers


def _use_digests(inputs: Sequence[str], steps: Sequence[Step], outputs: Sequence[str]) -> list[bytes]:
    """Return for each step a digest of its readers: equal for steps that no reader distinguishes.

    A reader is identified by what it computes (a digest of its operator and of all it reads, down to the inputs), by the
    position at which it reads the value, and by the readers of its own results.
    """
    values = {name: digest(b"input", str(rank).encode()) for rank, name in enumerate(inputs)}
    computed: list[bytes] = []
    effects = 0
    for step in steps:
        effects += step.effect is not Effect.PURE
        turn = b"" if step.effect is Effect.PURE else str(effects).encode()
        read = [values.get(name, b"constant") for name in step.uses]
        computed.append(digest(step.operator.encode(), step.shape, turn, *read))
        for position, name in enumerate(step.makes):
            values.setdefault(name, digest(computed[-1], str(position).encode()))
    uses: dict[str, list[bytes]] = {}
    for position, name in enumerate(outputs):
        uses.setdefault(name, []).append(digest(b"output", str(position).encode()))
    found = [b""] * len(steps)
    for index in range(len(steps) - 1, -1, -1):
        step = steps[index]
        if any(name in uses for name in step.makes):
            ways = [digest(*sorted(uses.get(name, ()))) for name in step.makes]
            found[index] = digest(*ways)
        own = digest(computed[index], found[index])
        for position, name in enumerate(step.uses):
            uses.setdefault(name, []).append(digest(own, str(position).encode()))
    return found
