"""Limits on the memory and work that reading a pickle may take, and the check of the resulting value against them."""

from __future__ import annotations

from typing import Any

from graphwire.errors import DecodeError, LimitError
from graphwire.wire.bounds import Bounds


class PickleLimits(Bounds, frozen=True):
    """The limits that apply while a pickle is read."""

    nbytes: int = 256 << 20
    """Bytes of the pickle. A state dict takes about 250 for each tensor; the elements are in records of their own."""
    steps: int = 1 << 22
    """Opcodes. Each takes at most about 64 bytes of memory (one that takes more counts as several). A tensor takes about 40
    opcodes."""
    depth: int = 400
    """Nesting depth of containers."""
    values: int = 1 << 22
    """Values in the result. A shared value counts each time it occurs."""
    integer_bytes: int = 255
    """Bytes of one integer. torch never needs more than eight."""
    text_bytes: int = 16 << 20
    """Bytes of one text or byte string."""
    name_bytes: int = 512
    """Bytes of a module's or a class's name, or of a storage's key."""


DEFAULT_PICKLE_LIMITS = PickleLimits()


def check_pickle_value(root: Any, limits: PickleLimits) -> None:
    """Check that the value of a pickle does not contain itself, and keeps to the limits on depth and count.

    A shared part counts each time it occurs. The check visits each container once, children first.

    Raises:
        DecodeError: a container contains itself.
        LimitError: the value exceeds `limits`.
    """
    heights: dict[int, int] = {}
    sizes: dict[int, int] = {}
    open_ones: set[int] = set()
    pending = [root] if _children(root) else []
    while pending:
        value = pending[-1]
        identity = id(value)
        if identity in heights:
            pending.pop()
            continue
        children = _children(value)
        if identity not in open_ones:
            open_ones.add(identity)
            if len(open_ones) > limits.depth:
                raise _too_deep(limits)
            for child in children:
                if id(child) in open_ones:
                    raise DecodeError("the pickle holds a container that contains itself")
                if id(child) not in heights and _children(child):
                    pending.append(child)
            continue
        pending.pop()
        open_ones.discard(identity)
        heights[identity] = 1 + max(heights.get(id(child), 0) for child in children)
        sizes[identity] = 1 + sum(sizes.get(id(child), 1) for child in children)
        if heights[identity] > limits.depth:
            raise _too_deep(limits)
        if sizes[identity] > limits.values:
            raise LimitError(f"the pickle unfolds to more than {limits.values:,} values")


def _children(value: Any) -> Any:
    """Return the children of a container; none for any other value, whose size is checked when it is created."""
    if type(value) is tuple or isinstance(value, list):
        return value
    return value.values() if isinstance(value, dict) else ()


def _too_deep(limits: PickleLimits) -> LimitError:
    return LimitError(f"the pickle nests containers more than {limits.depth} deep")
