"""The weight store `sqlite`: a database `*.sqlite` with the tensors of a model.

    tensors    a row a tensor: its name, torch's name of its element type, its shape as JSON, and its first page
    pages      the elements, in pages of 1 MiB; the last page of a tensor may be shorter

Pages exist because SQLite limits the size of one value to 1 GB. A database may come from an attacker. It is opened read-only and
immutable, so that neither it nor a journal beside it is changed. It must have these two tables, and nothing that would run, as
views and triggers do. Its values are checked as those of any file.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

from graphwire import hookimpl
from graphwire.errors import ArchiveError, EncodeError, MissingRecordError
from graphwire.hooks import NewTensor, StoredTensor, StoreFile, StoreFolder, StoreIndex, WeightStore
from graphwire.schema import ITEM_SIZES, MAX_DIMENSIONS, FileFacts

SUFFIX = ".sqlite"
_HEADER = b"SQLite format 3\0"
_APPLICATION = 0x67777431
"""The application's number in the header of a database, by which its kind is known."""
_TABLES = {
    "tensors": "CREATE TABLE tensors (name TEXT PRIMARY KEY, dtype TEXT NOT NULL, shape TEXT NOT NULL, page INTEGER NOT NULL)"
    " WITHOUT ROWID",
    "pages": "CREATE TABLE pages (number INTEGER PRIMARY KEY, elements BLOB NOT NULL)",
}
_PAGE_BYTES = 1 << 20
_MOST_TENSORS = 1_000_000
_MOST_NAMES = 100
_REMEDY = "The database is damaged or was not written by this store: fetch or save it again"


class SqliteStore:
    """A database `*.sqlite`."""

    name = "sqlite"
    takes_storages = False

    def find(self, folder: StoreFolder, location: str) -> str | None:
        """Return the location of a file that has the suffix, or the header of such a database."""
        if location.endswith(SUFFIX):
            return location
        if not location:
            return None
        try:
            with closing(folder.open(location)) as file:
                return location if _is_ours(file) else None
        except ArchiveError:
            return None

    def open(self, folder: StoreFolder, location: str) -> StoreIndex:
        """Read the table of tensors.

        Raises:
            ArchiveError: there is no such file on this machine, or it is no database of this store.
        """
        path = folder.local_path(location)
        with closing(folder.open(location)) as file:
            size = file.size
            if not _is_ours(file):
                raise _damaged("it is not a database of weights", path)
        tensors: dict[str, StoredTensor] = {}
        digest = hashlib.sha256()
        with _reading(path) as database:
            for name, dtype, shape, page in _rows(database, path):
                # In a damaged database one page may stand in many places: names would repeat without end.
                if name in tensors or len(tensors) == _MOST_TENSORS:
                    raise _damaged(f"it has the tensor {name!r:.200} twice, or too many", path)
                nbytes = math.prod(shape) * ITEM_SIZES[dtype]
                if nbytes > size:
                    raise _damaged(f"it has {size:,} bytes, and the tensor {name!r:.200} {nbytes:,}", path)
                tensors[name] = StoredTensor.whole(dtype, shape, _Elements(path, page, nbytes))
                digest.update(json.dumps([name, dtype, shape, page]).encode())
        return StoreIndex(tensors, {location: FileFacts(size, digest.hexdigest())})

    def keeps(self, dtype: str) -> bool:
        """Return whether torch has an element type of this name: elements are bytes here."""
        return dtype in ITEM_SIZES

    def write(
        self, folder: StoreFolder, location: str, tensors: Mapping[str, NewTensor]
    ) -> tuple[str, Mapping[str, str]]:
        """Write a database. If one of this name has other content, the new one gets a name with a number.

        Raises:
            EncodeError: a type or a name cannot be kept, or all names are taken.
        """
        if unknown := sorted({each.dtype for each in tensors.values() if not self.keeps(each.dtype)}):
            raise EncodeError(f"there is no element type {', '.join(unknown)}")
        for name in tensors:
            if re.search("[\ud800-\udfff]", name):
                raise EncodeError(f"the name {name!r:.200} is not valid Unicode")
        stem = location.removesuffix(SUFFIX) or "weights"
        with tempfile.TemporaryDirectory() as temporary:
            path = Path(temporary, "new.sqlite")
            for number in range(1, _MOST_NAMES):
                free = f"{stem}-{number}{SUFFIX}" if number > 1 else f"{stem}{SUFFIX}"
                try:
                    stored = self.open(folder, free)
                except MissingRecordError:
                    if not path.exists():
                        _write(path, tensors)
                    try:
                        with folder.create(free) as file, path.open("rb") as source:
                            shutil.copyfileobj(source, file, _PAGE_BYTES)
                        return free, {name: name for name in tensors}
                    except FileExistsError:  # another writer was faster, perhaps with the same content
                        stored = self.open(folder, free)
                except ArchiveError:
                    continue
                if _are_in(stored, tensors):
                    return free, {name: name for name in tensors}
        raise EncodeError(
            f"{stem}{SUFFIX} and others beside it have other content", remedy="Choose another name"
        )


class _Elements:
    """The elements of a tensor. Each read opens the database: nothing is left to close, and threads share nothing."""

    def __init__(self, path: str, page: int, size: int) -> None:
        self._path = path
        self._page = page
        self.size = size

    def read_into(self, offset: int, view: memoryview) -> int:
        """Fill a view with the elements from an offset, in bytes.

        Raises:
            ArchiveError: a page is missing, or has another size.
        """
        done = 0
        with _reading(self._path) as database:
            while done < view.nbytes:
                page, start = divmod(offset + done, _PAGE_BYTES)
                wanted = min(_PAGE_BYTES, self.size - page * _PAGE_BYTES)
                with database.blobopen("pages", "elements", self._page + page, readonly=True) as blob:
                    if len(blob) != wanted:
                        raise _damaged(f"a page has {len(blob):,} bytes, not {wanted:,}", self._path)
                    blob.seek(start)
                    part = blob.read(min(wanted - start, view.nbytes - done))
                view[done : done + len(part)] = part
                done += len(part)
        return done


# --------------------------------------------------------------------------------------------------------------- reading


def _is_ours(file: StoreFile) -> bool:
    head = file.read_at(0, min(file.size, 100))
    return len(head) == 100 and head.startswith(_HEADER) and head[68:72] == _APPLICATION.to_bytes(4, "big")


@contextmanager
def _reading(path: str) -> Iterator[sqlite3.Connection]:
    """Open a database for reading, and turn whatever SQLite finds wrong with it into our error."""
    try:
        uri = f"{Path(path).absolute().as_uri()}?mode=ro&immutable=1"
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as database:
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 2 * _PAGE_BYTES)
            for setting in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON"):
                database.execute(f"PRAGMA {setting}")
            found = dict(database.execute("SELECT name, sql FROM sqlite_schema LIMIT 3").fetchall())
            if found != _TABLES:
                raise _damaged("it has other tables than `tensors` and `pages`", path)
            yield database
    except (sqlite3.Error, ValueError, OverflowError, RecursionError) as error:
        raise _damaged(f"SQLite cannot read it ({error})", path) from error


def _rows(database: sqlite3.Connection, path: str) -> Iterator[tuple[str, str, tuple[int, ...], int]]:
    """Yield the name, the type, the shape and the first page of each tensor."""
    for row in database.execute("SELECT name, dtype, shape, page FROM tensors ORDER BY name"):
        match row:
            case str(name), str(dtype), str(text), int(page) if dtype in ITEM_SIZES and page > 0:
                shape = json.loads(text) if len(text) < 4096 else None
                if (
                    type(shape) is list
                    and len(shape) <= MAX_DIMENSIONS
                    and all(type(each) is int and 0 <= each < 1 << 62 for each in shape)
                ):
                    yield name, dtype, tuple(shape), page
                    continue
        raise _damaged(f"it does not describe the tensor {row[0]!r:.200}", path)


def _damaged(problem: str, path: str) -> ArchiveError:
    return ArchiveError(problem, place=path, remedy=_REMEDY)


# --------------------------------------------------------------------------------------------------------------- writing


def _write(path: Path, tensors: Mapping[str, NewTensor]) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        # Nobody sees the file before it is complete, so a journal would protect nothing.
        for setting in (
            "page_size = 65536",
            "journal_mode = OFF",
            "synchronous = OFF",
            f"application_id = {_APPLICATION}",
        ):
            database.execute(f"PRAGMA {setting}")
        database.execute("BEGIN")
        for table in _TABLES.values():
            database.execute(table)
        free = count(1)
        for name, new in sorted(tensors.items()):
            view = new.view()
            pages = [view[at : at + _PAGE_BYTES] for at in range(0, view.nbytes, _PAGE_BYTES)]
            numbers = [next(free) for _ in pages]
            database.executemany("INSERT INTO pages VALUES (?, ?)", zip(numbers, pages, strict=True))
            first = numbers[0] if numbers else 1
            shape = json.dumps(list(new.shape))
            database.execute("INSERT INTO tensors VALUES (?, ?, ?, ?)", (name, new.dtype, shape, first))
        database.execute("COMMIT")


def _are_in(index: StoreIndex, tensors: Mapping[str, NewTensor]) -> bool:
    """Return whether a database has exactly these tensors."""
    if index.tensors.keys() != tensors.keys():
        return False
    page = memoryview(bytearray(_PAGE_BYTES))
    for name, new in tensors.items():
        stored = index.tensors[name]
        (elements, *_) = stored.chunks[0]
        if (stored.dtype, stored.shape) != (new.dtype, tuple(new.shape)) or isinstance(elements, str):
            return False
        view = new.view()
        for at in range(0, view.nbytes, _PAGE_BYTES):
            part = page[: min(_PAGE_BYTES, view.nbytes - at)]
            elements.read_into(at, part)
            if part != view[at : at + part.nbytes]:
                return False
    return True


@hookimpl
def graphwire_weight_stores() -> list[WeightStore]:
    """Return the store."""
    return [SqliteStore()]
