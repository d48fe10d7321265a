"""What do the commands show and make that are about plugins?"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, NamedTuple

from graphwire.cli.files import FOUND, OK
from graphwire.cli.options import add_json
from graphwire.cli.terminal import Output
from graphwire.display import Section
from graphwire.errors import GraphwireError, count_text

if TYPE_CHECKING:
    from graphwire.registry.discovery import PluginInfo
    from graphwire.registry.interfaces import Tree, WireFormat

# --------------------------- the command `doctor`: what to paste into a bug report, and whether this installation works


_DEPENDENCIES = ("torch", "sympy", "msgspec", "msgpack", "cbor2", "pluggy", "zlib-ng", "fsspec", "numpy")
_VARIABLES = ("GRAPHWIRE_PLUGINS", "GRAPHWIRE_DISABLE_PLUGINS", "NO_COLOR", "FORCE_COLOR")
_SECONDS = 300

_ROUND_TRIP = """
import sys, warnings
warnings.simplefilter("ignore")
import torch
import graphwire
x = torch.arange(6.0).reshape(2, 3)
torch.manual_seed(0)
program = torch.export.export(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU()), (x,))
for name in sys.argv[1:]:
    loaded = graphwire.loads(graphwire.dumps(program, format=name))
    assert torch.equal(loaded.module()(x), program.module()(x)), f"{name}: the loaded program computes something else"
"""
"""Saves and loads a program in each wire format. A process of its own runs it, because torch may fail in any way."""


class _Finding(NamedTuple):
    """A check and its result."""

    check: str
    good: bool
    result: str


def add_doctor(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Show versions, plugins and what is off, and save and load a small program in each wire format. The exit code is 1 if"
        " something does not work. Paste the output into a bug report."
    )
    add_json(parser)
    parser.set_defaults(run=_doctor)


def _doctor(arguments: argparse.Namespace, output: Output) -> int:
    from graphwire.registry.registry import default_registry
    from graphwire.version import __version__

    facts = {
        "graphwire": __version__,
        "Python": f"{platform.python_version()} ({platform.python_implementation()})",
        "system": platform.platform(),
        **{name: _version(name) for name in _DEPENDENCIES},
        **{name: os.environ[name] for name in _VARIABLES if name in os.environ},
    }
    registry = default_registry()
    findings = [
        _Finding(f"plugin {each.name}", each.status in ("active", "blocked"), _status(each))
        for each in registry.plugins
    ]
    formats = {name: _format(name, each) for name, each in sorted(registry.wire_formats.items())}
    findings += [*formats.values(), _torch()]
    with output.progress("Saving and loading a program"):
        findings.append(_round_trip([name for name, each in formats.items() if each.good]))
    healthy = all(each.good for each in findings)
    if arguments.json:
        output.json({"versions": facts, "checks": [each._asdict() for each in findings]}, problem=not healthy)
        return OK if healthy else FOUND
    rows = [(each.check, "good" if each.good else "BAD", each.result) for each in findings]
    sections = [Section("Versions", rows=[*facts.items()]), Section("Checks", ("check", "", "result"), rows)]
    output.sections(sections, problem=not healthy)
    return OK if healthy else FOUND


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "not installed"


def _status(plugin: Any) -> str:
    notes = {"slow": plugin.heavy, "stated in vain": plugin.ignored}
    status = f"{plugin.status}: {plugin.reason}" if plugin.reason else plugin.status
    return "; ".join([status, *(f"{note}: {text}" for note, text in notes.items() if text)])


def _format(name: str, wire_format: WireFormat) -> _Finding:
    """Write and read a document, which needs no torch: a format may import its library at first use."""
    from graphwire.wire.document import read_document, write_document

    check = f"format {name}"
    tree: Tree = {"text": ["a", 1, 0.5, None, True]}
    try:
        good = read_document(write_document(tree, wire_format), wire_format) == tree
    except GraphwireError as error:
        return _Finding(check, False, str(error))
    return _Finding(
        check, good, "a document is the same after a round trip" if good else "it reads another document"
    )


def _torch() -> _Finding:
    """Say whether the installed release of torch is a tested one."""
    from graphwire.version import NEWEST_TORCH, OLDEST_TORCH, TESTED_TORCH

    installed = _version("torch")
    found = re.match(r"(\d+)\.(\d+)", installed, re.ASCII)
    if found is None:
        return _Finding("torch", True, f"{installed}; graphwire is tested on {TESTED_TORCH}")
    tested = OLDEST_TORCH <= (int(found[1]), int(found[2])) <= NEWEST_TORCH
    what = "is tested" if tested else f"is not tested: graphwire is tested on {TESTED_TORCH}"
    return _Finding("torch", tested, f"{installed} {what}")


def _round_trip(formats: list[str]) -> _Finding:
    """Save and load a program with the installed torch; without one there is nothing to try."""
    check = "save and load"
    if _version("torch") == "not installed":
        return _Finding(check, True, "not tried: torch is not installed (pip install 'graphwire[torch]')")
    command = [sys.executable, "-c", _ROUND_TRIP, *formats]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return _Finding(check, False, f"not done after {_SECONDS} seconds")
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"the process ended with {done.returncode}"]
        return _Finding(check, False, last[0])
    return _Finding(check, True, f"the loaded program computes the same: {', '.join(formats)}")


# ------------------------------------------------------------- the command `plugins`, which lists the installed plugins


def add_plugins(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = "List the installed plugins, what they provide, and why inactive ones are inactive."
    add_json(parser)
    parser.set_defaults(run=_plugins)


def _plugins(arguments: argparse.Namespace, output: Output) -> int:
    import msgspec

    import graphwire

    found = graphwire.plugins()
    if arguments.json:
        output.json(msgspec.to_builtins(found))
    elif not found:
        output.line("no plugins are installed")
    else:
        output.sections(_plugin_sections(found))
    return 0


def _steps(names: Sequence[str]) -> list[str]:
    """Return the steps `NAMESPACE OLD->NEW` of upgrader names, each with its number of operators."""
    counts = Counter(" ".join(name.split()[:2]) for name in names if len(name.split()) > 2)
    steps = dict.fromkeys(" ".join(name.split()[:2]) for name in names)
    return [f"{step} ({count_text(counts[step], 'operator')})" if counts[step] else step for step in steps]


def _plugin_sections(plugins: Sequence[PluginInfo]) -> Iterator[Section]:
    """Yield the sections of the installed plugins, and of the reasons why some are inactive."""
    from graphwire.analysis.inspection_text import some_names
    from graphwire.registry.discovery import REMEDY_OF_HEAVY

    rows = [
        (
            plugin.name,
            f"{plugin.distribution} {plugin.version}".strip(),
            plugin.status,
            f"{plugin.load_seconds * 1000:.1f}",
            "; ".join(
                f"{kind.replace('_', ' ')} {some_names(_steps(names) if kind == 'opset_upgrader' else names)}"
                for kind, names in plugin.names.items()
                if names
            ),
        )
        for plugin in plugins
    ]
    title = count_text(len(plugins), "plugin")
    yield Section(title, ("name", "distribution", "status", "ms", "provides"), rows, frozenset({3}))
    reasons = [(plugin.name, plugin.reason) for plugin in plugins if plugin.reason]
    yield Section("Not active, or not completely", ("name", "reason"), reasons)
    slow = [(plugin.name, f"{plugin.heavy}. {REMEDY_OF_HEAVY}") for plugin in plugins if plugin.heavy]
    yield Section("Slow: each start of graphwire waits for them", ("name", "reason"), slow)
    ignored = [(plugin.name, plugin.ignored) for plugin in plugins if plugin.ignored]
    yield Section("Stated in vain", ("name", "reason"), ignored)
