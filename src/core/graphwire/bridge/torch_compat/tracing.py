"""Keeps what reads and writes files out of what torch's compiler, `torch.jit.trace` and `torch.func` trace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch._C._dynamo.eval_frame import set_eval_frame
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack


@contextmanager
def without_tracing() -> Iterator[None]:
    """A context in which nothing is traced."""
    before, traced = set_eval_frame(None), torch._C._get_tracing_state()
    if traced is not None:
        torch._C._set_tracing_state(None)
    try:
        if torch._C._functorch.peek_interpreter_stack() is None:
            yield
        else:
            with temporarily_clear_interpreter_stack():
                yield
    finally:
        set_eval_frame(before)
        if traced is not None:
            torch._C._set_tracing_state(traced)
