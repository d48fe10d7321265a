"""The command passes the contract tests of commands, and prints what it counts."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from graphwire_slabs.command import SlabsCommand

import graphwire
from graphwire.cli import main
from graphwire.testing import CommandContract


class TestSlabs(CommandContract):
    command = SlabsCommand()


def test_it_prints_the_operators_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = torch.export.export(torch.nn.ReLU(), (torch.ones(2),))
    graphwire.save(program, tmp_path / "model.pt2")
    assert main(["slabs", str(tmp_path / "model.pt2")]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'model.pt2'}: 1 torch.ops.aten.relu.default\n"
