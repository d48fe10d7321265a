"""The command `blobs`, which looks after folders of blobs that several programs refer to."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from graphwire.cli.files import FOUND, OK, add_json, add_options
from graphwire.cli.terminal import Output, Section, size_text
from graphwire.errors import ArchiveError, GraphwireError, PluginError
from graphwire.wire.weights import Folder

if TYPE_CHECKING:
    from graphwire.hooks import PrunableStore

__all__ = ["add_blobs"]

_STORE = "blobs"
_ZIP = b"PK\x03\x04"
_BLOB_FOLDER = re.compile(r"[0-9a-f]{2}")
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
    verify.add_argument("folder", metavar="FOLDER", type=Path, help="the folder of blobs")
    verify.set_defaults(run=_verify)

    collect = actions.add_parser(
        "gc",
        help="remove the blobs that no program uses",
        description="Remove the blobs that none of the given programs uses, and what interrupted writers left. Nothing is removed"
        " if a program cannot be read. Give every program that uses the folder.",
    )
    add_options(collect, inherited=True)
    add_json(collect)
    collect.add_argument("folder", metavar="FOLDER", type=Path, help="the folder of blobs")
    collect.add_argument(
        "--programs",
        metavar="PATH",
        type=Path,
        nargs="+",
        required=True,
        help="programs, or folders that are searched for them",
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

    with output.progress("Verifying"):
        problems = list(_store().damaged(Folder(arguments.folder)))
    if arguments.json:
        output.json([problem._asdict() for problem in problems], problem=bool(problems))
    elif problems:
        output.sections([problem_section(str(arguments.folder), problems)], problem=True)
    else:
        output.line(f"{arguments.folder}: no problems", "good")
    return FOUND if problems else OK


def _collect(arguments: argparse.Namespace, output: Output) -> int:
    folder = Folder(arguments.folder)
    store = _store()
    removed = []
    with output.progress("Collecting"):
        used = _used_names(arguments.programs, arguments.folder)
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
    output.line(f"{arguments.folder}: {what}")
    return OK


def _store() -> PrunableStore:
    from graphwire.hooks import PrunableStore, default_registry

    store = default_registry().weight_stores.get(_STORE)
    if not isinstance(store, PrunableStore):
        raise PluginError(
            f"no active plugin provides the weight store {_STORE!r}",
            remedy="`graphwire plugins` lists the reason",
        )
    return store


def _used_names(paths: Iterable[Path], blobs: Path) -> set[str]:
    """Return the names of the blobs that programs refer to.

    Args:
        paths: programs, and folders with programs.
        blobs: the folder of blobs. The blobs in it are not searched.

    Raises:
        ArchiveError: a program cannot be read, or a path has none.
    """
    from graphwire.wire.archive import ArchiveReader
    from graphwire.wire.weights import REFERENCES, read_references

    used: set[str] = set()
    for path in paths:
        files = list(_archives(path, blobs)) if path.is_dir() else [path]
        if not files:
            raise ArchiveError(
                f"{path} has no programs", remedy="Nothing is removed. Give all programs with --programs"
            )
        for file in files:
            try:
                with ArchiveReader(file) as archive:
                    if REFERENCES not in archive:
                        continue
                    references = read_references(archive.read(REFERENCES))
            except GraphwireError as error:
                error.of(str(file))
                raise
            kinds = [store.kind for store in references.stores]
            used.update(
                region.tensor
                for records in (references.records, *references.ranks)
                for record in records.values()
                for region in record.regions
                if kinds[region.store] == _STORE
            )
    return used


def _archives(folder: Path, blobs: Path) -> Iterator[Path]:
    """Yield all archives at or below a folder, also over links, so that none that uses a blob is left out."""
    seen: set[tuple[int, int]] = set()
    skipped = _identity(blobs)
    for above, folders, names in os.walk(folder, onerror=_raise, followlinks=True):
        identity = _identity(Path(above))
        if identity in seen:
            folders.clear()
            continue
        seen.add(identity)
        if identity == skipped:
            folders[:] = [name for name in folders if not _BLOB_FOLDER.fullmatch(name)]
        for name in sorted(names):
            file = Path(above, name)
            if file.is_file():
                with file.open("rb") as opened:
                    if opened.read(len(_ZIP)) == _ZIP:
                        yield file


def _identity(folder: Path) -> tuple[int, int]:
    facts = folder.stat()
    return facts.st_dev, facts.st_ino


def _raise(error: OSError) -> None:
    raise error
