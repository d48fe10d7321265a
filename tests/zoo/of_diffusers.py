"""Models of diffusers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import diffusers
import torch
from architecture import Architecture, Given, image


def _row(name: str, inputs: Callable[[int], Given], dynamic: bool = True, **config: Any) -> Architecture:
    return Architecture("diffusers", name, partial(getattr(diffusers, name), **config), inputs, dynamic)


_SMALL = {"block_out_channels": (8, 16), "norm_num_groups": 4}
_DOWN, _UP = ("DownBlock2D", "AttnDownBlock2D"), ("AttnUpBlock2D", "UpBlock2D")
_CROSS_DOWN, _CROSS_UP = ("DownBlock2D", "CrossAttnDownBlock2D"), ("CrossAttnUpBlock2D", "UpBlock2D")
_CODER = {
    "down_block_types": ("DownEncoderBlock2D",) * 2,
    "up_block_types": ("UpDecoderBlock2D",) * 2,
    **_SMALL,
}


def _latents(channels: int = 4, side: int = 8) -> Callable[[int], dict[str, Any]]:
    return lambda batch: {
        "sample": torch.randn(batch, channels, side, side),
        "timestep": torch.full((batch,), 3),
    }


def _conditioned(batch: int) -> Given:
    return {**_latents()(batch), "encoder_hidden_states": torch.randn(batch, 6, 16)}


def _controlled(batch: int) -> Given:
    return {**_conditioned(batch), "controlnet_cond": torch.rand(batch, 3, 64, 64)}


def _hidden(batch: int) -> dict[str, Any]:
    return {"hidden_states": torch.randn(batch, 4, 8, 8), "timestep": torch.full((batch,), 3)}


def _flux(batch: int) -> Given:
    return {
        "hidden_states": torch.randn(batch, 16, 4),
        "encoder_hidden_states": torch.randn(batch, 6, 16),
        "pooled_projections": torch.randn(batch, 16),
        "timestep": torch.rand(batch),
        "img_ids": torch.zeros(16, 3),
        "txt_ids": torch.zeros(6, 3),
    }


_HEADS = {"num_attention_heads": 2, "attention_head_dim": 8}

ARCHITECTURES = [
    _row(
        "UNet2DModel",
        _latents(),
        sample_size=8,
        in_channels=4,
        out_channels=4,
        layers_per_block=1,
        attention_head_dim=4,
        down_block_types=_DOWN,
        up_block_types=_UP,
        **_SMALL,
    ),
    _row(
        "UNet2DConditionModel",
        _conditioned,
        sample_size=8,
        layers_per_block=1,
        cross_attention_dim=16,
        attention_head_dim=4,
        down_block_types=_CROSS_DOWN,
        up_block_types=_CROSS_UP,
        **_SMALL,
    ),
    _row(
        "UNet1DModel",
        lambda batch: {"sample": torch.randn(batch, 4, 32), "timestep": torch.full((batch,), 3)},
        sample_size=32,
        in_channels=4,
        out_channels=4,
        block_out_channels=(8, 16),
        layers_per_block=1,
        time_embedding_type="positional",
        flip_sin_to_cos=True,
        use_timestep_embedding=True,
        norm_num_groups=4,
        down_block_types=("DownResnetBlock1D", "DownResnetBlock1D"),
        up_block_types=("UpResnetBlock1D",),
        mid_block_type="MidResTemporalBlock1D",
        out_block_type="OutConv1DBlock",
        act_fn="swish",
    ),
    _row(
        "ControlNetModel",
        _controlled,
        layers_per_block=1,
        cross_attention_dim=16,
        attention_head_dim=4,
        down_block_types=_CROSS_DOWN,
        conditioning_embedding_out_channels=(8, 16, 16, 16),
        **_SMALL,
    ),
    _row("AutoencoderKL", image(), **_CODER),
    _row("VQModel", image(), num_vq_embeddings=16, **_CODER),
    _row(
        "AutoencoderTiny",
        image(),
        encoder_block_out_channels=(8, 8),
        decoder_block_out_channels=(8, 8),
        num_encoder_blocks=(1, 1),
        num_decoder_blocks=(1, 1),
    ),
    _row(
        "DiTTransformer2DModel",
        lambda batch: {**_hidden(batch), "class_labels": torch.zeros(batch, dtype=torch.long)},
        sample_size=8,
        in_channels=4,
        num_layers=2,
        num_embeds_ada_norm=10,
        norm_num_groups=4,
        **_HEADS,
    ),
    _row(
        "PixArtTransformer2DModel",
        lambda batch: {**_hidden(batch), "encoder_hidden_states": torch.randn(batch, 6, 16)},
        sample_size=8,
        in_channels=4,
        out_channels=8,
        num_layers=2,
        cross_attention_dim=16,
        caption_channels=16,
        norm_num_groups=4,
        use_additional_conditions=False,
        **_HEADS,
    ),
    _row(
        "SD3Transformer2DModel",
        lambda batch: {
            **_hidden(batch),
            "encoder_hidden_states": torch.randn(batch, 6, 16),
            "pooled_projections": torch.randn(batch, 16),
        },
        sample_size=8,
        patch_size=2,
        in_channels=4,
        out_channels=4,
        num_layers=2,
        joint_attention_dim=16,
        caption_projection_dim=16,
        pooled_projection_dim=16,
        pos_embed_max_size=8,
        **_HEADS,
    ),
    _row(
        "FluxTransformer2DModel",
        _flux,
        False,
        in_channels=4,
        num_layers=1,
        num_single_layers=1,
        joint_attention_dim=16,
        pooled_projection_dim=16,
        axes_dims_rope=(2, 2, 4),
        **_HEADS,
    ),
    _row(
        "PriorTransformer",
        lambda batch: {
            "hidden_states": torch.randn(batch, 16),
            "timestep": torch.full((batch,), 3),
            "proj_embedding": torch.randn(batch, 16),
            "encoder_hidden_states": torch.randn(batch, 6, 16),
        },
        embedding_dim=16,
        num_embeddings=6,
        num_layers=2,
        **_HEADS,
    ),
    _row(
        "AuraFlowTransformer2DModel",
        lambda batch: {
            **_hidden(batch),
            "timestep": torch.rand(batch),
            "encoder_hidden_states": torch.randn(batch, 6, 16),
        },
        sample_size=8,
        patch_size=2,
        in_channels=4,
        num_mmdit_layers=1,
        num_single_dit_layers=1,
        joint_attention_dim=16,
        caption_projection_dim=16,
        out_channels=4,
        pos_embed_max_size=16,
        **_HEADS,
    ),
]
