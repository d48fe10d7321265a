"""The programs that the benchmarks save and load; those of the demo, at the sizes that matter here."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import torch
from torch.export import ExportedProgram, export

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "contrib" / "demo"))

from programs import convnet, decoder

__all__ = ["PROGRAMS", "chain", "unbind", "weighty"]


class _Unbind(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack(x.unbind(0))


def unbind(outputs: int) -> ExportedProgram:
    """One operator with that many outputs, and one that takes them all: a node for each output."""
    return export(_Unbind(), (torch.rand(outputs, 2),))


class _Weighty(torch.nn.Module):
    def __init__(self, tensors: int, mebibytes: int) -> None:
        super().__init__()
        rows = mebibytes * 2**20 // (4 * 1024)
        self.weights = torch.nn.ParameterList(torch.rand(rows, 1024) for _ in range(tensors))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for weight in self.weights:
            x = x + weight[0]
        return x


def weighty(mebibytes: int) -> ExportedProgram:
    """A small graph with many weights: sixteen tensors that take `mebibytes` MiB together (a multiple of 16)."""
    return export(_Weighty(16, mebibytes // 16), (torch.rand(1024),))


class _Chain(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.relu()


def chain(nodes: int) -> ExportedProgram:
    """So many operators one behind the other: made of the records of one, as export itself would take an hour."""
    import graphwire
    from graphwire.schema.graph import Argument, TensorArgument

    record, payloads = graphwire.to_schema(export(_Chain(), (torch.rand(4),)))
    graph = record.graph_module.graph
    (only,) = graph.nodes
    (source,), meta = graph.inputs, next(iter(graph.tensor_values.values()))
    graph.nodes = []
    for index in range(nodes):
        result = Argument(as_tensor=TensorArgument(f"relu_{index}"))
        graph.tensor_values[f"relu_{index}"] = meta
        given = msgspec.structs.replace(only.inputs[0], arg=source)
        graph.nodes.append(
            msgspec.structs.replace(only, inputs=[given], outputs=[result], name=f"relu_{index}")
        )
        source = result
    last = TensorArgument(f"relu_{nodes - 1}")
    del graph.tensor_values["relu"]
    graph.outputs = [Argument(as_tensor=last)]
    record.graph_module.signature.output_specs[0].user_output.arg = Argument(as_tensor=last)
    return graphwire.from_schema(record, payloads)


PROGRAMS: dict[str, Callable[[], ExportedProgram]] = {
    "decoder-12-dynamic": lambda: decoder(12).program,
    "decoder-48-static": lambda: decoder(48, dynamic=False).program,
    "convnet": lambda: convnet().program,
}
"""The programs of the first table, by name."""
