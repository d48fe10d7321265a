"""The works that write files again: `convert` and `upgrade`. Each file is replaced as a whole, or stays as it is."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Final

import graphwire
from graphwire.errors import ArchiveError, GraphwireError, GraphwireWarning, OpsetError
from graphwire.wire.archive.source import url_of
from graphwire_fleet.reading import failure_of
from graphwire_fleet.rewriting.journal import Entry, Journal
from graphwire_fleet.rewriting.places import LocalFile, Place, RemotePlace, place_at
from graphwire_fleet.work import File, Packed, Result, Row

REPORT: Final = "report"
"""The name of the rows that a rewriting packs, as JSON lines."""


@dataclass(frozen=True)
class Rewriting:
    """Writes one file again: in its place, or to the same path below another root."""

    root: str | None
    """The folder or URL that the new files go to; None for the places of the old ones."""
    journal: str | None
    """The folder of the journal; None writes nothing."""
    checked: bool = False
    """Whether the programs run before and after, with a comparison of what they return."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The options of `graphwire.open`."""
    wanted: Mapping[str, Any] = field(default_factory=dict)
    """The options of the action."""
    aliases: frozenset[str] = frozenset()
    """The names of links to files that are rewritten under their own names."""

    name: ClassVar[str] = ""

    def rewrite(self, file: File, path: Path) -> list[str]:
        """Write a file again to a path, and return what changes, a fact each."""
        raise NotImplementedError

    def plan(self, file: File) -> list[str]:
        """Return what `rewrite` would change. Nothing is written."""
        raise NotImplementedError

    def is_needed(self, file: File) -> bool:
        """Whether there is anything to change in a file."""
        return True

    def destination(self, file: File) -> str:
        """Return the path or URL that the new file goes to. A link to a file in place stays a link."""
        if self.root is None:
            return file.source if url_of(file.source) else str(Path(file.source).resolve())
        return f"{self.root.rstrip('/')}/{file.below}"

    def __call__(self, file: File) -> Result:
        """Rewrite a file, or tell what that would change. An error becomes its failure, and nothing is replaced."""
        start = time.perf_counter()
        row: Row = {}
        failure = None
        if file.name in self.aliases:
            return Result(file, {REPORT: [{"action": "linked", "changes": [file.name]}]})
        try:
            self._check_below(file)
            with warnings.catch_warnings():  # What is dropped is in the report.
                warnings.simplefilter("ignore", GraphwireWarning)
                row = (
                    self._planned(file)
                    if self.journal is None
                    else self._rewritten(file, Journal(Path(self.journal)))
                )
        except (GraphwireError, OSError) as error:
            failure = failure_of(error)
        return Result(file, {REPORT: [row]}, failure, time.perf_counter() - start)

    def pack(self, results: Sequence[Result]) -> Packed:
        """Encode what came of files as JSON lines."""
        return {REPORT: b"".join(map(self._line, results))}

    def _line(self, result: Result) -> bytes:
        found = next(iter(result.tables.get(REPORT, ())), {})
        failure = result.failure
        row = {"file": result.file.name, "destination": self.destination(result.file), **found}
        if failure is not None:
            row |= {"action": "failed", "kind": failure.kind, "failure": failure.message}
            row |= {"place": failure.place, "remedy": failure.remedy}
        return json.dumps(row).encode() + b"\n"

    def place(self, destination: str) -> Place:
        """Return the place of a destination."""
        return place_at(
            destination,
            self.options.get("storage_options"),
            None if self.root is None else self.root.rstrip("/"),
        )

    def _check_below(self, file: File) -> None:
        """Check that a file goes below the root: stores may have names such as `../elsewhere.pt2`."""
        names = file.below.replace(os.sep, "/").split("/")
        if self.root is not None and not {"", ".", ".."}.isdisjoint(names):
            raise ArchiveError(
                f"the path {file.below!r:.200} leads out of the folder for the new files",
                remedy="Give the file another name",
            )

    def _planned(self, file: File) -> Row:
        if self.root is None and not self.is_needed(file):
            return {"action": "nothing to do"}
        return {"action": "would be written", "changes": self.plan(file)}

    def _rewritten(self, file: File, journal: Journal) -> Row:
        name = self.destination(file)
        place = self.place(name)
        with place.locked():
            return self._replaced(file, journal, name, place)

    def _replaced(self, file: File, journal: Journal, name: str, place: Place) -> Row:
        found = journal.entry(name)
        if found is not None:
            if found.file != file.name:
                raise ArchiveError(
                    f"{found.file!r:.200} is written to {name!r:.200}",
                    remedy="Write this one to another folder",
                )
            state = found.state(place)
            if state == "after":
                return {"action": "written before", **_facts(found)}
            if state == "changed":
                raise ArchiveError(
                    "the file changed after this journal was begun", remedy="Begin another journal"
                )
            journal.settle(name, place)
        if self.root is None and not self.is_needed(file):
            return {"action": "nothing to do"}
        stamp = place.stamp()
        entry = journal.begin(name, file.name, place)
        workplace = journal.workplace(entry, place)
        try:
            part = self._part(file, workplace, place)
            changes = self.rewrite(file, part.path)
            check = self._check(file, part.path)
            entry = replace(entry, after=part.facts())
            if entry.after != entry.before:
                journal.write(entry)
                if place.stamp() != stamp:
                    raise ArchiveError(
                        "the file changed while it was rewritten",
                        remedy="Repeat the action when nobody else writes to it",
                    )
                place.put(part)
                journal.clear(entry, place)
                return {"action": "written", "changes": changes, "check": check, **_facts(entry)}
        except BaseException:
            journal.settle(name, place)
            raise
        journal.settle(name, place)
        return {"action": "nothing to do"}

    def _check(self, file: File, part: Path) -> str | None:
        if not self.checked:
            return None
        from graphwire_fleet.rewriting.checking import check  # torch is imported only for this

        return check(file.source, part, self.options)

    def _part(self, file: File, workplace: LocalFile, place: Place) -> LocalFile:
        """Return where the new file is written first: in the folder of its place if it refers to files relative to that."""
        with graphwire.open(file.source, **self.options) as archive:
            refers = archive.weights.references is not None
        if not refers:
            return workplace.below("new")
        if isinstance(place, RemotePlace) or url_of(file.source):
            raise ArchiveError(
                "its weights are in other files, relative to its folder, and a file at a URL is written elsewhere first",
                remedy="Rewrite it on a machine that has the files",
            )
        return workplace.part


def _facts(entry: Entry) -> Row:
    before, after = entry.before, entry.after
    return {
        "sha256_before": before and before.sha256,
        "sha256_after": after and after.sha256,
        "bytes_before": before and before.nbytes,
        "bytes_after": after and after.nbytes,
    }


@dataclass(frozen=True)
class Converting(Rewriting):
    """Writes a file in another wire format, or for an older reader."""

    name: ClassVar[str] = "convert"

    def rewrite(self, file: File, path: Path) -> list[str]:
        """Convert a file."""
        return self._convert(file, str(path), dry_run=False)

    def plan(self, file: File) -> list[str]:
        """Convert without writing."""
        return self._convert(file, self.destination(file), dry_run=True)

    def _convert(self, file: File, destination: str, *, dry_run: bool) -> list[str]:
        reports: list[Any] = []
        options = {**self.wanted, **self.options}
        graphwire.convert(file.source, destination, dry_run=dry_run, report=reports.append, **options)
        return [line for report in reports for line in [*report.lines()][0 if report.target else 1 :]]


@dataclass(frozen=True)
class Upgrading(Rewriting):
    """Brings the operators of a file to the installed versions, or to others."""

    name: ClassVar[str] = "upgrade"

    def rewrite(self, file: File, path: Path) -> list[str]:
        """Upgrade a file."""
        return _steps(graphwire.upgrade(file.source, path, **self.wanted, **self.options))

    def plan(self, file: File) -> list[str]:
        """Return the steps of the upgrade.

        Raises:
            OpsetError: it is impossible.
        """
        plans = self._plans(file)
        problems = [each for plan in plans.values() for each in plan.problems]
        if problems:
            raise OpsetError(f"{len(problems):,} nodes cannot be upgraded", problems=problems)
        return _steps(plans)

    def is_needed(self, file: File) -> bool:
        """Whether there is a step, or another format is wanted than the one it has."""
        return any(plan.steps for plan in self._plans(file).values()) or self._changes_format(file)

    def _plans(self, file: File) -> Mapping[str, Any]:
        return graphwire.plan_upgrade(
            file.source, opset_version=self.wanted.get("opset_version"), **self.options
        )

    def _changes_format(self, file: File) -> bool:
        wanted = self.wanted.get("format")
        if wanted is None:
            return False
        with graphwire.open(file.source, **self.options) as archive:
            return any(archive.format_of(method) != wanted for method in archive.methods)


def _steps(plans: Mapping[str, Any]) -> list[str]:
    several = len(plans) > 1
    return [
        f"{name}: {step}, {len(step.nodes):,} nodes" if several else f"{step}, {len(step.nodes):,} nodes"
        for name, plan in plans.items()
        for step in plan.steps
    ]


REWRITINGS: Final[Mapping[str, Callable[..., Rewriting]]] = {
    each.name: each for each in (Converting, Upgrading)
}
"""The works by the name of their action."""
