"""What the sources of random programs are made of: tables of expressions, and the names that the sources import.

A letter in braces is a slot, which `SLOTS` says how to fill: with an expression that a program has at that point, or with
a literal.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

__all__ = [
    "ALTERATIONS",
    "BLOCKS",
    "DTYPES",
    "EXPRESSIONS",
    "LAST",
    "LITERALS",
    "MODULES",
    "PREAMBLE",
    "SLOTS",
    "SUBSTITUTES",
    "Box",
    "Pair",
    "values",
]


class Pair(NamedTuple):
    """A namedtuple with a serialized name."""

    first: Any
    second: Any


@dataclasses.dataclass
class Box:
    """A dataclass with a serialized name."""

    inside: Any
    label: Any = None


pytree._register_namedtuple(Pair, serialized_type_name=f"{__name__}.Pair")
torch.export.register_dataclass(Box, serialized_type_name=f"{__name__}.Box")


def values(shape: tuple[int, ...], dtype: torch.dtype, start: int = 0) -> torch.Tensor:
    """A tensor of small numbers of both signs, the same at every call."""
    count = torch.Size(shape).numel()
    numbers = torch.arange(start, start + count, dtype=torch.float64).mul(7).remainder(11).sub(5)
    if dtype is torch.bool:
        return (numbers > 0).reshape(shape)
    if not dtype.is_signed:
        numbers = numbers.abs()
    if dtype.is_complex:
        return torch.complex(numbers, numbers.flip(0)).to(dtype).reshape(shape)
    return (numbers / 4 if dtype.is_floating_point else numbers).to(dtype).reshape(shape)


PREAMBLE = f"""\
import collections

import torch
from torch import nn
from torch.export import Dim

from {__name__} import Box, Pair, values
"""
"""How every source begins."""

DTYPES = tuple(
    "float32 float64 float16 bfloat16 int64 bool complex64 int32 int16 int8 uint8 complex128"
    " float8_e4m3fn float8_e5m2 uint16 uint32".split()
)
"""Element types; the last ones can be held and moved, and little else."""

LITERALS: dict[str, tuple[str, ...]] = {
    "k": ("1", "2", "3"),
    "d": ("0", "-1", "1"),
    "s": ("2", "0.5", "-1.5", "True", "float('inf')", "3", "1e-30"),
    "D": tuple(f"torch.{name}" for name in DTYPES),
    "R": ("torch.float32", "torch.float64", "torch.bfloat16", "torch.float16"),
    "z": ("2j", "1 + 0.5j", "1.5"),
    "m": ('"mean"', '"sum"', '"none"'),
    "I": (
        "0", "-1", "..., 0", "None", ":, None", "::2", "1:", ":-1", "..., 1:", "0:1", "..., [0, 0]", "[0, 1]",
        "(slice(None), [0])", "..., ::2", "torch.tensor([1, 0])",
    ),
}  # fmt: skip
"""Slots that are filled with one of these."""


def _is(kind: Callable[[torch.Tensor], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, torch.Tensor) and kind(value)


SLOTS: dict[str, Callable[[Any], bool]] = {
    "t": _is(lambda t: True),
    "f": _is(lambda t: t.is_floating_point() and t.element_size() > 1),
    "F": _is(lambda t: t.dtype is torch.float32 and t.dim() > 0),
    "M": _is(lambda t: t.is_floating_point() and t.element_size() > 1 and t.dim() >= 2),
    "r": _is(lambda t: not t.is_complex() and t.dtype is not torch.bool),
    "i": _is(lambda t: not t.is_floating_point() and not t.is_complex() and t.dtype is not torch.bool),
    "b": _is(lambda t: t.dtype is torch.bool),
    "c": _is(lambda t: t.is_complex()),
    "n": lambda value: type(value) is int,
    "x": lambda value: type(value) is float,
    "y": lambda value: type(value) is bool,
}
"""Slots that are filled with an expression of the program whose value is of the kind."""

SUBSTITUTES: dict[str, str] = {
    "n": "{t}.shape[0]",
    "x": "torch.sym_float({n})",
    "y": "({n} > 2)",
    "b": "({t} != 0)",
}
"""What fills a slot where nothing in the program does."""

EXPRESSIONS: tuple[tuple[str, ...], ...] = (
    (  # of each element
        "{t} + {t}", "{t} - {t}", "{t} * {t}", "{t} / {f}", "{t} * {s}", "{s} - {t}", "-{t}", "{t} ** {k}",
        "torch.sin({t})", "torch.exp({f})", "torch.relu({r})", "torch.nn.functional.gelu({f})", "{f}.sigmoid()",
        "torch.where({b}, {t}, {t})", "torch.clamp({r}, min=-1, max={k})", "torch.clamp({f}, max={f})",
        "torch.add({t}, {t}, alpha={k})", "torch.addcmul({t}, {t}, {t}, value=2)", "torch.maximum({r}, {r})",
        "{t} == {t}", "{r} > {r}", "{r} <= {s}", "~{b}", "{b} & {b}", "{b} | {b}", "{i} % 3", "{i} // 2",
        "{i} << 1", "{i} & {i}", "torch.bitwise_not({i})", "{t}.isnan()", "{t}.abs()", "{f}.round(decimals=1)",
        "torch.nn.functional.leaky_relu({f}, 0.2)", "torch.lerp({f}, {f}, 0.25)", "torch.atan2({f}, {f})",
        "torch.heaviside({f}, {f})", "torch.fmod({r}, {k})", "torch.floor_divide({r}, {k})", "{t}.sign()",
        "{t}.masked_fill({b}, {s})", "torch.nan_to_num({f}, nan=1.0, posinf=2.0)", "{f}.log1p().nan_to_num()",
    ),
    (  # of element types
        "{t}.to({D})", "{r}.float()", "{t}.bool()", "{f}.to({R})", "{t}.clone()", "{t}.detach()", "{t}.contiguous()",
        "{t}.new_zeros({k}, 2)", "{t}.new_full(({k},), {k})", "torch.zeros_like({t})", "{i}.view(torch.int64)",
        "torch.ones_like({t}, dtype={D})", "torch.tensor([1.0, 2.0, 3.0, {s}])", "torch.arange({k}, dtype={R})",
        "torch.full((2, {k}), {s}, dtype={R})", "torch.eye(4, dtype={R})", "torch.linspace(0, 1, 4)",
        "torch.rand_like({f})", "torch.randn(4, dtype={R})", "torch.randint(0, 5, (3,))", "torch.bernoulli({F}.sigmoid())",
        "torch.view_as_real({c})", "{c}.conj()", "{c}.real", "{c}.imag * 2", "{c} * {z}", "torch.complex({F}, {F})",
        "{c}.conj().clone()", "{c}.angle()", "torch.tensor([{z}, {z}])", "{t}.element_size() + 1",
    ),
    (  # over dimensions
        "{t}.sum()", "{t}.sum({d})", "{t}.sum({d}, keepdim=True)", "{f}.mean({d})", "{t}.sum((0, -1))", "{f}.mean()",
        "{t}.any()", "{t}.all({d})", "{r}.argmax({d})", "{r}.amax({d})", "{t}.cumsum({d})", "{t}.prod({d})",
        "{f}.std({d})", "{f}.softmax({d})", "{f}.log_softmax({d})", "{f}.logsumexp({d})", "{f}.norm(dim={d})",
        "{t}.count_nonzero()", "torch.nn.functional.layer_norm({F}, {F}.shape[-1:])", "{f}.var({d}, correction=0)",
        "torch.nn.functional.l1_loss({f}, {f}, reduction={m})", "{t}.sum(dtype={D})", "{r}.unique(sorted=True).sum()",
    ),
    (  # of several results
        "{r}.topk(2)", "{r}.sort({d})", "{r}.max({d})", "{r}.min({d}, keepdim=True)", "{f}.median({d})", "{r}.cummax({d})",
        "torch.std_mean({f}, {d})", "{t}.split(2, -1)", "{t}.chunk(2, -1)", "{t}[..., 0].unbind(-1)", "{t}.split([1, 3], -1)",
        "torch.aminmax({r})", "torch.frexp({f})", "torch.var_mean({f}, {d})", "{r}.mode({d})", "{t}.tensor_split(2, -1)",
        "torch.linalg.qr({F})", "torch.meshgrid({t}.flatten()[:2], {t}.flatten()[:3], indexing='ij')", "{r}.kthvalue(1, {d})",
        "torch.broadcast_tensors({t}, {t})", "torch.linalg.slogdet(torch.eye(3))", "torch.native_dropout({f}, 0.5, True)",
    ),
    (  # of matrices
        "{M} @ {M}", "{M} @ {M}.mT", "torch.nn.functional.linear({M}, {M})", "torch.matmul({f}, {f})", "{t}.outer({t})",
        "torch.einsum('...i,...i->...', {f}, {f})", "torch.bmm({M}[None], {M}.mT[None])", "torch.addmm({f}, {M}, {M}.mT)",
        "torch.nn.functional.scaled_dot_product_attention({M}, {M}, {M})", "torch.tril({t})", "torch.diagonal({t})",
        "torch.nn.functional.one_hot({i}.abs() % 4, 4)", "torch.nn.functional.embedding({i}.abs() % 2, {M})",
        "torch.nn.functional.pad({t}, (1, 2))", "torch.nn.functional.pad({F}, [0, 1, 0, 2], value={s})",
        "torch.nn.functional.max_pool1d({M}, 2)",
        "torch.nn.functional.interpolate({F}.flatten()[None, None], scale_factor=2.0)",
        "torch.nn.functional.conv1d({F}.flatten()[None, None], {F}.flatten()[None, None, :2], padding=1)",
    ),
    (  # of views and places
        "{t}[{I}]", "{t}[{I}]", "{t}.t()", "{t}.mT", "{t}.transpose(0, -1)", "{t}.unsqueeze({d})", "{t}.squeeze({d})",
        "{t}.flatten()", "{t}.reshape(-1)", "{t}.reshape(-1, 2)", "{t}.view(-1)", "{t}.expand(2, *{t}.shape)", "{t}.flip(0)",
        "torch.cat([{t}, {t}], {d})", "torch.stack([{t}, {t}])", "torch.stack(({t}, {t}, {t}), -1)", "{t}.roll(1, {d})",
        "{t}.repeat(2, *(1 for _ in {t}.shape))", "{t}.narrow({d}, 0, 1)", "{t}.movedim(0, -1)", "{t}.tile(2)", "{t}.ravel()",
        "{t}.index_select({d}, torch.tensor([0]))", "{t}.gather(0, {i}.abs() % 1)", "{t}.as_strided((2,), (1,))", "{t}.diag()",
        "{t}.unfold(-1, 2, 1)", "{t}.scatter({d}, torch.zeros_like({t}, dtype=torch.int64), {t})", "{t}.select({d}, 0)",
        "torch.index_put({t}, (torch.tensor([0]),), {t}[:1])", "{t}[{b}].sum()", "{t}.nonzero().sum()", "{t}.swapdims(0, -1)",
        "torch.take_along_dim({r}, {r}.argsort({d}), {d})", "torch.searchsorted({F}.flatten().sort()[0], {F})",
        "{t}.view({t}.shape[0], -1)", "{t}.reshape({n}, -1)", "{t}.expand({n}, *{t}.shape)", "{t}.permute(1, 0)",
    ),
    (  # of sizes
        "{t}.shape[0]", "{t}.shape[-1]", "{t}.numel()", "{n} + {n}", "{n} * 2", "{n} // 2", "{n} % 3", "{n} - 1", "{n} ** 2",
        "torch.sym_max({n}, {n})", "torch.sym_min({n}, 3)", "torch.sym_float({n})", "{n} / 2", "torch.sym_sqrt({n})", "-{n}",
        "torch.zeros({n}, 2)", "torch.full(({n},), {s})", "{t} * {n}", "{t} + {x}", "torch.arange({n})", "{f} / {n}",
        "torch.tensor({n})", "{n} > 2", "torch.sym_not({y})", "torch.sym_ite({y}, {n}, {n})", "{n} == {n}", "{n} * {n} + 1",
        "torch.sym_int({x})", "{n} + {x}", "torch.ones({n}, {k}, dtype={D})", "torch.full((2,), {n})", "abs({n})",
        "{x} * {x}", "round({x})",
    ),
)  # fmt: skip
"""Expressions by what they are about. Their letters are those of `SLOTS` and `LITERALS`."""

LAST: tuple[str, ...] = (
    "{t}.nonzero()", "{t}[{b}]", "{i}.sum().item()", "{f}.sum().item()", "{b}.any().item()", "{r}.unique()", "{t}.shape",
    "torch.nonzero_static({t}, size=3)", "{i}.max().item() * 2 + 1", "torch.masked_select({t}, {b})",
)  # fmt: skip
"""Expressions whose values may only be returned: sizes and numbers that are unknown before a program runs."""

MODULES: dict[str, tuple[str, str]] = {
    "linear": ("nn.Linear(4, 4)", "{F}"),
    "norm": ("nn.LayerNorm(4)", "{F}"),
    "batch": ("nn.BatchNorm1d(4)", "{F}"),
    "tokens": ("nn.Embedding(5, 4)", "{i}.abs() % 5"),
    "layers": ("nn.Sequential(nn.Linear(4, 4, bias=False), nn.GELU(), nn.Dropout(0.5))", "{F}"),
    "attention": ("nn.MultiheadAttention(4, 2, batch_first=True)", "*[{F}.reshape(1, -1, 4)] * 3"),
    "memory": ("nn.GRU(4, 4)", "{F}"),
    "conv": ("nn.Conv1d(1, 2, 3, padding=1)", "{F}.reshape(1, 1, -1)"),
}
"""Modules that a program may have: how each is made and, as an expression, called."""

ALTERATIONS: tuple[str, ...] = (
    "{t}.add_(1)", "{t}.mul_({t})", "{t}.copy_({t})", "{t}[0] = {k}", "{t}[..., -1] += {k}", "{t}.zero_()", "{f}.sin_()",
    "{t}.fill_({k})", "{f}.clamp_(min=0)", "{t}[:1].neg_()", "{t}.index_fill_(0, torch.tensor([0]), 1)", "{f}.uniform_()",
    "{t}.view(-1).add_(1)", "{t}.masked_fill_({t} == 0, 1)", "{t}.transpose(0, -1).mul_(2)",
)  # fmt: skip
"""Statements that change the tensor of their first slot; the others are read."""

BLOCKS: tuple[str, ...] = (
    "with torch.no_grad():",
    "with torch.enable_grad():",
    'with torch.autocast("cpu", dtype=torch.bfloat16):',
    'with torch.autocast("cpu", enabled=False):',
)
"""What may stand around some statements, and becomes an operator of its own."""
