"""The containers of transformers round-trip, and so do decode steps with a key-value cache."""

from __future__ import annotations

import io
import lzma
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import graphwire_transformers
import pytest
import torch
import transformers
from graphwire_transformers import DynamicCaches, EncoderDecoderCaches, ModelOutputs, StaticCaches
from torch.export import Dim, ExportedProgram
from torch.utils import _pytree as pytree
from transformers import DynamicCache, EncoderDecoderCache, StaticCache
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutputWithPast

import graphwire
from graphwire.hooks import Registry, default_registry
from graphwire.testing import TreespecContract

graphwire_transformers.register()
DOCUMENTS = sorted((Path(__file__).parent / "documents").glob("*.xz"))
SIZES = {"vocab_size": 16, "max_position_embeddings": 64}
LLAMA = transformers.LlamaConfig(
    hidden_size=8,
    intermediate_size=8,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    **SIZES,
)
IDS, NEXT = torch.tensor([[1, 2, 3, 4]]), torch.tensor([[5]])


def llama() -> Any:
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(LLAMA).eval()


def gpt2() -> Any:
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=16, n_positions=64, n_embd=8, n_layer=2, n_head=2)
    return transformers.GPT2LMHeadModel(config).eval()


def filled(layers: int = 2) -> Any:
    return DynamicCache([(torch.ones(1, 2, 3, 4), torch.zeros(1, 2, 3, 4)) for _ in range(layers)])


def static() -> Any:
    cache = StaticCache(config=LLAMA, max_cache_len=8)
    cache.early_initialization(batch_size=1, num_heads=2, head_dim=2, dtype=torch.float32, device="cpu")
    return cache


MISTRAL = transformers.MistralConfig(
    hidden_size=8,
    intermediate_size=8,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    sliding_window=4,
    **SIZES,
)


def sliding() -> Any:
    """Return a cache of Mistral after four tokens; its layers have a sliding window."""
    torch.manual_seed(0)
    model = transformers.MistralForCausalLM(MISTRAL).eval()
    cache = StaticCache(config=MISTRAL, max_cache_len=8)
    cache.early_initialization(batch_size=1, num_heads=2, head_dim=2, dtype=torch.float32, device="cpu")
    with torch.no_grad():
        model(IDS, past_key_values=cache, use_cache=True)
    return cache


@pytest.fixture(scope="module")
def registry() -> Registry:
    """Return the installed plugins, with this one added if it is not installed."""
    installed = default_registry()
    known = "transformers" in {plugin.name for plugin in installed.plugins}
    return installed if known else installed.extended(graphwire_transformers)


# --------------------------------------------------------------------------------------------------------- contracts


class TestModelOutputs(TreespecContract):
    serializer = ModelOutputs()
    examples = (
        BaseModelOutput(last_hidden_state=torch.ones(1)),
        CausalLMOutputWithPast(logits=torch.ones(1), hidden_states=(torch.ones(1), torch.ones(2))),
    )
    bad_contexts = ((None, 1), ('["a", "a"]', 1), ('["a b"]', 1), ("{}", 1), ([], 1))


class TestDynamicCaches(TreespecContract):
    serializer = DynamicCaches()
    examples = (filled(), filled(1), DynamicCache())
    bad_contexts = (
        (None, 1),
        ('["key_cache"]', 1),
        ('[["key_cache", "value_cache"], [0]]', 1),
        ({"windows": [True]}, 2),
        ({"windows": [-1]}, 2),
        ({"windows": [], "more": 1}, 2),
        ('["key_cache", "value_cache"]', 2),
    )


class TestStaticCaches(TreespecContract):
    serializer = StaticCaches()
    examples = (static(), sliding())
    bad_contexts = (
        (None, 1),
        ('[[4, ["keys", "values"], -1]]', 1),
        ('[[4, ["keys", "values"], true]]', 1),
        ('[[4, ["keys", "values"], 1, 2]]', 1),
        ("[[0, []]]", 1),
        ('[[4, ["update"]]]', 1),
        ("[[4]]", 1),
        ("{}", 1),
    )


class TestEncoderDecoderCaches(TreespecContract):
    serializer = EncoderDecoderCaches()
    examples = (EncoderDecoderCache(filled(), filled()), EncoderDecoderCache(DynamicCache(), DynamicCache()))
    bad_contexts = ((None, 1), ("[[0]]", 1), ('[["0", true]]', 1), ("[[0, 1]]", 1), ("{}", 1))


# ------------------------------------------------------------------------------------------------------ decode steps


def same(actual: Any, expected: Any) -> None:
    leaves, spec = pytree.tree_flatten(actual)
    others, other = pytree.tree_flatten(expected)
    assert spec == other
    assert all(torch.equal(one, two) for one, two in zip(leaves, others, strict=True))


def prefilled(model: Any) -> Any:
    with torch.no_grad():
        return model(IDS, use_cache=True).past_key_values


def decode_step(model: Any) -> ExportedProgram:
    length = [[{2: Dim.AUTO}] * 2] * 2
    with torch.no_grad():
        return torch.export.export(
            model,
            (),
            {"input_ids": NEXT, "past_key_values": prefilled(model)},
            dynamic_shapes={"input_ids": None, "past_key_values": length},
            strict=False,
        )


@pytest.mark.parametrize("make", [gpt2, llama])
@pytest.mark.parametrize("format", ["json", "msgpack"])
def test_a_decode_step_with_a_cache_goes_on_as_the_model_does(
    make: Callable[[], Any], format: str, registry: Registry
) -> None:
    model = make()
    data = graphwire.dumps(decode_step(model), format=format, registry=registry)
    module = graphwire.loads(data, registry=registry).module()
    cache, expected_cache = prefilled(model), prefilled(model)
    for token in (5, 6, 7):
        ids = torch.tensor([[token]])
        result = module(input_ids=ids, past_key_values=cache)
        with torch.no_grad():
            expected = model(ids, past_key_values=expected_cache, use_cache=True)
        assert type(result) is CausalLMOutputWithPast or type(result) is type(expected)
        assert isinstance(result.past_key_values, DynamicCache)
        torch.testing.assert_close(result.logits, expected.logits)
        cache, expected_cache = result.past_key_values, expected.past_key_values
        assert cache.get_seq_length() == expected_cache.get_seq_length()


def test_a_file_says_the_context_as_torch_does_and_has_the_hash_of_torchs_file(registry: Registry) -> None:
    step = decode_step(llama())
    data, stream = graphwire.dumps(step, registry=registry), io.BytesIO()
    torch.export.save(step, stream)
    written = graphwire.content_hash(stream.getvalue(), registry=registry)
    assert graphwire.content_hash(data, registry=registry) == written
    assert graphwire.content_hash(step, registry=registry) == written
    with graphwire.open(data, registry=registry) as archive:
        program = archive.program
    text = program.graph_module.module_call_graph[0].signature.in_spec  # type: ignore[union-attr]
    context = r'"[[\"key_cache\", \"value_cache\"], [null, null]]"'
    assert f'"transformers.cache_utils.DynamicCache", "context": {context}' in text


def test_a_context_of_version_2_is_read(registry: Registry) -> None:
    expected = DynamicCaches().load_context('[["key_cache", "value_cache"], [null, 4]]', 1)
    assert DynamicCaches().load_context({"windows": [None, 4]}, 2) == expected


# Their example inputs are a pickle of the cache's class, which is never read.
@pytest.mark.filterwarnings("ignore:the example inputs are dropped")
@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name.removesuffix(".pt2.xz"))
def test_a_decode_step_that_torch_saved_with_an_older_transformers_goes_on(
    path: Path, registry: Registry
) -> None:
    program = graphwire.loads(lzma.decompress(path.read_bytes()), registry=registry)
    model = llama()
    model.load_state_dict(program.state_dict, strict=False)
    cache = prefilled(model)
    with torch.no_grad():
        expected = model(NEXT, past_key_values=prefilled(model), use_cache=True)
    result = program.module()(input_ids=NEXT, past_key_values=cache)
    torch.testing.assert_close(result.logits, expected.logits)
    same(result.past_key_values, expected.past_key_values)
    again = graphwire.dumps(program, registry=registry)
    with graphwire.open(again, registry=registry) as archive:
        assert "DynamicCache@" not in graphwire.encode(archive.program).decode()


def test_a_static_cache_is_filled_in_place_in_a_program(registry: Registry) -> None:
    class Step(torch.nn.Module):
        def forward(self, keys: torch.Tensor, cache: Any) -> Any:
            layer = cache.layers[0]
            layer.keys[:, :, 0] += keys
            return layer.keys.sum(), cache

    program = torch.export.export(Step(), (torch.ones(1, 2, 2), static()), strict=False)
    loaded = graphwire.loads(graphwire.dumps(program, registry=registry), registry=registry)
    cache = static()
    total, result = loaded.module()(torch.ones(1, 2, 2), cache)
    assert isinstance(result, StaticCache)
    assert result.layers[0].max_cache_len == 8
    assert total.item() == result.layers[0].keys.sum().item() == 4


def test_a_decode_step_with_sliding_layers_goes_on_as_the_model_does(registry: Registry) -> None:
    torch.manual_seed(0)
    model = transformers.MistralForCausalLM(MISTRAL).eval()
    with torch.no_grad():
        given = {"input_ids": NEXT, "past_key_values": sliding(), "position_ids": torch.tensor([[4]])}
        program = torch.export.export(model, (), given, strict=False)
        expected = model(**{**given, "past_key_values": sliding()})
    loaded = graphwire.loads(graphwire.dumps(program, registry=registry), registry=registry)
    result = loaded.module()(**{**given, "past_key_values": sliding()})
    torch.testing.assert_close(result.logits, expected.logits)
    same(result.past_key_values, expected.past_key_values)


def test_torch_reads_a_file_with_a_dynamic_cache(registry: Registry) -> None:
    step = decode_step(llama())
    for target in (None, "torch"):
        data = graphwire.dumps(step, registry=registry, target=target)
        read = torch.export.load(io.BytesIO(data))
        given = {"input_ids": NEXT, "past_key_values": prefilled(llama())}
        other = {**given, "past_key_values": prefilled(llama())}
        same(read.module()(**given), step.module()(**other))


def test_an_encoder_and_decoder_cache_comes_back(registry: Registry) -> None:
    torch.manual_seed(0)
    config = transformers.BartConfig(
        d_model=8,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=8,
        decoder_ffn_dim=8,
        **SIZES,
    )
    model = transformers.BartForConditionalGeneration(config).eval()
    inputs = {"input_ids": IDS, "decoder_input_ids": NEXT, "use_cache": True}
    with torch.no_grad():
        expected = model(**inputs)
        program = torch.export.export(model, (), inputs, strict=False)
    loaded = graphwire.loads(graphwire.dumps(program, registry=registry), registry=registry)
    result = loaded.module()(**inputs)
    assert isinstance(result.past_key_values, EncoderDecoderCache)
    assert result.past_key_values.is_updated == expected.past_key_values.is_updated == {0: True}
    same(result, expected)


# --------------------------------------------------------------------------------------------------------- other ends


def test_a_process_that_never_heard_of_transformers_loads_one(tmp_path: Path, registry: Registry) -> None:
    path = tmp_path / "step.pt2"
    graphwire.save(decode_step(llama()), path, registry=registry)
    code = (
        "import sys, graphwire, graphwire_transformers as plugin\n"
        "registry = graphwire.Registry.without('graphwire-transformers').extended(plugin)\n"
        "assert 'transformers' not in sys.modules\n"
        "loaded = graphwire.load(sys.argv[1], registry=registry)\n"
        "print(type(loaded.example_inputs[1]['past_key_values']).__name__)\n"
    )
    command = [sys.executable, "-c", code, str(path)]
    folder = str(Path(graphwire_transformers.__file__).parent)
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={"PYTHONPATH": folder, "HOME": "/"},
    )
    assert done.stdout.strip() == "DynamicCache", done.stderr


@pytest.mark.filterwarnings("ignore")
def test_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    code = "".join(re.findall(r"```python\n(.*?)```", readme, re.DOTALL))
    (tmp_path / "readme.py").write_text(code, encoding="utf-8")
    names = runpy.run_path("readme.py")
    assert isinstance(names["result"], CausalLMOutputWithPast)
    assert graphwire.verify("step.pt2") == graphwire.verify("model.pt2") == []
