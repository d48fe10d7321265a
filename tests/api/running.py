"""What a program computes, in a form that can be compared."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import torch
from programs import Inputs


def results(module: torch.nn.Module, calls: Iterable[Inputs]) -> list[Any]:
    """For each call its output and what became of its arguments; last, what became of the module's parameters and
    buffers, which are then what they were before: a program shares them with the modules that are made of it."""
    state = dict(module.named_buffers(remove_duplicate=False))
    state.update(module.named_parameters(remove_duplicate=False))
    before = {name: tensor.detach().clone() for name, tensor in state.items()}
    found: list[Any] = []
    with torch.no_grad():
        for call in calls:
            args, kwargs = copy.deepcopy((call.args, call.kwargs))
            found.append(copy.deepcopy((module(*args, **kwargs), args, kwargs)))
        found.append({name: state[name].detach().clone() for name in sorted(state)})
        for name, tensor in state.items():
            if not torch.equal(tensor, before[name]):
                tensor.copy_(before[name])
    return found
