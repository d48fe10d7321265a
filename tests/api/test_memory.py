"""How much memory a large program takes while it is saved and loaded, measured in processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from nightly import by_day

_COMMON = """
import json, re, sys
import torch
import graphwire

def status(key):
    return int(re.search(rf"^{key}:\\s+(\\d+)", open("/proc/self/status").read(), re.M)[1]) << 10

class Model(torch.nn.Module):
    def __init__(self, rows):
        super().__init__()
        self.table = torch.nn.Parameter(torch.empty(rows, 1024).fill_(0.5))
        self.other = torch.nn.Parameter(torch.empty(rows, 1024).fill_(0.25))

    def forward(self, i):
        return self.table[i] + self.other[i]

def exported(rows):
    return torch.export.export(Model(rows), (torch.tensor([1]),))
"""

_SAVE = """
graphwire.save(exported(2), sys.argv[1] + ".small")  # everything that is imported once is imported
program = exported(int(sys.argv[3]))
open("/proc/self/clear_refs", "w").write("5")  # the peak is counted from here
before = status("VmHWM")
graphwire.save(program, sys.argv[1], format=sys.argv[2])
print(json.dumps(status("VmHWM") - before))
"""

_LOAD = """
graphwire.load(sys.argv[1] + ".small").module()(torch.tensor([1]))
before = status("VmRSS")
program = graphwire.load(sys.argv[1])
after = status("VmRSS")
assert program.module()(torch.tensor([int(sys.argv[2]) - 1])).tolist() == [[0.75] * 1024]
print(json.dumps(after - before))
"""

MIB = 1 << 20
ROWS = by_day(1 << 15, by_night=1 << 17)
"""Of two tables, each row of which has 4 KiB: a quarter of a gibibyte by day."""


def _measured(script: str, *arguments: str) -> int:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _COMMON + script, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    growth: int = json.loads(done.stdout)
    return growth


@pytest.mark.nightly
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="measured through Linux's /proc")
@pytest.mark.slow
def test_large_weights_are_saved_and_loaded_in_little_memory(tmp_path: Path) -> None:
    path = str(tmp_path / "large.pt2")
    try:
        assert _measured(_SAVE, path, "msgpack", str(ROWS)) < 64 * MIB
        assert Path(path).stat().st_size > ROWS << 13
        assert _measured(_LOAD, path, str(ROWS)) < 8 * MIB
    finally:
        Path(path).unlink(missing_ok=True)


_SAVE_OUTSIDE = """
program = exported(1 << 14)  # 2 x 64 MiB
graphwire.save(exported(2), sys.argv[1] + ".small", weights=sys.argv[1] + ".small.safetensors")
graphwire.save(program, sys.argv[1] + ".blobs", weights=graphwire.Blobs(sys.argv[1] + "-blobs"))
graphwire.save(program, sys.argv[1] + ".one", weights=sys.argv[1] + ".safetensors")
print(0)
"""

_LOAD_OUTSIDE = """
graphwire.load(sys.argv[1] + ".small").module()(torch.tensor([1]))
most = 0
for kind in ("one", "blobs"):
    before = status("VmRSS")
    program = graphwire.load(sys.argv[1] + "." + kind)
    most = max(most, status("VmRSS") - before)
    assert sum(value.nbytes for value in program.state_dict.values()) == 128 << 20
    assert program.module()(torch.tensor([16_000])).tolist() == [[0.75] * 1024]
    assert status("VmRSS") - before < 32 << 20, "what is used is read, and what is near it"
print(json.dumps(most))
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="measured through Linux's /proc")
@pytest.mark.slow
def test_weights_outside_are_mapped(tmp_path: Path) -> None:
    """Mapped memory that was touched counts too."""
    path = str(tmp_path / "large")
    _measured(_SAVE_OUTSIDE, path)
    assert _measured(_LOAD_OUTSIDE, path) < 8 * MIB
