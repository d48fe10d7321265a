"""Checks that the process groups that a program names exist in this process, and have the sizes that it states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from graphwire.analysis.inspection import ProcessGroup, named_groups
from graphwire.bridge.torch_compat import is_in_job, world_group, world_groups
from graphwire.errors import DecodeError
from graphwire.evolve.opsets import graphs_in
from graphwire.hooks import Registry
from graphwire.schema import Program

_MOST_NODES = 3


def check_process_groups(program: Program, registry: Registry, renamed: Mapping[str, str]) -> None:
    """Check the process groups that torch's own collectives name in a program. Does nothing in a process without process
    groups: there, a call says what it misses.

    Operators of other libraries are not checked, since those may have groups of their own.

    Args:
        renamed: the names in the program, by the names in the file that they replaced.

    Raises:
        DecodeError: this process is not in a group, or its size differs. The message lists all such groups.
    """
    if not is_in_job():
        return
    faults = [(group, fault) for group in _checked_groups(program, registry) for fault in _faults(group)]
    if faults:
        here = ", ".join(f"{each.name!r} of {each.size} ({each.description})" for each in world_groups())
        in_file = {new: old for old, new in renamed.items()}
        names = ", ".join(dict.fromkeys(f"{in_file.get(group.name, group.name)!r}: …" for group, _ in faults))
        raise DecodeError(
            "; ".join(fault for _, fault in faults),
            remedy=f"Pass groups={{{names}}} with a process group or its name; this process is in {here}",
        )


def group_sizes_here(program: Program, registry: Registry) -> dict[str, int]:
    """Return how many processes each process group has that torch's own collectives name in a program, by name. Empty in a
    process without process groups; a group that this process is not in is left out."""
    if not is_in_job():
        return {}
    found = (world_group(group.name) for group in _checked_groups(program, registry))
    return {each.name: each.size for each in found if each is not None}


def _checked_groups(program: Program, registry: Registry) -> list[ProcessGroup]:
    own = tuple(name for handler in registry.op_handlers for name in getattr(handler, "keeps", ()))
    graphs = graphs_in(program.graph_module.graph)
    return named_groups(graphs, program.group_sizes, lambda operator: operator.startswith(own))


def _faults(group: ProcessGroup) -> Iterator[str]:
    found = world_group(group.name)
    users = _users(group.nodes)
    if found is None:
        yield f"this process is in no process group {group.name!r}, which {users} name{_s(group.nodes)}"
        return
    for size in group.sizes:
        if size != found.size:
            yield f"the process group {group.name!r} has size {found.size} here, and {users} state{_s(group.nodes)} {size}"
    if not group.sizes and group.saved_size not in (None, found.size):
        saved = f"{group.saved_size} where the program was saved"
        yield f"the process group {group.name!r}, which {users} name{_s(group.nodes)}, has size {found.size} here, and {saved}"


def _users(nodes: Sequence[str]) -> str:
    more = f" and {len(nodes) - _MOST_NODES} more" if len(nodes) > _MOST_NODES else ""
    return ", ".join(nodes[:_MOST_NODES]) + more


def _s(nodes: Sequence[str]) -> str:
    return "s" if len(nodes) == 1 else ""
