"""Converts the example inputs that torch pickles beside a program: `(args, kwargs)` ⇄ a treespec and its leaves.

A program works without them. If they cannot be read or written, they are dropped with a warning.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from msgspec.structs import replace

from graphwire.errors import DecodeError, EncodeError, GraphwireError
from graphwire.schema import (
    Argument,
    Device,
    ExampleInputs,
    Layout,
    PayloadMeta,
    TensorArgument,
    decode_float,
    encode_float,
)
from graphwire.schema.texts.treespec import (
    LEAF,
    TreeSpec,
    dump_json,
    format_treespec,
    is_plain_json,
    load_json,
    parse_treespec,
)
from graphwire.wire.archive.reader import ArchiveReader
from graphwire.wire.payloads import SAMPLE_INPUTS, Payloads
from graphwire.wire.torch_files.pickle_globals import (
    DefaultDictData,
    DequeData,
    DeviceName,
    DTypeName,
    LayoutName,
    StridedTensor,
)
from graphwire.wire.torch_files.torch_save_reader import SCALAR_TYPES, TensorTable, TorchSave

_LAYOUTS = {
    "torch.strided": Layout.Strided,
    "torch.sparse_coo": Layout.SparseCoo,
    "torch.sparse_csr": Layout.SparseCsr,
    "torch.sparse_csc": Layout.SparseCsc,
    "torch.sparse_bsr": Layout.SparseBsr,
    "torch.sparse_bsc": Layout.SparseBsc,
}
_MAX_DEPTH = 100
"""The nesting depth of containers, limited because `_flatten` recurses."""


# ------------------------------------------------------------------------------------------------------ decode


def read_sample_inputs(
    reader: ArchiveReader, member: str, stem: str, *, copied: bool, payloads: Payloads
) -> None:
    """Add the example inputs, their tensors and records to `payloads`, or a warning if they cannot be read.

    Args:
        member: the record with the `torch.save` file. It is empty if there are no example inputs.
        stem: the prefix of the names of tensor records.
    """
    if member not in reader or reader.size(member) == 0:
        return
    try:
        bounds = reader.limits.pickle
        limits = replace(bounds, depth=min(bounds.depth, _MAX_DEPTH))
        saved = TorchSave(reader.nested(member), limits=limits)
        if saved.value is None or saved.value == {}:
            return
        table = TensorTable(saved, SAMPLE_INPUTS, stem, copied=copied)
        leaves: list[Argument] = []
        metas: dict[str, PayloadMeta] = {}
        match saved.value:
            case (tuple() | list(), dict()):
                spec = _flatten(saved.value, table, leaves, metas)
            case _:
                raise DecodeError("the example inputs are not a pair of arguments and keyword arguments")
        payloads.examples = ExampleInputs(format_treespec(spec), leaves)
        payloads.sample_inputs = metas
        payloads.records = {**payloads.records, **table.records}
    except GraphwireError as error:
        payloads.warnings.append(f"the example inputs are dropped: {error.problem}")


def _flatten(
    value: Any, table: TensorTable, leaves: list[Argument], metas: dict[str, PayloadMeta]
) -> TreeSpec:
    """Return the structure of a value, and append its leaves. `read_pickle` has checked the depth."""
    kind, context, children = _container(value)
    if kind is not None:
        return TreeSpec(kind, context, [_flatten(child, table, leaves, metas) for child in children])
    if isinstance(value, StridedTensor):
        name = f"leaf_{len(leaves)}"
        metas[name] = table.meta(value)
        leaves.append(Argument(as_tensor=TensorArgument(name)))
    else:
        leaves.append(_leaf(value))
    return LEAF


def _container(value: Any) -> tuple[str | None, Any, Any]:
    """Return the serialized type of a container, its context as torch writes it, and its children; None for a leaf."""
    if type(value) in (tuple, list):
        return f"builtins.{type(value).__name__}", dump_json(None), value
    if isinstance(value, DequeData):
        return "collections.deque", dump_json(value.maxlen), value
    if not isinstance(value, dict):
        return None, None, ()
    keys = list(value)
    if not is_plain_json(keys):
        raise DecodeError("a dict among the example inputs has keys other than text and numbers")
    if isinstance(value, DefaultDictData):
        module, _, name = (value.factory or "").rpartition(".")
        if not name:
            raise DecodeError("a defaultdict among the example inputs has no factory")
        context = {"default_factory_module": module, "default_factory_name": name, "dict_context": keys}
        return "collections.defaultdict", context, value.values()
    ordered = isinstance(value, OrderedDict)
    return "collections.OrderedDict" if ordered else "builtins.dict", dump_json(keys), value.values()


def _leaf(value: Any) -> Argument:
    kind = type(value)
    if value is None:
        return Argument(as_none=True)
    if kind is bool:
        return Argument(as_bool=value)
    if kind is int and -(1 << 63) <= value < 1 << 63:
        return Argument(as_int=value)
    if kind is float:
        return Argument(as_float=encode_float(value))
    if kind is str:
        return Argument(as_string=value)
    if kind is DeviceName:
        return Argument(as_device=Device(value.type, value.index))
    if kind is DTypeName and value.name in SCALAR_TYPES:
        return Argument(as_scalar_type=SCALAR_TYPES[value.name])
    if kind is LayoutName and value.name in _LAYOUTS:
        return Argument(as_layout=_LAYOUTS[value.name])
    raise DecodeError(f"a {kind.__name__} among the example inputs is not supported")


# ------------------------------------------------------------------------------------------------------ encode


def examples_tree(examples: ExampleInputs) -> Any:
    """Return the example inputs as `(args, kwargs)`, each tensor as a `TensorArgument` with its name.

    Raises:
        EncodeError: they contain a container or a leaf without a plain form that old readers support.
        SchemaError: the treespec is malformed.
    """
    leaves = iter(examples.leaves)
    try:
        return _unflatten(parse_treespec(examples.spec), leaves)
    except StopIteration:
        raise EncodeError("the example inputs have fewer leaves than their structure") from None
    except RecursionError:
        raise EncodeError("the example inputs are nested too deeply") from None


def _unflatten(spec: TreeSpec, leaves: Any) -> Any:
    if spec.is_leaf:
        return _value(next(leaves))
    items = [_unflatten(child, leaves) for child in spec.children]
    match spec.type:
        case "builtins.tuple":
            return tuple(items)
        case "builtins.list":
            return items
        case "builtins.dict" | "collections.OrderedDict":
            keys = load_json(spec.context)
            if (
                type(keys) is list
                and len(keys) == len(items)
                and all(type(key) in (str, int, float) for key in keys)
            ):
                pairs = zip(keys, items, strict=True)
                return OrderedDict(pairs) if spec.type == "collections.OrderedDict" else dict(pairs)
    raise EncodeError(f"a {spec.type} among the example inputs has no plain form")


def _value(leaf: Argument) -> Any:
    match leaf:
        case Argument(as_tensor=TensorArgument() as tensor):
            return tensor
        case Argument(as_none=True):
            return None
        case Argument(as_bool=bool(value)) | Argument(as_int=int(value)) | Argument(as_string=str(value)):
            return value
        case Argument(as_float=(float() | str() | int()) as value):
            return decode_float(value)
    raise EncodeError("a leaf of the example inputs has no plain form")
