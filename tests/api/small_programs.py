"""Small real programs, each for one thing that a file must keep; named by that thing.

`SMALL_PROGRAMS` has a function for each, which makes the same program each time.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from programs import PROGRAMS, Example, Inputs, decoder
from torch import Tensor, nn
from torch._higher_order_ops import effects as torch_effects
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch.export import Dim, ExportedProgram, export
from torch.fx import traceback

SMALL_PROGRAMS: dict[str, Callable[[], Example]] = {}
"""A maker for each program, by name."""

DECOMPOSED = (
    "effects",
    "mutated_parameter",
    "custom_operator",
    "mutated_buffers",
    "mutated_inputs",
    "cond",
    "unbacked_sizes",
)
"""Programs that are also tested after `run_decompositions()`, under NAME_decomposed."""


def _program(function: Callable[[], tuple[ExportedProgram, list[Inputs]]]) -> None:
    def make() -> Example:
        torch.manual_seed(0)
        program, calls = function()
        return Example(function.__name__, program, tuple(calls))

    SMALL_PROGRAMS[function.__name__] = make


def _exported(module: nn.Module, *args: Any, **options: Any) -> ExportedProgram:
    return export(module.eval(), args, **options)


def _call(*args: Any, **kwargs: Any) -> Inputs:
    return Inputs(args, kwargs)


def module_of(forward: Callable[..., Any]) -> nn.Module:
    """A module without parameters around a function."""
    return type("Function", (nn.Module,), {"forward": staticmethod(forward)})()


# --------------------------------------------------------------------------------------------------- operators


@torch.library.custom_op("graphwire_test::mix", mutates_args=())
def _mix(
    parts: list[Tensor], weight: float, bias: Tensor | None, axes: list[int], mode: str = "sum"
) -> tuple[Tensor, Tensor, list[Tensor]]:
    total = torch.stack(parts).sum(0) * weight
    if bias is not None:
        total = total + bias
    return total, total.mean(axes) if mode == "mean" else total.sum(axes), [part + 1 for part in parts]


@_mix.register_fake
def _(parts: list[Tensor], weight: float, bias: Tensor | None, axes: list[int], mode: str = "sum") -> Any:
    return torch.empty_like(parts[0]), parts[0].sum(axes), [torch.empty_like(part) for part in parts]


@torch.library.custom_op("graphwire_test::positives", mutates_args=())
def _positives(x: Tensor) -> tuple[Tensor, int]:
    kept = x[x > 0].clone()
    return kept, kept.numel()


@_positives.register_fake
def _(x: Tensor) -> Any:
    size = torch.library.get_ctx().new_dynamic_size()
    return x.new_empty(size), size


@_program
def custom_operator() -> Any:
    """An operator of `torch.library` with lists, a float, an optional tensor, text, and several outputs."""

    def forward(x: Tensor, y: Tensor) -> Any:
        total, reduced, parts = torch.ops.graphwire_test.mix([x, y], 0.5, None, [0, 1], mode="mean")
        again, _, _ = torch.ops.graphwire_test.mix([x], 2.0, y, [1])
        return total + again, reduced, parts[1]

    args = torch.randn(3, 4), torch.randn(3, 4)
    return _exported(module_of(forward), *args), [_call(*args)]


@_program
def custom_operator_that_returns_an_integer() -> Any:
    def forward(x: Tensor) -> Any:
        kept, count = torch.ops.graphwire_test.positives(x)
        return kept * 2, count

    x = torch.randn(20)
    return _exported(module_of(forward), x), [_call(x), _call(torch.randn(20))]


@torch.library.custom_op("graphwire_test::note", mutates_args=())
def _note(x: Tensor) -> Tensor:
    return x.clone()


@_note.register_fake
def _(x: Tensor) -> Any:
    return torch.empty_like(x)


torch_effects._register_effectful_op(torch.ops.graphwire_test.note.default, torch_effects._EffectType.ORDERED)


@_program
def effects() -> Any:
    """Operators whose order matters: decomposed, tokens go through them, in and out of the graph."""

    def forward(x: Tensor) -> Any:
        return torch.ops.graphwire_test.note(torch.ops.graphwire_test.note(x) + 1)

    x = torch.randn(3)
    return _exported(module_of(forward), x), [_call(x)]


@_program
def multiple_outputs() -> Any:
    """Tuples, lists and named tuples of operators, with elements that nothing reads."""

    def forward(x: Tensor) -> Any:
        first, *_, last = x.unbind(0)
        values, indices = x.topk(2)
        mean = torch.native_layer_norm(x, [6], None, None, 1e-5)[1]
        low, high = x.split([2, 4], dim=1)
        return (
            first + last,
            values,
            indices,
            mean,
            high,
            x.sort(descending=True).values,
            x.chunk(3, 1)[1],
            low,
        )

    x = torch.randn(5, 6)
    return _exported(module_of(forward), x), [_call(x)]


@_program
def arguments_of_every_kind() -> Any:
    """None in a list, absent optionals, lists of numbers, element types, devices, layouts, infinities, text, complex."""

    def forward(x: Tensor, i: Tensor) -> Any:
        y = x[:, None, i].clamp(max=0.5)
        z = F.interpolate(x[None, None], scale_factor=[2.0, 1.5], mode="bilinear", antialias=False)
        ones = torch.ones(3, dtype=torch.bfloat16, device="cpu", layout=torch.strided)
        held = torch.full((2,), float("-inf")).masked_fill(torch.tensor([True, False]), float("nan"))
        counts = torch.zeros(4, 4).scatter_reduce(0, i[None], torch.ones(1, 2), reduce="amax")
        channels = x.view(1, 2, 2, 4).to(memory_format=torch.channels_last)
        turned = torch.full((2,), 1 + 2j, dtype=torch.complex64) * 0.5j
        filled = torch.ops.aten.index_put.default(x, [None, i], torch.tensor(-0.0))
        padded = F.pad(x, [1, 0, 0, 2], value=-0.0)
        return (
            y,
            z,
            ones,
            held,
            counts,
            channels,
            turned,
            filled,
            padded,
            torch.cat([x, x], dim=-1).to(torch.float64),
        )

    args = torch.randn(4, 4), torch.tensor([1, 3])
    return _exported(module_of(forward), *args), [_call(*args)]


# ------------------------------------------------------------------------------------------------------ symbols


@_program
def ranges_of_dimensions() -> Any:
    """Three symbols with ranges of their own, one of them without an upper end."""

    def forward(x: Tensor) -> Any:
        return x.flatten(1).sum(1), x.shape[1]

    sizes = {0: Dim("a", min=2, max=9), 1: Dim("b", min=3), 2: Dim("c", max=1 << 40)}
    x = torch.randn(4, 5, 6)
    program = _exported(module_of(forward), x, dynamic_shapes=(sizes,))
    return program, [_call(x), _call(torch.randn(9, 3, 2))]


@_program
def unbacked_sizes() -> Any:
    """Sizes that are known only when the program runs, with what was asserted of them."""

    def forward(x: Tensor, n: Tensor) -> Any:
        count = n.item()
        torch._check(count >= 2)
        torch._check(count <= 30)
        rows = torch.nonzero(x)
        return rows, x.new_ones(count, 3).cumsum(0), count * 2, rows.shape[0]

    x = torch.tensor([[1.0, 0.0, 2.0], [0.0, 3.0, 4.0]])
    return _exported(module_of(forward), x, torch.tensor(5)), [
        _call(x, torch.tensor(5)),
        _call(x - 1, torch.tensor(9)),
    ]


@_program
def guards() -> Any:
    """Conditions on sizes that `module()` checks, and assertions in the graph."""

    def forward(x: Tensor, y: Tensor) -> Any:
        torch._check(x.shape[0] != 5)
        torch._check((x.shape[0] * 2) % 4 == 0)
        return x[: y.shape[0]] + y.sum(), x.view(2, -1)

    x, y = torch.randn(8, 3), torch.randn(4, 3)
    dynamic = ({0: Dim.DYNAMIC}, {0: Dim.AUTO})
    program = _exported(
        module_of(forward), x, y, dynamic_shapes=dynamic, prefer_deferred_runtime_asserts_over_guards=True
    )
    return program, [_call(x, y), _call(torch.randn(12, 3), torch.randn(3, 3))]


# -------------------------------------------------------------------------------------------------- control flow


class _Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Any:
        def inner(y: Tensor) -> tuple[Tensor, Tensor]:
            return torch.cond(
                y.mean() > 1, lambda z: (self.left(z), z + 1), lambda z: (z.sin(), z.cos()), (y,)
            )

        def outer(y: Tensor) -> tuple[Tensor, Tensor]:
            return self.right(y), y * y.shape[0]

        first, second = torch.cond(x.sum() > 0, inner, outer, (x,))
        (third,) = torch.cond(x.shape[0] > 4, lambda y: (y + 1,), lambda y: (y - 1,), (x,))
        return first, second, third


@_program
def cond() -> Any:
    """A branch within a branch, one on a size; parameters and a symbol go into the branches."""
    x = torch.rand(3, 4)
    program = _exported(_Branches(), x, dynamic_shapes=({0: Dim("rows", min=2, max=64)},))
    return program, [_call(x), _call(-x), _call(torch.rand(6, 4) * 9)]


@_program
def map_and_scan() -> Any:
    def forward(xs: Tensor, y: Tensor) -> Any:
        mapped = map_over(lambda x, other: x * other + 1, xs, y)
        carry, rows = scan(lambda total, x: (total + x, total * x), y, xs)
        return mapped, carry, rows

    args = torch.randn(5, 3), torch.randn(3)
    return _exported(module_of(forward), *args), [_call(*args)]


# ------------------------------------------------------------------------------- inputs, outputs, buffers, constants


@_program
def inputs_of_every_kind() -> Any:
    """Literals, None and text among the inputs, by position and by name, and an input that nothing reads."""

    def forward(
        x: Tensor, n: int, unused: Tensor, *, mode: str, flag: bool, scale: float, absent: Any = None
    ) -> Any:
        assert (mode, flag, absent) == ("double", True, None)
        return x * n * scale

    x, unused = torch.randn(3), torch.randn(2)
    call = _call(x, 3, unused, mode="double", flag=True, scale=0.5, absent=None)
    return export(module_of(forward), call.args, call.kwargs), [call]


class _Outputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3))
        self.register_buffer("table", torch.arange(3.0))

    def forward(self, x: Tensor) -> Any:
        y = x + self.weight
        return {
            "tensor": y,
            "again": [y, y],
            "input": x,
            "parameter": self.weight,
            "buffer": self.table,
            "integer": 3,
            "float": -0.0,
            "infinity": float("inf"),
            "truth": True,
            "text": "text, with\n\u2028 \0 and 'quotes'",
            "nothing": None,
            "size": x.shape[0],
        }


@_program
def any_number_of_inputs() -> Any:
    """Inputs by `*args` and `**kwargs`, and names that Python or torch has for something else."""

    def forward(self_: Tensor, input: Tensor, *args: Tensor, **kwargs: Any) -> Any:
        return self_ + input + args[1] * kwargs["lambda_"] + kwargs["deep"]["er"]

    x = torch.randn(3)
    call = _call(x, x + 1, x + 2, x + 3, lambda_=x + 4, deep={"er": x + 5})
    return export(module_of(forward), call.args, call.kwargs), [call]


@_program
def outputs_of_every_kind() -> Any:
    x = torch.randn(3)
    return _exported(_Outputs(), x), [_call(x)]


class _Buffers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.randn(3))
        self.register_buffer("dropped", torch.randn(3), persistent=False)
        self.register_buffer("unused", torch.randn(2))
        self.plain = torch.tensor([1.0, 2.0, 3.0])
        self.frozen = nn.Parameter(torch.randn(3), requires_grad=False)

    def forward(self, x: Tensor) -> Any:
        return x * self.kept + self.dropped + self.plain + self.frozen + torch.tensor([0.5, 0.25, -0.0])


@_program
def buffers_and_constants() -> Any:
    """Buffers in and out of the state dict, one that nothing reads, a lifted tensor, a plain attribute, a frozen weight."""
    x = torch.randn(3)
    return _exported(_Buffers(), x), [_call(x)]


class _Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(2))
        self.register_buffer("scratch", torch.ones(2), persistent=False)

    def forward(self, x: Tensor) -> Any:
        self.count.add_(x)
        self.scratch.mul_(2)
        return x + self.count + self.scratch


@_program
def mutated_buffers() -> Any:
    x = torch.randn(2)
    return _exported(_Counter(), x), [_call(x), _call(torch.randn(2))]


class _Drift(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2), requires_grad=False)

    def forward(self, x: Tensor) -> Any:
        return self.weight.mul_(2) + x


@_program
def mutated_parameter() -> Any:
    x = torch.randn(2)
    return _exported(_Drift(), x), [_call(x)]


@_program
def mutated_inputs() -> Any:
    def forward(x: Tensor, parts: list[Tensor]) -> Any:
        x.mul_(2)
        parts[1].copy_(x)
        return parts[0] + x

    args = torch.randn(2), [torch.randn(2), torch.randn(2)]
    return _exported(module_of(forward), *args), [_call(*args)]


# --------------------------------------------------------------------------------------- containers, modules, metadata


class Pair(NamedTuple):
    """A named tuple that is registered under a name."""

    left: Any
    right: Any


@dataclasses.dataclass
class Box:
    """A dataclass; one of its fields may be None."""

    content: Any
    label: Any = None


torch.utils._pytree._register_namedtuple(Pair, serialized_type_name="graphwire_test.Pair")
torch.export.register_dataclass(Box, serialized_type_name="graphwire_test.Box")


@_program
def containers() -> Any:
    """Every container type, in the inputs and in the outputs."""

    def forward(a: Any, b: Any, *, c: Any, d: Any) -> Any:
        x = a[0] + a[1][0] + b["k"] + c.left
        ordered = collections.OrderedDict(z=x, a=d.content)
        counted = collections.defaultdict(list, {"one": [x + 1], "none": []})
        queue = collections.deque([x + 2, x + 3], maxlen=5)
        return [Pair(x, (x.neg(),)), ordered, counted, queue, Box(x * 2), x.topk(2), {"size": x.shape, 3: ()}]

    x = torch.randn(4)
    call = _call((x, [x]), {"k": x, "unread": x}, c=Pair(x, collections.deque([x])), d=Box(x, None))
    return export(module_of(forward), call.args, call.kwargs), [call]


class _Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, pair: Pair, *, scale: Tensor) -> Any:
        return {"sum": self.linear(pair.left) + pair.right, "scaled": pair.left * scale}


class _Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = _Inner()
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.ReLU()])

    def forward(self, x: Tensor) -> Any:
        first = self.inner(Pair(x, x + 1), scale=x)
        second = self.inner(Pair(first["sum"], x), scale=first["scaled"])
        for layer in self.layers:
            x = layer(x)
        return second, x


@_program
def preserved_module_calls() -> Any:
    """A submodule that is called twice, with a signature of its own that `unflatten` restores."""
    x = torch.randn(2, 3)
    program = _exported(_Outer(), x, preserve_module_call_signature=("inner", "layers.0"))
    return program, [_call(x)]


@_program
def strict_export() -> Any:
    """Exported through dynamo, whose metadata has source functions."""
    x = torch.randn(2, 3)
    sizes = ({0: Dim("rows", min=2, max=32)},)
    return _exported(_Outer(), x, strict=True, dynamic_shapes=sizes), [_call(x), _call(torch.randn(5, 3))]


@_program
def annotated() -> Any:
    """Data of the user's own on nodes, placeholders, the output and the program."""

    def forward(x: Tensor) -> Any:
        with traceback.annotate({"stage": 1, "tags": ["a", "b"]}):
            y = x.sin()
        with traceback.annotate({"stage": 2}):
            return y.topk(2), y

    x = torch.randn(3)
    with traceback.preserve_node_meta():
        program = _exported(module_of(forward), x)
    for node in program.graph.nodes:
        if node.op in ("placeholder", "output"):
            node.meta["custom"] = {"at": node.op, "level": 0.5, "none": None}
    program.graph_module.meta["custom"] = {"who": "me", "when": [1, 2.5, None, "\u2028"]}
    return program, [_call(x)]


class _Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(7, 4)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.tokens.weight
        self.register_buffer("scale", torch.ones(4))
        self.register_buffer("same_scale", self.scale)
        self.register_buffer("row", self.scale[:2])

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.tokens(tokens) * self.scale + self.same_scale) + self.row.sum()


@_program
def tied_weights() -> Any:
    """One parameter under two names, one buffer under two names, and a buffer that is a part of it."""
    tokens = torch.tensor([[1, 2, 3]])
    return _exported(_Tied(), tokens), [_call(tokens)]


def _decomposed(name: str) -> None:
    def make() -> Example:
        example = SMALL_PROGRAMS[name]()
        return Example(f"{name}_decomposed", example.program.run_decompositions(), example.calls)

    SMALL_PROGRAMS[f"{name}_decomposed"] = make


for _name in DECOMPOSED:
    _decomposed(_name)

ALL_PROGRAMS: dict[str, Callable[[], Example]] = {
    **SMALL_PROGRAMS,
    **PROGRAMS,
    "decoder": functools.partial(decoder, 1),  # as the demo's, with fewer layers
}
"""These programs and those of the demo."""


@functools.cache
def shared_example(name: str) -> Example:
    """One of `ALL_PROGRAMS`, exported once in a process for all tests that only read it. None may change it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what torch has to say of a model is not what is tested
        return ALL_PROGRAMS[name]()


def unused_example(name: str) -> Example:
    """One of `ALL_PROGRAMS` that no test has run: torch's `module()` removes the tokens of effects from the program itself."""
    return ALL_PROGRAMS[name]() if name.startswith("effects") else shared_example(name)
