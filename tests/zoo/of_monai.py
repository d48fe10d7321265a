"""Models of MONAI, on volumes of one channel."""

from __future__ import annotations

from functools import partial
from typing import Any

from architecture import Architecture, image, volume
from monai.networks import nets


def _row(name: str, side: int = 16, dimensions: int = 3, **config: Any) -> Architecture:
    inputs = volume(side) if dimensions == 3 else image(side, 1)
    return Architecture("monai", name, partial(getattr(nets, name), **config), inputs)


_VOLUME = {"spatial_dims": 3, "in_channels": 1, "out_channels": 2}
_IMAGE = {"spatial_dims": 2, "in_channels": 1, "out_channels": 2}

ARCHITECTURES = [
    _row("UNet", channels=(4, 8, 16), strides=(2, 2), num_res_units=1, **_VOLUME),
    _row("AttentionUnet", channels=(4, 8, 16), strides=(2, 2), **_VOLUME),
    _row("BasicUNet", 32, 2, features=(4, 4, 8, 8, 16, 4), **_IMAGE),
    _row("BasicUNetPlusPlus", 32, 2, features=(4, 4, 8, 8, 16, 4), **_IMAGE),
    _row("SegResNet", blocks_down=(1, 1, 1), blocks_up=(1, 1), **_VOLUME),
    _row(
        "DynUNet",
        kernel_size=[3, 3, 3],
        strides=[1, 2, 2],
        upsample_kernel_size=[2, 2],
        filters=[4, 8, 16],
        res_block=True,
        **_VOLUME,
    ),
    _row("DenseNet", 32, 2, init_features=8, growth_rate=4, block_config=(1, 1), **_IMAGE),
    _row(
        "MedNeXt",
        32,
        2,
        init_filters=8,
        blocks_down=(1, 1, 1, 1),
        blocks_up=(1, 1, 1, 1),
        blocks_bottleneck=1,
        kernel_size=3,
        **_IMAGE,
    ),
    _row("AutoEncoder", channels=(4, 8), strides=(2, 2), **_VOLUME),
]
