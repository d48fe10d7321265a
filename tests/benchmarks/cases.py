"""The programs that the benchmarks save and load; those of the demo, at the sizes that matter here."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch.export import ExportedProgram, export

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "contrib" / "demo"))

from programs import convnet, decoder

__all__ = ["PROGRAMS", "unbind", "weighty"]


class _Unbind(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack(x.unbind(0))


def unbind(outputs: int) -> ExportedProgram:
    """One operator with that many outputs, and one that takes them all: a node for each output."""
    return export(_Unbind(), (torch.rand(outputs, 2),))


class _Weighty(torch.nn.Module):
    def __init__(self, tensors: int, mebibytes: int) -> None:
        super().__init__()
        rows = mebibytes * 2**20 // (4 * 1024)
        self.weights = torch.nn.ParameterList(torch.rand(rows, 1024) for _ in range(tensors))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for weight in self.weights:
            x = x + weight[0]
        return x


def weighty(mebibytes: int) -> ExportedProgram:
    """A small graph with many weights: sixteen tensors that take `mebibytes` MiB together (a multiple of 16)."""
    return export(_Weighty(16, mebibytes // 16), (torch.rand(1024),))


PROGRAMS: dict[str, Callable[[], ExportedProgram]] = {
    "decoder-12-dynamic": lambda: decoder(12).program,
    "decoder-48-static": lambda: decoder(48, dynamic=False).program,
    "convnet": lambda: convnet().program,
}
"""The programs of the first table, by name."""
