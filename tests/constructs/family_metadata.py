"""What a graph notes of its nodes."""

from __future__ import annotations

from typing import Any

import torch
from construct import Family, holding
from torch import Tensor, nn
from torch._export.passes.replace_view_ops_with_view_copy_ops_pass import ReplaceViewOpsWithViewCopyOpsPass
from torch.export import ExportedProgram, export
from torch.fx import traceback
from torch.utils.checkpoint import CheckpointPolicy

metadata = Family("metadata")


def _with_custom() -> ExportedProgram:
    program = export(nn.Linear(2, 4), (torch.ones(1, 2),))
    program.graph_module.meta["custom"] = {"of": "the graph"}
    for index, node in enumerate(program.graph.nodes):
        node.meta["custom"] = {"index": index, "nested": [1, {"a": None}]}
    return program


metadata.add("custom data on inputs, nodes, the output and the graph", _with_custom, (torch.ones(1, 2),))


def _tagged() -> ExportedProgram:
    program = export(nn.Linear(2, 4), (torch.ones(1, 2),)).run_decompositions()
    program.graph_module.meta["quantization_tag"] = "whole"
    for index, node in enumerate(program.graph.nodes):
        node.meta |= {
            "partitioner_tag": "is_forward",
            "quantization_tag": f"layer {index}",
            "ac_graph_id": index,
        }
        node.meta["recompute"] = CheckpointPolicy.MUST_SAVE
    return program


metadata.add("what passes of torch note of nodes", _tagged, (torch.ones(1, 2),))


def _annotated(x: Tensor) -> Tensor:
    with traceback.annotate({"stage": 0}):
        x = x + 1
        with traceback.annotate({"stream": 2}):
            x = x * 2
    return x / 3


metadata.exported("annotations", _annotated, torch.ones(3), context=traceback.preserve_node_meta)


def _sliced(self: Any, x: Tensor) -> Tensor:
    for layer in self.layers[1:3]:
        x = layer(x)
    return x


metadata.exported(
    "module stacks with commas and brackets",
    holding(_sliced, layers=nn.Sequential(*(nn.Linear(2, 2) for _ in range(4)))),
    torch.ones(2),
)
metadata.exported(
    "functions that strict export notes",
    lambda x: torch.cat([x, torch.zeros(2)]).sin(),
    torch.ones(2),
    strict=True,
)


def _retraced() -> ExportedProgram:
    first = export(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), (torch.ones(2),)).run_decompositions()
    return export(first.module(), (torch.ones(2),))


metadata.add("provenance over several exports", _retraced, (torch.ones(2),))


def _passed() -> ExportedProgram:
    program = export(holding(lambda self, x: x.view(-1).unsqueeze(0).sin()), (torch.ones(2, 3),))
    return program.run_decompositions()._transform_do_not_use(ReplaceViewOpsWithViewCopyOpsPass())


metadata.add("values that a pass notes of the output", _passed, (torch.ones(2, 3),))


def _moved() -> ExportedProgram:
    program = export(holding(lambda self, x: torch.topk(x, 2)[1] + 1), (torch.ones(3),))
    nodes = {node.name: node for node in program.graph.nodes}
    spare = nodes["topk"].args[0]
    with program.graph.inserting_after(nodes["topk"]):
        late = program.graph.call_function(torch.ops.aten.sin.default, (spare,))
        late.meta.update(val=spare.meta["val"], nn_module_stack=nodes["topk"].meta["nn_module_stack"])
    program.graph_module.recompile()
    return program


metadata.add("an element that is read later", _moved, (torch.ones(3),))
