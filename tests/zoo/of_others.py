"""Models of libraries of a few architectures each."""

from __future__ import annotations

import torch
from architecture import Architecture, Given, features, image
from conformer import Conformer
from denoising_diffusion_pytorch import Unet
from egnn_pytorch import EGNN_Network
from kornia.feature import HardNet, KeyNet, SOSNet
from linformer import Linformer
from mambapy.mamba import Mamba, MambaConfig
from perceiver_pytorch import Perceiver, PerceiverIO
from pytorch_tabnet.tab_network import TabNet
from rtdl_revisiting_models import MLP, FTTransformer, ResNet
from vector_quantize_pytorch import FSQ


def _continuous_first(batch: int) -> Given:
    return torch.randn(batch, 5), torch.randint(0, 4, (batch, 3))


_TABNET = {"n_steps": 2, "n_independent": 1, "n_shared": 1, "group_attention_matrix": torch.eye(8)}
_HEADS = {"cross_heads": 1, "latent_heads": 2, "cross_dim_head": 8, "latent_dim_head": 8}
_RTDL = {
    "d_block": 16,
    "n_blocks": 2,
    "attention_n_heads": 2,
    "attention_dropout": 0.1,
    "ffn_d_hidden": None,
    "ffn_d_hidden_multiplier": 1.5,
    "ffn_dropout": 0.1,
    "residual_dropout": 0.0,
}

ARCHITECTURES = [
    Architecture(
        "conformer",
        "conformer",
        lambda: Conformer(16, depth=2, dim_head=8, heads=2, conv_kernel_size=7),
        features(12, 16),
    ),
    Architecture(
        "denoising-diffusion-pytorch",
        "unet",
        lambda: Unet(8, dim_mults=(1, 2), attn_dim_head=8, attn_heads=2),
        lambda batch: (torch.randn(batch, 3, 16, 16), torch.full((batch,), 3)),
        False,
    ),
    Architecture(
        "egnn-pytorch",
        "egnn",
        lambda: EGNN_Network(num_tokens=8, num_positions=6, dim=8, depth=2),
        lambda batch: (torch.randint(0, 8, (batch, 6)), torch.randn(batch, 6, 3)),
    ),
    Architecture("kornia", "hardnet", lambda: HardNet(pretrained=False), image(32, 1)),
    Architecture("kornia", "sosnet", lambda: SOSNet(pretrained=False), image(32, 1)),
    Architecture("kornia", "keynet", lambda: KeyNet(pretrained=False), image(32, 1)),
    Architecture("linformer", "linformer", lambda: Linformer(16, 12, 2, k=4, heads=2), features(12, 16)),
    Architecture(
        "mambapy", "mamba", lambda: Mamba(MambaConfig(d_model=16, n_layers=2, d_state=4)), features(8, 16)
    ),
    Architecture(
        "perceiver-pytorch",
        "perceiver",
        lambda: Perceiver(
            num_freq_bands=2,
            depth=2,
            max_freq=8.0,
            num_latents=4,
            latent_dim=16,
            num_classes=10,
            weight_tie_layers=True,
            **_HEADS,
        ),
        lambda batch: (torch.rand(batch, 8, 8, 3),),
    ),
    Architecture(
        "perceiver-pytorch",
        "perceiver-io",
        lambda: PerceiverIO(
            depth=2, dim=8, queries_dim=8, logits_dim=4, num_latents=4, latent_dim=16, **_HEADS
        ),
        lambda batch: {"data": torch.randn(batch, 6, 8), "queries": torch.randn(batch, 3, 8)},
    ),
    Architecture("pytorch-tabnet", "sparsemax", lambda: TabNet(8, 2, **_TABNET), features(8), False),
    Architecture(
        "pytorch-tabnet", "entmax", lambda: TabNet(8, 2, mask_type="entmax", **_TABNET), features(8), False
    ),
    Architecture(
        "rtdl-revisiting-models",
        "mlp",
        lambda: MLP(d_in=5, d_out=1, n_blocks=2, d_block=16, dropout=0.1),
        features(5),
    ),
    Architecture(
        "rtdl-revisiting-models",
        "resnet",
        lambda: ResNet(
            d_in=5, d_out=1, n_blocks=2, d_block=16, d_hidden_multiplier=2.0, dropout1=0.1, dropout2=0.0
        ),
        features(5),
    ),
    Architecture(
        "rtdl-revisiting-models",
        "ft-transformer",
        lambda: FTTransformer(n_cont_features=5, cat_cardinalities=[4, 4, 4], d_out=1, **_RTDL),
        _continuous_first,
        False,
    ),
    Architecture(
        "vector-quantize-pytorch", "finite-scalar", lambda: FSQ(levels=[8, 5, 5], dim=8), features(6, 8)
    ),
]
