"""Symbolic sizes, numbers and truth values, and what is assumed of them."""

from __future__ import annotations

import math
from typing import Any

import torch
from construct import Family
from torch import Tensor
from torch.export import Dim
from torch.fx.experimental.symbolic_shapes import sym_and, sym_or

symbols = Family("symbols")
_DYNAMIC, _AUTO = Dim.DYNAMIC, Dim.AUTO

symbols.exported(
    "sizes as results",
    lambda x: (x.shape[0] + x.shape[1], x * x.shape[0]),
    torch.ones(2, 3),
    calls=((torch.ones(5, 4),),),
    dynamic_shapes={"x": (_DYNAMIC, _DYNAMIC)},
)
symbols.exported(
    "integers as inputs",
    lambda x, y: x * y,
    4,
    5,
    calls=((3, 6),),
    dynamic_shapes={"x": _DYNAMIC, "y": _AUTO},
)


def _arithmetic(x: Tensor) -> Any:
    rows, columns = x.shape
    return (
        math.ceil(rows / 3),
        math.floor(columns * 0.5),
        rows // 2,
        rows % 3,
        torch.sym_not(rows > 3),
        torch.sym_max(rows, columns),
        torch.sym_min(rows, 7),
        torch.sym_float(rows) * 1.5,
        torch.sym_ite(rows == 5, rows, columns),
        rows >> 1,
        rows << 1,
        x / torch.sym_sqrt(rows),
    )


symbols.exported(
    "arithmetic",
    _arithmetic,
    torch.ones(6, 4),
    calls=((torch.ones(7, 9),),),
    dynamic_shapes={"x": {0: _DYNAMIC, 1: _DYNAMIC}},
)
symbols.exported(
    "rounding",
    lambda x: x[: round(x.shape[0] / 2.0)],
    torch.ones(8),
    calls=((torch.ones(5),), (torch.ones(7),)),
    dynamic_shapes={"x": {0: Dim("n", min=5, max=10)}},
)
symbols.exported(
    "a sum of many sizes",
    lambda xs: torch.cat(xs).reshape(-1),
    [torch.ones(2), torch.ones(3), torch.ones(4)],
    calls=(([torch.ones(5), torch.ones(6), torch.ones(7)],),),
    dynamic_shapes={"xs": [{0: _DYNAMIC}, {0: _DYNAMIC}, {0: _DYNAMIC}]},
)
symbols.exported(
    "derived dimensions",
    lambda x, y: x + y[1::2],
    torch.ones(5),
    torch.ones(11),
    calls=((torch.ones(4), torch.ones(9)),),
    dynamic_shapes=({0: Dim("n", min=3, max=6)}, {0: Dim("n", min=3, max=6) * 2 + 1}),
)
symbols.exported(
    "guards that tie inputs",
    lambda x, y, z: x.reshape(-1) + y.reshape(-1) + z,
    torch.ones(6, 8),
    torch.ones(3, 16),
    torch.ones(48),
    calls=((torch.ones(5, 8), torch.ones(4, 10), torch.ones(40)),),
    dynamic_shapes=({0: _DYNAMIC, 1: _DYNAMIC}, {0: _DYNAMIC, 1: _DYNAMIC}, {0: _DYNAMIC}),
)
symbols.exported(
    "assertions at run time",
    lambda x: x.reshape(x.shape[0] - 1, 4, -1),
    torch.ones(10, 72),
    calls=((torch.ones(8, 7),),),
    dynamic_shapes={"x": (Dim("a"), Dim("b"))},
    prefer_deferred_runtime_asserts_over_guards=True,
)


def _items(i: Tensor, f: Tensor, b: Tensor) -> Any:
    return i.item(), f.item(), torch.tensor([b.item()])


symbols.exported(
    "unbacked integers, floats and truth values",
    _items,
    torch.tensor([3]),
    torch.tensor([2.5]),
    torch.tensor([True]),
    calls=((torch.tensor([-4]), torch.tensor([0.5]), torch.tensor([False])),),
)


def _checked(x: Tensor) -> Any:
    a, b = x.tolist()
    torch._check(sym_or(a == 2, a == 4))
    torch._check(sym_and(b >= 4, b <= 8))
    return torch.ones(a, b)


symbols.exported(
    "checks joined by and, or", _checked, torch.tensor([2, 6]), calls=((torch.tensor([4, 5]),),), strict=False
)


def _settled(x: Tensor, y: Tensor, z: Tensor) -> Any:
    m, n = x.item(), y.item()
    torch._check(m == 4)
    torch._check(n == z.shape[0])
    return m + n + z


symbols.exported(
    "unbacked values that turn out to be known",
    _settled,
    torch.tensor(4),
    torch.tensor(5),
    torch.ones(5),
    dynamic_shapes={"x": None, "y": None, "z": {0: Dim("n", max=16)}},
)


def _huge(x: Tensor, t: Tensor) -> Any:
    n = t.item()
    torch._check(n <= 1000000007999999992)
    return x.reshape(-1) + torch.ones(n)


symbols.exported(
    "a range beyond the precision of floats",
    _huge,
    torch.ones(6, 2),
    torch.tensor([12]),
    dynamic_shapes={"x": (_AUTO, None), "t": (None,)},
)


def _negative(x: Tensor, y: Tensor) -> Any:
    n = y.item()
    torch._check(n >= -5)
    torch._check(n <= 5)
    return x + n


symbols.exported(
    "a negative range", _negative, torch.ones(2), torch.tensor(-3), calls=((torch.ones(2), torch.tensor(4)),)
)


@torch.library.custom_op("graphwire_symbols::tail", mutates_args=())
def _tail(a: Tensor, b: Tensor) -> Tensor:
    return a[: int(b)].clone()


@_tail.register_fake
def _(a: Tensor, b: Tensor) -> Tensor:
    tens = torch.library.get_ctx().new_dynamic_size(min=0, max=10)
    return a.new_empty(tens * 10, *a.shape[1:])


symbols.exported(
    "bindings through a quotient", lambda a, b: _tail(a, b), torch.ones(100, 2), torch.tensor(10)
)
symbols.exported(
    "nonzero, taken apart",
    lambda x: torch.nonzero(x, as_tuple=True),
    torch.ones(2, 3),
    calls=((torch.zeros(2, 3),),),
)
symbols.exported("a size of one and of none", lambda x, y: (x + 1, y + 1), torch.ones(1, 2), torch.ones(0, 2))
