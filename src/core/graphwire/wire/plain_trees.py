"""What a tree is, and one fast look over it that every format shares."""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain
from math import isfinite
from typing import Any, NamedTuple

from graphwire.errors import EncodeError, FormatError, LimitError

MAX_DEPTH = 400
"""Containers inside each other that formats must carry. Decoders recurse on the C stack, so this is no matter of taste."""

MAX_RECORDS = 1 << 21
"""Containers of a document that is read as records without a tree; a record takes 400 bytes and more. A program of 100,000
nodes has 1.5 million."""

_PLUGIN_DEPTH = MAX_DEPTH - 48
"""Of these a tree of a plugin may have: what it stands in takes the others."""
_PLUGIN_NODES = 1 << 24
_DIGIT_BITS = 14_000
"""Integers up to here have fewer digits than Python reads and spells (4,300)."""

_TREE_TYPES = frozenset({type(None), bool, int, float, str, bytes, list, dict})
_KEY_TYPES = frozenset({str})


def check_containers(counted: int, most: int) -> None:
    """Refuse a document that may hold more lists and dicts than it may.

    Raises:
        LimitError: it does.
    """
    if counted > most:
        raise LimitError(
            f"the document may hold {counted:,} lists and dicts, more than {most:,}",
            remedy="Raise Limits.containers for a file that you trust",
        )


class TreeMeasure(NamedTuple):
    """What a look over a tree found."""

    kinds: frozenset[type]
    """The exact types that occur as values."""
    nodes: int
    """Values, containers included, keys not."""
    depth: int
    """Containers inside each other; 0 for a scalar."""
    texts: int
    """Values that are text, and keys."""
    finite: bool
    """Whether no float is inf or nan."""


def measure_tree(
    tree: Any,
    *,
    max_depth: int = MAX_DEPTH,
    max_nodes: int | None = None,
    kinds_allowed: frozenset[type] = _TREE_TYPES,
) -> TreeMeasure:
    """Look over a tree level by level, and refuse what is no tree (a subclass is none: it would come back as its base).

    About 0.1 µs a node: each level is a handful of C-speed passes, where a recursive walk costs several times as much.

    Raises:
        FormatError: a value that no wire format has, or a key that is no text; with its place.
        LimitError: more than `max_depth` containers inside each other (a cycle among them), or more than `max_nodes` values.
    """
    level = [tree]
    kinds: set[type] = set()
    nodes = depth = texts = 0
    finite = True
    while level:
        nodes += len(level)
        if max_nodes is not None and nodes > max_nodes:
            raise LimitError(
                f"the document holds more than {max_nodes:,} values", remedy="Raise Limits.tree_nodes"
            )
        types = list(map(type, level))
        here = set(types)
        if not here <= kinds_allowed:
            raise _foreign(tree, kinds_allowed)
        kinds |= here
        if str in here:
            texts += types.count(str)
        if float in here and finite:
            finite = all(isfinite(value) for value, kind in zip(level, types, strict=True) if kind is float)
        dicts = (
            [value for value, kind in zip(level, types, strict=True) if kind is dict] if dict in here else []
        )
        lists = (
            [value for value, kind in zip(level, types, strict=True) if kind is list] if list in here else []
        )
        if not (dicts or lists):
            break
        depth += 1
        if depth > max_depth:
            raise LimitError(f"containers lie more than {max_depth} deep inside each other")
        if not set(map(type, chain.from_iterable(dicts))) <= _KEY_TYPES:
            raise _foreign(tree, kinds_allowed)
        texts += sum(map(len, dicts))
        level = list(chain(chain.from_iterable(map(dict.values, dicts)), chain.from_iterable(lists)))
    return TreeMeasure(frozenset(kinds), nodes, depth, texts, finite)


def check_plugin_tree(
    tree: Any, who: str, place: str, *, escaped: bool = False, besides: frozenset[type] = frozenset()
) -> None:
    """The door by which trees of plugins enter a document: refuse what a reader of any wire format would, or would have as
    something else.

    Args:
        who: who made the tree, such as `the constant codec packed`.
        place: what it was made of.
        escaped: whether it stands in a document as JSON text of ASCII alone, which can say a lone surrogate.
        besides: other types that values may be of, which whoever asks writes.

    Raises:
        EncodeError: it is no tree, is too deep or too large, or has text or an integer that a format cannot say.
    """
    try:
        allowed = _TREE_TYPES | besides
        measure_tree(tree, max_depth=_PLUGIN_DEPTH, max_nodes=_PLUGIN_NODES, kinds_allowed=allowed)
        _check_scalars(tree, escaped)
    except (FormatError, LimitError) as error:
        raise EncodeError(
            f"{who} gives what no tree can hold: {error.problem}",
            place=f"{place}: {error.place}" if error.place else place,
            remedy="None, bool, int, float, str, bytes, lists, and dicts with text keys make a tree (exactly these types): "
            "let the plugin write such",
        ) from None


def check_expanded_size(value: Any, what: str) -> None:
    """Refuse lists, tuples and dicts that share others, where they are more than a document holds once they are written out:
    each is measured once, and counted as often as it occurs.

    Args:
        what: what they are, for the message.

    Raises:
        EncodeError: they are too many.
    """
    sizes: dict[int, int] = {}
    entered: set[int] = set()
    rest = [value]
    while rest:
        here = rest[-1]
        if id(here) in sizes:  # it stands there once for each place that has it
            rest.pop()
            continue
        inner = _inner(here)
        entered.add(id(here))
        missing = [
            each
            for each in inner
            if isinstance(each, _CONTAINERS) and id(each) not in sizes and id(each) not in entered
        ]
        if missing:
            rest += missing
            continue
        sizes[id(here)] = 1 + sum(sizes.get(id(each), 1) for each in inner)
        if sizes[id(here)] > _PLUGIN_NODES:
            raise EncodeError(
                f"{what} is more than {_PLUGIN_NODES:,} values, where what it shares is written out",
                remedy="Keep less there: a list, tuple or dict that occurs twice is written twice",
            )
        rest.pop()


_CONTAINERS = (list, tuple, dict)


def _inner(value: Any) -> Collection[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, (list, tuple)) else ()


def _check_scalars(tree: Any, escaped: bool) -> None:
    rest = [tree]
    while rest:
        value = rest.pop()
        kind = type(value)
        if kind is list:
            rest.extend(value)
        elif kind is dict:
            rest.extend(value)
            rest.extend(value.values())
        elif kind is int and value.bit_length() > _DIGIT_BITS:
            raise FormatError(f"an integer of {value.bit_length():,} bits is longer than JSON readers take")
        elif kind is str and not (escaped or value.isascii()):
            try:
                value.encode()
            except UnicodeEncodeError:
                raise FormatError("a text has a lone surrogate, which is no character") from None


def _foreign(tree: Any, allowed: frozenset[type]) -> FormatError:
    """The error for the first value (in document order) that makes `tree` no tree."""
    rest: list[tuple[str, Any]] = [("", tree)]
    while rest:
        place, value = rest.pop()
        kind = type(value)
        if kind not in allowed:
            return FormatError(f"a {kind.__name__} is no value of a wire format", place=place)
        if kind is dict:
            for key in value:
                if type(key) is not str:
                    return FormatError(f"a key is a {type(key).__name__}, not text", place=place)
            rest.extend((f"{place}.{key}" if place else key, value[key]) for key in reversed(value))
        elif kind is list:
            rest.extend((f"{place}[{index}]", value[index]) for index in reversed(range(len(value))))
    return FormatError("the tree changed while it was written")
