"""The actions that ask a catalogue: `query`, and one for each question."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graphwire.cli.files import FOUND, OK
from graphwire.cli.options import add_storage_options
from graphwire.cli.terminal import Output
from graphwire.display import Section
from graphwire_fleet.questions import Question


def add_query(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `query`."""
    parser.add_argument("catalogue", metavar="CATALOGUE", help="the folder or URL of a catalogue")
    parser.add_argument("sql", metavar="SQL", help="a SELECT in the SQL of DuckDB")
    parser.add_argument(
        "--unlocked",
        action="store_true",
        help="let the SQL read other files, load extensions, and write files",
    )
    _add_form(parser)
    parser.set_defaults(run=_query)


def add_columns(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `columns`: none."""
    parser.set_defaults(run=_columns)


def add_compact(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `compact`."""
    parser.add_argument("catalogue", metavar="CATALOGUE", help="the folder or URL of a catalogue")
    add_storage_options(parser)
    parser.set_defaults(run=_compact)


def asking(question: Question) -> Callable[[argparse.ArgumentParser], None]:
    """Return the function that adds the arguments of the action of a question."""

    def add(parser: argparse.ArgumentParser) -> None:
        for schema in question.catalogues:
            name = "catalogue" if schema == "main" else schema
            parser.add_argument(schema, metavar=name.upper(), help="the folder or URL of a catalogue")
        for index, each in enumerate(question.parameters):
            how: dict[str, Any] = {"help": each.help, "type": each.type}
            if each.name.startswith("--"):
                how |= {"dest": f"value_{index}", "metavar": each.name[2:].upper()}
                parser.add_argument(each.name, **how)
            else:
                parser.add_argument(f"value_{index}", metavar=each.name, **how)
        parser.add_argument("--sql", action="store_true", help="print the SQL of the question, to change it")
        _add_form(parser)
        parser.set_defaults(run=_ask, question=question)

    return add


def _add_form(parser: argparse.ArgumentParser) -> None:
    form = parser.add_mutually_exclusive_group()
    for name, help in (
        ("json", "print a JSON object for each row, on a line of its own"),
        ("csv", "print CSV"),
    ):
        form.add_argument(
            f"--{name}", dest="form", action="store_const", const=name, default="table", help=help
        )
    form.add_argument(
        "-o", "--output", metavar="FILE", help="write the rows to this file: *.parquet, *.csv or *.json"
    )
    add_storage_options(parser)


def _query(arguments: argparse.Namespace, output: Output) -> int:
    _answer({"main": arguments.catalogue}, arguments.sql, arguments, output, locked=not arguments.unlocked)
    return OK


def _ask(arguments: argparse.Namespace, output: Output) -> int:
    question: Question = arguments.question
    if arguments.sql:
        for line in textwrap.dedent(question.sql).strip().splitlines():
            output.line(line)
        return OK

    def values(names_of: Callable[[str], Sequence[str]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for index, each in enumerate(question.parameters):
            found |= each.values(
                getattr(arguments, f"value_{index}"), names_of(each.names) if each.names else ()
            )
        return found

    places: Mapping[str, str] = {schema: getattr(arguments, schema) for schema in question.catalogues}
    has_rows = _answer(places, question.sql, arguments, output, values=values, works=question.works)
    return FOUND if has_rows and question.finds else OK


def _answer(
    places: Mapping[str, str], sql: str, arguments: argparse.Namespace, output: Output, **how: Any
) -> bool:
    """Print or write the answer, and return whether it has rows."""
    from graphwire_fleet.asking import answer, print_answer, write_answer

    def give(found: Any) -> None:
        if arguments.output is not None:
            write_answer(found, arguments.output)
        else:
            print_answer(found, output, arguments.form)

    return answer(places, sql, give, storage_options=arguments.storage_options, **how)


def _compact(arguments: argparse.Namespace, output: Output) -> int:
    from graphwire_fleet.catalogue import compact

    compact(arguments.catalogue, arguments.storage_options)
    return OK


def _columns(arguments: argparse.Namespace, output: Output) -> int:
    from graphwire_fleet.tables import TABLES

    output.sections(
        Section(f"{each.name}: {each.help}", rows=[(column.name, column.help) for column in each.columns])
        for each in TABLES.values()
    )
    return OK
