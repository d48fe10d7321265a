"""The command `inspect`, which shows what is in files."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from graphwire.cli.files import (
    OK,
    Input,
    add_files,
    add_json,
    add_method,
    for_each_file,
    inputs_of,
    open_options,
)
from graphwire.cli.terminal import Output
from graphwire.errors import Obstacle

__all__ = ["add_inspect", "target_trees"]


def add_inspect(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = "Show the programs, weights and origin of each file. Reads no weights."
    add_files(parser)
    add_json(parser, "print a JSON object for each file, on a line of its own")
    add_method(parser)
    parser.add_argument("--nodes", action="store_true", help="also list every node")
    parser.add_argument(
        "--targets",
        action="store_true",
        help="also list the torch releases and schema versions that it can be written for, and the obstacles for the others",
    )
    parser.set_defaults(run=_inspect)


def _inspect(arguments: argparse.Namespace, output: Output) -> int:
    def task(each: Input) -> int:
        return _inspect_file(each, arguments, output)

    inputs = inputs_of(arguments.files)
    codes = for_each_file(inputs, output, task, doing="Inspecting", as_json=arguments.json)
    return max(codes, default=OK)


def _inspect_file(each: Input, arguments: argparse.Namespace, output: Output) -> int:
    import msgspec

    import graphwire
    from graphwire.cli.reading.inspection import inspection_sections, node_section, target_section
    from graphwire.cli.reading.node_text import node_texts

    nodes, targets = {}, {}
    with graphwire.open(each.source, **open_options(arguments)) as archive:
        name = None if arguments.method is None else archive.method(arguments.method)
        inspection = archive.inspect(each.name)
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
                method_tree["targets"] = target_trees(targets[method_tree["name"]])
        output.json(tree, indent=None)
        return OK
    tables = {name: node_section(each) for name, each in nodes.items()}
    output.sections(inspection_sections(inspection, tables))
    output.sections(target_section(f"Targets of program {name}", each) for name, each in targets.items())
    return OK


def target_trees(targets: Mapping[str, Sequence[Obstacle]]) -> list[dict[str, Any]]:
    """Return targets and their obstacles as JSON has them."""
    return [
        {"target": name, "obstacles": [each._asdict() for each in obstacles]}
        for name, obstacles in targets.items()
    ]
