"""Hints are found in an arithmetic of our own: on tame numbers it says what sympy and torch say."""

from __future__ import annotations

from fractions import Fraction

import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwire.bridge.expressions import decode_expression
from graphwire.schema.evaluation import evaluate
from graphwire.schema.expression import Expression, call, integer, rational, symbol

S0 = symbol("s0", [("positive", True), ("integer", True)])
S1 = symbol("s1", [("positive", True), ("integer", True)])
WHOLE = [
    "Add",
    "Mul",
    "FloorDiv",
    "Mod",
    "PythonMod",
    "Max",
    "Min",
    "CeilDiv",
    "LShift",
    "RShift",
    "PowByNatural",
]
WHOLE += ["BitwiseFn_bitwise_and", "BitwiseFn_bitwise_or", "BitwiseFn_bitwise_xor"]
whole = st.recursive(
    st.integers(-5, 9).map(integer) | st.sampled_from([S0, S1]),
    lambda inner: (
        st.tuples(st.sampled_from(WHOLE), inner, inner).map(lambda made: call(made[0], made[1:]))
        | st.tuples(st.sampled_from(["Abs", "Identity"]), inner).map(lambda made: call(made[0], made[1:]))
    ),
    max_leaves=6,
)
fractions = st.tuples(st.sampled_from([rational(1, 2), rational(-2, 3)]), whole).map(
    lambda made: call("Mul", made)
)


@settings(max_examples=200, deadline=None)
@given(whole | fractions, st.integers(1, 12), st.integers(1, 12))
def test_a_value_is_what_sympy_says(tree: Expression, first: int, second: int) -> None:
    value = evaluate(tree, {"s0": first, "s1": second})
    symbols: dict[str, sympy.Symbol] = {}
    try:
        built = decode_expression(tree, symbols)
        numbers = {"s0": sympy.Integer(first), "s1": sympy.Integer(second)}
        expected = built.xreplace({symbols[name]: numbers[name] for name in symbols}).doit()
    except Exception:  # torch and sympy raise of every kind where there is no value
        return
    if value is not None and expected.is_Rational:
        assert Fraction(value) == Fraction(int(expected.p), int(expected.q))
