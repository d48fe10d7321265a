"""What a program computes, in a form that can be compared."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import torch
from programs import Inputs


def results(module: torch.nn.Module, calls: Iterable[Inputs]) -> list[Any]:
    """For each call its output and what became of its arguments; last, what became of the module's buffers, which are
    then what they were before: a program shares them with the modules that are made of it."""
    buffers = dict(module.named_buffers(remove_duplicate=False))
    before = {name: buffer.clone() for name, buffer in buffers.items()}
    found: list[Any] = []
    with torch.no_grad():
        for call in calls:
            args, kwargs = copy.deepcopy((call.args, call.kwargs))
            found.append(copy.deepcopy((module(*args, **kwargs), args, kwargs)))
        found.append({name: buffer.clone() for name, buffer in buffers.items()})
        for name, buffer in buffers.items():
            if not torch.equal(buffer, before[name]):
                buffer.copy_(before[name])
    return found
