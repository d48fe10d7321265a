"""The expression grammar: two spellings of one tree, nothing evaluated, everything else refused by name."""

from __future__ import annotations

import keyword
import time

import pytest
from hypothesis import given, settings, strategies as st

from graphwire.errors import ExpressionError
from graphwire.hooks import format_infix, parse_expression
from graphwire.schema.texts.infix import parse_infix
from graphwire.schema.texts.operations import (
    ASSUMPTIONS,
    CONSTANTS,
    OPERATIONS,
    Expression,
    call,
    float_number,
    format_expression,
    integer,
    rational,
    symbol,
    symbols_of,
)

identifiers = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True).filter(
    lambda name: not (keyword.iskeyword(name) or name.startswith("__") or name in CONSTANTS)
)
assumptions = st.lists(
    st.tuples(st.sampled_from(sorted(ASSUMPTIONS)), st.booleans()), max_size=3, unique_by=lambda p: p[0]
)
numbers = (
    st.integers().map(integer)
    | st.builds(rational, st.integers(), st.integers(min_value=1))
    | st.floats(allow_nan=False, allow_infinity=False).map(lambda value: float_number(repr(value)))
    | st.builds(float_number, st.sampled_from(["1.5", "-3", "2.0e-30"]), st.integers(1, 200))
    | st.sampled_from(sorted(CONSTANTS)).map(lambda name: Expression(name, ()))
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


S0 = "Symbol('s0', positive=True, integer=True)"


@pytest.mark.parametrize(
    "text",
    [
        f"Add(Mul(Integer(2), {S0}), Integer(-1))",
        f"FloorDiv(Add({S0}, Integer(-1)), Integer(2))",
        "Float('0.10000000000000001', precision=53)",
        f"Pow({S0}, Rational(-1, 2))",
        f"Piecewise(ExprCondPair({S0}, StrictLessThan(Symbol('u0', integer=True), Integer(3))), ExprCondPair(int_oo, true))",
        "IsNonOverlappingAndDenseIndicator()",
        "-int_oo",
    ],
)
def test_constructor_text_survives_byte_for_byte(text):
    assert format_expression(parse_expression(text)) == text


@pytest.mark.parametrize(
    ("infix", "constructor"),
    [
        ("2*s0 - 1", "Add(Mul(Integer(2), Symbol('s0')), Integer(-1))"),
        ("s77*s31", "Mul(Symbol('s77'), Symbol('s31'))"),
        ("2*s0**2", "Mul(Integer(2), Pow(Symbol('s0'), Integer(2)))"),
        ("((2*s0 + 1)//2)", "FloorDiv(Add(Mul(Integer(2), Symbol('s0')), Integer(1)), Integer(2))"),
        ("Eq(u0, 1)", "Equality(Symbol('u0'), Integer(1))"),
        ("u0 <= 10", "LessThan(Symbol('u0'), Integer(10))"),
        ("-u0 <= -2", "LessThan(Mul(Integer(-1), Symbol('u0')), Integer(-2))"),
        ("-2*s0", "Mul(Integer(-1), Integer(2), Symbol('s0'))"),
        ("3*s0/2", "Mul(Rational(3, 2), Symbol('s0'))"),
        ("s0/(2*s1)", "Mul(Rational(1, 2), Symbol('s0'), Pow(Symbol('s1'), Integer(-1)))"),
        ("1/s0**2", "Pow(Symbol('s0'), Integer(-2))"),
        ("CeilToInt(IntTrueDiv(2*s0, 1))", "CeilToInt(IntTrueDiv(Mul(Integer(2), Symbol('s0')), Integer(1)))"),
        ("~((u0 > 4) & b)", "Not(And(StrictGreaterThan(Symbol('u0'), Integer(4)), Symbol('b')))"),
        ("Eq(u0, 1) | Ne(s0, 4)", "Or(Equality(Symbol('u0'), Integer(1)), Unequality(Symbol('s0'), Integer(4)))"),
        ("Piecewise((a, c), (1, True))", "Piecewise(ExprCondPair(Symbol('a'), Symbol('c')), ExprCondPair(Integer(1), true))"),
        ("sqrt(s0)", "Pow(Symbol('s0'), Rational(1, 2))"),
        ("-2**2", "Mul(Integer(-1), Pow(Integer(2), Integer(2)))"),
        ("a//b//c", "FloorDiv(FloorDiv(Symbol('a'), Symbol('b')), Symbol('c'))"),
    ],
)  # fmt: skip
def test_infix_text_means_the_tree_that_sympy_would_print(infix, constructor):
    assert format_expression(parse_infix(infix)) == constructor


@pytest.mark.parametrize(
    "text",
    [
        "2*s0 - 1",
        "(((s0 - 1)//2)) + 1",
        "s0*(PowByNatural(2, u0))",
        "3*((s0//2))**2",
        "1 + 1/s0",
        "-s0*s1",
        "((s0//2)) > 3",
        "Eq(u0, 1) & (s0 > 4)",
        "Max(1, s0)",
    ],
)
def test_infix_text_is_spelled_as_sympy_spells_it(text):
    assert format_infix(parse_infix(text)) == text


def test_a_tower_of_powers_is_parsed_and_never_computed():
    assert format_expression(parse_infix("9**9**9**9")).startswith("Pow(Integer(9), Pow(Integer(9), Pow(")


def test_symbols_are_listed_once_in_the_order_of_their_first_use():
    assert symbols_of(parse_infix("Max(b, a)*b + Mod(c, a)")) == ("b", "a", "c")


HOSTILE = [
    "__import__('os').system('x')", "().__class__", "s0.__class__", "s0.x", "lambda: 1", "[s0]", "{1}", "[x for x in y]",
    "f'{s0}'", "*s0", "s0 := 1", "s0; s1", "s0\x00", "print(1)", "eval('1')", "Add(s0, evaluate=False)", "a if b else c",
    "Symbol('s0').name", "'s0'", "b'x'", "1_000", "0x10", "1j", "s0[0]", "not a", "a and b", "a is b", "", " ", "(", ")",
    "s0 s1", "s0 +", "Max(", "Max(1,,2)", "Max(,1)", "a < b < c", "a % b", "\uff530", "\u0455\u0030", "s\u0660", "\u0661",
    "Piecewise(1, 2)", "FloorDiv(1)", "Mod(1, 2, 3)", "Float(1)", "Float('x', precision=53)", "Float('1', precision=0)",
    "Rational(1, 0)", "Add()", "class", "None", "__s0", "Symbol('__class__')", "ExprCondPair(Max(ExprCondPair(1, 2)), 1)",
    "Float(", "Float('1', precision=",
]  # fmt: skip


@pytest.mark.parametrize("read", [parse_infix, parse_expression])
@pytest.mark.parametrize("text", HOSTILE)
def test_text_outside_of_the_grammar_is_refused(read, text):
    with pytest.raises(ExpressionError):
        read(text)


@pytest.mark.parametrize(
    "text",
    [
        "Symbol('s0', integer=1)", "Symbol('s0', integer=True, integer=True)", "Symbol('s0', wild=True)", "Symbol(s0)",
        "Symbol('s 0')", "Symbol('class')", "Symbol('oo')", "Symbol(\"s0\")", "Symbol('s\\x30')", "Integer(1.5)",
        "Integer('1')", "Integer(1", "Integer(1))", "Integer(1) Integer(2)", "Integer(1), Integer(2)", "Max(Integer(1),)",
        "Add(Integer(1) Integer(2))", "Lambda(Integer(1))", "S.One", "s0", "-s0", "Piecewise(Integer(1))",
        "Add(ExprCondPair(Integer(1), true))", "Float('0x1', precision=53)", "Rational(Integer(1), 2)",
    ],
)  # fmt: skip
def test_constructor_text_that_torch_would_not_write_is_refused(text):
    with pytest.raises(ExpressionError):
        parse_expression(text)


DEEP = 100_000


@pytest.mark.parametrize(
    "text",
    ["(" * DEEP + "1" + ")" * DEEP, "-" * DEEP + "1", "~" * DEEP + "a", "2**" * DEEP + "2", "1//" * DEEP + "1",
     "Abs(" * DEEP + "1" + ")" * DEEP, "a/(" * DEEP, "1" * DEEP, "1.5" + "0" * DEEP, "a - (" * DEEP],
)  # fmt: skip
def test_infix_text_beyond_the_limits_is_refused_quickly(text):
    started = time.process_time()
    with pytest.raises(ExpressionError):
        parse_infix(text)
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    "text",
    ["Not(" * DEEP + "true" + ")" * DEEP, f"Integer({'9' * 5000})", f"Float('{'9' * 5000}', precision=53)",
     "Max(" * DEEP, " " * 2_000_000],
)  # fmt: skip
def test_constructor_text_beyond_the_limits_is_refused_quickly(text):
    with pytest.raises(ExpressionError):
        parse_expression(text)


def test_a_wide_sum_is_no_deep_one():
    wide = " + ".join(f"s{index}" for index in range(10_000))
    assert len(parse_infix(wide).args) == 10_000
    assert format_infix(parse_infix(wide)) == wide


def test_operations_nest_as_deeply_as_the_limit():
    parse_expression("Not(" * 200 + "true" + ")" * 200)
    with pytest.raises(ExpressionError, match="deeper than 200"):
        parse_expression("Not(" * 201 + "true" + ")" * 201)


def test_the_error_shows_the_offending_piece_and_where_it_stands():
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
