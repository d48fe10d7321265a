"""A program that is nearly all weights: saves, and loads that read some or all, beside torch and plain writing and reading."""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from samples import Row
from timing import Bench, Step, interleaved

if TYPE_CHECKING:
    from torch.export import ExportedProgram

__all__ = ["measure"]


def measure(bench: Bench) -> Iterator[Row]:
    """Times of all actions, and what each save and load adds to the memory of a fresh process."""
    import torch
    from cases import weighty
    from peak_memory import extra_bytes

    import graphwire

    mebibytes = 1024 if bench.large else 256
    name = f"weights/{mebibytes} MiB"
    program = weighty(mebibytes)
    weights = [*program.state_dict.values()]
    plain, ours, theirs = (bench.folder / each for each in ("plain.bin", "graphwire.pt2", "torch.pt2"))

    steps = {
        ("plain", "write"): Step(lambda: _write(weights, plain)),
        ("graphwire", "save"): Step(lambda: graphwire.save(program, ours)),
        ("torch.export", "save"): Step(
            lambda: torch.export.save(program, theirs),
            lambda: theirs.unlink(missing_ok=True),
            lambda: _sync(theirs),
        ),
        ("graphwire", "load"): Step(lambda: graphwire.load(ours)),
        ("torch.export", "load"): Step(lambda: torch.export.load(theirs)),
        ("graphwire", "load and read"): Step(lambda: _read(graphwire.load(ours))),
        ("torch.export", "load and read"): Step(lambda: _read(torch.export.load(theirs))),
        ("plain", "write and hash"): Step(lambda: _write(weights, plain, hashlib.sha256())),
        ("plain", "read and hash"): Step(lambda: _read_back(plain, _CHUNK_BYTES)),
        ("plain", "read all and hash"): Step(lambda: _read_back(plain, mebibytes << 20)),
        ("graphwire", "load, verify"): Step(lambda: graphwire.load(ours, verify=True)),
        ("graphwire", "load, copy"): Step(lambda: graphwire.load(ours, copy=True)),
    }
    times = interleaved(
        {f"{library}, {action}": step for (library, action), step in steps.items()},
        turns=min(bench.turns, 3),
        done=lambda step: bench.done(f"{name}: {step}"),
    )
    for library, action in steps:
        yield from times[f"{library}, {action}"].rows(f"{name}/{library}", action)
    for library, file in (("graphwire", ours), ("torch.export", theirs)):
        for action in ("save", "load"):
            bench.done(f"{name}: peak memory of {library} {action}")
            extra = extra_bytes(library, action, f"weighty-{mebibytes}", file)
            if extra is not None:
                yield Row(f"{name}/{library}", f"{action}, extra memory", "B", [extra])


def _write(tensors: Sequence[Any], file: Path, digest: Any = None) -> None:
    """Write the bytes of tensors as a save has to: in chunks that fit the processor's cache, synced, in place of an old file.

    Args:
        digest: what hashes the chunks too.
    """
    new = file.with_suffix(".part")
    with new.open("wb", buffering=0) as stream:
        for memory in map(_memory, tensors):
            for start in range(0, memory.nbytes, _CHUNK_BYTES):
                stream.write(memory[start : start + _CHUNK_BYTES])
                if digest is not None:
                    digest.update(memory[start : start + _CHUNK_BYTES])
        os.fsync(stream.fileno())
    new.replace(file)


_CHUNK_BYTES = 1 << 19


def _read_back(file: Path, room: int) -> bytes:
    """Read a file into memory of `room` bytes, again and again if it is larger, in chunks, and hash what was read."""
    digest, memory, at = hashlib.sha256(), memoryview(mmap.mmap(-1, room)), 0
    with file.open("rb", buffering=0) as stream:
        while count := stream.readinto(memory[at : at + _CHUNK_BYTES]):
            digest.update(memory[at : at + count])
            at = (at + count) % room
    return digest.digest()


def _memory(tensor: Any) -> memoryview:
    """The bytes of a contiguous tensor, without a copy and without NumPy."""
    return memoryview((ctypes.c_char * tensor.nbytes).from_address(tensor.data_ptr())).cast("B")


def _read(program: ExportedProgram) -> float:
    """Touch every page of every weight: one number of each 4,096 bytes."""
    return sum(float(tensor.detach().flatten()[::1024].sum()) for tensor in program.state_dict.values())


def _sync(file: Path) -> None:
    """Have a file that was written on the disk now, so that the next step does not wait for it."""
    with file.open("rb") as stream:
        os.fsync(stream.fileno())
