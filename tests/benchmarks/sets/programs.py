"""Programs saved and loaded by torch's own pair and in every wire format."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from samples import Row
from timing import Bench, Step, interleaved

if TYPE_CHECKING:
    from torch.export import ExportedProgram

__all__ = ["TORCH", "Way", "installed_ways", "measure", "measure_ways"]

TORCH = "torch.export"
"""The way that the others are compared with."""


class Way(NamedTuple):
    """One way to write a program to a file and to read it back."""

    name: str
    save: Callable[[ExportedProgram, Path | BinaryIO], object]
    load: Callable[[Path], ExportedProgram]


def measure(bench: Bench) -> Iterator[Row]:
    """The times and bytes of each chosen program in each way."""
    from cases import PROGRAMS

    for name in bench.programs:
        yield from measure_ways(bench, f"programs/{name}", PROGRAMS[name](), installed_ways())


def installed_ways() -> list[Way]:
    """torch's own pair, then every wire format that is installed here."""
    import torch

    import graphwire

    def way(format: str) -> Way:
        return Way(format, lambda program, file: graphwire.save(program, file, format=format), graphwire.load)

    formats = sorted(graphwire.Registry.discover().wire_formats)
    return [Way(TORCH, torch.export.save, torch.export.load), *map(way, formats)]


def measure_ways(
    bench: Bench, name: str, program: ExportedProgram, ways: list[Way], *, once: bool = False
) -> Iterator[Row]:
    """Rows of one program: saves to a path and to memory, loads, and the size of the program in the file.

    Args:
        once: measure a single turn without warming up, for what takes minutes.
    """
    files = {way.name: bench.folder / f"{way.name}.pt2" for way in ways}
    steps = {}
    for way in ways:
        file = files[way.name]
        steps[way.name, "save to a path"] = Step(lambda way=way, file=file: way.save(program, file))
        steps[way.name, "save in memory"] = Step(lambda way=way: way.save(program, io.BytesIO()))
        steps[way.name, "load"] = Step(lambda way=way, file=file: way.load(file))
    times = interleaved(
        {f"{way}, {action}": step for (way, action), step in steps.items()},
        turns=1 if once else bench.turns,
        done=lambda step: bench.done(f"{name}: {step}"),
        warm_up=not once,
        collect=bench.collect,
        shuffled=not once,  # in which the files were saved that are loaded
    )
    yield Row(name, "nodes", "1", [len(program.graph.nodes)])
    yield Row(name, "weights", "B", [sum(tensor.nbytes for tensor in program.state_dict.values())])
    for way, action in steps:
        yield from times[f"{way}, {action}"].rows(f"{name}/{way}", action)
    for way, file in files.items():
        yield Row(f"{name}/{way}", "program", "B", [_program_size(file)])


def _program_size(file: Path) -> int:
    """Bytes that the program takes in the archive, without weights: all that lies under `models/`."""
    with zipfile.ZipFile(file) as archive:
        return sum(
            member.compress_size
            for member in archive.infolist()
            if "models" in member.filename.split("/")[:-1]
        )
