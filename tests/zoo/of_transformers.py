"""Models of transformers: those of `tests/transformers`, some used in every way, and more types of models by few configs."""

from __future__ import annotations

from typing import Any

import architectures as small
from architecture import Architecture
from architectures import ARCHITECTURES as TRANSFORMERS, build

_USED = ("bert", "gpt2", "llama", "t5")


def _row(name: str, architecture: small.Architecture) -> Architecture:
    return Architecture(
        "transformers", name, lambda: build(architecture), architecture.inputs, in_every_use=name in _USED
    )


_ONE = {"num_hidden_layers": 1, "num_layers": 1, "n_layers": 1, "n_layer": 1}
"""Types of models differ inside a layer."""
_EXPERTS = {"num_local_experts": 2, "num_experts": 2, "num_experts_per_tok": 1}
_WIDTHS = {"moe_intermediate_size": 16, "shared_expert_intermediate_size": 16}
_MIXTURE = {**small._GROUPED, **_EXPERTS, **_WIDTHS}
_DECODER = {
    **small._GPT2,
    **small._TEXT,
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
    **small._TEXT,
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
    **small._BART,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "attention_type": "original_full",
    "num_experts": 2,
}

_TYPES: list[tuple[str, dict[str, Any], Any]] = [
    (
        (
            "olmo olmo2 granite cohere cohere2 starcoder2 stablelm persimmon nemotron glm glm4 "
            "helium smollm3 ernie4_5 seed_oss arcee gemma3_text ministral apertus exaone4 "
            "hunyuan_v1_dense lfm2 diffllama bitnet vaultgemma olmo3 doge"
        ),
        {**small._GROUPED, **_ONE},
        small._masked_tokens,
    ),
    (
        ("qwen2_moe qwen3_moe olmoe granitemoe phimoe flex_olmo ernie4_5_moe minimax"),
        _MIXTURE,
        small._masked_tokens,
    ),
    (
        ("biogpt ctrl xglm openai-gpt mpt gpt_neo codegen gpt_bigcode gpt_neox_japanese"),
        _DECODER,
        small._masked_tokens,
    ),
    (
        (
            "camembert xlm-roberta xlm-roberta-xl data2vec-text ernie megatron-bert mpnet "
            "roformer rembert layoutlm yoso convbert ibert esm xmod mobilebert "
            "roberta-prelayernorm mra splinter markuplm bert-generation eurobert big_bird "
            "squeezebert"
        ),
        _ENCODER,
        small._masked_tokens,
    ),
    (
        ("mbart pegasus blenderbot blenderbot-small plbart m2m_100 mvp nllb-moe bigbird_pegasus"),
        _PAIR,
        small._two_texts,
    ),
    (
        ("mt5 umt5 longt5"),
        {**small._T5, **_ONE},
        small._two_texts,
    ),
]
"""Types of models, one config that gives each of them what it reads, and the inputs."""

ARCHITECTURES = [
    *(_row(name, architecture) for name, architecture in TRANSFORMERS.items()),
    *(
        _row(name, small.Architecture(name, config, inputs))
        for names, config, inputs in _TYPES
        for name in names.split()
    ),
]
