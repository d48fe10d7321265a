"""What the plugins in the box share: the library of a wire format, and names of plugins."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from typing import Any

from graphwire.errors import PluginError, exception_text, unless_interrupted


def check_installed(name: str) -> None:
    """Check that the library of a wire format is there, without importing it.

    Raises:
        ModuleNotFoundError: it is not installed, so the plugin that asks is out of force.
    """
    # Not importlib.util.find_spec: its import takes longer than the search.
    if sys.modules.get(name) is None:
        finders = () if name in sys.modules else sys.meta_path  # None in sys.modules forbids the import
        if not any(finder.find_spec(name, None) for finder in finders):
            raise ModuleNotFoundError(f"no module named {name!r}; pip install {name} installs it", name=name)


def library(name: str, *needed: str) -> Any:
    """Return the library of a wire format, imported.

    Args:
        needed: the names that it must have.

    Raises:
        PluginError: it cannot be used.
    """
    try:
        found = sys.modules.get(name) or importlib.import_module(name)  # noqa: TID251 a library of a format that ships here
        for each in needed:
            getattr(found, each)
    except MemoryError:
        raise
    except unless_interrupted(Exception) as error:  # a library that is damaged, or too old, fails in any way
        raise PluginError(
            f"the library {name} of this wire format cannot be used: {exception_text(error)}",
            remedy=f"Repair it: pip install --upgrade --force-reinstall {name}",
        ) from error
    return found


# ------------------------------------------------------------------- names of the classes and functions in this process
# a name in a file is looked up among them, and imports nothing.


def qualified_name(thing: Any, unnamed: object = "") -> str:
    """Return the module and qualified name of a class or function.

    Args:
        unnamed: what stands for the qualified name of an object that has none.
    """
    return f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', unnamed)}"


def safe_globals() -> list[Any]:
    """Return the classes and functions that were passed to `torch.serialization.add_safe_globals`, alone or with a name."""
    import torch

    passed = torch.serialization.get_safe_globals()
    return [each[0] if isinstance(each, tuple) else each for each in passed]


def subclasses(kind: type[Any]) -> Iterator[type[Any]]:
    """Yield the classes that are derived from a class, directly or not."""
    each: type[Any]
    for each in type.__subclasses__(kind):
        yield each
        yield from subclasses(each)
