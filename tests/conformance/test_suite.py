"""The conformance suite is current, small and complete, and graphwire itself passes it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from graphwire.api.conformance import PARTS, failures, first_difference, neutral, run_suite, suite_cases
from graphwire.errors import ArchiveError, GraphwireError

ROOT = Path(__file__).resolve().parents[2]
SUITE = ROOT / "conformance"
NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
CASES = suite_cases(SUITE)
GRAPHWIRE = (sys.executable, "-m", "graphwire", "neutral")


def test_the_files_are_what_the_script_makes() -> None:
    sample = [] if NIGHTLY else ["--only", "payloads/c"]
    command = [sys.executable, str(SUITE / "make.py"), "--check", *sample]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("", 0), done.stderr


def test_the_suite_is_small_and_large_enough() -> None:
    files = [path for path in SUITE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sum(path.stat().st_size for path in files) < 4 << 20
    assert len({case.file for case in CASES}) == len(CASES) > 400
    assert {part for case in CASES for part in case.needs} <= set(PARTS)


def test_graphwire_reads_every_file_as_it_must(tmp_path: Path) -> None:
    wrong = []
    for number, case in enumerate(CASES):
        path = SUITE / case.file
        if case.hex is not None:
            path = tmp_path / f"{number}{path.suffix}"
            path.write_bytes(bytes.fromhex(case.hex))
        try:
            found = json.loads(neutral(path))
        except GraphwireError as error:
            found = None
            if case.valid:
                wrong.append(f"{case.file}: {error}")
        if not case.valid and found is not None:
            wrong.append(f"{case.file}: accepted")
        elif case.valid and found is not None:
            beside = path.with_suffix(".expected.json")
            expected = json.loads(beside.read_bytes()) if case.hex is None else {"tree": case.tree}
            if problem := first_difference(expected, found, PARTS):
                wrong.append(f"{case.file}: {problem}")
    assert wrong == []


def test_the_same_program_prints_the_same_in_each_wire_format() -> None:
    formats = SUITE / "valid/formats"
    names = {path.name.partition(".")[0].rpartition("_")[0] for path in formats.iterdir()}
    for name in names:
        one, *others = [
            (formats / f"{name}_{each}.expected.json").read_bytes() for each in ("json", "msgpack", "cbor")
        ]
        assert others == [one, one], name


@pytest.mark.parametrize("only", [""] if NIGHTLY else ["documents/simple", "trees/tags"])
def test_graphwire_passes_through_the_door_for_other_readers(only: str) -> None:
    results = run_suite(SUITE, GRAPHWIRE, only=only, jobs=2)
    assert results
    assert [(each.case.file, each.problem) for each in failures(results)] == []


def test_a_folder_without_a_suite_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="not a conformance suite"):
        suite_cases(tmp_path)
