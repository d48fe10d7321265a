"""Programs that the tests of the page show."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.export import Dim, ExportedProgram, export
from torch.nn import functional


class Block(torch.nn.Module):
    """A layer of a transformer, with attention over itself."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)
        self.mlp = torch.nn.Sequential(
            torch.nn.LayerNorm(width),
            torch.nn.Linear(width, 2 * width),
            torch.nn.GELU(),
            torch.nn.Linear(2 * width, width),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.qkv(self.norm(x)).chunk(3, dim=-1)
        x = x + self.out(functional.scaled_dot_product_attention(query, key, value))
        return x + self.mlp(x)


class Transformer(torch.nn.Module):
    """A small language model whose embedding and head share their weight."""

    def __init__(self, layers: int = 3, width: int = 32, words: int = 100) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(words, width)
        self.layers = torch.nn.ModuleList(Block(width) for _ in range(layers))
        self.head = torch.nn.Linear(width, words, bias=False)
        self.head.weight = self.embedding.weight

    def forward(
        self, tokens: torch.Tensor, options: dict[str, list[torch.Tensor]]
    ) -> dict[str, torch.Tensor | tuple[torch.Tensor, ...]]:
        x = self.embedding(tokens) * options["scale"][0]
        for layer in self.layers:
            x = layer(x)
        return {"logits": self.head(x), "hidden": (x,)}


def transformer() -> ExportedProgram:
    tokens = torch.ones(2, 7, dtype=torch.long)
    sizes = {"tokens": {0: Dim("batch", max=64), 1: Dim("seq", max=128)}, "options": {"scale": [None]}}
    return export(Transformer(), (tokens, {"scale": [torch.ones(1)]}), dynamic_shapes=sizes)


PROGRAMS: tuple[Callable[[], ExportedProgram], ...] = (transformer,)
