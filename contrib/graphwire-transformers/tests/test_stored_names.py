"""Programs of transformers whose weights stay in the shards that `save_pretrained` wrote."""

from __future__ import annotations

import hashlib
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
from graphwire import Piece, errors

transformers = pytest.importorskip("transformers")

from transformers.core_model_loading import ConversionOps, WeightConverter  # noqa: E402

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
import pathlib, sys, torch, transformers.integrations.moe, graphwire  # which registers operators
for folder in map(pathlib.Path, sys.argv[1:]):
    inputs, expected = torch.load(folder / "case.pt", weights_only=True)
    for file, weights in (("beside.pt2", graphwire.AS_SAVED), ("cached.pt2", folder / "cache/snapshots/main")):
        found = graphwire.load(folder / file, weights=weights).module()(**inputs)["logits"]
        print(folder.name, file, torch.equal(found, expected))
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


def as_hub_cache(shards: Path, cache: Path) -> Path:
    """Copy the files of a model as the cache of a hub has them: links to files that are named by their content."""
    snapshot = cache / "snapshots" / "main"
    snapshot.mkdir(parents=True)
    (cache / "blobs").mkdir()
    for each in shards.iterdir():
        digest = hashlib.sha256(each.read_bytes()).hexdigest()
        shutil.copy(each, cache / "blobs" / digest)
        (snapshot / each.name).symlink_to(Path("..") / ".." / "blobs" / digest)
    return snapshot


def save_with_shards(name: str, folder: Path) -> None:
    """Save the program of a model with references to its shards in a folder beside it, and to a hub's cache of them."""
    model, inputs = made(name), MODELS[name][3]
    model.save_pretrained(folder / "hub", max_shard_size="30KB")  # type: ignore[operator]
    assert len(list((folder / "hub").glob("*.safetensors"))) > 2
    snapshot = as_hub_cache(folder / "hub", folder / "cache")
    program = torch.export.export(Logits(model), (), inputs, strict=False)
    names = stored_names(model, prefix="model.")
    for file, place in (("beside.pt2", folder / "hub"), ("cached.pt2", snapshot)):
        graphwire.save(program, folder / file, weights=graphwire.Checkpoint(place, names=names))
        assert_has_no_weights(folder / file, program)
    torch.save((inputs, program.module()(**inputs)["logits"]), folder / "case.pt")


def assert_has_no_weights(file: Path, program: torch.export.ExportedProgram) -> None:
    """Kilobytes, and the bytes of no weight among them, inflated or not."""
    assert file.stat().st_size < 150_000
    with zipfile.ZipFile(file) as archive:
        assert not [each for each in archive.namelist() if "/data/weights/weight_" in each]
        references = json.loads(archive.read("program/data/weights/references.json"))
        records = [archive.read(each) for each in archive.namelist()]
    assert len(references["records"]) == len({id(each) for each in program.state_dict.values()})
    for value in program.state_dict.values():
        start = value.detach().contiguous().flatten()[:8].numpy().tobytes()
        if start != start[:4] * 8:  # zeros and ones are anywhere
            assert not any(start in record for record in records)


def test_programs_compute_the_same_from_the_shards_of_their_models(tmp_path: Path) -> None:
    folders = []
    for name in MODELS:
        (tmp_path / "here" / name).mkdir(parents=True)
        save_with_shards(name, tmp_path / "here" / name)
        folders.append(tmp_path / "there" / name)
    shutil.move(tmp_path / "here", tmp_path / "there")
    command = [sys.executable, "-c", FRESH, *map(str, folders)]
    done = subprocess.run(command, check=True, timeout=600, capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        f"{name} {file} True" for name in MODELS for file in ("beside.pt2", "cached.pt2")
    ]
    for folder in folders:
        assert graphwire.verify(folder / "beside.pt2") == []
        # A file may not lead over links; who loads it may.
        with pytest.raises(errors.WeightsError, match=r"pass weights= with the place(.|\n)*symbolic link"):
            graphwire.load(folder / "cached.pt2")
        assert graphwire.verify(folder / "cached.pt2", weights_from=folder / "cache/snapshots/main") == []


def test_names_and_pieces_are_those_of_the_checkpoint() -> None:
    vit = stored_names(made("ViT"))
    assert len(vit) == 40
    assert sum(stored != name for name, stored in vit.items()) == 32
    assert (
        vit["vit.layers.1.attention.q_proj.weight"] == "vit.encoder.layer.1.attention.attention.query.weight"
    )
    mixtral = stored_names(made("Mixtral", num_local_experts=8))
    stacked = {name: stored for name, stored in mixtral.items() if not isinstance(stored, str)}
    expert = "model.layers.{}.block_sparse_moe.experts.{}.{}.weight".format
    rows = [slice(0, 64, 1), slice(64, 128, 1)]
    whole = slice(0, 32, 1)
    assert {name: sorted(pieces) for name, pieces in stacked.items()} == {
        f"model.layers.{layer}.mlp.experts.{name}": pieces
        for layer in range(2)
        for name, pieces in (
            (
                "gate_up_proj",
                [
                    Piece(expert(layer, number, part), (number, rows[half], whole))
                    for number in range(8)
                    for half, part in enumerate(("w1", "w3"))
                ],
            ),
            (
                "down_proj",
                [Piece(expert(layer, number, "w2"), (number, whole, rows[0])) for number in range(8)],
            ),
        )
    }
    assert mixtral["model.layers.0.mlp.gate.weight"] == "model.layers.0.block_sparse_moe.gate.weight"


@pytest.mark.parametrize("name", ["ViT", "Mixtral"])
def test_a_model_without_elements_is_enough(name: str) -> None:
    with torch.device("meta"):
        empty = made(name)
    assert stored_names(empty, "model.") == stored_names(made(name), "model.")


def test_renames_need_no_memory_for_elements() -> None:
    """Seventy billion elements, whose indexes would take 560 GB."""
    with torch.device("meta"):
        large = made(
            "Llama", vocab_size=128_000, hidden_size=8192, intermediate_size=28_672, num_hidden_layers=80
        )
    names = stored_names(large)
    assert sum(value.numel() for value in large.state_dict().values()) > 50_000_000_000
    assert names == {name: name for name in large.state_dict()}


class Shifted(ConversionOps):
    """What a norm does whose checkpoint has the weights minus one."""

    def __init__(self, scale: int = 1, in_place: bool = False) -> None:
        self.scale = scale
        self.in_place = in_place

    def convert(self, input_dict: dict[str, Any], **_: Any) -> dict[str, Any]:
        found = {}
        for name, tensors in input_dict.items():
            tensor = tensors[0] if isinstance(tensors, list) else tensors
            found[name] = tensor.add_(1) if self.in_place else tensor * self.scale + 1
        return found

    @property
    def reverse_op(self) -> Shifted:
        return self


@pytest.mark.parametrize("operation", [Shifted(), Shifted(-1), Shifted(in_place=True)], ids=repr)
def test_a_conversion_that_computes_is_refused_by_name(operation: Shifted) -> None:
    model = made("Llama")
    model._weight_conversions = [  # type: ignore[assignment]
        WeightConverter(["norm.weight"], ["norm.weight"], operations=[operation])
    ]
    with pytest.raises(errors.EncodeError, match=r"norm\.weight.* computes it.* \(by Shifted\)") as caught:
        stored_names(model)
    assert "names=" in caught.value.remedy


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
    scattered = torch.randperm(48, generator=torch.Generator().manual_seed(0)).reshape(8, 6)
    with pytest.raises(errors.EncodeError, match=r"shape \[8, 6\] .* no boxes describe") as caught:
        pieces_of("s", scattered, (8, 6))
    assert caught.value.place == "stored tensor 's'"
    assert "rest=" in caught.value.remedy
