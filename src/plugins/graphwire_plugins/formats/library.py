"""Imports the library of a wire format at its first use, since most files are of another format."""

from __future__ import annotations

import sys
from importlib import import_module  # noqa: TID251 the formats name libraries that graphwire requires
from types import ModuleType
from typing import Any

from graphwire.errors import PluginError, exception_text


class _Library(ModuleType):
    """Stands for a library until something asks for an attribute of it, which imports the library."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what tools ask of any module
            raise AttributeError(f"module {self.__name__!r} is not imported yet", name=name)
        try:
            value = getattr(import_module(self.__name__), name)
        except MemoryError:
            raise
        except Exception as error:  # a library that is damaged, or too old, fails in any way
            raise PluginError(
                f"the library {self.__name__} of this wire format cannot be used: {exception_text(error)}",
                remedy=f"Repair it: pip install --upgrade --force-reinstall {self.__name__}",
            ) from error
        setattr(self, name, value)
        return value


def library(name: str) -> Any:
    """Return what stands for a library and imports it at first use.

    Raises:
        ModuleNotFoundError: the library is not installed, so the plugin that asks is out of force.
    """
    # Not importlib.util.find_spec: its import takes longer than the search.
    if sys.modules.get(name) is None:
        finders = () if name in sys.modules else sys.meta_path  # None in sys.modules forbids the import
        if not any(finder.find_spec(name, None) for finder in finders):
            raise ModuleNotFoundError(f"no module named {name!r}; pip install {name} installs it", name=name)
    return _Library(name)
