"""The command `graphwire`: its subcommands and exit codes.

This module only parses arguments and prints. `graphwire.api`, imported when a command runs, does the work.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import traceback
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from graphwire.cli.blobs import add_blobs
from graphwire.cli.compare import add_commands
from graphwire.cli.conformance import add_conformance
from graphwire.cli.new_plugin import add_new_plugin
from graphwire.cli.option_names import as_command
from graphwire.cli.sections import escaped, print_json, print_line, print_sections, size_text
from graphwire.cli.upgrade import add_upgrade
from graphwire.cli.weights import add_weights, place_of, source_options, weight_source
from graphwire.errors import GraphwireError, Obstacle, ValidationError

__all__ = ["main"]

OK, FOUND, FAILED, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 130, 141
"""Exit codes, as those of `diff`. FOUND: the command found a problem or difference. FAILED: the command failed. The last two
are the codes of a shell for SIGINT and SIGPIPE."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the arguments after the program's name; None for those of the process.

    Returns:
        The exit code.
    """
    try:
        arguments = _parser().parse_args(argv)
    except SystemExit as ended:  # argparse has printed its help or an error.
        return ended.code if isinstance(ended.code, int) else FAILED
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            _load_plugins()
            code: int = arguments.run(arguments)
            sys.stdout.flush()
            return code
    except BrokenPipeError:
        _close_quietly()
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return _failed("interrupted", INTERRUPTED)
    except Exception as error:  # noqa: BLE001 - the last line of defence: no traceback unless asked for
        if arguments.debug:
            traceback.print_exc()
        return _failed(_one_line(error), FAILED)


def _load_plugins() -> None:
    """Load the plugins with stdout redirected, so that their prints do not mix with the command's output."""
    from graphwire.hooks import default_registry

    with contextlib.redirect_stdout(sys.stderr):
        default_registry()


def _parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--debug", action="store_true", help="show the traceback of an error")
    data = argparse.ArgumentParser(add_help=False)
    data.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser = argparse.ArgumentParser(
        prog="graphwire",
        description="Inspect, convert, compare and verify files of exported PyTorch programs. Nothing in a file is executed.",
        epilog="Exit codes: 0 success; 1 problems or differences found; 2 the command failed or its arguments are wrong.",
    )
    parser.add_argument("--version", action=_Version, help="print the version and exit")
    source = weight_source()
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    inspect = commands.add_parser(
        "inspect",
        parents=[common, data],
        help="show the programs, weights and origin of a file",
        description="Show the programs, weights and origin of a file.",
    )
    inspect.add_argument("file", metavar="FILE", type=Path, help="the file to read")
    inspect.add_argument("--method", metavar="NAME", help="show only this program of a file with several")
    inspect.add_argument("--nodes", action="store_true", help="also list every node")
    inspect.add_argument(
        "--targets",
        action="store_true",
        help="also list the torch releases and schema versions that it can be written for, and the obstacles for the others",
    )
    inspect.set_defaults(run=_inspect)

    convert = commands.add_parser(
        "convert",
        parents=[common, source],
        help="write a file again in another wire format or for an older torch",
        description="Write a file again in another wire format, or for an older torch, with the same weights.",
    )
    convert.add_argument("source", metavar="SRC", type=Path, help="the file to read")
    convert.add_argument("target", metavar="DST", type=Path, help="the file to write; replaced if it exists")
    convert.add_argument(
        "--format", metavar="NAME", required=True, help="the wire format, such as json or msgpack"
    )
    convert.add_argument(
        "--target",
        dest="reader",
        metavar="RELEASE",
        help="write for torch (with --format json): torch for the installed release, or a release such as torch-2.6",
    )
    convert.add_argument(
        "--stored",
        action="store_true",
        help="store documents uncompressed, for readers that cannot inflate",
    )
    convert.add_argument(
        "--ranges",
        choices=("exact", "narrowed"),
        default="exact",
        help="narrowed: write a minimum of 2 for sizes that may be 0 or 1, which torch up to 2.3 cannot read",
    )
    convert.add_argument(
        "--weights",
        metavar="PLACE",
        help="where the weights go: in-file, none, a new file such as model.safetensors, blobs:FOLDER, or checkpoint:PATH for"
        " one that exists; by default they stay where they are",
    )
    convert.set_defaults(run=_convert)

    verify = commands.add_parser(
        "verify",
        parents=[common, data, source],
        help="list all problems of a file",
        description="Verify every record of a file, and every rule of its programs. List all problems.",
    )
    verify.add_argument("file", metavar="FILE", type=Path, help="the file to read")
    verify.set_defaults(run=_verify)

    plugins = commands.add_parser(
        "plugins",
        parents=[common, data],
        help="list the installed plugins",
        description="List the installed plugins, what they provide, and why inactive ones are inactive.",
    )
    plugins.set_defaults(run=_plugins)

    schema = commands.add_parser(
        "schema",
        parents=[common],
        help="print the schema of the format, for programs in other languages",
        description="Print the schema of a kind of document in a file: a program (document), the configs of its payloads, the"
        " references to weights elsewhere, the manifest, or the table of wire formats.",
    )
    schema.add_argument(
        "kind",
        metavar="KIND",
        nargs="?",
        choices=("document", "payloads", "references", "manifest", "wire_formats"),
        default="document",
        help="document (by default), payloads, references, manifest or wire_formats",
    )
    schema.add_argument(
        "--as",
        dest="language",
        choices=("json-schema", "cddl", "markdown"),
        default="json-schema",
        help="JSON Schema 2020-12 (by default), CDDL (RFC 8610), or tables of all kinds in Markdown",
    )
    schema.set_defaults(run=_schema)
    add_upgrade(commands, common, data)
    add_commands(commands, common, data, source)
    add_weights(commands, common, data, source)
    add_blobs(commands, common, data)
    add_conformance(commands, common, data)
    add_new_plugin(commands, common)
    return parser


class _Version(argparse.Action):
    """Print the version; the lookup reads installed metadata, so it happens only on request."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str | None = None) -> None:
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from graphwire.version import __version__

        print_line(f"graphwire {__version__}", sys.stdout)
        parser.exit()


# -------------------------------------------------------------------------------------------------------- commands


def _inspect(arguments: argparse.Namespace) -> int:
    import msgspec

    from graphwire import api
    from graphwire.cli.inspection import inspection_sections, node_section, target_section
    from graphwire.cli.node_text import node_texts

    nodes, targets = {}, {}
    with api.open(arguments.file) as archive:
        name = None if arguments.method is None else archive.method(arguments.method)
        inspection = archive.inspect(os.fspath(arguments.file))
        if name is not None:
            chosen = [method for method in inspection.methods if method.name == name]
            inspection = msgspec.structs.replace(inspection, methods=chosen)
        for method in inspection.methods:
            if arguments.nodes:
                program = archive.program_of(method.name)
                nodes[method.name] = list(node_texts(program.graph_module.graph))
            if arguments.targets:
                targets[method.name] = archive.targets(method.name)
    if arguments.json:
        tree = msgspec.to_builtins(inspection)
        for method_tree in tree["methods"]:
            if method_tree["name"] in nodes:
                method_tree["nodes"] = msgspec.to_builtins(nodes[method_tree["name"]])
            if method_tree["name"] in targets:
                method_tree["targets"] = _target_trees(targets[method_tree["name"]])
        print_json(tree, sys.stdout)
        return OK
    tables = {name: node_section(each) for name, each in nodes.items()}
    sections = [
        *inspection_sections(inspection, tables),
        *(target_section(name, each) for name, each in targets.items()),
    ]
    print_sections(sections, sys.stdout)
    return OK


def _target_trees(targets: Mapping[str, Sequence[Obstacle]]) -> list[dict[str, Any]]:
    return [
        {"target": name, "obstacles": [each._asdict() for each in obstacles]}
        for name, obstacles in targets.items()
    ]


def _convert(arguments: argparse.Namespace) -> int:
    from graphwire import api
    from graphwire.cli.progress import progress

    reports: list[Any] = []
    with progress(f"Converting to {escaped(arguments.format)}"):
        api.convert(
            arguments.source,
            arguments.target,
            format=arguments.format,
            target=arguments.reader,
            ranges=arguments.ranges,
            compress=not arguments.stored,
            weights=place_of(arguments.weights),
            **source_options(arguments),
            report=reports.append,
        )
    for each in reports[0].narrowed:
        line = f"{each.method}: {each.symbol} begins at {each.written}, in the program at {each.given}"
        print_line(escaped(line), sys.stdout)
    for each in reports[0].not_for_torch:
        line = f"{each.method}: torch does not find the {each.what} ({each.reason})"
        print_line(escaped(line), sys.stdout)
    size = size_text(arguments.target.stat().st_size)
    print_line(f"{escaped(str(arguments.target))}: {escaped(arguments.format)}, {size}", sys.stdout)
    return OK


def _verify(arguments: argparse.Namespace) -> int:
    from graphwire import api
    from graphwire.cli.inspection import problem_section
    from graphwire.cli.progress import progress

    with progress("Verifying"):
        problems = api.verify(arguments.file, **source_options(arguments))
    if arguments.json:
        print_json([problem._asdict() for problem in problems], sys.stdout)
    elif problems:
        print_sections([problem_section(str(arguments.file), problems)], sys.stdout)
    else:
        print_line(f"{escaped(str(arguments.file))}: no problems", sys.stdout)
    return FOUND if problems else OK


def _plugins(arguments: argparse.Namespace) -> int:
    from graphwire import api
    from graphwire.cli.inspection import plugin_section

    found = api.plugins()
    if arguments.json:
        print_json([_plugin_tree(plugin) for plugin in found], sys.stdout)
    elif not found:
        print_line("no plugins are installed", sys.stdout)
    else:
        print_sections([plugin_section(found)], sys.stdout)
    return OK


def _plugin_tree(plugin: Any) -> dict[str, Any]:
    fields = (
        "name",
        "distribution",
        "version",
        "api_version",
        "hooks",
        "names",
        "load_seconds",
        "status",
        "reason",
    )
    tree = {field: getattr(plugin, field) for field in fields}
    return tree | {
        "hooks": list(plugin.hooks),
        "names": {kind: list(of) for kind, of in plugin.names.items()},
        "refused": [each._asdict() for each in plugin.refused],
    }


def _schema(arguments: argparse.Namespace) -> int:
    from graphwire.specification import records_page, schema_text

    whole = arguments.language == "markdown"
    sys.stdout.write(records_page() if whole else schema_text(arguments.kind, arguments.language))
    return OK


# ---------------------------------------------------------------------------------------------------------- ending


def _one_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        more = f", and {len(error.problems) - 1} more" if len(error.problems) > 1 else ""
        head = as_command(str(error).partition("\n")[0])
        return f"{head}: {error.problems[0]}{more}" if error.problems else head
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, GraphwireError):
        return as_command(str(error))
    return f"{type(error).__name__}: {error} (a defect of graphwire or of a plugin; --debug shows where)"


def _failed(message: str, code: int) -> int:
    """Print the error on standard error, in one line, and return the exit code."""
    line = " ".join(message.split())
    with contextlib.suppress(OSError):  # Standard error may be closed.
        print_line(f"graphwire: error: {escaped(line)}", sys.stderr)
    return code


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    print_line(f"graphwire: warning: {escaped(' '.join(str(message).split()))}", file or sys.stderr)


def _close_quietly() -> None:
    """Prevent a second failure when the interpreter flushes a closed pipe at exit."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        return
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
