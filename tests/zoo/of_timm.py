"""Models of timm."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import timm
from architecture import Architecture, image
from timm.layers import GatedMlp, Mlp
from timm.models.convmixer import ConvMixer
from timm.models.metaformer import MetaFormer
from timm.models.mlp_mixer import MlpMixer, ResBlock, SpatialGatingBlock
from timm.models.pit import PoolingVisionTransformer
from torch import nn


def _row(name: str, side: int = 96, **config: Any) -> Architecture:
    return Architecture(
        "timm",
        name,
        partial(timm.create_model, name, pretrained=False, num_classes=10, **config),
        image(side),
    )


def _made(name: str, build: Callable[[], nn.Module]) -> Architecture:
    return Architecture("timm", name, build, image(64))


def _mlp(block: type[nn.Module], layer: type[nn.Module]) -> nn.Module:
    return MlpMixer(
        10, 64, patch_size=16, num_blocks=2, embed_dim=32, mlp_ratio=4, block_layer=block, mlp_layer=layer
    )


def _pit() -> nn.Module:
    return PoolingVisionTransformer(
        64, 16, 8, "overlap", base_dims=(8, 8), depth=(1, 1), heads=(2, 4), mlp_ratio=2, num_classes=10
    )


_TRANSFORMER = {"embed_dim": 32, "depth": 2, "num_heads": 2}

ARCHITECTURES = [
    _row("test_vit", 160),
    _row("test_resnet"),
    _row("test_efficientnet"),
    _row("test_byobnet"),
    _row("test_convnext"),
    _row("test_mambaout"),
    _row("deit_tiny_distilled_patch16_224", 32, img_size=32, **_TRANSFORMER),
    _row("beit_base_patch16_224", 32, img_size=32, **_TRANSFORMER),
    _row("eva02_tiny_patch14_224", 28, img_size=28, **_TRANSFORMER),
    _row("cait_xxs24_224", 64, img_size=64, **_TRANSFORMER),
    _row("xcit_nano_12_p16_224", 64, img_size=64, **_TRANSFORMER),
    _made("mixer", lambda: MlpMixer(10, 64, patch_size=16, num_blocks=2, embed_dim=32)),
    _made("gmlp", lambda: _mlp(SpatialGatingBlock, GatedMlp)),
    _made("resmlp", lambda: _mlp(ResBlock, Mlp)),
    _made("convmixer", lambda: ConvMixer(32, 2, num_classes=10)),
    _made("poolformer", lambda: MetaFormer(depths=(1, 1, 1, 1), dims=(8, 16, 24, 32), num_classes=10)),
    _made("pit", _pit),
    _row("edgenext_xx_small", 64, dims=(8, 16, 24, 32), depths=(1, 1, 1, 1), heads=(2, 2, 2, 2)),
]
