"""The meanings of records, fields and numbers: their docstrings in the source, which Python keeps for classes only."""

from __future__ import annotations

import ast
import inspect
from functools import cache
from types import ModuleType
from typing import NamedTuple

from graphwire.lazy import pattern


class Meaning(NamedTuple):
    """What a docstring says of a field."""

    text: str
    """The meaning as a sentence; empty if the field has no docstring."""
    own: bool
    """Whether the text declares the field an addition of graphwire to a record of torch's schema."""
    extension: str
    """The extension that a reader must support to read the field; empty if there is none."""


_OWN = pattern(r"Extension (?:`(?P<name>[a-z-]+)`|without requirement)(?P<colon>[:,]) ")


def meaning_of_class(kind: type) -> str:
    """Return the meaning of a record or enum: its docstring, without line ends."""
    return _OWN.sub("", _joined(kind.__doc__ or ""))


def meaning_of(kind: type, field: str) -> Meaning:
    """Return the meaning of a field of a record, or of a member of an enum."""
    text = _docstrings(inspect.getmodule(kind)).get((kind.__name__, field), "")
    found = _OWN.match(text)
    if found is None:
        return Meaning(_capital(text), False, "")
    return Meaning(_capital(text[found.end() :]), True, found["name"] or "")


def _joined(text: str) -> str:
    return " ".join(text.split())


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


@cache
def _docstrings(module: ModuleType | None) -> dict[tuple[str, str], str]:
    """Return the text below each field in the classes of a module, by class and field."""
    assert module is not None
    found: dict[tuple[str, str], str] = {}
    for node in ast.parse(inspect.getsource(module)).body:
        if not isinstance(node, ast.ClassDef):
            continue
        for field, below in zip(node.body, node.body[1:], strict=False):
            match field, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    found[node.name, name] = _joined(text)
                case _:
                    pass
    return found
