"""Sizes of the tensors that a program holds: its parameters, buffers and constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from graphwire.schema import ITEM_SIZES, PayloadMeta, Program, TensorMeta, held_by


class TensorSizes(msgspec.Struct, frozen=True):
    """The number and total size of a program's tensors of one kind."""

    count: int
    elements: int
    """The number of elements of all tensors; a tied tensor counts each time."""
    bytes: int
    """The size of their storages. If payload records list which are shared, each storage counts once."""


class HeldTensor(msgspec.Struct, frozen=True):
    """The qualified name, storage and size of one tensor that the program holds."""

    name: str
    storage: str
    elements: int
    bytes: int


def _held(name: str, storage: str, meta: TensorMeta | None) -> HeldTensor:
    if meta is None:
        return HeldTensor(name, storage, 0, 0)
    elements, reach = 1, meta.storage_offset.as_int or 0
    for size, stride in zip(meta.sizes, meta.strides, strict=False):
        elements *= size.as_int or 0
        reach += max(0, (size.as_int or 0) - 1) * (stride.as_int or 0)
    item = ITEM_SIZES.get(meta.dtype_text, 0)
    return HeldTensor(name, storage, elements, (reach + 1) * item if elements else 0)


def tensors_of_graph(program: Program) -> dict[str, list[HeldTensor]]:
    """Return the tensors that the signature lists, by kind, with sizes from the graph's metadata."""
    found: dict[str, list[HeldTensor]] = {"parameter": [], "buffer": [], "constant": []}
    metas = program.graph_module.graph.tensor_values
    for spec in program.graph_module.signature.input_specs:
        if (held := held_by(spec)) is not None:
            found[held.kind].append(_held(held.name, held.name, metas.get(held.value)))
    return found


def tensors_of_payloads(
    program: Program, weights: Mapping[str, PayloadMeta], constants: Mapping[str, PayloadMeta]
) -> dict[str, list[HeldTensor]]:
    """Return the tensors that the payload records list, by kind (`parameter`, `buffer`, `constant`)."""
    specs = filter(None, map(held_by, program.graph_module.signature.input_specs))
    buffers = {spec.name for spec in specs if spec.kind == "buffer"}
    found: dict[str, list[HeldTensor]] = {"parameter": [], "buffer": [], "constant": []}
    for name, payload in weights.items():
        kind = "parameter" if payload.is_param else "buffer"
        found[kind].append(_held(name, f"weights/{payload.path_name}", payload.tensor_meta))
    for name, payload in constants.items():
        kind = "buffer" if name in buffers else "constant"
        found[kind].append(_held(name, f"constants/{payload.path_name}", payload.tensor_meta))
    return found


def sum_sizes(tensors: Sequence[HeldTensor]) -> TensorSizes:
    """Return the number and total size of the tensors."""
    storages: dict[str, int] = {}
    for tensor in tensors:
        storages[tensor.storage] = max(tensor.bytes, storages.get(tensor.storage, 0))
    return TensorSizes(len(tensors), sum(tensor.elements for tensor in tensors), sum(storages.values()))
