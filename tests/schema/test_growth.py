"""How much an expression could become is bounded before anybody computes it."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings, strategies as st
from inside.schema import (
    MAX_BITS,
    OPERATIONS,
    Expression,
    call,
    check_range_key,
    evaluate,
    float_number,
    growth_of,
    integer,
    operations,
    parse_infix,
    rational,
    symbol,
)

from graphwire.errors import ExpressionError

HOSTILE = [0, 1, -1, 2, 3, 63, 64, 65, 4096, 2**63 - 1, 10**11, -(10**12), 10**40, 10**4299]
SYMBOLS = ["s0", "s1", "u0", "zf0"]
POWERS = [
    "Pow",
    "PowByNatural",
    "FloatPow",
    "LShift",
    "RShift",
    "Mul",
    "Add",
    "TruncToInt",
    "exp",
    "FloorDiv",
    "Mod",
]

leaves = (
    st.sampled_from(HOSTILE).map(integer)
    | st.sampled_from(SYMBOLS).map(symbol)
    | st.sampled_from(["9.5", "1e308", "1e-320", "1e400", "1e99999999", "0.0"]).map(float_number)
    | st.tuples(st.sampled_from(HOSTILE), st.sampled_from([1, 2, 3, 7, 10**40])).map(lambda p: rational(*p))
    | st.sampled_from(sorted(operations.CONSTANTS)).map(lambda name: Expression(name, ()))
)


def _call(head: str, operands: list[Expression]) -> Expression:
    least, most = OPERATIONS[head][1:3]
    wanted = max(least, 1) if most is not None else max(least, len(operands))
    if head == "Piecewise":
        return call(head, [call("ExprCondPair", (operands * 2)[:2])])
    return call(head, (operands * wanted)[:wanted]) if head != "ExprCondPair" else operands[0]


trees = st.recursive(
    leaves,
    lambda inner: st.tuples(
        st.sampled_from(POWERS) | st.sampled_from(sorted(OPERATIONS)), st.lists(inner, min_size=1, max_size=4)
    ).map(lambda made: _call(*made)),
    max_leaves=20,
)


@settings(max_examples=300, deadline=None)
@given(trees, st.sampled_from(HOSTILE))
def test_what_is_not_refused_comes_to_a_bounded_number_in_bounded_time(tree: Expression, number: int) -> None:
    started = time.process_time()
    try:
        growth = growth_of(tree)
    except ExpressionError:
        growth = None
    value = evaluate(tree, dict.fromkeys(SYMBOLS, number))
    assert time.process_time() - started < 1
    if growth is not None:
        assert growth.bits <= MAX_BITS
    if value is not None and not isinstance(value, float):
        assert max(value.numerator.bit_length(), value.denominator.bit_length()) <= max(
            MAX_BITS, number.bit_length()
        )


@pytest.mark.parametrize(
    "text",
    ["2**(s0 + 100000000000)", "FloatPow(3, s0 + 100000000000)", "9**9**9", "(s0 + s1 + u0 + u1)**60", "2**10**11",
     "LShift(1, 100000000000)", "Float('1e99999999', precision=53)", "s0**0.5*exp(exp(exp(s0)))", "2**2**s0",
     "exp(100000000000)", "sinh(20000)", "exp(64*64*64*64)", "2**(64*64*64*64*64*64)", "2**(s0 + 64*64*64)",
     "LShift(1, 64*64*64)",
     "(2**s0)**(s1*65)", f"sqrt({10**4000})", "TruncToInt(Float('9.5', precision=53)**(s0 + 10000000000))"],
)  # fmt: skip
def test_what_could_become_too_much_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        growth_of(parse_infix(text))


@pytest.mark.parametrize(
    "text", ["2*s0 - 1", "2**s0", "LShift(s0, s1)", "(s0 + s1)**2", "s0/2 + s1/3", "PowByNatural(2, s0 + 1)",
             "1.5e-30*s0", "((s0 - 1)//2 + 1)**2*s1", "+".join(f"u{i}" for i in range(5000))],
)  # fmt: skip
def test_what_torch_writes_is_within_the_bounds(text: str) -> None:
    growth_of(parse_infix(text))


def test_a_range_is_of_what_can_be_solved() -> None:
    check_range_key("2*s0 + 1")
    for text in ("2**s0", "+".join(["s0*s1"] * 30)):
        with pytest.raises(ExpressionError, match="the key of a range"):
            check_range_key(text)
