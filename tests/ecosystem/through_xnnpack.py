"""ExecuTorch with the XNNPACK backend."""

from __future__ import annotations

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from executorch.extension.pybindings.portable_lib import _load_for_executorch_from_buffer
from programs import Inputs
from tool import Lowered, flat
from torch.export import ExportedProgram

NAME = "ExecuTorch, XNNPACK"
PACKAGES = ("executorch",)
EVERY = 4
READS_FILES = False


def through(program: ExportedProgram, call: Inputs) -> Lowered:
    """The file for the runtime, and what the runtime computes."""
    inputs = flat(program, call)
    with torch.no_grad():  # otherwise a convolution may bound the sizes; docs/ecosystem.md says why
        lowered = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
        buffer = lowered.to_executorch().buffer
    return Lowered(_load_for_executorch_from_buffer(buffer).forward(inputs), bytes(buffer))
