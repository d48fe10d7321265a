"""Distributions for large packages, installed by pip and used for real; `make test-contrib` installs those packages first."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CONTRIB = Path(__file__).resolve().parents[3] / "contrib"
NAMES = ("graphwire-transformers", "graphwire-torchao", "graphwire-model-explorer")

for _package in ("transformers", "torchao", "model_explorer"):
    pytest.importorskip(_package, reason="needs the extra `contrib`: make test-contrib")

SAVE = """
import sys, warnings
warnings.simplefilter("ignore")
import graphwire, graphwire_transformers, torch, transformers
from torchao.quantization import Int8WeightOnlyConfig, quantize_

graphwire_transformers.register()
config = transformers.GPT2Config(vocab_size=16, n_positions=32, n_embd=8, n_layer=1, n_head=2)
model = transformers.GPT2LMHeadModel(config).eval()
ids = torch.tensor([[1, 2, 3]])
with torch.no_grad():
    cache = model(ids, use_cache=True).past_key_values
    step = torch.export.export(model, (), {"input_ids": ids[:, :1], "past_key_values": cache}, strict=False)
graphwire.save(step, sys.argv[1])
linear = torch.nn.Sequential(torch.nn.Linear(32, 32))
quantize_(linear, Int8WeightOnlyConfig())
graphwire.save(torch.export.export(linear, (torch.ones(1, 32),)), sys.argv[2])
"""

LOAD = """
import sys, warnings
warnings.simplefilter("ignore")
import graphwire
assert not {"torch", "transformers", "torchao"} & set(sys.modules)
step = graphwire.load(sys.argv[1])
assert "torchao" not in sys.modules or "transformers" in sys.modules
print(type(step.example_inputs[1]["past_key_values"]).__name__)
print(type(graphwire.load(sys.argv[2]).state_dict["0.weight"]).__name__)
"""

PLAIN = """
import sys, warnings
warnings.simplefilter("ignore")
import graphwire, torch
program = torch.export.export(torch.nn.ReLU(), (torch.ones(2),))
graphwire.loads(graphwire.dumps(program))
print(*({"transformers", "torchao", "model_explorer"} & set(sys.modules)))
"""


@pytest.fixture(scope="module")
def environment(make_environment: Callable[[str], Any]) -> Any:
    environment = make_environment("heavy")
    folders = [CONTRIB / name for name in NAMES]
    done = environment.install("--no-deps", "--no-build-isolation", *folders)
    assert done.returncode == 0, done.stderr
    return environment


@pytest.fixture(scope="module")
def files(environment: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("files")
    environment.run("-c", SAVE, folder / "step.pt2", folder / "int8.pt2")
    return folder / "step.pt2", folder / "int8.pt2"


def test_they_are_found_and_active(environment: Any) -> None:
    plugins = json.loads(environment.run("-m", "graphwire", "plugins", "--json"))
    active = {plugin["distribution"]: plugin["hooks"] for plugin in plugins if plugin["status"] == "active"}
    assert active["graphwire-transformers"] == ["graphwire_treespec_serializers"]
    assert active["graphwire-torchao"] == ["graphwire_constant_codecs", "graphwire_op_handlers"]


def test_files_are_loaded_without_a_line_of_code(environment: Any, files: tuple[Path, Path]) -> None:
    assert environment.run("-c", LOAD, *files).split()[-2:] == ["DynamicCache", "Int8Tensor"]


def test_a_program_without_their_types_imports_neither(environment: Any) -> None:
    assert environment.run("-c", PLAIN).strip() == ""


@pytest.mark.parametrize(
    ("blocked", "file", "needed"),
    [
        ("graphwire-transformers", 0, "the container type transformers.cache_utils.DynamicCache"),
        ("graphwire-torchao", 1, "the codec torchao comes with graphwire-torchao 0.1.0"),
    ],
)
def test_without_one_a_file_says_what_it_needs(
    environment: Any, files: tuple[Path, Path], blocked: str, file: int, needed: str
) -> None:
    code = "import graphwire, sys; graphwire.load(sys.argv[1])"
    done = environment.attempt("-c", code, files[file], GRAPHWIRE_DISABLE_PLUGINS=blocked)
    assert done.returncode != 0
    assert "MissingPluginError" in done.stderr
    assert needed in done.stderr
    assert "Allow it there" in done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_its_own_tests_pass(name: str, environment: Any, tmp_path: Path) -> None:
    summary = environment.run_tests(CONTRIB / name / "tests", tmp_path)
    assert "passed" in summary
    assert "failed" not in summary
