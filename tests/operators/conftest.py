"""What it means that a program round-trips, for every program of torch's own databases of operators and examples."""

from __future__ import annotations

import copy
import io
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

import graphwire


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    # A deep copy keeps strides, and copies no tensor without a storage.
    return copy.deepcopy(tensor) if tensor.layout is torch.strided else tensor.clone()


def _run(program: ExportedProgram, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a program computes from copies of the inputs, and what it left in them."""
    args, kwargs = pytree.tree_map_only(torch.Tensor, _copied, (args, kwargs))
    module = program.module()
    torch.manual_seed(0)
    return module(*args, **kwargs), args, kwargs


def _difference(expected: Any, actual: Any) -> str | None:
    """How two values differ; None for the same structure, types, strides and elements (nan equals nan)."""
    leaves, spec = pytree.tree_flatten(expected)
    others, other_spec = pytree.tree_flatten(actual)
    if spec != other_spec:
        return f"structure {other_spec}, not {spec}"
    for index, (leaf, other) in enumerate(zip(leaves, others, strict=True)):
        if type(leaf) is not type(other):
            return f"leaf {index} is a {type(other)}, not a {type(leaf)}"
        if isinstance(leaf, torch.Tensor):
            try:
                torch.testing.assert_close(
                    other, leaf, rtol=0, atol=0, equal_nan=True, check_stride=leaf.layout is torch.strided
                )
            except AssertionError as error:
                return f"leaf {index}: {error}"
            if leaf.requires_grad is not other.requires_grad:
                return f"leaf {index} has requires_grad={other.requires_grad}"
        elif other != leaf and (other == other or leaf == leaf):
            return f"leaf {index} is {other!r}, not {leaf!r}"
    return None


def _by_torch(program: ExportedProgram) -> bytes | None:
    """The file that `torch.export.save` writes, where torch reads it back and computes the same; else None."""
    file = io.BytesIO()
    try:
        torch.export.save(program, file)
        torch.export.load(io.BytesIO(file.getvalue()))
    except Exception:
        return None
    return file.getvalue()


@dataclass
class RoundTrips:
    """The check of one program, and a count of what was checked."""

    passed: int = 0
    by_torch: int = 0
    """Programs that torch's own save and load manage."""
    read_by_torch: int = 0
    """Our documents that torch reads."""
    extended: list[str] = field(default_factory=list)

    def problem(
        self, program: ExportedProgram, args: tuple[Any, ...], kwargs: dict[str, Any], format: str
    ) -> str | None:
        """What is wrong with the round trip of a program that was exported with these inputs; None for nothing."""
        expected = _run(program, args, kwargs)
        data = graphwire.dumps(program, format=format)
        loaded = graphwire.loads(data)
        if difference := _difference(expected, _run(loaded, args, kwargs)):
            return difference
        if graphwire.dumps(loaded, format=format) != data:
            return "the second save has other bytes"
        if format != "json":
            return None
        written = _by_torch(program)
        self.by_torch += written is not None
        return None
