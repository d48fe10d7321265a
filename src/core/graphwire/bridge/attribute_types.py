"""Finds the attribute of an exported program whose type differs from what torch creates.

A program is an editable Python object, and encoding trusts its attributes. If that trust fails, the original exception only
tells which Python operation failed; this module finds the attribute at fault. It costs nothing for sound programs.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Union

import torch
from torch.export import ExportedProgram, ExportGraphSignature, ModuleCallEntry
from torch.export.graph_signature import InputKind, InputSpec, OutputSpec
from torch.fx.traceback import NodeSource, NodeSourceAction

from graphwire.analysis.validation.program_rules import UNREADABLE
from graphwire.bridge.torch_compat.private import TreeSpec
from graphwire.bridge.torch_compat.pytree import CHILDREN
from graphwire.errors import EncodeError, GraphwireError, is_of_caller, shown

_NODE_META: dict[str, Any] = {
    "stack_trace": str,
    "nn_module_stack": dict[Any, tuple[str, Any]],
    "source_fn_stack": Sequence[tuple[str, Any]],
    "torch_fn": Sequence[str],
    "custom": dict[str, Any],
    "from_node": Sequence[NodeSource],
}
_NAMED = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR, InputKind.CUSTOM_OBJ)
"""The inputs that represent a named weight, buffer, constant or object."""
_ABSENT = object()
_REMEDY = "Restore the value that torch.export made, or export the program again"


@functools.cache
def _declared() -> dict[Any, dict[str, Any]]:
    """Return the attributes that encoding reads from torch's classes, with their types, except dataclasses, which declare their
    own; under "module" the metadata of graph modules. It is made after an error only, since it imports sympy."""
    import sympy

    from graphwire.bridge.torch_compat.symbolic import ValueRanges

    ranges = Mapping[sympy.Basic, ValueRanges]
    return {
        ExportedProgram: {
            "graph_module": torch.fx.GraphModule,
            "graph_signature": ExportGraphSignature,
            "module_call_graph": Sequence[ModuleCallEntry],
            "state_dict": Mapping[str, Any],
            "constants": Mapping[str, Any],
            "range_constraints": ranges,
            "verifiers": Sequence[type],
        },
        "module": {"custom": dict | list | tuple | str | int | float, "inline_constraints": ranges},
        ExportGraphSignature: {"input_specs": Sequence[InputSpec], "output_specs": Sequence[OutputSpec]},
        ValueRanges: {"lower": sympy.Basic | int, "upper": sympy.Basic | int},
        NodeSource: {
            "name": str,
            "target": str,
            "graph_id": int,
            "pass_name": str,
            "action": Sequence[NodeSourceAction],
            "from_node": Sequence[NodeSource],
        },
        TreeSpec: {"type": Callable | None, CHILDREN: Sequence[TreeSpec]},
    }


class edited_attributes_named:  # noqa: N801 # as `errors.located`
    """A context for encoding a program: after an unexpected error, it reports the first attribute whose type differs from what
    torch creates.

    Raises:
        EncodeError: replaces a foreign exception, or an error that names no cause, if such an attribute exists.
    """

    __slots__ = ("_program",)

    def __init__(self, program: ExportedProgram) -> None:
        self._program = program

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, Exception) or is_of_caller(error):
            return
        if not isinstance(error, GraphwireError) or error.remedy == UNREADABLE:
            faults = (_fault(value, wanted, place) for place, value, wanted in _read(self._program))
            if (fault := next(filter(None, faults), None)) is not None:
                raise fault from error


def _read(program: ExportedProgram) -> Iterator[tuple[str, Any, Any]]:
    """Yield the place, value and type of everything that encoding reads. A value is checked before its parts are read."""
    yield "", program, ExportedProgram
    yield "guards_code", getattr(program, "_guards_code", ()), Sequence[str]  # torch 2.8 has none
    for index, spec in enumerate(program.graph_signature.input_specs):
        if spec.kind in _NAMED:
            yield f"graph_signature.input_specs[{index}].target", spec.target, str
    for path, module in program.graph_module.named_modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        place = ".".join(filter(None, ("graph_module", path)))
        yield f"{place}.meta", module.meta, dict
        yield from _entries(f"{place}.meta", module.meta, _declared()["module"])
        for index, node in enumerate(module.graph.nodes):
            yield f"{place}.graph.nodes[{index}].name", node.name, str
            named = f"{place}.graph.{node.name}"
            if node.op in ("get_attr", "placeholder"):
                yield f"{named}.target", node.target, str
            yield f"{named}.args", node.args, tuple
            yield f"{named}.kwargs", node.kwargs, Mapping[str, Any]
            yield f"{named}.meta", node.meta, dict
            yield from _entries(f"{named}.meta", node.meta, _NODE_META)


def _entries(place: str, meta: dict[str, Any], wanted: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for key, kind in wanted.items():
        if meta.get(key) is not None:
            yield f"{place}[{key!r}]", meta[key], kind


def _fault(value: Any, wanted: Any, place: str) -> EncodeError | None:
    """Return an error for the first part of `value` that does not match `wanted`, a type or a type annotation."""
    seen: set[int] = set()
    pending = [(value, wanted, place)]
    while pending:
        value, wanted, place = pending.pop()
        fitting = next((each for each in _choices(wanted) if _is(value, each)), _ABSENT)
        if fitting is _ABSENT or (
            typing.get_origin(fitting) is tuple and len(value) != len(typing.get_args(fitting))
        ):
            found = "nothing" if value is _ABSENT else shown(value)
            return EncodeError(
                f"found {found}, where torch has {_called(wanted)}", place=place, remedy=_REMEDY
            )
        if typing.get_args(fitting) or id(value) not in seen:
            seen.add(id(value))
            pending += reversed([*_parts(value, fitting, place)])
    return None


def _parts(value: Any, wanted: Any, place: str) -> Iterator[tuple[Any, Any, str]]:
    """Yield the parts of a value of type `wanted`, each with its own type and place."""
    kind, of = typing.get_origin(wanted), typing.get_args(wanted)
    if kind is tuple:
        for index, (each, part) in enumerate(zip(value, of, strict=True)):
            yield each, part, f"{place}[{index}]"
    elif kind is not None and issubclass(kind, Mapping):
        for key, each in value.items():
            yield key, of[0], f"the keys of {place}"
            yield each, of[1], f"{place}[{shown(key)}]"
    elif kind is not None:
        for index, each in enumerate(value):
            yield each, of[0], f"{place}[{index}]"
    else:
        for name, part in _attributes(type(value)).items():
            yield getattr(value, name, _ABSENT), part, ".".join(filter(None, (place, name.lstrip("_"))))


def _attributes(kind: type) -> dict[str, Any]:
    """Return the attributes to check of one of torch's classes, with their types."""
    if kind in _declared():
        return _declared()[kind]
    declares = dataclasses.is_dataclass(kind) and kind.__module__.startswith("torch.export")
    return typing.get_type_hints(kind) if declares else {}


def _choices(wanted: Any) -> Sequence[Any]:
    return typing.get_args(wanted) if typing.get_origin(wanted) in (Union, types.UnionType) else (wanted,)


def _is(value: Any, wanted: Any) -> bool:
    kind = typing.get_origin(wanted) or wanted
    if kind is Sequence and isinstance(value, str):
        return False
    return value is not _ABSENT if kind is Any else isinstance(value, kind)


def _called(wanted: Any) -> str:
    return " or ".join(
        getattr(typing.get_origin(each) or each, "__name__", str(each)) for each in _choices(wanted)
    )
