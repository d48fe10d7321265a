"""What does each command read and print?

The command `graphwire` inspects, converts, compares and verifies files, and lists plugins, without torch.

Exit codes: 0 all is good; 1 problems or differences found; 2 it could not be done; 130 interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import io
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, BinaryIO, NoReturn, TextIO, TypeAlias

from graphwire.cli.terminal import Output, columns, failure_tree
from graphwire.errors import unless_interrupted

# -------------------------------------------------------------- the command `graphwire`: its subcommands and exit codes
# This module only parses arguments and reports errors. A command's module is imported when the command runs, or its help is
# shown; `graphwire.api` does the work.


OK, FAILED, INTERRUPTED, BROKEN_PIPE = 0, 2, 130, 141
"""Exit codes. A command that finds a problem or difference returns 1; docs/command-line.md has a table of all commands. The last
two are the codes of a shell for SIGINT and SIGPIPE."""

_CODES = (
    "Exit codes: 0 all is good; {}2 it could not be done: a file cannot be read, or the arguments are wrong."
)
_FOUND = "1 problems or differences found; "
_FINDS_NOTHING = frozenset(
    ("inspect", "view", "convert", "strip", "weights", "plugins", "new-plugin", "completion", "schema")
)
"""The commands that never return 1: they look for no problems or differences."""


_LIKENESS = 0.7
"""How alike a mistyped word and a suggestion are at least, from 0 to 1."""


_Command: TypeAlias = tuple[str, Callable[[], Callable[[argparse.ArgumentParser], None]]]
"""The help of a subcommand, and what imports its module and returns the function that adds its arguments."""


def _adder(name: str, module: str) -> Callable[[argparse.ArgumentParser], None]:
    """Import a command's module, and return the function that adds its arguments: `add_NAME`."""
    found = importlib.import_module(f"graphwire.cli.{module}")  # noqa: TID251 a module of this package
    add: Callable[[argparse.ArgumentParser], None] = getattr(found, f"add_{name.replace('-', '_')}")
    return add


_ROWS = (
    ("inspect", "inspect_file", "show the programs, weights and origin of files"),
    ("verify", "verify", "list all problems of files"),
    ("view", "view", "show a program, or the difference of two, in the browser"),
    ("diff", "compare", "list the differences of two files"),
    ("hash", "hash_file", "print a hash of what each program computes, or compare with a list"),
    ("targets", "inspect_file", "list the torch releases that files can be written for"),
    ("convert", "rewriting", "write files again in another wire format or for an older torch"),
    ("upgrade", "rewriting", "write files again with their operators at the installed versions"),
    ("strip", "rewriting", "write files without stack traces, example inputs and the like"),
    ("weights", "weights", "list the weights of a program and where they are"),
    ("blobs", "blobs", "verify a folder of blobs, or remove those that no program uses"),
    ("plugins", "plugins", "list the installed plugins"),
    ("new-plugin", "new_plugin", "create a plugin from a template"),
    ("check-plugin", "check_plugin", "run the contract suites on an installed plugin"),
    ("doctor", "plugins", "show versions and what does not work, for a bug report"),
    ("completion", "terminal", "print what completes commands in bash, zsh or fish"),
    ("schema", "conformance", "print the schema of the format, for programs in other languages"),
    ("neutral", "conformance", "print what a reader finds in a file, as neutral JSON"),
    ("conformance", "conformance", "run a reader in any language over the conformance suite"),
)
COMMANDS: dict[str, _Command] = {name: (help, partial(_adder, name, module)) for name, module, help in _ROWS}
"""The subcommands of graphwire itself, in the order in which the help lists them. Plugins have others (hook
`graphwire_commands`), which follow."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the arguments after the program's name; None for those of the process.

    Returns:
        The exit code.
    """
    _open_closed_streams()
    words = list(sys.argv[1:] if argv is None else argv)
    thresholds = gc.get_threshold()
    gc.set_threshold(100_000, *thresholds[1:])  # importing and reading make many objects and little garbage
    try:
        return _main(words)
    finally:
        if argv is None and _chosen(words) in COMMANDS:
            # The process ends, and Python would look twice at every object in it, a tenth of the time of a small command. A
            # plugin's command may use libraries that wait for this, or tell what is left.
            gc.freeze()
        gc.set_threshold(*thresholds)


def _main(words: list[str]) -> int:
    arguments, output = argparse.Namespace(), Output()
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: output.warning(str(message))
            # torch tells so wherever NumPy is absent, which no command needs.
            warnings.filterwarnings("ignore", message="Failed to initialize NumPy", category=UserWarning)
            _tell_of_plugins()
            try:
                arguments = _parsed(words)
            except SystemExit as ended:  # argparse has printed its help or an error.
                return ended.code if isinstance(ended.code, int) else FAILED
            output = Output(color=arguments.color, quiet=arguments.quiet, debug=arguments.debug, words=words)
            with _loading_plugins():
                from graphwire.registry.registry import default_registry

                default_registry()
            run = getattr(arguments, "run_of_plugin", None)
            # A command of a plugin may print. What a plugin prints that another command uses is none of its output.
            with contextlib.nullcontext() if run else _prints_aside(output):
                code: int = (run or arguments.run)(arguments, output)
            sys.stdout.flush()
            return code
    except BrokenPipeError:
        _close_quietly()
        return BROKEN_PIPE
    except KeyboardInterrupt as error:
        output.failure(error)
        return INTERRUPTED
    except unless_interrupted(Exception) as error:  # the last line of defence: no traceback unless asked for
        output.failure(error)
        if getattr(arguments, "json", False):
            output.json({"error": failure_tree(error)}, problem=True, indent=None)
        return FAILED


def _parsed(words: list[str]) -> argparse.Namespace:
    """Parse the command line.

    Raises:
        SystemExit: the help, the version, completions or an error are printed.
    """
    if "_ARGCOMPLETE" in os.environ:
        from graphwire.cli.terminal import complete

        complete(_parser)
    chosen = _chosen(words)
    if not words:
        _parser().print_help(sys.stderr)
        raise SystemExit(FAILED)
    parser = _parser(chosen, plugins="--version" not in words, only=words[:1] == [chosen])
    for each in filter(None, (parser, parser.command)):
        each.words = words
    arguments, more = parser.parse_known_args(words)
    if (
        more
        and isinstance(getattr(arguments, "files", None), list)
        and not any(each.startswith("-") for each in more)
    ):
        arguments.files += more  # argparse takes the files before an option alone
    elif more:
        parser.error(f"unrecognized arguments: {' '.join(more)}")
    return arguments


def _chosen(words: Sequence[str]) -> str | None:
    """Return the word that names the command: the first that is neither an option nor an option's value."""
    for before, word in zip(["", *words], words, strict=False):
        if not word.startswith("-") and before != "--color":
            return word
    return None


@contextlib.contextmanager
def _loading_plugins() -> Iterator[None]:
    """A context that loads plugins: their prints do not mix with the command's output, and their filters of warnings end."""
    with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
        yield


class _Aside(io.TextIOBase):
    """Standard output while a command runs: text goes to standard error, and bytes of files to where they went before."""

    def __init__(self, stdout: TextIO) -> None:
        self._stdout = stdout

    @property
    def buffer(self) -> BinaryIO:
        """The stream of bytes of files."""
        return self._stdout.buffer

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def fileno(self) -> int:
        return self._stdout.fileno()

    def flush(self) -> None:
        self._stdout.flush()


@contextlib.contextmanager
def _prints_aside(output: Output) -> Iterator[None]:
    with output.printing_to(output.stdout, output.stderr), contextlib.redirect_stdout(_Aside(sys.stdout)):
        yield


def _tell_of_plugins() -> None:
    """Let warnings of plugins be told, also where warnings are errors."""
    if any(action == "error" for action, *_ in warnings.filters):
        from graphwire.registry.discovery import GraphwirePluginWarning

        warnings.simplefilter("default", GraphwirePluginWarning)


class _Help(argparse.HelpFormatter):
    """Formats help in the width of the terminal. argparse makes one for each option, and imports `shutil` to know the width."""

    def __init__(self, prog: str, **options: Any) -> None:
        super().__init__(prog, **{"width": columns() - 2, **options})


class _Parser(argparse.ArgumentParser):
    """A parser whose errors suggest what a mistyped command or option may mean."""

    words: Sequence[str] = ()
    """The words of the command line."""
    command: _Parser | None = None
    """The parser of the command that runs."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": _Help, **options})

    def error(self, message: str) -> NoReturn:
        """Print the usage, the error and a suggestion, and exit with 2."""
        import difflib

        if "://" in message:
            from graphwire.wire.remote import shown_text

            message = shown_text(message)
        if self.command is not None:  # its usage helps more than that of all commands
            self.command.error(message)
        wrong, known = "", list[str]()
        files = [word for word in self.words if word.startswith("-") and os.path.lexists(word)]
        if files:
            message = f"{message}. For the file of that name, write ./{files[0]}"
        elif message.startswith("unrecognized arguments: "):
            wrong = message.partition(": ")[2].split()[0].partition("=")[0]
            known = [*self._option_string_actions]
        elif "invalid choice: " in message:
            wrong = message.partition("invalid choice: ")[2].partition(" ")[0].strip("'")
            choices = message.partition("(choose from ")[2].rstrip(")").split(",")
            known = [*self._option_string_actions, *(choice.strip(" '") for choice in choices)]
        found = difflib.get_close_matches(wrong, known, n=1, cutoff=_LIKENESS)
        if found == [wrong]:
            super().error(f"{wrong} belongs behind the name of the command")
        super().error(
            f"{message.partition(' (choose from')[0]}; did you mean {found[0]!r}?" if found else message
        )


def _parser(chosen: str | None = None, *, plugins: bool = True, only: bool = False) -> _Parser:
    """Return the parser.

    Args:
        chosen: the command to run, whose arguments are added; None for none.
        plugins: whether to look for a command that graphwire does not know, and for help, among those of plugins.
        only: whether the chosen command alone is enough, as where it is the first word.
    """
    parser = _Parser(
        prog="graphwire",
        description="Inspect, convert, compare and verify files of exported PyTorch programs. Nothing in a file is executed.",
        epilog=_CODES.format(_FOUND),
    )
    parser.add_argument("--version", action=_Version, help="print the version and exit")
    if not only and plugins:
        from graphwire.cli.options import add_options

        add_options(parser)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    if only and chosen in COMMANDS:
        known = {chosen: COMMANDS[chosen]}
    else:
        known = COMMANDS if chosen in COMMANDS or not plugins else {**COMMANDS, **_commands_of_plugins()}
    for name, (help, adder) in known.items():
        codes = _CODES.format("" if name in _FINDS_NOTHING else _FOUND)
        each = commands.add_parser(name, help=help, epilog=codes)
        if chosen == name:
            from graphwire.cli.options import add_options

            add_options(each, inherited=not only and plugins)
            adder()(each)
            parser.command = each
    return parser


def _commands_of_plugins() -> dict[str, _Command]:
    """Return the commands of plugins by name. They are looked up for a word that graphwire does not know, and for help."""
    from graphwire.errors import PluginError, shown
    from graphwire.registry.calls import calling, remedy_of_broken
    from graphwire.registry.registry import default_registry

    with _loading_plugins():
        registry = default_registry()
        commands = registry.commands

    def adding(name: str) -> Callable[[], Callable[[argparse.ArgumentParser], None]]:
        owner, what = registry.owner_of("command", name), f"the command {name!r}"

        def add(parser: argparse.ArgumentParser) -> None:
            with contextlib.redirect_stdout(sys.stderr):
                commands[name].add(parser)

            def named(arguments: argparse.Namespace, output: Output) -> int:
                run = getattr(arguments, "run", None)  # of the command, or of its action
                if not callable(run):
                    raise PluginError(f"`add` of {what} of {owner} sets no default `run`")
                with calling(owner, what, PluginError, OSError, SystemExit):
                    code = run(arguments, output)
                if code is None:  # as a process that states none
                    return 0
                if isinstance(code, int) and 0 <= code < 256:
                    return int(code)
                raise PluginError(
                    f"{what} of {owner} returns {shown(code)}, not an exit code",
                    remedy=remedy_of_broken(owner),
                )

            parser.set_defaults(run_of_plugin=named)

        return lambda: add

    return {name: (each.help.replace("%", "%%"), adding(name)) for name, each in sorted(commands.items())}


class _Version(argparse.Action):
    """Print the version; the lookup reads installed metadata, so it happens only on request."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str | None = None) -> None:
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from graphwire.version import __version__

        Output().line(f"graphwire {__version__}")
        parser.exit()


def _open_closed_streams() -> None:
    """Connect standard streams that the caller closed to the null device, so that no file gets their numbers."""
    for name, flags in (("stdin", os.O_RDONLY), ("stdout", os.O_WRONLY), ("stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, flags)
            setattr(sys, name, os.fdopen(number, "r" if name == "stdin" else "w", encoding="utf-8"))


def _close_quietly() -> None:
    """Prevent a second failure when the interpreter flushes a closed pipe at exit."""
    try:
        descriptor = sys.stdout.fileno()
    except unless_interrupted(OSError, ValueError):
        return
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


__all__ = ["main"]
