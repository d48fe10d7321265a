"""Guards: what torch.export writes is accepted, and whatever could do more than compare sizes is refused by name."""

from __future__ import annotations

import ast
import math
import warnings

import pytest
import torch
from hypothesis import given, strategies as st
from inside.schema import check_guard
from torch.export import Dim, export

from graphwire.errors import ExpressionError


class Picky(torch.nn.Module):
    """A program whose export leaves many kinds of guards behind."""

    def forward(self, x, y, k, *, d):
        z = x.reshape(-1, 4) if x.shape[0] % 8 == 0 else x
        if x.shape[0] // 3 > 2:
            z = z + 1
        if x.shape[0] * 2 != y.shape[1]:
            z = z + 1
        if d["a"][0].shape[0] - x.shape[0] > -300:
            z = z + 1
        if int(x.shape[0] / 2) > 1:
            z = z + 1
        if torch.sym_not(x.shape[0] > 300):
            z = z + 1
        if x.shape[0] & 3 == 0:
            z = z + 1
        if math.ceil(x.shape[0] / 3) > 1:
            z = z + 1
        if torch.sym_max(x.shape[0], y.shape[0]) > 1:
            z = z + 1
        if 2 ** y.shape[0] > 8:
            z = z + 1
        return z


@pytest.mark.parametrize("strict", [False, True])
def test_every_guard_that_torch_export_writes_is_accepted(strict):
    dims = {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = export(
            Picky(),
            (torch.ones(16, 4), torch.ones(4, 7), 7),
            {"d": {"a": [torch.ones(9)]}},
            dynamic_shapes={
                "x": {0: Dim.DYNAMIC},
                "y": dims,
                "k": Dim.DYNAMIC,
                "d": {"a": [{0: Dim.DYNAMIC}]},
            },
            strict=strict,
        )
    assert len(exported._guards_code) >= 3
    for guard in exported._guards_code:
        check_guard(guard)


@pytest.mark.parametrize(
    "nested",
    [
        lambda count: "-" * count + "L['k']",
        lambda count: "not " * count + "L['k']",
        lambda count: " + ".join(["L['k']"] * (count + 1)),
        lambda count: " and ".join(["L['k']"] * 500) + " and " + "not " * (count - 1) + "L['k']",
    ],
)
def test_200_operations_are_around_each_other_and_no_more(nested):
    check_guard(nested(200))
    with pytest.raises(ExpressionError, match="deeper than 200"):
        check_guard(nested(201))


def test_the_error_names_the_node_and_its_column():
    with pytest.raises(ExpressionError, match=r"the name 'os' \(Name at column 10\)"):
        check_guard("L['k'] == os.sep")


@given(st.text(max_size=60) | st.text(alphabet="L['x]()=<>*.0 9size_abns#\"\\", max_size=60))
def test_any_text_is_either_a_guard_or_an_expression_error(text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            check_guard(text)
        except ExpressionError:
            return
        tree = ast.parse(text, mode="eval").body
    allowed = (ast.expr, ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context)
    assert all(isinstance(node, allowed) for node in ast.walk(tree))
