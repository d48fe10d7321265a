"""Checks of single providers: the types of their attributes, and the signatures of their methods."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice
from types import FunctionType, MappingProxyType, MethodType
from typing import Any

from graphwire.errors import GraphwireError

MOST = 10_000
"""The maximum number of providers of one hook. It stops a hook that yields without end."""


class RefusedError(Exception):
    """A provider or a hook that cannot be used."""

    def __init__(self, reason: str, names: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.names = names


_LAZY = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def call_problem(function: Any, count: int, *, may_yield: bool = False) -> str:
    """Return why a function cannot be called with `count` positional arguments; an empty string if it can."""
    plain = function.__func__ if type(function) is MethodType else function
    code = getattr(plain, "__code__", None) if type(plain) is FunctionType else None
    lazy = _LAZY & ~inspect.CO_GENERATOR if may_yield else _LAZY
    if code is not None and code.co_flags & lazy:
        return "is a generator or a coroutine, and calling it does nothing"
    if code is not None and not hasattr(plain, "__wrapped__"):
        # The same result as `inspect`, 30 times faster.
        most = code.co_argcount - (plain is not function)
        least = most - len(plain.__defaults__ or ())
        keywords = code.co_kwonlyargcount > len(plain.__kwdefaults__ or {})
        if least <= count and (count <= most or code.co_flags & inspect.CO_VARARGS) and not keywords:
            return ""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a builtin without a signature
        return ""
    try:
        signature.bind(*[None] * count)
    except TypeError:
        given = {0: "no arguments", 1: "one argument"}.get(count, f"{count} arguments")
        return f"takes {signature!s:.80}, and is called with {given}"
    return ""


def type_text(value: object) -> str:
    if isinstance(value, type):
        return f"the class {value.__qualname__:.60}"
    kind = type(value).__qualname__
    told_whole = type(value) in (str, bytes, int, bool, float, type(None))
    return f"{kind} {value!r:.60}" if told_whole else f"a {kind}"


def _shown(value: object) -> str:
    plain = type(value) in (str, bytes, int, bool, float)
    return f"{value!r:.60}" if plain else type_text(value)


def error_text(error: BaseException) -> str:
    """Return an error of foreign code on one line."""
    try:
        if isinstance(error, GraphwireError):
            return error.problem
        text = " ".join(f"{type(error).__name__}: {error}".split())
    except Exception:  # noqa: BLE001 even its text may fail
        text = f"{type(error).__name__}"
    return f"{text:.500}".removesuffix(": ")


def _text(pattern: str, what: str, flags: int = re.ASCII) -> Callable[[Any], str]:
    """Return a check that an attribute is text that matches a pattern."""
    form = re.compile(pattern, flags)

    def check(value: Any) -> str:
        # Not a subclass: it could define its own comparison and hash.
        if type(value) is not str or not value:
            raise RefusedError(f"{_shown(value)}, not text")
        if form.fullmatch(value) is None:
            raise RefusedError(f"{value!r:.80}, not {what}")
        return value

    return check


def _number(first: int) -> Callable[[Any], int]:
    """Return a check that an attribute is a number, at least `first`."""

    def check(value: Any) -> int:
        if type(value) is not int:
            raise RefusedError(f"{_shown(value)}, not an int")
        if value < first:
            raise RefusedError(f"{value}, not a number from {first}")
        return value

    return check


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise RefusedError(f"{_shown(value)}, not True or False")
    return value


_operator_name = _text(r"[A-Za-z_][\w.:]*", "a name of letters, digits, dots and colons")


def _prefixes(value: Any) -> tuple[str, ...]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise RefusedError(f"{type_text(value)}, not a sequence of text")
    prefixes = tuple(map(_operator_name, islice(value, MOST)))
    if not prefixes:
        raise RefusedError("empty")
    if twice := [each for each, count in Counter(prefixes).items() if count > 1]:
        raise RefusedError(f"a list that has {twice[0]!r:.80} twice")
    return prefixes


def _operators(value: Any) -> Mapping[str, Callable[..., None]]:
    if not isinstance(value, Mapping):
        raise RefusedError(f"{type_text(value)}, not a mapping from names to functions")
    operators = {}
    for name, function in dict(value).items():
        operators[_operator_name(name)] = function
        if not callable(function):
            raise RefusedError(f"not a mapping from names to functions: {name} has {type_text(function)}")
        if problem := call_problem(function, 1):
            raise RefusedError(f"a mapping with an unusable function: that of {name} {problem}")
    return MappingProxyType(operators)


def _names_of_operators(value: Any) -> frozenset[str]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Collection):
        raise RefusedError(f"{type_text(value)}, not a collection of names")
    return frozenset(map(_operator_name, islice(value, MOST)))


_identifier = _text(r"[A-Za-z_]\w*", "an identifier")
_plain_name = _text(r"[a-z][a-z0-9_]*", "lower-case letters, digits and `_`, a letter first")
_word = _text(r"[^\s@]+", "a name without spaces and `@`", 0)
ATTRIBUTES: dict[str, dict[str, Callable[[Any], Any]]] = {
    "wire_format": {
        "name": _plain_name,
        "suffix": _text(r"\.[a-z0-9]+", "a dot and then lower-case letters and digits"),
        "media_type": _text(r"[\w.+-]+/[\w.+-]+", "a media type such as application/json"),
    },
    "op_handler": {
        "namespace": _identifier,
        "prefixes": _prefixes,
        "opset_version": _number(0),
        "convention": _text("schema|symbolic|generic", "schema, symbolic or generic"),
    },
    "treespec_serializer": {"name": _word, "version": _number(1)},
    "opset_upgrader": {
        "namespace": _identifier,
        "from_version": _number(1),
        "to_version": _number(1),
        "operators": _operators,
    },
    "constant_codec": {"name": _plain_name},
    "metadata_key": {"name": _word},
    "weight_store": {"name": _plain_name, "takes_storages": _flag},
    "command": {
        "name": _text(r"[a-z][a-z0-9-]*", "lower-case letters, digits and dashes, a letter first"),
        "help": _text(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]{1,200}", "one line of at most 200 characters", 0),
    },
}
"""The check of each required attribute, by kind and name. It returns the value to keep, or raises RefusedError."""
OPTIONAL: dict[str, dict[str, Callable[[Any], Any]]] = {
    "op_handler": {"keeps": _prefixes},
    "opset_upgrader": {"propagates": _names_of_operators},
}
"""The checks of optional attributes."""
