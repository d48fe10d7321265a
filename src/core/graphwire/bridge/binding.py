"""Gives a program that was loaded without weights its weights."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.export import ExportedProgram

from graphwire.analysis.load_report import ProcessGroup, named_groups
from graphwire.bridge.tensors.storages import StorageTable, byte_span, is_plain, storage_key, view_of
from graphwire.bridge.tensors.tensor_metas import name_in_torch
from graphwire.bridge.torch_compat import private
from graphwire.errors import DecodeError, Problem, WeightsError
from graphwire.registry.registry import Registry
from graphwire.schema import Program, graphs_in
from graphwire.wire.archive.source import type_text
from graphwire.wire.payloads import Record
from graphwire.wire.weights.matching import Weight, WeightRecord


def check_are_tensors(weights: Mapping[Any, Any]) -> None:
    """Check that a mapping has tensors by name.

    Raises:
        DecodeError: it has something else.
    """
    for name, value in weights.items():
        if not isinstance(name, str) or not isinstance(value, torch.Tensor):
            raise DecodeError(
                f"weights= has {type_text(value)} under {name!r:.80}", remedy="Pass tensors by qualified name"
            )


class _Tie(NamedTuple):
    """A tensor of a program, and its names among the weights and the constants."""

    tensor: torch.Tensor
    weights: list[str]
    constants: list[str]

    @property
    def names(self) -> list[str]:
        return [*self.weights, *self.constants]


def bind_weights(
    state: dict[str, Any], constants: dict[str, Any], weights: Mapping[str, torch.Tensor]
) -> None:
    """Replace the weights of a program by tensors of the same shapes, strides and element types, which it then shares.

    Args:
        state: the weights of the program, by name.
        constants: its constants, by name.
        weights: tensors by qualified name. A weight with several names needs one of them. Others are ignored.

    Raises:
        WeightsError: weights are missing or do not fit; the error lists all of them. Nothing is changed.
    """
    ties = _ties(state, constants)
    problems: list[Problem] = []
    found: dict[int, torch.Tensor] = {}
    for key, tie in ties.items():
        given = {name: weights[name] for name in tie.names if name in weights}
        if given:
            problems += _misfits(tie, given)
            found[key] = next(iter(given.values()))
        elif tie.weights:
            problems.append(Problem(tie.names[0], "weight", "it is missing"))
    problems += _torn(ties, found)
    bound = {key: _like(ties[key].tensor, given) for key, given in found.items()} if not problems else {}
    if not problems:
        for key, tie in ties.items():
            if key not in bound:
                bound[key] = _view(tie, ties, bound, problems)
    if problems:
        raise WeightsError(
            problems,
            remedy="Pass weights of this program: names, shapes, strides and element types are those of the graph",
        )
    for key, tie in ties.items():
        for name in tie.weights:
            state[name] = bound[key]
        for name in tie.constants:
            constants[name] = bound[key]


def _ties(state: Mapping[str, Any], constants: Mapping[str, Any]) -> dict[int, _Tie]:
    """Return the tensors to replace: all weights, and the constants without elements."""
    ties: dict[int, _Tie] = {}
    for name, value in state.items():
        ties.setdefault(id(value), _Tie(value, [], [])).weights.append(name)
    for name, value in constants.items():
        if id(value) in ties or (isinstance(value, torch.Tensor) and value.is_meta):
            ties.setdefault(id(value), _Tie(value, [], [])).constants.append(name)
    return ties


def _misfits(tie: _Tie, given: Mapping[str, torch.Tensor]) -> Iterator[Problem]:
    """Yield what is wrong with the tensors that are given for one of the program."""
    old = tie.tensor
    name, new = next(iter(given.items()))
    plain = type(old) in (torch.Tensor, torch.nn.Parameter)
    if plain != (type(new) in (torch.Tensor, torch.nn.Parameter)) or (
        not plain and type(old) is not type(new)
    ):
        yield Problem(name, "weight", f"it is a {type(old).__name__}, and a {type(new).__name__} is given")
        return
    if new.is_meta:
        yield Problem(name, "weight", "the given tensor is on the meta device, and has no elements")
        return
    for what, one, other in (
        ("element type", old.dtype, new.dtype),
        ("layout", old.layout, new.layout),
        ("shape", list(old.shape), list(new.shape)),
    ):
        if one != other:
            yield Problem(name, "weight", f"its {what} is {one}, and {other} is given")
            return
    if old.layout is torch.strided and _moves(old) != _moves(new):
        yield Problem(
            name, "weight", f"its strides are {list(old.stride())}, and {list(new.stride())} are given"
        )
        return
    for other_name, other in given.items():
        if other is not new and not _is_same(new, other):
            yield Problem(name, "tie", f"it and {other_name!r} are one tensor, and two are given")
            return


def _moves(tensor: torch.Tensor) -> list[int]:
    """Return the strides that matter."""
    if tensor.numel() == 0:
        return []
    return [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]


def _is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.layout is not torch.strided or other.layout is not torch.strided:
        return False
    if (one.dtype, one.shape, one.stride()) != (other.dtype, other.shape, other.stride()):
        return False
    return one.numel() == 0 or one.data_ptr() == other.data_ptr()


def _torn(ties: Mapping[int, _Tie], found: Mapping[int, torch.Tensor]) -> Iterator[Problem]:
    """Yield each weight that shares elements with another one in the program, and not among the given tensors."""
    groups: dict[object, list[int]] = {}
    for key, tie in ties.items():
        if key in found and is_plain(tie.tensor):
            groups.setdefault(storage_key(tie.tensor), []).append(key)
    for members in groups.values():
        members.sort(key=lambda each: byte_span(ties[each].tensor))
        for one, other in itertools.pairwise(members):
            first, second = ties[one].tensor, ties[other].tensor
            if byte_span(first)[1] <= byte_span(second)[0]:
                continue
            wanted = byte_span(second)[0] - byte_span(first)[0]
            if found[other].data_ptr() - found[one].data_ptr() != wanted:
                names = ties[one].names[0], ties[other].names[0]
                yield Problem(
                    names[0], "view", f"it shares elements with {names[1]!r}, and the given tensors do not"
                )


def _view(
    tie: _Tie, ties: Mapping[int, _Tie], bound: Mapping[int, torch.Tensor], problems: list[Problem]
) -> torch.Tensor:
    """Return a constant as a view of the weight whose storage it shares."""
    old = tie.tensor
    for key, tensor in bound.items():
        weight = ties[key].tensor
        if is_plain(old) and is_plain(weight):
            if storage_key(weight) != storage_key(old):
                continue
            moved = byte_span(old)[0] - byte_span(weight)[0] + tensor.storage_offset() * tensor.element_size()
            needed = byte_span(old)[1] - byte_span(old)[0]
            if 0 <= moved <= tensor.untyped_storage().nbytes() - needed and moved % old.element_size() == 0:
                offset = moved // old.element_size()
                place = tensor.untyped_storage(), old.dtype, tensor.device
                return view_of(*place, offset, old.shape, old.stride())
    problems.append(Problem(tie.names[0], "constant", "it is missing"))
    return old


def _like(old: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """Return the given tensor as the program has it: as a parameter or a buffer."""
    is_parameter = isinstance(old, torch.nn.Parameter)
    if is_parameter and isinstance(new, torch.nn.Parameter) and new.requires_grad == old.requires_grad:
        return new
    plain = new.detach()
    if is_parameter:
        return torch.nn.Parameter(plain, requires_grad=old.requires_grad)
    if (mark := private.buffer_mark(old)) is not None:
        private.mark_buffer(plain, mark)
    return plain.requires_grad_() if old.requires_grad else plain


def tensors_from_store(
    program: ExportedProgram, open_records: Callable[[dict[str, WeightRecord]], Mapping[str, Record]]
) -> dict[str, torch.Tensor]:
    """Return tensors for the weights of a program, from records that are mapped or copied together.

    Args:
        open_records: returns the bytes of records of weights, by the records' names.

    Raises:
        GraphwireError: as `open_records`.
    """
    records: dict[object, WeightRecord] = {}
    for name, tensor in program.state_dict.items():
        if not is_plain(tensor):
            continue
        key = storage_key(tensor)
        record = records.setdefault(key, WeightRecord(str(len(records)), tensor.untyped_storage().nbytes()))
        record.weights.append(
            Weight(
                name,
                name_in_torch(tensor.dtype),
                tuple(tensor.shape),
                tuple(tensor.stride()),
                int(tensor.storage_offset()),
                not (tensor.is_conj() or tensor.is_neg()),
            )
        )
    opened = open_records({record.name: record for record in records.values()})
    table = StorageTable(opened, lambda device: device, graph_only=False)
    found = {}
    for name, tensor in program.state_dict.items():
        record_of = records.get(storage_key(tensor)) if is_plain(tensor) else None
        if record_of is not None and record_of.name in opened:
            storage = table.storage(record_of.name, torch.device("cpu"))
            sizes = tensor.storage_offset(), tensor.shape, tensor.stride()
            found[name] = view_of(storage, tensor.dtype, torch.device("cpu"), *sizes)
    return found


# --------- checks that the process groups that a program names exist in this process, and have the sizes that it states


_MOST_NODES = 3


def check_process_groups(program: Program, registry: Registry, renamed: Mapping[str, str]) -> None:
    """Check the process groups that torch's own collectives name in a program. Only a process with process groups needs it:
    elsewhere, a call says what it misses.

    Operators of other libraries are not checked, since those may have groups of their own.

    Args:
        renamed: the names in the program, by the names in the file that they replaced.

    Raises:
        DecodeError: this process is not in a group, or its size differs. The message lists all such groups.
    """
    faults = [(group, fault) for group in _checked_groups(program, registry) for fault in _faults(group)]
    if faults:
        here = ", ".join(
            f"{each.name!r} of {each.size} ({each.description})" for each in private.world_groups()
        )
        in_file = {new: old for old, new in renamed.items()}
        names = ", ".join(dict.fromkeys(f"{in_file.get(group.name, group.name)!r}: …" for group, _ in faults))
        raise DecodeError(
            "; ".join(fault for _, fault in faults),
            remedy=f"Pass groups={{{names}}} with a process group or its name; this process is in {here}",
        )


def group_sizes_here(program: Program, registry: Registry) -> dict[str, int]:
    """Return how many processes each process group has that torch's own collectives name in a program, by name. Empty in a
    process without process groups; a group that this process is not in is dropped."""
    if not private.is_in_job():
        return {}
    found = (private.world_group(group.name) for group in _checked_groups(program, registry))
    return {each.name: each.size for each in found if each is not None}


def _checked_groups(program: Program, registry: Registry) -> list[ProcessGroup]:
    own = tuple(name for handler in registry.op_handlers for name in getattr(handler, "keeps", ()))
    graphs = graphs_in(program.graph_module.graph)
    return named_groups(graphs, program.group_sizes, lambda operator: operator.startswith(own))


def _faults(group: ProcessGroup) -> Iterator[str]:
    found = private.world_group(group.name)
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
