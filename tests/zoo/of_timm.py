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


def _row(name: str, side: int = 96, *, in_every_use: bool = True, **config: Any) -> Architecture:
    build = partial(timm.create_model, name, pretrained=False, num_classes=10, **config)
    return Architecture("timm", name, build, image(side), in_every_use=in_every_use)


_variant = partial(_row, in_every_use=False)


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
_STAGES = {"dims": (8, 16, 24, 32), "depths": (1, 1, 1, 1)}
_WINDOWS = {"embed_dim": 16, "depths": (1, 1, 1, 1), "num_heads": (1, 1, 2, 2)}

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
    _row("edgenext_xx_small", 64, heads=(2, 2, 2, 2), **_STAGES),
    *(
        _variant(name, 64, img_size=64, **_TRANSFORMER)
        for name in (
            "vit_tiny_patch16_224",
            "vit_base_patch16_clip_224",
            "vit_base_patch16_siglip_224",
            "vit_medium_patch16_gap_256",
            "vit_relpos_small_patch16_224",
            "beitv2_base_patch16_224",
            "convit_tiny",
            "deit3_small_patch16_224",
            "flexivit_small",
            "samvit_base_patch16_224",
            "visformer_tiny",
        )
    ),
    _variant("vit_small_patch14_reg4_dinov2", 56, img_size=56, **_TRANSFORMER),
    *(_variant(name, 64, **_STAGES) for name in ("convnext_atto", "convnextv2_atto", "inception_next_atto")),
    _variant("swin_tiny_patch4_window7_224", 56, img_size=56, **_WINDOWS),
    _variant("swinv2_tiny_window8_256", 64, img_size=64, **_WINDOWS),
]
