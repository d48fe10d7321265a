"""What becomes of a file when it is loaded: who wrote it, the steps that bring it to today, and what it lacks. And
what is said of a program that is written for an older reader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from graphwire.errors import escaped


class StepReport(msgspec.Struct, frozen=True):
    """One step on the way to what this installation runs."""

    step: str
    """Such as `schema 2 → 5.1`, `operator higher_order.scan in the form of 8.7` or `opset aten 9 → 10`."""
    nodes: list[str] = []
    """The nodes that it rewrites, by name (or target, where they have none yet); none for a step of the schema, which
    concerns the document as a whole."""


class Omission(msgspec.Struct, frozen=True):
    """Something that stands in the file and not in the program; or in the program, and not in the file that is written."""

    what: str
    """Such as `example inputs`, or the qualified name of a value."""
    reason: str
    method: str = ""
    """The program's name, of something that is not written."""

    @property
    def as_loaded(self) -> str:
        """What a warning of a load says."""
        return f"the {self.what} are not loaded: {self.reason}"

    @property
    def as_written(self) -> str:
        """What a warning of a file that is written says."""
        return f"the {self.what} of {self.method!r:.80} are not all written: {self.reason}"


class LoadReport(msgspec.Struct, frozen=True):
    """What `load` does with one program of a file; `str` of it is text of some lines for a person."""

    method: str
    """The program's name."""
    producer: str
    """What wrote the file, such as `torch 2.3` or `graphwire 0.1.0`."""
    schema_version: str
    """That of the document as it lies in the file."""
    layout: str
    """How the archive lays its records out, such as `A3 (torch 2.3)`; empty for a document alone."""
    format: str
    """The wire format of the document."""
    readable_from: str
    """The first reader of the file as it is, such as `torch-2.9`, or `graphwire-0.1` where torch reads none of it."""
    steps: list[StepReport] = []
    """Every step, in the order in which they are taken: of the schema, of operators' forms, of opsets."""
    derived: list[str] = []
    """What the file does not say and is found from what it says."""
    absent: list[str] = []
    """What the file does not say and the program does not have, or has as documented here."""
    dropped: list[Omission] = []
    """What the file says and the program does not have."""

    def with_dropped(self, omissions: Sequence[Omission]) -> LoadReport:
        """The report with more that was dropped."""
        return msgspec.structs.replace(self, dropped=[*self.dropped, *omissions])

    def with_steps(self, steps: Iterable[StepReport]) -> LoadReport:
        """The report with more steps at the end."""
        return msgspec.structs.replace(self, steps=[*self.steps, *steps])

    def lines(self) -> Iterator[str]:
        """The report for a reader, a fact a line."""
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
    """The range of a size that is written narrower than it is, since the reader does not read it as it is."""

    method: str
    """The program's name."""
    symbol: str
    given: int
    """What the range begins with in the program."""
    written: int
    """What it begins with in the file."""


class WriteReport(msgspec.Struct, frozen=True):
    """What `save` and `convert` do to one file that is written for a target; `str` of it is text of some lines for a person."""

    target: str
    """What reads the file, such as `torch-2.3`; empty where it is written as graphwire writes it by default."""
    narrowed: list[NarrowedRange] = []
    """With `ranges="narrowed"`, each range that says less than the program's."""
    dropped: list[Omission] = []
    """What a program has and the file does not, without harm to what it computes. A warning says so too."""
    not_for_torch: list[Omission] = []
    """What graphwire finds in the file and torch's reader, which reads the rest of it, does not."""

    def with_unpacked(self, examples: Sequence[tuple[str, str]]) -> WriteReport:
        """The report with the programs whose example inputs have no form that torch's readers take, each with the reason.
        Files for a target have no other form of them."""
        found = [Omission("example inputs", why, method) for method, why in examples]
        if not found:
            return self
        if self.target:
            return msgspec.structs.replace(self, dropped=[*self.dropped, *found])
        return msgspec.structs.replace(self, not_for_torch=[*self.not_for_torch, *found])

    def lines(self) -> Iterator[str]:
        """The report for a reader, a fact a line."""
        yield f"written for {self.target}" if self.target else "written as it is"
        for each in self.narrowed:
            yield f"narrowed: {each.method}: {each.symbol} begins at {each.written}, in the program at {each.given}"
        yield from (f"dropped: {each.method}: {each.what} ({each.reason})" for each in self.dropped)
        yield from (
            f"not for torch: {each.method}: {each.what} ({each.reason})" for each in self.not_for_torch
        )

    def __str__(self) -> str:
        return "\n".join(self.lines())
