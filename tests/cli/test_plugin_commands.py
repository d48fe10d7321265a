"""Commands of plugins: the example of the documentation, installed, and what is refused."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from given_plugins import put_distribution
from inside.registry import OWN_COMMANDS

import graphwire
from graphwire import errors
from graphwire.cli import COMMANDS

PAGE = Path(__file__).parents[2] / "docs/hooks/commands.md"
CONTRACT = """
from graphwire.testing import CommandContract
from graphwire_biggest import BiggestCommand


class TestBiggest(CommandContract):
    command = BiggestCommand()
    calls = (["{file}"], ["{file}", "--count", "1", "--quiet"])
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the plugin of the page as a distribution, and a program."""
    folder = tmp_path_factory.mktemp("installed")
    (source,) = re.findall(r"`graphwire_biggest.py`:\n\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    entry = "[graphwire]\nbiggest = graphwire_biggest\n"
    put_distribution(folder, "graphwire-biggest", "0.1.0", entry, graphwire_biggest=source)
    program = torch.export.export(torch.nn.Linear(30, 20), (torch.ones(1, 30),))
    graphwire.save(program, folder / "program.pt2")
    return folder


def _python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=variables, capture_output=True, text=True, check=False
    )


def test_a_command_of_a_plugin_runs_as_any_other(installed: Path) -> None:
    run = _python(installed, "-m", "graphwire", "biggest", "program.pt2", "--count", "1")
    assert (run.stdout, run.returncode) == ("program.pt2: weight, 2,400 bytes\n", 0)
    assert "list the largest weights of files" in _python(installed, "-m", "graphwire", "--help").stdout
    absent = _python(installed, "-m", "graphwire", "biggest", "absent.pt2", "program.pt2")
    assert absent.returncode == 2
    assert "absent.pt2" in absent.stderr
    assert absent.stdout.count("program.pt2") == 2
    assert "did you mean 'biggest'" in _python(installed, "-m", "graphwire", "bigest", "program.pt2").stderr


@pytest.mark.slow
def test_the_example_keeps_the_contract(installed: Path) -> None:
    (installed / "test_biggest.py").write_text(CONTRACT.format(file=installed / "program.pt2"))
    run = _python(installed, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_biggest.py")
    assert "6 passed" in run.stdout, run.stdout
    checked = _python(installed, "-m", "graphwire", "check-plugin", "Graphwire_Biggest")
    assert (checked.returncode, "6 passed" in checked.stdout) == (0, True), checked.stdout


class _Right:
    name = "right"
    help = "do what is right"

    def add(self, parser: Any) -> None:
        parser.set_defaults(run=lambda arguments, output: 0)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"name": "inspect"}, "graphwire has a command 'inspect'"),
        ({"name": "Two Words"}, "lower-case letters"),
        ({"help": "two\nlines"}, "one line"),
        ({"help": ""}, "not text"),
        ({"add": None}, "it has no method `add`"),
        ({"add": lambda: None}, "is called with one argument"),
    ],
)
def test_a_command_that_cannot_be_used_is_refused_with_the_reason(wrong: dict[str, Any], reason: str) -> None:
    command = SimpleNamespace(**{"name": "right", "help": "help", "add": _Right().add} | wrong)
    plugin = SimpleNamespace(graphwire_commands=graphwire.hookimpl(lambda: [command, _Right()]))
    with pytest.raises(errors.PluginError, match=re.escape(reason)):
        graphwire.Registry.of(plugin)


def test_own_commands_are_those_of_the_command_line() -> None:
    assert set(COMMANDS) == OWN_COMMANDS


STATED = "[graphwire.command]\nspeaking = gw_speaking\n"


@pytest.mark.parametrize(
    ("command", "states"),
    [
        (["inspect", "program.pt2"], ""),
        (["plugins"], ""),
        (["biggest", "program.pt2"], ""),
        (["--help"], STATED),
    ],
)
def test_commands_run_beside_a_broken_plugin_where_warnings_are_errors(
    installed: Path, command: list[str], states: str, tmp_path: Path
) -> None:
    put_distribution(tmp_path, "gw-broken", "1.0", f"[graphwire]\nbroken = gw_speaking\n{states}")
    run = _beside(tmp_path, installed, *command, PYTHONWARNINGS="error")
    assert run.returncode == 0, run.stderr
    assert "`broken` of gw-broken==1.0 is dropped" in run.stderr


def _beside(
    folder: Path, installed: Path, *command: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a command where another folder with plugins is on the path."""
    paths = {"PYTHONPATH": os.pathsep.join((str(installed), str(folder)))}
    return subprocess.run(
        [sys.executable, "-m", "graphwire", *command],
        cwd=installed,
        env={**os.environ, **paths, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


SPEAKING = """
print("at import")
import graphwire


class Command:
    name = "speaking"
    help = "speak"

    def add(self, parser):
        print("in add")
        parser.set_defaults(run=lambda arguments, output: print("in run"))


@graphwire.hookimpl
def graphwire_commands():
    return [Command()]
"""


@pytest.mark.parametrize("command", [["--help"], ["speaking"]])
def test_only_what_a_command_prints_when_it_runs_is_output(
    installed: Path, command: list[str], tmp_path: Path
) -> None:
    entries = f"[graphwire]\nspeaking = gw_speaking\n{STATED}"
    put_distribution(tmp_path, "gw-speaking", "1.0", entries, gw_speaking=SPEAKING)
    run = _beside(tmp_path, installed, *command)
    assert run.returncode == 0, run.stderr
    assert run.stderr.splitlines() == ["at import", "in add"][: 1 + (command == ["speaking"])]
    assert run.stdout == "in run\n" or run.stdout.startswith("usage:")


@pytest.mark.parametrize("command", [["--help"], ["inspect", "program.pt2"]])
def test_an_interrupt_while_plugins_are_imported_ends_each_command_as_one_that_runs(
    installed: Path, command: list[str], tmp_path: Path
) -> None:
    entries = "[graphwire]\nspeaking = gw_speaking\n"
    put_distribution(tmp_path, "gw-speaking", "1.0", entries, gw_speaking="raise KeyboardInterrupt")
    run = _beside(tmp_path, installed, *command)
    assert (run.returncode, run.stderr) == (130, "graphwire: error: interrupted\n")
