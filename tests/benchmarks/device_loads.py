"""Loads to a device, beside what moves the same bytes there.

    python tests/benchmarks/device_loads.py --device cuda --mib 8192

Without a GPU, `--device cpu` runs the same copies into the host's memory, and `--device meta` the reads alone: their numbers
say what the host's part costs, and nothing of a GPU. The file is in the page cache unless `--cold` drops it before each run.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from cases import weighty
from safetensors.torch import load_file, save_file
from timing import Step, interleaved

import graphwire
from graphwire.bridge.tensors.storages import BUFFER_BYTES, Device, DeviceCopies


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda", type=torch.device)
    parser.add_argument("--mib", default=8192, type=int, help="size of the weights")
    parser.add_argument("--runs", default=5, type=int)
    parser.add_argument("--folder", default=None, help="where the files are written")
    parser.add_argument("--cold", action="store_true", help="read from the disk, not from the page cache")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        _measure(Path(folder), options)
    return 0


def _measure(folder: Path, options: argparse.Namespace) -> None:
    device: torch.device = options.device
    program_file, tensors_file = folder / "model.pt2", folder / "model.safetensors"
    program = weighty(options.mib)
    nbytes = sum(tensor.nbytes for tensor in program.state_dict.values())
    graphwire.save(program, program_file)
    save_file({name: each.detach() for name, each in program.state_dict.items()}, tensors_file)
    del program

    def done() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    def through_buffers() -> None:
        target = Device(device)
        with graphwire.open(program_file) as archive:
            records = archive.payloads_of(archive.method(None)).records
            copies = DeviceCopies(nbytes)
            with copies:
                kept = [copies.copy(record, device, target) for record in records.values()]
        del kept

    def mapped() -> None:
        with graphwire.open(program_file) as archive:
            records = archive.payloads_of(archive.method(None)).records
            views = [
                torch.frombuffer(each.view(), dtype=torch.uint8) for each in records.values() if each.nbytes
            ]
            kept = [view.to(device, copy=True) for view in views]
        done()
        del kept

    def pinned() -> None:
        source = torch.empty(BUFFER_BYTES, dtype=torch.uint8, pin_memory=device.type == "cuda")
        target = torch.empty(nbytes, dtype=torch.uint8, device=device)
        for start in range(0, nbytes, BUFFER_BYTES):
            part = target[start : start + BUFFER_BYTES]
            part.copy_(source[: part.nbytes], non_blocking=True)
        done()

    rows: dict[str, Callable[[], object]] = {
        "records, through two buffers": through_buffers,
        "records, out of mapped pages": mapped,
        "one buffer, copied again and again, nothing read": pinned,
    }
    if device.type == "cuda":
        rows["graphwire.load"] = lambda: graphwire.load(program_file, device=device)
        rows["graphwire.load, verified copies"] = lambda: graphwire.load(
            program_file, device=device, copy=True
        )
        rows["safetensors.torch.load_file"] = lambda: (load_file(tensors_file, device=str(device)), done())
    before = (lambda: _drop(program_file, tensors_file)) if options.cold else (lambda: None)
    seconds = interleaved(
        {name: Step(run, before) for name, run in rows.items()},
        turns=options.runs,
        done=lambda _: print(".", end="", file=sys.stderr, flush=True),
    )
    print(
        f"\n{nbytes / 2**30:.2f} GiB to {device}, {'from the disk' if options.cold else 'from the page cache'}"
    )
    for name, each in seconds.items():
        print(f"{name:50} {each.median:8.3f} s {nbytes / 2**30 / each.median:8.2f} GiB/s")


def _drop(*files: Path) -> None:
    """Ask the system to forget its pages of the files."""
    for file in files:
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


if __name__ == "__main__":
    sys.exit(main())
