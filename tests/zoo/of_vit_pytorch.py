"""Models of vit-pytorch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from architecture import Architecture, Given, features, image
from torch import nn
from vit_pytorch import ViT
from vit_pytorch.cait import CaiT
from vit_pytorch.cct import CCT
from vit_pytorch.cross_vit import CrossViT
from vit_pytorch.deepvit import DeepViT
from vit_pytorch.levit import LeViT
from vit_pytorch.max_vit import MaxViT
from vit_pytorch.nest import NesT
from vit_pytorch.parallel_vit import ViT as ParallelViT
from vit_pytorch.pit import PiT
from vit_pytorch.simple_vit import SimpleViT
from vit_pytorch.simple_vit_1d import SimpleViT as SimpleViT1D
from vit_pytorch.vit_for_small_dataset import ViT as SmallDatasetViT
from vit_pytorch.vivit import ViViT
from vit_pytorch.xcit import XCiT

_VIT = {
    "image_size": 32,
    "patch_size": 8,
    "num_classes": 10,
    "dim": 32,
    "depth": 2,
    "heads": 2,
    "mlp_dim": 64,
}


def _row(
    name: str, kind: Callable[..., nn.Module], inputs: Callable[[int], Given] | None = None, **config: Any
) -> Architecture:
    return Architecture(
        "vit-pytorch", name, partial(kind, **config), inputs or image(config.get("image_size", 32))
    )


ARCHITECTURES = [
    _row("vit", ViT, **_VIT),
    _row("simple-vit", SimpleViT, **_VIT),
    _row("deepvit", DeepViT, **_VIT),
    _row("parallel-vit", ParallelViT, **_VIT),
    _row("vit-for-small-dataset", SmallDatasetViT, **_VIT),
    _row("cait", CaiT, cls_depth=1, **_VIT),
    _row("xcit", XCiT, cls_depth=1, **_VIT),
    _row("pit", PiT, **{**_VIT, "depth": (1, 1), "patch_size": 8}),
    _row(
        "cct",
        CCT,
        img_size=32,
        embedding_dim=32,
        n_conv_layers=1,
        num_layers=2,
        num_heads=2,
        num_classes=10,
        mlp_ratio=2.0,
        kernel_size=7,
        stride=2,
        padding=3,
        pooling_kernel_size=3,
        pooling_stride=2,
        pooling_padding=1,
    ),
    _row(
        "levit",
        LeViT,
        image_size=64,
        num_classes=10,
        stages=2,
        dim=(16, 32),
        depth=1,
        heads=(2, 4),
        mlp_mult=2,
    ),
    _row(
        "nest",
        NesT,
        image_size=32,
        patch_size=4,
        dim=16,
        heads=2,
        num_hierarchies=2,
        block_repeats=(1, 1),
        num_classes=10,
    ),
    _row(
        "crossvit",
        CrossViT,
        image_size=32,
        num_classes=10,
        depth=1,
        sm_dim=16,
        sm_patch_size=8,
        sm_enc_depth=1,
        sm_enc_heads=2,
        sm_enc_mlp_dim=32,
        sm_enc_dim_head=8,
        lg_dim=32,
        lg_patch_size=16,
        lg_enc_depth=1,
        lg_enc_heads=2,
        lg_enc_mlp_dim=32,
        lg_enc_dim_head=8,
        cross_attn_depth=1,
        cross_attn_heads=2,
        cross_attn_dim_head=8,
    ),
    _row(
        "max-vit",
        MaxViT,
        image(64),
        num_classes=10,
        dim_conv_stem=8,
        dim=16,
        dim_head=8,
        depth=(1, 1),
        window_size=4,
        mbconv_expansion_rate=2,
    ),
    _row(
        "simple-vit-1d",
        SimpleViT1D,
        features(3, 32),
        seq_len=32,
        patch_size=8,
        num_classes=10,
        dim=32,
        depth=2,
        heads=2,
        mlp_dim=64,
    ),
    _row(
        "vivit",
        ViViT,
        lambda batch: (torch.rand(batch, 3, 4, 32, 32),),
        image_size=32,
        frames=4,
        image_patch_size=8,
        frame_patch_size=2,
        num_classes=10,
        dim=32,
        spatial_depth=1,
        temporal_depth=1,
        heads=2,
        mlp_dim=64,
    ),
]
