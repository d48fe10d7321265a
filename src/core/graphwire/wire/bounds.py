"""Bounds that a caller changes one by one: checked when they are made, and shown without those that have their defaults."""

from __future__ import annotations

from typing import Any

import msgspec

from graphwire.errors import DecodeError, shown


class Bounds(msgspec.Struct, frozen=True):
    """The base class of values whose fields are numbers, or `Bounds` themselves. The type of a default is that of the field."""

    def __post_init__(self) -> None:
        """Check each field.

        Raises:
            DecodeError: a value is of another type, or negative.
        """
        for name, default in zip(self.__struct_fields__[::-1], self.__struct_defaults__[::-1], strict=False):
            value = getattr(self, name)
            if value is not default and (wanted := _wanted(value, default)):
                raise DecodeError(
                    f"{name}= of {type(self).__name__} is {shown(value)}, not {wanted}",
                    remedy=f"The default is {default!r}",
                )

    def __repr__(self) -> str:
        held = [(name, getattr(self, name), getattr(type(self)(), name)) for name in self.__struct_fields__]
        changed = ", ".join(f"{name}={value!r}" for name, value, default in held if value != default)
        return f"{type(self).__name__}({changed})"


def _wanted(value: Any, default: Any) -> str:
    """Return what a value should be, for a message; empty if it is that."""
    if isinstance(default, Bounds):
        kind = next(each for each in type(default).__mro__ if each.__base__ is Bounds)
        return "" if isinstance(value, kind) else f"graphwire.{kind.__name__}"
    if isinstance(default, float):
        good = isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0
        return "" if good else "a number from 0"
    if type(default) is int:
        good = hasattr(value, "__index__") and not isinstance(value, bool) and value >= 0
        return "" if good else "an integer from 0"
    return ""
