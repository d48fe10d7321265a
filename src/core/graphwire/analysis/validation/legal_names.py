"""Rules for names in a document: only names that are valid in torch's generated Python code and cannot inject code.

torch writes value names and keywords into generated code verbatim. It writes the parts of an attribute path verbatim or, if
a part is not an identifier (`layers.0`), between double quotes without escaping (`torch/fx/graph_module.py`,
`torch/fx/graph.py`). So a part may be any printable text without quotes and backslashes.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from keyword import kwlist

from graphwire.lazy import pattern

MAX_NAME = 1024
"""The maximum length of a name in characters. torch joins a module path into one name; real names stay below 300."""

_KEYWORDS = frozenset({*kwlist, "__debug__"})
_RESERVED = _KEYWORDS | {"self", "torch", "pytree", "fx_pytree", "NoneType"}
"""Names that values must not have: keywords, `self`, and the globals of generated code. torch itself cannot run a program
with such an input."""
_NAMES = pattern(r"(?:[A-Za-z_][A-Za-z0-9_]*\n)*")
_PATHS = pattern(r"(?:[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*\n)*")
_UNSAFE = pattern(r"[\"'\\`]")
_USUAL_PATH = pattern(r"[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*")
_OPERATOR = pattern(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*|#[A-Za-z0-9_.]+:[^:\s\"'\\`]+")


def is_dunder(name: str) -> bool:
    """Return whether `name` has the form that Python reserves for special attributes, such as `__class__`."""
    return name[:2] == "__" and name[-2:] == "__"


def is_value_name(name: str) -> bool:
    """Return whether `name` can be a local variable of generated code: an ASCII identifier, like the names that torch makes."""
    return (
        name.isidentifier()
        and name.isascii()
        and name not in _RESERVED
        and name[:2] + name[-2:] != "____"
        and len(name) <= MAX_NAME
    )


def are_value_names(given: Collection[str]) -> bool:
    """Return True if all names certainly pass `is_value_name`, and False if each must be checked with it."""
    text = _joined(given, _NAMES)
    return text is not None and "\n__" not in text and _RESERVED.isdisjoint(given)


def is_parameter_name(name: str, *, keyword: bool) -> bool:
    """Return whether `name` can name an argument in an operator's schema (`self`, `from`) or, if `keyword`, a keyword argument.

    Python normalizes identifiers (NFKC), so an identifier in another form would name something else than it shows.
    """
    return (
        name.isidentifier()
        and len(name) <= MAX_NAME
        and not is_dunder(name)
        and not (keyword and name in _KEYWORDS)
        and (name.isascii() or unicodedata.is_normalized("NFKC", name))
    )


def is_own_path(path: str) -> bool:
    """Return whether `path` can be an attribute that a graph reads from its own module: torch writes it as code and derives a
    value's name from it."""
    return is_value_name(path.replace(".", "_")) and not any(
        part in _KEYWORDS or is_dunder(part) for part in path.split(".")
    )


def is_attribute_name(name: str) -> bool:
    """Return whether `name` can be an attribute of a module."""
    return is_plain_text(name) and "." not in name and not is_dunder(name)


def is_attribute_path(path: str) -> bool:
    """Return whether `path` can be a qualified name, such as `layers.0.weight`."""
    if len(path) > MAX_NAME:
        return False
    if _USUAL_PATH.fullmatch(path) is not None and "__" not in path:
        return True
    return all(map(is_attribute_name, path.split(".")))


def path_fault(path: str) -> str:
    """Return the message about a name that is not an attribute path."""
    return f"{quoted(path)} is not an attribute path such as layers.0.weight"


def are_attribute_paths(given: Collection[str]) -> bool:
    """Return True if all names certainly pass `is_attribute_path`, and False if each must be checked with it."""
    text = _joined(given, _PATHS)
    return text is not None and "__" not in text


def _joined(given: Collection[str], form: re.Pattern[str]) -> str | None:
    """Return the names, each between line feeds, or None if one is too long or has another form."""
    text = "\n".join(["", *given, ""])
    is_good = form.fullmatch(text, 1) and text.count("\n") == len(given) + 1
    return text if is_good and max(map(len, given), default=0) <= MAX_NAME else None


def is_operator_name(name: str) -> bool:
    """Return whether `name` has the form of a serialized operator: `torch.ops.aten.add.Tensor`, `#namespace:name`."""
    return len(name) <= MAX_NAME and _OPERATOR.fullmatch(name) is not None


def is_plain_text(text: str) -> bool:
    """Return whether `text` is printable, not empty, of bounded length, and free of quotes and backslashes."""
    return 0 < len(text) <= MAX_NAME and text.isprintable() and _UNSAFE.search(text) is None


def quoted(text: str) -> str:
    """Return `text` for a message: escaped, and truncated to 80 characters."""
    return repr(text) if len(text) <= 80 else f"{text[:80]!r}…"


def number_text(number: int) -> str:
    """Return `number` for a message. Python refuses to print integers of several thousand digits, so a long one is described."""
    return str(number) if number.bit_length() <= 128 else f"a number of {number.bit_length()} bits"
