"""Every invalid file of the conformance suite is refused by a load: at its place, with the kind of the problem, and soon.

    PYTHONPATH=tests python tests/conformance/test_refusals.py     writes `refusals.json`; `conformance/make.py` does this, too

`tests/conftest.py` watches that no load runs or imports what a file says.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from inside.api import suite_cases

import graphwire
from graphwire.errors import ArchiveError, FormatError, GraphwireError, SchemaError

HERE = Path(__file__).parent
SUITE = HERE.parents[1] / "conformance"
FILES = [case.file for case in suite_cases(SUITE) if not case.valid and case.hex is None]
FOLDERS = sorted({file.rpartition("/")[0] for file in FILES})


def refusal_of(file: str, load: Callable[..., object] = graphwire.load) -> list[str]:
    """What a load says of a file: the place and kind of each problem, or the error's class with a place or what is wrong. Where a
    load has no reason to refuse, what `verify` says."""
    try:
        load(SUITE / file, verify=True)
    except GraphwireError as error:
        problems = getattr(error, "problems", ())
        # What this installation lacks, and what torch makes of it, `verify` cannot know.
        if isinstance(error, (SchemaError, ArchiveError, FormatError)):
            assert graphwire.verify(SUITE / file), file
        if not problems:
            where = (error.place or error.problem).replace(str(SUITE), "conformance")
            return [f"{type(error).__name__}: {where[:60]}"]
    else:
        problems = graphwire.verify(SUITE / file)
    return [f"{each.place.replace(str(SUITE), 'conformance')[:100]} [{each.kind}]" for each in problems]


def _stated() -> dict[str, list[str]]:
    stated: dict[str, list[str]] = json.loads((HERE / "refusals.json").read_text(encoding="utf-8"))
    return stated


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_file_is_refused_at_its_place(folder: str) -> None:
    files = [file for file in FILES if file.rpartition("/")[0] == folder]
    begin = time.process_time()
    assert {file: refusal_of(file) for file in files} == {file: _stated()[file] for file in files}
    assert time.process_time() - begin < 0.2 * len(files) + 5


@pytest.mark.slow
def test_no_module_is_made_of_any() -> None:
    files = [file for file in FILES if "[" in _stated()[file][0]]
    assert {file: refusal_of(file, graphwire.load_module) for file in files} == {
        file: _stated()[file] for file in files
    }


if __name__ == "__main__":
    rows = (f" {json.dumps(file)}: {json.dumps(refusal_of(file), ensure_ascii=False)}" for file in FILES)
    (HERE / "refusals.json").write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
