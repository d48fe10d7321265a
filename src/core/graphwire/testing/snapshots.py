"""Describe exported programs as comparable plain data: snapshots with everything that a file must keep.

Weights are represented by digests, so that a program can be compared with its own earlier state.
"""

from __future__ import annotations

import ctypes
import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch.export import ExportedProgram
from torch.fx.immutable_collections import immutable_dict, immutable_list
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from graphwire.bridge.torch_compat.private import FakeTensor, guards_of, symbolic_node, symbolic_parts
from graphwire.bridge.torch_compat.pytree import children_of, context_of, is_treespec
from graphwire.bridge.torch_compat.source_functions import function_table, name_of_function
from graphwire.registry.registry import default_registry
from graphwire.schema.texts.metadata import ProcessNumbers

Snapshot: TypeAlias = dict[str, Any]
"""A program as nested dicts and lists, whose leaves are compared by `==` and by type."""

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def snapshot(program: ExportedProgram) -> Snapshot:
    """Return an exported program as plain data, with digests in place of weights."""
    return {
        "graph_module": _numbered(_graph_module(program.graph_module), ProcessNumbers()),
        "signature": _signature(program.graph_signature),
        "range_constraints": _ranges(program.range_constraints),
        "inline_constraints": _ranges(program.graph_module.meta.get("inline_constraints")),
        "replacements": _replacements(program),
        "symbols": _symbols(program),
        "module_call_graph": [_module_call(entry) for entry in program.module_call_graph],
        "guards": guards_of(program),
        "verifiers": list(program.verifiers),
        "state_dict": _held(program.state_dict),
        "constants": _held(program.constants),
        "memory": _memory(program),
        "example_inputs": None if program.example_inputs is None else tree_of_values(program.example_inputs),
        "custom": _data(program.graph_module.meta.get("custom")),
        "declared": _declared(program.graph_module.meta),
    }


def _numbered(part: Any, numbers: ProcessNumbers) -> Any:
    """Replace the addresses and counters of this process in metadata, as a file does."""
    if isinstance(part, dict):
        if isinstance(part.get("graph_id"), int):  # not a node of that name
            part |= {"graph_id": numbers.graph(part["graph_id"]), "target": numbers.target(part["target"])}
        meta = part.get("meta", {})
        if "stack_trace" in meta:
            meta["stack_trace"] = numbers.trace(meta["stack_trace"])
        if "nn_module_stack" in meta:
            meta["nn_module_stack"] = {
                numbers.module(str(key)): of_key for key, of_key in meta["nn_module_stack"].items()
            }
        for each in part.values():
            _numbered(each, numbers)
    elif isinstance(part, (list, tuple)):
        for each in part:
            _numbered(each, numbers)
    return part


def _ranges(ranges: Mapping[Any, Any] | None) -> Snapshot | None:
    if ranges is None:
        return None
    return {str(expression): (str(each.lower), str(each.upper)) for expression, each in ranges.items()}


def _replacements(program: ExportedProgram) -> Snapshot:
    """Return the expression that replaces each symbol that has a range but occurs in no value."""
    value = next(_symbolic_values(program), None)
    if value is None:
        return {}
    from graphwire.bridge.torch_compat.symbolic import replacements

    found = replacements(symbolic_node(value).shape_env, program.range_constraints)
    return {str(symbol): str(expression) for symbol, expression in found.items()}


def _signature(signature: Any) -> Snapshot:
    return {
        "inputs": [_spec(spec) for spec in signature.input_specs],
        "outputs": [_spec(spec) for spec in signature.output_specs],
    }


def _spec(spec: Any) -> Any:
    """Return the class and fields of an input, output or argument spec, without the fake value of an object."""
    if not dataclasses.is_dataclass(spec):
        return _data(spec)
    fields = {field.name: _spec(getattr(spec, field.name)) for field in dataclasses.fields(spec)}
    fields.pop("fake_val", None)
    return {"class": type(spec), **fields}


def _module_call(entry: Any) -> Snapshot:
    signature = entry.signature
    if signature is None:
        return {"fqn": entry.fqn, "signature": None}
    return {
        "fqn": entry.fqn,
        "inputs": [_spec(spec) for spec in signature.inputs],
        "outputs": [_spec(spec) for spec in signature.outputs],
        "in_spec": _treespec(signature.in_spec),
        "out_spec": _treespec(signature.out_spec),
        "forward_arg_names": signature.forward_arg_names or None,
    }


def _treespec(spec: Any) -> Snapshot:
    return {
        "class": spec.type,
        "context": _data(context_of(spec)),
        "children": [_treespec(child) for child in children_of(spec)],
    }


def tree_of_values(values: Any) -> Snapshot:
    """Return nested values as plain data: the treespec, and each leaf with a digest of its elements."""
    leaves, spec = pytree.tree_flatten(values)
    return {"spec": _treespec(spec), "leaves": [_payload(leaf) for leaf in leaves]}


_ASSUMPTIONS = ("is_integer", "is_positive", "is_nonnegative")


def _symbols(program: ExportedProgram) -> Snapshot:
    """Return the assumptions of each symbol, by name."""
    symbols = {}
    values = map(symbolic_parts, _symbolic_values(program))
    for expression in [*(expression for expression, _ in values), *program.range_constraints]:
        for symbol in expression.free_symbols:
            symbols[str(symbol)] = {key: getattr(symbol, key) for key in _ASSUMPTIONS}
    return dict(sorted(symbols.items()))


def _symbolic_values(program: ExportedProgram) -> Iterator[Any]:
    for node in graph_nodes(program):
        for value in pytree.tree_leaves(node.meta.get("val")):
            parts = value.shape if isinstance(value, torch.Tensor) else [value]
            yield from (part for part in parts if isinstance(part, _SYMBOLIC))


# ------------------------------------------------------------------------------------------------------- graphs


def graph_nodes(program: ExportedProgram) -> Iterator[torch.fx.Node]:
    """Yield the nodes of a program's graph and of its subgraphs."""
    for owner in program.graph_module.modules():
        if isinstance(owner, torch.fx.GraphModule):
            yield from owner.graph.nodes


def _graph_module(module: torch.fx.GraphModule) -> Snapshot:
    """Return the nodes of a graph, and the subgraphs and tensors that it reads, by attribute name."""
    nodes, attributes = {}, {}
    for node in module.graph.nodes:
        nodes[node.name] = _node(node)
        if node.op == "get_attr":
            attributes[str(node.target)] = _attribute(module, str(node.target))
    return {"nodes": nodes, "attributes": attributes}


def _attribute(module: torch.fx.GraphModule, path: str) -> Any:
    value: Any = module
    for part in path.split("."):
        value = getattr(value, part)
    if isinstance(value, torch.fx.GraphModule):
        return _graph_module(value)
    return _treespec(value) if is_treespec(value) else _payload(value)


def _node(node: torch.fx.Node) -> Snapshot:
    args = [_argument(argument) for argument in node.args]
    kwargs = {name: _argument(argument) for name, argument in node.kwargs.items()}
    meta = {key: describe(node.meta[key]) for key, describe in _META.items() if node.meta.get(key)}
    if node.meta.get("val") is not None:  # A node without results may have None here, or no entry.
        meta["val"] = _value(node.meta["val"])
    meta |= _declared(node.meta)
    return {"op": node.op, "target": node.target, "args": args, "kwargs": kwargs, "meta": meta}


def _declared(meta: Mapping[str, Any]) -> Snapshot:
    """Return the metadata whose keys installed plugins declare."""
    keys = default_registry().metadata_keys
    return {key: _data(meta[key]) for key in keys if meta.get(key) is not None}


def _argument(value: Any) -> Any:
    """Return an argument of a node as plain data, with exact types."""
    return f"%{value.name}" if isinstance(value, torch.fx.Node) else _data(value, _argument)


_FROZEN: dict[type, type] = {immutable_list: list, immutable_dict: dict}
"""The containers that FX substitutes in arguments, and the types that they replace."""


def _data(value: Any, inner: Callable[[Any], Any] | None = None) -> Any:
    """Return a value as plain data, with exact types.

    Args:
        inner: the function that describes the elements of containers.
    """
    inner = inner or _data
    kind = _FROZEN.get(type(value), type(value))
    if isinstance(value, Mapping):
        keys, values = map(inner, value), map(inner, value.values())
        return {"class": kind, "keys": list(keys), "values": list(values)}
    if isinstance(value, slice):
        value = (value.start, value.stop, value.step)
    if isinstance(value, (list, tuple)):
        return {"class": kind, "items": [inner(item) for item in value]}
    if isinstance(value, torch.ScriptObject):
        return _payload(value)
    if isinstance(value, (float, complex)):  # Their text distinguishes 0.0 from -0.0, and is equal for nans.
        return f"{kind.__name__} {value!r}"
    return value


# ----------------------------------------------------------------------------------------------------- metadata


def _value(value: Any) -> Any:
    """Return the metadata of a value: sizes and memory layout of a tensor, or the expression of a symbolic value."""
    if isinstance(value, torch.Tensor):
        described = {"class": _class_of(value), **_tensor_meta(value)}
        if isinstance(value, torch.nn.Buffer):
            described["buffer"] = True
        if is_traceable_wrapper_subclass(value) and not value.is_nested:
            described |= _composition(value, _value)
        return described
    if isinstance(value, _SYMBOLIC):
        expression, hint = symbolic_parts(value)
        # torch's schema has no hint for a SymBool.
        known = "" if isinstance(value, torch.SymBool) else f" = {hint!r}"
        return f"{type(value).__name__} {expression}{known}"
    return _spec(value) if dataclasses.is_dataclass(value) else _data(value, _value)


def _tensor_meta(tensor: torch.Tensor) -> Snapshot:
    described = {
        "dtype": tensor.dtype,
        "device": tensor.device,
        "layout": tensor.layout,
        "requires_grad": tensor.requires_grad,
        "sizes": [_size(size) for size in tensor.shape],
    }
    if tensor.layout is torch.strided:
        described["strides"] = [_size(stride) for stride in tensor.stride()]
        described["offset"] = _size(tensor.storage_offset())
    return described


def _size(size: int | torch.SymInt) -> Any:
    """Return a size, stride or offset as plain data.

    A symbolic size that was specialized equals its number. The row length of a nested tensor has no number.
    """
    if isinstance(size, torch.SymInt) and symbolic_node(size).is_nested_int():
        return "jagged"
    if isinstance(size, torch.SymInt) and (number := symbolic_parts(size)[0]).is_Integer:
        return int(number)
    return _value(size)


def _class_name(kind: Any) -> str:
    """Return the name of a class in a module stack: a loaded program has only the name."""
    return kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"


def _function(function: Any) -> Any:
    """Return a class or function in metadata if a loaded program contains it too, else its name."""
    operators = (torch._ops.OpOverload, torch._ops.OpOverloadPacket, torch._ops.HigherOrderOperator)
    if isinstance(function, (str, *operators)):
        return function
    name = name_of_function(function)
    return function if function_table().get(name) is function else name


def _source(source: Any) -> Snapshot:
    return {
        "name": source.name,
        "target": source.target,
        "graph_id": source.graph_id,
        "pass_name": source.pass_name,
        "action": list(source.action),
        "from_node": [_source(origin) for origin in source.from_node],
    }


_META: dict[str, Callable[[Any], Any]] = {
    "stack_trace": _data,
    "nn_module_stack": lambda stack: {key: [path, _class_name(kind)] for key, (path, kind) in stack.items()},
    "source_fn_stack": lambda stack: [[name, _function(function)] for name, function in stack],
    "torch_fn": _data,
    "custom": _data,
    "from_node": lambda sources: [_source(source) for source in sources],
    "unbacked_bindings": lambda bindings: {str(symbol): str(path) for symbol, path in bindings.items()},
}
"""The metadata keys of nodes that a file keeps, besides `val`, and the functions that describe them."""


# --------------------------------------------------------------------------------------------- weights, constants


def _held(values: Mapping[str, Any]) -> Snapshot:
    """Return named tensors and objects as plain data."""
    return {
        name: {**_payload(value), "buffer": True} if isinstance(value, torch.nn.Buffer) else _payload(value)
        for name, value in values.items()
    }


def _memory(program: ExportedProgram) -> Snapshot:
    """Return which weights and constants are the same tensor, and which share a storage."""
    held = {"state_dict": program.state_dict, "constants": program.constants}
    tensors = {
        f"{where}.{name}": value
        for where, values in held.items()
        for name, value in values.items()
        if isinstance(value, torch.Tensor)
    }
    places = {
        name: value.untyped_storage().data_ptr()
        for name, value in tensors.items()
        if _has_elements(value) and value.layout is torch.strided and not _is_composed(value)
    }
    return {
        "identical": _groups({name: id(value) for name, value in tensors.items()}),
        "sharing": _groups({name: place for name, place in places.items() if place}),
    }


def _groups(keys: Mapping[str, Any]) -> list[Any]:
    """Return the groups of two or more names with equal keys."""
    groups: dict[Any, list[str]] = {}
    for name, key in keys.items():
        groups.setdefault(key, []).append(name)
    return [names for names in groups.values() if len(names) > 1]


def _has_elements(tensor: torch.Tensor) -> bool:
    return not _is_fake(tensor) and tensor.device.type != "meta"


def _payload(value: Any) -> Any:
    """Return a weight or constant as plain data, with digests in place of elements."""
    if isinstance(value, torch.ScriptObject):
        state, name = torch.ScriptObject.__getstate__(value)
        return {"class": name, "state": _data(state, _payload)}
    if not isinstance(value, torch.Tensor):
        return _data(value, _payload)
    described = {"class": _class_of(value), **_tensor_meta(value)}
    described |= {"conj": value.is_conj(), "neg": value.is_neg()}
    if _is_composed(value):
        described |= _composition(value, _payload)
    elif _has_elements(value):
        described["elements"] = [_digest(part) for part in _parts(value.detach())]
    return described


def _composition(tensor: torch.Tensor, inner: Callable[[Any], Any]) -> Snapshot:
    """Return the tensors and the context that a wrapper subclass consists of."""
    attributes, context = tensor.__tensor_flatten__()
    parts = {name: inner(getattr(tensor, name)) for name in attributes}
    return {"inner": parts, "context": _data(context, inner)}


def _class_of(tensor: torch.Tensor) -> list[type]:
    """Return a tensor's class, ignoring whether it is fake, and whether it also counts as a parameter."""
    kind = torch.Tensor if type(tensor) is FakeTensor else type(tensor)
    is_parameter = isinstance(tensor, torch.nn.Parameter) and kind is not torch.nn.Parameter
    return [kind, torch.nn.Parameter] if is_parameter else [kind]


def _is_composed(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is a wrapper subclass, which consists of other tensors."""
    return is_traceable_wrapper_subclass(tensor) and not _is_fake(tensor)


def _is_fake(tensor: torch.Tensor) -> bool:
    return isinstance(tensor, FakeTensor)


def _parts(tensor: torch.Tensor) -> Sequence[torch.Tensor]:
    """Return the plain tensors that store the elements of a tensor."""
    if tensor.layout is torch.sparse_coo:
        return tensor._indices(), tensor._values()
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return tensor.crow_indices(), tensor.col_indices(), tensor.values()
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return tensor.ccol_indices(), tensor.row_indices(), tensor.values()
    if tensor.is_quantized:
        channels = tensor.qscheme() is torch.per_channel_affine
        scale = (tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points()) if channels else ()
        return tensor.int_repr(), *scale
    return (tensor,)


def _digest(tensor: torch.Tensor) -> str:
    plain = tensor.cpu().resolve_conj().resolve_neg().contiguous()
    if plain.numel() == 0:
        return "empty"
    data = ctypes.string_at(plain.data_ptr(), plain.numel() * plain.element_size())
    return hashlib.sha256(data).hexdigest()
