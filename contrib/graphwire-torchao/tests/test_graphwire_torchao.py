"""Quantized models round-trip, with their weights stored as data."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path
from typing import Any

with warnings.catch_warnings(action="ignore"):
    import torchao.quantization

import graphwire_torchao
import pytest
import torch
from graphwire_torchao import TorchaoOperators, TorchaoTensors
from torchao.quantization import (
    Float8WeightOnlyConfig,
    Int4Tensor,
    Int8DynamicActivationInt8WeightConfig,
    Int8DynamicActivationIntxWeightConfig,
    Int8WeightOnlyConfig,
    IntxWeightOnlyConfig,
    quantize_,
)
from torchao.quantization.granularity import PerGroup

import graphwire
from graphwire.errors import DecodeError, UnknownTypeError
from graphwire.hooks import Registry, default_registry
from graphwire.testing import ConstantCodecContract, OpHandlerContract, assert_same_values

CONFIGS = {
    "int8 weights": Int8WeightOnlyConfig(),
    "int4 weights": IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32)),
    "float8 weights": Float8WeightOnlyConfig(),
    "int8 weights and activations": Int8DynamicActivationInt8WeightConfig(),
    "int4 weights and int8 activations": Int8DynamicActivationIntxWeightConfig(
        weight_dtype=torch.int4, weight_granularity=PerGroup(32)
    ),
}
X = torch.linspace(-1, 1, 128).view(2, 64)


def quantized(config: Any) -> torch.nn.Module:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 32))
    quantize_(model, config)
    return model


def exported(config: Any) -> torch.export.ExportedProgram:
    return torch.export.export(quantized(config), (X,))


def weight(config: Any) -> Any:
    return quantized(config)[0].weight.detach()


def packed() -> Any:
    """A layout with two 4-bit integers in each byte, which has no CPU kernel."""
    scales = torch.ones(2, 4)
    return Int4Tensor(
        torch.arange(16, dtype=torch.int8).view(4, 4), scales, scales * 0, [1, 4], torch.Size([4, 8])
    )


def _parts(value: Any) -> Any:
    names, context = value.__tensor_flatten__()
    return {name: getattr(value, name) for name in names}, repr(context), tuple(value.shape), value.dtype


@pytest.fixture(scope="module")
def registry() -> Registry:
    """Return the installed plugins, with this one added if it is not installed."""
    installed = default_registry()
    return installed if "torchao" in installed.constant_codecs else installed.extended(graphwire_torchao)


class TestTensors(ConstantCodecContract):
    codec = TorchaoTensors()
    examples = (*(lambda config=config: weight(config) for config in CONFIGS.values()), packed)

    def assert_same(self, actual: Any, expected: Any) -> None:
        assert_same_values(_parts(actual), _parts(expected))


class TestOperators(OpHandlerContract):
    handler = TorchaoOperators()
    plugin = graphwire_torchao
    programs = (lambda: exported(CONFIGS["int8 weights and activations"]),)
    unknown = ("torch.ops.torchao.no_such_operator.default",)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("format", ["json", "cbor"])
def test_a_quantized_model_computes_the_same(name: str, format: str, registry: Registry) -> None:
    model = quantized(CONFIGS[name])
    program = torch.export.export(model, (X,))
    data = graphwire.dumps(program, format=format, registry=registry)
    loaded = graphwire.loads(data, registry=registry)
    assert torch.equal(loaded.module()(X), model(X))
    for key, value in program.state_dict.items():
        assert type(loaded.state_dict[key]) is type(value)
    assert graphwire.dumps(loaded, format=format, registry=registry) == data
    with graphwire.open(data, registry=registry) as archive:
        assert {each.codec for each in archive.program.encoded_values.values()} == {"torchao"}


def test_what_torch_pickles_is_data_here(registry: Registry) -> None:
    program = exported(CONFIGS["int8 weights"])
    theirs = io.BytesIO()
    torch.export.save(program, theirs)
    pickled = {name for name, each in _config(theirs.getvalue()).items() if each["use_pickle"]}
    assert pickled == {"0.weight", "2.weight"}
    assert not any(
        each["use_pickle"] for each in _config(graphwire.dumps(program, registry=registry)).values()
    )


def _config(data: bytes) -> dict[str, Any]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        (name,) = [each for each in archive.namelist() if each.endswith("model_weights_config.json")]
        config: dict[str, Any] = json.loads(archive.read(name))["config"]
    return config


def test_a_process_that_never_heard_of_torchao_loads_one(tmp_path: Path, registry: Registry) -> None:
    path = tmp_path / "model.pt2"
    config = CONFIGS["int8 weights and activations"]
    graphwire.save(exported(config), path, registry=registry)
    code = (
        "import sys, graphwire, graphwire_torchao as plugin, torch\n"
        "registry = graphwire.Registry.without('graphwire-torchao').extended(plugin)\n"
        "assert 'torchao' not in sys.modules\n"
        "module = graphwire.load(sys.argv[1], registry=registry).module()\n"
        "print(float(module(torch.linspace(-1, 1, 128).view(2, 64)).sum()))\n"
    )
    folder = str(Path(graphwire_torchao.__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", code, path],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={"PYTHONPATH": folder, "HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split()[-1]) == pytest.approx(quantized(config)(X).sum().item(), abs=1e-6)


def test_a_class_that_is_not_torchaos_is_refused() -> None:
    tree, tensors = TorchaoTensors().encode(packed())
    assert isinstance(tree, dict)
    for name in (
        "torch.nn.parameter.Buffer",
        "torch.Tensor",
        "torchao.quantization.NoSuchTensor",
        "os.system",
    ):
        with pytest.raises(UnknownTypeError, match="torchao"):
            TorchaoTensors().decode({**tree, "class": name}, tensors)
    with pytest.raises(DecodeError, match=torchao.__version__.partition("+")[0]):
        TorchaoTensors().decode({**tree, "attributes": ["qdata"]}, tensors)
