"""Sizes that old readers do not read as they are: an obstacle, or narrowed where the caller says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import Dim, ExportedProgram, export

import graphwire
from graphwire import WriteReport
from graphwire.cli import main
from graphwire.errors import EncodeError, TargetError

READ_FROM = {"torch-2.1": 2, "torch-2.2": 1, "torch-2.3": 1, "torch-2.4": 0}
"""The least that a range begins with which the releases' own readers read: measured with 2.1.0, 2.2.2 and 2.3.1."""


class _Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(x.shape[0] * 3) + 1


def _program(least: int, most: int | None = None) -> ExportedProgram:
    return export(_Model(), (torch.ones(4, 3),), dynamic_shapes=({0: Dim("s", min=least, max=most)},))


def _ranges(file: Any) -> list[tuple[int | None, int | None]]:
    with graphwire.open(file) as archive:
        return [(each.min_val, each.max_val) for each in archive.program.range_constraints.values()]


@pytest.mark.parametrize("target", READ_FROM)
@pytest.mark.parametrize("least", [0, 1, 2, 3])
def test_a_range_is_refused_for_the_releases_that_do_not_read_it_and_written_narrower_if_asked(
    target: str, least: int
) -> None:
    program = _program(least)
    is_read = least >= READ_FROM[target]
    assert (not graphwire.supports(program, target)) is is_read
    if not is_read:
        with pytest.raises(TargetError, match="a size that may be 0"):
            graphwire.dumps(program, target=target)
    reports: list[WriteReport] = []
    data = graphwire.dumps(program, target=target, ranges="narrowed", report=reports.append)
    assert not graphwire.supports(program, target, ranges="narrowed")
    assert [low for low, _ in _ranges(data)] == [least if is_read else 2]
    told = [(each.method, each.given, each.written) for each in reports[0].narrowed]
    assert told == ([] if is_read else [("model", least, 2)])
    assert (reports[0].target, len(reports)) == (target, 1)
    assert ("begins at 2, in the program at" in str(reports[0])) is not is_read


def test_a_size_that_is_0_or_1_alone_cannot_be_narrowed() -> None:
    record, _ = graphwire.to_schema(_program(0, 4))
    symbol = next(iter(record.range_constraints))
    tight = type(record.range_constraints[symbol])(0, 1)
    record.range_constraints = {symbol: tight}
    assert [each.first for each in graphwire.supports(record, "torch-2.3", ranges="narrowed")] == [
        "torch-2.4"
    ]


def test_ranges_are_narrowed_for_an_older_reader_alone() -> None:
    with pytest.raises(EncodeError, match="only for an older reader"):
        graphwire.dumps(_program(0), ranges="narrowed")
    with pytest.raises(EncodeError, match="not one of 'exact', 'narrowed'"):
        graphwire.dumps(_program(0), target="torch-2.3", ranges="wide")  # type: ignore[arg-type]


def test_the_command_line_says_which_ranges_became_narrower(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, destination = tmp_path / "model.pt2", tmp_path / "old.pt2"
    graphwire.save(_program(0, 9), source)
    options = [str(source), str(destination), "--format", "json", "--target", "torch-2.2"]
    assert main(["convert", *options]) == 2
    assert not destination.exists()
    capsys.readouterr()
    assert main(["convert", *options, "--ranges", "narrowed"]) == 0
    assert "begins at 2, in the program at 0" in capsys.readouterr().out
    assert _ranges(destination) == [(2, 9)]
