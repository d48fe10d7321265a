"""The texts inside records as neutral JSON: expressions, treespecs and guards become trees."""

from __future__ import annotations

import ast
import json
import math
from typing import Any, Final

from graphwire.analysis.neutral.tagged_trees import scalar, tagged
from graphwire.schema.texts import (
    Expression,
    TreeSpec,
    check_guard,
    parse_expression,
    parse_infix,
    parse_treespec,
)

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
    if isinstance(context, str):
        try:
            return {"json": tagged(_STRICT.decode(context))}
        except (ValueError, RecursionError):
            pass
    return {"value": tagged(context)}


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _finite(token: str) -> float:
    value = float(token)
    if not math.isfinite(value):
        raise ValueError(f"{token} is not finite")
    return value


_STRICT: Final = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_constant=_finite)


# --------------------------------------------------------------------------------------------------------------- guards

_SIGNS: dict[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Not: "not",
    ast.USub: "-",
    ast.And: "and",
    ast.Or: "or",
}
"""Every operator of a guard, as Python spells it."""


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
    return {"op": _SIGNS[type(operator)], "args": list(map(_guard, operands))}


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
