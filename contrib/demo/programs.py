"""Three example programs: a decoder, a convolutional net, and a model with structured inputs and a branch.

Each function builds a model with fixed random weights and exports it. Sizes are parameters, for benchmarks and tests.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim, ExportedProgram, export

__all__ = ["PROGRAMS", "Example", "Inputs", "convnet", "decoder", "structured"]


class Inputs(NamedTuple):
    """Arguments for one call of a program's module."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Example(NamedTuple):
    """An exported program, and the calls on which its outputs are compared."""

    name: str
    program: ExportedProgram
    calls: tuple[Inputs, ...]
    """The first is the call of the export. If the program has dynamic sizes, others use other sizes."""


# --- a GPT-style decoder ------------------------------------------------------------------------------------


class Block(nn.Module):
    """Pre-norm attention and feed-forward, as in GPT-2."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, sequence, width = x.shape
        qkv = self.qkv(self.attention_norm(x)).view(batch, sequence, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(attended.transpose(1, 2).reshape(batch, sequence, width))
        return x + self.contract(F.gelu(self.expand(self.feed_forward_norm(x))))


class Decoder(nn.Module):
    """Tokens to logits; the token embedding and the output projection are one parameter.

    There is no position embedding: the causal mask alone orders the tokens.
    """

    def __init__(self, layers: int, width: int, heads: int, vocabulary: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        self.lm_head.weight = self.tokens.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x)
        return self.lm_head(self.norm(x))


def decoder(
    layers: int = 12,
    width: int = 64,
    *,
    heads: int = 4,
    vocabulary: int = 512,
    dynamic: bool = True,
) -> Example:
    """Export a GPT-style decoder with tied weights; with `dynamic`, batch and sequence length are symbols.

    With 12 layers and dynamic sizes, the graph has 371 nodes.
    """
    torch.manual_seed(0)
    model = Decoder(layers, width, heads, vocabulary).eval()
    tokens = torch.randint(vocabulary, (2, 16))
    sizes = {0: Dim("batch", min=1, max=64), 1: Dim("sequence", min=2, max=2048)} if dynamic else None
    program = export(model, (tokens,), dynamic_shapes=(sizes,) if dynamic else None)
    calls = [Inputs((tokens,), {})]
    if dynamic:
        calls.append(Inputs((torch.randint(vocabulary, (3, 29)),), {}))
    return Example("decoder", program, tuple(calls))


# --- a convolutional net ------------------------------------------------------------------------------------


class Residual(nn.Module):
    """Two convolutions with batch norm and a shortcut."""

    def __init__(self, channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, out_channels, 3, stride, 1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(out_channels, out_channels, 3, 1, 1, bias=False),
            nn.BatchNorm2d(out_channels),
        )
        same = stride == 1 and channels == out_channels
        self.shortcut = (
            nn.Identity()
            if same
            else nn.Sequential(
                nn.Conv2d(channels, out_channels, 1, stride, bias=False), nn.BatchNorm2d(out_channels)
            )
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.body(x) + self.shortcut(x))


class ConvNet(nn.Module):
    """A small residual classifier; its batch norms keep running statistics as buffers."""

    def __init__(self, stages: int, width: int, classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)
        )
        widths = [width * 2**stage for stage in range(stages)]
        self.stages = nn.Sequential(
            *(
                nn.Sequential(Residual(before, after, 1 if before == after else 2), Residual(after, after, 1))
                for before, after in zip([width, *widths], widths, strict=False)
            )
        )
        self.classifier = nn.Linear(widths[-1], classes)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.classifier(F.adaptive_avg_pool2d(self.stages(self.stem(image)), 1).flatten(1))


def convnet(stages: int = 3, width: int = 16, *, classes: int = 10, dynamic: bool = True) -> Example:
    """Export a residual net in evaluation mode, with batch-norm buffers; with `dynamic`, the batch size is a symbol."""
    torch.manual_seed(0)
    model = ConvNet(stages, width, classes)
    with torch.no_grad():
        model.train()(torch.randn(8, 3, 32, 32))  # Otherwise all running statistics would be zeros and ones.
    model.eval()
    image = torch.randn(2, 3, 32, 32)
    program = export(
        model, (image,), dynamic_shapes=({0: Dim("batch", min=1, max=256)},) if dynamic else None
    )
    calls = [Inputs((image,), {})]
    if dynamic:
        calls.append(Inputs((torch.randn(5, 3, 32, 32),), {}))
    return Example("convnet", program, tuple(calls))


# --- structured inputs and outputs, and a branch ------------------------------------------------------------


class Span(NamedTuple):
    """The start and end of a sequence."""

    start: torch.Tensor
    end: torch.Tensor


@dataclasses.dataclass
class Query:
    """The input of the model."""

    embedding: torch.Tensor
    span: Span


@dataclasses.dataclass
class Answer:
    """The output of the model."""

    score: torch.Tensor
    span: Span
    parts: dict[str, torch.Tensor]


torch.export.register_dataclass(Query, serialized_type_name="graphwire_demo.Query")
torch.export.register_dataclass(Answer, serialized_type_name="graphwire_demo.Answer")
# A namedtuple is a pytree already. Only its serialized name needs registration, for which torch has no public function.
torch.utils._pytree._register_namedtuple(Span, serialized_type_name="graphwire_demo.Span")


class Structured(nn.Module):
    """A model with a branch that takes a dataclass with a namedtuple and a dict, and returns a dataclass and an ordered dict."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.near = nn.Linear(width, width)
        self.far = nn.Linear(width, width)
        self.register_buffer("threshold", torch.tensor(0.0))

    def forward(self, query: Query, context: dict[str, torch.Tensor], *, scale: torch.Tensor) -> Any:
        mixed = query.embedding * context["gain"] + context["bias"]

        def near(x: torch.Tensor) -> torch.Tensor:
            return self.near(x).relu()

        def far(x: torch.Tensor) -> torch.Tensor:
            return self.far(x).tanh()

        hidden = torch.cond(mixed.sum() > self.threshold, near, far, (mixed,))
        span = Span(query.span.start + 1, query.span.end - 1)
        answer = Answer(hidden.mean(-1) * scale, span, {"hidden": hidden, "mixed": mixed})
        return answer, collections.OrderedDict(norm=hidden.norm(), length=span.end - span.start)


def structured(width: int = 16) -> Example:
    """Export a model with dict, namedtuple and dataclass inputs and outputs; its calls take both branches of a `torch.cond`."""
    torch.manual_seed(0)
    model = Structured(width).eval()

    def call(sign: float) -> Inputs:
        query = Query(
            sign * torch.rand(4, width), Span(torch.tensor([0, 1, 2, 3]), torch.tensor([5, 6, 7, 8]))
        )
        context = {"gain": torch.ones(width), "bias": torch.full((width,), sign * 0.1)}
        return Inputs((query, context), {"scale": torch.tensor(2.0)})

    calls = call(1.0), call(-1.0)
    return Example("structured", export(model, calls[0].args, calls[0].kwargs), calls)


PROGRAMS: dict[str, Callable[[], Example]] = {
    "decoder": decoder,
    "convnet": convnet,
    "structured": structured,
}
"""The programs of the demo, by name."""
