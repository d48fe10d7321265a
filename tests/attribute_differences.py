"""What differs between two programs, by every attribute that their objects have, also those that nobody thought of."""

from __future__ import annotations

import enum
import re
import types
from collections.abc import Iterator
from typing import Any

import sympy
import torch
from inside.registry import TORCH_METADATA
from torch._subclasses.fake_tensor import FakeTensor

_FACTS = ("dtype", "layout", "device", "requires_grad", "is_leaf")
_ATOMS = (
    *(type, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType, type(None)),
    *(str, int, float, complex, bytes, enum.Enum),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format),
    *(torch._ops.OpOverload, torch._ops.OpOverloadPacket, torch._ops.HigherOrderOperator),
)
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_FIELDS = (types.MemberDescriptorType, types.GetSetDescriptorType)
_NO_FIELDS = frozenset(("__dict__", "__weakref__", "meta", "_sort_key"))
_OF_THE_PROCESS = frozenset(("FakeTensorMode", "ShapeEnv", "FakeTensorConverter"))
"""torch's classes of what a trace works with. Symbols, their ranges and hints are compared where values have them."""

_GRAPH = r"_graph_module(\._modules\[\])*\."
NOT_KEPT = {
    _GRAPH
    + r"_graph\._graph_namespace\..+": "names that torch's tracing used up before it renamed the nodes",
    _GRAPH + r"_graph\._find_nodes_lookup_table\.table\..+": "empty rows of nodes that were erased",
    _GRAPH + r"(_graph\.)?_tracer_cls:type": "the tracer, which is no part of what it made",
    _GRAPH
    + r"_graph\._co_fields\..+": "where the function stands that was traced, on the machine that exported",
    _GRAPH
    + r"meta\.(partition_names|dynamo_compile_id|module_call_specs)": "notes of torch's passes for one another",
    r"_graph_module(\._modules\[\])+\.meta\.inline_constraints": "ranges that torch notes of the whole program",
    r"_graph_module(\._modules\[\])*\._(code:value|lineno_map(\[\]:value|\..+))": "the code of a graph that was changed since",
    _GRAPH + r"_modules\..+": "a submodule that no node reads, and the order of the others",
    r"_graph_signature\.input_specs\[\]\.arg\.fake_val:type": "the stand-in of a script object; torch's load makes none",
    _GRAPH
    + r"_graph\.nodes\[\]\.meta\.("
    + "|".join(TORCH_METADATA)
    + ")": "notes of torch for the process only",
    _GRAPH + r"_graph\.nodes\[\]\.(users|_input_nodes)\.order": "the order in which users were added",
    _GRAPH + r"_graph\.nodes\[\]\.meta\.unbacked_bindings": "found at load, from the values",
    r"_graph_module(\._modules\[\])+(\._buffers)?\.\w+": "a tensor that a subgraph's module holds, which is a buffer",
    _GRAPH + r"meta\.order": "notes have no order",
    _GRAPH + r"_graph\.nodes\[\]\._kwargs\.order": "keyword arguments of an operator stand as in its schema",
    r"(_example_inputs(\[\])+|_state_dict\[\])\.(_specialize_on|_dynamo_.+)": "marks of torch's compiler on what it was given",
}
"""What of the attributes of a program may differ after a load, and why."""


def lost_attributes(program: Any, loaded: Any) -> list[str]:
    """The `differences` of a loaded program, without what may differ."""
    found = differences(program, loaded)
    return [name for name in found if not any(re.fullmatch(each, name) for each in NOT_KEPT)]


def differences(one: Any, other: Any) -> list[str]:
    """The paths of what differs, as `graph_module.meta.custom`: each attribute by its name, each key and index as `[]`, and
    what is not attributes behind a colon: `:type`, `:size`, `:value`, and facts of tensors, as `:stride`."""
    return sorted({path.removeprefix(".") for path in _differing(one, other, "", {})})


def _differing(one: Any, other: Any, path: str, seen: dict[tuple[int, int], Any]) -> Iterator[str]:
    if one is other or (id(one), id(other)) in seen:
        return
    seen[id(one), id(other)] = (one, other)  # which keeps both alive, so that no id comes twice
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        facts, others = _facts(one), _facts(other)
        yield from (f"{path}:{fact}" for fact in facts if facts[fact] != others[fact])
        if not isinstance(one, FakeTensor):
            yield from (f"{path}.{key}" for key in vars(one).keys() ^ vars(other).keys())
        return
    if _is_nothing(one) and _is_nothing(other):
        return
    if type(one) is not type(other) and not (
        isinstance(one, torch.fx.GraphModule) and isinstance(other, torch.fx.GraphModule)
    ):
        yield f"{path}:type"
    elif isinstance(one, torch.fx.Node):  # whose attributes are compared where its graph lists it
        if one.name != other.name:
            yield f"{path}:value"
    elif isinstance(one, _SYMBOLIC):
        if (str(one), one.node.hint) != (str(other), other.node.hint):
            yield f"{path}:value"
    elif isinstance(one, _ATOMS):
        if one != other and repr(one) != repr(other):  # nan differs from itself
            yield f"{path}:value"
    elif isinstance(one, sympy.Basic) or type(one).__name__ == "ValueRanges":
        if str(one) != str(other):
            yield f"{path}:value"
    elif isinstance(one, dict):
        if path.endswith(".meta"):
            one, other = (
                {key: held for key, held in each.items() if not _is_nothing(held)} for each in (one, other)
            )
        theirs = {str(key): each for key, each in other.items()}
        if [*map(str, one)] != [*theirs]:
            yield from (f"{path}.{key}" for key in {*map(str, one)} ^ theirs.keys() or ["order"])
        for key, each in one.items():
            if str(key) in theirs:
                yield from _differing(each, theirs[str(key)], f"{path}[]", seen)
    elif isinstance(one, (list, tuple)):
        if len(one) != len(other):
            yield f"{path}:size"
        for each, its in zip(one, other, strict=False):
            yield from _differing(each, its, f"{path}[]", seen)
    elif isinstance(one, (set, frozenset)):
        if sorted(map(str, one)) != sorted(map(str, other)):
            yield f"{path}:value"
    elif not isinstance(one, torch.ScriptObject) and type(one).__name__ not in _OF_THE_PROCESS:
        yield from _differing_attributes(one, other, path, seen)


def _is_nothing(value: Any) -> bool:
    """Whether a value is None, or a container or text without contents, which say the same."""
    return value is None or (isinstance(value, (str, dict, list, tuple)) and not value)


def _differing_attributes(one: Any, other: Any, path: str, seen: dict[tuple[int, int], Any]) -> Iterator[str]:
    if isinstance(one, torch.fx.Graph):
        if len(one.nodes) != len(other.nodes):
            yield f"{path}.nodes:size"
        for node, its in zip(one.nodes, other.nodes, strict=False):
            yield from _differing_attributes(node, its, f"{path}.nodes[]", seen)
            # `graphwire.testing.snapshots` compares the values.
            keys, others = (
                {key for key, held in each.meta.items() if not _is_nothing(held)} for each in (node, its)
            )
            yield from (f"{path}.nodes[].meta.{key}" for key in keys ^ others)
    ours, theirs = _attributes(one), _attributes(other)
    if not ours and one != other and repr(one) != repr(other):
        yield f"{path}:value"
    for name in sorted({**ours, **theirs}):
        if name not in ours or name not in theirs:
            yield f"{path}.{name}"
        else:
            yield from _differing(ours[name], theirs[name], f"{path}.{name}", seen)


def _attributes(value: Any) -> dict[str, Any]:
    """What `vars` finds, and what slots and fields in C hold."""
    held = {
        name: getattr(value, name)
        for kind in type(value).__mro__
        for name, each in vars(kind).items()
        if isinstance(each, _FIELDS) and name not in _NO_FIELDS and hasattr(value, name)
    }
    return {**held, **getattr(value, "__dict__", {})}


def _facts(tensor: torch.Tensor) -> dict[str, Any]:
    facts = {name: getattr(tensor, name) for name in _FACTS}
    facts["class"] = [
        type(tensor),
        isinstance(tensor, torch.nn.Parameter),
        isinstance(tensor, torch.nn.Buffer),
    ]
    facts["shape"] = (
        None if tensor.is_nested else str(tensor.shape)
    )  # which counts the nested tensors of the process
    facts["hints"] = [
        getattr(each.node, "hint", None) if type(each) is torch.SymInt else each
        for each in tensor.shape
        if not tensor.is_nested
    ]
    facts["conjugate"], facts["negative"] = tensor.is_conj(), tensor.is_neg()
    strided = tensor.layout is torch.strided
    facts["stride"] = str(tensor.stride()) if strided else None
    facts["offset"] = str(tensor.storage_offset()) if strided else None
    return facts
