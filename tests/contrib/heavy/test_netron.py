"""Netron's own reader, without its window, finds in our default file what it finds in torch's file of the same program."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import graphwire

netron = pytest.importorskip("netron", reason="needs the extra `contrib`: make test-contrib")
NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="needs node: Netron is written in JavaScript")

HERE = Path(__file__).parent
ROOT = HERE.parents[2]

for _folder in ("tests/constructs", "tests/operators"):
    sys.path.append(str(ROOT / _folder))

KEPT_AS_SYMBOLS = "symbols: unbacked values that turn out to be known"
"""A value that tracing found to be 4 is a symbolic integer in the program, and stays one in our file; in torch's it is 4, and
Netron 9.3 reads no other."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Netron's modules, which say that they are modules."""
    folder = tmp_path_factory.mktemp("netron") / "netron"
    shutil.copytree(Path(netron.__file__).parent, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    return folder


def read(folder: Path, files: list[Path]) -> list[dict[str, Any]]:
    """What Netron finds in files; of one that it cannot read, `failed`."""
    assert NODE is not None
    command = [NODE, HERE / "read_with_netron.mjs", folder, *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    # Counters of generated code, which a file of ours replaces.
    return list(json.loads(re.sub(r"<eval_with_key>\.[0-9]+", "<eval_with_key>", done.stdout)))


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> Any:
        chosen = torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))
        return self.linear(chosen).split(2, dim=1)


def nodes(graph: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from graph["nodes"]
    for inner in graph["graphs"]:
        yield from nodes(inner)


@pytest.mark.parametrize("options", [{}, {"compress": False}, {"target": "torch"}])
def test_every_call_shows_its_source(options: dict[str, Any], folder: Path, tmp_path: Path) -> None:
    program = torch.export.export(Model(), (torch.ones(3, 4),))
    graphwire.save(program, tmp_path / "ours.pt2", **options)
    torch.export.save(program, tmp_path / "torch.pt2")
    ours, theirs = read(folder, [tmp_path / "ours.pt2", tmp_path / "torch.pt2"])
    assert ours == theirs
    (graph,) = ours["graphs"]
    traces = {node["type"]: node["metadata"]["stack_trace"] for node in nodes(graph)}
    assert traces.keys() >= {"higher_order::cond", "aten::sin", "aten::cos", "aten::linear"}
    assert all(", in forward" in trace for trace in traces.values())


def test_every_construct_is_read_as_in_torchs_file(folder: Path, tmp_path: Path) -> None:
    from construct import quiet
    from families import CONSTRUCTS

    names, files = [], []
    for number, (name, construct) in enumerate(CONSTRUCTS.items()):
        if construct.refusal is not None:
            continue
        ours, theirs = tmp_path / f"{number}.ours.pt2", tmp_path / f"{number}.torch.pt2"
        with quiet():
            program = construct.program()
            try:
                torch.export.save(program, theirs)
            except Exception:
                continue  # what torch has no words for
            graphwire.save(program, ours)
        with graphwire.open(ours) as archive:
            readable = "placement" not in archive.program.requires
        if readable and name != KEPT_AS_SYMBOLS:
            names.append(name)
            files += [ours, theirs]
    found = read(folder, files)
    compared = 0
    for name, ours, theirs in zip(names, found[::2], found[1::2], strict=True):
        if "failed" not in theirs:
            assert ours == theirs, name
            compared += 1
    assert compared > 100
