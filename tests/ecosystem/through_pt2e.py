"""torchao's quantization of exported programs, for inductor's CPU kernels."""

from __future__ import annotations

import copy

import torchao.quantization.pt2e.quantizer.x86_inductor_quantizer as x86
from programs import Inputs
from tool import Lowered
from torch.export import ExportedProgram
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

NAME = "torchao, pt2e quantization (`X86InductorQuantizer`)"
PACKAGES = ("torchao",)
EVERY = 1
READS_FILES = False


def through(program: ExportedProgram, call: Inputs) -> Lowered:
    """The quantized module's code, and what it computes after one call to calibrate it."""
    quantizer = x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config())
    prepared = prepare_pt2e(program.module(), quantizer)
    args, kwargs = copy.deepcopy((call.args, call.kwargs))
    prepared(*args, **kwargs)
    quantized = convert_pt2e(prepared)
    return Lowered(quantized(*call.args, **call.kwargs), quantized.code)
