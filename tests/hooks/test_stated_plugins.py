"""Plugins whose entry points state what they provide are imported when something of that is looked up, and not before."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import graphwire
from graphwire.errors import GraphwireError, PluginConflictError, UnknownFormatError
from graphwire.hooks import Registry
from graphwire.registry.discovery import GraphwirePluginWarning

SOURCES = {
    "wire_format": '''
class Provider:
    name, suffix, media_type = "stated", ".stated", "application/x-stated"
    def encode(self, tree):
        import json
        return json.dumps(tree).encode()
    def decode(self, data):
        import json
        return json.loads(bytes(data))
    def matches(self, head): return False
''',
    "op_handler": """
class Provider:
    namespace, prefixes, opset_version, convention = "gw_stated", ("torch.ops.gw_stated.",), 3, "schema"
    def name_of(self, target): return None
    def resolve(self, name): return None
""",
    "opset_upgrader": """
from graphwire.hooks import OpsetStep
Provider = lambda: OpsetStep("gw_steps", 2, 3, {"torch.ops.gw_steps.f": lambda edit: None})
""",
    "treespec_serializer": """
class Box: pass
class Provider:
    name, version = "gw_stated.Box", 1
    def container(self): return Box
    def dump_context(self, context): return 1, None
    def load_context(self, tree, version): return None
    def arity(self, container, context): return 1
""",
    "constant_codec": """
class Provider:
    name = "stated"
    def owns(self, value): return False
    def encode(self, value): return {}, []
    def decode(self, tree, tensors): return None
""",
    "weight_store": """
class Provider:
    name, takes_storages = "stated", False
    def find(self, folder, location): return None
    def open(self, folder, location): return None
    def keeps(self, dtype): return False
    def write(self, folder, location, tensors): return None
""",
    "command": """
class Provider:
    name, help = "stated", "a command"
    def add(self, parser): parser.set_defaults(run=lambda arguments, output: 0)
""",
    "metadata_key": """
from graphwire.hooks import MetadataKey
Provider = lambda: MetadataKey("stated")
""",
}  # fmt: skip
NAMES = {
    "wire_format": ["stated", ".stated"],
    "op_handler": ["torch.ops.gw_stated."],
    "opset_upgrader": ["gw_steps"],
    "treespec_serializer": ["gw_stated.Box"],
}
LOOKS: dict[str, Callable[[Registry], object]] = {
    "wire_format": lambda registry: registry.wire_format("stated"),
    "op_handler": lambda registry: registry.op_handler("torch.ops.gw_stated.f.default"),
    "opset_upgrader": lambda registry: registry.opset_steps,
    "treespec_serializer": lambda registry: registry.container_types.named("gw_stated.Box"),
    "constant_codec": lambda registry: registry.constant_codecs["stated"],
    "weight_store": lambda registry: registry.weight_stores["stated"],
    "command": lambda registry: registry.commands["stated"],
    "metadata_key": lambda registry: registry.metadata_keys["stated"],
}


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(kind: str, names: list[str] | None = None, suffix: str = "") -> None:
        module = f"gw_stated_{kind}{suffix}"
        hook = f"@hookimpl\ndef graphwire_{kind}s(): return [Provider()]\n"
        (tmp_path / f"{module}.py").write_text(
            f"from graphwire.hooks import hookimpl\n{SOURCES[kind]}\n{hook}"
        )
        info = tmp_path / f"{module}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1\n")
        stated = "".join(f"{name} = {module}\n" for name in names or NAMES.get(kind, ["stated"]))
        (info / "entry_points.txt").write_text(
            f"[graphwire]\n{kind} = {module}\n[graphwire.{kind}]\n{stated}"
        )
        importlib.invalidate_caches()

    yield install
    for name in [each for each in sys.modules if each.startswith("gw_stated")]:
        del sys.modules[name]


def imported() -> set[str]:
    return {name.removeprefix("gw_stated_") for name in sys.modules if name.startswith("gw_stated_")}


def test_nothing_is_imported_for_a_program_that_needs_none(install: Any, tmp_path: Path) -> None:
    for kind in SOURCES:
        install(kind)
    registry, file = Registry.discover(), tmp_path / "a.pt2"
    graphwire.save(torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),)), file, registry=registry)
    graphwire.load(file, registry=registry)
    graphwire.load_module(file, registry=registry)
    graphwire.inspect(file, registry=registry)
    assert graphwire.verify(file, registry=registry) == []
    graphwire.convert(file, tmp_path / "b.pt2", format="cbor", registry=registry)
    assert imported() == set()
    graphwire.convert(file, tmp_path / "c.pt2", format="stated", registry=registry)
    assert imported() == {"wire_format"}
    assert {each.status for each in registry.plugins} == {"active"}
    assert imported() == set(SOURCES)


@pytest.mark.parametrize("kind", SOURCES)
def test_a_lookup_imports_the_plugin_and_finds_what_it_has(kind: str, install: Any) -> None:
    for each in SOURCES:
        install(each)
    registry = Registry.discover()
    assert imported() == set()
    assert LOOKS[kind](registry)
    assert imported() == {kind}


@pytest.mark.parametrize("kind", SOURCES)
def test_one_that_states_something_else_is_broken(kind: str, install: Any) -> None:
    install(kind, [*NAMES.get(kind, ["stated"]), "another"])
    registry = Registry.discover()
    with pytest.warns(GraphwirePluginWarning, match=rf"its entry points `graphwire.{kind}` state .*another"):
        (info,) = (each for each in registry.plugins if each.distribution.startswith("gw_stated"))
    assert info.status == "broken"


def test_two_that_state_one_name_are_a_conflict_when_it_is_used(install: Any) -> None:
    install("wire_format")
    install("wire_format", suffix="_two")
    registry = Registry.discover()
    assert registry.wire_format("json").name == "json"
    assert imported() == set()
    with (
        pytest.warns(GraphwirePluginWarning, match="'stated' is claimed by"),
        pytest.raises(PluginConflictError),
    ):
        registry.wire_format("stated")


def test_one_that_cannot_be_imported_is_told_when_it_is_needed(install: Any, tmp_path: Path) -> None:
    install("wire_format")
    (tmp_path / "gw_stated_wire_format.py").write_text("import no_such_module_anywhere")
    registry = Registry.discover()
    with (
        pytest.warns(GraphwirePluginWarning, match="No module named"),
        pytest.raises(UnknownFormatError, match="no_such_module_anywhere"),
    ):
        registry.wire_format("stated")
    with pytest.raises(GraphwireError):
        registry.wire_format("stated")


@pytest.mark.slow
@pytest.mark.parametrize("command", ["plugins", "doctor"])
def test_one_that_makes_every_start_slow_is_named(command: str, install: Any, tmp_path: Path) -> None:
    install("weight_store")
    install("wire_format")
    for kind, line in {
        "weight_store": "import torch",
        "wire_format": "import time; time.sleep(0.31)",
    }.items():
        path = tmp_path / f"gw_stated_{kind}.py"
        path.write_text(f"{line}\n{path.read_text()}")
    done = subprocess.run(
        [sys.executable, "-m", "graphwire", command],
        env=os.environ | {"PYTHONPATH": str(tmp_path), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = " ".join(done.stdout.split())
    assert re.search(r"weight_store .*it imports torch at module level", told)
    assert re.search(r"wire_format .*it takes 0\.\d s to load", told)


def test_others_are_added_and_what_is_stated_is_still_found(install: Any) -> None:
    install("wire_format")
    more = Registry.discover().extended(
        type("Plugin", (), {"graphwire_commands": staticmethod(graphwire.hookimpl(_no_commands))})
    )
    assert imported() == set()
    assert more.wire_format("stated").name == "stated"


def _no_commands() -> list[Any]:
    return []


_no_commands.__name__ = "graphwire_commands"
