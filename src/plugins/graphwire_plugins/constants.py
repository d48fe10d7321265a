"""The built-in constant codecs, for constants and weights that are not plain strided tensors."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from graphwire.errors import DecodeError, UnknownTypeError, unless_interrupted
from graphwire.registry.interfaces import ConstantCodec, Tree, hookimpl
from graphwire_plugins.dtensors import DTensors
from graphwire_plugins.library import qualified_name, subclasses
from graphwire_plugins.object_codecs import (
    OpaqueValues,
    ScriptObjects,
    decode_data,
    encode_data,
    importable_name,
)
from graphwire_plugins.script_states import as_weight, check_memory, weight_fields

# ---------------------- constant codec for jagged nested tensors: the elements of all rows, and the offsets of the rows


class JaggedTensors:
    """Encodes `torch.nested` tensors of layout `torch.jagged`.

    The tree is `{"dimension", "shortest", "longest", "lengths", "parameter", "requires_grad"}`, where `lengths` tells
    whether the rows have gaps. The tensors are the elements, the offsets of the rows and, with gaps, their lengths.
    """

    name = "jagged"

    def owns(self, value: Any) -> bool:
        """Whether `value` is a jagged nested tensor."""
        import torch

        return isinstance(value, torch.Tensor) and value.layout is torch.jagged and value.is_nested

    def encode(self, value: Any) -> tuple[Tree, Sequence[Any]]:
        """Return the tree and the plain tensors, which share the value's memory."""
        lengths = value.lengths()
        tree: Tree = {
            "dimension": value._ragged_idx,
            "shortest": value._maybe_min_seqlen,
            "longest": value._maybe_max_seqlen,
            "lengths": lengths is not None,
            **weight_fields(value),
        }
        return tree, [value.values().detach(), value.offsets(), *([] if lengths is None else [lengths])]

    def decode(self, tree: Tree, tensors: Sequence[Any]) -> Any:
        """Return the nested tensor of a tree and its plain tensors.

        Raises:
            DecodeError: `encode` does not make such a tree or tensors.
        """
        import torch

        match tree:
            case {
                "dimension": int(dimension),
                "shortest": int() | None as shortest,
                "longest": int() | None as longest,
                "lengths": bool(gaps),
                "parameter": bool(parameter),
                "requires_grad": bool(requires_grad),
            } if len(tensors) == 2 + gaps:
                values, offsets, *lengths = tensors
            case _:
                raise DecodeError(
                    f"no jagged tensor is described by {tree!r:.200} and {len(tensors)} tensors"
                )
        _check(values, offsets, lengths)
        try:
            sizes = {"jagged_dim": dimension, "min_seqlen": shortest, "max_seqlen": longest}
            made = torch.nested.nested_tensor_from_jagged(values, offsets, *(lengths or [None]), **sizes)
        except unless_interrupted(RuntimeError, ValueError, TypeError, IndexError) as error:
            raise DecodeError(f"the parts of a jagged tensor are wrong: {error}") from error
        return as_weight(made, parameter, requires_grad)


def _check(values: Any, offsets: Any, lengths: Sequence[Any]) -> None:
    """Check that the offsets increase and stay within the elements, because kernels trust them."""
    for each in (offsets, *lengths):
        if each.dim() != 1 or str(each.dtype) not in ("torch.int64", "torch.int32"):
            raise DecodeError(
                "the offsets and lengths of a jagged tensor are not one-dimensional tensors of integers"
            )
    if values.dim() == 0:
        raise DecodeError("the elements of a jagged tensor have no rows")
    check_memory(offsets, *lengths)
    if offsets.device.type == "meta" or offsets.numel() == 0:
        return
    steps = offsets.diff()
    if int(offsets[0]) < 0 or bool((steps < 0).any()) or int(offsets[-1]) > values.shape[0]:
        raise DecodeError("the offsets of a jagged tensor do not lie within its elements")
    if lengths and (lengths[0].shape != steps.shape or bool(((lengths[0] < 0) | (lengths[0] > steps)).any())):
        raise DecodeError("the lengths of a jagged tensor do not fit its offsets")


# ----------- constant codec for torch's own quantized tensors (`quint8`, `qint8`, `qint32`), per tensor and per channel


class QuantizedTensors:
    """Encodes tensors with `is_quantized` and an affine scheme.

    The tree is `{"scheme", "scale", "zero_point", "axis", "strides"}`. The tensors are the integers and, for a
    per-channel scheme, the scales and the zero points.
    """

    name = "quantized"

    def owns(self, value: Any) -> bool:
        """Whether `value` is a quantized tensor of a supported scheme."""
        import torch

        return isinstance(value, torch.Tensor) and value.is_quantized and value.qscheme() in _schemes()

    def encode(self, value: Any) -> tuple[Tree, Sequence[Any]]:
        """Return the tree and the plain tensors."""
        scheme = _schemes()[value.qscheme()]
        single = scheme == "per_tensor"
        tree: Tree = {
            "scheme": scheme,
            "scale": value.q_scale() if single else None,
            "zero_point": value.q_zero_point() if single else None,
            "axis": None if single else value.q_per_channel_axis(),
            "strides": list(value.stride()),
        }
        integers = value.int_repr().as_strided(value.shape, value.stride())
        channels = [] if single else [value.q_per_channel_scales(), value.q_per_channel_zero_points()]
        return tree, [integers, *channels]

    def decode(self, tree: Tree, tensors: Sequence[Any]) -> Any:
        """Return the quantized tensor of a tree and its plain tensors.

        Raises:
            DecodeError: `encode` does not make such a tree or tensors.
        """
        import torch

        check_memory(*tensors)
        if any(tensor.is_meta for tensor in tensors):
            raise DecodeError(
                "torch has no quantized tensors without elements",
                remedy="Load it with its weights: a load maps them and reads none of them before they are touched",
            )
        try:
            match tree, list(tensors):
                case {"scheme": "per_tensor", "scale": float(scale), "zero_point": int(zero)}, [integers] if (
                    -(2**31) <= zero < 2**31
                ):
                    return torch._make_per_tensor_quantized_tensor(integers, scale, zero)
                case {"scheme": "per_channel", "axis": int(axis)}, [integers, scales, zeros] if (
                    0 <= axis < integers.dim()
                    and scales.shape == zeros.shape == integers.shape[axis : axis + 1]
                    and scales.dtype.is_floating_point
                    and not (
                        zeros.dtype.is_floating_point or zeros.dtype.is_complex or zeros.dtype is torch.bool
                    )
                ):
                    return torch._make_per_channel_quantized_tensor(integers, scales, zeros, axis)
        except unless_interrupted(RuntimeError, TypeError, IndexError) as error:
            raise DecodeError(f"the parts of a quantized tensor are wrong: {error}") from error
        raise DecodeError(f"no quantized tensor is described by {tree!r:.200} and {len(tensors)} tensors")


def _schemes() -> dict[Any, str]:
    import torch

    return {torch.per_tensor_affine: "per_tensor", torch.per_channel_affine: "per_channel"}


# ------ constant codec for sparse tensors (COO, CSR, CSC, BSR and BSC), stored as plain tensors of indices and elements
# The tree is `{"layout", "sizes", "coalesced", "parameter", "requires_grad"}`. The tensors of a COO tensor are the indices
# (one row for each sparse dimension) and the elements; those of a compressed one are the compressed indices, the plain
# indices and the elements.


_INDICES = {
    "sparse_coo": ("_indices", "_values"),
    "sparse_csr": ("crow_indices", "col_indices", "values"),
    "sparse_csc": ("ccol_indices", "row_indices", "values"),
    "sparse_bsr": ("crow_indices", "col_indices", "values"),
    "sparse_bsc": ("ccol_indices", "row_indices", "values"),
}
"""For each layout, the methods that return its plain tensors, in order."""


class SparseTensors:
    """Encodes sparse tensors and parameters of torch's own classes."""

    name = "sparse"

    def owns(self, value: Any) -> bool:
        """Whether `value` is a `torch.Tensor` or `torch.nn.Parameter` with a sparse layout."""
        import torch

        return type(value) in (torch.Tensor, torch.nn.Parameter) and _layout_name(value.layout) in _INDICES

    def encode(self, value: Any) -> tuple[Tree, Sequence[Any]]:
        """Return the tree and the plain tensors of a sparse tensor, which share its memory."""
        layout = _layout_name(value.layout)
        tree: Tree = {
            "layout": layout,
            "sizes": list(value.shape),
            "coalesced": value.is_coalesced() if layout == "sparse_coo" else None,
            **weight_fields(value),
        }
        return tree, [getattr(value.detach(), part)() for part in _INDICES[layout]]

    def decode(self, tree: Tree, tensors: Sequence[Any]) -> Any:
        """Return the sparse tensor of a tree and its plain tensors. Indices are checked, because kernels trust them.

        Raises:
            DecodeError: `encode` does not make such a tree or tensors.
        """
        match tree:
            case {
                "layout": str(layout),
                "sizes": list(sizes),
                "coalesced": bool() | None as coalesced,
                "parameter": bool(parameter),
                "requires_grad": bool(requires_grad),
            }:
                pass
            case _:
                raise DecodeError(f"no sparse tensor is described by {tree!r:.200}")
        if layout not in _INDICES or len(tensors) != len(_INDICES[layout]):
            raise DecodeError(f"a tensor of layout {layout!r:.80} does not consist of {len(tensors)} tensors")
        check_memory(*tensors)
        try:
            sparse = _made(layout, sizes, coalesced, tensors)
        except unless_interrupted(RuntimeError, ValueError, TypeError) as error:
            raise DecodeError(f"the indices or elements of a sparse tensor are wrong: {error}") from error
        return as_weight(sparse, parameter, requires_grad)


def _made(layout: str, sizes: Any, coalesced: Any, tensors: Sequence[Any]) -> Any:
    import torch

    # Tensors without elements cannot be checked.
    checked = {"check_invariants": all(tensor.device.type != "meta" for tensor in tensors)}
    if layout == "sparse_coo":
        return torch.sparse_coo_tensor(*tensors, sizes, is_coalesced=coalesced, **checked)
    return torch.sparse_compressed_tensor(*tensors, sizes, layout=getattr(torch, layout), **checked)


def _layout_name(layout: Any) -> str:
    return str(layout).removeprefix("torch.")


# -------------------------------------------------------------------------------- constant codecs for tensor subclasses
# `TensorSubclasses` encodes subclasses that flatten themselves (`__tensor_flatten__`). The tree is `{"class", "attributes",
# "context", "sizes", "strides", "parameter", "requires_grad"}`; the tensors are the inner ones, in the order of the
# attributes, followed by those in the context. An inner tensor may be a subclass again.
#
# `PlainSubclasses` encodes subclasses that hold their elements and only add behaviour. The tree is `{"class",
# "requires_grad", "state"}`, where the state is the instance's attributes; the tensors are the plain one, followed by those
# in the state.
#
# A class is looked up by module and qualified name among the subclasses of `torch.Tensor` in this process: those that the
# loading program has defined or imported. A name in a file never causes an import.


class TensorSubclasses:
    """Encodes traceable wrapper subclasses of `torch.Tensor`, such as torchao's quantized tensors."""

    name = "tensor_subclass"

    def owns(self, value: Any) -> bool:
        """Whether `value` is an instance of a subclass that implements `__tensor_flatten__`."""
        import torch
        from torch.utils._python_dispatch import is_traceable_wrapper_subclass

        return isinstance(value, torch.Tensor) and is_traceable_wrapper_subclass(value)

    def encode(self, value: Any) -> tuple[Tree, Sequence[Any]]:
        """Return the tree and the inner tensors, which share the value's memory.

        Raises:
            EncodeError: its context is not data.
        """
        attributes, context = value.__tensor_flatten__()
        tensors = [getattr(value, attribute) for attribute in attributes]
        tree: Tree = {
            "class": importable_name(type(value)),
            "attributes": list(attributes),
            "context": encode_data(context, tensors),
            "sizes": list(value.shape),
            "strides": list(value.stride()),
            **weight_fields(value),
        }
        return tree, tensors

    def decode(self, tree: Tree, tensors: Sequence[Any]) -> Any:
        """Rebuild the subclass with its own `__tensor_unflatten__`.

        Raises:
            DecodeError: `encode` does not make such a tree or tensors.
            UnknownTypeError: this process has no such class.
        """
        import torch

        match tree:
            case {
                "class": str(name),
                "attributes": list(attributes),
                "context": context_tree,
                "sizes": list(sizes),
                "strides": list(strides),
                "parameter": bool(parameter),
                "requires_grad": bool(requires_grad),
            }:
                pass
            case _:
                raise DecodeError(f"no tensor subclass is described by {tree!r:.200}")
        if len(attributes) > len(tensors) or not all(isinstance(each, str) for each in attributes):
            raise DecodeError(f"{len(tensors)} tensors are given for the attributes {attributes!r:.200}")
        kind = _class_of(name)
        if not hasattr(kind, "__tensor_unflatten__"):
            raise DecodeError(f"{name} has no `__tensor_unflatten__`")
        context = decode_data(context_tree, tensors)
        inner = dict(zip(attributes, tensors, strict=False))
        try:
            made = kind.__tensor_unflatten__(inner, context, torch.Size(sizes), tuple(strides))
        except unless_interrupted(Exception) as error:
            raise DecodeError(
                f"{name} cannot be rebuilt from its parts: {type(error).__name__}: {error}"
            ) from error
        if not isinstance(made, torch.Tensor):
            raise DecodeError(f"{name} does not return a tensor from `__tensor_unflatten__`")
        return as_weight(made, parameter, requires_grad)


class PlainSubclasses:
    """Encodes strided tensors of subclasses of `torch.Tensor` or `torch.nn.Parameter` that hold their elements."""

    name = "plain_subclass"

    def owns(self, value: Any) -> bool:
        """Whether `value` is of a subclass without its own `__torch_dispatch__`."""
        import torch

        return (
            isinstance(value, torch.Tensor)
            and type(value) not in (torch.Tensor, torch.nn.Parameter)
            and type(value).__torch_dispatch__ is torch._C._disabled_torch_dispatch_impl
            and value.layout is torch.strided
            and not value.is_quantized
        )

    def encode(self, value: Any) -> tuple[Tree, Sequence[Any]]:
        """Return the tree, and the value as a plain tensor over the same memory.

        Raises:
            EncodeError: an attribute of the instance is not data.
        """
        import torch

        tensors = [torch.Tensor._make_subclass(torch.Tensor, value.detach())]
        tree: Tree = {
            "class": importable_name(type(value)),
            "requires_grad": value.requires_grad,
            "state": encode_data(dict(vars(value)), tensors),
        }
        return tree, tensors

    def decode(self, tree: Tree, tensors: Sequence[Any]) -> Any:
        """Rebuild the tensor over the same memory, without calling `__new__` or `__init__` of the class.

        Raises:
            DecodeError: `encode` does not make such a tree or tensors.
            UnknownTypeError: this process has no such class.
        """
        import torch

        match tree:
            case {"class": str(name), "requires_grad": bool(requires_grad), "state": state} if tensors:
                kind = _class_of(name)
                if kind.__torch_dispatch__ is not torch._C._disabled_torch_dispatch_impl:
                    raise DecodeError(f"{name} does not hold its elements itself")
                if issubclass(kind, torch.nn.parameter.UninitializedTensorMixin):
                    raise DecodeError(f"{name} has no elements")
                attributes = decode_data(state, tensors)
                if type(attributes) is not dict or not all(type(key) is str for key in attributes):
                    raise DecodeError(f"the attributes of a {name} are {state!r:.200}")
                if shadowed := [key for key in attributes if _is_behaviour(kind, key)]:
                    raise DecodeError(f"the attributes of a {name} would hide its methods {shadowed!r:.200}")
                if not isinstance(tensors[0], torch.Tensor):
                    raise DecodeError(f"the elements of a {name} are not a plain tensor")
                made = torch.Tensor._make_subclass(kind, tensors[0], requires_grad)
                vars(made).update(attributes)
                return made
        raise DecodeError(f"no tensor is described by {tree!r:.200} and {len(tensors)} tensors")


def _is_behaviour(kind: type, name: str) -> bool:
    """Whether a class has a method, property or slot of that name."""
    found = inspect.getattr_static(kind, name, None)
    return callable(found) or hasattr(type(found), "__get__")


def _class_of(name: str) -> Any:
    import torch

    # The newest one, if a class was defined repeatedly (in a notebook, for example).
    for kind in reversed(list(subclasses(torch.Tensor))):
        if qualified_name(kind) == name:
            return kind
    raise UnknownTypeError(
        f"this process has no tensor subclass {name!r:.200}",
        remedy="Before you load, import the library that defines it",
    )


@hookimpl
def graphwire_constant_codecs() -> list[ConstantCodec]:
    """Return the codecs for torch's own kinds of tensors and objects. The first that owns a value encodes it."""
    tensors: list[ConstantCodec] = [SparseTensors(), QuantizedTensors(), JaggedTensors(), DTensors()]
    return [*tensors, TensorSubclasses(), PlainSubclasses(), ScriptObjects(), OpaqueValues()]
