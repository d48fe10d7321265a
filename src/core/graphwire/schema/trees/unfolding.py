"""Expansion of shared tables, such as stack traces, with bounds on the size of the result.

A table stores once what a thousand nodes share, and forty rows that refer to each other can expand to 2**40 parts.
torch has no tables: it stores a text on each node, and copies the origins of each. Therefore each use is measured from
the row lengths before it is expanded, and a use beyond the bounds is dropped. The data is informative only; the program
computes the same without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from graphwire.schema import NodeSource, StackFrame

MAX_DEPTH = 40
"""Nesting depth of rows. torch copies them by recursion, at most about a hundred deep. A real program has a handful."""
MAX_PARTS = 256
"""Rows that one row expands to, those inside it included."""
MAX_TRACES = 1 << 28
"""Characters of all stack traces: enough for 100,000 nodes with 3 KB each."""
MAX_PROVENANCE = 1 << 26
"""Characters of all origins: enough for 100,000 nodes with 400 each."""


OMITTED = "stack traces and origins of nodes"
"""The kind of data that is dropped, for messages."""
WHY_OMITTED = "{:,} are longer, written out, than any real ones; a program computes the same without"
"""The reason for dropping data; the placeholder is the number of dropped uses."""


class Unfolding:
    """Measures the uses of a table, and decides which of them to expand."""

    def __init__(
        self, left: int, lengths: Sequence[int], origins: Sequence[Sequence[int]] | None = None
    ) -> None:
        """Measure the rows of a table.

        Args:
            left: the total number of characters that may be written.
            lengths: the characters of each row alone.
            origins: for each row, the earlier rows that it refers to; None if rows do not refer to others.
        """
        self.left = left
        self.omitted = 0
        """The number of dropped uses."""
        self.whole = [True] * len(lengths)
        """For each row, whether it is expanded with the rows that it refers to. Otherwise it is written alone."""
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
        """Whether to expand the rows of one use: true as long as enough characters are left."""
        return self.take_length(sum([self._lengths[index] for index in indices]))

    def take_length(self, length: int) -> bool:
        """Whether to write a text of a node: true as long as enough characters are left."""
        if length > self.left:
            self.omitted += 1
            return False
        self.left -= length
        return True


def provenance_of(rows: Sequence[NodeSource]) -> Unfolding:
    """Measure a program's table of node origins."""
    return Unfolding(MAX_PROVENANCE, [row.length for row in rows], [row.from_node for row in rows])


def traces_of(frames: Sequence[str]) -> Unfolding:
    """Measure a program's stack frames, as Python prints them."""
    return Unfolding(MAX_TRACES, [len(frame) for frame in frames])


class TraceTexts:
    """Expands stack traces from table rows to the texts that torch stores on nodes."""

    def __init__(self, frames: Iterable[StackFrame]) -> None:
        self._frames = [frame.text for frame in frames]
        self._bounds = traces_of(self._frames)
        self._texts: dict[tuple[int, ...], str] = {}

    @property
    def omitted(self) -> int:
        """The number of traces dropped because all traces together exceed the bounds."""
        return self._bounds.omitted

    def of(self, indices: Sequence[int]) -> str | None:
        """Return the trace with the given frames, as Python prints it; None if it exceeds the bounds."""
        if not self._bounds.take(indices):
            return None
        key = tuple(indices)
        return self._texts.get(key) or self._texts.setdefault(
            key, "".join([self._frames[index] for index in indices])
        )
