"""What the content hash is taken of has one spelling: of values, of expressions and symbols, of containers, of whole programs."""

from __future__ import annotations

import hashlib
import json
import math
import sys
from typing import Any

import msgpack
import pytest
import sympy
from hypothesis import given, settings, strategies as st
from inside.analysis import (
    HASH_VERSION,
    References,
    SymbolNames,
    argument_content,
    content_bytes,
    content_hash,
    diff,
    expression_content,
    node_order,
    program_content,
    treespec_content,
)
from inside.schema import from_tree, parse_infix
from spellings import other_text, respelled
from test_canonical import _program, programs

from graphwire.hooks import parse_expression
from graphwire.schema import Argument, Program, RangeConstraint

# --------------------------------------------------------------------------------------------------------- encoding

leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
)
trees = st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


def _sorted(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _sorted(tree[key]) for key in sorted(tree)}
    return list(map(_sorted, tree)) if isinstance(tree, list) else tree


@given(trees)
def test_the_bytes_of_a_tree_are_those_of_another_library(tree) -> None:
    assert content_bytes(_sorted(tree)) == msgpack.packb(_sorted(tree))


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, 1.0), (1, True), (0, False), (0.0, -0.0), ("1", 1), ("a", b"a"), ([], None), (None, False)],
)
def test_what_python_takes_for_equal_has_other_bytes(one, other) -> None:
    assert content_bytes([one]) != content_bytes([other])


def test_what_messagepack_cannot_say_is_said_otherwise() -> None:
    assert content_bytes({"a": [1 << 64]}) == msgpack.packb({"a": [["integer", "10000000000000000"]]})
    assert content_bytes([-(1 << 70)]) == msgpack.packb([["integer", "-400000000000000000"]])
    assert content_bytes(["a\ud800"]) == msgpack.packb([b"a\xed\xa0\x80"])
    nan = -math.nan
    assert argument_content(Argument(as_float="NaN"), References([], [])) is not nan
    assert (
        content_bytes(argument_content(Argument(as_float=nan), References([], []))).hex()
        == "cb7ff8000000000000"
    )


# ------------------------------------------------------------------------------------------------------ expressions

symbols = st.sampled_from([sympy.Symbol(f"s{number}", positive=True, integer=True) for number in (7, 11, 30)])
expressions = st.recursive(
    symbols | st.integers(-5, 9).map(sympy.Integer),
    lambda inner: (
        st.builds(lambda a, b: a + b, inner, inner)
        | st.builds(lambda a, b: a * b, inner, inner)
        | st.builds(sympy.Max, inner, inner)
        | st.builds(lambda a: a**2, inner)
        | st.builds(lambda a: a / 3, inner)
    ),
    max_leaves=8,
)


@given(expressions)
@settings(max_examples=200, deadline=None)
def test_constructor_text_and_infix_text_of_sympy_have_one_content(expression) -> None:
    constructor, infix = parse_expression(sympy.srepr(expression)), parse_infix(str(expression))
    assert expression_content(constructor, str) == expression_content(infix, str)


@given(expressions, st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_the_order_of_operands_that_has_no_meaning_has_none(expression, salt) -> None:
    text = sympy.srepr(expression)
    other = other_text(text, salt)
    read = parse_expression if "(" in other and "Symbol" in other else parse_infix
    if "Symbol" in text:
        assert expression_content(read(other), str) == expression_content(parse_expression(text), str)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("s0 > s1", "s1 < s0", True),
        ("Eq(s0, s1)", "Eq(s1, s0)", True),
        ("s0 < s1", "s1 < s0", False),
        ("-2*s0", "-1*2*s0", True),
        ("s0/2 + s0/2", "s0/2", False),
        ("s0 - s1", "s1 - s0", False),
        ("s0//2", "2//s0", False),
        ("s0**2", "2**s0", False),
        ("2", "2.0", False),
        ("Max(s0, Max(1, s1))", "Max(Max(s1, s0), 1)", True),
    ],
)
def test_expressions_are_the_same_or_not(one, other, same) -> None:
    contents = [content_bytes(expression_content(parse_infix(text), str)) for text in (one, other)]
    assert (contents[0] == contents[1]) is same


def _told(texts: list[str], ranges: dict[str, tuple[int, int]]) -> bytes:
    names = SymbolNames(texts, {key: RangeConstraint(*ends) for key, ends in ranges.items()})
    return content_bytes([[names.content(text) for text in texts], names.range_contents()])


@given(
    st.lists(expressions, min_size=1, max_size=4),
    st.permutations([3, 5, 8]),
    st.lists(st.integers(2, 3), min_size=3, max_size=3),
)
@settings(max_examples=200, deadline=None)
def test_symbols_are_numbered_whatever_they_are_called(made, numbers, lows) -> None:
    old = (7, 11, 30)
    renamed = {
        sympy.Symbol(f"s{one}", positive=True, integer=True): sympy.Symbol(
            f"s{two}", positive=True, integer=True
        )
        for one, two in zip(old, numbers, strict=True)
    }
    others = [each.xreplace(renamed) for each in made]
    one = _told(list(map(sympy.srepr, made)), {f"s{n}": (low, 64) for n, low in zip(old, lows, strict=True)})
    two = _told(
        list(map(sympy.srepr, others)), {f"s{n}": (low, 64) for n, low in zip(numbers, lows, strict=True)}
    )
    assert one == two


def test_ranges_of_symbols_that_no_value_has_are_told_apart() -> None:
    one = _told([], {"s100*s101 + 1": (1, 9), "s100": (2, 5), "s101": (2, 6)})
    assert one == _told([], {"s9": (2, 5), "s8": (2, 6), "s8*s9 + 1": (1, 9)})
    assert one != _told([], {"s9": (2, 6), "s8": (2, 6), "s8*s9 + 1": (1, 9)})


def test_many_new_symbols_in_one_expression_take_no_more_than_linear_time() -> None:
    """2,000 of them: what compares each with each takes minutes."""
    text = f"Add({', '.join(f'Symbol({chr(39)}s{number}{chr(39)})' for number in range(2_000))})"
    assert len(SymbolNames([text], {}).names) == 2_000


# ------------------------------------------------------------------------------------------------------- containers


def _spec(kind: str, context: Any, children: int = 0) -> str:
    leaf = {"type": None, "context": None, "children_spec": []}
    return json.dumps([1, {"type": kind, "context": context, "children_spec": [leaf] * children}])


@pytest.mark.parametrize(
    ("ours", "torchs"),
    [
        (("builtins.dict@2", '[1, {"tuple": [2, "a"]}, null]'), ("builtins.dict", '[1, [2, "a"], null]')),
        (
            ("mine.Cache@2", '{"dict": [["b", {"tuple": []}], [1, null]]}'),
            ("mine.Cache", '{"1": null, "b": []}'),
        ),
        (
            ("mine.Cache@2", '{"enum": "m:E", "name": "A"}'),
            ("mine.Cache", '{"__enum__": true, "fqn": "m:E", "name": "A"}'),
        ),
        (("mine.Cache@2", '[{"float": "inf"}]'), ("mine.Cache", "[Infinity]")),
        (
            ("collections.defaultdict@2", {"factory": "builtins.list", "keys": [{"tuple": [1]}]}),
            (
                "collections.defaultdict",
                {"default_factory_module": "builtins", "default_factory_name": "list", "dict_context": [[1]]},
            ),
        ),
        (("mine.Span", '[["lo"], []]'), ("mine.Span", ["gen.Span", ["lo"], []])),
        (("builtins.tuple", "null"), ("builtins.tuple", None)),
    ],
)
def test_a_context_that_torchs_text_changes_is_what_torchs_text_says(ours, torchs) -> None:
    assert content_bytes(treespec_content(_spec(*ours))) == content_bytes(treespec_content(_spec(*torchs)))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("builtins.dict", '["a"]', 1), ("builtins.dict", '["b"]', 1)),
        (("builtins.dict", '["a", "b"]', 2), ("builtins.dict", '["b", "a"]', 2)),
        (("builtins.dict", '["1"]', 1), ("builtins.dict", "[1]", 1)),
        (("builtins.tuple", "null", 1), ("builtins.list", "null", 1)),
        (("builtins.tuple", "null", 1), ("builtins.tuple", "null", 2)),
    ],
)
def test_structures_that_differ_have_another_content(one, other) -> None:
    assert content_bytes(treespec_content(_spec(*one))) != content_bytes(treespec_content(_spec(*other)))


# --------------------------------------------------------------------------------------------------------- programs


@given(tree=programs(), salt=st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_another_spelling_of_a_program_has_the_same_hash(tree, salt) -> None:
    before, after = _program(tree), from_tree(respelled(tree, salt), Program)
    assert msgpack.unpackb(program_content(after)) == msgpack.unpackb(program_content(before))
    assert content_hash(after) == content_hash(before)
    assert diff(before, after).same


def test_the_lists_of_operators_belong_to_the_version() -> None:
    """They decide which nodes may change places. An operator that a list lacks is added where programs are made canonical, and to
    the hash in its next version."""
    lists = [
        sorted(value)
        for name, value in sorted(vars(sys.modules[node_order.__module__]).items())
        if name.startswith("_") and isinstance(value, frozenset)
    ]
    assert HASH_VERSION == 1
    found = hashlib.blake2b(json.dumps(lists).encode(), digest_size=16).hexdigest()
    assert found == "5a42cf3d9e04d6388d3890486cb7ede0"
