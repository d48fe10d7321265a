"""The table of exit codes in docs/command-line.md holds for every command: good input, problems, and what cannot be done."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from inside.cli import plugins as doctor

import graphwire
from graphwire.cli import COMMANDS

PAGE = (Path(__file__).parents[2] / "docs/command-line.md").read_text("utf-8")
SECTION = PAGE.partition("\n## Exit codes\n")[2].partition("\n## ")[0]
TABLE = {
    command: {code for code, cell in enumerate(cells.split(" | ")) if cell != "\u2013"}
    for command, cells in re.findall(r"^\| `([a-z-]+)` \| (.*) \|$", SECTION, re.MULTILINE)
}
"""The codes that a command has by the page."""
SUITE = shlex.quote(str(Path(__file__).parents[2] / "conformance"))
PYTHON = shlex.quote(sys.executable)


class Lines(NamedTuple):
    """Command lines, without `graphwire` and the command. MISSING and JUNK stand for files."""

    good: str
    problem: str | None
    impossible: list[str]
    junk: int = 2
    """The code for a file of another kind."""


READING = ["MISSING", "JUNK", "good.pt2 JUNK damaged.pt2"]
LINES = {
    "inspect": Lines("good.pt2", None, READING),
    "verify": Lines("good.pt2", "good.pt2 damaged.pt2 cut.pt2", READING),
    "view": Lines(
        "good.pt2 -o page.html --no-torch", None, ["FILE -o p.html", "good.pt2 -o good.pt2/p.html"]
    ),
    "diff": Lines("good.pt2 good.pt2", "good.pt2 other.pt2", ["good.pt2 FILE", "FILE other.pt2"]),
    "hash": Lines("--check same", "--check changed", ["FILE", "--check FILE", "--check same --check broken"]),
    "targets": Lines("good.pt2 --target 2.6", "good.pt2 --target 2.3", ["FILE --target 2.6"]),
    "convert": Lines("good.pt2 new.pt2", None, ["FILE x.pt2", "good.pt2 x.pt2 --target 2.3"]),
    "upgrade": Lines(
        "good.pt2 -o new.pt2",
        "other.pt2 --dry-run --opset aten=9",
        ["FILE -o x.pt2", "FILE --dry-run"],
    ),
    "strip": Lines("good.pt2 -o new.pt2", None, ["FILE -o x.pt2", "FILE --in-place"]),
    "weights": Lines("good.pt2 -o new.safetensors", None, ["FILE", "good.pt2 -o same"]),
    "blobs": Lines("verify blobs", "verify damaged", ["verify FILE", "gc blobs --dry-run --programs FILE"]),
    "plugins": Lines("", None, ["--what"]),
    "new-plugin": Lines("mine --kind format", None, ["torch --kind format", "mine --kind format"]),
    "check-plugin": Lines(
        "ops",
        "stores --location ../x --only wrote",
        ["nobody", "json --only qqq"],
    ),
    "doctor": Lines("", "", ["--what"]),
    "completion": Lines("zsh", None, ["csh"]),
    "schema": Lines("", None, ["nothing"]),
    "neutral": Lines("good.pt2", "damaged.pt2", ["FILE"], junk=1),
    "conformance": Lines(
        f"--suite {SUITE} --only documents/simple -- {PYTHON} -m graphwire neutral",
        f"--suite {SUITE} --only documents/simple -- false",
        [
            "--suite MISSING -- true",
            f"--suite {SUITE} -- ./MISSING",
            f"--suite {SUITE} --only qqq -- true",
        ],
    ),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("codes")
    sizes = ({0: torch.export.Dim("batch", min=0)},)
    good = torch.export.export(torch.nn.Linear(4, 2), (torch.ones(3, 4),), dynamic_shapes=sizes)
    graphwire.save(good, folder / "good.pt2")
    graphwire.save(
        torch.export.export(torch.nn.GELU("tanh"), (torch.ones(2, dtype=torch.float16),)),
        folder / "other.pt2",
    )
    data = (folder / "good.pt2").read_bytes()
    (folder / "cut.pt2").write_bytes(data[: len(data) // 2])
    weight = bytes(good.state_dict["weight"].detach().numpy())
    (folder / "damaged.pt2").write_bytes(data.replace(weight, bytes(len(weight))))
    for name in ("blobs", "damaged"):
        graphwire.save(good, folder / f"{name}.pt2.of", weights=graphwire.Blobs(folder / name))
    for blob in (folder / "damaged").glob("??/*"):
        blob.write_bytes(bytes(blob.stat().st_size))
    line = f"{graphwire.content_hash(good)}  good.pt2\n"
    (folder / "same").write_text(line)
    (folder / "changed").write_text(line.replace(line[4:8], "0000"))
    (folder / "broken").write_text("what")
    (folder / "JUNK").write_text("hello")
    return folder


def test_the_page_names_every_command() -> None:
    assert list(TABLE) == list(COMMANDS) == list(LINES)
    assert {name for name, lines in LINES.items() if lines.problem is not None} == {
        name for name, codes in TABLE.items() if 1 in codes
    }


def test_the_help_names_the_codes_that_a_command_has(run) -> None:
    said = {
        name
        for name in COMMANDS
        if "1 problems or differences" in " ".join(run(name, "--help").stdout.split())
    }
    assert said == {name for name, codes in TABLE.items() if 1 in codes}


@pytest.mark.parametrize(
    "command", [pytest.param(each, marks=[pytest.mark.slow] * (each == "check-plugin")) for each in LINES]
)
def test_a_command_ends_as_the_page_says(command: str, made: Path, tmp_path: Path, monkeypatch, run) -> None:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doctor, "_ROUND_TRIP", "")
    good, problem, impossible, junk = LINES[command]

    def ends(line: str) -> int:
        done = run(command, *shlex.split(line))
        assert "Traceback" not in done.stderr
        assert "a defect of graphwire" not in done.stderr
        return done.returncode

    assert ends(good) == 0
    if problem is not None:
        monkeypatch.setattr(doctor, "_ROUND_TRIP", "raise SystemExit('torch is broken')")
        assert ends(problem) == 1
    for line in impossible:
        assert ends(line.replace("FILE", "MISSING")) == 2, line
        assert ends(line.replace("FILE", "JUNK")) == (junk if "FILE" in line else 2), line
