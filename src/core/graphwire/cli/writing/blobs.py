"""The command `blobs`, which looks after folders of blobs that several programs refer to."""

from __future__ import annotations

import argparse
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphwire.cli.files import FOUND, OK, add_json, add_options, add_storage_options
from graphwire.cli.terminal import Output, Section, size_text
from graphwire.cli.writing.blob_users import names_of_used_blobs
from graphwire.errors import GraphwireError, PluginError

if TYPE_CHECKING:
    from graphwire.hooks import PrunableStore
    from graphwire.wire.weights import Folder, RemoteFolder

__all__ = ["add_blobs"]

_STORE = "blobs"
_HOURS = 24.0
_HOUR_SECONDS = 3600


def add_blobs(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Look after a folder of blobs: the weights of programs that were saved with weights=Blobs(FOLDER)."
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    verify = actions.add_parser(
        "verify",
        help="read every blob, and list the damaged ones",
        description="Read every blob, and list those whose content does not have the digest that their name states.",
    )
    add_options(verify, inherited=True)
    add_json(verify)
    verify.add_argument("folder", metavar="FOLDER", help="the folder of blobs, or its URL")
    add_storage_options(verify)
    verify.set_defaults(run=_verify)

    collect = actions.add_parser(
        "gc",
        help="remove the blobs that no program uses",
        description="Remove the blobs that none of the given programs uses, and what interrupted writers left. Nothing is removed"
        " if a program cannot be read. Give every program that uses the folder.",
    )
    add_options(collect, inherited=True)
    add_json(collect)
    collect.add_argument("folder", metavar="FOLDER", help="the folder of blobs, or its URL")
    collect.add_argument(
        "--programs",
        metavar="PATH",
        nargs="+",
        required=True,
        help="programs, or folders that are searched for them, or URLs of either",
    )
    collect.add_argument(
        "--older-than",
        metavar="HOURS",
        type=_hours,
        default=_HOURS,
        help=f"keep files that are younger, because a program that uses them may be about to be saved; {_HOURS:g} by default",
    )
    collect.add_argument(
        "--dry-run", action="store_true", help="list what would be removed, and remove nothing"
    )
    add_storage_options(collect)
    collect.set_defaults(run=_collect)


def _hours(text: str) -> float:
    try:
        hours = float(text)
    except ValueError:
        hours = -1
    if not 0 <= hours < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of hours")
    return hours


def _verify(arguments: argparse.Namespace, output: Output) -> int:
    from graphwire.cli.reading.inspection import problem_section

    folder = _folder(arguments)
    with output.progress("Verifying"), _naming(folder):
        problems = list(_store().damaged(folder))
    if arguments.json:
        output.json([problem._asdict() for problem in problems], problem=bool(problems))
    elif problems:
        output.sections([problem_section(str(folder.path), problems)], problem=True)
    else:
        output.line(f"{folder.path}: no problems", "good")
    return FOUND if problems else OK


def _collect(arguments: argparse.Namespace, output: Output) -> int:
    folder = _folder(arguments)
    store = _store()
    removed = []
    with output.progress("Collecting"), _naming(folder):
        used = names_of_used_blobs(arguments.programs, folder, arguments.storage_options)
        for each in store.unused(folder, used, arguments.older_than * _HOUR_SECONDS):
            if not arguments.dry_run:
                folder.remove(each.location)
            removed.append(each)
    nbytes = sum(each.nbytes for each in removed)
    if arguments.json:
        files = [each._asdict() for each in removed]
        output.json({"used": len(used), "removed": not arguments.dry_run, "files": files})
        return OK
    if removed:
        rows = [(each.location, size_text(each.nbytes)) for each in removed]
        output.sections([Section("", ("file", "size"), rows, frozenset({1}))])
    done = "would be removed" if arguments.dry_run else "removed"
    files_text = "1 file" if len(removed) == 1 else f"{len(removed):,} files"
    what = f"{files_text}, {size_text(nbytes)} {done}; {len(used):,} blobs are used"
    output.line(f"{folder.path}: {what}")
    return OK


def _folder(arguments: argparse.Namespace) -> Folder | RemoteFolder:
    from graphwire.wire.remote import RemoteFile, located
    from graphwire.wire.weights import Folder, RemoteFolder

    place: Any = located(arguments.folder, arguments.storage_options)
    if isinstance(place, RemoteFile):
        return RemoteFolder(place.as_folder())
    if not Path(place).is_dir():
        code = errno.ENOTDIR if Path(place).exists() else errno.ENOENT
        raise OSError(code, os.strerror(code), place)
    return Folder(place)


@contextmanager
def _naming(folder: Folder | RemoteFolder) -> Iterator[None]:
    """Name the folder in errors that name no file."""
    try:
        yield
    except GraphwireError as error:
        error.of(str(folder.path))
        raise


def _store() -> PrunableStore:
    from graphwire.hooks import PrunableStore, default_registry

    store = default_registry().weight_stores.get(_STORE)
    if not isinstance(store, PrunableStore):
        raise PluginError(
            f"no active plugin provides the weight store {_STORE!r}",
            remedy="`graphwire plugins` lists the reason",
        )
    return store
