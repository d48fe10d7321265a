"""Programs that compilers make: decomposed to core operators, and forward and backward in one graph."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

from samples import Row
from sets.programs import TORCH, installed_ways, measure_ways
from timing import Bench

if TYPE_CHECKING:
    from torch.export import ExportedProgram

__all__ = ["decomposed", "joint", "measure"]


def measure(bench: Bench) -> Iterator[Row]:
    """Saves and loads of each program by torch and by graphwire."""
    ways = [way for way in installed_ways() if way.name in (TORCH, "json")]
    for name, make in (("decomposed", decomposed), ("joint", joint)):
        yield from measure_ways(bench, f"compiled/{name}", make(), ways)


def decomposed(layers: int = 12) -> ExportedProgram:
    """The decoder of the demo in ATen's core operators."""
    from cases import decoder

    return decoder(layers, dynamic=False).program.run_decompositions()


def joint(layers: int = 12) -> ExportedProgram:
    """A step of training of the decoder: its loss, and the gradients of all parameters."""
    import torch
    from cases import Decoder
    from torch.export.experimental import _export_forward_backward

    class Training(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.decoder = Decoder(layers, 64, 4, 512)
            # Untied: torch wants a gradient for each name of a parameter.
            self.decoder.lm_head.weight = torch.nn.Parameter(self.decoder.lm_head.weight.detach().clone())

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            logits = self.decoder(tokens)
            return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(Training(), (torch.randint(512, (2, 16)),))
        return _export_forward_backward(program)
