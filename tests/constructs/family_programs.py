"""Whole programs that lie at the edges of what export takes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from construct import Family, holding
from torch import Tensor, nn
from torch._export.verifier import Verifier
from torch.export import Dim, ExportedProgram, export
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.utils import parametrizations

programs = Family("programs")
_X = torch.arange(6.0).reshape(2, 3)


# ------------------------------------------------------------------------------------------------ inputs and shapes

programs.exported(
    "a derived dimension, and one that is twice another",
    lambda x, y: x.repeat(2) + y,
    torch.ones(4),
    torch.ones(8),
    calls=((torch.ones(3), torch.ones(6)),),
    dynamic_shapes=({0: Dim("n", max=64)}, {0: 2 * Dim("n", max=64)}),
)
programs.exported(
    "shapes of nested inputs",
    lambda x, more: x + more["a"][0] + more["b"],
    torch.ones(4, 2),
    {"a": [torch.ones(4, 2), torch.ones(1)], "b": torch.ones(4, 1)},
    calls=((torch.ones(7, 2), {"a": [torch.ones(7, 2), torch.ones(1)], "b": torch.ones(7, 1)}),),
    dynamic_shapes=({0: Dim.AUTO}, {"a": [{0: Dim.AUTO}, None], "b": {0: Dim.AUTO}}),
)
programs.exported(
    "a dimension that must be large and a multiple",
    lambda x: x.reshape(-1, 4).sum(1),
    torch.ones(16),
    calls=((torch.ones(32),),),
    dynamic_shapes=({0: Dim.AUTO(min=8, max=4096)},),
)


class _Options(nn.Module):
    def forward(self, x: Tensor, *, scale: float = 2.0, bias: Tensor | None = None) -> Tensor:
        return x * scale if bias is None else x * scale + bias


def _keywords() -> ExportedProgram:
    return export(_Options(), (_X,), {"bias": torch.ones(3), "scale": 0.5})


programs.add("keyword-only inputs in another order", _keywords)
programs.exported(
    "inputs that are None, text and numbers",
    lambda x, n, t, i, f, b: x * i + f if b and t == "go" and n is None else x,
    _X,
    None,
    "go",
    3,
    0.5,
    True,
)
programs.exported("complex inputs and weights", holding(
    lambda self, x: torch.view_as_real(x * self.weight).sum(-1),
    weight=nn.Parameter(torch.tensor([1 + 2j, -1j])),
), torch.tensor([1j, 2.0]))  # fmt: skip
programs.exported("a module without inputs", lambda: torch.arange(3) * 2)
programs.exported("no tensors at all", lambda n: n + 1, 4)


# ------------------------------------------------------------------------------------------------ state


class _Lazy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LazyLinear(4)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


def _lazy() -> ExportedProgram:
    module = _Lazy()
    module(_X)
    return export(module, (_X,))


class _Embedding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(5, 3)
        self.head = nn.Linear(3, 5, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.tokens(ids))


class _Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.b = nn.ModuleList([self.a, nn.Sequential(self.a, nn.ReLU())])

    def forward(self, x: Tensor) -> Tensor:
        return self.b[1](self.b[0](x)) + self.a(x)


def _weight_normed() -> nn.Module:
    return parametrizations.weight_norm(nn.Linear(3, 2))


programs.add("a lazy layer, made", _lazy, (_X,))
programs.exported("an embedding tied to the head", _Embedding(), torch.tensor([1, 4]))
programs.exported("one module in three places", _Shared(), _X)
programs.exported("a parametrized weight", _weight_normed(), _X)
programs.exported("recurrent layers", nn.LSTM(3, 2, num_layers=2), torch.ones(4, 1, 3), strict=False)
programs.exported(
    "a transposed parameter and one with gaps",
    holding(
        lambda self, x: x @ self.turned + self.gaps,
        turned=nn.Parameter(torch.arange(6.0).reshape(2, 3).t()),
        gaps=nn.Parameter(torch.arange(8.0)[::4]),
    ),
    _X,
)


def _counting(self: Any, x: Tensor) -> Any:
    self.count.add_(1)
    return x + self.count, self.count.clone()


programs.exported(
    "a counter, decomposed", holding(_counting, count=nn.Buffer(torch.zeros(1))), _X, decomposed=True
)
programs.add(
    "decomposed twice",
    lambda: (
        export(nn.Sequential(nn.Linear(3, 3), nn.GELU()), (_X,)).run_decompositions().run_decompositions({})
    ),
    (_X,),
)


# ------------------------------------------------------------------------------------------------ aliases and mutation

programs.exported("an output that is a view of an input", lambda x: (x.t(), x[0], x), _X)
programs.exported("an output twice", lambda x: [x + 1] * 2 + [x], _X)


def _mutating(x: Tensor) -> Tensor:
    x.add_(1)
    return x.view(-1)[1:]


programs.exported("a view of an input that is changed", _mutating, _X)
programs.exported("the same, decomposed", _mutating, _X, decomposed=True)


@torch.library.custom_op("graphwire_programs::fill", mutates_args=("out", "more"))
def _fill(out: Tensor, value: float, more: list[Tensor]) -> None:
    out.fill_(value)
    for each in more:
        each.zero_()


def _filling(x: Tensor) -> Tensor:
    out, more = torch.empty_like(x), [x + 1, x + 2]
    _fill(out, 2.5, more)
    return out + more[0] + more[1]


programs.exported("an operator that changes a tensor and a list of tensors", _filling, _X, strict=False)
programs.exported("the same operator, functionalized", _filling, _X, strict=False, decomposed=True)


# ------------------------------------------------------------------------------------------------ control and regions


def _closed_over(self: Any, x: Tensor, flag: Tensor) -> Any:
    y = x * 2

    def then(z: Tensor) -> Tensor:
        return self.layer(z) + y

    return torch.cond(flag, then, lambda z: z - y, (x,))


programs.exported(
    "branches that close over values and layers",
    holding(_closed_over, layer=nn.Linear(3, 3)),
    _X,
    torch.tensor(True),
    calls=((_X, torch.tensor(False)),),
)


def _regions(x: Tensor) -> Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x.t()
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            z = x.exp()
    return y.float() + z.sum()


programs.exported("autocast and gradient regions in each other", _regions, _X)
programs.exported("the same regions, decomposed", _regions, _X, decomposed=True)


def _asserting(x: Tensor) -> Tensor:
    torch._assert_async((x > -1).all(), "not so low")
    n = x.sum().to(torch.int64).item()
    torch._check(n >= 2)
    torch._check(n <= 40)
    return torch.zeros(n) + x.sum()


programs.exported("assertions with messages", _asserting, _X)
programs.exported("the same assertions, decomposed", _asserting, _X, decomposed=True)


def _masked(q: Tensor) -> Any:
    def causal(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return i >= j

    mask = create_block_mask(causal, 1, 1, 128, 128, device="cpu")
    return flex_attention(q, q, q, block_mask=mask)


programs.exported("flex_attention with a block mask", _masked, torch.ones(1, 1, 128, 16), strict=True)


# ------------------------------------------------------------------------------------------------ calls and dialects


def _preserved(strict: bool) -> ExportedProgram:
    calls = ("b.0", "b.1")
    return export(_Shared(), (_X,), strict=strict, preserve_module_call_signature=calls)


programs.add("preserved calls of a shared module", lambda: _preserved(False), (_X,))
programs.add("the same in strict export", lambda: _preserved(True), (_X,))


class _Dialect(Verifier):
    dialect = "GRAPHWIRE_PROGRAMS"


def _of_dialect() -> ExportedProgram:
    program = export(nn.ReLU(), (_X,))
    program._verifiers = [_Dialect, Verifier]
    return program


programs.add("the verifiers of two dialects", _of_dialect, (_X,))


def _edited() -> ExportedProgram:
    program = export(nn.Sequential(nn.Linear(3, 3), nn.ReLU()), (_X,))
    old = next(node for node in program.graph.nodes if node.target is torch.ops.aten.relu.default)
    with program.graph.inserting_after(old):
        new = program.graph.call_function(torch.ops.aten.gelu.default, old.args)
    new.meta = dict(old.meta)
    with program.graph_module._set_replace_hook(program.graph_signature.get_replace_hook()):
        old.replace_all_uses_with(new)
    program.graph.erase_node(old)
    program.graph_module.recompile()
    return program


programs.add("a program that was edited", _edited, (_X,))


@contextlib.contextmanager
def _doubles() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


programs.exported(
    "another default element type", lambda x: x + torch.tensor(0.1), torch.ones(2), context=_doubles
)
