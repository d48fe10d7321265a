"""Programs of transformers whose weights stay in the shards that `save_pretrained` wrote."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from graphwire_transformers_names import pieces_of, stored_names

import graphwire

transformers = pytest.importorskip("transformers")

_TEXT = {
    "vocab_size": 96,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
_GROUPED = {**_TEXT, "num_key_value_heads": 2, "head_dim": 8}
_T5 = {
    "vocab_size": 96,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": 0,
}
_WHISPER = {
    "vocab_size": 96,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "num_mel_bins": 8,
    "max_source_positions": 16,
    "max_target_positions": 16,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}
_VIT = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "image_size": 32,
    "patch_size": 8,
}
_IDS = {"input_ids": torch.arange(3, 19).reshape(2, 8)}
_BOTH = {**_IDS, "decoder_input_ids": torch.arange(3, 15).reshape(2, 6)}

MODELS: dict[str, tuple[str, str, dict[str, Any], dict[str, torch.Tensor]]] = {
    "Llama": ("LlamaForCausalLM", "llama", _GROUPED, _IDS),
    "GPT2": (
        "GPT2LMHeadModel",
        "gpt2",
        {"vocab_size": 96, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4},
        _IDS,
    ),
    "BERT": ("BertForMaskedLM", "bert", _TEXT, _IDS),
    "T5": ("T5ForConditionalGeneration", "t5", _T5, _BOTH),
    "Whisper": (
        "WhisperForConditionalGeneration",
        "whisper",
        _WHISPER,
        {
            "input_features": torch.linspace(0, 1, 512).reshape(2, 8, 32),
            "decoder_input_ids": _BOTH["decoder_input_ids"],
        },
    ),
    "ViT": (
        "ViTForImageClassification",
        "vit",
        _VIT,
        {"pixel_values": torch.linspace(0, 1, 6144).reshape(2, 3, 32, 32)},
    ),
    "Mixtral": (
        "MixtralForCausalLM",
        "mixtral",
        {**_GROUPED, "num_local_experts": 4, "num_experts_per_tok": 2},
        _IDS,
    ),
    "Gemma": ("GemmaForCausalLM", "gemma", _GROUPED, _IDS),
}

FRESH = """
import sys, torch, transformers.integrations.moe, graphwire  # which registers operators
program = graphwire.load(sys.argv[1])
inputs, expected = torch.load(sys.argv[2], weights_only=True)
found = program.module()(**inputs)
assert torch.equal(found["logits"], expected), (found["logits"] - expected).abs().max()
"""


class Logits(torch.nn.Module):
    """A model that returns plain tensors, so that a fresh process needs no class of transformers."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, **inputs: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"logits": self.model(**inputs).logits}


def made(name: str, **more: Any) -> torch.nn.Module:
    class_name, kind, config, _ = MODELS[name]
    torch.manual_seed(0)
    options = transformers.AutoConfig.for_model(kind, **{**config, **more})
    options.use_cache = False
    model: torch.nn.Module = getattr(transformers, class_name)(options).eval()
    return model


@pytest.mark.parametrize("name", MODELS)
def test_a_program_computes_the_same_from_the_shards_of_its_model(name: str, tmp_path: Path) -> None:
    model, inputs = made(name), MODELS[name][3]
    folder = tmp_path / "here"
    model.save_pretrained(folder / "hub", max_shard_size="30KB")  # type: ignore[operator]
    shards = list((folder / "hub").glob("*.safetensors"))
    assert len(shards) > 2
    program = torch.export.export(Logits(model), (), inputs, strict=False)
    expected = program.module()(**inputs)["logits"]
    names = stored_names(model, prefix="model.")
    graphwire.save(program, folder / "m.pt2", weights=graphwire.Checkpoint(folder / "hub", names=names))
    with zipfile.ZipFile(folder / "m.pt2") as archive:
        held = [each for each in archive.namelist() if "/data/weights/weight_" in each]
        table = json.loads(archive.read("program/data/weights/references.json"))
    assert held == []
    assert len(table["records"]) == len({id(each) for each in program.state_dict.values()})
    torch.save((inputs, expected), tmp_path / "case.pt")
    shutil.move(folder, tmp_path / "there")
    command = [sys.executable, "-c", FRESH, str(tmp_path / "there" / "m.pt2"), str(tmp_path / "case.pt")]
    subprocess.run(command, check=True, timeout=300)
    assert graphwire.verify(tmp_path / "there" / "m.pt2") == []


def test_fine_tunes_share_a_folder(tmp_path: Path) -> None:
    inputs = MODELS["ViT"][3]
    sizes = []
    for number in range(3):
        model = made("ViT")
        with torch.no_grad():
            model.classifier.weight.add_(number)  # type: ignore[union-attr, operator]
        program = torch.export.export(Logits(model), (), inputs, strict=False)
        graphwire.save(program, tmp_path / f"{number}.pt2", weights=graphwire.Blobs(tmp_path / "blobs"))
        sizes.append(sum(path.stat().st_size for path in (tmp_path / "blobs").rglob("*") if path.is_file()))
        assert torch.equal(
            graphwire.load(tmp_path / f"{number}.pt2").module()(**inputs)["logits"],
            program.module()(**inputs)["logits"],
        )
    head = model.classifier.weight.nbytes  # type: ignore[union-attr]
    assert [sizes[1] - sizes[0], sizes[2] - sizes[1]] == [head, head]


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t,
        lambda t: t.t(),
        lambda t: t[4:],
        lambda t: t[:, ::2],
        lambda t: t.reshape(2, 2, 2, 6).transpose(1, 2).reshape(8, 6),  # rope
        lambda t: torch.stack([t[::2], t[1::2]], 1).reshape(8, 6),  # interleaved
    ],
)
def test_pieces_are_found_from_indexes(change: Any) -> None:
    weight = torch.randn(8, 6)
    index = torch.arange(48).reshape(8, 6)
    stored, where = change(weight), change(index)
    pieces = pieces_of("s", where, weight.shape)
    again = torch.full_like(weight, torch.nan)
    for piece in pieces:
        part = stored[piece.part] if piece.part else stored
        again[piece.into] = part if piece.order is None else part.permute(piece.order)
    reached = torch.zeros(48, dtype=torch.bool)
    reached[where.flatten()] = True
    assert torch.equal(again.flatten()[reached], weight.flatten()[reached])


def test_what_no_boxes_describe_is_an_error() -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        pieces_of("s", torch.randperm(48, generator=torch.Generator().manual_seed(0)).reshape(8, 6), (8, 6))
