"""The command `schema`, which prints the schema of the format."""

from __future__ import annotations

import argparse

from graphwire.cli.files import STDIN, ReadFiles, add_output, destination_of, tell_written
from graphwire.cli.terminal import Output


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
