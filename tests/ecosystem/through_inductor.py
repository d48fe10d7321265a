"""torch.compile with inductor, for the CPU."""

from __future__ import annotations

import re

import torch
import torch._inductor.config
from programs import Inputs
from tool import Lowered
from torch._inductor.utils import run_and_get_code
from torch.export import ExportedProgram

NAME = "inductor (`torch.compile`, `fullgraph=True`)"
PACKAGES = ()
EVERY = 4
READS_FILES = False

torch._inductor.config.compile_threads = 1
torch._inductor.config.force_disable_caches = True


def through(program: ExportedProgram, call: Inputs) -> Lowered:
    """The code that inductor writes, and what it computes."""
    compiled = torch.compile(program.module(), fullgraph=True)
    numbers, codes = run_and_get_code(compiled, *call.args, **call.kwargs)
    return Lowered(numbers, re.sub(r"# AOT ID: .*", "", "\n".join(codes)))  # which is a count
