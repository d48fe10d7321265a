"""Loading where memory is short, by sixteen threads at once: an error or a program, and no crash."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.export import export

import graphwire

_LOAD = """
import resource, sys, threading
from pathlib import Path
import graphwire

graphwire.load(sys.argv[1])
outcomes, go = [], threading.Event()

def load(copy):
    go.wait()
    try:
        graphwire.load(sys.argv[1], copy=copy)
        outcomes.append("loaded")
    except MemoryError:
        outcomes.append("memory")
    except graphwire.errors.GraphwireError:
        outcomes.append("refused")

threads = [threading.Thread(target=load, args=(index % 2 == 0,)) for index in range(16)]
for thread in threads:
    thread.start()
pages = int(Path("/proc/self/statm").read_text().split()[0])
limit = pages * resource.getpagesize() + int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
go.set()
for thread in threads:
    thread.join()
print(*outcomes)
"""


@pytest.mark.slow
def test_sixteen_threads_load_where_memory_is_short(tmp_path: Path) -> None:
    path = tmp_path / "program.pt2"
    graphwire.save(export(nn.Linear(3000, 3000), (torch.ones(1, 3000),)), path)  # 36 MB of weights
    command = [sys.executable, "-W", "ignore", "-c", _LOAD, str(path), str(24 << 20)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    outcomes = done.stdout.split()
    assert len(outcomes) == 16, done.stderr
    assert "memory" in outcomes
    assert set(outcomes) <= {"loaded", "memory", "refused"}
