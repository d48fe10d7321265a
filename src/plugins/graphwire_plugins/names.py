"""Names of the classes and functions in this process: a name in a file is looked up among them, and imports nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


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
