"""The page has the columns and the questions that there are, and its SQL runs."""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from fleet_files import asked, listed, read, some_files
from graphwire_fleet.reading import Inspecting

from graphwire.cli import main

HERE = Path(__file__).resolve().parent


def page() -> tuple[str, str]:
    """The page, and what `make_documentation.py` would write."""
    spec = importlib.util.spec_from_file_location("make_documentation", HERE.parent / "make_documentation.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = module.PAGE.read_text(encoding="utf-8")
    return text, module.documented(text)


def test_the_tables_of_the_page_are_current() -> None:
    text, current = page()
    assert text == current, "run contrib/graphwire-fleet/make_documentation.py"


def test_the_queries_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read(tmp_path / "catalogue", listed(*some_files(200)), Inspecting())
    monkeypatch.chdir(tmp_path)
    lines = [line for line in page()[0].splitlines() if re.match(r"\$ graphwire fleet (query|uses)", line)]
    assert len(lines) > 3
    for line in lines:
        assert main(shlex.split(line)[2:]) == 0, line
    assert asked(tmp_path / "catalogue", "SELECT count(*) > 0 FROM nodes WHERE json_valid(arguments)") == [
        (True,)
    ]
