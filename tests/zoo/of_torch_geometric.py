"""Models of PyTorch Geometric, on one graph."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

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


def _variant(layer: nn.Module) -> Architecture:
    name = type(layer).__name__
    return _row(name, lambda: copy.deepcopy(layer), _graph, False, False)


_CONVOLUTIONS = (
    "GCNConv SAGEConv GraphConv GATConv SGConv LEConv ClusterGCNConv GENConv FeaStConv MFConv FiLMConv SuperGATConv "
    "GeneralConv"
)
_OPTIONS: dict[str, dict[str, Any]] = {
    "jumping": {"jk": "cat"},
    "longest": {"jk": "max", "act": "elu"},
    "normalized": {"norm": "layer_norm", "act_first": True},
}
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
    *(_variant(getattr(geometric, name)(8, 16)) for name in _CONVOLUTIONS.split()),
    _variant(geometric.SSGConv(8, 16, 0.1)),
    _variant(geometric.EGConv(8, 16, num_heads=2)),
    _variant(geometric.WLConvContinuous()),
    _variant(geometric.LGConv()),
    _variant(geometric.AGNNConv()),
    _variant(geometric.SimpleConv()),
    _variant(geometric.AntiSymmetricConv(8)),
    _variant(geometric.DirGNNConv(geometric.SAGEConv(8, 16))),
    _variant(geometric.GatedGraphConv(16, 2)),
    _variant(geometric.GPSConv(8, geometric.SAGEConv(8, 8), heads=2)),
    _variant(geometric.MixHopConv(8, 16, [0, 1, 2])),
    _variant(geometric.APPNP(2, 0.1)),
    *(
        _row(
            f"{name}-{kind}", partial(getattr(geometric, name), 8, 16, 2, 4, **options), _graph, False, False
        )
        for name in ("GCN", "GraphSAGE", "GAT", "EdgeCNN")
        for kind, options in _OPTIONS.items()
    ),
]
