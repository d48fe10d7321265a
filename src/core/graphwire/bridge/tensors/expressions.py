"""Converts symbolic expressions between sympy and text: the only module that uses sympy's classes.

Expressions are built without evaluation, with operands in sympy's own order. So a loaded expression equals the saved one,
and no text can make sympy compute: evaluation would simplify the expression, and a large power would never end.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from functools import partial
from typing import Any

import sympy
from sympy.core.basic import Basic, _args_sortkey
from sympy.core.function import Application
from sympy.core.sorting import ordered
from sympy.functions.elementary.piecewise import ExprCondPair
from sympy.logic.boolalg import Boolean
from sympy.printing.repr import srepr

from graphwire.bridge.torch_compat.private import shape_function
from graphwire.bridge.torch_compat.symbolic import FloorDiv, Where, int_oo
from graphwire.errors import DecodeError, EncodeError, ExpressionError
from graphwire.schema.texts.infix import growth_of
from graphwire.schema.texts.operations import OPERATIONS, Expression, parse_expression

Leaf = Callable[[Sequence[Any], MutableMapping[str, Any]], Any]


# ------------------------------------------------------------------------------------------------------ to text


def encode_expression(expression: Any) -> str:
    """Return the constructor text of a sympy expression: exactly what `sympy.srepr` prints.

    Args:
        expression: a `sympy.Basic`, as in `SymInt.node.expr`.

    Raises:
        EncodeError: it contains a function or constant outside the expression grammar, which the message names.
    """
    kind = type(expression)
    writer = _WRITERS.get(kind)
    if writer is not None:
        return writer(expression)
    head = _HEAD_OF.get(kind)
    if head is None:
        raise EncodeError(
            f"{kind.__module__}.{kind.__qualname__} is not an operation of the expression grammar",
            remedy="The operations are listed in graphwire.schema.texts.operations",
        )
    return f"{head}({', '.join([encode_expression(operand) for operand in expression.args])})"


def _encoded_symbol(symbol: Any) -> str:
    assumptions = symbol._assumptions_orig
    return f"Symbol({symbol.name!r}{''.join([f', {key}={value}' for key, value in assumptions.items()])})"


_MAX_ORDERED = 1 << 16
"""The largest product of terms and factors of a sum whose terms are written in sympy's print order: ordering builds a row of
all factors for each term. A longer sum keeps sympy's internal order; 256 symbols stay below the bound."""


def _encoded_sum(expression: Any) -> str:
    args = expression.args
    # sympy takes 40 µs to order a sum; most sums in shapes are a symbol plus a number.
    plain = len(args) == 2 and args[0].is_Integer and type(args[1]) is sympy.Symbol
    if plain:
        terms = args[::-1]
    elif len(args) * sum([len(term.args) or 1 for term in args]) > _MAX_ORDERED:
        terms = args
    else:
        terms = expression.as_ordered_terms()
    return f"Add({', '.join([encode_expression(term) for term in terms])})"


def _encoded_product(expression: Any) -> str:
    args = expression.args
    plain = len(args) == 2 and args[0].is_Integer and args[0].p >= -1 and args[1].is_Symbol
    factors = args if plain else expression.as_ordered_factors()
    return f"Mul({', '.join([encode_expression(factor) for factor in factors])})"


# ---------------------------------------------------------------------------------------------------- from text


def decode_expression(expression: Expression | str, symbols: MutableMapping[str, Any]) -> Any:
    """Build the sympy expression of a tree, or of constructor text.

    Args:
        expression: a tree from `parse_expression` or `parse_infix`, or constructor text.
        symbols: the symbols known so far, by name; new ones are added. A symbol without assumptions in the tree is the known
            one of its name.

    Raises:
        ExpressionError: the text violates the grammar, the value could exceed the bounds of `schema.texts.infix`, a symbol
            contradicts the known one of its name, or the operands do not match the operation.
        DecodeError: the installed torch does not have the operation.
    """
    tree = parse_expression(expression) if isinstance(expression, str) else expression
    growth_of(tree)
    return build_expression(tree, symbols)


def build_expression(tree: Expression, symbols: MutableMapping[str, Any]) -> Any:
    """Build the sympy expression of a tree whose growth is already checked; otherwise like `decode_expression`."""
    head, args = tree
    leaf = _LEAVES.get(head)
    if leaf is not None:
        return leaf(args, symbols)
    operands = [build_expression(operand, symbols) for operand in tree.operands]
    if head not in _BUILDERS:
        raise DecodeError(
            f"this torch has no operation {head}", remedy=f"Install torch {OPERATIONS[head].since} or newer"
        )
    kind = _OPERAND_KIND.get(head, sympy.Expr)
    for operand in operands:
        if not isinstance(operand, kind):
            raise ExpressionError(
                f"{head} has the operand {operand!s:.80}, which is not of type {kind.__name__}"
            )
    try:
        return _BUILDERS[head](*operands)
    except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise ExpressionError(f"the operands of {head} do not fit it: {error}") from error


def _decoded_symbol(args: Sequence[Any], symbols: MutableMapping[str, Any]) -> Any:
    name, *assumptions = args
    known = symbols.get(name)
    if known is None:
        try:
            known = symbols[name] = sympy.Symbol(name, **dict(assumptions))
        except ValueError as error:  # sympy's InconsistentAssumptions is one
            raise ExpressionError(f"symbol {name!r} contradicts itself: {dict(assumptions)}") from error
    elif assumptions and tuple(assumptions) != tuple(known._assumptions_orig.items()):
        for key, value in assumptions:
            if known._assumptions.get(key, value) not in (value, None):
                raise ExpressionError(
                    f"symbol {name!r} has {key}={value} here, and is elsewhere {srepr(known)}",
                    remedy="Every expression of a program must assume the same of a symbol",
                )
    return known


def _sum(*terms: Any) -> Any:
    return sympy.Add._from_args(_in_order(terms)) if len(terms) > 1 else terms[0]


def _product(*factors: Any) -> Any:
    """Build a product in sympy's form: one coefficient, then the other factors in order.

    sympy prints the sign of a coefficient as a separate factor: -2*s0 as Mul(-1, 2, s0).
    """
    if len(factors) > 1 and factors[0] is sympy.S.NegativeOne and factors[1].is_Number:
        factors = (-factors[1], *factors[2:])
    return sympy.Mul._from_args(_in_order(factors)) if len(factors) > 1 else factors[0]


def _in_order(operands: Sequence[Any]) -> list[Any]:
    numbers = [operand for operand in operands if operand.is_Number]
    return numbers + sorted((operand for operand in operands if not operand.is_Number), key=_args_sortkey)


def _connective(kind: Any, *operands: Any) -> Any:
    # The constructors of And and Or simplify even with evaluate=False.
    made = Application.__new__(kind, *ordered(operands), evaluate=False)
    made._argset = frozenset(operands)
    return made


def _pair(value: Any, condition: Any) -> Any:
    if not isinstance(condition, Boolean):
        raise TypeError(f"{condition} is not a condition")
    return Basic.__new__(ExprCondPair, value, condition)


def _where(condition: Any, value: Any, otherwise: Any) -> Any:
    if not isinstance(condition, Boolean):
        raise TypeError(f"{condition} is not a condition")
    return Where(condition, value, otherwise, evaluate=False)


def _ceiling_quotient(base: Any, divisor: Any) -> Any:
    return FloorDiv(_sum(base, divisor, sympy.S.NegativeOne), divisor, evaluate=False)


# -------------------------------------------------------------------------------------------------------- tables


def _always(result: Any) -> Callable[..., Any]:
    return lambda *_: result


_CONSTANT_OF: dict[str, Any] = {
    "true": sympy.true,
    "false": sympy.false,
    "oo": sympy.oo,
    "-oo": -sympy.oo,
    "int_oo": int_oo,
    "-int_oo": -int_oo,
    "zoo": sympy.zoo,
    "nan": sympy.nan,
}

_CLASS_OF: dict[str, Any] = {
    **{head: kind for head in OPERATIONS if (kind := shape_function(head)) is not None},
    "ExprCondPair": ExprCondPair,
}

_BUILDERS: dict[str, Callable[..., Any]] = {
    **{head: partial(kind, evaluate=False) for head, kind in _CLASS_OF.items()},
    **{head: partial(_connective, _CLASS_OF[head]) for head in ("And", "Or", "Xor")},
    "Add": _sum,
    "Mul": _product,
    "CeilDiv": _ceiling_quotient,
    "ExprCondPair": _pair,
    "Piecewise": partial(Basic.__new__, sympy.Piecewise),
    "Where": _where,
}

_LEAVES: dict[str, Leaf] = {
    "Symbol": _decoded_symbol,
    "Integer": lambda args, _: sympy.Integer(args[0]),
    "Rational": lambda args, _: sympy.Rational(*args),
    "Float": lambda args, _: sympy.Float(args[0], precision=args[1]),
    **{text: _always(constant) for text, constant in _CONSTANT_OF.items()},
}

_OPERAND_KIND: dict[str, Any] = {
    **{head: Boolean for head in ("And", "Or", "Xor", "Not", "ITE")},
    **{head: Basic for head in ("Equality", "Unequality", "ExprCondPair", "Piecewise", "Where")},
    **{head: Basic for head in OPERATIONS if head.startswith("BitwiseFn")},
}

_HEAD_OF: dict[type, str] = {kind: head for head, kind in _CLASS_OF.items() if isinstance(kind, type)} | {
    sympy.Max: "Max",
    sympy.Min: "Min",
    sympy.Mod: "Mod",
}

_SINGLETONS = (sympy.S.Zero, sympy.S.One, sympy.S.NegativeOne)

_WRITERS: dict[type, Callable[[Any], str]] = {
    sympy.Symbol: _encoded_symbol,
    **dict.fromkeys((sympy.Integer, *map(type, _SINGLETONS)), lambda number: f"Integer({number.p})"),
    **dict.fromkeys((sympy.Rational, type(sympy.S.Half)), lambda number: f"Rational({number.p}, {number.q})"),
    sympy.Float: srepr,
    sympy.Add: _encoded_sum,
    sympy.Mul: _encoded_product,
    **{type(constant): _always(text) for text, constant in _CONSTANT_OF.items()},
}
