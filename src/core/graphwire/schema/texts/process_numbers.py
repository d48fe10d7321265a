"""Replaces the numbers in metadata that mean something in one process only: addresses, and counters of generated code.

torch numbers graphs and modules by their address, names objects by theirs, and counts the functions that it generates. Each
such number becomes its position among those of its kind that a program shows, so two exports of one model are equal, and
what was the same stays the same. Positions of a loaded program do not change when it is saved again.
"""

from __future__ import annotations

import re
from typing import Final

from graphwire.lazy import pattern

NO_GRAPH: Final = -1
"""The number of a graph that is not named."""

_MODULE = pattern(r"([0-9]{6,}|#[0-9]+)((?:@[0-9]+)?)", re.ASCII)
"""A module's key that is its address, or its position, followed by the number of the call."""
_ADDRESS = pattern(r" at 0x([0-9a-fA-F]+)")
_GENERATED = pattern(r"<eval_with_key>\.([0-9]+)", re.ASCII)


class ProcessNumbers:
    """The numbers that a program shows, by kind, with their positions."""

    def __init__(self) -> None:
        self._graphs: dict[int, int] = {}
        self._modules: dict[str, int] = {}
        self._objects: dict[str, int] = {}
        self._functions: dict[str, int] = {}

    def graph(self, number: int) -> int:
        """Return the position of a graph that nodes come from; NO_GRAPH for itself."""
        return number if number == NO_GRAPH else self._graphs.setdefault(number, len(self._graphs))

    def module(self, key: str) -> str:
        """Return the key of a module in a module stack: `#0` or `#0@1` for an address, otherwise the key itself."""
        found = _MODULE.fullmatch(key)
        if found is None:
            return key
        return f"#{self._modules.setdefault(found[1], len(self._modules))}{found[2]}"

    def target(self, text: str) -> str:
        """Return the text of a function or object without its address: `<function relu at 0x0>`."""
        if " at 0x" not in text:
            return text
        known = self._objects
        return _ADDRESS.sub(lambda found: f" at 0x{known.setdefault(found[1], len(known)):x}", text)

    def trace(self, text: str) -> str:
        """Return a stack trace with other numbers of the functions that torch generated: `<eval_with_key>.0`."""
        if "<eval_with_key>" not in text:
            return text
        known = self._functions
        return _GENERATED.sub(lambda found: f"<eval_with_key>.{known.setdefault(found[1], len(known))}", text)
