"""Models of segmentation-models-pytorch, on encoders without weights."""

from __future__ import annotations

from functools import partial
from typing import Any

import segmentation_models_pytorch as segmentation
from architecture import Architecture, image

_ENCODER = {"encoder_name": "tu-test_resnet.r160_in1k", "encoder_weights": None, "encoder_depth": 4}


def _row(name: str, **config: Any) -> Architecture:
    build = partial(getattr(segmentation, name), **{**_ENCODER, **config})
    return Architecture("segmentation-models-pytorch", name, build, image(64))


ARCHITECTURES = [
    _row("Unet", decoder_channels=(32, 16, 8, 8)),
    _row("UnetPlusPlus", decoder_channels=(32, 16, 8, 8)),
    _row("FPN", decoder_pyramid_channels=16, decoder_segmentation_channels=32),
    _row("Linknet"),
    _row("PSPNet", encoder_depth=3, psp_out_channels=16),
    _row("DeepLabV3Plus", decoder_channels=16),
    _row("MAnet", decoder_channels=(32, 16, 8, 8), decoder_pab_channels=8),
]
