"""Schema 7.3 (torch 2.5). Expressions are infix text, None is an empty list, and there are no symbolic floats.

The step to 8.2 (torch 2.6) added constructor text for expressions, `true` for None, symbolic floats, ranges without a bound
(here infinity), the names of a module's parameters (`forward_arg_names`), and the element type uint16.

Loaders before 2.6 read no literal float as output.

Up to 2.5 torch writes an input that is a bool as `as_int`, with the bool in it; upward it becomes `as_bool`.

Upward the parameter names stay absent. Downward they are dropped, and so are an expression's assumptions on its symbols.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from graphwire.evolve import expressions, trees
from graphwire.evolve.step import Step
from graphwire.evolve.trees import Record, Where
from graphwire.schema import Version, by_variant, decode_float, encode_float


def up(tree: Record) -> Record:
    """Convert 7.3 to 8.2.

    Raises:
        ExpressionError: an expression does not match the infix grammar.
    """
    of_symbol = trees.expression_edit(cache(expressions.to_constructor))
    tree = trees.rewrite(
        tree,
        trees.Edits(
            argument=lambda argument, where: _none_variant(argument, True),
            input_spec=_constant(_constant_up),
            sym_int=of_symbol,
            sym_bool=of_symbol,
            graph=lambda graph, where: {**graph, "sym_float_values": graph.get("sym_float_values", {})},
        ),
    )
    return expressions.infinity_to_unbounded(tree)


def down(tree: Record, refuse: trees.Refuse) -> Record:
    """Convert 8.2 to 7.3."""
    convert, foreign = cache(expressions.to_infix), cache(expressions.foreign_operations)

    of_text = trees.expression_edit(convert)

    def of_symbol(value: Record, where: Where) -> Record:
        if (expression := value.get("as_expr")) is not None:
            for operation in foreign(expression["expr_str"]):
                refuse(where, f"the operation {operation} in an expression")
        return of_text(value, where)

    tree = trees.rewrite(
        tree,
        trees.Edits(
            argument=lambda argument, where: _none_variant(argument, []),
            input_spec=_constant(lambda value: _none_variant(value, [])),
            sym_int=of_symbol,
            sym_bool=of_symbol,
            # Values of that table without an entry elsewhere were already reported at the node that makes them.
            graph=lambda graph, where: trees.without(graph, "sym_float_values"),
            call=lambda call, where: trees.without(call, "forward_arg_names"),
        ),
    )
    return expressions.unbounded_to_infinity(tree)


def _none_variant(argument: Record, value: Any) -> Record:
    variant = trees.variant_of(argument)
    if variant == "as_none":
        return {"as_none": value}
    if variant == "as_optional_tensors":
        items = [
            {"as_none": value} if trees.variant_of(item) == "as_none" else item for item in argument[variant]
        ]
        return {"as_optional_tensors": items}
    return argument


def _constant(convert: Callable[[Record], Record]) -> trees.SureEdit:
    """Return an edit of specs that converts the literal of a constant input."""
    return trees.variant_edit(
        "constant_input", lambda spec: {"constant_input": {**spec, "value": convert(spec["value"])}}
    )


def _constant_up(value: Record) -> Record:
    is_bool = trees.variant_of(value) == "as_int" and type(value["as_int"]) is bool
    return {"as_bool": value["as_int"]} if is_bool else _none_variant(value, True)


STEP = Step(
    Version(7, 3),
    Version(8, 2),
    up,
    down,
    derived=("what symbols are known to be, from how they are named",),
    absent=("the names of the parameters of modules",),
)


# ---------------------------------------------------------------------------------- converts floats that are not finite
# bare tokens of JSON up to torch 2.6, text (`Infinity`, `-Infinity`, `NaN`) since 2.7.
#
# torch 2.7 and 2.8 read the text NaN, but fail when they write one.


def floats_to_text(tree: Record) -> Record:
    """Convert the floats of a program that are not finite to text."""
    return trees.rewrite(
        tree, _floats(lambda value: value if isinstance(value, str) else encode_float(value))
    )


def floats_from_text(tree: Record) -> Record:
    """Convert all floats of a program to numbers."""
    return trees.rewrite(tree, _floats(decode_float))


def _floats(convert: Callable[[Any], Any]) -> trees.Edits:
    """Return edits that apply `convert` to every float of a document."""

    def of_argument(argument: Record, where: Where) -> Record:
        variant = trees.variant_of(argument)
        found = of_variants.get(variant)
        return argument if found is None else {**argument, variant: found(argument[variant])}

    def of_float(value: Record, where: Where) -> Record:
        return (
            {**value, "as_float": convert(value["as_float"])} if value.get("as_float") is not None else value
        )

    def of_value(value: Record, where: Where) -> Record:
        expression = value.get("as_expr")
        if expression is None:
            return of_float(value, where)
        hint = expression.get("hint")
        if hint is None or hint.get("as_float") is None:
            return value
        return {**value, "as_expr": {**expression, "hint": of_float(hint, where)}}

    def of_spec(spec: Record, where: Where) -> Record:
        constant = spec.get("constant_input")
        if constant is None:
            return spec
        return {**spec, "constant_input": {**constant, "value": of_float(constant["value"], where)}}

    of_variants = by_variant(
        {"as_float": convert, "as_sym_float": lambda value: of_float(value, trees.ROOT)},
        lambda below: lambda items: [below(item) for item in items],
    )
    return trees.Edits(argument=of_argument, sym_float=of_value, input_spec=of_spec)
