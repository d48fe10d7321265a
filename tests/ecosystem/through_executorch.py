"""ExecuTorch, with its portable kernels."""

from __future__ import annotations

import torch
from executorch.exir import to_edge
from executorch.extension.pybindings.portable_lib import _load_for_executorch_from_buffer
from programs import Inputs
from tool import Lowered, flat
from torch.export import ExportedProgram

NAME = "ExecuTorch, portable kernels"
PACKAGES = ("executorch",)
EVERY = 2
READS_FILES = True


def through(program: ExportedProgram, call: Inputs) -> Lowered:
    """The file for the runtime, and what the runtime computes."""
    inputs = flat(program, call)
    with torch.no_grad():  # otherwise a convolution may bound the sizes; docs/ecosystem.md says why
        buffer = to_edge(program).to_executorch().buffer
    return Lowered(_load_for_executorch_from_buffer(buffer).forward(inputs), bytes(buffer))
