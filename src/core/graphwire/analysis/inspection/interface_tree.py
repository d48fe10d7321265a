"""The interface of a program as its author wrote it: nested arguments and results, by name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

import msgspec


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
        if not self.container:
            return self.leaf
        return "".join(_written(self))


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


_BRACKETS: Final = {"builtins.tuple": "()", "builtins.list": "[]", "builtins.dict": "{}", "?": "()"}
"""The containers that Python writes with brackets alone."""


def _written(tree: InterfaceTree) -> Iterator[str]:
    """Yield the pieces of a container's text, such as `{"logits": float32 [2, 100]}` or `Point(x=…, y=…)`."""
    short = tree.container.rpartition(".")[2]
    brackets = _BRACKETS.get(tree.container)
    yield brackets[0] if brackets else f"{short}("
    for index, child in enumerate(tree.children):
        yield ", " if index else ""
        if brackets == "{}":
            yield f"{json.dumps(child.name, ensure_ascii=False)}: "
        elif not brackets and child.name != str(index):
            yield f"{child.name}="
        yield str(child)
    if tree.container == "builtins.tuple" and len(tree.children) == 1:
        yield ","
    yield brackets[1] if brackets else ")"
