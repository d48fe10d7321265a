"""The command `upgrade`, which brings the operators of files to other versions."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from graphwire.cli import files
from graphwire.cli.options import add_files, add_opset, open_options
from graphwire.cli.terminal import Output

if TYPE_CHECKING:
    from graphwire.evolve.planner import Plan


def add_upgrade(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Write files again with their operators at the installed versions, or at others. The exit code is 2 if that is"
        " impossible, and 1 if --dry-run finds that it is. A file with nothing to do is left as it is."
    )
    add_files(parser)
    files.add_rewriting(parser)
    parser.add_argument(
        "--dry-run",
        "--plan",
        action="store_true",
        help="show the steps and the nodes that each changes, and write nothing",
    )
    add_opset(parser)
    parser.add_argument(
        "--format", metavar="NAME", help="the wire format to write; by default that of the file"
    )
    parser.set_defaults(run=partial(files.rewrite_files, _upgrade_file, "Upgrading"))


def _upgrade_file(
    each: files.Input, place: files.Destination | None, arguments: argparse.Namespace, output: Output
) -> int:
    import graphwire

    wanted = dict(arguments.opset) if arguments.opset else None
    options = open_options(arguments)
    if arguments.dry_run:
        place = None
    if place is None:
        plans = graphwire.plan_upgrade(each.source, opset_version=wanted, **options)
    else:
        with place.folder_made():
            plans = graphwire.upgrade(
                each.source, place.file, format=arguments.format, opset_version=wanted, **options
            )
    impossible = any(plan.problems for plan in plans.values())
    if place is not None and place.is_stream:
        return files.OK  # Standard output has the file.
    if arguments.json:
        tree = {"file": each.name, "programs": {name: plan.to_tree() for name, plan in plans.items()}}
        output.json(tree, indent=None, problem=impossible)
    else:
        _print_plans(each.name, plans, output, problem=impossible)
        if arguments.output and place is not None:
            files.tell_written(output, place)
    return files.FOUND if impossible else files.OK


def _print_plans(file: str, plans: Mapping[str, Plan], output: Output, *, problem: bool) -> None:
    for name, plan in plans.items():
        output.line(f"{file}: {name}" if len(plans) > 1 else file, "title", problem=problem)
        for line in plan.lines():
            output.line(f"  {line}", problem=problem)
