"""IREE's importer and compiler, with its CPU runtime."""

from __future__ import annotations

import numpy
import torch
from iree import compiler, runtime
from iree.turbine import aot
from programs import Inputs
from tool import Lowered, flat
from torch.export import ExportedProgram

NAME = "IREE (`iree.turbine.aot`)"
PACKAGES = ("iree-turbine", "iree-base-compiler")
EVERY = 4
READS_FILES = False


def through(program: ExportedProgram, call: Inputs) -> Lowered:
    """The MLIR module, and what its compiled form computes."""
    output = aot.export(program)
    text = str(output.mlir_module)
    code = compiler.compile_str(
        text, target_backends=["llvm-cpu"], extra_args=["--iree-llvmcpu-target-cpu=generic"]
    )
    config = runtime.Config("local-sync")
    context = runtime.SystemContext(config=config)
    context.add_vm_module(runtime.VmModule.copy_buffer(config.vm_instance, code))
    inputs = [numpy.asarray(each.detach()) for each in flat(program, call)]
    results = context.modules.module["main"](*inputs)
    every = results if isinstance(results, tuple) else (results,)
    return Lowered([torch.from_numpy(numpy.array(each.to_host())) for each in every], text)
