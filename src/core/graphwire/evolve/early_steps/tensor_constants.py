"""Constants of a graph of schema 1: tensors that nodes read by name, and that are no inputs.

torch 2.1 writes them where a program makes a tensor from Python numbers. Their bytes stand in the document
(`evolve.early_steps.embedded`); here they become inputs, as later releases write them. Nothing but the bytes says what such a
tensor is, except the copy that 2.1 makes of each (`aten.lift_fresh_copy`), whose meta is its own.
"""

from __future__ import annotations

from graphwire.errors import SchemaError
from graphwire.evolve.documents import Record, arm_of, without

_COPY = "torch.ops.aten.lift_fresh_copy.default"


def lift_constants(graph: Record, signature: Record) -> tuple[Record, Record]:
    """The top-level graph with its constants as inputs, before those of the user, and the signature with their specs.

    Raises:
        SchemaError: nothing says what a constant is.
    """
    constants = graph.get("constants")
    graph = without(graph, "constants")
    if not constants:
        return graph, signature
    metas = {name: _meta_of_copy(graph, name) for name in constants}
    specs = signature["input_specs"]
    start = next((index for index, spec in enumerate(specs) if arm_of(spec) == "user_input"), len(specs))
    added = [{"tensor_constant": {"arg": {"name": name}, "tensor_constant_name": name}} for name in constants]
    inputs = [{"as_tensor": {"name": name}} for name in constants]
    graph["inputs"] = [*graph["inputs"][:start], *inputs, *graph["inputs"][start:]]
    graph["tensor_values"] = {**graph["tensor_values"], **metas}
    return graph, {**signature, "input_specs": [*specs[:start], *added, *specs[start:]]}


def _meta_of_copy(graph: Record, name: str) -> Record:
    for node in graph["nodes"]:
        if node["target"] == _COPY and node["inputs"][0]["arg"].get("as_tensor") == {"name": name}:
            meta: Record = graph["tensor_values"][node["outputs"][0]["as_tensor"]["name"]]
            return meta
    raise SchemaError(
        f"nothing says what the constant {name!r} is",
        place="graph_module.graph.constants",
        remedy="Write the file again with torch 2.2 or later",
    )
