"""Converts symbolic integers, floats and booleans to and from records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from graphwire import schema
from graphwire.bridge.context import DecodeContext, EncodeContext, SymbolicInteger
from graphwire.bridge.torch_compat.private import (
    backed_values,
    expression_size,
    hint_symbolic_value,
    symbolic_identity,
    symbolic_node,
    symbolic_parts,
)
from graphwire.errors import DecodeError, ExpressionError, shown
from graphwire.schema.texts.infix import MAX_REASONED, MAX_REASONED_IN_ALL, growth_of, parse_infix
from graphwire.schema.texts.operations import Expression, evaluate, parse_expression, symbols_of

if TYPE_CHECKING:
    import sympy

_KNOWN = {number: schema.SymInt(as_int=number) for number in range(-1, 4097)}


def encode_int(context: EncodeContext, value: int | torch.SymInt) -> schema.SymInt:
    """Encode an integer, plain or symbolic. Equal values share one record."""
    if isinstance(value, int):
        return _KNOWN.get(value) or schema.SymInt(as_int=int(value))
    return symbolic_integer(context, value).record


def encode_size(context: EncodeContext, value: int | torch.SymInt) -> schema.SymInt:
    """Encode a size, stride or offset of a tensor. A symbolic one whose expression is a number becomes that number: no tensor
    can have another value there."""
    if isinstance(value, torch.SymInt):
        expression, _ = symbolic_parts(value)
        if expression.is_Integer:
            return encode_int(context, int(expression))
    return encode_int(context, value)


def symbolic_integer(context: EncodeContext, value: torch.SymInt) -> SymbolicInteger:
    """Return the record of a symbolic integer, with a key that equal integers share. Nodes with the same parts are processed
    once."""
    node = symbolic_node(value)
    identity = symbolic_identity(node)
    known = context.integers.get(identity)
    if known is None:
        expression, hint = symbolic_parts(value)
        hinted = None if hint is None else schema.SymExprHint(as_int=int(hint))
        text = _text(context, expression)
        record = schema.SymInt(as_expr=schema.SymExpr(text, hinted))
        known = context.integers[identity] = SymbolicInteger(node, f"{text} = {hint}", record)
    return known


def encode_number(context: EncodeContext, value: Any) -> schema.SymInt | schema.SymFloat | schema.SymBool:
    """Encode an integer, float or boolean, plain or symbolic. torch writes no hint for a boolean."""
    if isinstance(value, bool):
        return schema.SymBool(as_bool=value)
    if isinstance(value, float):
        return schema.SymFloat(as_float=schema.encode_float(value))
    if isinstance(value, (int, torch.SymInt)):
        return encode_int(context, value)
    expression, hint = symbolic_parts(value)
    text = _text(context, expression)
    if isinstance(value, torch.SymBool):
        return schema.SymBool(as_expr=schema.SymExpr(text))
    known = None if hint is None else schema.SymExprHint(as_float=schema.encode_float(float(hint)))
    return schema.SymFloat(as_expr=schema.SymExpr(text, known))


def _text(context: EncodeContext, expression: sympy.Basic) -> str:
    text = context.expressions.get(expression)
    if text is None:
        from graphwire.bridge.tensors.expressions import encode_expression

        text = context.expressions[expression] = encode_expression(expression)
    return text


def decode_number(context: DecodeContext, record: schema.SymInt | schema.SymFloat | schema.SymBool) -> Any:
    """Decode an integer, float or boolean into the program's shape environment."""
    kind, variant = _NUMBERS[type(record)]
    if record.as_expr is None:
        literal = getattr(record, variant)
        return schema.decode_float(literal) if kind is float else literal
    text = record.as_expr.expr_str
    hint = None if kind is bool else getattr(record.as_expr.hint, variant, None)
    if kind is float and hint is not None:
        hint = schema.decode_float(hint)
    value = context.values.get((text, hint, kind))
    if value is None:
        import sympy

        from graphwire.bridge.torch_compat.symbolic import declare_symbol, symbolic_value

        expression = _expression(context, text)
        if kind is not bool and not isinstance(expression, sympy.Expr):
            raise DecodeError(f"{text!r:.80} is a boolean, where a number is expected")
        if hint is not None and isinstance(expression, sympy.Symbol):
            declare_symbol(context.shape_env, expression, None, hint)
        value = symbolic_value(context.shape_env, expression, kind, hint)
        context.values[text, hint, kind] = value
    return value


_NUMBERS: dict[type, tuple[type, str]] = {
    schema.SymInt: (int, "as_int"),
    schema.SymFloat: (float, "as_float"),
    schema.SymBool: (bool, "as_bool"),
}
"""The Python type of each record of numbers, and the variant of its literals and hints."""


def is_cheap_to_compute(context: DecodeContext, values: Iterable[Any]) -> bool:
    """Return whether torch's shape environment may compute with `values` now: their expressions are small, few came before,
    and no symbol of the program occurs in an exponent, where a large number could replace it."""
    sizes = [expression_size(value, MAX_REASONED) for value in values if type(value) is not int]
    context.reasoned += sum(sizes)
    small = max(sizes, default=0) <= MAX_REASONED and context.reasoned <= MAX_REASONED_IN_ALL
    return small and not context.exponents


def _expression(context: DecodeContext, text: str) -> sympy.Basic:
    """Return the expression of a text; parse it, and declare its symbols, at the first call."""
    expression = context.expressions.get(text)
    if expression is None:
        from graphwire.bridge.tensors.expressions import build_expression

        known = len(context.symbols)
        tree = parse_expression(text)
        exponents = growth_of(tree).exponents
        expression = build_expression(tree, context.symbols)
        replaced = context.shape_env.replacements
        if exponents and any(context.symbols[name] in replaced for name in exponents):
            raise ExpressionError(
                f"{text!r:.80} has a symbol in an exponent that another expression replaces"
            )
        context.exponents.update(exponents)
        context.expressions[text] = expression
        for name in list(context.symbols)[known:]:
            _declare(context, name)
    return expression


def _declare(context: DecodeContext, name: str) -> None:
    from graphwire.bridge.torch_compat.symbolic import declare_symbol, is_unbacked

    symbol = context.symbols[name]
    ranges = context.ranges.get(name) or _widest_range(symbol)
    declare_symbol(context.shape_env, symbol, ranges, None)
    if is_unbacked(symbol):
        context.pending.add(symbol)


def _widest_range(symbol: sympy.Symbol) -> Any:
    """Return the range of a symbol without a range in the document: torch expects one for every symbol."""
    import sympy

    from graphwire.bridge.torch_compat.symbolic import ValueRanges, int_oo

    infinity = int_oo if symbol.is_integer else sympy.oo
    lower = sympy.Integer(1) if symbol.is_integer and symbol.is_positive else -infinity
    return ValueRanges(lower, infinity)


def _check_ranges(constraints: Any) -> None:
    """Raise a TypeError unless ranges map expressions to ranges. Hashing other objects may fail, or never end."""
    for expression, ranges in constraints.items():
        import sympy

        from graphwire.bridge.torch_compat.symbolic import ValueRanges

        bounds = (ranges.lower, ranges.upper) if isinstance(ranges, ValueRanges) else (None,)
        if not all(isinstance(each, (sympy.Basic, int)) for each in (expression, *bounds)):
            raise TypeError(f"{shown(expression)} has {shown(ranges)} for its range")


def encode_ranges(constraints: Mapping[sympy.Basic, Any]) -> dict[str, schema.RangeConstraint]:
    """Encode the ranges of a program's symbols and expressions, by infix text. A bound that is not an integer (a range over the
    reals) is rounded to the integers inside the range."""
    _check_ranges(constraints)
    return {
        str(expression): schema.RangeConstraint(_bound(ranges.lower, up=True), _bound(ranges.upper, up=False))
        for expression, ranges in constraints.items()
    }


def _bound(bound: Any, *, up: bool) -> int | None:
    import sympy

    from graphwire.bridge.torch_compat.symbolic import int_oo

    if bound in (int_oo, -int_oo, sympy.oo, -sympy.oo):
        return None
    return int(sympy.ceiling(bound) if up else sympy.floor(bound))


_FLOATS = ("zf", "zuf")
"""The name prefixes of float symbols, whose ranges are of real numbers."""


def decode_ranges(constraints: Mapping[str, schema.RangeConstraint]) -> dict[str, Any]:
    """Decode the ranges of a document, by infix text."""
    ranges = {}
    for text, constraint in constraints.items():
        import sympy

        from graphwire.bridge.torch_compat.symbolic import ValueRanges, int_oo

        infinity = sympy.oo if text.startswith(_FLOATS) else int_oo
        lower = -infinity if constraint.min_val is None else sympy.Integer(constraint.min_val)
        upper = infinity if constraint.max_val is None else sympy.Integer(constraint.max_val)
        if constraint.min_val is not None and constraint.max_val is not None and lower > upper:
            raise DecodeError(
                f"no value lies between {lower} and {upper}", place=f"range_constraints[{text!r}]"
            )
        ranges[text] = ValueRanges(lower, upper)
    return ranges


def encode_replacements(context: EncodeContext, symbols: Iterable[sympy.Basic]) -> dict[str, str]:
    """Return the expressions that tracing found equal to `symbols`, by symbol. Symbols without one are absent."""
    integer = next(iter(context.integers.values()), None)
    if integer is None:
        return {}
    from graphwire.bridge.torch_compat.symbolic import replacements as torch_compat_replacements

    found = torch_compat_replacements(integer.node.shape_env, symbols)
    return {str(symbol): _text(context, expression) for symbol, expression in found.items()}


def decode_replacements(context: DecodeContext, replacements: Mapping[str, str]) -> None:
    """Add the equalities of a document to the shape environment. Its graph and ranges must be decoded before."""
    for name, text in replacements.items():
        from graphwire.bridge.torch_compat.symbolic import replace_symbol

        replace_symbol(context.shape_env, context.symbols[name], _expression(context, text))


def infer_hints(context: DecodeContext) -> None:
    """Infer the hints of symbols that occur only inside linear expressions (a program with only `2*s0` still needs `s0`), then
    the hints of conditions over symbols with hints."""
    if not context.values:
        return
    backed = backed_values(context.shape_env)
    trees: dict[str, Expression] = {}
    for text, hint, kind in context.values:
        if type(hint) is not int or kind is not int:
            continue
        free = context.expressions[text].free_symbols
        if len(free) != 1 or not free.isdisjoint(backed):
            continue
        (symbol,) = free
        tree = trees.get(text) or trees.setdefault(text, parse_expression(text))
        value = _solution(tree, symbol.name, hint)
        if value is not None:
            from graphwire.bridge.torch_compat.symbolic import declare_symbol

            declare_symbol(context.shape_env, symbol, None, value)
    known = {
        symbol.name: int(value) if value.is_Integer else float(value) for symbol, value in backed.items()
    }
    for (text, _, kind), condition in context.values.items():
        if kind is bool and {each.name for each in context.expressions[text].free_symbols} <= known.keys():
            held = evaluate(parse_expression(text), known)
            hint_symbolic_value(condition, None if held is None else bool(held))


def _solution(tree: Expression, name: str, hint: int) -> int | None:
    """Return the integer value of the tree's one symbol at which the tree equals `hint`, if the tree is linear."""
    origin, next_to_it = evaluate(tree, {name: 0}), evaluate(tree, {name: 1})
    if origin is None or next_to_it is None:
        return None
    slope = next_to_it - origin
    if type(slope) is not int or type(origin) is not int or slope == 0 or (hint - origin) % slope:
        return None
    value = (hint - origin) // slope
    return value if evaluate(tree, {name: value}) == hint else None


def _unseen_symbol(name: str) -> sympy.Symbol:
    """Return a symbol with torch's assumptions for its kind."""
    import sympy

    if name.startswith(_FLOATS):
        return sympy.Symbol(name)
    return sympy.Symbol(name, positive=None if name.startswith("u") else True, integer=True)


def ranges_by_expression(context: DecodeContext, ranges: Mapping[str, Any]) -> dict[sympy.Basic, Any]:
    """Return ranges by expression, from ranges by text. The graph must be decoded before. A symbol that is not in the graph
    gets the assumptions of torch's: a positive integer, an unbacked integer, or a float."""
    result = {}
    for text, values in ranges.items():
        expression = parse_infix(text)
        for name in symbols_of(expression):
            if name not in context.symbols:
                context.symbols[name] = _unseen_symbol(name)
                _declare(context, name)
                context.pending.discard(context.symbols[name])
        try:
            from graphwire.bridge.tensors.expressions import decode_expression

            result[decode_expression(expression, context.symbols)] = values
        except ExpressionError as error:
            raise error.within(f"range_constraints[{text[:80]!r}]") from None
    return result
