"""The parts of a catalogue: what one batch wrote. A part is visible as a whole, by its commit.

    OUT/catalogue.json              the version of the columns
    OUT/commits/NUMBER-NAME.json    a commit: the tables of a part, with their rows, and the parts that it replaces
    OUT/TABLE/NUMBER-NAME.parquet   the rows of one table of that part

A file of rows without a commit does not count: its writer was killed. The next writer removes it. Files whose names no part
has are somebody else's: they are neither read nor removed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from graphwire.errors import ArchiveError, GraphwireError
from graphwire_fleet.catalogue.folders import Folder
from graphwire_fleet.tables import SCHEMA, TABLES

_ABOUT, _COMMITS = "catalogue.json", "commits"
_NAME: Final = re.compile(r"[0-9]{8}-[A-Za-z0-9._-]+-[0-9a-f]{8}")

_FILE: Final = re.compile(rf"(?:{'|'.join(TABLES)})/({_NAME.pattern})\.parquet")

READS_A_PART: Final = 1 << 20
"""The numbers of readings that each part has for itself."""


class UnreadablePartError(ArchiveError):
    """A file with rows of a part is gone or damaged.

    Args:
        part: the name of the part.
        problem: what is wrong with the file.
    """

    def __init__(self, part: str, problem: str) -> None:
        remedy = "Remove the commit, and run inspect, verify and targets again: they read the files of the part again"
        super().__init__(f"a part is damaged: {problem}", place=f"{_COMMITS}/{part}.json", remedy=remedy)


class Commit(msgspec.Struct, frozen=True, omit_defaults=True):
    """What makes a part visible."""

    part: str
    """Its name: eight digits of its number, a dash, and the name of the batch."""
    rows: dict[str, int]
    """How many rows it has of each table; a table without rows has no file."""
    level: int = 0
    """How often its rows were merged with those of other parts."""
    replaces: list[str] = []
    """The parts whose rows it has, which no longer count."""

    @property
    def number(self) -> int:
        """The number of the part; later parts have larger ones."""
        return _number(self.part)


def _number(part: str) -> int:
    return int(part.partition("-")[0])


class _About(msgspec.Struct):
    schema: int
    written_by: str


def check_place(folder: Folder) -> None:
    """Check that a folder is a catalogue, or may become one. Nothing is written.

    Raises:
        ArchiveError: it has other files, or its path is not Unicode, which Parquet's readers need.
    """
    _check_unicode(folder)
    if folder.read(_ABOUT) is None and folder.names(""):
        raise ArchiveError(
            "the folder is not empty, and no catalogue", remedy="Name a new folder for the catalogue"
        ).of(folder.name)


def _check_unicode(folder: Folder) -> None:
    try:
        folder.name.encode()
    except UnicodeEncodeError as error:
        raise ArchiveError(
            "the path of a catalogue has bytes that are not UTF-8", remedy="Rename the folder"
        ).of(folder.name) from error


def create(folder: Folder, written_by: str) -> None:
    """Make a folder a catalogue, if it is none yet.

    Raises:
        ArchiveError: it is one of another version, or has other files.
    """
    check_place(folder)
    if folder.read(_ABOUT) is None:
        with folder.writing(_ABOUT) as stream:
            stream.write(msgspec.json.encode(_About(SCHEMA, written_by)))
    check_schema(folder)


def check_schema(folder: Folder) -> None:
    """Check that a folder is a catalogue of this version.

    Raises:
        ArchiveError: it is none, or of another version.
    """
    _check_unicode(folder)
    data = folder.read(_ABOUT)
    if data is None:
        raise ArchiveError(
            "this is no catalogue", remedy="Make one with `graphwire fleet inspect PATTERN -o FOLDER`"
        ).of(folder.name)
    try:
        about = msgspec.json.decode(data, type=_About)
    except (msgspec.MsgspecError, ValueError) as error:
        raise ArchiveError(f"{_ABOUT} is damaged: {error}", remedy="Make the catalogue anew").of(
            folder.name
        ) from error
    if about.schema != SCHEMA:
        raise ArchiveError(
            f"the catalogue has version {about.schema} of the columns (written by {about.written_by}), and this reads {SCHEMA}",
            remedy="Make it anew in another folder: files are read again, and nothing else is lost",
        ).of(folder.name)


def file_of(table: str, part: str) -> str:
    """Return the name of the file with the rows of one table of a part."""
    return f"{table}/{part}.parquet"


def part_named_in(text: str) -> str | None:
    """Return the name of the part of whose rows a text names a file; None if it names none."""
    found = _FILE.search(text)
    return None if found is None else found[1]


def commits_of(folder: Folder) -> list[Commit]:
    """Return the commits of the parts that count, in their order.

    Raises:
        ArchiveError: a commit is damaged.
    """
    found = _read_commits(folder)
    while found is None:  # A writer merged parts while they were read.
        found = _read_commits(folder)
    replaced = {part for each in found for part in each.replaces}
    return sorted((each for each in found if each.part not in replaced), key=lambda each: each.number)


def _read_commits(folder: Folder) -> list[Commit] | None:
    """Return all commits; None if one that was listed is gone."""
    found = []
    for name in folder.names(_COMMITS):
        data = folder.read(f"{_COMMITS}/{name}")
        if data is None:
            return None
        try:
            commit = msgspec.json.decode(data, type=Commit)
        except (msgspec.MsgspecError, ValueError) as error:
            raise _damaged(folder, name, str(error)) from error
        if _NAME.fullmatch(commit.part) is None or not commit.rows.keys() <= TABLES.keys():
            raise _damaged(folder, name, "it names no part of a catalogue")
        if name != f"{commit.part}.json":
            raise _damaged(folder, name, f"it is that of another part, {commit.part}")
        if not all(_NAME.fullmatch(each) and _number(each) < commit.number for each in commit.replaces):
            raise _damaged(folder, name, "it replaces what is no earlier part")
        found.append(commit)
    return found


def _damaged(folder: Folder, name: str, problem: str) -> GraphwireError:
    remedy = "Remove this file; the files of its part are read again"
    return ArchiveError(f"the commit is damaged: {problem}", place=f"{_COMMITS}/{name}", remedy=remedy).of(
        folder.name
    )


def write_rows(folder: Folder, table: str, part: str, rows: pa.Table) -> None:
    """Write the rows of one table of a part."""
    with folder.writing(file_of(table, part)) as stream:
        pq.write_table(rows, stream, compression="zstd")


def commit(folder: Folder, made: Commit) -> None:
    """Make a part visible, in one step."""
    with folder.writing(f"{_COMMITS}/{made.part}.json") as stream:
        stream.write(msgspec.json.encode(made))


def remove_parts(folder: Folder, parts: Mapping[str, Collection[str]]) -> None:
    """Remove parts that no longer count: first their commits, then their rows, by the tables that each has."""
    for part in parts:
        folder.remove(f"{_COMMITS}/{part}.json")
    for part, tables in parts.items():
        for table in tables:
            folder.remove(file_of(table, part))


def sweep(folder: Folder, commits: Collection[Commit]) -> None:
    """Remove what does not count: the files of writers that were killed, and commits that were replaced."""
    kept = {each.part for each in commits}
    for below, suffix in ((_COMMITS, ".json"), *((table, ".parquet") for table in TABLES)):
        folder.remove_unfinished(below)
        for name in folder.names(below):
            part = name.removesuffix(suffix)
            if name != part and part not in kept and _NAME.fullmatch(part):
                folder.remove(f"{below}/{name}")
