"""Device meshes and DTensors: which mesh is in force, and programs whose DTensors become whole tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from graphwire.bridge.torch_compat.private import FakeTensor, buffer_mark, is_dtensor, mark_buffer
from graphwire.errors import DecodeError, unless_interrupted

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.export import ExportedProgram


def placement_kinds() -> dict[str, type]:
    """Return the classes of placements that files keep, by the names in files."""
    from torch.distributed.tensor import Partial, Replicate, Shard
    from torch.distributed.tensor.placement_types import _StridedShard

    return {"shard": Shard, "replicate": Replicate, "partial": Partial, "strided_shard": _StridedShard}


def mesh_in_force(names: Sequence[str] | None, sizes: Sequence[int]) -> DeviceMesh:
    """Return the innermost mesh of a `with` around this call that has dimensions of these names and sizes, or the part of one.

    Args:
        names: the names of its dimensions; None for a mesh without names, which any mesh of these sizes is.

    Raises:
        DecodeError: there is none.
    """
    wanted = _mesh_text(names, sizes)
    if not torch.distributed.is_available() or not torch.distributed.is_initialized():
        raise DecodeError(
            f"a DTensor on the device mesh {wanted} needs the processes of a job, and this process is in none",
            remedy=_WITH_MESH,
        )
    from torch.distributed.device_mesh import _mesh_resources

    here = _mesh_resources.mesh_stack[::-1]
    for mesh in here:
        try:
            part = mesh if names is None or mesh.mesh_dim_names == tuple(names) else mesh[tuple(names)]
        except unless_interrupted(KeyError, RuntimeError, ValueError, IndexError):
            continue
        if tuple(part.shape) == tuple(sizes):
            return part
    seen = ", ".join(_mesh_text(mesh.mesh_dim_names, mesh.shape) for mesh in here)
    raise DecodeError(
        f"a DTensor needs the device mesh {wanted}; "
        + (f"in force are {seen}" if seen else "no `with mesh:` is around this call"),
        remedy=_WITH_MESH,
    )


_WITH_MESH = (
    "Load it in a job of as many processes, inside of `with mesh:`, the mesh having these names and sizes; "
    "or let the job that saves call `graphwire.full_tensors(program)` first, and the file loads anywhere"
)


def _mesh_text(names: Sequence[str] | None, sizes: Sequence[int]) -> str:
    parts = [f"{name}={size}" for name, size in zip(names or (), sizes, strict=False)] or map(str, sizes)
    return f"({', '.join(parts)})"


def local_shape(mesh: DeviceMesh, sizes: Sequence[int], placements: Sequence[Any]) -> tuple[int, ...]:
    """Return the sizes of the shard that this process has of a tensor of some sizes."""
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    return tuple(compute_local_shape_and_global_offset(torch.Size(sizes), mesh, placements)[0])


# ------------------------------------------------------------------------------------------------------- whole tensors


def with_full_tensors(program: ExportedProgram) -> None:
    """Replace the DTensors of a program by whole tensors, in place: weights, constants, example inputs, and the descriptions of
    values in its graphs. Each process of the mesh must call it; they exchange their shards.

    Raises:
        DecodeError: a node takes the local shard of a DTensor. Nothing is changed then.
    """
    modules = [each for each in program.graph_module.modules() if isinstance(each, torch.fx.GraphModule)]
    nodes = [node for module in modules for node in module.graph.nodes]
    for node in nodes:
        taken = node.args[0] if "access_subclass_inner_tensor" in str(node.target) else None
        if isinstance(taken, torch.fx.Node) and is_dtensor(taken.meta.get("val")):
            raise DecodeError(
                f"{node.name} takes the local shard of a DTensor, {taken.name}, so the program computes what one process does",
                place="graph",
                remedy="Keep its DTensors, or export the model without `to_local()`",
            )
    known: dict[int, Any] = {}

    def whole(value: Any) -> Any:
        if not is_dtensor(value):
            return value
        if id(value) not in known:
            known[id(value)] = value, _whole(value)
        return known[id(value)][1]

    with torch.no_grad():
        for values in (program.state_dict, program.constants):
            values.update({name: whole(value) for name, value in values.items()})
        for module in modules:
            for target in {str(node.target) for node in module.graph.nodes if node.op == "get_attr"}:
                _replace_attribute(module, target, whole)
        for node in nodes:
            for key in _DESCRIPTIONS & node.meta.keys():
                node.meta[key] = torch.utils._pytree.tree_map(whole, node.meta[key])
        program._example_inputs = torch.utils._pytree.tree_map(whole, program._example_inputs)


_DESCRIPTIONS = frozenset({"val", "example_value"})


def _whole(value: Any) -> torch.Tensor:
    local = value.to_local()
    if isinstance(local, FakeTensor):
        with local.fake_mode:
            made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
    else:
        made = value.full_tensor()
        span = 1 + sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True))
        # Else it has gaps, which a file may exaggerate. `empty_like` keeps strides that do not overlap.
        if made.stride() != value.stride() and span <= made.numel():
            like = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
            made = torch.empty_like(like, device=made.device).copy_(made)
    if isinstance(value, torch.nn.Parameter):
        made = torch.nn.Parameter(made, requires_grad=value.requires_grad)
    else:
        made = made.detach().requires_grad_(value.requires_grad)
    if (mark := buffer_mark(value)) is not None:
        mark_buffer(made, mark)
    return made


def _replace_attribute(module: torch.fx.GraphModule, target: str, whole: Callable[[Any], Any]) -> None:
    path, _, name = target.rpartition(".")
    owner = module.get_submodule(path)
    if (value := getattr(owner, name, None)) is not None and (made := whole(value)) is not value:
        setattr(owner, name, made)
