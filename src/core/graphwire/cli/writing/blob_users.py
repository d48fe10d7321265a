"""Which blobs do programs refer to, wherever the programs are?"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from graphwire.errors import ArchiveError, GraphwireError
from graphwire.lazy import pattern

if TYPE_CHECKING:
    from graphwire.wire.remote import RemoteFile
    from graphwire.wire.weights import Folder, RemoteFolder

__all__ = ["names_of_used_blobs"]

_STORE = "blobs"
_ZIP = b"PK\x03\x04"
_BLOB_FOLDER = pattern(r"[0-9a-f]{2}")
_BLOB = pattern(r"[0-9a-f]{2}/[0-9a-f]{62}")


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
    from graphwire.wire.archive import ArchiveReader
    from graphwire.wire.remote import RemoteFile, located
    from graphwire.wire.weights import REFERENCES, read_references

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


def _archives(folder: Path, blobs: Folder | RemoteFolder) -> Iterator[Path]:
    """Yield all archives at or below a folder, also over links, so that none that uses a blob is left out."""
    seen: set[_Identity] = set()
    skipped = None if blobs.is_remote else _identity(Path(blobs.path))
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


class _Identity(NamedTuple):
    """What two paths of one folder have in common."""

    device: int
    number: int


def _identity(folder: Path) -> _Identity:
    facts = folder.stat()
    return _Identity(facts.st_dev, facts.st_ino)


def _remote_archives(place: RemoteFile, blobs: Folder | RemoteFolder) -> Iterator[RemoteFile]:
    """Yield a file at a URL, or all archives below a folder there."""
    from graphwire.wire import DEFAULT_ATTEMPTS
    from graphwire.wire.remote import open_remote

    found = DEFAULT_ATTEMPTS.run(
        place.url, "list the folder", lambda: place.fs.find(place.path.rstrip("/"), detail=True)
    )
    stem = place.path.rstrip("/")
    if stem in {path.rstrip("/") for path in found}:
        yield place
        return
    for path in sorted(found):
        location = path.removeprefix(stem).lstrip("/")
        file = place._replace(path=path, url=f"{place.url.rstrip('/')}/{location}")
        if blobs.is_remote and _BLOB.fullmatch(file.url.removeprefix(f"{blobs.path}/")):
            continue
        with closing(open_remote(file, DEFAULT_ATTEMPTS)) as opened:
            if opened.size >= len(_ZIP) and opened.read_at(0, len(_ZIP)) == _ZIP:
                yield file


def _raise(error: OSError) -> None:
    raise error
