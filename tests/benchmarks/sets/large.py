"""Commands on programs of many nodes, and on programs with more weights than memory: time and peak memory of each process."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from samples import Row
from timing import Bench

__all__ = ["commands_on", "measure", "measured", "sparse_weights"]


def measure(bench: Bench) -> Iterator[Row]:
    """Of 100,000 nodes, of 200 GiB, and of 20 GiB that are read, with `--large`; else of a tenth of each."""
    share = 1 if bench.large else 10
    yield from _weights(bench, 200 // share, "names")
    yield from _weights(bench, 20 // share, "bytes")
    yield from _nodes(bench, 100_000 // share)


def measured(bench: Bench, name: str, action: str, command: Sequence[str | Path]) -> Iterator[Row]:
    """Rows of one process: its seconds, and the peak of its own memory. Only `diff`, which finds differences, ends with 1."""
    bench.done(f"{name}: {action}")
    started, peak = time.perf_counter(), 0
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
        peak = max(peak, _own_memory(process.pid))
        time.sleep(0.02)
    wall, (_, status, used) = time.perf_counter() - started, ended
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != (1 if action == "diff" else 0):
        raise RuntimeError(f"{action} ended with {process.returncode}")
    yield Row(name, action, "s", [wall])
    yield Row(name, action, "cpu s", [used.ru_utime + used.ru_stime])
    if peak:
        yield Row(name, f"{action}, memory", "B", [peak])


def _own_memory(process: int) -> int:
    """The bytes that a process has for itself, without pages of files that are mapped; 0 where `/proc` does not tell."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    return next(
        (int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("RssAnon:")), 0
    )


def commands_on(file: Path, other: Path, folder: Path) -> dict[str, list[str | Path]]:
    """Every command that a person runs on a file, by its name; `other` is the file to compare with."""
    written = folder / "written.pt2"
    words: dict[str, list[str | Path]] = {
        "inspect": ["inspect", file],
        "verify": ["verify", file],
        "hash": ["hash", file],
        "diff": ["diff", file, other],
        "targets": ["targets", file],
        "weights": ["weights", file],
        "neutral": ["neutral", file],
        "convert": ["convert", file, written, "--format", "msgpack"],
        "convert --target": ["convert", file, written, "--format", "json", "--target", "torch-2.6"],
        "upgrade": ["upgrade", file, "--output", written],
        "strip": ["strip", file, "--output", written],
        "view": ["view", file, "--output", folder / "page.html"],
    }
    return {name: [sys.executable, "-m", "graphwire", *each] for name, each in words.items()}


SAVE_UNROLLED = """
import sys, time
sys.path.append(sys.argv[1])
import cases, graphwire
graphwire.save(cases.unrolled(int(sys.argv[2]), calls_fewer=int(sys.argv[3])), sys.argv[4])
"""
_IN_PYTHON = {
    "load": "graphwire.load(sys.argv[1])",
    "load and module()": "graphwire.load(sys.argv[1]).module()",
    "load the graph alone": "graphwire.load(sys.argv[1], weights=None)",
    "load and save": "graphwire.save(graphwire.load(sys.argv[1]), sys.argv[1] + '.saved')",
}


def _python(code: str, *arguments: str | Path) -> list[str | Path]:
    return [sys.executable, "-W", "ignore", "-c", f"import sys, graphwire; {code}", *arguments]


def _nodes(bench: Bench, nodes: int) -> Iterator[Row]:
    """A decoder that is called again and again, 2.5 KB of JSON for each node."""
    name = f"large/{nodes:,} nodes"
    file, other = bench.folder / "unrolled.pt2", bench.folder / "other.pt2"
    here = Path(__file__).resolve().parents[1]
    for each, fewer in ((file, "0"), (other, "1")):
        bench.done(f"{name}: made")
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", SAVE_UNROLLED, here, str(nodes), fewer, each], check=True
        )
    for action, command in commands_on(file, other, bench.folder).items():
        (bench.folder / "written.pt2").unlink(missing_ok=True)
        yield from measured(bench, name, action, command)
    yield Row(name, "page", "B", [(bench.folder / "page.html").stat().st_size])
    for action, code in _IN_PYTHON.items():
        yield from measured(bench, name, action, _python(code, file))


SAVE_MAPPED = """
import mmap, sys, torch, graphwire
class Model(torch.nn.Module):
    def __init__(self, tensors):
        super().__init__()
        self.weights = torch.nn.ParameterList(tensors)
    def forward(self, x):
        for weight in self.weights:
            x = x + weight[0]
        return x
file, count, rows, start, out, check = sys.argv[1], *map(int, sys.argv[2:5]), *sys.argv[5:]
size = 4096 * rows
with open(file, "rb") as stream:
    maps = [
        mmap.mmap(stream.fileno(), size, access=mmap.ACCESS_READ, offset=start + size * index) for index in range(count)
    ]
tensors = [torch.frombuffer(each, dtype=torch.float32).view(rows, 1024) for each in maps]
program = torch.export.export(Model(tensors), (torch.rand(1024),))
names = {f"weights.{index}": f"w{index}" for index in range(count)}
graphwire.save(program, out, weights=graphwire.Checkpoint(file, names=names, check=check))
"""


def sparse_weights(file: Path, tensors: int, rows: int) -> int:
    """Write a safetensors file of tensors of `rows` rows of 4 KiB, as holes that take no disk, and return where they begin."""
    size = 4096 * rows
    header = {
        f"w{index}": {
            "dtype": "F32",
            "shape": [rows, 1024],
            "data_offsets": [size * index, size * (index + 1)],
        }
        for index in range(tensors)
    }
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % 4096)
    with file.open("wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        stream.truncate(8 + len(text) + size * tensors)
    return 8 + len(text)


def _weights(bench: Bench, gibibytes: int, check: str) -> Iterator[Row]:
    """Weights that are holes of a sparse file: they are read as zeros, and take no disk.

    Args:
        check: `bytes`, so that a save reads all elements, and `verify` again; or `names`, so that neither reads any.
    """
    name, tensors = f"large/{gibibytes} GiB, {'read' if check == 'bytes' else 'not read'}", 40
    stored, file = bench.folder / "sparse.safetensors", bench.folder / "sparse.pt2"
    rows = gibibytes * 2**18 // tensors
    facts = str(tensors), str(rows), str(sparse_weights(stored, tensors, rows)), file, check
    command = [sys.executable, "-W", "ignore", "-c", SAVE_MAPPED, stored, *facts]
    yield from measured(bench, name, "save by reference", command)
    for action in ("inspect", "weights", "verify"):
        yield from measured(bench, name, action, [sys.executable, "-m", "graphwire", action, file])
    for action in ("load the graph alone", "load"):
        yield from measured(bench, name, action, _python(_IN_PYTHON[action], file))
    stored.unlink()
