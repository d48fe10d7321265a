"""Imports the library of a wire format at its first use, since most files are of another format."""

from __future__ import annotations

import sys
from typing import Any

from graphwire.errors import PluginError, exception_text
from graphwire.lazy import Later


class _Library(Later):
    """Stands for a library until something asks for an attribute of it. One that cannot be used is named, with a remedy."""

    def _value_of(self, name: str) -> Any:
        try:
            return super()._value_of(name)
        except MemoryError:
            raise
        except Exception as error:  # a library that is damaged, or too old, fails in any way
            raise PluginError(
                f"the library {self.__name__} of this wire format cannot be used: {exception_text(error)}",
                remedy=f"Repair it: pip install --upgrade --force-reinstall {self.__name__}",
            ) from error


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
