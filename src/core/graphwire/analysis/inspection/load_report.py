"""Reports about loading and writing a file: its producer, the upgrade steps, what is missing, and what a write for an older
reader omits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from graphwire.errors import escaped


class StepReport(msgspec.Struct, frozen=True):
    """One upgrade step from the file's versions to the versions that this installation runs."""

    step: str
    """Such as `schema 2 → 5.1`, `operator higher_order.scan in the form of 8.7` or `opset aten 9 → 10`."""
    nodes: list[str] = []
    """The nodes that it rewrites, by name (by target if they have no name yet); empty for a step of the schema, which
    rewrites the document as a whole."""


class Omission(msgspec.Struct, frozen=True):
    """Something that a load or a write leaves out: in the file but not in the program, or in the program but not in the file."""

    what: str
    """Such as `example inputs`, or the qualified name of a value."""
    reason: str
    method: str = ""
    """The program's name, if a write leaves it out."""

    @property
    def as_loaded(self) -> str:
        """The text of a load's warning."""
        return f"the {self.what} are not loaded: {self.reason}"

    @property
    def as_written(self) -> str:
        """The text of a write's warning."""
        return f"the {self.what} of {self.method!r:.80} are not all written: {self.reason}"


class LoadReport(msgspec.Struct, frozen=True):
    """What `load` does with one program of a file. `str` of it is readable text."""

    method: str
    """The program's name."""
    producer: str
    """The tool that wrote the file, such as `torch 2.3`, `graphwire 0.1.0`, or `graphwire, for torch 2.6`."""
    schema_version: str
    """The schema version of the document in the file, before any upgrade."""
    layout: str
    """The layout of the archive's records, such as `A3 (torch 2.3)`; empty for a document alone."""
    format: str
    """The wire format of the document."""
    readable_from: str
    """The oldest reader of the unchanged file, such as `torch-2.9`, or `graphwire-0.1` if no release of torch reads it."""
    steps: list[StepReport] = []
    """All steps in the order in which they run: of the schema, of operators' forms, of opsets."""
    derived: list[str] = []
    """Facts that the file does not store and that are derived from its other content."""
    absent: list[str] = []
    """Facts that the file does not store; the program lacks them, or has the default described here."""
    dropped: list[Omission] = []
    """Facts that the file stores and the program lacks."""

    def __repr__(self) -> str:
        return f"<LoadReport of {self.method!r:.80}: {len(self.steps)} steps, {len(self.dropped)} dropped; str() lists them>"

    def with_dropped(self, omissions: Sequence[Omission]) -> LoadReport:
        """Return the report with more omissions."""
        return msgspec.structs.replace(self, dropped=[*self.dropped, *omissions])

    def with_steps(self, steps: Iterable[StepReport]) -> LoadReport:
        """Return the report with more steps at the end."""
        return msgspec.structs.replace(self, steps=[*self.steps, *steps])

    def lines(self) -> Iterator[str]:
        """Yield the report as readable text, one fact per line."""
        yield f"{self.method}: written by {self.producer}, schema {self.schema_version}, {self.format}"
        yield f"readable from {self.readable_from} on"
        if self.layout:
            yield f"layout {self.layout}"
        for each in self.steps:
            yield each.step
            yield from (f"  {node}" for node in each.nodes)
        yield from (f"derived: {text}" for text in self.derived)
        yield from (f"absent: {text}" for text in self.absent)
        yield from (f"dropped: {each.what} ({each.reason})" for each in self.dropped)

    def __str__(self) -> str:
        return "\n".join(map(escaped, self.lines()))


class NarrowedRange(msgspec.Struct, frozen=True):
    """The range of a size that is written narrower than in the program, because the target reader rejects the original."""

    method: str
    """The program's name."""
    symbol: str
    given: int
    """The minimum in the program."""
    written: int
    """The minimum in the file."""


class WriteReport(msgspec.Struct, frozen=True):
    """What `save` and `convert` change in a file that is written for a target. `str` of it is readable text."""

    target: str
    """The intended reader, such as `torch-2.3`; empty if the file has graphwire's default form."""
    narrowed: list[NarrowedRange] = []
    """With `ranges="narrowed"`, each range that is narrower than the program's."""
    dropped: list[Omission] = []
    """Parts of a program that the file lacks. They do not affect what it computes. A warning reports them too."""
    not_for_torch: list[Omission] = []
    """Parts of the file that graphwire reads and torch's reader, which reads the rest, ignores."""

    def with_unpacked(self, examples: Sequence[tuple[str, str]]) -> WriteReport:
        """Return the report with the programs whose example inputs torch's readers cannot read, each with the reason.

        A file for a target stores example inputs only in torch's form, so it lacks them."""
        found = [Omission("example inputs", why, method) for method, why in examples]
        if not found:
            return self
        if self.target:
            return msgspec.structs.replace(self, dropped=[*self.dropped, *found])
        return msgspec.structs.replace(self, not_for_torch=[*self.not_for_torch, *found])

    def lines(self) -> Iterator[str]:
        """Yield the report as readable text, one fact per line."""
        yield f"written for {self.target}" if self.target else "written as it is"
        for each in self.narrowed:
            yield f"narrowed: {each.method}: {each.symbol} begins at {each.written}, in the program at {each.given}"
        yield from (f"dropped: {each.method}: {each.what} ({each.reason})" for each in self.dropped)
        yield from (
            f"not for torch: {each.method}: {each.what} ({each.reason})" for each in self.not_for_torch
        )

    def __str__(self) -> str:
        return "\n".join(self.lines())
