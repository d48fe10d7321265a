"""Tables whose rows are shared, where they must be written out: each use again, and each row with all that it refers to.

A table says once what a thousand nodes share, and rows of rows say in forty lines what has 2**40 parts. Torch has no tables:
it has a text on each node, and copies the origins of each. So a use is measured before it is written out, from the lengths
of the rows alone, and what is beyond the bounds is left out. It informs; a program computes the same without.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from graphwire.schema import NodeSource, StackFrame

MAX_DEPTH = 40
"""Rows inside each other: torch copies them by recursion, of a hundred at most. A real program has a handful."""
MAX_PARTS = 256
"""Rows that one row becomes with all inside it."""
MAX_TRACES = 1 << 28
"""Characters of all stack traces: 100,000 nodes have 3 KB each."""
MAX_PROVENANCE = 1 << 26
"""Characters of all origins: 100,000 nodes have 400 each."""


OMITTED = "stack traces and origins of nodes"
"""What is left out."""
WHY_OMITTED = "{:,} are longer, written out, than any real ones; a program computes the same without"
"""The reason, for a number of them."""


class Unfolding:
    """Measures the uses of a table, and says which of them are written out."""

    def __init__(
        self, left: int, lengths: Sequence[int], origins: Sequence[Sequence[int]] | None = None
    ) -> None:
        """Measure the rows of a table.

        Args:
            left: the characters that may be written out in all.
            lengths: the characters of each row alone.
            origins: for each row the earlier rows that it refers to; None for a table whose rows refer to none.
        """
        self.left = left
        self.omitted = 0
        """Uses that were left out."""
        self.whole = [True] * len(lengths)
        """Whether a row is written out with the rows that it refers to: else it stands without."""
        self._lengths = list(lengths)
        depths = [1] * len(lengths)
        parts = [1] * len(lengths)
        for index, earlier in enumerate(origins or ()):
            if not earlier:
                continue
            depth = 1 + max([depths[each] for each in earlier])
            count = 1 + sum([parts[each] for each in earlier])
            if depth > MAX_DEPTH or count > MAX_PARTS:
                self.whole[index] = False
                self.omitted += 1
                continue
            depths[index], parts[index] = depth, count
            self._lengths[index] += sum([self._lengths[each] for each in earlier])

    def take(self, indices: Sequence[int]) -> bool:
        """Whether the rows of one use are written out: as long as there are characters left."""
        return self.take_length(sum([self._lengths[index] for index in indices]))

    def take_length(self, length: int) -> bool:
        """Likewise of a text that stands on a node."""
        if length > self.left:
            self.omitted += 1
            return False
        self.left -= length
        return True


def provenance_of(rows: Sequence[NodeSource]) -> Unfolding:
    """The table of provenance of a program, measured."""
    return Unfolding(MAX_PROVENANCE, [row.length for row in rows], [row.from_node for row in rows])


def traces_of(frames: Sequence[str]) -> Unfolding:
    """The frames of a program's stack traces, as they are printed, measured."""
    return Unfolding(MAX_TRACES, [len(frame) for frame in frames])


class TraceTexts:
    """The stack traces of a program that has them as rows of a table, as the texts that stand on nodes."""

    def __init__(self, frames: Iterable[StackFrame]) -> None:
        self._frames = [frame.text for frame in frames]
        self._bounds = traces_of(self._frames)
        self._texts: dict[tuple[int, ...], str] = {}

    @property
    def omitted(self) -> int:
        """Traces that were left out, since all together are beyond the bounds."""
        return self._bounds.omitted

    def of(self, indices: Sequence[int]) -> str | None:
        """The trace whose frames are the given rows, as Python prints it; None for one beyond the bounds."""
        if not self._bounds.take(indices):
            return None
        key = tuple(indices)
        return self._texts.get(key) or self._texts.setdefault(
            key, "".join([self._frames[index] for index in indices])
        )
