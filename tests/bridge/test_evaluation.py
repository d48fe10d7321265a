"""Hints are found in an arithmetic of our own: on tame numbers it says what sympy and torch say."""

from __future__ import annotations

import signal
from fractions import Fraction

import sympy
from hypothesis import given, settings, strategies as st
from inside.bridge import decode_expression
from inside.schema import OPERATIONS, Expression, call, evaluate, growth_of, integer, rational, symbol

from graphwire.errors import ExpressionError

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


HOSTILE = [0, 1, 2, 3, 63, 64, 65, 999, 4096, 16_384, 10**6, 10**11, 2**63 - 1, 10**40]
GROWING = [
    "Pow",
    "PowByNatural",
    "FloatPow",
    "LShift",
    "RShift",
    "Mul",
    "Add",
    "exp",
    "sinh",
    "cosh",
    "tan",
    "log",
]
GROWING += ["OpaqueUnaryFn_exp", "ToFloat", "TruncToInt", "FloorDiv", "Mod", "Max"]
numbers = st.recursive(
    st.sampled_from(HOSTILE).map(integer)
    | st.sampled_from([rational(1, 2), rational(-1, 3), rational(999, 2)]),
    lambda inner: st.tuples(st.sampled_from(GROWING), st.lists(inner, min_size=3, max_size=3)).map(
        lambda made: call(
            made[0],
            made[1][: max(OPERATIONS[made[0]].least, 1) if OPERATIONS[made[0]].most is not None else 3],
        )
    ),
    max_leaves=7,
)


def gives_up(*_: object) -> None:
    raise TimeoutError


@settings(max_examples=150, deadline=None)
@given(numbers)
def test_a_number_that_is_let_through_is_computed_at_once(tree: Expression) -> None:
    """torch asks each size without symbols for the number that it is."""
    try:
        growth_of(tree)
    except ExpressionError:
        return
    usual = signal.signal(signal.SIGALRM, gives_up)
    signal.alarm(20)
    try:
        built = decode_expression(tree, {})
        if built.is_number:
            int(built)
    except TimeoutError:
        raise AssertionError(f"{tree} takes for ever") from None
    except Exception:  # of every kind where there is no number, which the boundary makes ours
        pass
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, usual)
