"""Architectures of `transformers`, each as a small config whose weights are random, with inputs for any batch size.

`ARCHITECTURES` export on torch 2.13 with a static and with a dynamic batch. `DO_NOT_EXPORT` says why others do not.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.export import Dim, ExportedProgram
from transformers import AutoConfig, AutoModel, CLIPVisionModel, T5EncoderModel
from transformers.models.whisper.modeling_whisper import WhisperEncoder

__all__ = ["ARCHITECTURES", "DO_NOT_EXPORT", "Architecture", "build", "export"]

Inputs = dict[str, torch.Tensor]


class Architecture(NamedTuple):
    """One kind of model, and how to call it."""

    model_type: str
    """What `transformers` calls the config."""
    config: dict[str, Any]
    inputs: Callable[[int], Inputs]
    """Keyword arguments of one call, for a batch size."""
    model_class: Any = AutoModel
    """Makes the model of a config: an auto class by `from_config`, or a model's own class."""


def build(architecture: Architecture, **options: Any) -> torch.nn.Module:
    """The model in eval mode, with the same random weights every time.

    Args:
        options: more of the config. A cache of keys and values is not returned unless they say so.
    """
    torch.manual_seed(0)
    config = AutoConfig.for_model(architecture.model_type, **{**architecture.config, **options})
    if hasattr(config, "use_cache") and "use_cache" not in options:
        config.use_cache = False
    make = getattr(architecture.model_class, "from_config", architecture.model_class)
    model: torch.nn.Module = make(config).eval()
    return model


def export(model: torch.nn.Module, inputs: Inputs, *, dynamic: bool) -> ExportedProgram:
    """The exported model; with `dynamic`, the first dimension of every input is one symbol."""
    batch = {0: Dim("batch", min=1, max=64)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what models and torch say while they trace
        return torch.export.export(
            model,
            (),
            inputs,
            dynamic_shapes={name: batch for name in inputs} if dynamic else None,
            strict=False,
        )


# --- inputs ---------------------------------------------------------------------------------------------------

_VOCABULARY = 96
_LENGTH = 8


def _ids(batch: int, length: int = _LENGTH) -> torch.Tensor:
    return torch.randint(3, 90, (batch, length))


def _tokens(batch: int) -> Inputs:
    return {"input_ids": _ids(batch)}


def _masked_tokens(batch: int) -> Inputs:
    mask = torch.ones(batch, _LENGTH, dtype=torch.long)
    mask[0, -2:] = 0
    return {"input_ids": _ids(batch), "attention_mask": mask}


def _two_texts(batch: int) -> Inputs:
    return {**_masked_tokens(batch), "decoder_input_ids": _ids(batch, 6)}


def _image(batch: int) -> Inputs:
    return {"pixel_values": torch.rand(batch, 3, 32, 32)}


def _large_image(batch: int) -> Inputs:
    return {"pixel_values": torch.rand(batch, 3, 64, 64)}


def _video(batch: int) -> Inputs:
    return {"pixel_values": torch.rand(batch, 4, 3, 32, 32)}


def _sound(batch: int) -> Inputs:
    return {"input_values": torch.rand(batch, 400)}


def _spectrogram(batch: int) -> Inputs:
    return {"input_features": torch.rand(batch, 8, 32)}


# --- configs --------------------------------------------------------------------------------------------------

_TEXT = {
    "vocab_size": _VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_GROUPED = {**_TEXT, "num_key_value_heads": 2, "head_dim": 8}
_GPT2 = {"vocab_size": _VOCABULARY, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4}
_T5 = {
    "vocab_size": _VOCABULARY,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": 0,
}
_BART = {
    "vocab_size": _VOCABULARY,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}
_WHISPER = {**_BART, "num_mel_bins": 8, "max_source_positions": 16, "max_target_positions": 16}
_VISION = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "image_size": 32,
    "patch_size": 8,
}
_SOUND = {
    **_TEXT,
    "conv_dim": (16, 16),
    "conv_stride": (5, 4),
    "conv_kernel": (10, 8),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
}
_CONVOLUTIONS = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1], "image_size": 32}
_MAMBA = {"vocab_size": _VOCABULARY, "hidden_size": 32, "state_size": 4, "num_hidden_layers": 2}


ARCHITECTURES: dict[str, Architecture] = {
    # decoders
    "gpt2": Architecture("gpt2", _GPT2, _masked_tokens),
    "gptj": Architecture("gptj", {**_GPT2, "rotary_dim": 4}, _masked_tokens),
    "gpt-neox": Architecture("gpt_neox", _TEXT, _masked_tokens),
    "llama": Architecture("llama", _GROUPED, _masked_tokens),
    "mistral": Architecture("mistral", _GROUPED, _masked_tokens),
    "qwen2": Architecture("qwen2", _GROUPED, _masked_tokens),
    "qwen3": Architecture("qwen3", _GROUPED, _masked_tokens),
    "gemma": Architecture("gemma", _GROUPED, _masked_tokens),
    "gemma2": Architecture("gemma2", _GROUPED, _masked_tokens),
    "phi": Architecture("phi", _TEXT, _masked_tokens),
    "phi3": Architecture("phi3", _GROUPED, _masked_tokens),
    "falcon": Architecture("falcon", {**_TEXT, "new_decoder_architecture": False}, _masked_tokens),
    "opt": Architecture("opt", {**_TEXT, "ffn_dim": 64, "word_embed_proj_dim": 32}, _masked_tokens),
    "bloom": Architecture(
        "bloom", {"vocab_size": _VOCABULARY, "hidden_size": 32, "n_layer": 2, "n_head": 4}, _masked_tokens
    ),
    # mixtures of experts
    "mixtral": Architecture(
        "mixtral", {**_GROUPED, "num_local_experts": 2, "num_experts_per_tok": 1}, _masked_tokens
    ),
    "gpt-oss": Architecture(
        "gpt_oss",
        {**_GROUPED, "num_local_experts": 2, "num_experts_per_tok": 1, "sliding_window": 4},
        _masked_tokens,
    ),
    # encoders
    "bert": Architecture("bert", _TEXT, _masked_tokens),
    "roberta": Architecture("roberta", _TEXT, _masked_tokens),
    "distilbert": Architecture(
        "distilbert",
        {
            "vocab_size": _VOCABULARY,
            "dim": 32,
            "n_layers": 2,
            "n_heads": 4,
            "hidden_dim": 64,
            "max_position_embeddings": 64,
        },
        _masked_tokens,
    ),
    "albert": Architecture("albert", {**_TEXT, "embedding_size": 16}, _masked_tokens),
    "electra": Architecture("electra", {**_TEXT, "embedding_size": 16}, _masked_tokens),
    "deberta": Architecture(
        "deberta",
        {**_TEXT, "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "max_relative_positions": 16},
        _masked_tokens,
    ),
    "deberta-v2": Architecture(
        "deberta-v2",
        {**_TEXT, "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 8},
        _masked_tokens,
    ),
    "modernbert": Architecture(
        "modernbert", {**_TEXT, "cls_token_id": 1, "sep_token_id": 2, "local_attention": 8}, _masked_tokens
    ),
    "fnet": Architecture("fnet", _TEXT, _tokens),
    "xlnet": Architecture(
        "xlnet",
        {"vocab_size": _VOCABULARY, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64},
        _masked_tokens,
    ),
    # encoders and decoders
    "t5-encoder": Architecture("t5", _T5, _masked_tokens, T5EncoderModel),
    "t5": Architecture("t5", _T5, _two_texts),
    "bart": Architecture("bart", _BART, _two_texts),
    "marian": Architecture("marian", _BART, _two_texts),
    # images and video
    "vit": Architecture("vit", _VISION, _image),
    "vit-mae": Architecture("vit_mae", _VISION, _image),
    "deit": Architecture("deit", _VISION, _image),
    "beit": Architecture("beit", _VISION, _image),
    "dinov2": Architecture("dinov2", _VISION, _image),
    "clip-vision": Architecture("clip_vision_model", _VISION, _image, CLIPVisionModel),
    "swin": Architecture(
        "swin",
        {
            "image_size": 32,
            "patch_size": 4,
            "embed_dim": 16,
            "depths": [1, 1],
            "num_heads": [2, 4],
            "window_size": 4,
        },
        _image,
    ),
    "convnext": Architecture("convnext", _CONVOLUTIONS, _large_image),
    "resnet": Architecture(
        "resnet",
        {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"},
        _image,
    ),
    "mobilevit": Architecture(
        "mobilevit",
        {
            "image_size": 64,
            "hidden_sizes": [16, 24, 32],
            "neck_hidden_sizes": [8, 8, 16, 16, 24, 24, 32],
            "num_attention_heads": 2,
        },
        _large_image,
    ),
    "segformer": Architecture(
        "segformer",
        {
            "num_encoder_blocks": 2,
            "depths": [1, 1],
            "sr_ratios": [2, 1],
            "hidden_sizes": [16, 32],
            "patch_sizes": [7, 3],
            "strides": [4, 2],
            "num_attention_heads": [1, 2],
            "mlp_ratios": [2, 2],
        },
        _image,
    ),
    "videomae": Architecture("videomae", {**_VISION, "num_frames": 4, "tubelet_size": 2}, _video),
    # sound
    "wav2vec2": Architecture("wav2vec2", _SOUND, _sound),
    "hubert": Architecture("hubert", _SOUND, _sound),
    "whisper-encoder": Architecture("whisper", _WHISPER, _spectrogram, WhisperEncoder),
    "whisper": Architecture(
        "whisper", _WHISPER, lambda batch: {**_spectrogram(batch), "decoder_input_ids": _ids(batch, 6)}
    ),
    # text and images
    "clip": Architecture(
        "clip",
        {"text_config": _TEXT, "vision_config": _VISION, "projection_dim": 16},
        lambda batch: {**_masked_tokens(batch), **_image(batch)},
    ),
    # recurrent
    "mamba": Architecture("mamba", _MAMBA, _tokens),
    "mamba2": Architecture(
        "mamba2", {**_MAMBA, "num_heads": 8, "head_dim": 8, "n_groups": 2, "chunk_size": 8}, _tokens
    ),
    "rwkv": Architecture(
        "rwkv",
        {
            "vocab_size": _VOCABULARY,
            "hidden_size": 32,
            "attention_hidden_size": 32,
            "num_hidden_layers": 2,
            "context_length": 64,
        },
        _tokens,
    ),
    "recurrent-gemma": Architecture(
        "recurrent_gemma",
        {**_TEXT, "num_key_value_heads": 1, "lru_width": 32, "attention_window_size": 8},
        _tokens,
    ),
}


class Refusal(NamedTuple):
    """An architecture that torch does not export, and the words with which it refuses."""

    architecture: Architecture
    dynamic: bool
    words: str
    reason: str


DO_NOT_EXPORT: dict[str, Refusal] = {
    "longformer": Refusal(
        Architecture("longformer", {**_TEXT, "attention_window": 4}, _masked_tokens),
        False,
        "Could not guard on data-dependent expression",
        "asks with `.any()` whether a token attends globally, and branches on the answer",
    ),
    "led": Refusal(
        Architecture(
            "led",
            {
                **_BART,
                "attention_window": 4,
                "max_encoder_position_embeddings": 64,
                "max_decoder_position_embeddings": 64,
            },
            _two_texts,
        ),
        False,
        "Could not guard on data-dependent expression",
        "as longformer, whose attention it has",
    ),
    "fsmt": Refusal(
        Architecture(
            "fsmt",
            {**_BART, "src_vocab_size": _VOCABULARY, "tgt_vocab_size": _VOCABULARY, "langs": ["en", "de"]},
            _two_texts,
        ),
        False,
        "Could not guard on data-dependent expression",
        "asks with `.any()` whether the decoder's tokens are padded, and drops the mask if not",
    ),
    "reformer": Refusal(
        Architecture(
            "reformer",
            {
                "vocab_size": _VOCABULARY,
                "hidden_size": 32,
                "attention_head_size": 8,
                "num_attention_heads": 4,
                "feed_forward_size": 64,
                "attn_layers": ["local", "lsh"],
                "axial_pos_shape": [4, 4],
                "axial_pos_embds_dim": [16, 16],
                "local_attn_chunk_length": 4,
                "lsh_attn_chunk_length": 4,
                "num_hashes": 1,
                "num_buckets": 2,
                "is_decoder": False,
            },
            lambda batch: {"input_ids": _ids(batch, 16)},
        ),
        True,
        "specialized it to be a constant",
        "loops over the batch in Python; with a static batch it exports",
    ),
    "switch-transformers": Refusal(
        Architecture("switch_transformers", {**_T5, "num_experts": 2, "expert_capacity": 4}, _two_texts),
        False,
        "Couldn't swap Linear.weight",
        "its router moves its own weights to a dtype in every call",
    ),
}
"""Chosen first, and dropped: torch 2.13 does not export them."""
