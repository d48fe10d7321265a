"""Models of e3nn, which are equivariant under rotations."""

from __future__ import annotations

from functools import partial

import e3nn
import torch
from architecture import Architecture
from e3nn import o3
from e3nn.nn import NormActivation
from torch import nn

_row = partial(Architecture, "e3nn")
_VECTORS = o3.Irreps("4x0e + 2x1o")


class Interaction(nn.Module):
    """One layer: spherical harmonics of directions, a tensor product with features, a nonlinearity."""

    def __init__(self) -> None:
        super().__init__()
        self.harmonics = o3.SphericalHarmonics([0, 1, 2], normalize=True)
        self.product = o3.FullyConnectedTensorProduct(_VECTORS, self.harmonics.irreps_out, _VECTORS)
        self.linear = o3.Linear(_VECTORS, _VECTORS)
        self.activation = NormActivation(_VECTORS, torch.sigmoid)

    def forward(self, values: torch.Tensor, directions: torch.Tensor) -> torch.Tensor:
        return self.activation(self.linear(values) + self.product(values, self.harmonics(directions)))


def _of(build: type[nn.Module]) -> nn.Module:
    before = e3nn.get_optimization_defaults()["jit_mode"]
    e3nn.set_optimization_defaults(jit_mode="eager")  # torch does not export scripts
    try:
        return build()
    finally:
        e3nn.set_optimization_defaults(jit_mode=before)


ARCHITECTURES = [
    _row(
        "interaction",
        lambda: _of(Interaction),
        lambda batch: (torch.randn(batch, _VECTORS.dim), torch.randn(batch, 3)),
    ),
]
