"""The command `verify`, which lists the problems of files."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from graphwire.cli.files import FAILED, FOUND, OK, Input, for_each_file, inputs_of
from graphwire.cli.options import add_files, add_weight_source, open_options
from graphwire.cli.terminal import Output, as_command
from graphwire.display import Section
from graphwire.errors import UNRECOGNIZED, NotAnArchiveError, Problem, count_text


def add_verify(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Verify every record of each file, and every rule of its programs. List all problems. The exit code is 1 if there are"
        " any, and 2 if a file cannot be read, or is neither an archive nor a document."
    )
    add_files(parser)
    add_weight_source(parser)
    parser.set_defaults(run=_verify)


def _verify(arguments: argparse.Namespace, output: Output) -> int:
    import graphwire

    problem_count = 0

    def task(each: Input) -> int:
        nonlocal problem_count
        problems = graphwire.verify(each.source, **open_options(arguments))
        if any(problem.kind == UNRECOGNIZED for problem in problems):
            raise NotAnArchiveError(problems[0].message)
        problems = [each._replace(message=as_command(each.message)) for each in problems]
        problem_count += len(problems)
        if arguments.json:
            tree = {"file": each.name, "problems": [problem._asdict() for problem in problems]}
            output.json(tree, problem=bool(problems), indent=None)
        elif problems:
            output.sections([problem_section(each.name, problems)], problem=True)
        else:
            output.line(f"{each.name}: no problems", "good")
        return FOUND if problems else OK

    inputs = inputs_of(arguments.files)
    codes = for_each_file(inputs, output, task, doing="Verifying", as_json=arguments.json)
    if len(inputs) > 1 and not arguments.json:
        parts = [f"{codes[OK]:,} without problems"]
        if codes[FOUND]:
            parts.append(f"{codes[FOUND]:,} with {count_text(problem_count, 'problem')}")
        if codes[FAILED]:
            parts.append(f"{codes[FAILED]:,} not readable")
        output.line(f"{count_text(len(inputs), 'file')}: {', '.join(parts)}", problem=bool(problem_count))
    return max(codes, default=OK)


def problem_section(file: str, problems: Sequence[Problem]) -> Section:
    """Return the section of the problems of a file."""
    title = f"{file}: {count_text(len(problems), 'problem')}"
    return Section(title, ("place", "kind", "problem"), problems)
