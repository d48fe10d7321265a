"""Which plugins are in force: those of the registry that a call is given."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import graphwire
from graphwire.errors import PluginError, UnknownFormatError
from graphwire.hooks import Registry, default_registry


def program() -> torch.export.ExportedProgram:
    return torch.export.export(torch.nn.ReLU(), (torch.ones(2),))


def test_only_the_named_plugins_are_in_force(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    some = Registry.only("ops", "treespecs", "JSON")
    graphwire.save(program(), path, registry=some)
    assert graphwire.load(path, registry=some).graph is not None
    with pytest.raises(UnknownFormatError, match=r"cbor.*it is not named in `Registry.only`"):
        graphwire.save(program(), path, format="cbor", registry=some)
    with pytest.raises(UnknownFormatError, match=r"it is not named in `Registry.only`"):
        graphwire.load(path, registry=Registry.only("ops", "cbor"))
    graphwire.save(program(), path, format="cbor")
    assert graphwire.inspect(path, registry=Registry.only("graphwire")).methods
    assert {each.name for each in some.plugins} == {each.name for each in default_registry().plugins}


def test_all_but_the_named_plugins_are_in_force(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    rest = Registry.without("cbor", "opsets", "not_installed")
    with pytest.raises(UnknownFormatError, match=r"cbor.*it is named in `Registry.without`"):
        graphwire.save(program(), path, format="cbor", registry=rest)
    graphwire.save(program(), path, registry=rest)
    assert graphwire.load(path, registry=rest).graph is not None
    assert sorted(rest.wire_formats) == sorted(set(default_registry().wire_formats) - {"cbor"})


def test_only_names_plugins_that_are_installed() -> None:
    with pytest.raises(PluginError, match=r"`Registry.only` names another, no-such-plugin, and no plugin"):
        Registry.only("graphwire", "no_such_plugin", "another")


@pytest.mark.parametrize("choose", [Registry.only, Registry.without])
@pytest.mark.parametrize("name", [3, None, ["graphwire"]])
def test_a_plugin_is_named_by_text(choose: Any, name: Any) -> None:
    with pytest.raises(PluginError, match="a plugin is selected by its name, not by"):
        choose("graphwire", name)


@pytest.mark.slow
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
graphwire.load(sys.argv[1], registry=graphwire.Registry.only("graphwire"))
graphwire.convert(sys.argv[1], sys.argv[1] + ".cbor", format="cbor")
graphwire.inspect(sys.argv[1]), graphwire.verify(sys.argv[1]), graphwire.plugins()
assert (state(), of_torch()) == before
"""
    command = [sys.executable, "-W", "ignore", "-c", code, str(tmp_path / "model.pt2")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
