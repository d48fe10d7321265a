"""The benchmark prints every row. What the rows say of time is for its readers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent

RUN = """
import sys
sys.path.insert(0, sys.argv[1])
import bench
for more in ([], ["--steps"]):
    sys.argv = ["bench.py", "--program", "lenet", "--runs", "1", "--clock", "cpu", "--no-weights", *more]
    assert bench.main() == 0
"""


@pytest.fixture(scope="module")
def printed() -> str:
    command = [sys.executable, "-c", RUN, str(FOLDER)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout


@pytest.mark.parametrize("way", ["torch.export", "json", "msgpack", "cbor"])
def test_a_program_has_a_row_for_each_way_to_save_it(printed: str, way: str) -> None:
    (row,) = (line for line in printed.splitlines() if line.startswith("│ lenet") and f" {way} " in line)
    cells = [cell.strip() for cell in row.strip("│").split("│")]
    assert len(cells) == 10
    assert all(cells) is (way != "torch.export"), (
        "ratios are to torch.export, and every other cell has a number"
    )


STEPS = {
    "save": ["storages found", "program → records", "records → bytes", "archive (deflate, checksums)",
             "archive to a synced, replaced file", "all of save"],
    "load": ["directory read", "bytes → records (inflate, decode)", "weights' configuration", "records checked",
             "records → program", "of which torch's verifiers", "of which generated code", "all of load"],
    "floor": ["msgspec: records → JSON", "msgspec: JSON → records", "zlib: deflate at level 6", "FX: nodes created",
              "torch: a fake tensor for each value", "torch: code of the graph generated"],
}  # fmt: skip


def test_each_step_of_a_save_and_a_load_has_a_row(printed: str) -> None:
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in printed.splitlines()]
    steps = [row for row in rows if len(row) == 3]
    assert [row[1] for row in steps] == [step for group in STEPS.values() for step in group]
    assert [row[0] for row in steps if row[0]] == list(STEPS)
    assert all(float(row[2]) >= 0 for row in steps)
