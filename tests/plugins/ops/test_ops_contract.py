"""The handlers in the box keep the contract that every handler keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.export import Dim, ExportedProgram

from graphwire.testing import OpHandlerContract
from graphwire_plugins.ops import (
    HigherOrderOperators,
    LibraryOverloads,
    PredispatchFunctions,
    SymbolFunctions,
)
from graphwire_plugins.opsets import ATEN_STEPS


def exported(function: Callable[..., Any], *args: Any, **options: Any) -> Callable[[], ExportedProgram]:
    class Model(torch.nn.Module):
        def forward(self, *args: Any) -> Any:
            return function(*args)

    return lambda: torch.export.export(Model(), args, **options)


class OneInput(torch.nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def dynamic(function: Callable[[torch.Tensor], Any]) -> Callable[[], ExportedProgram]:
    return lambda: torch.export.export(
        OneInput(function), (torch.ones(4, 3),), dynamic_shapes={"x": {0: Dim("n", min=2, max=64)}}
    )


class TestLibraryOverloads(OpHandlerContract):
    handler = LibraryOverloads()
    programs = (
        exported(lambda x: (x + 1).relu().topk(2), torch.ones(3, 4)),
        exported(lambda x: x.split([1, 2]), torch.ones(3, 4)),
        exported(
            lambda x: torch.ops.aten.index_put(x, [None, torch.tensor([0])], x[:, :1]), torch.ones(3, 4)
        ),
    )
    unknown = (
        "torch.ops.aten.add",
        "torch.ops.aten.add.Tensor.x",
        "torch.ops.aten..Tensor",
        "aten.add.Tensor",
    )
    steps = ATEN_STEPS


class TestHigherOrderOperators(OpHandlerContract):
    handler = HigherOrderOperators()
    programs = (
        exported(
            lambda x: torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,)), torch.ones(3)
        ),
    )


class TestSymbolFunctions(OpHandlerContract):
    handler = SymbolFunctions()
    programs = (
        dynamic(lambda x: x.new_ones(x.shape[0] * 2 + 1)),
        dynamic(lambda x: x * torch.sym_max(x.shape[0], 3) / x.shape[0]),
    )


class TestPredispatchFunctions(OpHandlerContract):
    handler = PredispatchFunctions()
    programs = (exported(torch.vmap(lambda x: x.sin()), torch.ones(3, 2)),)
