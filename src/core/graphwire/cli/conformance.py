"""The commands `neutral`, `conformance` and `schema`: what a reader finds in a file, and the rules of the format."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from graphwire.cli.files import STDIN, input_named
from graphwire.cli.options import add_json
from graphwire.cli.outputs import ReadFiles, add_output, destination_of, tell_written
from graphwire.cli.terminal import Output
from graphwire.display import Section
from graphwire.errors import ArchiveError, escaped

if TYPE_CHECKING:
    from graphwire.api.conformance import CaseResult

OK, REFUSED, DIFFERENT = 0, 1, 1
"""Exit codes: a file is valid, or violates rules of the format; a reader is right, or differs."""


def add_neutral(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command `neutral`."""
    parser.description = (
        "Check a whole file, and print its programs and the digests of its weights as neutral JSON, the form in which readers in"
        " any language are compared. The exit code is 0 for a valid file, and 1 for any other."
    )
    parser.add_argument("file", metavar="FILE", help="an archive, or a tree in a wire format")
    add_output(
        parser,
        "write the JSON to this file, replaced if it exists, instead of standard output",
        default=STDIN,
    )
    parser.set_defaults(run=_neutral)


def add_conformance(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command `conformance`."""
    parser.usage = "graphwire conformance [OPTIONS] -- COMMAND ..."
    parser.description = (
        "Give each file of the conformance suite to another reader, and compare what it prints. COMMAND gets the path of a file"
        " as its last argument, prints neutral JSON and exits with 0, or exits with 1 for a file that it refuses. The exit code"
        " is 0 if the reader is right about all files, and 1 if not."
    )
    add_json(parser)
    parser.add_argument("command", metavar="COMMAND", nargs="+", help="the reader and its arguments")
    parser.add_argument(
        "--suite",
        metavar="FOLDER",
        type=Path,
        help="the suite; by default `conformance` here, or in graphwire's sources",
    )
    parser.add_argument(
        "--parts",
        metavar="NAMES",
        help="the parts that the reader claims, separated by commas; by default all",
    )
    parser.add_argument("--only", metavar="TEXT", default="", help="only files whose names contain this")
    parser.add_argument(
        "--jobs", metavar="N", type=int, default=os.cpu_count() or 1, help="readers at the same time"
    )
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=float,
        default=60.0,
        help="the time that a reader has for a file (60)",
    )
    parser.set_defaults(run=_conformance)


def _neutral(arguments: argparse.Namespace, output: Output) -> int:
    from graphwire.api.conformance import neutral, refusal
    from graphwire.errors import GraphwireError

    if arguments.file == STDIN:
        raise ArchiveError("the name of the file tells its format", remedy="Name a file").of(STDIN)
    place = destination_of(arguments.output, ReadFiles([input_named(arguments.file)], arguments))
    try:
        data = neutral(arguments.file)
    except GraphwireError as error:
        if arguments.debug:
            raise
        output.stderr.write(f"graphwire: refused: {escaped(' '.join(str(error).split()))}\n")
        output.stdout.write(f'{{"refused":"{refusal(error)}"}}\n')
        return REFUSED
    place.write(data)
    tell_written(output, place)
    return OK


def _conformance(arguments: argparse.Namespace, output: Output) -> int:
    from graphwire.api.conformance import PARTS, failures, rule_counts, run_suite
    from graphwire.errors import ArchiveError, DecodeError

    parts = PARTS if arguments.parts is None else tuple(arguments.parts.split(","))
    if unknown := [part for part in parts if part not in PARTS]:
        raise DecodeError(f"there is no part {unknown[0]!r:.80}", remedy=f"There are {', '.join(PARTS)}")
    results = run_suite(
        arguments.suite or _default_suite(),
        arguments.command,
        parts=parts,
        only=arguments.only,
        jobs=max(1, arguments.jobs),
        timeout=arguments.timeout,
    )
    if not results:
        raise ArchiveError("no file of the suite has such a name and is of these parts")
    wrong = list(failures(results))
    rules = rule_counts(results)
    if arguments.json:
        tree = {
            "passed": len(results) - len(wrong),
            "failed": len(wrong),
            "parts": list(parts),
            "rules": {rule: {"passed": passed, "failed": failed} for rule, (passed, failed) in rules.items()},
            "failures": [
                {
                    "file": each.case.file,
                    "about": each.case.about,
                    "rules": list(each.case.rules),
                    "problem": each.problem,
                }
                for each in wrong
            ],
        }
        output.json(tree)
        return DIFFERENT if wrong else OK
    rows = [[rule, str(passed), str(failed) if failed else ""] for rule, (passed, failed) in rules.items()]
    output.sections(
        [
            Section("Rules", ["rule", "passed", "failed"], rows, frozenset({1, 2})),
            Section("Wrong", ["file", "rules", "problem"], [_failure_row(each) for each in wrong]),
        ]
    )
    output.line(f"{len(results) - len(wrong)} of {len(results)} files are read as they must be")
    return DIFFERENT if wrong else OK


def _failure_row(result: CaseResult) -> list[str]:
    rules = ", ".join(result.case.rules)
    return [result.case.file, rules if not result.case.valid else "", result.problem]


def _default_suite() -> Path:
    """Return the folder of the suite: below the current folder, or in the sources that graphwire is installed from."""
    here = Path("conformance")
    return here if (here / "index.json").is_file() else Path(__file__).resolve().parents[5] / "conformance"


# -------------------------------------------------------------------------------------------- `schema`


def add_schema(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Print the schema of a kind of document in a file: a program (document), the configs of its payloads, the references"
        " to weights elsewhere, the manifest, or the table of wire formats."
    )
    parser.add_argument(
        "kind",
        metavar="KIND",
        nargs="?",
        choices=("document", "payloads", "references", "manifest", "wire_formats"),
        default="document",
        help="document (by default), payloads, references, manifest or wire_formats",
    )
    parser.add_argument(
        "--as",
        dest="language",
        choices=("json-schema", "cddl", "markdown"),
        default="json-schema",
        help="JSON Schema 2020-12 (by default), CDDL (RFC 8610), or tables of all kinds in Markdown",
    )
    add_output(
        parser,
        "write the schema to this file, replaced if it exists, instead of standard output",
        default=STDIN,
    )
    parser.set_defaults(run=_schema)


def _schema(arguments: argparse.Namespace, output: Output) -> int:
    from graphwire.specification.tables import records_page, schema_text

    whole = arguments.language == "markdown"
    text = records_page() if whole else schema_text(arguments.kind, arguments.language)
    place = destination_of(arguments.output, ReadFiles([], arguments))
    place.write(text.encode("utf-8"))
    tell_written(output, place)
    return 0
