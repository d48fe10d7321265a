"""Plugins are found in plain files as `importlib.metadata` finds them; whatever is not plain is left to it."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from given_plugins import put_distribution
from inside.registry import _found_by_metadata, entry_points_in_files
from msgspec.structs import astuple

PLAIN = "[console_scripts]\nx = y:z\n\n[graphwire]\n# a comment\none = some.module\ntwo=other:an.object\n"


def distribution(folder: Path, entries: str | bytes, name: str = "My.Plugin") -> None:
    info = put_distribution(folder, name, "1.0rc1", "")
    (info / "entry_points.txt").write_bytes(entries.encode() if isinstance(entries, str) else entries)


@pytest.fixture
def path(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return tmp_path


def test_both_ways_find_the_same(path) -> None:
    distribution(path, PLAIN)
    distribution(path, "[other]\na = graphwire\n", "unrelated")
    found_in_files = entry_points_in_files("graphwire")
    assert found_in_files is not None
    lines = [*map(astuple, found_in_files)]
    assert ("My.Plugin", "1.0rc1", "two", "other", "an.object", "graphwire") in lines
    found = {(row.distribution, row.version, row.name) for row in _found_by_metadata()}
    assert {each[:3] for each in lines} == found
    assert ("graphwire", "json") in {(each.distribution, each.name) for each in found_in_files}


@pytest.mark.parametrize(
    "entries",
    [
        "[graphwire]\none = not a module\n",
        "[graphwire]\none = module:attribute [extra]\n",
        "[graphwire]\none = module\n  continued\n",
        "[graphwire]\n\xff = module\n".encode("latin-1"),
    ],
)
def test_what_is_not_plain_is_left_to_the_standard_library(entries, path) -> None:
    distribution(path, entries)
    assert entry_points_in_files("graphwire") is None


def test_unusual_paths_are_left_to_the_standard_library(path, monkeypatch) -> None:
    distribution(path, PLAIN)
    distribution(path / "second", PLAIN)
    with monkeypatch.context() as patched:
        patched.setattr(sys, "path", [*sys.path, str(path / "second")])
        assert entry_points_in_files("graphwire") is None, "one distribution twice"
    zipfile.ZipFile(path / "a.zip", "w").close()
    with monkeypatch.context() as patched:
        patched.setattr(sys, "path", [*sys.path, str(path / "a.zip")])
        assert entry_points_in_files("graphwire") is None, "an archive"
    finder = SimpleNamespace(find_distributions=list, __module__="other")
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    assert entry_points_in_files("graphwire") is None, "another finder"
