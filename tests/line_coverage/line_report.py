"""A plugin of pytest: after a whole run, the statements of graphwire that ran, with a floor under which the run fails."""

from __future__ import annotations

import ast
import marshal
import os
import sys
import tempfile
from collections.abc import Generator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import line_probes
import pytest
from line_probes import FOLDER, SOURCES as SOURCES_FOLDER, TRACED
from line_statements import statements

SOURCES = Path(SOURCES_FOLDER)

LISTED = 12
"""How many modules the report names."""


class Module(NamedTuple):
    """How much of a module ran."""

    name: str
    ran: int
    missed: list[ast.stmt]

    @property
    def percent(self) -> float:
        total = self.ran + len(self.missed)
        return 100 * self.ran / total if total else 100.0

    def __str__(self) -> str:
        return f"{self.percent:5.1f} %  {self.name}: {_ranges(self.missed)}"


def _ranges(missed: list[ast.stmt]) -> str:
    """The lines of statements, with those of adjacent lines as a range."""
    lines = sorted({line for each in missed for line in range(each.lineno, _last_line(each) + 1)})
    runs = [[line for _, line in run] for _, run in groupby(enumerate(lines), lambda pair: pair[1] - pair[0])]
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _last_line(statement: ast.stmt) -> int:
    """The last line of a simple statement; the first of one that holds others, which are counted themselves."""
    return statement.lineno if hasattr(statement, "body") else statement.end_lineno or statement.lineno


def modules(folder: Path) -> list[Module]:
    """Every module of graphwire, with what ran of it in the processes that left results in a folder."""
    ran: dict[str, set[int]] = {}
    for file in folder.glob("*.ran"):
        for path, numbers in marshal.loads(file.read_bytes()).items():
            ran.setdefault(path, set()).update(numbers)
    found = []
    for path in sorted(SOURCES.rglob("*.py")):
        name = path.relative_to(SOURCES).with_suffix("").as_posix().split("/", 1)[1].replace("/", ".")
        if "templates" in path.parts or name in TRACED:
            continue
        every = statements(ast.parse(path.read_bytes()))
        seen = ran.get(str(path), set())
        missed = [statement for number, statement in enumerate(every) if number not in seen]
        found.append(Module(str(path.relative_to(SOURCES)), len(every) - len(missed), missed))
    return found


class LineCoverage:
    """Measures a run of the tests, and makes it fail under the floor."""

    def __init__(self, config: pytest.Config, floor: float) -> None:
        assert "graphwire" not in sys.modules, (
            "only the whole run is measured: graphwire is imported before it starts"
        )
        self.floor = floor
        self.lines: list[str] = []
        self.is_worker = hasattr(config, "workerinput")
        if not self.is_worker:
            self.folder = tempfile.TemporaryDirectory()
            os.environ[FOLDER] = self.folder.name
            here = str(Path(__file__).parent)
            os.environ["PYTHONPATH"] = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
        line_probes.install_if_wanted()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, bool, bool]:
        result = yield
        line_probes.store()
        if not self.is_worker:
            self._judge(session)
        return result

    def _judge(self, session: pytest.Session) -> None:
        found = modules(Path(self.folder.name))
        self.folder.cleanup()
        least = sorted((each for each in found if each.missed), key=lambda each: each.percent)
        output = session.config.rootpath / "build" / "line-coverage.txt"
        output.parent.mkdir(exist_ok=True)
        output.write_text("\n".join(map(str, least)), encoding="utf-8")
        ran, missed = sum(each.ran for each in found), sum(len(each.missed) for each in found)
        percent = 100 * ran / (ran + missed)
        self.lines = [
            f"{each.percent:5.1f} %  {each.name} ({len(each.missed)} missed)" for each in least[:LISTED]
        ]
        self.lines.append(
            f"{percent:5.1f} %  of all {ran + missed} statements; the others are listed in {output}"
        )
        if percent < self.floor:
            self.lines.append(f"Error: the floor is {self.floor} %. Add tests of what the change adds.")
            session.testsfailed += 1

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("line coverage: the modules that ran least")
        for line in self.lines:
            terminalreporter.write_line(line)
