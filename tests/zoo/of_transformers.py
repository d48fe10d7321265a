"""Models of transformers, each as a small config with random weights: some used in every way, and more types of models by few
configs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from architecture import Architecture
from torch import nn
from transformers import AutoConfig, AutoModel, CLIPVisionModel, T5EncoderModel
from transformers.models.whisper.modeling_whisper import WhisperEncoder

Inputs = dict[str, torch.Tensor]


class _Model(NamedTuple):
    model_type: str
    """What `transformers` calls the config."""
    config: dict[str, Any]
    inputs: Callable[[int], Inputs]
    """Keyword arguments of one call, for a batch size."""
    model_class: Any = AutoModel
    """Makes the model of a config: an auto class by `from_config`, or a model's own class."""

    def build(self) -> nn.Module:
        config = AutoConfig.for_model(self.model_type, **self.config)
        if hasattr(config, "use_cache"):
            config.use_cache = False  # its type is registered by a distribution below contrib/ alone
        make = getattr(self.model_class, "from_config", self.model_class)
        model: nn.Module = make(config)
        return model


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


_MODELS: dict[str, _Model] = {
    # decoders
    "gpt2": _Model("gpt2", _GPT2, _masked_tokens),
    "gptj": _Model("gptj", {**_GPT2, "rotary_dim": 4}, _masked_tokens),
    "gpt-neox": _Model("gpt_neox", _TEXT, _masked_tokens),
    "falcon": _Model("falcon", {**_TEXT, "new_decoder_architecture": False}, _masked_tokens),
    "opt": _Model("opt", {**_TEXT, "ffn_dim": 64, "word_embed_proj_dim": 32}, _masked_tokens),
    "bloom": _Model(
        "bloom", {"vocab_size": _VOCABULARY, "hidden_size": 32, "n_layer": 2, "n_head": 4}, _masked_tokens
    ),
    # mixtures of experts
    "mixtral": _Model(
        "mixtral", {**_GROUPED, "num_local_experts": 2, "num_experts_per_tok": 1}, _masked_tokens
    ),
    "gpt-oss": _Model(
        "gpt_oss",
        {**_GROUPED, "num_local_experts": 2, "num_experts_per_tok": 1, "sliding_window": 4},
        _masked_tokens,
    ),
    # encoders
    "distilbert": _Model(
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
    "albert": _Model("albert", {**_TEXT, "embedding_size": 16}, _masked_tokens),
    "electra": _Model("electra", {**_TEXT, "embedding_size": 16}, _masked_tokens),
    "deberta": _Model(
        "deberta",
        {**_TEXT, "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "max_relative_positions": 16},
        _masked_tokens,
    ),
    "deberta-v2": _Model(
        "deberta-v2",
        {**_TEXT, "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 8},
        _masked_tokens,
    ),
    "modernbert": _Model(
        "modernbert", {**_TEXT, "cls_token_id": 1, "sep_token_id": 2, "local_attention": 8}, _masked_tokens
    ),
    "fnet": _Model("fnet", _TEXT, _tokens),
    "xlnet": _Model(
        "xlnet",
        {"vocab_size": _VOCABULARY, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64},
        _masked_tokens,
    ),
    # encoders and decoders
    "t5-encoder": _Model("t5", _T5, _masked_tokens, T5EncoderModel),
    "t5": _Model("t5", _T5, _two_texts),
    # images and video
    "vit-mae": _Model("vit_mae", _VISION, _image),
    "clip-vision": _Model("clip_vision_model", _VISION, _image, CLIPVisionModel),
    "swin": _Model(
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
    "convnext": _Model("convnext", _CONVOLUTIONS, _large_image),
    "resnet": _Model(
        "resnet",
        {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"},
        _image,
    ),
    "mobilevit": _Model(
        "mobilevit",
        {
            "image_size": 64,
            "hidden_sizes": [16, 24, 32],
            "neck_hidden_sizes": [8, 8, 16, 16, 24, 24, 32],
            "num_attention_heads": 2,
        },
        _large_image,
    ),
    "segformer": _Model(
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
    "videomae": _Model("videomae", {**_VISION, "num_frames": 4, "tubelet_size": 2}, _video),
    # sound
    "whisper-encoder": _Model("whisper", _WHISPER, _spectrogram, WhisperEncoder),
    "whisper": _Model(
        "whisper", _WHISPER, lambda batch: {**_spectrogram(batch), "decoder_input_ids": _ids(batch, 6)}
    ),
    # text and images
    "clip": _Model(
        "clip",
        {"text_config": _TEXT, "vision_config": _VISION, "projection_dim": 16},
        lambda batch: {**_masked_tokens(batch), **_image(batch)},
    ),
    # recurrent
    "mamba": _Model("mamba", _MAMBA, _tokens),
    "mamba2": _Model(
        "mamba2", {**_MAMBA, "num_heads": 8, "head_dim": 8, "n_groups": 2, "chunk_size": 8}, _tokens
    ),
    "rwkv": _Model(
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
    "recurrent-gemma": _Model(
        "recurrent_gemma",
        {**_TEXT, "num_key_value_heads": 1, "lru_width": 32, "attention_window_size": 8},
        _tokens,
    ),
}


_ONE = {"num_hidden_layers": 1, "num_layers": 1, "n_layers": 1, "n_layer": 1}
"""Types of models differ inside a layer."""
_EXPERTS = {"num_local_experts": 2, "num_experts": 2, "num_experts_per_tok": 1}
_WIDTHS = {"moe_intermediate_size": 16, "shared_expert_intermediate_size": 16}
_MIXTURE = {**_GROUPED, **_EXPERTS, **_WIDTHS}
_DECODER = {
    **_GPT2,
    **_TEXT,
    "ffn_dim": 64,
    "dff": 64,
    "d_model": 32,
    "n_heads": 4,
    **_ONE,
    "attention_layers": ["local"],
    "attention_types": [[["local"], 1]],
    "attention_heads": 4,
    "rotary_dim": 4,
    "max_seq_len": 64,
}
_ENCODER = {
    **_TEXT,
    **_ONE,
    "embedding_size": 32,
    "input_embedding_size": 32,
    "output_embedding_size": 32,
    "languages": ["en_XX"],
    "default_language": "en_XX",
    "attention_type": "original_full",
    "true_hidden_size": 32,
    "intra_bottleneck_size": 32,
    "type_vocab_size": 2,
}
_PAIR = {
    **_BART,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "attention_type": "original_full",
    "num_experts": 2,
}

_TYPES: list[tuple[str, dict[str, Any], Any]] = [
    ("llama mistral qwen2 qwen3 gemma gemma2 phi3", _GROUPED, _masked_tokens),
    ("phi bert roberta", _TEXT, _masked_tokens),
    ("vit deit beit dinov2", _VISION, _image),
    ("wav2vec2 hubert", _SOUND, _sound),
    ("bart marian", _BART, _two_texts),
    (
        (
            "olmo olmo2 granite cohere cohere2 starcoder2 stablelm persimmon nemotron glm glm4 "
            "helium smollm3 ernie4_5 seed_oss arcee gemma3_text ministral apertus exaone4 "
            "hunyuan_v1_dense lfm2 diffllama bitnet vaultgemma olmo3 doge"
        ),
        {**_GROUPED, **_ONE},
        _masked_tokens,
    ),
    (
        ("qwen2_moe qwen3_moe olmoe granitemoe phimoe flex_olmo ernie4_5_moe minimax"),
        _MIXTURE,
        _masked_tokens,
    ),
    (
        ("biogpt ctrl xglm openai-gpt mpt gpt_neo codegen gpt_bigcode gpt_neox_japanese"),
        _DECODER,
        _masked_tokens,
    ),
    (
        (
            "camembert xlm-roberta xlm-roberta-xl data2vec-text ernie megatron-bert mpnet "
            "roformer rembert layoutlm yoso convbert ibert esm xmod mobilebert "
            "roberta-prelayernorm mra splinter markuplm bert-generation eurobert big_bird "
            "squeezebert"
        ),
        _ENCODER,
        _masked_tokens,
    ),
    (
        ("mbart pegasus blenderbot blenderbot-small plbart m2m_100 mvp nllb-moe bigbird_pegasus"),
        _PAIR,
        _two_texts,
    ),
    (
        ("mt5 umt5 longt5"),
        {**_T5, **_ONE},
        _two_texts,
    ),
]
"""Types of models, one config that gives each of them what it reads, and the inputs."""

_USED = ("bert", "gpt2", "llama", "t5")


def _row(name: str, model: _Model) -> Architecture:
    return Architecture("transformers", name, model.build, model.inputs, in_every_use=name in _USED)


ARCHITECTURES = [
    *(_row(name, model) for name, model in _MODELS.items()),
    *(_row(name, _Model(name, config, inputs)) for names, config, inputs in _TYPES for name in names.split()),
]
