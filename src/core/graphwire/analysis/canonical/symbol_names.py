"""Canonical names of symbols: renumbers them in the order of first appearance, and prints expressions with the new names.

sympy sorts the operands of a sum by the names of its symbols. So the content of an expression is used, in which operands
are sorted independently of names. Symbols that first appear in the same expression are distinguished by their ranges and
their positions in all expressions. This takes two rounds; the second also uses the positions of neighbouring symbols. The
time is linear in the length of the text.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import Any

import msgspec

from graphwire.errors import ExpressionError, GraphwireError
from graphwire.schema import Float, RangeConstraint, decode_float
from graphwire.schema.texts.infix import format_infix, parse_infix
from graphwire.schema.texts.metadata import is_deeper
from graphwire.schema.texts.operations import Expression, format_expression, parse_expression, symbols_of
from graphwire.schema.texts.treespec import MAX_JSON_DEPTH, TreeSpec, parse_treespec, split_version

# --------------------------- deterministic bytes of a content tree: MessagePack with exactly one encoding for each tree
# A tree is None, bool, int, float, str, bytes, a list of trees, or a dict with text keys. The encoding does not depend on the
# schema. `docs/spec/canonical.md` specifies it for other languages:
#
# * every head is the shortest that MessagePack offers; an integer has its shortest form, unsigned from zero on;
# * a float has 64 bits, and NaN is `7ff8000000000000`;
# * the keys of a dict ascend by their UTF-8 bytes;
# * an integer outside -2**63 … 2**64 - 1 is the list `["integer", TEXT]` with its hexadecimal digits;
# * text with lone surrogates, which UTF-8 cannot encode, is bytes: the surrogates are encoded like other code points.


_encoder = msgspec.msgpack.Encoder()


def content_bytes(tree: Any) -> bytes:
    """Return the bytes of a tree. Parts may be encoded already (`msgspec.Raw`). The keys of dicts must ascend.

    Raises:
        RecursionError: the tree nests too deeply.
    """
    try:
        return _encoder.encode(tree)
    except (OverflowError, UnicodeEncodeError):
        return _encoder.encode(_respelled(tree))


def content_float(value: Float) -> float:
    """Return the value of a float in a document. Every NaN becomes the same NaN."""
    value = decode_float(value)
    return math.nan if math.isnan(value) else value


def plain_content(tree: Any) -> Any:
    """Return plain data as content: lists and mappings begin with their kind, the keys of mappings ascend."""
    if isinstance(tree, list):
        return ["list", *map(plain_content, tree)]
    if isinstance(tree, dict):
        pairs = [[key, plain_content(value)] for key, value in tree.items()]
        return ["mapping", *sorted(pairs, key=itemgetter(0))]
    if isinstance(tree, (bytearray, memoryview)):
        return bytes(tree)
    return content_float(tree) if isinstance(tree, float) else tree


def digest(*parts: bytes) -> bytes:
    """Return the 16-byte BLAKE2b digest of the parts, each preceded by its length (8 bytes, little-endian)."""
    import hashlib

    whole = hashlib.blake2b(digest_size=16)
    for part in parts:
        whole.update(len(part).to_bytes(8, "little"))
        whole.update(part)
    return whole.digest()


def _respelled(tree: Any) -> Any:
    """Return the tree with replacements for integers and text that MessagePack cannot encode."""
    if isinstance(tree, dict):
        return {key: _respelled(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_respelled(item) for item in tree]
    if type(tree) is int and not -(1 << 63) <= tree < 1 << 64:
        return ["integer", f"{tree:x}"]
    if type(tree) is str:
        try:
            tree.encode()
        except UnicodeEncodeError:
            return tree.encode("utf-8", "surrogatepass")
    return tree


# --------------------------------------------------------------------------------- the content of a symbolic expression
# equal for all texts that torch and sympy write for the same expression.
#
# A number is itself, a symbol is `["symbol", NAME]`, an operation is a list of its head and operands. Differences between
# releases of sympy, and between constructor text and infix text, are normalized. Nothing else is evaluated:
#
# * operands of sums, products, Max, Min, And, Or and Xor that are the same operation are merged into it. Operands of these, of
#   Equality and of Unequality ascend by their bytes;
# * the integers and fractions among the factors of a product become one number, as long as it has at most 256 bits;
# * `a > b` is `b < a`, and `a >= b` is `b <= a`;
# * assumptions about symbols are omitted: the symbols' kinds and ranges encode them.


_ASSOCIATIVE = frozenset("Add And Max Min Mul Or Xor".split())
COMMUTATIVE = _ASSOCIATIVE | {"Equality", "Unequality"}
"""The operations in which the order of operands has no meaning."""
_CONVERSE = {"GreaterThan": "LessThan", "StrictGreaterThan": "StrictLessThan"}
_CONSTANTS: dict[str, Any] = {
    "true": True,
    "false": False,
    "oo": math.inf,
    "-oo": -math.inf,
    "nan": math.nan,
}
_MAX_BITS = 256


def expression_content(expression: Expression, rename: Callable[[str], str]) -> Any:
    """Return the content of an expression.

    Args:
        rename: returns the new name of a symbol.

    Raises:
        RecursionError: the expression nests too deeply.
    """
    head, args = expression
    if head == "Integer":
        return args[0]
    if head == "Symbol":
        return ["symbol", rename(args[0])]
    if head == "Float":
        return content_float(float(args[0])) if args[1] == 53 else ["Float", *args]
    if head == "Rational":
        return _fraction(*args)
    if not args:
        return _CONSTANTS.get(head, [head])
    operands = []
    for part in args:
        operand = expression_content(part, rename)
        if head in _ASSOCIATIVE and type(operand) is list and operand[0] == head:
            operands += operand[1:]
        else:
            operands.append(operand)
    if head == "Mul":
        operands = _with_one_number(operands)
    if head in _ASSOCIATIVE and len(operands) == 1:
        return operands[0]
    if head in COMMUTATIVE:
        operands.sort(key=content_bytes)
    elif head in _CONVERSE:
        return [_CONVERSE[head], operands[1], operands[0]]
    return [head, *operands]


def _fraction(numerator: int, denominator: int) -> Any:
    divisor = math.gcd(numerator, denominator)
    numerator, denominator = numerator // divisor, denominator // divisor
    return numerator if denominator == 1 else ["Rational", numerator, denominator]


def _with_one_number(factors: list[Any]) -> list[Any]:
    """Return the factors of a product with integers and fractions multiplied, as long as the result has at most 256 bits."""
    numerator, denominator, others = 1, 1, []
    for factor in factors:
        one, other = (factor, 1) if type(factor) is int else (0, 0)
        if type(factor) is list and factor[0] == "Rational":
            one, other = factor[1:]
        if other and (numerator * one).bit_length() <= _MAX_BITS >= (denominator * other).bit_length():
            numerator, denominator = numerator * one, denominator * other
        else:
            others.append(factor)
    number = _fraction(numerator, denominator)
    return others if number == 1 and others else [number, *others]


_NUMBERED = r"(?a)([a-z]+)[0-9]+"
"""A symbol's name in torch's form. Its letters (`s`, `u`, `zuf` …) encode the symbol's origin and are kept."""
_ROUNDS = 2


class SymbolNames:
    """The new names of the symbols of one program."""

    def __init__(self, texts: Iterable[str], ranges: Mapping[str, RangeConstraint]) -> None:
        """Name the symbols.

        Args:
            texts: every expression in the program's values, in canonical order.
            ranges: the ranges by symbol or expression.
        """
        self._ranges = ranges
        self._texts: dict[str, str] = {}
        self._contents: dict[str, Any] = {}
        self._parsed = {text: parsed(text) for text in dict.fromkeys(texts)}
        self._keys = {text: _infix_or_none(text) for text in ranges}
        self.names = self._named()
        """The new name of each symbol."""

    def content(self, text: str) -> Any:
        """Return the content of an expression with the new names, or `["text", TEXT]` for a text that cannot be parsed."""
        if text not in self._contents:
            expression, _ = self._parse(text)
            self._contents[text] = (
                ["text", text] if expression is None else expression_content(expression, self._name)
            )
        return self._contents[text]

    def expression(self, text: str) -> str:
        """Return the expression with the new names, in its original syntax. Text that cannot be parsed stays unchanged."""
        if text not in self._texts:
            expression, write = self._parse(text)
            self._texts[text] = text if expression is None else write(self._renamed(expression))
        return self._texts[text]

    def range_contents(self) -> list[Any]:
        """Return the content of the ranges: expression, minimum and maximum of each, sorted by their bytes."""
        found = []
        for text, key in self._keys.items():
            content = ["text", text] if key is None else expression_content(key, self._name)
            found.append([content, self._ranges[text].min_val, self._ranges[text].max_val])
        return sorted(found, key=content_bytes)

    def ranges(self) -> dict[str, RangeConstraint]:
        """Return the ranges under the new names, sorted."""
        found = {}
        for text, key in self._keys.items():
            found[text if key is None else format_infix(self._renamed(key))] = self._ranges[text]
        return dict(sorted(found.items()))

    def _parse(self, text: str) -> tuple[Expression | None, Callable[[Expression], str]]:
        return self._parsed.get(text) or parsed(text)

    def _name(self, name: str) -> str:
        return self.names.get(name, name)

    def _renamed(self, expression: Expression) -> Expression:
        return renamed_expression(expression, self._name)

    def _named(self) -> dict[str, str]:
        values = [expression for expression, _ in self._parsed.values() if expression is not None]
        keys = [key for key in self._keys.values() if key is not None]
        groups = _by_first_appearance(values, keys)
        if any(len(group) > 1 for group in groups):
            colours = self._colours([name for group in groups for name in group], values)
            groups = [sorted(group, key=lambda name: (colours[name], name)) for group in groups]
        names: dict[str, str] = {}
        counts: dict[str, int] = {}
        for name in [name for group in groups for name in group]:
            letters = _letters(name)
            number = counts[letters] = counts.get(letters, -1) + 1
            names[name] = f"{letters}{number}"
        return names

    def _colours(self, names: Iterable[str], values: Iterable[Expression]) -> dict[str, bytes]:
        """Return a digest of each symbol: of its letters, its range and its positions, but not of its number."""
        none = RangeConstraint(None, None)
        colours = {
            name: digest(_letters(name).encode(), _ends(self._ranges.get(name, none))) for name in names
        }
        trees: dict[bytes, Any] = {}
        for expression in values:
            tree = expression_content(expression, str)
            trees.setdefault(content_bytes(tree), tree)
        placed = [(tree, digest(b"value", str(index).encode())) for index, tree in enumerate(trees.values())]
        for text, key in self._keys.items():
            if key is not None:
                placed.append((expression_content(key, str), digest(b"range", _ends(self._ranges[text]))))
        for _ in range(_ROUNDS):
            found: dict[str, list[bytes]] = {name: [] for name in colours}
            for tree, place in placed:
                _note_places(_shape(tree, colours), place, found)
            colours = {name: digest(colours[name], *sorted(places)) for name, places in found.items()}
        return colours


def _by_first_appearance(values: Iterable[Expression], keys: Iterable[Expression]) -> list[list[str]]:
    """Return the symbols that first appear in each expression and, as the last group, those that appear only in ranges."""
    seen: set[str] = set()
    groups: list[list[str]] = []
    for expression in values:
        groups.append([name for name in symbols_of(expression) if name not in seen])
        seen.update(groups[-1])
    alone = dict.fromkeys(name for key in keys for name in symbols_of(key) if name not in seen)
    return [*groups, list(alone)]


class _Shape(msgspec.Struct, frozen=True):
    """An expression without the names of its symbols."""

    digest: bytes
    name: str
    """The symbol's name; empty for other expressions."""
    is_commutative: bool
    parts: list[_Shape]


def _shape(tree: Any, colours: Mapping[str, bytes]) -> _Shape:
    if type(tree) is not list:
        return _Shape(digest(b"number", content_bytes(tree)), "", False, [])
    head, *operands = tree
    if head == "symbol":
        return _Shape(colours[operands[0]], operands[0], False, [])
    parts = [_shape(operand, colours) for operand in operands]
    digests = [part.digest for part in parts]
    if head in COMMUTATIVE:
        digests.sort()
    return _Shape(digest(head.encode(), *digests), "", head in COMMUTATIVE, parts)


def _note_places(shape: _Shape, place: bytes, found: Mapping[str, list[bytes]]) -> None:
    """Add a digest of the path from the root of the expression for each occurrence of each symbol."""
    if shape.name:
        found[shape.name].append(place)
    for index, part in enumerate(shape.parts):
        step = part.digest if shape.is_commutative else str(index).encode()
        _note_places(part, digest(place, shape.digest, step), found)


def _letters(name: str) -> str:
    numbered = re.fullmatch(_NUMBERED, name)
    return numbered[1] if numbered else "s"


def _ends(limits: RangeConstraint) -> bytes:
    return content_bytes([limits.min_val, limits.max_val])


def parsed(text: str) -> tuple[Expression | None, Callable[[Expression], str]]:
    """Return the tree of an expression in either syntax (None if it cannot be parsed), and the formatter for that syntax."""
    try:
        return parse_expression(text), format_expression
    except ExpressionError:
        return _infix_or_none(text), format_infix


def _infix_or_none(text: str) -> Expression | None:
    try:
        return parse_infix(text)
    except ExpressionError:
        return None


def renamed_expression(expression: Expression, rename: Callable[[str], str]) -> Expression:
    """Return the expression with its symbols renamed, and with operands sorted if their order has no meaning."""
    return _renamed(expression, rename)[0]


def _renamed(expression: Expression, rename: Callable[[str], str]) -> tuple[Expression, str]:
    """Return the renamed expression and its text, which is composed of the texts of its operands."""
    head, args = expression
    if head == "Symbol":
        renamed = Expression(head, (rename(args[0]), *sorted(args[1:])))
    elif not expression.operands:
        renamed = expression
    else:
        operands = [_renamed(part, rename) for part in expression.operands]
        if head in COMMUTATIVE:
            operands.sort(key=lambda operand: operand[1])
        text = f"{head}({', '.join([text for _, text in operands])})"
        return Expression(head, tuple([operand for operand, _ in operands])), text
    return renamed, format_expression(renamed)


# ------------------------ the content tree of a treespec, independent of how the contexts of its containers are encoded
# A leaf is None; a container is `[type, context, child…]`. torch's text loses some facts about contexts; graphwire then
# writes a tagged form under `TYPE@2`. The content keeps only what torch's text keeps: a tuple in a context is a list, and the
# keys of a dict in it are text.


def treespec_content(text: str) -> Any:
    """Return the content of a treespec, or `["text", TEXT]` for text that cannot be parsed.

    Raises:
        RecursionError: containers nest too deeply.
    """
    try:
        return _container(parse_treespec(text))
    except GraphwireError:
        return ["text", text]


def _container(spec: TreeSpec) -> Any:
    if spec.type is None:
        return None
    name, version = split_version(spec.type)
    return [name, _context(name, version, spec.context), *map(_container, spec.children)]


def _context(name: str, version: int, context: Any) -> Any:
    if isinstance(context, str):
        try:
            if is_deeper(context, MAX_JSON_DEPTH):
                return ["text", context]
            context = json.loads(context)
        except (ValueError, RecursionError):
            return ["text", context]
    else:
        match context:
            case [str(), list(fields), list(none)] if all(type(each) is str for each in (*fields, *none)):
                context = [fields, none]  # a dataclass as torch 2.1 and 2.2 wrote it, with its class in front
    if name == "collections.defaultdict" and version == 2 and isinstance(context, dict):
        text = context.get("factory")
        module, _, factory = (text if isinstance(text, str) else "").rpartition(".")
        context = {
            "default_factory_module": module,
            "default_factory_name": factory,
            "dict_context": _untagged(context.get("keys")),
        }
    return plain_content(_untagged(context) if version > 1 else context)


def _untagged(tree: Any) -> Any:
    """Return the value without the tags of `schema.texts.treespec.encode_value`, in the form that Python's JSON has for it."""
    if isinstance(tree, list):
        return list(map(_untagged, tree))
    if not isinstance(tree, dict):
        return tree
    match tree:
        case {"tuple": list(items), **rest} if not rest:
            return list(map(_untagged, items))
        case {"dict": list(pairs), **rest} if not rest and all(
            isinstance(pair, list) and len(pair) == 2 for pair in pairs
        ):
            return {_key(key): _untagged(value) for key, value in pairs}
        case {"float": ("inf" | "-inf" | "nan") as text, **rest} if not rest:
            return float(text)
        case {"bytes": str(text), **rest} if not rest:
            try:
                return base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError):
                return tree
        case {"enum": str(kind), "name": str(name), **rest} if not rest:
            return {"__enum__": True, "fqn": kind, "name": name}
    return {key: _untagged(value) for key, value in tree.items()}


def _key(tree: Any) -> str:
    return tree if isinstance(tree, str) else json.dumps(_untagged(tree), default=repr)
