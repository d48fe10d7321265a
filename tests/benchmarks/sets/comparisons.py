"""Single measurements beside what each is to be compared with: threads, graphs without weights, whole processes, and other
libraries for the part of the work that they do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

from samples import Row
from timing import Bench, compared

__all__ = ["measure"]

_THREADS = 8


def measure(bench: Bench) -> Iterator[Row]:
    """All comparisons; those with libraries that are not installed are dropped."""
    yield from _threads(bench)
    yield from _modules(bench)
    yield from _weights(bench)
    if find_spec("safetensors"):
        yield from _stores(bench)
        yield from _safetensors(bench)
    if find_spec("onnxscript"):
        yield from _onnx(bench)


def _mebibytes(bench: Bench) -> int:
    return 1024 if bench.large else 256


def _threads(bench: Bench) -> Iterator[Row]:
    """Eight threads that load eight programs, beside one thread that loads all of them."""
    from cases import PROGRAMS

    import graphwire

    file = bench.folder / "threads.pt2"
    graphwire.save(PROGRAMS["decoder-12-dynamic"](), file)

    def in_threads() -> None:
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(graphwire.load, [file] * _THREADS))

    def in_one() -> None:
        for _ in range(_THREADS):
            graphwire.load(file)

    name = f"beside/{_THREADS} threads load one program each"
    yield from compared(bench, name, in_threads, "one thread loads all", in_one)


def _modules(bench: Bench) -> Iterator[Row]:
    """A load and what comes next for most, beside torch's."""
    import torch
    from cases import PROGRAMS

    import graphwire

    program = PROGRAMS["decoder-12-dynamic"]()
    ours, theirs = bench.folder / "ours.pt2", bench.folder / "theirs.pt2"
    graphwire.save(program, ours)
    torch.export.save(program, theirs)
    yield from compared(
        bench,
        "beside/load and `module()`, decoder of 12 layers",
        lambda: graphwire.load(ours).module(),
        "`torch.export.load` and `module()`",
        lambda: torch.export.load(theirs).module(),
    )


def _weights(bench: Bench) -> Iterator[Row]:
    """A file of many weights, beside one of the same graph that has few."""
    from cases import weighty

    import graphwire

    mebibytes = _mebibytes(bench)
    large, small = bench.folder / "large.pt2", bench.folder / "small.pt2"
    graphwire.save(weighty(mebibytes), large)
    graphwire.save(weighty(16), small)

    def process(*arguments: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, *arguments], check=True, capture_output=True)

    yield from compared(
        bench,
        f"beside/load the graph alone, of {mebibytes:,} MiB",
        lambda: graphwire.load(large, weights=None),
        "of 16 MiB",
        lambda: graphwire.load(small, weights=None),
    )
    yield from compared(
        bench,
        f"beside/the command `graphwire inspect`, {mebibytes:,} MiB",
        process("-m", "graphwire", "inspect", str(large)),
        "a Python process that does nothing",
        process("-c", "pass"),
    )


def _stores(bench: Bench) -> Iterator[Row]:
    """Weights outside of the program's file, beside the library of their format and torch's own pair."""
    import torch
    from cases import weighty
    from safetensors.torch import load_file, save_file

    import graphwire

    folder, mebibytes = bench.folder, _mebibytes(bench)
    program = weighty(mebibytes)
    inside, beside, stored = folder / "inside.pt2", folder / "beside.pt2", folder / "stored.safetensors"
    tensors = {name: each.detach() for name, each in program.state_dict.items()}
    torch.export.save(program, inside)
    save_file(tensors, stored)
    refer = graphwire.Checkpoint(stored)
    names = graphwire.Checkpoint(stored, check="names")
    graphwire.save(program, beside, weights=refer)

    def write() -> None:
        graphwire.save(program, folder / "w.pt2", weights=folder / "w.safetensors")
        (folder / "w.safetensors").unlink()

    for what, ours, against, theirs in (
        (
            "save to safetensors, synced, with digests",
            write,
            "safetensors `save_file`, not synced",
            lambda: save_file(tensors, folder / "l.safetensors"),
        ),
        (
            "save, referring to safetensors, all bytes compared",
            lambda: graphwire.save(program, folder / "r.pt2", weights=refer),
            "`torch.export.save`",
            lambda: torch.export.save(program, folder / "t.pt2"),
        ),
        (
            'save, referring by names (`check="names"`)',
            lambda: graphwire.save(program, folder / "n.pt2", weights=names),
            "save the graph alone",
            lambda: graphwire.save(program, folder / "g.pt2", weights=None),
        ),
        (
            "load, safetensors mapped",
            lambda: graphwire.load(beside),
            "safetensors `load_file`",
            lambda: load_file(stored),
        ),
        (
            "load, safetensors mapped, beside torch",
            lambda: graphwire.load(beside),
            "`torch.export.load`",
            lambda: torch.export.load(inside),
        ),
    ):
        yield from compared(
            bench, f"stores/{mebibytes} MiB/{what}", ours, against, theirs, min(bench.turns, 3)
        )
    for file in (inside, stored, beside):
        file.unlink()


def _safetensors(bench: Bench) -> Iterator[Row]:
    """Files of graphwire that are nearly all weights, beside safetensors, which has no program."""
    from cases import weighty
    from safetensors.torch import load_file, save_file

    import graphwire

    mebibytes = _mebibytes(bench)
    program = weighty(mebibytes)
    ours, theirs = bench.folder / "weights.pt2", bench.folder / "weights.safetensors"
    tensors = {name: tensor.detach() for name, tensor in program.state_dict.items()}

    def save_synced() -> None:
        save_file(tensors, theirs)
        with theirs.open("rb") as stream:
            os.fsync(stream.fileno())

    size = f"{mebibytes:,} MiB of weights"
    yield from compared(
        bench,
        f"beside/save {size}",
        lambda: graphwire.save(program, ours),
        "safetensors, synced",
        save_synced,
    )
    yield from compared(
        bench, f"beside/load {size}", lambda: graphwire.load(ours), "safetensors", lambda: load_file(theirs)
    )


def _onnx(bench: Bench) -> Iterator[Row]:
    """The decoder beside ONNX: exported before the clock starts, and loaded as a description."""
    import onnx
    import torch
    from cases import PROGRAMS

    import graphwire

    program = PROGRAMS["decoder-12-dynamic"]()
    ours, theirs = bench.folder / "decoder.pt2", bench.folder / "decoder.onnx"
    arguments, keywords = program.example_inputs
    exported = torch.onnx.export(program, arguments, kwargs=keywords, dynamo=True, verbose=False)
    assert exported is not None
    yield from compared(
        bench,
        "beside/save a decoder of 12 layers",
        lambda: graphwire.save(program, ours),
        "ONNX, already exported",
        lambda: exported.save(theirs),
    )
    yield from compared(
        bench,
        "beside/load a decoder of 12 layers",
        lambda: graphwire.load(ours),
        "`onnx.load`, not runnable",
        lambda: onnx.load(theirs),
    )
