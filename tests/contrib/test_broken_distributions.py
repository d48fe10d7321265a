"""Broken plugins, installed for real and all at once: each is told of by name, and everything else keeps working."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PYPROJECT = """
[build-system]
requires = ["hatchling>=1.25"]
build-backend = "hatchling.build"

[project]
name = "{distribution}"
version = "1.2"

[project.entry-points.graphwire]
{name} = "broken_{name}"

[tool.hatch.build.targets.wheel]
only-include = ["broken_{name}.py"]
"""

FORMAT = """
import graphwire

class Format:
    name, suffix = {name!r}, ".{name}"
    def encode(self, tree): return b""
    def decode(self, buffer): return None
    def matches(self, head): return False

@graphwire.hookimpl
def graphwire_wire_formats(): return [Format()]
"""

SOURCES = {
    "import": "import no_such_module_anywhere",
    "exits": "raise SystemExit(3)",
    "signature": FORMAT.format(name="signature").replace("formats()", "formats(surprise)"),
    "raises": FORMAT.format(name="raises").replace("return [Format()]", "raise RuntimeError('in the hook')"),
    "wrong_type": FORMAT.format(name="wrong_type").replace("return [Format()]", "return 'a format'"),
    "no_protocol": FORMAT.format(name="no_protocol").replace(
        "    def decode(self, buffer): return None\n", ""
    ),
    "twin_one": FORMAT.format(name="twin"),
    "twin_two": FORMAT.format(name="twin"),
    "takes_json": FORMAT.format(name="json"),
    "newer": "GRAPHWIRE_API = 1000\n" + FORMAT.format(name="newer"),
    "newer_import": "from graphwire.registry.interfaces import a_hook_to_come",
    "slow": "import time\ntime.sleep(2.1)\n" + FORMAT.format(name="slow"),
}
REASONS = {
    "import": "No module named 'no_such_module_anywhere'",
    "exits": "SystemExit: 3",
    "signature": "surprise",
    "raises": "RuntimeError: in the hook",
    "wrong_type": "graphwire_wire_formats returns 'a format', not a list of WireFormat",
    "no_protocol": "it has no method `decode`",
    "twin_one": "'twin' is claimed by plugin `twin_one` of broken-twin-one==1.2 and by plugin `twin_two`",
    "twin_two": "'twin' is claimed by plugin `twin_one` of broken-twin-one==1.2 and by plugin `twin_two`",
    "takes_json": "'json' is claimed by",
    "newer": "it is written for version 1000 of the plugin interface",
    "newer_import": "it may be written for another version than graphwire",
}

WORK = """
import sys
import warnings
warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
import torch
import graphwire
from graphwire.errors import PluginConflictError, UnknownFormatError

program = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
for format in ("json", "msgpack", "cbor"):
    loaded = graphwire.loads(graphwire.dumps(program, format=format))
    assert torch.equal(loaded.module()(torch.ones(1, 2)), program.module()(torch.ones(1, 2)))
for format in ("newer", "twin"):
    try:
        graphwire.dumps(program, format=format)
    except (PluginConflictError, UnknownFormatError) as error:
        print(type(error).__name__, error)
"""


@pytest.fixture(scope="module")
def environment(make_environment: Callable[[str], Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    environment = make_environment("broken")
    folders = []
    for name, source in SOURCES.items():
        folder, distribution = tmp_path_factory.mktemp(name), f"broken-{name.replace('_', '-')}"
        (folder / "pyproject.toml").write_text(
            PYPROJECT.format(name=name, distribution=distribution), encoding="utf-8"
        )
        (folder / f"broken_{name}.py").write_text(source, encoding="utf-8")
        folders.append(folder)
    done = environment.install("--no-deps", "--no-build-isolation", *folders)
    assert done.returncode == 0, done.stderr
    return environment


@pytest.fixture(scope="module")
def listed(environment: Any) -> tuple[dict[str, Any], str]:
    """What `graphwire plugins --json` says of each plugin, and its warnings."""
    done = environment.attempt("-m", "graphwire", "plugins", "--json")
    assert done.returncode == 0, done.stderr
    return {plugin["name"]: plugin for plugin in json.loads(done.stdout)}, done.stderr


@pytest.mark.parametrize("name", REASONS)
@pytest.mark.slow
def test_each_is_listed_with_the_reason_and_warned_of_by_name(
    name: str, listed: tuple[dict[str, Any], str]
) -> None:
    plugins, warnings = listed
    assert plugins[name]["status"] == "broken"
    assert REASONS[name] in plugins[name]["reason"]
    (warning,) = [
        line for line in warnings.splitlines() if f"`{name}` of broken-" in line.partition(" is dropped")[0]
    ]
    assert f"==1.2 is dropped: {plugins[name]['reason']}" in warning


@pytest.mark.slow
def test_a_slow_one_is_warned_of_and_works(listed: tuple[dict[str, Any], str]) -> None:
    plugins, warnings = listed
    assert plugins["slow"]["status"] == "active"
    assert plugins["slow"]["load_seconds"] > 2
    assert "plugin `slow` of broken-slow==1.2 takes 2." in warnings


def test_what_is_in_the_box_keeps_working(listed: tuple[dict[str, Any], str]) -> None:
    plugins, _ = listed
    box = [plugin for plugin in plugins.values() if plugin["distribution"] == "graphwire"]
    assert len(box) == 8
    assert {plugin["status"] for plugin in box} == {"active"}


@pytest.mark.slow
def test_programs_are_saved_and_loaded_and_what_is_needed_is_an_error(environment: Any) -> None:
    newer, twin = environment.run("-c", WORK, GRAPHWIRE_DISABLE_PLUGINS="slow").splitlines()
    assert newer.startswith("UnknownFormatError")
    assert "`newer` of broken-newer==1.2 is broken: it is written for version 1000" in newer
    assert twin.startswith("PluginConflictError")
    assert "`twin_one` of broken-twin-one==1.2" in twin
    assert "`twin_two` of broken-twin-two==1.2" in twin


def test_one_that_is_blocked_is_neither_loaded_nor_warned_of(environment: Any, tmp_path: Path) -> None:
    blocked = ",".join(f"broken-{name.replace('_', '-')}" for name in SOURCES)
    done = environment.attempt("-m", "graphwire", "plugins", "--json", GRAPHWIRE_DISABLE_PLUGINS=blocked)
    assert done.stderr == ""
    plugins = [each for each in json.loads(done.stdout) if each["distribution"].startswith("broken-")]
    assert {(each["status"], each["reason"]) for each in plugins} == {
        ("blocked", "it is named in GRAPHWIRE_DISABLE_PLUGINS")
    }
