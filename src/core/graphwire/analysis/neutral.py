"""What does a reader print about a file? Programs and payloads as neutral JSON (`docs/spec/neutral.md`)."""

from __future__ import annotations

import ast
import enum
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any, Final

import msgspec

from graphwire import schema
from graphwire.analysis.elements import row_major_parts
from graphwire.errors import dict_of_pairs
from graphwire.schema import ITEM_SIZES, Float, TensorMeta, decode_float
from graphwire.schema.texts.guard import OPERATORS, check_guard
from graphwire.schema.texts.infix import parse_infix
from graphwire.schema.texts.metadata import is_deeper
from graphwire.schema.texts.operations import Expression, parse_expression
from graphwire.schema.texts.treespec import MAX_JSON_DEPTH, TreeSpec, parse_treespec

# ------------------------- the digest of a tensor's elements, independent of its strides and of its storage


def digest_of_elements(record: memoryview, meta: TensorMeta) -> str:
    """Return the SHA-256 of a tensor's elements in row-major order, in hexadecimal.

    Args:
        record: the little-endian bytes of the tensor's storage. They are long enough.
        meta: the tensor's element type, sizes, strides and offset, all of them known numbers.
    """
    dimensions = [
        (size.as_int or 0, stride.as_int or 0) for size, stride in zip(meta.sizes, meta.strides, strict=True)
    ]
    digest = hashlib.sha256()
    for part in row_major_parts(
        record, ITEM_SIZES[meta.dtype_text], dimensions, meta.storage_offset.as_int or 0
    ):
        digest.update(part)
    return digest.hexdigest()


# ---------------------------------------------------------------- tagged trees, and the canonical bytes of neutral JSON
# The functions do not recurse: a document may nest containers 400 deep, and a tag is two more levels.


NONE: Final = {"none": True}
"""None as a tagged tree."""


def hex_float(value: float) -> str:
    """Return a float as text, such as `0x1.8p+1`: normalized, without trailing zeros."""
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if value == 0:
        return f"{sign}0x0p+0"
    fraction, exponent = math.frexp(abs(value))
    head, _, tail = (2 * fraction).hex().partition("p")
    digits = head.removeprefix("0x1.").rstrip("0")
    return f"{sign}0x1{'.' if digits else ''}{digits}p{exponent - 1 + int(tail):+d}"


def scalar(value: Any) -> Any:
    """Return a value that is no container as a tagged tree."""
    if value is None:
        return NONE
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return {"int": str(value)}
    if isinstance(value, float):
        return {"float": hex_float(value)}
    return {"bytes": bytes(value).hex()}


def pairs(items: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
    """Return the entries of a dict, whose keys and values are in neutral form already."""
    return {"dict": [[key, value] for key, value in items]}


def tagged(tree: Any) -> Any:
    """Return a tree of None, bool, int, float, str, bytes, list and dict as a tagged tree."""
    whole: list[Any] = [tree]
    rest: list[tuple[Any, int]] = [(whole, 0)]
    while rest:
        place, at = rest.pop()
        value = place[at]
        if isinstance(value, list | tuple):
            place[at] = made = list(value)
            rest.extend((made, index) for index in range(len(made)))
        elif isinstance(value, dict):
            entries = [[key, item] for key, item in value.items()]
            place[at] = {"dict": entries}
            rest.extend((entry, 1) for entry in entries)
        else:
            place[at] = scalar(value)
    return whole[0]


_SURROGATES = "[\ud800-\udfff]"


def _text(value: str | bool) -> str:
    """Return a text or truth value as JSON. A lone surrogate, which UTF-8 cannot encode, is escaped."""
    return re.sub(_SURROGATES, lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))


def canonical_json(value: Any) -> bytes:
    """Return the canonical output for neutral JSON: UTF-8, sorted keys, no whitespace, one line feed at the end."""
    chunks: list[str] = []
    rest: list[Any] = [value]
    texts: list[bool] = [False]  # whether the entry of `rest` is output already
    while rest:
        item, is_text = rest.pop(), texts.pop()
        if is_text or isinstance(item, str | bool):
            chunks.append(item if is_text else _text(item))
            continue
        parts: list[tuple[Any, bool]] = []
        if isinstance(item, dict):
            for index, key in enumerate(sorted(item)):
                parts += [(f"{',' if index else '{'}{_text(key)}:", True)]
                parts += [(item[key], False)]
            parts.append(("}" if item else "{}", True))
        else:
            for index, each in enumerate(item):
                parts += [("," if index else "[", True), (each, False)]
            parts.append(("]" if item else "[]", True))
        for each, done in reversed(parts):
            rest.append(each)
            texts.append(done)
    return "".join(chunks).encode() + b"\n"


# ----------------------------- the texts inside records as neutral JSON: expressions, treespecs and guards become trees


# ---------------------------------------------------------------------------------------------------------- expressions


def neutral_expression(text: str) -> Any:
    """Return the tree of constructor text.

    Raises:
        ExpressionError: the text violates the grammar.
    """
    return _expression(parse_expression(text))


def neutral_infix(text: str) -> Any:
    """Return the tree of infix text.

    Raises:
        ExpressionError: the text violates the grammar.
    """
    return _expression(parse_infix(text))


def _expression(expression: Expression) -> Any:
    head, args = expression
    if head == "Integer":
        return scalar(args[0])
    if head == "Symbol":
        name, *assumptions = args
        return {"symbol": name} | (
            {"assumptions": [list(each) for each in assumptions]} if assumptions else {}
        )
    if head == "Float":
        return {"decimal": args[0].lower(), "precision": scalar(args[1])}
    if head == "Rational":
        return {"op": head, "args": [scalar(args[0]), scalar(args[1])]}
    if not args and head not in _WITHOUT_OPERANDS:
        return {"constant": head}
    return {"op": head, "args": list(map(_expression, args))}


_WITHOUT_OPERANDS = ("IsNonOverlappingAndDenseIndicator",)
"""The operations that may have no operands."""

# ------------------------------------------------------------------------------------------------------------ treespecs


def neutral_treespec(text: str) -> Any:
    """Return the tree of a treespec.

    Raises:
        SchemaError: the text is not a treespec.
        LimitError: it nests too deeply.
    """
    return _treespec(parse_treespec(text))


def _treespec(spec: TreeSpec) -> Any:
    if spec.type is None:
        return {"leaf": True}
    children = []
    for child in spec.children:  # a loop, because a comprehension needs two stack frames per level
        children.append(_treespec(child))
    return {"type": spec.type, "context": _context(spec.context), "children": children}


def _context(context: Any) -> Any:
    if isinstance(context, str) and not is_deeper(context, MAX_JSON_DEPTH):
        try:
            return {"json": tagged(_STRICT.decode(context))}
        except (ValueError, RecursionError):
            pass
    return {"value": tagged(context)}


def _finite(token: str) -> float:
    value = float(token)
    if not math.isfinite(value):
        raise ValueError(f"{token} is not finite")
    return value


_STRICT: Final = json.JSONDecoder(
    object_pairs_hook=partial(dict_of_pairs, twice=ValueError), parse_float=_finite, parse_constant=_finite
)


# --------------------------------------------------------------------------------------------------------------- guards


def neutral_guard(text: str) -> Any:
    """Return the tree of a guard.

    Raises:
        ExpressionError: the text violates the grammar of guards.
    """
    check_guard(text)
    return _guard(ast.parse(text, mode="eval").body)


def _guard(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=value):
            return scalar(value)
        case ast.BoolOp(op=operator, values=operands):
            return _operation(operator, *operands)
        case ast.BinOp(left=left, op=operator, right=right):
            return _operation(operator, left, right)
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            return _operation(operator, left, right)
        case ast.UnaryOp(op=operator, operand=operand):
            return _operation(operator, operand)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return {"op": "if", "args": [_guard(test), _guard(body), _guard(orelse)]}
        case ast.Name(id="inf"):
            return {"constant": "inf"}
        case ast.Attribute(value=ast.Name(id="math"), attr=name):
            return {"constant": f"math.{name}"}
        case ast.Call(func=ast.Name(id=name), args=operands):
            return {"op": name, "args": list(map(_guard, operands))}
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id=("math" | "torch") as module), attr=name), args=operands
        ):
            return {"op": f"{module}.{name}", "args": list(map(_guard, operands))}
    return {"source": _steps(node)}


def _operation(operator: ast.AST, *operands: ast.expr) -> Any:
    return {"op": OPERATORS[type(operator)], "args": list(map(_guard, operands))}


def _steps(node: ast.expr) -> list[list[Any]]:
    steps: list[list[Any]] = []
    while True:
        match node:
            case ast.Call(func=ast.Attribute(value=inner, attr=name)):
                steps.append(["call", name])
            case ast.Attribute(value=inner, attr=name):
                steps.append(["attribute", name])
            case ast.Subscript(value=inner, slice=ast.Constant(value=str() as key)):
                steps.append(["key", key])
            case ast.Subscript(value=inner, slice=index):
                steps.append(["index", scalar(ast.literal_eval(index))])
            case _:
                return steps[::-1]
        node = inner


# ----------------------------------------- records as neutral JSON: fields by name, without defaults, with texts parsed


Form = Callable[[Any], Any]

_OPTIONAL: Final[dict[type[msgspec.Struct], str]] = {
    schema.Program: "producer readable_from plugins example_inputs edited_values group_sizes",
    schema.GraphModule: "stack_frames node_sources inline_constraints replacements",
    schema.Graph: "input_names value_metadata output_metadata placed copies compositions held_as output_list",
    schema.Node: "stack from_node container",
    schema.NamedArgument: "tuples",
    schema.GraphArgument: "node",
    schema.UserInputSpec: "name",
    schema.UserOutputSpec: "name",
    schema.InputToTensorConstantSpec: "persistent",
    schema.ModuleCallSignature: "input_names output_names",
    schema.TensorMeta: "sparse",
}
OPTIONAL: Final = {record: frozenset(names.split()) for record, names in _OPTIONAL.items()}
"""The fields of a program's records that a reader may ignore: those without which the program works."""


def _value(value: Any) -> Any:
    """Return a value of any type that has no form of its own."""
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, msgspec.Struct):
        return neutral_record(value)
    if isinstance(value, list):
        listed = []
        for item in value:  # a loop, because a comprehension needs two stack frames per level
            listed.append(_value(item))
        return listed
    if isinstance(value, dict):
        entries = []
        for key, item in value.items():
            entries.append([key, _value(item)])
        return {"dict": entries}
    return scalar(value)


def _float(value: Any) -> Any:
    return [_float(item) for item in value] if isinstance(value, list) else scalar(float(decode_float(value)))


def _none_variant(_: bool) -> bool:
    """Return the value of the variant `as_none`, whose false means the same."""
    return True


GRAMMARS: Final[dict[tuple[type[msgspec.Struct], str], str]] = {
    (schema.SymExpr, "expr_str"): "expression",
    (schema.GraphModule, "replacements"): "map to expression",
    (schema.GraphModule, "inline_constraints"): "map from infix expression",
    (schema.Program, "range_constraints"): "map from infix expression",
    (schema.Program, "guards_code"): "list of guard",
    (schema.ModuleCallSignature, "in_spec"): "treespec",
    (schema.ModuleCallSignature, "out_spec"): "treespec",
    (schema.TreespecArgument, "spec"): "treespec",
    (schema.ExampleInputs, "spec"): "treespec",
    (schema.Argument, "as_treespec"): "treespec",
}
"""The fields whose texts follow a grammar, with its name, and where in a list or map the texts are."""

_TEXTS: Final[dict[str, Form]] = {
    "expression": neutral_expression,
    "map to expression": lambda table: pairs((key, neutral_expression(text)) for key, text in table.items()),
    "map from infix expression": lambda table: pairs(
        (neutral_infix(key), neutral_record(item)) for key, item in table.items()
    ),
    "list of guard": lambda texts: list(map(neutral_guard, texts)),
    "treespec": lambda held: neutral_treespec(held) if isinstance(held, str) else neutral_record(held),
}
_TREES: Final = frozenset({(schema.EncodedValue, "tree"), (schema.Composition, "tree")})
_FLOATS: Final = (Float, list[Float], list[list[Float]])
_KEPT: Final = frozenset({(schema.RangeConstraint, "min_val"), (schema.RangeConstraint, "max_val")})
"""The fields in which None is a value."""


def neutral_record(record: msgspec.Struct) -> dict[str, Any]:
    """Return a record as neutral JSON. Fields that a reader may ignore are under its key `optional`.

    Raises:
        ExpressionError, SchemaError: a text violates its grammar.
    """
    kind = type(record)
    ignored = OPTIONAL.get(kind, frozenset())
    made: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for name, default, form in _fields(kind):
        value = getattr(record, name)
        if (value is None and (kind, name) not in _KEPT) or (
            type(value) is type(default) and value == default
        ):
            continue
        (extra if name in ignored else made)[name] = form(value)
    return made | ({"optional": extra} if extra else {})


@cache
def _fields(kind: type[msgspec.Struct]) -> list[tuple[str, Any, Form]]:
    """Return the name, the default and the form of each field of a record."""
    rows: list[tuple[str, Any, Form]] = []
    for field in msgspec.structs.fields(kind):
        default = field.default
        if field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        if field.name == "as_none":
            rows.append((field.name, default, _none_variant))
            continue
        place = kind, field.name
        if place in GRAMMARS:
            form = _TEXTS[GRAMMARS[place]]
        elif place in _TREES:
            form = tagged
        else:
            is_float = any(field.type in (each, each | None) for each in _FLOATS)
            form = _float if is_float else _value
        rows.append((field.name, default, form))
    return rows
