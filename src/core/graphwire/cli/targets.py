"""The command `targets`, which lists the readers that files can be written for."""

from __future__ import annotations

import argparse
from functools import partial

from graphwire.cli.files import FOUND, OK, Input, run_on_files
from graphwire.cli.options import add_files, add_method, add_target, open_options
from graphwire.cli.terminal import Output


def add_targets(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "List the torch releases and schema versions that each program can be written for, and the obstacles for the others."
        " With --target, the exit code is 1 if there is an obstacle."
    )
    add_files(parser)
    add_method(parser)
    add_target(parser, "only this release of torch, such as 2.6; torch is the installed release")
    parser.set_defaults(run=partial(run_on_files, _targets_of_file, "Comparing"))


def _targets_of_file(each: Input, arguments: argparse.Namespace, output: Output) -> int:
    import graphwire
    from graphwire.cli.inspect_file import target_trees
    from graphwire.cli.inspection import target_sections

    found = {}
    with graphwire.open(each.source, **open_options(arguments)) as archive:
        names = archive.methods if arguments.method is None else (archive.method(arguments.method),)
        for name in names:
            if arguments.target is None:
                found[name] = archive.targets(name)
            else:
                found[name] = {arguments.target: graphwire.supports(archive, arguments.target, method=name)}
    blocked = arguments.target is not None and any(any(each.values()) for each in found.values())
    if arguments.json:
        tree = {"file": each.name, "programs": {name: target_trees(each) for name, each in found.items()}}
        output.json(tree, indent=None, problem=blocked)
    else:
        titled = {f"{each.name}:{name}" if len(found) > 1 else each.name: of for name, of in found.items()}
        output.sections(
            (each for title, of in titled.items() for each in target_sections(of, title)),
            problem=blocked,
        )
    return FOUND if blocked else OK
