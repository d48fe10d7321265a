"""The command `blobs`, which looks after folders of blobs that several programs refer to."""

from __future__ import annotations

import argparse
import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphwire.cli.files import FOUND, OK, raise_error
from graphwire.cli.options import add_json, add_options, add_storage_options
from graphwire.cli.terminal import Output
from graphwire.display import Section, size_text
from graphwire.errors import ArchiveError, GraphwireError, PluginError, unless_interrupted

if TYPE_CHECKING:
    from graphwire.registry.interfaces import PrunableStore
    from graphwire.wire.archive.source import RegularPath, RemoteFile
    from graphwire.wire.weights.folder import Folder, RemoteFolder

# --------------------------------------------------------- which blobs do programs refer to, wherever the programs are?


_ZIP = b"PK\x03\x04"
_NO_FILE = (errno.ENOENT, errno.ELOOP, errno.EINVAL)
"""The errors for links to nothing, and for pipes, sockets and devices. Anything else may be a program that uses blobs."""
_BLOB_FOLDER = r"[0-9a-f]{2}"
_BLOB = r"[0-9a-f]{2}/[0-9a-f]{62}"


def names_of_used_blobs(
    words: Iterable[str], blobs: Folder | RemoteFolder, storage_options: Mapping[str, Any] | None
) -> set[str]:
    """Return the names of the blobs that programs refer to.

    Args:
        words: programs, and folders with programs; paths or URLs.
        blobs: the folder of blobs. The blobs in it are not searched.
        storage_options: those of the URLs.

    Raises:
        ArchiveError: a program cannot be read, or a word names none.
    """
    from graphwire.wire.archive.reader import ArchiveReader
    from graphwire.wire.archive.source import RemoteFile, located
    from graphwire.wire.weights.reference_table import REFERENCES, read_references

    used: set[str] = set()
    for word in words:
        place: Any = located(word, storage_options)
        if isinstance(place, RemoteFile):
            files: list[Any] = list(_remote_archives(place, blobs))
        else:
            path = Path(place)
            files = list(_archives(path, blobs)) if path.is_dir() else [path]
        if not files:
            raise ArchiveError(
                f"{place} has no programs", remedy="Nothing is removed. Give all programs with --programs"
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


def _archives(folder: Path, blobs: Folder | RemoteFolder) -> Iterator[RegularPath]:
    """Yield all archives at or below a folder, also over links, so that none that uses a blob is dropped."""
    from graphwire.wire.archive.source import RegularPath, open_regular

    seen: set[tuple[int, int]] = set()
    skipped = None if blobs.is_remote else _identity(Path(blobs.path))
    for above, folders, names in os.walk(folder, onerror=raise_error, followlinks=True):
        identity = _identity(Path(above))
        if identity in seen:
            folders.clear()
            continue
        seen.add(identity)
        if identity == skipped:
            folders[:] = [name for name in folders if not re.fullmatch(_BLOB_FOLDER, name)]
        for name in sorted(names):
            file = RegularPath(Path(above, name))
            try:
                with open_regular(str(file)) as opened:
                    is_archive = opened.read(len(_ZIP)) == _ZIP
            except unless_interrupted(OSError) as error:
                if error.errno not in _NO_FILE:
                    raise
                continue
            if is_archive:
                yield file


def _identity(folder: Path) -> tuple[int, int]:
    """Return what all paths of one folder have in common: the numbers of its device and of itself."""
    facts = folder.stat()
    return facts.st_dev, facts.st_ino


def _remote_archives(place: RemoteFile, blobs: Folder | RemoteFolder) -> Iterator[RemoteFile]:
    """Yield a file at a URL, or all archives below a folder there."""
    from graphwire.wire.limits import DEFAULT_ATTEMPTS
    from graphwire.wire.remote_files import open_remote

    found = DEFAULT_ATTEMPTS.run(
        place, "list the folder", lambda: place.fs.find(place.path.rstrip("/"), detail=True)
    )
    stem = place.path.rstrip("/")
    if stem in {path.rstrip("/") for path in found}:
        yield place
        return
    for path in sorted(found):
        location = path.removeprefix(stem).lstrip("/")
        file = place._replace(path=path, url=f"{place.url.rstrip('/')}/{location}")
        if blobs.is_remote and re.fullmatch(_BLOB, file.url.removeprefix(f"{blobs.path}/")):
            continue
        with closing(open_remote(file, DEFAULT_ATTEMPTS)) as opened:
            if opened.size >= len(_ZIP) and opened.read_at(0, len(_ZIP)) == _ZIP:
                yield file


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
    from graphwire.cli.verify import problem_section

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
    from graphwire.wire.archive.source import RemoteFile, located
    from graphwire.wire.weights.folder import Folder, RemoteFolder

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
    from graphwire.registry.interfaces import PrunableStore
    from graphwire.registry.registry import default_registry

    store = default_registry().weight_stores.get(_STORE)
    if not isinstance(store, PrunableStore):
        raise PluginError(
            f"no active plugin provides the weight store {_STORE!r}",
            remedy="`graphwire plugins` lists the reason",
        )
    return store
