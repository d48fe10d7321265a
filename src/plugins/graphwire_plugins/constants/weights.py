"""What the codecs of tensors share: the fields of a weight, and the check of a tensor's memory."""

from __future__ import annotations

from typing import Any

from graphwire.errors import DecodeError


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
