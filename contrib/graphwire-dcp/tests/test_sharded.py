"""Programs whose weights several processes saved, each its part: DTensors in many layouts, and the state of an optimizer."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from msgspec.structs import replace

import graphwire
from graphwire.errors import GraphwireWarning

HERE = Path(__file__).parent
_SPEC = importlib.util.spec_from_file_location("sharded_saves", HERE / "sharded_saves.py")
assert _SPEC is not None
assert _SPEC.loader is not None
sharded_saves = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(sharded_saves)

X = torch.linspace(-1, 1, 10, dtype=torch.float64).view(2, 5)

FRESH = """
import sys, torch, graphwire
program = graphwire.load(sys.argv[1], verify=True)
torch.save((program.state_dict, program.module()(torch.load(sys.argv[2]))), sys.argv[3])
"""
WITHOUT_TORCH = """
import json, sys
from graphwire.cli import main
for line in json.loads(sys.argv[1]):
    code = main(line)
    assert code == 0, (code, line)
    print(end="\\0")
assert "torch" not in sys.modules
"""


def run(code: str, *arguments: str | Path) -> str:
    command = [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def commands(*lines: list[str | Path]) -> list[str]:
    """The output of each command line, all run by one process that has no torch."""
    return run(WITHOUT_TORCH, json.dumps([[str(each) for each in line] for line in lines])).split("\0")


def exported(model: torch.nn.Module, *inputs: torch.Tensor) -> torch.export.ExportedProgram:
    return torch.export.export(model.eval(), inputs)


def assert_same_weights(program: Any, model: torch.nn.Module) -> None:
    expected = model.state_dict()
    assert program.state_dict.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(program.state_dict[name], value), name


@pytest.fixture(scope="module")
def saves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoints of `sharded_saves`, from two processes and from four."""
    folder = tmp_path_factory.mktemp("saves")
    command = [sys.executable, HERE / "sharded_saves.py", folder, "2", "4"]
    subprocess.run(command, check=True, timeout=300)
    return folder


@pytest.mark.parametrize("layout", [*sharded_saves.LAYOUTS, "training2", "training4", "async2", "async4"])
def test_weights_that_processes_divided_come_back(layout: str, saves: Path, tmp_path: Path) -> None:
    model = sharded_saves.make_model()
    checkpoint, file = saves / layout, tmp_path / "m.pt2"
    if layout in sharded_saves.LAYOUTS:
        graphwire.save(exported(model, X), file, weights=graphwire.Checkpoint(checkpoint))
    else:
        with pytest.warns(GraphwireWarning, match=r"with 'model\.' before them"):
            graphwire.save(exported(model, X), file, weights=graphwire.Checkpoint(checkpoint))
    with warnings.catch_warnings(action="ignore"):
        program = graphwire.load(file, weights=checkpoint, verify=True)
    assert_same_weights(program, model)
    assert torch.equal(program.module()(X), model(X))


def test_a_fresh_process_and_every_command_read_them(saves: Path, tmp_path: Path) -> None:
    model = sharded_saves.make_model()
    file, data, result = tmp_path / "m.pt2", tmp_path / "x", tmp_path / "result"
    inside, again, link = tmp_path / "inside.pt2", tmp_path / "again.pt2", tmp_path / "link"
    shutil.copytree(saves / "grid", tmp_path / "weights")
    link.symlink_to(saves / "grid")  # the caller names it, so it may be a link
    graphwire.save(exported(model, X), file, weights=graphwire.Checkpoint(tmp_path / "weights"))
    torch.save(X, data)
    run(FRESH, file, data, result)
    state, output = torch.load(result)
    assert all(torch.equal(state[name], value) for name, value in model.state_dict().items())
    assert torch.equal(output, model(X))

    table, *_, outside_hash, inside_hash, _ = commands(
        ["weights", file, "--json"],
        ["verify", file],
        ["verify", file, "--weights-from", link],
        ["inspect", file],
        ["convert", file, inside, "--format", "json", "--weights", "in-file"],
        ["convert", inside, again, "--format", "json", "--weights", f"checkpoint:{tmp_path / 'weights'}"],
        ["hash", file],
        ["hash", inside],
    )
    assert "weights/.metadata" in table
    assert outside_hash.split()[0] == inside_hash.split()[0]
    assert_same_weights(graphwire.load(again), model)


def test_each_rank_reads_its_part_of_what_other_ranks_saved(saves: Path, tmp_path: Path) -> None:
    whole = sharded_saves.make_model()[2].weight.detach()  # 3 by 7
    part = torch.nn.Linear(7, 1, bias=False).double()
    part.weight = torch.nn.Parameter(whole[:1].clone())
    for layout in ("few_rows", "grid", "columns"):
        chosen = graphwire.Checkpoint(
            saves / layout, ranks=3, shard={"2.weight": 0}, names={"weight": "2.weight"}
        )
        file = tmp_path / f"{layout}.pt2"
        graphwire.save(exported(part, torch.ones(1, 7).double()), file, weights=chosen)
        for rank in range(3):
            program = graphwire.load(file, weights=replace(chosen, rank=rank), verify=True)
            assert torch.equal(program.state_dict["weight"], whole[rank : rank + 1])
