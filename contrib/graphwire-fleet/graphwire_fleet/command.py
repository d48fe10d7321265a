"""The command `graphwire fleet` and the table of its actions.

The modules that add the arguments of actions import nothing heavy: pyarrow, DuckDB and Ray are imported when an action runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NamedTuple

from graphwire.cli.options import add_options
from graphwire_fleet.commands.asking import add_columns, add_compact, add_query, asking
from graphwire_fleet.commands.reading import add_inspect, add_targets, add_verify
from graphwire_fleet.commands.rewriting import add_convert, add_undo, add_upgrade
from graphwire_fleet.questions import QUESTIONS


class Action(NamedTuple):
    """What `graphwire fleet NAME` does."""

    help: str
    add: Callable[[argparse.ArgumentParser], None]
    """Adds the arguments, and sets the default `run`."""


ACTIONS = {
    "inspect": Action("write what files contain to a catalogue", add_inspect),
    "verify": Action("write the problems of files to a catalogue", add_verify),
    "targets": Action("write the torch releases that files can be written for to a catalogue", add_targets),
    "query": Action("ask a catalogue in SQL", add_query),
    "columns": Action("list the tables and columns of a catalogue", add_columns),
    "compact": Action("merge the parts of a catalogue, and drop rows that no longer count", add_compact),
    **{name: Action(each.help, asking(each)) for name, each in QUESTIONS.items()},
    "convert": Action("write files again in another wire format or for an older torch", add_convert),
    "upgrade": Action("write files again with their operators at the installed versions", add_upgrade),
    "undo": Action("put back what convert or upgrade replaced", add_undo),
}
"""The actions, in the order in which the help lists them."""


class FleetCommand:
    """The command `graphwire fleet`."""

    name = "fleet"
    help = "catalogue, question and rewrite any number of files, in several processes or on several machines"

    def add(self, parser: argparse.ArgumentParser) -> None:
        """Add the actions."""
        actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
        for name, action in ACTIONS.items():
            each = actions.add_parser(name, help=action.help, description=action.help)
            add_options(each, inherited=True)
            action.add(each)
