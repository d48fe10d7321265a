"""A program of any number of nodes."""

from __future__ import annotations

from documents import document, node, tensor

_NODES_OF_LAYER = 40


def large_document(count: int) -> bytes:
    """Return a document with many nodes, in modules of 40 nodes each."""
    nodes = []
    value = "x"
    for index in range(count):
        layer = index // _NODES_OF_LAYER
        target = "torch.ops.aten.add.Tensor" if index % 3 else "torch.ops.aten.relu.default"
        inputs = {"self": tensor(value)} | ({"other": tensor("x")} if index % _NODES_OF_LAYER == 1 else {})
        modules = [("layers", "torch.nn.ModuleList"), (f"layers.{layer}", "test.Layer")]
        trace = {"stack_trace": f'File "model.py", line {layer}, in forward\n    x = layer(x)'}
        nodes.append(node(f"node_{index}", target, inputs, modules, trace))
        value = f"node_{index}"
    return document(nodes, ["x"], {}, {"result": value})
