"""Models of OpenCLIP."""

from __future__ import annotations

from functools import partial

import open_clip
import torch
from architecture import Architecture, Given
from torch import nn

_row = partial(Architecture, "open-clip-torch")
_TEXT = {"context_length": 8, "vocab_size": 64, "width": 32, "heads": 2, "layers": 2}
_VISION = {"layers": 2, "width": 32, "head_width": 16, "patch_size": 8, "image_size": 32}


def _clip() -> nn.Module:
    return open_clip.CLIP(16, open_clip.CLIPVisionCfg(**_VISION), open_clip.CLIPTextCfg(**_TEXT))


def _text_first() -> nn.Module:
    vision, text = open_clip.CLIPVisionCfg(**_VISION), open_clip.CLIPTextCfg(**_TEXT)
    return open_clip.CustomTextCLIP(16, vision, text, init_logit_bias=-10.0, output_dict=True)


def _both(batch: int) -> Given:
    return torch.rand(batch, 3, 32, 32), torch.randint(1, 64, (batch, 8))


ARCHITECTURES = [
    _row("clip", _clip, _both),
    _row("siglip", _text_first, _both),
]
