"""Models of neuraloperator: their weights are complex, and Fourier transforms are what they compute."""

from __future__ import annotations

from functools import partial

from architecture import Architecture, features
from neuralop.models import FNO, UNO
from torch import nn

_row = partial(Architecture, "neuraloperator")


def _uno() -> nn.Module:
    return UNO(
        1,
        1,
        8,
        lifting_channels=8,
        projection_channels=8,
        n_layers=3,
        uno_out_channels=[8, 8, 8],
        uno_n_modes=[[4, 4]] * 3,
        uno_scalings=[[1.0, 1.0], [0.5, 0.5], [2.0, 2.0]],
        horizontal_skips_map={2: 0},
        channel_mlp_skip="linear",
    )


ARCHITECTURES = [
    _row("fno-1d", lambda: FNO((6,), 2, 1, 8, n_layers=2), features(2, 16), False),
    _row("fno-2d", lambda: FNO((4, 4), 1, 1, 8, n_layers=2), features(1, 16, 16), False),
    _row(
        "fno-tucker",
        lambda: FNO((4, 4), 1, 1, 8, n_layers=2, factorization="tucker", rank=0.4),
        features(1, 16, 16),
        False,
    ),
    _row(
        "fno-complex-norm",
        lambda: FNO((4, 4), 1, 1, 8, n_layers=2, norm="instance_norm", separable=True),
        features(1, 16, 16),
        False,
    ),
    _row("uno", _uno, features(1, 16, 16), False),
]
