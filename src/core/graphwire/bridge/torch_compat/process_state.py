"""Saves, compares and restores the process-wide and thread-wide state of torch, which no load may change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from graphwire.errors import DecodeError

_AUTOCAST_DEVICES = ("cpu", "cuda")


class ProcessState(NamedTuple):
    """The global settings of torch that operators, or contexts left open, can change."""

    gradients: bool
    inference: bool
    autocast: tuple[tuple[bool, torch.dtype], ...]
    autocast_cache: bool
    transforms: int
    """The number of open function transforms (vmap, grad)."""
    dispatch_modes: int
    function_modes: int
    dtype: torch.dtype
    """The default element type."""
    deterministic: bool
    deterministic_warns: bool
    generator: bytes
    """The state of the CPU's random number generator."""


def process_state() -> ProcessState:
    """Return the current state."""
    return ProcessState(
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        tuple(
            (torch.is_autocast_enabled(each), torch.get_autocast_dtype(each)) for each in _AUTOCAST_DEVICES
        ),
        torch.is_autocast_cache_enabled(),
        torch._C._functorch.get_dynamic_layer_stack_depth(),
        len(_get_current_dispatch_mode_stack()),
        len(_get_current_function_mode_stack()),  # a default device is one
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        bytes(torch.default_generator.get_state().untyped_storage()),
    )


def _put_back(state: ProcessState, now: ProcessState) -> None:
    if now.transforms > state.transforms:
        torch._C._functorch.pop_dynamic_layer_stack_and_undo_to_depth(state.transforms)
    for _ in range(now.dispatch_modes - state.dispatch_modes):
        torch._C._pop_torch_dispatch_stack()
    for _ in range(now.function_modes - state.function_modes):
        torch._C._pop_torch_function_stack()
    torch.set_grad_enabled(state.gradients)
    for device, (enabled, dtype) in zip(_AUTOCAST_DEVICES, state.autocast, strict=True):
        torch.set_autocast_enabled(device, enabled)
        torch.set_autocast_dtype(device, dtype)
    torch.set_autocast_cache_enabled(state.autocast_cache)
    torch.set_default_dtype(state.dtype)
    torch.use_deterministic_algorithms(state.deterministic, warn_only=state.deterministic_warns)
    generator: Any = torch.frombuffer(bytearray(state.generator), dtype=torch.uint8)
    torch.default_generator.set_state(generator)


@contextmanager
def preserved_process_state(what: str) -> Iterator[None]:
    """A context that restores the state at its end, also on an exception.

    Args:
        what: the name of what runs inside, as the subject of a sentence.

    Raises:
        DecodeError: the block changed the state, which is restored.
    """
    before = process_state()
    try:
        yield
    finally:
        now = process_state()
        if now != before:
            _put_back(before, now)
    if now != before:
        names = [name for name, old, new in zip(before._fields, before, now, strict=True) if old != new]
        raise DecodeError(
            f"{what} changes the state of the process ({', '.join(names)})",
            remedy="Report it to the authors of the operator's library",
        )
