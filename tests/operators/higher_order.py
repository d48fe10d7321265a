"""Programs of the higher-order operators in torch's database of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from nightly import by_day
from programs import Inputs
from torch.export import ExportedProgram, export
from torch.utils import _pytree as pytree

MODES = ("strict", "nonstrict", "decomposed")
TRIED_MODES = by_day(("strict", "decomposed"), by_night=MODES)
"""A decomposed program was exported in nonstrict mode, so by day that mode is tried with its decompositions alone."""
FORMATS = ("json", "msgpack", "cbor")


def formats_of(index: int) -> Sequence[str]:
    """The wire formats that a program goes through: by day JSON, which torch reads too, or one of the others."""
    return by_day((FORMATS[index % len(FORMATS)],), by_night=FORMATS)


class Call(torch.nn.Module):
    """A call of an operator, some of whose arguments are fixed."""

    def __init__(self, operator: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        super().__init__()
        self.operator = operator
        self.fixed_args = args
        """The positional arguments; `GIVEN` where the caller gives one."""
        self.fixed_kwargs = kwargs

    def forward(self, /, *args: Any, **kwargs: Any) -> Any:
        given = iter(args)
        positional = [next(given) if each is GIVEN else each for each in self.fixed_args]
        return self.operator(*positional, **self.fixed_kwargs, **kwargs)


GIVEN = object()


def exported(module: torch.nn.Module, args: tuple[Any, ...], mode: str) -> ExportedProgram:
    torch._dynamo.reset()
    program = export(module, args, strict=mode == "strict")
    return program.run_decompositions() if mode == "decomposed" else program


def database_programs(mode: str) -> Iterator[tuple[str, Callable[[], tuple[ExportedProgram, Inputs]]]]:
    """Each operator in the database, with what exports a program of its sample and gives a call of it."""
    from torch.testing._internal.hop_db import hop_db

    for info in hop_db:
        yield f"{info.name}.{info.variant_test_name}", lambda info=info: _database_program(info, mode)


def _database_program(info: Any, mode: str) -> tuple[ExportedProgram, Inputs]:
    (sample,) = info.sample_inputs("cpu", torch.float32)
    every = (*(sample.input if isinstance(sample.input, tuple) else (sample.input,)), *sample.args)
    args = tuple(value for value in every if _is_input(value))
    module = Call(info.op, [GIVEN if _is_input(value) else value for value in every], sample.kwargs)
    return exported(module, args, mode), Inputs(args, {})


def _is_input(value: Any) -> bool:
    leaves = pytree.tree_leaves(value)
    return bool(leaves) and all(isinstance(leaf, torch.Tensor) for leaf in leaves)
