"""The contract of commands (hook `graphwire_commands`): subclass `CommandContract`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import pytest

from graphwire.cli import main as run_command
from graphwire.registry import Command, Registry, default_registry
from graphwire.testing.suites import assert_light_imports, plugin_of

__all__ = ["CommandContract", "run_command"]


class CommandContract:
    """What a command keeps. Subclass it, and name your command and how it is called:

        class TestHello(CommandContract):
            command = HelloCommand()
            calls = (["--name", "you"],)

    Attributes:
        command: the command; its plugin is installed.
        calls: arguments, each of one call that succeeds.
    """

    command: Command
    calls: Sequence[Sequence[str]] = ()

    def test_the_command_is_accepted(self) -> None:
        """The name and the help are valid, and no command of graphwire has the name."""
        made = Registry.of(plugin_of("graphwire_commands", self.command))
        assert [*made.commands] == [self.command.name]

    def test_the_command_is_installed(self) -> None:
        """An entry point names the plugin, and no other plugin has a command of this name."""
        assert self.command.name in default_registry().commands

    def test_help_is_shown_and_wrong_options_are_refused(self, capsys: pytest.CaptureFixture[str]) -> None:
        """`--help` succeeds, the list of commands has the command, and an unknown option is a mistake of the caller."""
        assert run_command([self.command.name, "--help"]) == 0
        assert f"usage: graphwire {self.command.name}" in capsys.readouterr().out
        assert run_command(["--help"]) == 0
        assert self.command.name in capsys.readouterr().out
        assert run_command([self.command.name, "--no-such-option-of-any-command"]) == 2
        assert "Traceback" not in capsys.readouterr().err

    def test_calls_succeed(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Each call returns 0, and prints no error."""
        for arguments in self.calls:
            assert run_command([self.command.name, *arguments]) == 0, capsys.readouterr().err

    def test_its_module_imports_nothing_heavy(self) -> None:
        """Neither importing the module nor showing help imports torch: the command line starts at once."""
        assert_light_imports(type(self.command).__module__)
        code = (
            "import sys; from graphwire.cli import main; main(sys.argv[1:]); sys.exit('torch' in sys.modules)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, self.command.name, "--help"], capture_output=True, check=False
        )
        assert done.returncode == 0, "showing its help imports torch"
