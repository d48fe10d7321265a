"""The command `check-plugin`, which runs the contract suites on what an installed plugin provides."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from graphwire.cli.files import FAILED, FOUND, OK
from graphwire.cli.terminal import Output
from graphwire.errors import PluginError, unless_interrupted

if TYPE_CHECKING:
    from graphwire.registry.discovery import PluginInfo
    from graphwire.registry.interfaces import WeightStore


class _Suite(NamedTuple):
    """The contract suite of a kind of provider."""

    contract: str
    attribute: str = ""
    """The attribute of the suite that holds the provider; empty if the suite needs examples from the author."""
    providers: str = ""
    """The attribute of the registry that has the providers by name."""


_SUITES = {
    "wire_format": _Suite("WireFormatContract", "wire_format", "wire_formats"),
    "weight_store": _Suite("WeightStoreContract", "store", "weight_stores"),
    "command": _Suite("CommandContract", "command", "commands"),
    "op_handler": _Suite("OpHandlerContract"),
    "opset_upgrader": _Suite("OpsetContract"),
    "treespec_serializer": _Suite("TreespecContract"),
    "constant_codec": _Suite("ConstantCodecContract"),
}


def add_check_plugin(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Run the contract suites on the wire formats, weight stores and commands of an installed plugin, and list its other"
        " providers: their suites need examples, which the plugin's own tests give. The exit code is 1 if a test fails. Needs the"
        " extra graphwire[test]."
    )
    parser.add_argument(
        "name", metavar="NAME", help="the plugin's name, as `graphwire plugins` lists it, or its distribution"
    )
    parser.add_argument("--only", metavar="TEXT", default="", help="only tests whose names contain this")
    parser.add_argument(
        "--location",
        metavar="NAME",
        help="what a weight store is asked to write, such as checkpoint/.metadata; by default model.STORE, or a folder",
    )
    parser.set_defaults(run=_check_plugin)


def _check_plugin(arguments: argparse.Namespace, output: Output) -> int:
    from graphwire.registry.registry import default_registry

    registry = default_registry()
    plugin = _named(arguments.name, registry.plugins)
    if plugin.status in ("blocked", "broken"):
        raise PluginError(f"the {plugin} is {plugin.status}: {plugin.reason}")
    for refused in plugin.refused:
        output.line(f"refused: {refused.reason}", "bad", problem=True)
    if plugin.ignored:
        output.line(f"stated in vain: {plugin.ignored}", "bad", problem=True)
    tested, rest = [], []
    for kind, names in plugin.names.items():
        suite = _SUITES.get(kind)
        if suite is not None and suite.providers:
            tested += [(suite, name) for name in names if name in getattr(registry, suite.providers)]
        elif names:
            needs = (
                f"graphwire.testing.{suite.contract} tests it with your examples"
                if suite
                else "it has no suite"
            )
            rest.append(
                f"{kind.replace('_', ' ')} {', '.join(names[:8])}{', …' if len(names) > 8 else ''}: {needs}"
            )
    for line in rest:
        output.line(line)
    locations = {
        name: _location(registry.weight_stores[name], arguments.location)
        for suite, name in tested
        if suite.attribute == "store"
    }
    code = _run(_test_file(tested, locations), arguments.only, output) if tested else OK
    for name in (each for each, location in locations.items() if code != OK and not location):
        output.line(
            f"The store {name} was asked to write to a folder, since it does not find model.{name}. If it writes files, "
            f"name one that it finds: --location model.SUFFIX"
        )
    return max(code, FOUND if plugin.refused or plugin.ignored else OK)


def _named(name: str, plugins: Sequence[PluginInfo]) -> PluginInfo:
    """Return the plugin of a name, or the only one of a distribution, as pip compares names: `my-format` is `my_format`."""
    from graphwire.registry.entry_points import normal_name

    wanted = normal_name(name)
    by_name = [each for each in plugins if normal_name(each.name) == wanted]
    found = by_name or [each for each in plugins if normal_name(each.distribution) == wanted]
    if len(found) == 1:
        return found[0]
    listed = ", ".join(each.name for each in found or plugins)
    if found:
        raise PluginError(f"{name!r:.80} names several plugins", remedy=f"Name one of {listed}")
    remedy = f"Installed are {listed}" if listed else "No plugins are installed"
    raise PluginError(f"there is no plugin {name!r:.80}", remedy=remedy)


def _location(store: WeightStore, given: str | None) -> str:
    """Return where the suite asks a store to write: the given place, or a file that the store finds by its name, or a folder."""
    from graphwire.wire.weights.folder import Folder

    if given is not None:
        return given
    named = f"model.{store.name}"
    with tempfile.TemporaryDirectory() as folder:
        try:
            return named if store.find(Folder(folder), named) == named else ""
        except unless_interrupted(Exception):  # a plugin's code: the suite says what is wrong with it
            return named


def _test_file(tested: Sequence[tuple[_Suite, str]], locations: Mapping[str, str]) -> str:
    contracts = ", ".join(sorted({suite.contract for suite, _ in tested}))
    lines = [
        "from inspect import unwrap",
        "",
        "from graphwire.registry.registry import default_registry",
        f"from graphwire.testing import {contracts}",
        "",
        "registry = default_registry()",
    ]
    for index, (suite, name) in enumerate(tested):
        lines += [
            "",
            "",
            f"class Test{index}({suite.contract}):",
            f"    {suite.attribute} = unwrap(registry.{suite.providers}[{str.__repr__(name)}])",
        ]
        if suite.attribute == "store":
            lines.append(f"    location = {str.__repr__(locations[name])}")
    return "\n".join([*lines, f"del {contracts}", ""])


_ENVIRONMENT = {
    "COLUMNS": "200",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTEST_ADDOPTS": "",
    "PYTEST_PLUGINS": "",
}
"""No plugin of pytest, which the tested distribution may have too, and no option of the caller leaves tests out."""


def _run(test_file: str, only: str, output: Output) -> int:
    """Run the tests in a process of their own, and return the exit code: FOUND if one failed, FAILED if none could run."""
    for module in ("pytest", "hypothesis"):
        if find_spec(module) is None:
            raise PluginError(f"{module} is not installed", remedy="Run: pip install 'graphwire[test]'")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "test_contracts.py")
        path.write_text(test_file, "utf-8")
        options = "-m pytest -q -p no:cacheprovider -p _hypothesis_pytestplugin --junit-xml report.xml --rootdir".split()
        command = [sys.executable, *options, folder, str(path)]
        printed = [Path(folder, name) for name in ("printed", "told")]
        # Files, not pipes, whose end would be waited for as long as a process that the plugin started has them.
        with printed[0].open("wb") as stdout, printed[1].open("wb") as stderr:
            code = subprocess.run(
                [*command, *(["-k", only] if only else [])],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                cwd=folder,
                env=os.environ | {"HYPOTHESIS_STORAGE_DIRECTORY": folder, **_ENVIRONMENT},
                check=False,
            ).returncode
        told, stderr_text = (each.read_text("utf-8", "replace") for each in printed)
        has_ended = Path(folder, "report.xml").exists()
    # pytest lists what failed last: behind the traces of a format that fails everything.
    failed = re.findall(
        r"^FAILED [^ ]*::test_(\w+)(?:\[.*?\])?(?: - (?:AssertionError: )?(.*))?$", told, re.MULTILINE
    )
    for test, why in reversed(dict(reversed(failed)).items()):
        output.line(f"{test.replace('_', ' ')}{': ' * bool(why)}{why}", "bad", problem=True)
    for line in told.splitlines():
        output.line(line, problem=code != 0)
    if stderr_text:
        output.remark(stderr_text.rstrip())
    if not has_ended:  # such as by `os._exit(0)`
        output.line("the plugin ended the process of its tests", "bad", problem=True)
        return FAILED
    return min(code, FAILED)  # pytest ends with 1 if a test fails, and with more if it cannot test
