"""Models of x-transformers."""

from __future__ import annotations

from functools import partial
from typing import Any

from architecture import Architecture, features, image, tokens
from torch import nn
from x_transformers import (
    ContinuousTransformerWrapper,
    Decoder,
    Encoder,
    TransformerWrapper,
    ViTransformerWrapper,
)

_row = partial(Architecture, "x-transformers")
_SMALL = {"dim": 32, "depth": 2, "heads": 2, "attn_dim_head": 16}


def _text(kind: type[nn.Module], **options: Any) -> nn.Module:
    return TransformerWrapper(num_tokens=64, max_seq_len=16, attn_layers=kind(**_SMALL, **options))


ARCHITECTURES = [
    _row("decoder", lambda: _text(Decoder), tokens()),
    _row("encoder", lambda: _text(Encoder, ff_glu=True, use_rmsnorm=True), tokens()),
    _row("rotary", lambda: _text(Decoder, rotary_pos_emb=True), tokens()),
    _row("alibi", lambda: _text(Decoder, alibi_pos_bias=True, alibi_num_heads=1), tokens()),
    _row("t5-bias", lambda: _text(Encoder, rel_pos_bias=True), tokens()),
    _row("macaron", lambda: _text(Encoder, macaron=True, attn_qk_norm=True), tokens()),
    _row(
        "image",
        lambda: ViTransformerWrapper(
            image_size=32, patch_size=8, num_classes=10, attn_layers=Encoder(**_SMALL)
        ),
        image(),
    ),
    _row(
        "continuous",
        lambda: ContinuousTransformerWrapper(
            dim_in=8, dim_out=4, max_seq_len=16, attn_layers=Encoder(**_SMALL)
        ),
        features(8, 8),
    ),
]
