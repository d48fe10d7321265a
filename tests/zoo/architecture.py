"""What a row of the zoo says: how a model of somebody's library is built, and how it is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from construct import quiet
from programs import Inputs
from torch import nn
from torch.export import Dim, ExportedProgram

Given = tuple[Any, ...] | dict[str, Any]
"""Positional arguments of a call, or keyword arguments."""

STATIC, OTHER = 2, 5
"""The size that a model is exported with, and one that a program of dynamic shapes is called with, too."""


class Architecture(NamedTuple):
    """One kind of model, as a small config with random weights."""

    library: str
    """The distribution that it is from."""
    name: str
    build: Callable[[], nn.Module]
    inputs: Callable[[int], Given]
    """The arguments of one call, for a size of the batch, or of what else is dynamic."""
    dynamic: bool = True
    """Whether the first dimension of every tensor is one symbol."""
    in_every_use: bool = True
    """Whether the tests use it in every way. A variant of what others have is saved and loaded in every way, and used in few."""

    @property
    def key(self) -> str:
        """What it is called among all architectures of the zoo."""
        return f"{self.library}: {self.name}"

    def call(self, size: int) -> Inputs:
        """The same arguments every time."""
        torch.manual_seed(size)
        given = self.inputs(size)
        return Inputs((), given) if isinstance(given, dict) else Inputs(given, {})

    def calls(self) -> tuple[Inputs, ...]:
        """Calls of the exported program."""
        return tuple(self.call(size) for size in ((STATIC, OTHER) if self.dynamic else (STATIC,)))

    def program(self) -> ExportedProgram:
        """The exported model, with the same weights every time."""
        torch.manual_seed(0)
        with quiet():
            model = self.build().eval()
            call = self.call(STATIC)
            batch = Dim("batch", min=2, max=48)
            shapes = torch.utils._pytree.tree_map(
                lambda leaf: {0: batch} if isinstance(leaf, torch.Tensor) else None, tuple(call)
            )
            return torch.export.export(
                model,
                call.args,
                call.kwargs,
                dynamic_shapes=(shapes[1] or shapes[0]) if self.dynamic else None,
                strict=False,
            )


def image(side: int = 32, channels: int = 3) -> Callable[[int], Given]:
    """One batch of square images."""
    return lambda batch: (torch.rand(batch, channels, side, side),)


def volume(side: int = 16, channels: int = 1) -> Callable[[int], Given]:
    """One batch of cubes."""
    return lambda batch: (torch.rand(batch, channels, side, side, side),)


def features(*shape: int) -> Callable[[int], Given]:
    """One batch of tensors of a shape."""
    return lambda batch: (torch.randn(batch, *shape),)


def tokens(length: int = 8, vocabulary: int = 64) -> Callable[[int], Given]:
    """One batch of texts."""
    return lambda batch: (torch.randint(0, vocabulary, (batch, length)),)
