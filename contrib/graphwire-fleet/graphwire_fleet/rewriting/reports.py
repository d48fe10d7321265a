"""Collects what came of the files of a rewriting: in the journal, and on the terminal."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from graphwire.cli.terminal import Output
from graphwire.errors import GraphwireError
from graphwire_fleet.rewriting.journal import Journal
from graphwire_fleet.rewriting.works import REPORT, Rewriting
from graphwire_fleet.work import File, Packed


class Reported:
    """The `Consumer` of a rewriting: it prints what came of each file, and adds it to the journal.

    Args:
        journal: the journal; None with a dry run.
        work: the rewriting.
        output: where it is printed.
        as_json: whether as JSON lines.
    """

    def __init__(self, journal: Journal | None, work: Rewriting, output: Output, *, as_json: bool) -> None:
        self._journal = journal
        self._work = work
        self._output = output
        self._as_json = as_json
        self.actions: Counter[str] = Counter()
        self.checks: Counter[str] = Counter()

    def still_to_do(self, files: Sequence[File]) -> Sequence[File]:
        """Return all of them: those that the journal has are found by their digests."""
        return files

    def add(self, batch: str, pieces: Sequence[Packed]) -> None:
        """Print what came of files, and keep it."""
        lines = b"".join(piece[REPORT] for piece in pieces)
        if self._journal is not None:
            self._journal.report(batch, lines)
        for line in lines.splitlines():
            self._add(json.loads(line))

    def _add(self, row: Mapping[str, Any]) -> None:
        self.actions[row["action"]] += 1
        if row.get("check"):
            self.checks[row["check"]] += 1
        failed = row["action"] == "failed"
        if failed and self._journal is not None:
            with suppress(GraphwireError, OSError):  # What is left is removed when the action is repeated.
                self._journal.settle(row["destination"], self._work.place(row["destination"]))
        if self._as_json:
            self._output.json(row, problem=failed, indent=None)
        elif failed:
            remedy = f". {row['remedy']}" if row.get("remedy") else ""
            text = " ".join(row["failure"].split())
            self._output.line(f"{row['file']}: {row['kind']}: {text}{remedy}", "error", problem=True)
        elif row["action"] != "nothing to do":
            facts = [row["action"], *row.get("changes", ()), *filter(None, [row.get("check")])]
            self._output.line(f"{row['destination']}: {', '.join(facts)}")
