"""The interface of a program as its author wrote it: nested arguments and results, by name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

import msgspec

MOST_LEVELS: Final = 12
"""The maximum number of nested containers that a text shows."""


class InterfaceTree(msgspec.Struct, frozen=True):
    """An argument, a result, or a part of one: a container with its children, or a leaf."""

    name: str
    """The parameter, key, field or index under which its container holds it; empty for the result as a whole."""
    container: str = ""
    """For a container: its serialized type, such as `builtins.dict`, or the serialized name of a namedtuple's class; `?` if
    the document does not contain the structure."""
    leaf: str = ""
    """For a leaf: what it is, such as `float32 [tokens.shape[0], 100]`, `int x.shape[0]`, `None` or `3`."""
    value: str = ""
    """For a leaf: the name of the value in the graph; empty for a literal."""
    children: list[InterfaceTree] = []

    def __str__(self) -> str:
        return _written(self, MOST_LEVELS)


class Interface(msgspec.Struct, frozen=True):
    """The arguments that a program takes, and its result. `str` of it is readable text."""

    inputs: list[InterfaceTree]
    """The positional arguments."""
    keywords: list[InterfaceTree]
    """The keyword arguments."""
    output: InterfaceTree
    """The result."""

    def arguments(self) -> Iterator[tuple[str, str]]:
        """Yield the name and the content of each argument, as text."""
        yield from ((each.name, str(each)) for each in self.inputs)
        yield from ((f"{each.name}=", str(each)) for each in self.keywords)

    def __str__(self) -> str:
        inputs = [f"{each.name}: {each}" for each in self.inputs]
        keywords = [f"{each.name}: {each}" for each in self.keywords]
        listed = ", ".join([*inputs, *(["*"] if keywords else []), *keywords])
        return f"({listed}) -> {self.output}"


_BRACKETS: Final = {
    "builtins.tuple": ("(", ")"),
    "builtins.list": ("[", "]"),
    "builtins.dict": ("{", "}"),
    "?": ("(", ")"),
}
"""The containers that Python writes with brackets alone."""


def _written(tree: InterfaceTree, levels: int) -> str:
    """Return the text of a leaf, or of a container, such as `{"logits": float32 [2, 100]}` or `Point(x=…, y=…)`."""
    if not tree.container:
        return tree.leaf
    brackets = _BRACKETS.get(tree.container)
    first, last = brackets or (f"{tree.container.rpartition('.')[2]}(", ")")
    if not levels:
        return f"{first}…{last}"
    parts = []
    for index, child in enumerate(tree.children):
        text = _written(child, levels - 1)
        if tree.container == "builtins.dict":
            text = f"{json.dumps(child.name, ensure_ascii=False)}: {text}"
        elif not brackets and child.name != str(index):
            text = f"{child.name}={text}"
        parts.append(text)
    comma = "," if tree.container == "builtins.tuple" and len(parts) == 1 else ""
    return f"{first}{', '.join(parts)}{comma}{last}"
