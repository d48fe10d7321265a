"""Models of `transformers` with random weights: exported, saved in every format, loaded, bit-equal.

    make test-transformers

An optional group: the extra `transformers` installs what it needs. `architectures.py` says what is exported.
"""

from __future__ import annotations

import io
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from loaded_modules import assert_same_module
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

import graphwire

pytest.importorskip("transformers", reason="needs the extra `transformers`: make test-transformers")

from architectures import ARCHITECTURES, DO_NOT_EXPORT, Refusal, build, export

pytestmark = pytest.mark.transformers

FORMATS = ("json", "msgpack", "cbor")
EXPORTED_BATCH = 2
OTHER_BATCH = 5
"""What a program with a dynamic batch is also called with."""


class Exported(NamedTuple):
    """An exported model, and what its module returns."""

    program: ExportedProgram
    calls: list[dict[str, torch.Tensor]]
    expected: list[Any]


def _returns(program: ExportedProgram, inputs: dict[str, torch.Tensor]) -> Any:
    """What the program's module returns; models that draw random numbers draw the same ones."""
    module = program.module()
    torch.manual_seed(0)
    return module(**{name: tensor.clone() for name, tensor in inputs.items()})


@pytest.fixture(
    scope="module", params=[f"{name}-{batch}" for name in ARCHITECTURES for batch in ("static", "dynamic")]
)
def exported(request: pytest.FixtureRequest) -> Exported:
    """Each architecture, with a static and with a dynamic batch."""
    name, _, batch = request.param.rpartition("-")
    architecture = ARCHITECTURES[name]
    dynamic = batch == "dynamic"
    model = build(architecture)
    calls = [
        architecture.inputs(size) for size in ([EXPORTED_BATCH, OTHER_BATCH] if dynamic else [EXPORTED_BATCH])
    ]
    program = export(model, calls[0], dynamic=dynamic)
    return Exported(program, calls, [_returns(program, inputs) for inputs in calls])


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def _assert_same(actual: Any, expected: Any) -> None:
    """The same containers, and the same types, sizes, strides and bits in them."""
    leaves, spec = pytree.tree_flatten(actual)
    expected_leaves, expected_spec = pytree.tree_flatten(expected)
    assert spec == expected_spec
    for leaf, expected_leaf in zip(leaves, expected_leaves, strict=True):
        assert type(leaf) is type(expected_leaf)
        if isinstance(leaf, torch.Tensor):
            assert (leaf.dtype, leaf.shape, leaf.stride()) == (
                expected_leaf.dtype,
                expected_leaf.shape,
                expected_leaf.stride(),
            )
            assert torch.equal(_bits(leaf), _bits(expected_leaf))
        else:
            assert leaf == expected_leaf


def _assert_returns(program: ExportedProgram, exported: Exported) -> None:
    for inputs, expected in zip(exported.calls, exported.expected, strict=True):
        _assert_same(_returns(program, inputs), expected)


def test_the_promise_of_twenty_architectures_is_kept() -> None:
    assert len(ARCHITECTURES) >= 20


@pytest.mark.parametrize("format", FORMATS)
def test_a_loaded_model_returns_the_same_bits_and_is_saved_to_the_same_bytes(
    exported: Exported, format: str
) -> None:
    data = graphwire.dumps(exported.program, format=format)
    loaded = graphwire.loads(data)
    _assert_returns(loaded, exported)
    assert len(list(loaded.parameters())) == len(list(exported.program.parameters()))
    assert len(list(loaded.module().parameters())) == len(list(exported.program.module().parameters()))
    assert graphwire.dumps(loaded, format=format) == data


def test_a_module_is_that_of_the_loaded_program(exported: Exported) -> None:
    data = graphwire.dumps(exported.program)
    for inputs in exported.calls:
        assert_same_module(data, (), inputs, violations=20)


def test_torch_loads_our_json(exported: Exported) -> None:
    data = graphwire.dumps(exported.program, format="json")
    with graphwire.open(data) as archive:
        assert archive.program.requires == [], "these models need none of our extensions"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch's own
        loaded = torch.export.load(io.BytesIO(data))
    _assert_returns(loaded, exported)


def test_graphwire_loads_the_file_of_torch(exported: Exported) -> None:
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch's own
        torch.export.save(exported.program, file)
    _assert_returns(graphwire.loads(file.getvalue()), exported)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", ["gpt2", "llama", "gemma2"])
def test_a_cache_of_keys_and_values_comes_back_as_a_cache(name: str, format: str) -> None:
    from transformers import DynamicCache
    from transformers.integrations.executorch import register_dynamic_cache_export_support

    register_dynamic_cache_export_support()  # nobody registers EncoderDecoderCache, so torch does not export it
    architecture = ARCHITECTURES[name]
    inputs = architecture.inputs(EXPORTED_BATCH)
    program = export(build(architecture, use_cache=True), inputs, dynamic=True)
    expected = _returns(program, inputs)
    assert isinstance(expected.past_key_values, DynamicCache)
    data = graphwire.dumps(program, format=format)
    loaded = graphwire.loads(data)
    _assert_same(_returns(loaded, inputs), expected)
    assert graphwire.dumps(loaded, format=format) == data


def test_a_process_that_lacks_the_output_type_is_told_which_and_one_that_has_it_loads(tmp_path: Path) -> None:
    architecture = ARCHITECTURES["bert"]
    file = tmp_path / "bert.pt2"
    program = export(build(architecture), architecture.inputs(EXPORTED_BATCH), dynamic=False)
    graphwire.save(program, file, format="msgpack")
    code = """
        import sys
        import graphwire
        try:
            graphwire.load(sys.argv[1])
        except graphwire.errors.UnknownTypeError as error:
            assert "transformers.modeling_outputs.BaseModelOutputWithPoolingAndCrossAttentions" in str(error), error
        else:
            raise AssertionError("a type that nobody registered was loaded")
        assert "transformers" not in sys.modules
        import transformers.modeling_outputs
        graphwire.load(sys.argv[1]).module()
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code), str(file)], check=True, timeout=300)


@pytest.mark.parametrize("refusal", DO_NOT_EXPORT.values(), ids=DO_NOT_EXPORT)
def test_what_is_dropped_does_not_export(refusal: Refusal) -> None:
    """Where this fails, torch or transformers has learned something: move the row to ARCHITECTURES."""
    model = build(refusal.architecture)
    inputs = refusal.architecture.inputs(EXPORTED_BATCH)
    with pytest.raises(Exception, match=refusal.words):
        export(model, inputs, dynamic=refusal.dynamic)
