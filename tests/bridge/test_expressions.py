"""Expressions of sympy and torch: written as torch writes them, and built again as they were."""

from __future__ import annotations

import warnings

import pytest
import sympy
import torch
import torch.utils._sympy.functions as shape_functions
from hypothesis import HealthCheck, assume, given, settings, strategies as st
from inside.bridge import decode_expression, encode_expression
from inside.schema import OPERATIONS, parse_infix
from nightly import by_day
from sympy.printing.repr import srepr
from torch.export import Dim, export
from torch.utils._sympy.numbers import int_oo

from graphwire.errors import EncodeError, ExpressionError
from graphwire.hooks import format_infix, parse_expression

S0, S1 = sympy.symbols("s0 s1", positive=True, integer=True)
U0 = sympy.Symbol("u0", integer=True)
F0 = sympy.Symbol("zf0", real=True)
SYMBOLS = {symbol.name: symbol for symbol in (S0, S1, U0, F0)}


def operation(function, *operands):
    """Return the expression, or its first operand where torch refuses the operands, makes no shape of them, or cannot write
    what it makes: sympy recurses without end where it orders `Min(1, Identity(0.5))` in a sum."""
    try:
        made = function(*operands)
        srepr(made)
    except Exception:  # sympy raises of every kind on operands that no shape has
        return operands[0]
    strange = made.has(sympy.zoo, sympy.nan, sympy.oo, -sympy.oo) or made.atoms(sympy.NumberSymbol, sympy.I)
    immense = any(abs(power.exp) > 64 for power in made.atoms(sympy.Pow) if power.exp.is_Integer)
    return operands[0] if strange or immense or made.is_Boolean else made


def small(value):
    """A power or shift as shapes have them: a symbol, or a small number."""
    if value.is_Symbol and value.is_integer:
        return value
    return sympy.Integer(int(value) % 3) if value.is_Integer else sympy.Integer(2)


def chosen(a, b):
    """A choice, but no choice between choices: sympy takes minutes to simplify some of these."""
    return a if (a + b).has(sympy.Piecewise) else sympy.Piecewise((a, a < b), (b, True))


BINARY = [
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    shape_functions.FloorDiv,
    shape_functions.PythonMod,
    shape_functions.Mod,
    shape_functions.CeilDiv,
    shape_functions.CleanDiv,
    shape_functions.IntTrueDiv,
    shape_functions.FloatTrueDiv,
    shape_functions.Max,
    shape_functions.Min,
    lambda a, b: shape_functions.PowByNatural(a, small(b)),
    lambda a, b: shape_functions.LShift(a, small(b)),
    lambda a, b: shape_functions.RShift(a, small(b)),
    shape_functions.BitwiseFn_bitwise_and,
    shape_functions.BitwiseFn_bitwise_or,
    lambda a, b: shape_functions.ModularIndexing(a, 2, b),
    lambda a, b: shape_functions.Where(sympy.Ne(a, b), a, b),
    lambda a, b: chosen(a, b),
]
UNARY = [
    lambda a: a**2,
    lambda a: -a,
    lambda a: a * 3 - 1,
    sympy.Abs,
    shape_functions.ToFloat,
    shape_functions.CeilToInt,
    shape_functions.FloorToInt,
    shape_functions.TruncToInt,
    shape_functions.TruncToFloat,
    shape_functions.RoundToInt,
    shape_functions.Identity,
    lambda a: shape_functions.RoundDecimal(a, sympy.Integer(2)),
    shape_functions.OpaqueUnaryFn_sqrt,
    shape_functions.OpaqueUnaryFn_log2,
]
RELATIONS = [sympy.Eq, sympy.Ne, sympy.Le, sympy.Lt, sympy.Ge, sympy.Gt]

atoms = st.sampled_from([S0, S1, U0, F0]) | st.integers(-5, 100).map(sympy.Integer)
atoms |= st.sampled_from([0.5, 0.1, -2.5, 1e-30]).map(sympy.Float)
values = st.recursive(
    atoms,
    lambda inner: (
        st.tuples(st.sampled_from(BINARY), inner, inner).map(lambda made: operation(*made))
        | st.tuples(st.sampled_from(UNARY), inner).map(lambda made: operation(*made))
    ),
    max_leaves=8,
)


@settings(max_examples=by_day(60, by_night=1000), deadline=None)
@given(values)
def test_an_expression_is_written_as_torch_writes_it_and_comes_back_equal(expression):
    text = encode_expression(expression)
    assert text == srepr(expression)
    again = decode_expression(text, dict(SYMBOLS))
    assert again == expression
    assert hash(again) == hash(expression)
    assert srepr(again) == text
    infix = format_infix(parse_expression(text))
    assert decode_expression(parse_infix(infix), dict(SYMBOLS)) == expression


@settings(
    max_examples=by_day(60, by_night=1000), deadline=None, suppress_health_check=[HealthCheck.filter_too_much]
)
@given(values, values, st.sampled_from(RELATIONS), st.sampled_from([sympy.And, sympy.Or]))
def test_a_condition_comes_back_equal(left, right, relation, connective):
    try:
        condition = connective(relation(left, right), S0 > 3, sympy.Not(sympy.Eq(U0, 1)))
    except Exception:
        assume(False)
    text = encode_expression(condition)
    assert text == srepr(condition)
    assert decode_expression(text, {}) == condition


@pytest.mark.parametrize(
    "expression",
    [
        2 * S0 - 1, -2 * S0, S0 * S1 - S0, 3 - S0, (S0 + S1) ** 2, shape_functions.FloorDiv(2 * S0 + 1, 2),
        S0 / (2 * S1), S1 / S0**2, shape_functions.FloorDiv(S0 - 1, 2) + 1, shape_functions.Max(1, S0),
    ],
)  # fmt: skip
def test_the_infix_text_of_older_releases_means_the_same_expression(expression):
    assert decode_expression(parse_infix(str(expression)), dict(SYMBOLS)) == expression


@pytest.mark.parametrize(
    "constant",
    [int_oo, -int_oo, sympy.oo, -sympy.oo, sympy.zoo, sympy.nan, sympy.true, sympy.false, sympy.S.Half,
     sympy.Rational(-3, 2), sympy.Integer(0), sympy.Integer(-1), sympy.Float(0), sympy.Float("1e30")],
)  # fmt: skip
def test_a_constant_survives(constant):
    assert encode_expression(constant) == srepr(constant)
    assert decode_expression(srepr(constant), {}) == constant


class Shapes(torch.nn.Module):
    def forward(self, x, y):
        z = torch.cat([x, y]).reshape(-1)
        pooled = torch.nn.functional.avg_pool1d(z[None], 3, stride=2)
        chosen = y[y > 0]
        return (
            z[1:],
            pooled,
            torch.cat([chosen, chosen]),
            x.unfold(0, 2, 2),
            z.new_zeros(x.shape[0] * y.shape[0]),
        )


def test_every_size_of_an_exported_program_is_written_as_torch_writes_it_and_comes_back():
    dims = {0: Dim.DYNAMIC}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = export(
            Shapes(), (torch.ones(8, 3), torch.ones(5, 3)), dynamic_shapes={"x": dims, "y": dims}
        )
    tensors = [v for n in exported.graph.nodes for v in [n.meta.get("val")] if isinstance(v, torch.Tensor)]
    sizes = [size for v in tensors for size in (*v.shape, *v.stride()) if isinstance(size, torch.SymInt)]
    expressions = {size.node.expr for size in sizes}
    assert any(expression.has(shape_functions.FloorDiv) for expression in expressions)
    for expression in expressions:
        assert encode_expression(expression) == srepr(expression)
        assert decode_expression(srepr(expression), {}) == expression
        known = {symbol.name: symbol for symbol in expression.free_symbols}
        assert decode_expression(parse_infix(str(expression)), known) == expression


def test_every_operation_of_the_grammar_can_be_built():
    # One operation after another over symbols; conditions where conditions are wanted.
    for head, (_, least, *_) in OPERATIONS.items():
        operands = ["Symbol('s0', positive=True, integer=True)"] * least
        if head == "Piecewise":
            operands = ["ExprCondPair(Integer(1), Symbol('s0'))"]
        text = f"{head}({', '.join(operands)})"
        if head != "ExprCondPair":
            assert decode_expression(text, {}) is not None


def test_new_symbols_are_added_to_the_table_and_known_ones_are_shared():
    table = {"s0": S0}
    made = decode_expression("Add(Symbol('s0'), Symbol('u0', integer=True))", table)
    assert made == S0 + U0
    assert table == {"s0": S0, "u0": U0}


def test_a_symbol_that_contradicts_the_known_one_is_refused():
    with pytest.raises(ExpressionError, match="integer=False"):
        decode_expression("Symbol('s0', integer=False)", {"s0": S0})
    with pytest.raises(ExpressionError, match="contradicts itself"):
        decode_expression("Symbol('s0', positive=True, negative=True)", {})


def test_a_function_that_the_grammar_does_not_know_is_named():
    with pytest.raises(EncodeError, match="gamma"):
        encode_expression(S0 + sympy.gamma(S0))


@pytest.mark.parametrize(
    "text", ["And(Integer(1), true)", "Add(true, Integer(1))", "LessThan(true, Integer(1))", "Not(Integer(1))",
             "Where(Integer(1), Integer(1), Integer(2))", "Piecewise(ExprCondPair(Integer(1), Integer(2)))"],
)  # fmt: skip
def test_operands_that_do_not_fit_their_operation_are_refused(text):
    with pytest.raises(ExpressionError):
        decode_expression(text, {})


def test_an_expression_of_the_greatest_depth_is_built_and_written():
    text = "Abs(" * 200 + "Symbol('u0', integer=True)" + ")" * 200
    assert encode_expression(decode_expression(text, {})) == text
