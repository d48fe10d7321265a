"""Single measurements beside what each is to be compared with: threads, graphs without weights, whole processes, and other
libraries for the part of the work that they do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tables import Comparison
from timing import Step, interleaved

if TYPE_CHECKING:
    from torch.export import ExportedProgram

__all__ = [
    "compare_chains",
    "compare_modules",
    "compare_others",
    "compare_stores",
    "compare_threads",
    "compare_weights",
]

_THREADS = 8


class _Bench:
    """What a measurement needs: how often, by which clock, and whom to tell."""

    def __init__(self, turns: int, clock: Callable[[], float], done: Callable[[str], object]) -> None:
        self.turns = turns
        self.clock = clock
        self.done = done

    def __call__(
        self, what: str, ours: Callable[[], object], against: str, theirs: Callable[[], object]
    ) -> Comparison:
        steps = {what: Step(ours), against: Step(theirs)}
        seconds = interleaved(steps, turns=self.turns, clock=self.clock, done=self.done)
        return Comparison(what, seconds[what], against, seconds[against])


def compare_threads(
    folder: Path, turns: int, clock: Callable[[], float], done: Callable[[str], object]
) -> list[Comparison]:
    """Eight threads that load eight programs, beside one thread that loads all of them. By the wall clock only."""
    from cases import PROGRAMS

    import graphwire

    file = folder / "threads.pt2"
    graphwire.save(PROGRAMS["decoder-12-dynamic"](), file)

    def in_threads() -> None:
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(graphwire.load, [file] * _THREADS))

    def in_one() -> None:
        for _ in range(_THREADS):
            graphwire.load(file)

    compare = _Bench(turns, clock, done)
    return [
        compare(f"{_THREADS} threads load a program each", in_threads, "one thread loads them all", in_one)
    ]


def compare_modules(
    folder: Path, turns: int, clock: Callable[[], float], done: Callable[[str], object]
) -> list[Comparison]:
    """A load and what comes next for most, beside torch's."""
    import torch
    from cases import PROGRAMS

    import graphwire

    program = PROGRAMS["decoder-12-dynamic"]()
    ours, theirs = folder / "ours.pt2", folder / "theirs.pt2"
    graphwire.save(program, ours)
    torch.export.save(program, theirs)
    compare = _Bench(turns, clock, done)
    return [
        compare(
            "load and module(), decoder-12",
            lambda: graphwire.load(ours).module(),
            "torch.export.load and module()",
            lambda: torch.export.load(theirs).module(),
        )
    ]


def compare_weights(
    folder: Path, mebibytes: int, turns: int, clock: Callable[[], float], done: Callable[[str], object]
) -> list[Comparison]:
    """A file of many weights, beside one of the same graph that has few."""
    from cases import weighty

    import graphwire

    large, small = folder / "large.pt2", folder / "small.pt2"
    graphwire.save(weighty(mebibytes), large)
    graphwire.save(weighty(16), small)
    compare = _Bench(turns, clock, done)

    def process(*arguments: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, *arguments], check=True, capture_output=True)

    return [
        compare(
            f"graph only, of {mebibytes:,} MiB",
            lambda: graphwire.load(large, weights=None),
            "graph only, of 16 MiB",
            lambda: graphwire.load(small, weights=None),
        ),
        compare(
            f"process: graphwire inspect, {mebibytes:,} MiB",
            process("-m", "graphwire", "inspect", str(large)),
            "process: python that does nothing",
            process("-c", "pass"),
        ),
    ]


def compare_stores(
    folder: Path, mebibytes: int, turns: int, clock: Callable[[], float], done: Callable[[str], object]
) -> list[Comparison]:
    """Weights outside of the program's file, beside the library of their format and torch's own pair."""
    import torch
    from cases import weighty
    from safetensors.torch import load_file, save_file

    import graphwire

    program = weighty(mebibytes)
    inside, beside, stored = folder / "inside.pt2", folder / "beside.pt2", folder / "stored.safetensors"
    tensors = {name: each.detach() for name, each in program.state_dict.items()}
    torch.export.save(program, inside)
    save_file(tensors, stored)
    size = f"{mebibytes:,} MiB"
    compare = _Bench(turns, clock, done)
    refer = graphwire.Checkpoint(stored)
    names = graphwire.Checkpoint(stored, check="names")
    graphwire.save(program, beside, weights=refer)

    def write() -> None:
        graphwire.save(program, folder / "w.pt2", weights=folder / "w.safetensors")
        (folder / "w.safetensors").unlink()

    return [
        compare(
            f"save, {size} to safetensors",
            write,
            "safetensors save_file, not synced",
            lambda: save_file(tensors, folder / "l.safetensors"),
        ),
        compare(
            f"save, {size} referred to and compared",
            lambda: graphwire.save(program, folder / "r.pt2", weights=refer),
            "torch.export.save",
            lambda: torch.export.save(program, folder / "t.pt2"),
        ),
        compare(
            f"save, {size} referred to by names",
            lambda: graphwire.save(program, folder / "n.pt2", weights=names),
            "graph only, saved",
            lambda: graphwire.save(program, folder / "g.pt2", weights=None),
        ),
        compare(
            f"load, {size} of safetensors, mapped",
            lambda: graphwire.load(beside),
            "safetensors load_file",
            lambda: load_file(stored),
        ),
        compare(
            f"load, {size} of safetensors, mapped again",
            lambda: graphwire.load(beside),
            "torch.export.load",
            lambda: torch.export.load(inside),
        ),
    ]


def compare_chains(
    folder: Path,
    nodes: tuple[int, int],
    turns: int,
    clock: Callable[[], float],
    done: Callable[[str], object],
) -> list[Comparison]:
    """A graph of many nodes beside one of a tenth of them: linear is 10."""
    from cases import chain

    import graphwire

    few, many = (chain(count) for count in nodes)
    files = {count: folder / f"chain-{count}.pt2" for count in nodes}
    compare = _Bench(turns, clock, done)
    return [
        compare(
            f"save {nodes[1]:,} nodes",
            lambda: graphwire.save(many, files[nodes[1]]),
            f"save {nodes[0]:,} nodes",
            lambda: graphwire.save(few, files[nodes[0]]),
        ),
        compare(
            f"load {nodes[1]:,} nodes",
            lambda: graphwire.load(files[nodes[1]]),
            f"load {nodes[0]:,} nodes",
            lambda: graphwire.load(files[nodes[0]]),
        ),
    ]


def compare_others(
    folder: Path, mebibytes: int, turns: int, clock: Callable[[], float], done: Callable[[str], object]
) -> list[Comparison]:
    """What else is installed: safetensors, which keeps weights alone, and ONNX, which keeps another graph."""
    from cases import PROGRAMS, weighty

    compare = _Bench(turns, clock, done)
    rows = list(_safetensors(folder, weighty(mebibytes), compare)) if find_spec("safetensors") else []
    if find_spec("onnxscript"):
        rows += _onnx(folder, PROGRAMS["decoder-12-dynamic"](), compare)
    return rows


def _safetensors(folder: Path, program: ExportedProgram, compare: _Bench) -> Iterator[Comparison]:
    from safetensors.torch import load_file, save_file

    import graphwire

    ours, theirs = folder / "weights.pt2", folder / "weights.safetensors"
    tensors = {name: tensor.detach() for name, tensor in program.state_dict.items()}

    def save_synced() -> None:
        save_file(tensors, theirs)
        with theirs.open("rb") as stream:
            os.fsync(stream.fileno())

    yield compare(
        "save, mostly weights", lambda: graphwire.save(program, ours), "safetensors, synced", save_synced
    )
    yield compare(
        "load, mostly weights", lambda: graphwire.load(ours), "safetensors", lambda: load_file(theirs)
    )


def _onnx(folder: Path, program: ExportedProgram, compare: _Bench) -> Iterator[Comparison]:
    import onnx
    import torch

    import graphwire

    ours, theirs = folder / "decoder.pt2", folder / "decoder.onnx"
    inputs: Any = program.example_inputs
    exported = torch.onnx.export(program, inputs[0], kwargs=inputs[1], dynamo=True, verbose=False)
    assert exported is not None
    yield compare(
        "save, decoder-12",
        lambda: graphwire.save(program, ours),
        "ONNX, already exported",
        lambda: exported.save(theirs),
    )
    yield compare(
        "load, decoder-12", lambda: graphwire.load(ours), "onnx.load, not runnable", lambda: onnx.load(theirs)
    )
