"""What inputs and outputs stand for."""

from __future__ import annotations

from typing import Any

import torch
from construct import Family, holding
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export
from torch.export.experimental import _export_forward_backward

signatures = Family("signatures")


def _everything(self: Any, x: Tensor, scale: float, mode: str, nothing: None, flag: bool) -> Any:
    self.buffer.add_(1)
    return torch.div(
        x * self.weight + self.buffer + self.cache + torch.tensor(3.0), scale, rounding_mode=mode
    ), flag


_STATE = {
    "weight": lambda: nn.Parameter(torch.ones(3)),
    "buffer": lambda: nn.Buffer(torch.ones(3)),
    "cache": lambda: nn.Buffer(torch.ones(3), persistent=False),
}


def _stateful() -> nn.Module:
    return holding(_everything, **{name: make() for name, make in _STATE.items()})


def _made(decompose: bool) -> ExportedProgram:
    program = export(_stateful(), (torch.ones(3), 2.0, "floor", None, True))
    return program.run_decompositions() if decompose else program


_CALL = (torch.ones(3), 2.0, "floor", None, True)
signatures.add("parameters, buffers, constants and literals", lambda: _made(False), _CALL)
signatures.add("the same after run_decompositions: mutated buffers", lambda: _made(True), _CALL)
signatures.exported(
    "mutated inputs", lambda x, y: (x.add_(y), y * 2)[1], torch.ones(3), torch.ones(3), decomposed=True
)


def _halve(self: Any, x: Tensor) -> Tensor:
    with torch.no_grad():
        self.weight.div_(2)
    return x + self.weight


def _mutated_parameter() -> ExportedProgram:
    module = holding(_halve, weight=nn.Parameter(torch.ones(3)))
    return export(module, (torch.ones(3),)).run_decompositions()


signatures.add("a mutated parameter", _mutated_parameter)


class _Loss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return nn.functional.cross_entropy(self.linear(x), target)


def _joint() -> ExportedProgram:
    target = torch.tensor([0, 2])
    return _export_forward_backward(export(_Loss(), (torch.ones(2, 3, requires_grad=True), target)))


signatures.add("a joint graph: loss and gradients", _joint)
signatures.exported(
    "tokens of effects",
    lambda x: (torch.ops.aten._print("once"), x + 1)[1],
    torch.ones(2),
    decomposed=True,
    strict=False,
)
signatures.exported("no outputs", lambda x: (), torch.ones(2))
signatures.exported(
    "text, numbers, truth values and nothing as outputs",
    lambda x, n: (x + 1, "text", 2.5, True, None, n),
    torch.ones(2),
    5,
)
signatures.exported("an input as the output", lambda x, y: x, torch.ones(2), torch.ones(3))
signatures.exported("a constant as the output", lambda x: (x, torch.tensor([1, 2])), torch.ones(2))
signatures.exported("an empty module", lambda: torch.zeros(2))


class _Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3, bias=False)
        self.second = nn.Linear(3, 3, bias=False)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x))


signatures.add("one parameter under two names", lambda: export(_Tied(), (torch.ones(3),)), (torch.ones(3),))


class _Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.step = nn.Linear(3, 3)

    def forward(self, x: Tensor, *, more: bool) -> Tensor:
        return self.step(self.step(x)) if more else self.step(x)


def _called_twice() -> ExportedProgram:
    module = holding(lambda self, x: self.inner(x, more=True) + self.inner(x, more=False), inner=_Twice())
    return export(module, (torch.ones(3),), preserve_module_call_signature=("inner", "inner.step"))


signatures.add("module calls: nested, and called twice", _called_twice, (torch.ones(3),))
signatures.exported(
    "keyword and variadic arguments",
    lambda x, *xs: x + sum(xs),
    torch.ones(3),
    torch.ones(3),
    torch.ones(3),
)
signatures.exported(
    "training: batch normalisation",
    nn.BatchNorm2d(3),
    torch.ones(2, 3, 4, 4),
    calls=((torch.ones(5, 3, 4, 4),),),
    dynamic_shapes={"input": {0: Dim("n")}},
)
