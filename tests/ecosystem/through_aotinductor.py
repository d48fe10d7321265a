"""AOTInductor: a package with compiled code, loaded again."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
import torch._inductor.config
from programs import Inputs
from tool import Lowered
from torch.export import ExportedProgram

NAME = "AOTInductor (`aoti_compile_and_package`)"
PACKAGES = ()
EVERY = 16
READS_FILES = False

torch._inductor.config.compile_threads = 1
torch._inductor.config.force_disable_caches = True


def through(program: ExportedProgram, call: Inputs) -> Lowered:
    """What the package computes. Its bytes are those of a compiler, and are not compared."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.pt2")
        torch._inductor.aoti_compile_and_package(program, package_path=path)
        return Lowered(torch._inductor.aoti_load_package(path)(*call.args, **call.kwargs), "")
