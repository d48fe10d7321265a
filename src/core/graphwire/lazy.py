"""Imports modules at their first use, so that a command, a save or a load imports only what it needs.

A room's door is lazy where its names need much that most users of the room do not. A module that is used rarely, or that takes
long to import, is reached through `later`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from importlib import import_module  # noqa: TID251 the callers name modules of this package and of its dependencies
from types import ModuleType
from typing import TYPE_CHECKING, Any, AnyStr, cast

__all__ = ["Later", "ctypes", "difflib", "door", "futures", "hashlib", "imported", "later", "pattern"]


def door(package: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package that imports each of its names at first use.

    The package imports the same names for type checkers, under `TYPE_CHECKING`.

    Args:
        package: the package's `__name__`.
        names: by module, absolute or relative to the package (`.planner`), the names that it has, separated by spaces.
    """
    modules = {name: module for module, each in names.items() for name in each.split()}

    def get(name: str) -> Any:
        module = modules.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name)
        value = getattr(import_module(module, package), name)
        setattr(sys.modules[package], name, value)
        return value

    return get


class Later(ModuleType):
    """Stands for a module until something asks for an attribute of it, which imports it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what tools ask of any module
            raise AttributeError(f"module {self.__name__!r} is not imported yet", name=name)
        value = self._value_of(name)
        setattr(self, name, value)
        return value

    def _value_of(self, name: str) -> Any:
        """Import the module, and return an attribute of it."""
        return getattr(import_module(self.__name__), name)


def later(module: str) -> Any:
    """Return what stands for a module and imports it at first use. An attribute is looked up once."""
    return Later(module)


def imported(module: str) -> Any:
    """Return a module if this process has imported it, else None. If another thread has only begun to, wait for it.

    Args:
        module: a name that is fixed in the source.
    """
    return import_module(module) if module in sys.modules else None


class _Pattern:
    """A regular expression that is compiled when something matches against it."""

    def __init__(self, text: Any, flags: int) -> None:
        self._source = text, flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name=name, obj=self)
        value = getattr(re.compile(*self._source), name)
        setattr(self, name, value)
        return value


def pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return what `re.compile` returns, except that it is compiled at first use, which takes half a millisecond."""
    return cast("re.Pattern[AnyStr]", _Pattern(text, flags))


if TYPE_CHECKING:
    import ctypes
    import difflib
    import hashlib
    from concurrent import futures
else:
    ctypes, difflib, hashlib = map(later, ("ctypes", "difflib", "hashlib"))
    futures = later("concurrent.futures")
    # Parts of the standard library that take milliseconds to import, and that most commands do not use.
