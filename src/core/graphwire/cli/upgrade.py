"""The command `upgrade`, which brings the operators of a file to other versions."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphwire.cli.sections import escaped, print_json, print_line, size_text

if TYPE_CHECKING:
    from graphwire.evolve.opsets import Plan

__all__ = ["add_upgrade"]

OK, REFUSED = 0, 1


def add_upgrade(commands: Any, common: argparse.ArgumentParser, data: argparse.ArgumentParser) -> None:
    """Add the command `upgrade` to a parser.

    Args:
        commands: what `add_subparsers` returned.
        common: the parent with the options of all commands.
        data: the parent with those of commands that can print JSON.
    """
    upgrade = commands.add_parser(
        "upgrade",
        parents=[common, data],
        help="write a file again with its operators at the installed versions",
        description="Write a file again with its operators at the installed versions, or at others. The exit code is 2 if"
        " that is impossible, and 1 if --plan finds that it is.",
    )
    upgrade.add_argument("file", metavar="FILE", type=Path, help="the file to read")
    upgrade.add_argument(
        "target", metavar="OUT", type=Path, nargs="?", help="the file to write; FILE itself by default"
    )
    upgrade.add_argument(
        "--plan",
        action="store_true",
        help="show the steps and the nodes that each changes, and write nothing",
    )
    upgrade.add_argument(
        "--opset",
        metavar="NAMESPACE=VERSION",
        type=_opset,
        action="append",
        help="the version to bring a namespace to, instead of the installed one; may be repeated",
    )
    upgrade.add_argument(
        "--format", metavar="NAME", help="the wire format to write; by default that of the file"
    )
    upgrade.set_defaults(run=_upgrade)


def _opset(text: str) -> tuple[str, int]:
    namespace, _, version = text.partition("=")
    if not namespace or not version.isascii() or not version.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAMESPACE=VERSION, such as aten=9")
    return namespace, int(version)


def _upgrade(arguments: argparse.Namespace) -> int:
    from graphwire import api
    from graphwire.cli.progress import progress

    wanted = dict(arguments.opset) if arguments.opset else None
    if arguments.plan:
        plans = api.plan_upgrade(arguments.file, opset_version=wanted)
        _print_plans(plans, as_json=arguments.json)
        return REFUSED if any(plan.problems for plan in plans.values()) else OK
    target = arguments.target or arguments.file
    with progress("Upgrading"):
        plans = api.upgrade(arguments.file, target, format=arguments.format, opset_version=wanted)
    _print_plans(plans, as_json=arguments.json)
    if not arguments.json:
        print_line(f"{escaped(str(target))}: {size_text(target.stat().st_size)}", sys.stdout)
    return OK


def _print_plans(plans: Mapping[str, Plan], *, as_json: bool) -> None:
    if as_json:
        tree = {name: plan.to_tree() for name, plan in plans.items()}
        print_json(tree, sys.stdout)
        return
    for name, plan in plans.items():
        print_line(escaped(name), sys.stdout)
        for line in plan.lines():
            print_line(f"  {escaped(line)}", sys.stdout)
