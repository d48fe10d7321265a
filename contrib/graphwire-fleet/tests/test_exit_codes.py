"""One table of exit codes for all commands: 0 good; 1 problems found in what was asked about; 2 could not do it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))

from fleet_files import listed, read
from graphwire_fleet.command import FleetCommand
from graphwire_fleet.reading import Inspecting, Targeting, Verifying

import graphwire
from graphwire.cli import main

WORDS: dict[str, dict[int, str]] = {
    "inspect": {0: "good -o out", 2: "cut -o out"},
    "verify": {0: "good -o out", 1: "wrong -o out", 2: "good absent -o out"},
    "targets": {0: "good -o out", 2: "good cut -o out"},
    "query": {0: "catalogue select-1", 2: "catalogue select-x"},
    "columns": {0: "", 2: "extra"},
    "compact": {0: "compacted", 2: "absent"},
    "uses": {0: "catalogue linear", 2: "catalogue lineal"},
    "plugins": {0: "catalogue", 2: "catalogue --distribution graphwire-absent"},
    "unreadable": {0: "catalogue torch-2.15", 1: "catalogue torch-2.6", 2: "catalogue torch-1.0"},
    "shared": {0: "catalogue", 2: "absent"},
    "changes": {0: "catalogue catalogue", 1: "catalogue other", 2: "catalogue absent"},
    "outdated": {0: "catalogue", 2: "good"},
    "failures": {0: "catalogue", 1: "other", 2: "absent"},
    "convert": {0: "good -o out --journal new", 2: "good cut -o out --journal new"},
    "upgrade": {
        0: "good -o out --journal new",
        1: "good -o out --dry-run --opset aten=99",
        2: "cut -o out --dry-run",
    },
    "undo": {0: "journal", 2: "spoiled"},
}
"""For each action, words with which it ends with each exit code that it can end with."""
CASES = [(name, code) for name, words in WORDS.items() for code in words]


def actions() -> dict[str, argparse.ArgumentParser]:
    parser = argparse.ArgumentParser()
    FleetCommand().add(parser)
    [found] = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    return dict(found.choices)


def test_every_action_has_a_row() -> None:
    assert WORDS.keys() == actions().keys()


def test_every_output_is_named_in_the_same_way() -> None:
    options = {name: set(parser._option_string_actions) for name, parser in actions().items()}
    assert {name for name, found in options.items() if "-o" in found} == {
        name for name, found in options.items() if "--output" in found
    }
    assert {name for name, found in options.items() if "-o" not in found} == {"columns", "compact", "undo"}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good file, a cut one and a wrong one; catalogues of the good one and of all; journals."""
    folder = tmp_path_factory.mktemp("places")
    good = folder / "good"
    good.mkdir()
    module = torch.nn.Linear(4, 4)
    graphwire.save(torch.export.export(module, (torch.ones(1, 4),)), good / "good.pt2")
    data = (good / "good.pt2").read_bytes()
    bias = data.index(module.bias.detach().numpy().tobytes())
    for name, content in (("cut", data[:9]), ("wrong", data[:bias] + b"wrong" + data[bias + 5 :])):
        (folder / name).mkdir()
        (folder / name / f"{name}.pt2").write_bytes(content)
    for name, paths in (("catalogue", [good]), ("other", [good, folder / "wrong"]), ("compacted", [good])):
        for work in (Inspecting(), Targeting(), Verifying()):
            read(folder / name, listed(*paths), work)
    for name in ("journal", "spoiled"):
        written = folder / f"{name}-new"
        assert main(["fleet", "convert", str(good), "-o", str(written), "--journal", str(folder / name)]) == 0
    (folder / "spoiled-new/good.pt2").write_bytes(b"changed since")
    return folder


@pytest.mark.parametrize(("name", "code"), CASES)
def test_an_action_ends_with_its_exit_code(
    name: str, code: int, places: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def word(text: str) -> str:
        if text.startswith("select"):
            return text.replace("-", " ")
        if text in ("out", "new"):
            return str(tmp_path / text)
        return str(places / text) if (places / text).exists() or text == "absent" else text

    monkeypatch.chdir(tmp_path)
    assert main(["fleet", name, *map(word, WORDS[name][code].split())]) == code


def test_junk_is_to_the_fleet_what_it_is_to_the_command_for_one_file(tmp_path: Path) -> None:
    junk = tmp_path / "junk.pt2"
    junk.write_bytes(b"#!/bin/sh\n")
    assert main(["fleet", "verify", str(junk), "-o", str(tmp_path / "out")]) == main(["verify", str(junk)])
