"""Which plugins are in force: the registry that a call is given, and of it those that the call names."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import graphwire
from graphwire.errors import PluginError, UnknownFormatError
from graphwire.hooks.registry import Registry, default_registry

BOX = ("graphwire",)


def program() -> torch.export.ExportedProgram:
    return torch.export.export(torch.nn.ReLU(), (torch.ones(2),))


def test_every_function_that_takes_a_registry_takes_the_names_of_plugins() -> None:
    functions = {name: value for name, value in vars(graphwire).items() if inspect.isfunction(value)}
    takes = {name: set(inspect.signature(function).parameters) for name, function in functions.items()}
    assert {name for name, each in takes.items() if "registry" in each} == {
        name for name, each in takes.items() if "plugins" in each
    }
    assert {"save", "load", "open", "convert", "encode"} <= {
        n for n, each in takes.items() if "plugins" in each
    }


def test_only_the_named_plugins_are_in_force_for_a_call(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    names = ("ops", "treespecs", "json")
    graphwire.save(program(), path, plugins=names)
    assert graphwire.load(path, plugins=names).graph is not None
    with pytest.raises(UnknownFormatError, match=r"cbor.*it is not named in `plugins=`"):
        graphwire.save(program(), path, format="cbor", plugins=names)
    with pytest.raises(UnknownFormatError, match="it is not named in `plugins=`"):
        graphwire.load(path, plugins=("ops", "cbor"))
    graphwire.save(program(), path, format="cbor")
    assert graphwire.inspect(path, plugins=BOX).methods


def test_of_a_given_registry_only_the_named_ones_are_in_force() -> None:
    registry = default_registry()
    data = graphwire.dumps(program(), registry=registry, plugins=BOX)
    assert graphwire.loads(data, registry=registry, plugins="graphwire").graph is not None
    few = registry.only(["json", "MSGPACK"])
    assert sorted(few.wire_formats) == ["json", "msgpack"]
    assert sorted(registry.wire_formats) == sorted(default_registry().wire_formats)
    assert {plugin.name for plugin in few.plugins} == {plugin.name for plugin in registry.plugins}


@pytest.mark.parametrize("registry", [None, Registry.discover()])
def test_a_name_that_nothing_has_is_an_error(registry: Registry | None) -> None:
    with pytest.raises(PluginError, match="no-such-plugin"):
        graphwire.dumps(program(), registry=registry, plugins=["graphwire", "no_such_plugin"])


def test_the_same_names_are_discovered_once() -> None:
    assert default_registry(["graphwire"]) is default_registry(("graphwire", "graphwire"))


def test_importing_and_calling_changes_nothing_for_others(tmp_path: Path) -> None:
    code = """
import os, signal, sys, threading, warnings, locale, gc
def state():
    return (dict(os.environ), os.getcwd(), list(sys.path), list(sys.meta_path), list(warnings.filters), gc.isenabled(),
            sys.getrecursionlimit(), threading.active_count(), signal.getsignal(signal.SIGINT), sys.excepthook,
            sys.settrace.__class__, locale.setlocale(locale.LC_ALL))
import torch, torch.export
program = torch.export.export(torch.nn.ReLU(), (torch.ones(2),))
def of_torch():
    return (torch.get_default_dtype(), torch.is_grad_enabled(), torch.get_num_threads(), torch.initial_seed(),
            torch.get_rng_state().tolist(), len(torch.utils._pytree.SUPPORTED_NODES), torch.serialization.get_safe_globals())
before = state(), of_torch()
import graphwire
graphwire.save(program, sys.argv[1])
graphwire.load(sys.argv[1], plugins=["graphwire"])
graphwire.convert(sys.argv[1], sys.argv[1] + ".cbor", format="cbor")
graphwire.inspect(sys.argv[1]), graphwire.verify(sys.argv[1]), graphwire.plugins()
assert (state(), of_torch()) == before
"""
    command = [sys.executable, "-W", "ignore", "-c", code, str(tmp_path / "model.pt2")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
