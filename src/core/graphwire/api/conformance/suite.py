"""Runs another reader over the conformance suite: each file to one process of a command, its output compared."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from graphwire.api.conformance.comparison import PARTS, first_difference, shown
from graphwire.errors import ArchiveError
from graphwire.process import TYPE_ANALYSIS

INDEX = "index.json"
"""The list of the suite's files."""
REFUSED = 1
"""The exit code of a reader that refuses a file."""


class SuiteCase(msgspec.Struct, frozen=True, omit_defaults=True):
    """One file of the suite."""

    file: str
    """Its path in the suite; of a vector, its name with the wire format as suffix."""
    valid: bool
    about: str
    needs: tuple[str, ...]
    """The parts that a reader must claim to be given the file."""
    rules: tuple[str, ...] = ()
    """The rules that a valid file tries, or the rule that an invalid one breaks."""
    hex: str | None = None
    """The bytes of a vector, which has no file of its own."""
    tree: Any = None
    """What a reader finds in a valid vector."""


class CaseResult(msgspec.Struct, frozen=True):
    """What a reader made of one file."""

    case: SuiteCase
    problem: str
    """Empty if the reader is right."""
    seconds: float


class _Index(msgspec.Struct):
    version: int
    cases: list[SuiteCase]


class _Vectors(msgspec.Struct):
    format: str
    vectors: list[dict[str, Any]]


with TYPE_ANALYSIS:
    _read_index = msgspec.json.Decoder(_Index).decode
    _read_vectors = msgspec.json.Decoder(_Vectors).decode


def suite_cases(folder: Path) -> list[SuiteCase]:
    """Return every case of a suite: its files, and the trees in `trees/`.

    Raises:
        ArchiveError: the folder is not a suite.
    """
    try:
        cases = _read_index((folder / INDEX).read_bytes()).cases
        for path in sorted((folder / "trees").glob("*.json")):
            table = _read_vectors(path.read_bytes())
            cases += [_vector(table.format, row) for row in table.vectors]
    except (OSError, msgspec.MsgspecError, KeyError) as error:
        raise ArchiveError(
            f"{str(folder)!r} is not a conformance suite ({error})",
            remedy="Pass --suite with the folder `conformance` of graphwire's sources",
        ) from error
    return cases


def _vector(wire_format: str, row: dict[str, Any]) -> SuiteCase:
    return SuiteCase(
        f"trees/{row['name']}.{wire_format}",
        row["valid"],
        row["name"].replace("_", " "),
        ("trees", wire_format),
        tuple(row["rules"]),
        row["hex"],
        row.get("tree"),
    )


def run_suite(
    folder: Path,
    command: Sequence[str],
    *,
    parts: Collection[str] = PARTS,
    only: str = "",
    jobs: int = 1,
    timeout: float = 60.0,
    done: Callable[[CaseResult], object] = lambda _: None,
) -> list[CaseResult]:
    """Give each file of a suite to a reader, and compare what it prints.

    Args:
        folder: the suite.
        command: the reader's command line, to which the path of a file is added.
        parts: the parts that the reader claims.
        only: a text that the names of files contain; by default all files.
        jobs: how many readers run at the same time.
        timeout: the seconds that a reader may take for a file.
        done: called with each result as soon as it and those before it are there.

    Raises:
        ArchiveError: the folder is not a suite.
    """
    chosen = [case for case in suite_cases(folder) if only in case.file and set(case.needs) <= set(parts)]
    results = []
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(jobs) as pool:

        def run(numbered: tuple[int, SuiteCase]) -> CaseResult:
            number, case = numbered
            return _run(folder, Path(scratch, str(number)), case, command, parts, timeout)

        for result in pool.map(run, enumerate(chosen)):
            done(result)
            results.append(result)
    return results


def _run(
    folder: Path,
    scratch: Path,
    case: SuiteCase,
    command: Sequence[str],
    parts: Collection[str],
    timeout: float,
) -> CaseResult:
    path = folder / case.file
    if case.hex is not None:
        path = scratch.with_suffix(path.suffix)
        path.write_bytes(bytes.fromhex(case.hex))
    started = time.monotonic()
    try:
        ended = subprocess.run(
            [*command, os.fspath(path)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return CaseResult(case, f"the reader takes more than {timeout:g} seconds", timeout)
    seconds = time.monotonic() - started
    return CaseResult(case, _problem(folder, case, ended, parts), seconds)


def _problem(
    folder: Path, case: SuiteCase, ended: subprocess.CompletedProcess[bytes], parts: Collection[str]
) -> str:
    """Return what is wrong with a reader's output, or an empty text."""
    code = ended.returncode
    if code not in (0, REFUSED):
        last = ended.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        return f"the reader ends with the code {code}: {last:.200}"
    if not case.valid:
        return "" if code == REFUSED else "the reader accepts the file"
    if code == REFUSED:
        last = ended.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        return f"the reader refuses the file: {last:.300}"
    try:
        found = json.loads(ended.stdout)
    except (ValueError, RecursionError) as error:
        return f"the reader does not print JSON ({error}): {shown(ended.stdout[:80])}"
    if case.hex is not None:
        return first_difference({"tree": case.tree}, found, parts)
    expected = json.loads((folder / case.file).with_suffix(".expected.json").read_bytes())
    return first_difference(expected, found, parts)


def rule_counts(results: Sequence[CaseResult]) -> dict[str, tuple[int, int]]:
    """Return, for each rule in the order of its number, how many cases were passed and failed."""
    counts: dict[str, list[int]] = {}
    for result in results:
        for rule in result.case.rules:
            counts.setdefault(rule, [0, 0])[bool(result.problem)] += 1
    return {rule: (counts[rule][0], counts[rule][1]) for rule in sorted(counts, key=_numbered)}


def _numbered(rule: str) -> tuple[str, int]:
    name, _, number = rule.partition("-")
    return name, int(number) if re.fullmatch("[0-9]+", number) else 0


def failures(results: Sequence[CaseResult]) -> Iterator[CaseResult]:
    """Yield the results of the files that the reader gets wrong."""
    return (result for result in results if result.problem)
