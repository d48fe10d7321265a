"""ATen's history keeps the contract that every history keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.export import ExportedProgram

from graphwire.testing import OpsetContract
from graphwire_plugins.opsets import ATEN_STEPS


class Model(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def exported(function: Callable[[torch.Tensor], Any], x: torch.Tensor) -> Callable[[], ExportedProgram]:
    return lambda: torch.export.export(Model(function), (x,))


INTS, FLOATS = torch.tensor([7, -7, 9]), torch.tensor([-1.5, 0.25, 2.0])


class TestAten(OpsetContract):
    steps = ATEN_STEPS
    newest = 10
    programs = (
        exported(lambda x: x / 2, INTS),
        exported(lambda x: (x / x, torch.div(x, x, rounding_mode="trunc")), FLOATS),
        exported(lambda x: x.div_(2), FLOATS),
        exported(lambda x: x + torch.full((3,), True), FLOATS),
        exported(lambda x: x + torch.linspace(0, 1, 3) + torch.logspace(0, 1, 3), FLOATS),
        exported(torch.nn.functional.gelu, FLOATS),
        exported(lambda x: torch.nn.functional.gelu(x, approximate="tanh"), FLOATS),
        exported(lambda x: torch.cond(x.sum() > 0, torch.nn.functional.gelu, torch.sin, (x,)), FLOATS),
    )
