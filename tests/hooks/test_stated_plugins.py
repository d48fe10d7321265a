"""Plugins whose entry points state what they provide are imported when something of that is looked up, and not before."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from given_plugins import put_distribution, registry_with
from inside.registry import GraphwirePluginWarning
from nightly import one_in

import graphwire
from graphwire.cli import main
from graphwire.errors import GraphwireError, PluginConflictError, UnknownFormatError
from graphwire.hooks import Registry

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
        source = f"from graphwire.hooks import hookimpl\n{SOURCES[kind]}\n{hook}"
        stated = "".join(f"{name} = {module}\n" for name in names or NAMES.get(kind, ["stated"]))
        entries = f"[graphwire]\n{kind} = {module}\n[graphwire.{kind}]\n{stated}"
        put_distribution(tmp_path, module, "1", entries, **{module: source})
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
        pytest.warns(GraphwirePluginWarning, match="'stated' is registered by"),
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


@pytest.mark.parametrize("metadata", [False, True])
@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("[graphwire.wire_fromat]\nx = gw_stated_metadata_key", "`graphwire.wire_fromat` .*mean `graphwire.wire_format`"),
        ("[graphwire.nothing]\nx = gw_stated_metadata_key", "`graphwire.nothing` .*is none of graphwire's, which has "),
        ("[graphwire.wire_format]\nx = gw_statd", "`graphwire.wire_format` name gw_statd, which is no entry"),
    ],
)  # fmt: skip
def test_what_is_stated_in_vain_is_told(
    statement: str,
    told: str,
    metadata: bool,
    install: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    install("metadata_key")
    with (tmp_path / "gw_stated_metadata_key-1.dist-info" / "entry_points.txt").open("a") as file:
        file.write(f"{statement}\n")
    if metadata:
        monkeypatch.setattr("graphwire.registry.entry_points.entry_points_in_files", lambda group: None)
    registry = Registry.discover()
    (info,) = (each for each in registry.plugins if each.distribution == "gw_stated_metadata_key")
    assert info.status == "active"
    assert re.search(told, info.ignored)
    monkeypatch.setattr("graphwire.registry.registry.default_registry", lambda: registry)
    monkeypatch.setattr("graphwire.plugins", lambda: registry.plugins)
    for command in (["plugins"], ["check-plugin", "metadata_key"]):
        code = main([*command])
        output = " ".join(capsys.readouterr().out.split())
        assert "tated in vain" in output
        assert re.search(told, output)
    assert code == 1


def test_one_that_states_names_and_registers_nothing_is_told(install: Any, tmp_path: Path) -> None:
    install("command")
    path = tmp_path / "gw_stated_command-1.dist-info" / "entry_points.txt"
    path.write_text(path.read_text().replace("[graphwire]", "[graphwires]"))
    with pytest.warns(
        GraphwirePluginWarning, match=r"`graphwire.command` name gw_stated_command, which is no entry"
    ):
        (info,) = (each for each in Registry.discover().plugins if each.name == "gw_stated_command")
    assert info.status == "broken"


def test_what_a_plugin_prints_is_no_output_of_a_command(
    install: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: Any
) -> None:
    install("wire_format")
    path = tmp_path / "gw_stated_wire_format.py"
    path.write_text(
        f"print('imported')\n{path.read_text()}".replace("        return", "        print('called'); return")
    )
    registry, file = Registry.discover(), tmp_path / "a.pt2"
    graphwire.save(
        torch.export.export(torch.nn.ReLU(), (torch.ones(2),)), file, format="stated", registry=registry
    )
    data = file.read_bytes()
    for name in [each for each in sys.modules if each.startswith("gw_stated")]:
        del sys.modules[name]
    monkeypatch.setattr("graphwire.registry.registry.default_registry", Registry.discover)
    capfdbinary.readouterr()
    assert main(["inspect", "--json", str(file)]) == 0
    out, err = capfdbinary.readouterr()
    assert json.loads(out)["methods"]
    assert b"imported" in err
    assert b"called" in err
    assert main(["convert", str(file), "-o", "-", "--format", "stated"]) == 0
    out, err = capfdbinary.readouterr()
    assert out[:4] == data[:4]
    assert b"called" in err
    assert b"called" not in out


@pytest.mark.slow
@pytest.mark.parametrize("command", ["plugins", "doctor"])
def test_one_that_makes_every_start_slow_is_named(command: str, install: Any, tmp_path: Path) -> None:
    install("weight_store")
    install("wire_format")
    for kind, line in {
        "weight_store": "import torch",
        "wire_format": "import time\nbegun = time.thread_time()\nwhile time.thread_time() < begun + 0.31: pass",
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
    more = registry_with(commands=[])
    assert imported() == set()
    assert more.wire_format("stated").name == "stated"


EAGER = """
import time
import graphwire
from graphwire_plugins.json_format import JsonFormat

time.sleep(0.3)
graphwire.plugins()


class Format(JsonFormat):
    name, suffix, media_type = "eager", ".eager", "application/x"

    def matches(self, head):
        return False


@graphwire.hookimpl
def graphwire_wire_formats():
    graphwire.plugins()
    return [Format()]
"""
FIRST_USES = """
import faulthandler, importlib, sys, threading, time
from graphwire.hooks import default_registry

faulthandler.dump_traceback_later(30, exit=True)


def use():
    found.append("eager" in default_registry().wire_formats)


found = []
first = {"import": lambda: importlib.import_module("gw_eager"), "use": use}[sys.argv[1]]
threads = [threading.Thread(target=each) for each in (first, use, use)]
for each in threads:
    each.start()
    time.sleep(0.05)
for each in threads:
    each.join()
use()
print(found)
"""


STATES = "[graphwire.wire_format]\neager = gw_eager\n.eager = gw_eager\n"


@pytest.mark.parametrize(
    "case", one_in(2, [("import", ""), ("use", ""), ("use", STATES), ("import", STATES)])
)
def test_a_plugin_that_looks_something_up_while_it_is_imported_is_found_by_every_thread(
    case: tuple[str, str], tmp_path: Path
) -> None:
    first, states = case
    put_distribution(tmp_path, "gw-eager", "1.0", f"[graphwire]\neager = gw_eager\n{states}", gw_eager=EAGER)
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", FIRST_USES, first],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.stdout, run.stderr) == (f"{[True] * (3 + (first == 'use'))}\n", "")
