"""A construct that a program can hold: a small program with it, and calls to compare what it computes."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram, export

Call = tuple[Any, ...]


@dataclass(frozen=True)
class Construct:
    """One row of `docs/coverage.md`."""

    family: str
    name: str
    make: Callable[[], ExportedProgram]
    calls: tuple[Call, ...] = ()
    """Arguments to call the program with; none where it cannot be run here."""
    context: Callable[[], contextlib.AbstractContextManager[Any]] = field(default=contextlib.nullcontext)
    """What the program is made under."""
    refusal: str | None = None
    """What the error says, of a construct that is refused by policy."""

    def program(self) -> ExportedProgram:
        """The program, the same each time."""
        torch.manual_seed(0)
        with self.context():
            return self.make()


CONSTRUCTS: dict[str, Construct] = {}


class Family:
    """Constructs of one kind."""

    def __init__(self, name: str) -> None:
        self.name = name

    def add(self, name: str, make: Callable[[], ExportedProgram], *calls: Call, **options: Any) -> None:
        """Add a construct whose program a function makes."""
        key = f"{self.name}: {name}"
        assert key not in CONSTRUCTS, f"two constructs are named {key}"
        CONSTRUCTS[key] = Construct(self.name, name, make, calls, **options)

    def exported(
        self,
        name: str,
        module: nn.Module | Callable[..., Any],
        *args: Any,
        calls: tuple[Call, ...] = (),
        context: Any = contextlib.nullcontext,
        decomposed: bool = False,
        refusal: str | None = None,
        **options: Any,
    ) -> None:
        """Add a construct that `torch.export.export` makes of a module or function. It is called with what it is exported
        with, and with `calls`.

        Args:
            decomposed: whether `run_decompositions` follows.
            options: those of `torch.export.export`.
        """

        def make() -> ExportedProgram:
            # A program shares its buffers with the module that it is made of.
            own = copy.deepcopy(module) if isinstance(module, nn.Module) else of_function(module)
            program = export(own, args, **options)
            return program.run_decompositions() if decomposed else program

        self.add(name, make, args, *calls, context=context, refusal=refusal)


def of_function(forward: Callable[..., Any]) -> nn.Module:
    """A module without parameters around a function."""
    return type("Function", (nn.Module,), {"forward": staticmethod(forward)})()


def holding(forward: Callable[..., Any], **attributes: Any) -> nn.Module:
    """A module with attributes, whose `forward` is given it first."""
    module: nn.Module = type("Holder", (nn.Module,), {"forward": forward})()
    for name, value in attributes.items():
        setattr(module, name, value)
    return module


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """torch says much about its own limits while it exports and refuses."""
    import logging
    import warnings

    logging.disable(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    logging.disable(logging.NOTSET)
