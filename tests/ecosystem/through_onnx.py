"""torch's ONNX exporter, and ONNX Runtime."""

from __future__ import annotations

import torch
from programs import Inputs
from tool import Lowered
from torch.export import ExportedProgram

NAME = "ONNX (`torch.onnx.export`, dynamo) and ONNX Runtime"
PACKAGES = ("onnx", "onnxscript", "onnxruntime")
EVERY = 2
READS_FILES = True


def through(program: ExportedProgram, call: Inputs) -> Lowered:
    """The model, with the stack trace and the modules of each node, and what ONNX Runtime computes."""
    lowered = torch.onnx.export(program, dynamo=True, verbose=False)
    assert lowered is not None
    import onnx

    numbers = lowered(*call.args, **call.kwargs)
    return Lowered(list(numbers), str(onnx.printer.to_text(lowered.model_proto)) + str(lowered.model_proto))
