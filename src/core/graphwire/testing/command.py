"""The contract of commands (hook `graphwire_commands`): subclass `CommandContract`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import pytest

from graphwire.cli import main as run_command
from graphwire.registry.interfaces import Command
from graphwire.registry.registry import default_registry
from graphwire.testing.suites import ProviderSuite

__all__ = ["CommandContract", "run_command"]


class CommandContract(ProviderSuite):
    """What a command keeps. Subclass it, and name your command and how it is called:

        class TestHello(CommandContract):
            command = HelloCommand()
            calls = (["--name", "you"],)

    Attributes:
        command: the command; its plugin is installed.
        calls: arguments, each of one call that succeeds.
    """

    hook, attribute = "graphwire_commands", "command"
    command: Command
    calls: Sequence[Sequence[str]] = ()

    def test_the_command_is_installed(self) -> None:
        """An entry point names the plugin, and no other plugin has a command of this name."""
        assert self.command.name in default_registry().commands, (
            "no entry point names its plugin, or the plugin is not in force"
        )

    def test_help_is_shown_and_wrong_options_are_refused(self, capsys: pytest.CaptureFixture[str]) -> None:
        """`--help` succeeds, the list of commands has the command, and an unknown option is a mistake of the caller."""
        assert run_command([self.command.name, "--help"]) == 0, "`--help` does not succeed"
        assert f"usage: graphwire {self.command.name}" in capsys.readouterr().out, (
            "`--help` does not begin with its usage"
        )
        assert run_command(["--help"]) == 0, "`graphwire --help` does not succeed"
        assert self.command.name in capsys.readouterr().out, "`graphwire --help` does not list it"
        assert run_command([self.command.name, "--no-such-option-of-any-command"]) == 2, (
            "an unknown option is not a mistake of the caller"
        )
        assert "Traceback" not in capsys.readouterr().err, "an unknown option prints a traceback"

    def test_calls_succeed(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Each call returns 0, and prints no error."""
        for arguments in self.calls:
            assert run_command([self.command.name, *arguments]) == 0, capsys.readouterr().err

    def test_showing_its_help_imports_no_torch(self) -> None:
        """The command line starts at once."""
        code = (
            "import sys; from graphwire.cli import main; main(sys.argv[1:]); sys.exit('torch' in sys.modules)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, self.command.name, "--help"], capture_output=True, check=False
        )
        assert done.returncode == 0, "showing its help imports torch"
