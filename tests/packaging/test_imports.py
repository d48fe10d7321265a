"""What is imported is what is used: commands start fast, and a first load does not wait for torch's compiler.

Counts, not times. A count may grow with a module that a command uses; a larger step means that something is imported for nothing.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import graphwire

CORE = Path(graphwire.__file__).parent
COMPILER = {"torch._dynamo", "torch._inductor", "torch.onnx", "networkx"}
SYMBOLS = {"sympy", "torch.fx.experimental.symbolic_shapes"}
SLOW = {"concurrent.futures", "ctypes", "difflib", "hashlib", "logging", "shutil"}
"""Modules of the standard library that take milliseconds, and that few files need."""


class Small(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        self.register_buffer("scale", torch.full((3,), 2.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.linear(x) * self.scale, -1)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("imports") / "small.pt2"
    graphwire.save(torch.export.export(Small().eval(), (torch.ones(2, 4),)), path)
    return path


def imported_by(code: str, *arguments: str | Path) -> set[str]:
    """The modules that a new process has imported after `code`."""
    told = "import sys; print('\\n', *sys.modules)"
    command = [sys.executable, "-c", f"{code}\n{told}", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def ours(modules: set[str]) -> set[str]:
    return {name for name in modules if name.partition(".")[0] in ("graphwire", "graphwire_plugins")}


def command(*words: str | Path) -> set[str]:
    return imported_by("import sys; from graphwire.cli import main; main(sys.argv[1:])", *words)


def test_the_package_imports_nothing_until_a_name_is_used() -> None:
    assert ours(imported_by("import graphwire")) == {"graphwire"}


def test_the_version_needs_the_command_line_alone() -> None:
    modules = command("--version")
    assert {name for name in ours(modules) if name.count(".") > 1} <= {
        "graphwire.cli",
        "graphwire.cli.terminal",
    }
    assert not modules & {"pluggy", "msgspec", "dataclasses", "inspect", "pathlib", *SLOW}


FORMATS = {"cbor2", "msgpack"}


@pytest.mark.parametrize(
    ("name", "slow", "most"),
    [
        ("inspect", SLOW | FORMATS | {"dataclasses", "pathlib"}, 82),
        ("verify", {"difflib", "shutil"} | FORMATS, 90),
    ],
)
def test_a_command_imports_what_it_uses(file: Path, name: str, slow: set[str], most: int) -> None:
    modules = command(name, file)
    assert not modules & {"torch", "numpy", *SYMBOLS, *slow}
    for unused in ("evolve.steps.", "wire.torch_files.pickle", "analysis.canonical."):
        assert not {each for each in modules if each.startswith(f"graphwire.{unused}")}
    assert len(ours(modules)) <= most


def test_a_file_of_torch_with_dynamic_shapes_is_inspected_without_hashes_and_schema_steps(
    tmp_path: Path,
) -> None:
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(Small().eval(), (torch.ones(2, 4),), dynamic_shapes=({0: batch},))
    torch.export.save(program, tmp_path / "dynamic.pt2")
    modules = command("inspect", tmp_path / "dynamic.pt2")
    assert not modules & (SLOW | FORMATS | SYMBOLS | {"torch"})
    assert not {each for each in modules if each.startswith("graphwire.evolve.steps.")}


def test_a_program_of_static_shapes_needs_no_symbols_and_no_compiler(file: Path) -> None:
    code = """
import copy, sys, torch, graphwire
program = graphwire.load(sys.argv[1])
program.graph_module(*program.state_dict.values(), torch.ones(2, 4))
graphwire.dumps(program)
graphwire.bind(program, dict(program.state_dict))
copy.deepcopy(program.graph_module)
"""
    assert not imported_by(code, file) & (COMPILER | SYMBOLS)


@pytest.mark.slow
def test_a_first_save_imports_few_modules(tmp_path: Path) -> None:
    code = """
import sys, torch, graphwire
graphwire.save(torch.export.export(torch.nn.ReLU(), (torch.ones(2),)), sys.argv[1])
"""
    modules = ours(imported_by(code, tmp_path / "small.pt2"))
    assert len({each for each in modules if each.startswith("graphwire.")}) <= 90


@pytest.mark.slow
def test_a_loaded_program_of_dynamic_shapes_imports_what_torchs_environment_imports(tmp_path: Path) -> None:
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(Small().eval(), (torch.ones(2, 4),), dynamic_shapes=({0: batch},))
    graphwire.save(program, tmp_path / "dynamic.pt2")
    modules = imported_by("import sys, graphwire; graphwire.load(sys.argv[1])", tmp_path / "dynamic.pt2")
    # `torch.fx.experimental.validator` imports the compiler. Looking for the user's frame would import the rest.
    assert not modules & {"torch.export._trace", "torch._inductor.sizevars", "networkx"}


def test_a_module_that_another_thread_has_begun_to_import_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "slow_library.py").write_text(
        "import threading\nbegun.set()\nthreading.Event().wait(0.3)\nready = True\n", "utf-8"
    )
    code = """
import builtins, sys, threading
from graphwire_plugins.ops import _imported as imported
sys.path.insert(0, sys.argv[1])
assert imported("slow_library") is None
builtins.begun = threading.Event()
threading.Thread(target=__import__, args=("slow_library",)).start()
begun.wait()
assert imported("slow_library").ready
"""
    imported_by(code, tmp_path)


def test_threads_may_use_the_package_first_at_the_same_time(file: Path) -> None:
    code = """
import sys, graphwire
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

path, barrier = sys.argv[1], Barrier(8)
uses = [
    lambda: graphwire.inspect(path), lambda: graphwire.verify(path), lambda: graphwire.diff(path, path),
    lambda: graphwire.open(path), lambda: graphwire.plugins(), lambda: graphwire.weights(path),
    lambda: graphwire.content_hash(path), lambda: graphwire.targets(path),
]

def use(index):
    barrier.wait()
    return uses[index]()

with ThreadPoolExecutor(8) as pool:
    assert len(list(pool.map(use, range(8)))) == 8
"""
    assert "graphwire.analysis.diff.program_diff" in imported_by(code, file)
