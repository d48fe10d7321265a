"""The constant codec for DTensors: the shard of one process, with its place on a device mesh that has names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphwire.errors import DecodeError, EncodeError, unless_interrupted
from graphwire.registry.interfaces import Tree
from graphwire_plugins.script_states import as_weight, check_memory, weight_fields


class DTensors:
    """Encodes `torch.distributed.tensor.DTensor`s, also those without elements in graphs.

    The tree is `{"mesh", "coordinate", "placements", "sizes", "strides", "parameter", "requires_grad"}`: the names and sizes of
    the dimensions of its mesh, the position of the process there, one placement for each dimension, and what the whole
    tensor has. The tensor is the local shard. It decodes inside of `with mesh:`, on a mesh with these names and sizes, at the
    same position.
    """

    name = "dtensor"

    def owns(self, value: Any) -> bool:
        """Whether `value` is a DTensor, not one of a subclass."""
        from graphwire.bridge.torch_compat.private import is_dtensor

        return is_dtensor(value)

    def encode(self, value: Any) -> tuple[Tree, Sequence[Any]]:
        """Return the tree and the local shard, which shares the value's memory.

        Raises:
            EncodeError: this process is not on the mesh, or torch's public constructor makes no such DTensor.
        """
        import torch

        from graphwire.bridge.torch_compat.private import FakeTensor

        mesh, placements = value.device_mesh, value.placements
        with torch.no_grad():
            local = value.to_local()
        coordinate = mesh.get_coordinate()
        if coordinate is None:
            raise EncodeError(
                "it is a DTensor of a mesh that this process is not on", remedy="Save on a process of it"
            )
        names = mesh.mesh_dim_names
        tree: Tree = {
            "mesh": {"names": None if names is None else list(names), "sizes": list(mesh.shape)},
            # Descriptions of values are the same on every process.
            "coordinate": None if isinstance(local, FakeTensor) else list(coordinate),
            "placements": [_encode_placement(each) for each in placements],
            "sizes": list(value.shape),
            "strides": list(value.stride()),
            **weight_fields(value),
        }
        with torch.no_grad():
            if _made(local, mesh, placements, value.shape, value.stride())._spec != value._spec:
                raise EncodeError(
                    f"it is a DTensor of another order of shards than {placements} have", remedy=_ORDER
                )
        return tree, [local]

    def decode(self, tree: Tree, tensors: Sequence[Any]) -> Any:
        """Return the DTensor of a tree and its local shard, on the mesh in force.

        Raises:
            DecodeError: `encode` does not make such a tree or tensors; no such mesh is in force; or the shard is that of
                another process.
        """
        from graphwire.bridge.torch_compat.dtensors import local_shape, mesh_in_force
        from graphwire.bridge.torch_compat.private import FakeTensor

        given: tuple[Any, list[Any]] = tree, list(tensors)
        match given:
            case {
                "mesh": {"names": list() | None as names, "sizes": list(mesh_sizes)},
                "coordinate": list() | None as coordinate,
                "placements": list(placed),
                "sizes": list(sizes),
                "strides": list(strides),
                "parameter": bool(parameter),
                "requires_grad": bool(requires_grad),
            }, [local] if (
                len(placed) == len(mesh_sizes)
                and len(sizes) == len(strides)
                and (
                    names is None
                    or (len(names) == len(mesh_sizes) and all(type(name) is str for name in names))
                )
                and all(type(size) is int for size in (*mesh_sizes, *(coordinate or ())))
            ):
                pass
            case _:
                raise DecodeError(f"no DTensor is described by {tree!r:.200} and {len(tensors)} tensors")
        mesh = mesh_in_force(names, mesh_sizes)
        placements = [_decode_placement(each, len(sizes)) for each in placed]
        if not isinstance(local, FakeTensor):
            _check_place(mesh, coordinate, placements)
            check_memory(local)
            if not local.is_meta and local.device.type != mesh.device_type:
                raise DecodeError(
                    f"the shard is on {local.device}, and the mesh is of {mesh.device_type!r}",
                    remedy=f"Pass device={mesh.device_type!r}",
                )
            try:
                wanted = local_shape(mesh, sizes, placements)
            except unless_interrupted(RuntimeError, ValueError, TypeError, IndexError) as error:
                raise DecodeError(f"the placements of a DTensor do not fit its sizes: {error}") from error
            if tuple(local.shape) != wanted:
                raise DecodeError(
                    f"a DTensor of {tuple(sizes)} with {placements} has a shard of {wanted} here, not of {tuple(local.shape)}"
                )
        try:
            return as_weight(_made(local, mesh, placements, sizes, strides), parameter, requires_grad)
        except unless_interrupted(RuntimeError, ValueError, TypeError, AssertionError) as error:
            raise DecodeError(f"torch makes no DTensor of this shard: {error}") from error


def _check_place(mesh: Any, coordinate: Any, placements: Sequence[Any]) -> None:
    """Check that a shard is that of this process. Along dimensions that replicate, any process has the same."""
    here = mesh.get_coordinate()
    if here is None or coordinate is None or len(coordinate) != len(here):
        raise DecodeError(f"this process is not on {mesh}, or the file does not say which shard it has")
    pairs = zip(coordinate, here, placements, strict=True)
    if any(theirs != ours and not each.is_replicate() for theirs, ours, each in pairs):
        raise DecodeError(
            f"this is the shard of the process at {tuple(coordinate)} of {mesh}, and this process is at {tuple(here)}",
            remedy="Let each process load the file that the process at its place saved",
        )


_ORDER = "Redistribute it to placements of torch.distributed.tensor before you save, or call graphwire.full_tensors(program)"


def _made(
    local: Any, mesh: Any, placements: Sequence[Any], sizes: Sequence[Any], strides: Sequence[Any]
) -> Any:
    import torch
    from torch.distributed.tensor import DTensor

    return DTensor.from_local(
        local, mesh, placements, run_check=False, shape=torch.Size(sizes), stride=tuple(strides)
    )


_FIELDS = {
    "shard": ("dim",),
    "replicate": (),
    "partial": ("reduce_op",),
    "strided_shard": ("dim", "split_factor"),
}
"""The attributes of each kind of placement, in the order of the constructor's parameters."""


def _encode_placement(placement: Any) -> Tree:
    from graphwire.bridge.torch_compat.dtensors import placement_kinds

    for kind, made_by in placement_kinds().items():
        if type(placement) is made_by:
            return [kind, *(getattr(placement, field) for field in _FIELDS[kind])]
    raise EncodeError(
        f"it is a DTensor with the placement {placement!r}, which files do not keep", remedy=_ORDER
    )


def _decode_placement(tree: Any, dimensions: int) -> Any:
    from graphwire.bridge.torch_compat.dtensors import placement_kinds

    match tree:
        case ["shard", int(dim)] if type(dim) is int and 0 <= dim < dimensions:
            return placement_kinds()["shard"](dim)
        case ["replicate"]:
            return placement_kinds()["replicate"]()
        case ["partial", str(operation)] if operation in _OPERATIONS:
            return placement_kinds()["partial"](operation)
        case ["strided_shard", int(dim), int(factor)] if (
            type(dim) is type(factor) is int and 0 <= dim < dimensions and factor > 0
        ):
            return placement_kinds()["strided_shard"](dim, split_factor=factor)
    raise DecodeError(f"{tree!r:.80} is no placement of a tensor of {dimensions} dimensions")


_OPERATIONS = frozenset({"sum", "avg", "product", "min", "max", "band", "bor", "bxor"})
"""The reductions of torch's functional collectives."""
