"""OpenVINO's converter and its CPU runtime."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import numpy
import openvino
import torch
from programs import Inputs
from tool import Lowered, flat
from torch.export import ExportedProgram

NAME = "OpenVINO (`convert_model`)"
PACKAGES = ("openvino",)
EVERY = 1
READS_FILES = False


def through(program: ExportedProgram, call: Inputs) -> Lowered:
    """The intermediate representation, and what the CPU plugin computes in float32."""
    model = openvino.convert_model(program)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.xml"
        openvino.save_model(model, path, compress_to_fp16=False)
        text = re.sub(
            r'(name="\w+?)_?\d+"', r'\1"', path.read_text(encoding="utf-8")
        )  # layers are counted in a process
    config = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": "1", "NUM_STREAMS": "1"}
    compiled = openvino.Core().compile_model(model, "CPU", config)
    inputs = [
        each.numpy() if isinstance(each, torch.Tensor) else numpy.asarray(each)
        for each in flat(program, call)
    ]
    results = compiled(inputs[: len(compiled.inputs)])
    return Lowered([torch.from_numpy(numpy.array(each)) for each in results.values()], text)
