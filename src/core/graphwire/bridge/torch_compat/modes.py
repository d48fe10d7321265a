"""Sets modes of torch aside. It imports nothing that calls functions of torch, which a mode would answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch.overrides import _get_current_function_mode_stack, _pop_mode_temporarily
from torch.utils._python_dispatch import _disable_current_modes, _get_current_dispatch_mode_stack


@contextmanager
def modes_set_aside() -> Iterator[None]:
    """A context without inference mode, dispatch modes (fake tensors, the tracing of an export) and function modes (a default
    device): a program is the same in each, with weights of elements that can be trained."""
    if not (
        torch.is_inference_mode_enabled()
        or _get_current_dispatch_mode_stack()
        or _get_current_function_mode_stack()
    ):
        yield  # as nearly always
        return
    with ExitStack() as stack:
        if torch.is_inference_mode_enabled():
            stack.enter_context(torch.inference_mode(False))
        if _get_current_dispatch_mode_stack():
            stack.enter_context(_disable_current_modes())
        for _ in _get_current_function_mode_stack():
            stack.enter_context(_pop_mode_temporarily())
        yield
