"""The actions that write files again: `convert`, `upgrade`, and `undo`."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain, count
from typing import Any

from graphwire.cli.files import FAILED, FOUND, OK
from graphwire.cli.options import add_opset, add_storage_options, open_options
from graphwire.cli.terminal import Output
from graphwire.errors import OpsetError
from graphwire_fleet.commands.options import add_engine, add_patterns, engine_options, listed

_IMPOSSIBLE = OpsetError.__name__


def add_convert(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `convert`."""
    _add(parser, "convert", _convert_options)
    parser.add_argument(
        "--target",
        metavar="RELEASE",
        help="write for torch: torch for the installed release, or a release such as torch-2.6",
    )
    parser.add_argument(
        "--ranges",
        choices=("exact", "narrowed"),
        default="exact",
        help="narrowed: write a minimum of 2 for sizes that may be 0 or 1, which torch up to 2.3 cannot read",
    )
    parser.add_argument("--stored", action="store_true", help="store documents uncompressed")


def _convert_options(arguments: argparse.Namespace) -> dict[str, Any]:
    names = ("format", "target", "ranges")
    return {name: getattr(arguments, name) for name in names} | {"compress": not arguments.stored}


def add_upgrade(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `upgrade`."""
    _add(parser, "upgrade", _upgrade_options)
    add_opset(parser)


def _upgrade_options(arguments: argparse.Namespace) -> dict[str, Any]:
    wanted = dict(arguments.opset) if arguments.opset else None
    return {"format": arguments.format, "opset_version": wanted}


def _add(parser: argparse.ArgumentParser, what: str, wanted: Any) -> None:
    add_patterns(parser)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--in-place", action="store_true", help="replace the files")
    where.add_argument(
        "-o",
        "--output",
        metavar="ROOT",
        help="a folder or URL that gets the new files, each under its own path",
    )
    parser.add_argument(
        "--journal",
        metavar="FOLDER",
        help="the folder for what undoes it (default: a new one in the current folder); name one again to continue",
    )
    parser.add_argument(
        "--format", metavar="NAME", help="the wire format to write; by default that of the file"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="run each program before and after on its example inputs, and replace no file whose results differ",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would be written, and write nothing"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object for each file")
    add_engine(parser)
    parser.set_defaults(run=_run, what=what, wanted=wanted)


def _run(arguments: argparse.Namespace, output: Output) -> int:
    from pathlib import Path

    from graphwire_fleet.catalogue import folder_at, roots_of
    from graphwire_fleet.engine import run
    from graphwire_fleet.rewriting import REWRITINGS, Journal, Reported, check_destinations, check_torch

    _check_words(arguments)
    if arguments.check:
        check_torch()
    folder = None if arguments.dry_run else Path(arguments.journal or _new_name()).absolute()
    work = REWRITINGS[arguments.what](
        root=_absolute(arguments.output),
        journal=None if folder is None else str(folder),
        checked=arguments.check,
        options=dict(open_options(arguments)),
        wanted=arguments.wanted(arguments),
    )
    files = listed(arguments, output)
    work = replace(work, aliases=check_destinations(files.counted(), roots_of(arguments.patterns), work))
    with ExitStack() as stack:
        journal = None
        if folder is not None:
            journal = Journal(folder)
            about = {"action": arguments.what, "root": work.root, "options": dict(work.wanted)}
            journal.check_new(about)
            stack.enter_context(folder_at(str(folder)).locked())
            journal.open(about)
            output.remark(f"journal: {folder}")
        reported = Reported(journal, work, output, as_json=arguments.json)
        summary = run(files, work, reported, output, doing=arguments.what, **engine_options(arguments))
    _print_counts(reported.actions, reported.checks, output)
    if folder is not None and reported.actions["written"]:
        output.remark(f"to undo it: graphwire fleet undo {folder}")
    failures = summary.counts.failures
    # A dry run asks whether files can be upgraded: those that cannot are what it finds.
    impossible = failures.pop(_IMPOSSIBLE, 0) if arguments.dry_run else 0
    return FAILED if failures or files.problems else FOUND if impossible else OK


def _check_words(arguments: argparse.Namespace) -> None:
    """Check the words that mean the same for each file, so that a mistyped one is a single error."""
    from pathlib import Path

    from graphwire.errors import ArchiveError
    from graphwire.evolve.targets import target_named
    from graphwire.hooks import default_registry

    if arguments.format is not None:
        default_registry().wire_format(arguments.format)
    if getattr(arguments, "target", None) is not None:
        target_named(arguments.target)
    if arguments.output is not None and Path(arguments.output).is_file():
        raise ArchiveError(
            "this is a file", remedy="Name a folder, which gets each new file under its own path"
        ).of(arguments.output)


def _new_name() -> str:
    """Return the name of a folder that is not there: two runs may begin in one second, and clocks are set back."""
    from pathlib import Path

    name = f"graphwire-fleet-journal-{time.strftime('%Y%m%d-%H%M%S')}"
    return next(each for each in chain([name], (f"{name}-{n}" for n in count(2))) if not Path(each).exists())


def _absolute(root: str | None) -> str | None:
    from pathlib import Path

    return root if root is None or "://" in root else str(Path(root).absolute())


def _print_counts(actions: Counter[str], checks: Counter[str], output: Output) -> None:
    for counts, title in ((actions, ""), (checks, "check: ")):
        if counts:
            output.remark(title + ", ".join(f"{count:,} {name}" for name, count in counts.most_common()))


def add_undo(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `undo`."""
    parser.add_argument("journal", metavar="JOURNAL", help="the folder of the journal")
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would be put back, and write nothing"
    )
    add_storage_options(parser)
    parser.set_defaults(run=_undo)


def _undo(arguments: argparse.Namespace, output: Output) -> int:
    from pathlib import Path

    from graphwire_fleet.catalogue import folder_at
    from graphwire_fleet.rewriting import RESTORED, Journal, undo

    folder = Path(arguments.journal).absolute()
    Journal(folder).about()
    outcomes: Counter[str] = Counter()
    with folder_at(str(folder)).locked():
        for each in undo(folder, arguments.storage_options, dry_run=arguments.dry_run):
            outcomes[each.outcome] += 1
            if each.failure is not None:
                remedy = f". {each.failure.remedy}" if each.failure.remedy else ""
                text = f"{each.destination}: refused: {each.failure.message}{remedy}"
                output.line(text, "error", problem=True)
            elif each.outcome in RESTORED:
                output.line(f"{each.destination}: {each.outcome}")
    _print_counts(outcomes, Counter(), output)
    if not outcomes:
        output.remark("nothing was rewritten, so there is nothing to undo")
    return FAILED if outcomes["refused"] else OK
