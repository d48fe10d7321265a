"""Converts constants of a graph of schema 1 to inputs: tensors that nodes read by name and that are not inputs yet.

torch 2.1 writes constants where a program makes a tensor from Python numbers. The document contains their bytes
(`evolve.early_steps.embedded`); here they become inputs, as later releases write them. Only the bytes describe such a tensor,
except the copy that 2.1 makes of each (`aten.lift_fresh_copy`), which has a meta of its own.
"""

from __future__ import annotations

from graphwire.errors import SchemaError
from graphwire.evolve.documents import Record, arm_of, without

_COPY = "torch.ops.aten.lift_fresh_copy.default"


def lift_constants(graph: Record, signature: Record) -> tuple[Record, Record]:
    """Insert the constants into the top-level graph as inputs, before the user's, and their specs into the signature.

    Raises:
        SchemaError: nothing describes a constant.
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
        f"nothing describes the constant {name!r}",
        place="graph_module.graph.constants",
        remedy="Write the file again with torch 2.2 or later",
    )
