"""Models of PyTorch Geometric, on one graph."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from architecture import Architecture, Given
from torch import nn
from torch_geometric import nn as geometric

_NODES = 12


def _graph(_: int) -> Given:
    return torch.randn(_NODES, 8), torch.randint(0, _NODES, (2, 30))


_row = partial(Architecture, "torch-geometric")


def _basic(name: str, **options: object) -> Architecture:
    return _row(name.lower(), lambda: getattr(geometric, name)(8, 16, 2, 4, **options), _graph, False)


def _stack(layer: Callable[[int, int], nn.Module]) -> nn.Module:
    edges = "x, edges -> x"
    return geometric.Sequential(
        "x, edges", [(layer(8, 16), edges), nn.ReLU(inplace=True), (layer(16, 4), edges)]
    )


def _layers(name: str, layer: Callable[[int, int], nn.Module]) -> Architecture:
    return _row(name, lambda: _stack(layer), _graph, False)


_DEGREES = torch.tensor([0, 4, 6, 2])

ARCHITECTURES = [
    _basic("GCN"),
    _basic("GraphSAGE"),
    _basic("GAT", heads=2),
    _basic("GIN", norm="batch_norm"),
    _basic("EdgeCNN"),
    _basic("PNA", aggregators=["mean", "max", "std"], scalers=["identity", "amplification"], deg=_DEGREES),
    _layers("cheb", lambda one, other: geometric.ChebConv(one, other, K=3)),
    _layers("transformer", lambda one, other: geometric.TransformerConv(one, other)),
    _layers("arma", lambda one, other: geometric.ARMAConv(one, other, num_stacks=2)),
    _layers("gatv2", lambda one, other: geometric.GATv2Conv(one, other)),
    _layers("tag", lambda one, other: geometric.TAGConv(one, other)),
    _layers("gated", lambda one, other: geometric.ResGatedGraphConv(one, other)),
]
