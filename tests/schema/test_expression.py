"""The expression grammar: two spellings of one tree, nothing evaluated, everything else refused by name."""

from __future__ import annotations

import keyword

import pytest
from hypothesis import given, settings, strategies as st
from inside.schema import (
    ASSUMPTIONS,
    OPERATIONS,
    Expression,
    call,
    float_number,
    format_expression,
    integer,
    operations,
    parse_infix,
    rational,
    symbol,
    symbols_of,
)

from graphwire.errors import ExpressionError
from graphwire.hooks import format_infix, parse_expression

identifiers = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True).filter(
    lambda name: not (keyword.iskeyword(name) or name.startswith("__") or name in operations.CONSTANTS)
)
assumptions = st.lists(
    st.tuples(st.sampled_from(sorted(ASSUMPTIONS)), st.booleans()), max_size=3, unique_by=lambda p: p[0]
)
numbers = (
    st.integers().map(integer)
    | st.builds(rational, st.integers(), st.integers(min_value=1))
    | st.floats(allow_nan=False, allow_infinity=False).map(lambda value: float_number(repr(value)))
    | st.builds(float_number, st.sampled_from(["1.5", "-3", "2.0e-30"]), st.integers(1, 200))
    | st.sampled_from(sorted(operations.CONSTANTS)).map(lambda name: Expression(name, ()))
)


def trees(symbols):
    """Make a strategy of trees of every operation over `symbols`."""
    names = sorted(set(OPERATIONS) - {"Piecewise", "ExprCondPair"})

    def grow(inner):
        def operation(head):
            least, most = OPERATIONS[head][1:3]
            return st.lists(inner, min_size=least, max_size=least + 3 if most is None else most).map(
                lambda operands: call(head, operands)
            )

        pairs = st.tuples(inner, inner).map(lambda pair: call("ExprCondPair", pair))
        piecewise = st.lists(pairs, min_size=1, max_size=3).map(lambda operands: call("Piecewise", operands))
        arithmetic = st.sampled_from(["Add", "Mul", "Pow", "FloorDiv", "Not", "And", "LessThan"])
        return (st.sampled_from(names) | arithmetic).flatmap(operation) | piecewise

    return st.recursive(numbers | symbols, grow, max_leaves=12)


@given(trees(st.builds(symbol, identifiers, assumptions)))
def test_constructor_text_of_any_tree_parses_back_to_it(tree):
    assert parse_expression(format_expression(tree)) == tree


@settings(max_examples=400)
@given(trees(st.sampled_from(["s0", "s1", "u0"]).map(symbol)))
def test_infix_text_of_any_tree_parses_back_to_it(tree):
    assert parse_infix(format_infix(tree)) == tree


def test_a_tower_of_powers_is_parsed_and_never_computed():
    assert format_expression(parse_infix("9**9**9**9")).startswith("Pow(Integer(9), Pow(Integer(9), Pow(")


def test_symbols_are_listed_once_in_the_order_of_their_first_use():
    assert symbols_of(parse_infix("Max(b, a)*b + Mod(c, a)")) == ("b", "a", "c")


def test_a_wide_sum_is_no_deep_one():
    wide = " + ".join(f"s{index}" for index in range(10_000))
    assert len(parse_infix(wide).args) == 10_000
    assert format_infix(parse_infix(wide)) == wide


def test_operations_nest_as_deeply_as_the_limit():
    parse_expression("Not(" * 200 + "true" + ")" * 200)
    with pytest.raises(ExpressionError, match="deeper than 200"):
        parse_expression("Not(" * 201 + "true" + ")" * 201)


def test_the_error_shows_the_offending_part_and_where_it_stands():
    with pytest.raises(ExpressionError, match=r"'Lambda' is not an operation"):
        parse_expression("Add(Integer(1), Lambda(Integer(1)))")
    with pytest.raises(ExpressionError, match=r"'\.x' at character 2"):
        parse_infix("s0.x")


@given(st.text(max_size=40) | st.text(alphabet="s01 +-*/()<>=~&|^,.'eMax", max_size=40))
def test_any_text_is_either_an_expression_or_an_expression_error(text):
    for read in (parse_infix, parse_expression):
        try:
            tree = read(text)
        except ExpressionError:
            continue
        assert parse_expression(format_expression(tree)) == tree
