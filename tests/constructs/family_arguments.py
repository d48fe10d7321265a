"""Kinds of arguments and results of operators."""

from __future__ import annotations

import torch
from construct import Family
from torch import Tensor
from torch.export import Dim

arguments = Family("arguments and results")

_LIBRARY = torch.library.Library("graphwire_arguments", "FRAGMENT")


def _define(schema: str, kernel: object) -> None:
    name = schema.partition("(")[0]
    _LIBRARY.define(schema)
    _LIBRARY.impl(name, kernel, "CPU")
    torch.library.register_fake(f"graphwire_arguments::{name}", kernel, lib=_LIBRARY)


_define(
    "mixed(Tensor x, Tensor?[] ys, str s, float[] fs, bool[] bs, ScalarType t, Scalar n, int[]? il=None) -> Tensor[]",
    lambda x, ys, s, fs, bs, t, n, il=None: [x.clone(), x + sum(fs) + n],
)
_define(
    "types(Tensor x, ScalarType[] ts, Layout l, Device d, MemoryFormat m) -> Tensor", lambda x, *_: x.clone()
)
_define("scalars(Tensor x, Scalar[] ns, complex c) -> Tensor", lambda x, ns, c: x * len(ns) + c.real)
_define("lists(Tensor x, int[][] a, str[] b) -> Tensor", lambda x, a, b: x + len(a) + len(b))
_define("optional(Tensor x) -> (Tensor?, Tensor?)", lambda x: (x.clone(), None))
_define("nested(Tensor x) -> (Tensor, Tensor[])", lambda x: (x.clone(), [x + 1, x + 2]))
_define("sized(Tensor x) -> (Tensor, SymInt)", lambda x: (x.clone(), x.shape[0]))
_define("nothing(Tensor x) -> ()", lambda x: None)
_define("sizes(Tensor x, SymInt[] n, SymInt? m=None) -> Tensor", lambda x, n, m=None: x + sum(n))
_own = torch.ops.graphwire_arguments

_X, _Y = torch.ones(3), torch.full((3,), 2.0)
arguments.exported(
    "optional tensors, text, floats, truth values, a type and a number",
    lambda x, y: _own.mixed(
        x, [None, y], "text, with; marks", [1.5, float("inf")], [True, False], torch.float16, 2, [1]
    )[0],
    _X,
    _Y,
)
arguments.exported("empty lists", lambda x: _own.mixed(x, [], "", [], [], torch.int8, 2.5)[1], _X)
arguments.exported(
    "lists of types, and a layout, device and memory format",
    lambda x: _own.types(
        x, [torch.float16, torch.int8], torch.strided, torch.device("cpu"), torch.channels_last
    ),
    _X,
)
arguments.exported("mixed and complex numbers", lambda x: _own.scalars(x, [1, 2.5, True], 1 + 2j), _X)
arguments.exported("lists of lists of integers", lambda x: _own.lists(x, [[1, 2], []], ["a", ""]), _X)
arguments.exported("a result that is nothing", lambda x: _own.optional(x)[0], _X)
arguments.exported("a tensor and a list of tensors as results", lambda x: _own.nested(x)[1][1], _X)
arguments.exported("an element that nothing reads", lambda x: torch.var_mean(x, 0)[1], _X)
arguments.exported("an operator without results", lambda x: (_own.nothing(x), x + 1)[1], _X)
arguments.exported(
    "a tensor and a size as results",
    lambda x: _own.sized(x),
    _X,
    calls=((torch.ones(5),),),
    dynamic_shapes={"x": {0: Dim.DYNAMIC}},
)
arguments.exported(
    "sizes and numbers in one list",
    lambda x: _own.sizes(x, [x.shape[0], 2]),
    _X,
    calls=((torch.ones(5),),),
    dynamic_shapes={"x": {0: Dim.DYNAMIC}},
)


@torch.library.custom_op("graphwire_arguments::positions", mutates_args=())
def _positions(x: Tensor) -> tuple[int, int]:
    return int(x[0]), int(x[1])


@_positions.register_fake
def _(x: Tensor) -> tuple[int, int]:
    first, second = (torch.library.get_ctx().new_dynamic_size() for _ in range(2))
    torch._check(first <= 4)
    torch._check(second <= 5)
    return first, second


def _narrowed(t: Tensor, x: Tensor) -> Tensor:
    rows, columns = _positions(x)
    return t[:rows, :columns]


arguments.exported(
    "integers alone as results",
    _narrowed,
    torch.ones(4, 5),
    torch.tensor([2, 3]),
    calls=((torch.ones(4, 5), torch.tensor([3, 1])),),
)
arguments.exported(
    "tensors in an index with gaps",
    lambda x, i: torch.ops.aten.index.Tensor(x, [None, i]),
    torch.ones(3, 4),
    torch.tensor([0, 2]),
)
arguments.exported(
    "keyword arguments by keyword", lambda x: torch.searchsorted(x, x, side="right", right=True), _X
)
