"""Checks of script-object states, so that an invalid state cannot crash torch's `__setstate__`.

torch's C++ trusts a state: it divides by strides, follows indices and reads undefined tensors. Therefore each supported
class has a check in `STATES`. Any other class needs a codec of a plugin that knows it. Two of torch's classes are
omitted, because nothing can write the contents of their states: `quantized.EmbeddingPackedParamsBase` and
`rnn.CellParamsBase`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from graphwire.errors import DecodeError

# ------------------------- what the codecs of tensors share: the fields of a weight, and the check of a tensor's memory


def weight_fields(value: Any) -> dict[str, Any]:
    """Return the fields of a tree that say whether a tensor is a parameter and requires gradients."""
    import torch

    return {"parameter": isinstance(value, torch.nn.Parameter), "requires_grad": value.requires_grad}


def as_weight(made: Any, parameter: bool, requires_grad: bool) -> Any:
    """Return a decoded tensor as its `weight_fields` say."""
    import torch

    if parameter:
        return torch.nn.Parameter(made, requires_grad=requires_grad)
    return made.requires_grad_() if requires_grad and not made.requires_grad else made


def check_memory(*tensors: Any) -> None:
    """Check that tensors are no larger than their memory, so that a copy takes no more memory than the file contains.

    Raises:
        DecodeError: a tensor repeats its elements.
    """
    for tensor in tensors:
        size = tensor.numel() * tensor.element_size()
        if tensor.device.type != "meta" and size > tensor.untyped_storage().nbytes():
            raise DecodeError(f"a tensor of {tensor.numel():,} elements is larger than its memory")


_MOST = 2**31 - 1
"""The largest size or number in a state: torch passes them to libraries that use 32 bits."""


def check_state(name: str, state: Any) -> None:
    """Check that a class accepts a state.

    Args:
        name: the qualified name of the class, one of `STATES`.

    Raises:
        DecodeError: it does not.
    """
    if not STATES[name](state):
        raise DecodeError(f"the state is not valid for a {name}")


def _is_plain(value: Any, dtypes: str, rank: int) -> bool:
    """Whether a value is a dense CPU tensor with one of these element types, this rank, and no size of 0."""
    import torch

    if type(value) not in (torch.Tensor, torch.nn.Parameter):
        return False
    if value.layout is not torch.strided or value.device.type != "cpu":
        return False
    if str(value.dtype).removeprefix("torch.") not in dtypes.split() or value.dim() != rank:
        return False
    if value.is_conj() or value.is_neg() or not all(0 < size <= _MOST for size in value.shape):
        return False
    if value.is_quantized:
        return value.numel() <= value.untyped_storage().nbytes()
    check_memory(value)
    return True


def _is_weight(value: Any, rank: int, *, channels: bool = True) -> bool:
    """Whether a value is a quantized weight, per tensor or per output channel."""
    import torch

    if not _is_plain(value, "qint8", rank):
        return False
    if value.qscheme() is torch.per_tensor_affine:
        return _is_scale(value.q_scale(), value.q_zero_point())
    if not channels or value.qscheme() is not torch.per_channel_affine or value.q_per_channel_axis() != 0:
        return False
    scales, zeros = value.q_per_channel_scales().tolist(), value.q_per_channel_zero_points().tolist()
    return len(scales) == len(zeros) == value.shape[0] and all(map(_is_scale, scales, zeros))


def _is_scale(scale: float, zero: int) -> bool:
    return math.isfinite(scale) and scale > 0 and -128 <= zero <= 127


def _is_bias(value: Any, count: int) -> bool:
    return value is None or (_is_plain(value, "float32", 1) and value.shape[0] == count)


def _are_ints(values: Any, count: int, least: int, most: int = 2**15 - 1) -> bool:
    return (
        type(values) is list
        and len(values) == count
        and all(type(each) is int and least <= each <= most for each in values)
    )


# --------------------------------------------------------------------------------------------------- packed parameters


def _is_linear(state: Any) -> bool:
    match state:
        case (weight, bias):
            # The half-precision form stores its weight as float.
            good = _is_weight(weight, 2) or _is_plain(weight, "float32", 2)
            return good and _is_bias(bias, weight.shape[0])
    return False


def _is_convolution(dimensions: int) -> Callable[[Any], bool]:
    def check(state: Any) -> bool:
        match state:
            case (str("2"), [config, weight], [bias]) if _is_plain(config, "int16", 1):
                numbers = config.tolist()
            case _:
                return False
        count = dimensions
        if len(numbers) != 3 + 4 * count or numbers[0] != count or numbers[-1] not in (0, 1):
            return False
        stride, padding, dilation, output_padding = (
            numbers[1 + index * count : 1 + (index + 1) * count] for index in range(4)
        )
        groups, transposed = numbers[-2], numbers[-1] == 1
        if not _is_weight(weight, count + 2, channels=not transposed):
            return False
        # The first size of a transposed weight is the number of inputs.
        outputs = weight.shape[1] * groups if transposed else weight.shape[0]
        return (
            groups > 0
            and weight.shape[0] % groups == 0
            and _are_ints(stride, count, 1)
            and _are_ints(padding, count, 0)
            and _are_ints(dilation, count, 1)
            and _are_ints(output_padding, count, 0)
            and all(
                extra < max(step, gap) if transposed else extra == 0
                for extra, step, gap in zip(output_padding, stride, dilation, strict=True)
            )
            and _is_bias(bias, outputs)
        )

    return check


def _is_sparse_linear(state: Any) -> bool:
    match state:
        case (
            int(version),
            bias,
            int(rows),
            int(columns),
            scales,
            zeros,
            bool(),
            starts,
            indices,
            values,
            int(outputs),
            int(inputs),
        ):
            pass
        case _:
            return False
    if not (
        version == 2 and rows in (1, 8) and columns in (1, 4) and 0 < outputs <= _MOST and 0 < inputs <= _MOST
    ):
        return False
    integers = "int8 int16 int32"
    if not (
        _is_bias(bias, outputs)
        and _is_plain(scales, "float32", 1)
        and _is_plain(zeros, "int8", 1)
        and _is_plain(starts, integers, 1)
        and _is_plain(indices, integers, 1)
        and _is_plain(values, "uint8", 1)
        and starts.dtype == indices.dtype
    ):
        return False
    bounds: list[int] = starts.tolist()
    places: list[int] = indices.tolist()
    many: list[float] = scales.tolist()
    return (
        len(many) == zeros.shape[0]
        and len(many) == (1 if state[6] else outputs)
        and all(_is_scale(scale, 0) for scale in many)
        and len(bounds) == -(-outputs // rows) + 1
        and bounds[0] == 0
        and bounds == sorted(bounds)
        and bounds[-1] == len(places)
        and all(0 <= each < -(-inputs // columns) for each in places)
        and values.shape[0] == len(places) * rows * columns
        # Loading expands the sparse weight to a dense one.
        and outputs * inputs <= 1_000 * (len(places) * rows * columns + len(bounds))
    )


def _is_mkldnn_convolution(state: Any) -> bool:
    match state:
        case (weight, bias, stride, padding, dilation, int(groups), sizes, str(attribute)):
            pass
        case _:
            return False
    if not (
        _is_plain(weight, "float32", 4)
        and _is_bias(bias, weight.shape[0])
        and _are_ints(padding, 2, 0)
        and _are_ints(stride, 2, 1)
        and _are_ints(dilation, 2, 1)
        and _are_ints(sizes, 4, 1, 2**20)
        and 0 < groups <= _MOST
        and attribute in _FUSED
    ):
        return False
    reach = [gap * (size - 1) + 1 for gap, size in zip(dilation, weight.shape[2:], strict=True)]
    room = [size + 2 * edge for edge, size in zip(padding, sizes[2:], strict=True)]
    return (
        weight.shape[0] % groups == 0
        and sizes[1] == weight.shape[1] * groups
        and math.prod(sizes) <= _MOST
        and all(need <= has for need, has in zip(reach, room, strict=True))
    )


_FUSED = frozenset(("none", "relu"))
"""Operations fused with the result. torch 2.13 omits this field from the state that it returns, and then rejects the
state."""


# ------------------------------------------------------------------------------------------------ torch's test library


def _is_tensor(value: Any) -> bool:
    import torch

    return type(value) in (torch.Tensor, torch.nn.Parameter) and value.layout is torch.strided


def _is_queue(state: Any) -> bool:
    match state:
        case ((str(), first), (str(), list(rest))):
            return _is_tensor(first) and all(map(_is_tensor, rest))
    return False


def _is_list(kind: type, count: int | None = None) -> Callable[[Any], bool]:
    def check(state: Any) -> bool:
        return (
            type(state) is list
            and (count is None or len(state) == count)
            and all(type(each) is kind for each in state)
            and (kind is not int or all(-(2**63) <= each < 2**63 for each in state))
        )

    return check


_CLASSES = "__torch__.torch.classes."
_TESTING = f"{_CLASSES}_TorchScriptTesting."

STATES: Mapping[str, Callable[[Any], bool]] = {
    f"{_CLASSES}quantized.LinearPackedParamsBase": _is_linear,
    f"{_CLASSES}quantized.Conv2dPackedParamsBase": _is_convolution(2),
    f"{_CLASSES}quantized.Conv3dPackedParamsBase": _is_convolution(3),
    f"{_CLASSES}sparse.LinearPackedParamsBase": _is_sparse_linear,
    f"{_CLASSES}mkldnn.ConvOpContext": _is_mkldnn_convolution,
    f"{_TESTING}_Foo": _is_list(int, 2),
    f"{_TESTING}_PickleTester": _is_list(int),
    f"{_TESTING}_StackString": _is_list(str),
    f"{_TESTING}_TensorQueue": _is_queue,
    f"{_TESTING}_ContainsTensor": _is_tensor,
    f"{_TESTING}_FlattenWithTensorOp": _is_tensor,
}
"""By the qualified name of each supported script class: whether a value is a valid state."""
