"""Process groups of this process, and the values that exist only in the processes of one job."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import torch

_SCRIPT_CLASSES = "__torch__.torch.classes.c10d."


class WorldGroup(NamedTuple):
    """A process group that this process is in."""

    name: str
    size: int
    """The number of its processes."""
    description: str
    """What its maker says of it, such as `mesh_tp`; `undefined` if nothing."""


def is_in_job() -> bool:
    """Return whether this process has initialized process groups."""
    distributed = torch.distributed
    return distributed.is_available() and distributed.is_initialized()


def world_group(name: str) -> WorldGroup | None:
    """Return the process group that a collective finds under a name; None if this process has none."""
    from torch._C._distributed_c10d import _resolve_process_group

    try:
        group = _resolve_process_group(name)
    except (RuntimeError, ValueError):
        return None
    return WorldGroup(name, group.size(), group.group_desc)


def world_groups() -> list[WorldGroup]:
    """Return the process groups that this process is in, in the order in which it entered them."""
    from torch.distributed.distributed_c10d import _world

    return [WorldGroup(name, group.size(), group.group_desc) for group, name in _world.pg_names.items()]


_OF_A_JOB = {
    ("torch.distributed.tensor", "DTensor"): "a DTensor",
    ("torch.distributed.device_mesh", "DeviceMesh"): "a device mesh",
    ("torch.distributed", "ProcessGroup"): "a process group",
}
"""The classes whose instances refer to the processes of a job, by module and name."""


def kind_of_job_value(value: Any) -> str:
    """Return what a value is if it refers to the processes of the job that made it, such as `a DTensor`; else an empty
    text."""
    for (module, name), kind in _OF_A_JOB.items():
        # Nothing is imported: without its module, there is no instance.
        found = getattr(sys.modules.get(module), name, None)
        if found is not None and isinstance(value, found):
            return kind
    if type(value) is torch.ScriptObject:
        name = str(value._type().qualified_name())
        if name.startswith(_SCRIPT_CLASSES):
            return f"an object of torch.distributed ({name.removeprefix(_SCRIPT_CLASSES)})"
    return ""
