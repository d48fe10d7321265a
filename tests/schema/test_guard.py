"""Guards: what torch.export writes is accepted, and whatever could do more than compare sizes is refused by name."""

from __future__ import annotations

import ast
import math
import warnings

import pytest
import torch
from hypothesis import given, strategies as st
from torch.export import Dim, export

from graphwire.errors import ExpressionError
from graphwire.schema.texts.guard import check_guard


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
    "guard",
    [
        "L['x'].size()[0] <= 10",
        "L['args'][0][0].size()[1] % 8 == 0",
        "L['x'].stride()[0] == L['x'].size()[1]",
        "L['x'].storage_offset() == 0",
        "L['d']['a'][0].size()[0] + ((-1)*L['x'].size()[0]) > -300",
        "math.trunc(L['x'].size()[0] / 2) == 8",
        "2 ** L['y'].size()[0] > 8",
        "(L['x'].size()[0] & 3) == 0",
        "not (L['x'].size()[0] == 3) and (L['k'] > 3 or L['k'] < 1)",
        "max(L['x'].size()[0], 2, L['k']) != 4",
        "(3 if L['k'] > 3 else L['k']) == 3",
        "torch.sym_float(L['k']) * 1.5 < math.inf",
        "torch._sym_sqrt(L['k']) < 1.5",
        "round(L['k'] / 3, 2) == 1.5",
        "L['point'].x.size()[0] == -L['point'].y.size()[-1]",
        "cast_symbool_to_symint_guardless(L['b']) == 1",
        "IsNonOverlappingAndDenseIndicator(L['x'].size()[0], L['x'].stride()[0]) == 1",
        "L['größe'].size()[0] == 1",
    ],
)
def test_a_guard_over_the_inputs_is_accepted(guard):
    check_guard(guard)


@pytest.mark.parametrize(
    "guard",
    [
        "__import__('os').system('x')",
        "L['x'].__class__.__bases__",
        "L['x'].size.__globals__['os']",
        "L['x'].__reduce__()",
        "L['x']._private == 1",
        "L['x'].size().__len__()",
        "L['x'].tofile('f')",
        "L['x'].size(0) == 1",
        "L['x'].numpy()",
        "().__class__",
        "L.size()",
        "L",
        "G['x'] == 1",
        "print(1)",
        "open('f')",
        "exec('x')",
        "math.factorial(9999999)",
        "math.pi.__class__",
        "torch.load('f')",
        "torch.ops.aten.add(1, 2)",
        "max(*L['x'])",
        "max(1, 2, key=L['k'])",
        "abs()",
        "lambda: 1",
        "[x for x in L['x']]",
        "{1: 2}",
        "{1}",
        "[1, 2]",
        "(1, 2)",
        "L['x'][0:1]",
        "L['x'][L['k']]",
        "L['x'][b'k']",
        "L['x'][...]",
        "f'{L}'",
        "(y := 1)",
        "L['x'] is None",
        "L['x'] in L['y']",
        "1 < L['k'] < 3",
        "L['k'] << 99",
        "L['k'] @ L['k']",
        "~L['k'] == 1",
        "await L['x']",
        "yield",
        "L['x'] == 'text'",
        "1j == L['k']",
        "L['k'] == 1; import os",
        "L['k'] == 1\nimport os",
        "L['k'] == 1 # comment",
        "L['k'] == 1\\\n",
        "",
        " ",
        "L['x",
    ],
)
def test_what_is_not_in_the_grammar_is_refused(guard):
    with pytest.raises(ExpressionError):
        check_guard(guard)


@pytest.mark.parametrize(
    "guard",
    [
        'L["x"] == 1',
        "L['x\"), print(1), (\"'] == 1",
        "L['x\\'] == 1",
        "L['x\n'] == 1",
        "L['x\u2028'] == 1",
        "L['x'] == \u0661",
        "\uff4d\uff41\uff58(1, L['k']) == 1",
        "L['x'] == 1\x00",
        "\ufeffL['x'] == 1",
    ],
)
def test_a_character_that_would_break_the_code_torch_generates_is_refused(guard):
    with pytest.raises(ExpressionError):
        check_guard(guard)


@pytest.mark.parametrize(
    "guard",
    [
        "9**9**9 > L['k']",
        "L['k']**65 == 1",
        "9**-65 == 1",
        "9**(64*64) == 1",
        "(9**9)**9 == 1",
        "9**-(9*9) == 1",
    ],
)
def test_a_power_that_could_grow_without_end_is_refused(guard):
    with pytest.raises(ExpressionError, match=r"power|exponent"):
        check_guard(guard)


@pytest.mark.parametrize(
    "guard",
    [
        "(" * 100_000 + "1",
        "(" * 40_000 + "1" + ")" * 40_000,
        "-" * 90_000 + "1",
        "not " * 20_000 + "1",
        "L['x']" + "[0]" * 30_000,
        "L['x']" + ".a" * 30_000,
        "+".join(["1"] * 40_000),
        "1 if 1 else " * 8_000 + "1",
        "9" * 5000 + " == L['k']",
        f"{2**64 + 1} == L['k']",
        "1" * 200_000,
    ],
)
def test_a_guard_beyond_the_limits_is_refused_and_never_crashes(guard):
    with pytest.raises(ExpressionError):
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
