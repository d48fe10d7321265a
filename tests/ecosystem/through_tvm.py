"""TVM's relax importer, compiled for the CPU by LLVM."""

from __future__ import annotations

import torch
import tvm
from programs import Inputs
from tool import Lowered, flat
from torch.export import ExportedProgram
from tvm import relax
from tvm.relax.frontend.torch import from_exported_program

NAME = "TVM (`from_exported_program`)"
PACKAGES = ("apache-tvm",)
EVERY = 2
READS_FILES = False


def through(program: ExportedProgram, call: Inputs) -> Lowered:
    """The relax module's script, and what its compiled form computes."""
    module = from_exported_program(program, keep_params_as_input=False)
    executable = relax.build(module, "llvm")
    machine = relax.VirtualMachine(executable, tvm.cpu())
    inputs = [tvm.runtime.from_dlpack(each.detach().contiguous()) for each in flat(program, call)]
    results = machine["main"](*inputs)
    return Lowered([torch.from_dlpack(each) for each in results], module.script())
