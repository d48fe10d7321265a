"""A process that imported nothing of torch but `import torch` finds each operator that torch has itself."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pkgutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

import graphwire
from graphwire_plugins.ops import (
    LATE_MODULES,
    TORCH_LIBRARIES,
    HigherOrderOperators,
    LibraryOverloads,
    register_late,
)

PACKAGES = ("torch._dynamo.variables", "torch._higher_order_ops", "torch._prims", "torch.onnx.ops")
"""Where torch registers operators, besides the modules of `LATE_MODULES`."""
MISSING = """
import itertools, json, os, sys
from unittest import mock
from graphwire_plugins import ops as higher_order, ops as overloads

higher_order_operators, library_overloads = higher_order.HigherOrderOperators(), overloads.LibraryOverloads()

def is_missing(name):
    handler = higher_order_operators if name.startswith(higher_order_operators.prefixes) else library_overloads
    return handler.resolve(name) is None

def late(name):  # an operator by itself, or the library
    _, _, library, operator, *_ = name.split(".")
    return (library, operator) if library == "higher_order" else library

names = json.load(sys.stdin)
with mock.patch.object(higher_order, "register_late"), mock.patch.object(overloads, "register_late", return_value=False):
    names = list(filter(is_missing, names))
for _, group in itertools.groupby(names, late):
    if os.fork() == 0:  # one import brings others with it
        print(*filter(is_missing, group), flush=True)
        os._exit(0)
    os.wait()
"""


def _imported_all() -> None:
    for name in LATE_MODULES:
        register_late(name)
    for package in map(importlib.import_module, PACKAGES):
        for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            with contextlib.suppress(
                ImportError
            ):  # of what a module of torch needs and this environment lacks
                importlib.import_module(each.name)


def _operators() -> set[str]:
    """The names of all operators of torch that this process has."""
    from torch._ops import HigherOrderOperator, _higher_order_ops

    overloads = LibraryOverloads()
    named = {
        f"torch.ops.{library}.{operator}.{overload or 'default'}"
        for each in torch._C._dispatch_get_all_op_names()
        for library, _, rest in [each.partition("::")]
        for operator, _, overload in [rest.partition(".")]
        if library in TORCH_LIBRARIES
    }
    own = {
        name
        for name, each in _higher_order_ops.items()
        if type(each) is not HigherOrderOperator and type(each).__module__.startswith("torch.")
    }
    assert {f"torch.ops.higher_order.{name}" for name in own} <= set(HigherOrderOperators.keeps)
    return {f"torch.ops.higher_order.{name}" for name in own} | {
        each for each in named if overloads.resolve(each)
    }


LOADING = """
import sys
import audit

audit.watch()
import torch
import graphwire

with open(sys.argv[1], "rb") as stream:
    data = stream.read()
assert not any(name.startswith("torch.onnx") for name in sys.modules)
program = graphwire.loads(data)
assert graphwire.dumps(program) == data
(result,) = program.module()(torch.arange(32.0).reshape(1, 2, 2, 8))
assert audit.deeds == []
print(result.sum().item())
"""


class Rotated(torch.nn.Module):
    """Rotates embeddings with the operator that torch has for ONNX."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.arange(16.0).reshape(1, 4, 4).cos())

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor]:
        cache = self.cache[:, :2]
        return (torch.onnx.ops.rotary_embedding(x, cache, cache.sin()),)


@pytest.mark.slow
def test_a_program_with_a_late_operator_is_loaded_and_run_by_a_fresh_process(tmp_path: Path) -> None:
    path, call = tmp_path / "rotated.pt2", torch.arange(32.0).reshape(1, 2, 2, 8)
    graphwire.save(torch.export.export(Rotated(), (call,)), path)
    done = subprocess.run(
        [sys.executable, "-c", LOADING, path],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == Rotated()(call)[0].sum().item()


@pytest.mark.slow
def test_a_fresh_process_finds_every_operator_of_torch() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _imported_all()
    names = _operators()
    assert len(names) > 3000
    done = subprocess.run(
        [sys.executable, "-c", MISSING],
        input=json.dumps(sorted(names)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == []


def test_what_is_late_is_of_torch() -> None:
    assert {name for name in LATE_MODULES if "." not in name} <= set(TORCH_LIBRARIES)
    assert all(each.startswith("torch.") for each in LATE_MODULES.values())
    higher_order = {f"torch.ops.{name}" for name in LATE_MODULES if "." in name}
    assert higher_order <= set(HigherOrderOperators.keeps)
    assert not register_late("aten")
