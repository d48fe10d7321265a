"""Modules made of text."""

from __future__ import annotations

import functools
import hashlib
import importlib.abc
import importlib.util
import sys
import textwrap
from collections.abc import Callable
from types import CodeType, ModuleType
from typing import Any, cast

from random_programs.parts import PREAMBLE

__all__ = ["function_of", "module_of"]


class _Text(importlib.abc.InspectLoader):
    """Loads a module from text. Frames of it show their lines, as those of a file do."""

    def __init__(self, text: str) -> None:
        self._text = text

    def get_source(self, fullname: str) -> str:
        """The text."""
        return self._text

    def get_code(self, fullname: str) -> CodeType:
        """The compiled text."""
        return self.source_to_code(self._text, f"{fullname}.py")


def module_of(text: str) -> ModuleType:
    """The module that a text is."""
    # Lines of code are cached by the name of their file.
    name = f"random_program_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    loader = _Text(text)
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where torch looks for the globals of a function that it traces
    try:
        loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module


@functools.lru_cache(1000)
def function_of(names: tuple[str, ...], lines: tuple[str, ...], result: str) -> Callable[..., Any]:
    """The function with these parameters and lines, which returns the value of an expression."""
    body = textwrap.indent("\n".join([*lines, f"return {result}"]), "    ")
    return cast("Callable[..., Any]", module_of(f"{PREAMBLE}\ndef step({', '.join(names)}):\n{body}\n").step)
