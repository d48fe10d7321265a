"""Bounds on what a pickle may make us do, and the check of its value, once it is read, against them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graphwire.errors import DecodeError, LimitError


@dataclass(frozen=True, slots=True)
class PickleLimits:
    """The bounds in force while a pickle is read."""

    nbytes: int = 256 << 20
    """Bytes of the pickle. A state dict takes about 250 a tensor; the elements lie elsewhere."""
    steps: int = 1 << 22
    """Opcodes, each of them about 64 bytes of memory at most (what takes more counts as several). A tensor takes about 40."""
    depth: int = 400
    """Containers inside each other."""
    values: int = 1 << 22
    """Values in the result, each counted as often as it occurs."""
    integer_bytes: int = 255
    """Bytes of one integer. torch has no use for more than eight."""
    text_bytes: int = 16 << 20
    """Bytes of one text or byte string."""
    name_bytes: int = 512
    """Bytes of a module's or a class's name, or of a storage's key."""


DEFAULT_PICKLE_LIMITS = PickleLimits()


def check_pickle_value(root: Any, limits: PickleLimits) -> None:
    """Refuse a value that contains itself, is too deep, or is too large when each part is counted as often as it occurs.

    Goes over each container once, children first.
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
    """What a container contains; nothing for any other value, whose own size is bounded when it is made."""
    if type(value) is tuple or isinstance(value, list):
        return value
    return value.values() if isinstance(value, dict) else ()


def _too_deep(limits: PickleLimits) -> LimitError:
    return LimitError(f"the pickle holds containers more than {limits.depth} deep inside each other")
