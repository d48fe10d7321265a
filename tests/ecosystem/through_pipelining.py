"""torch.distributed.pipelining: a program's module, traced and cut into stages, which are run in one process."""

from __future__ import annotations

import torch
from programs import Inputs
from tool import Lowered
from torch.distributed.pipelining import pipeline
from torch.export import ExportedProgram
from torch.fx import GraphModule

NAME = "`torch.distributed.pipelining`"
PACKAGES = ()
EVERY = 1
READS_FILES = True


def through(program: ExportedProgram, call: Inputs) -> Lowered:
    """The code of the stages, and what they compute one after the other."""
    stages = pipeline(program.module(), call.args, call.kwargs, split_policy=_halves)
    text = [module.code for module in stages.split_gm.modules() if isinstance(module, GraphModule)]
    return Lowered(stages(*call.args, **call.kwargs), "\n".join(text))


def _halves(module: GraphModule) -> GraphModule:
    """Ask for a cut before the call in the middle."""
    from torch.distributed.pipelining import pipe_split

    calls = list(module.graph.find_nodes(op="call_function", target=torch.ops.aten.linear.default))
    if calls:
        middle = calls[len(calls) // 2]
        with module.graph.inserting_before(middle):
            module.graph.call_function(pipe_split).meta["nn_module_stack"] = middle.meta["nn_module_stack"]
        module.recompile()
    return module
