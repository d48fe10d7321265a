"""Real files, and catalogues of them, for the tests."""

from __future__ import annotations

import tarfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from graphwire_fleet.asking import answer
from graphwire_fleet.catalogue import Catalogue, open_catalogue
from graphwire_fleet.reading import Reading
from graphwire_fleet.sources import files_of
from graphwire_fleet.work import File

_ARCHIVE = Path(__file__).resolve().parents[3] / "tests/corpus/corpus.tar.xz"


@cache
def corpus() -> Path:
    """The folder with what `torch.export.save` of eleven releases wrote, a folder for each."""
    folder = Path(mkdtemp(prefix="graphwire-fleet-corpus-"))
    with tarfile.open(_ARCHIVE) as archive:
        names = [each for each in archive.getmembers() if each.name.endswith(".pt2")]
        archive.extractall(folder, members=names, filter="data")
    return folder / "corpus"


def some_files(every: int = 19) -> list[Path]:
    """Every 19th file of the corpus, so that each release and each construct has some."""
    return sorted(corpus().glob("*/*.pt2"))[::every]


def listed(*words: str | Path, options: Any = None) -> list[File]:
    problems: list[Exception] = []
    found = list(files_of([str(each) for each in words], options, lambda error, name: problems.append(error)))
    assert not problems, problems
    return found


def read(place: str | Path, files: Sequence[File], work: Reading, batch: int = 16) -> list[str]:
    """Read files into a catalogue, in batches, and return the names of those that were read."""
    with open_catalogue(str(place), work) as catalogue:
        todo = list(catalogue.still_to_do(files))
        add(catalogue, todo, work, batch)
    return [each.name for each in todo]


def add(catalogue: Catalogue, files: Sequence[File], work: Reading, batch: int = 16) -> None:
    for start in range(0, len(files), batch):
        results = [work(each) for each in files[start : start + batch]]
        half = len(results) // 2
        catalogue.add(f"batch-{start}", [work.pack(results[:half]), work.pack(results[half:])])


def asked(place: str | Path, sql: str, **values: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    rows: list[tuple[Any, ...]] = []
    answer({"main": str(place)}, sql, lambda found: rows.extend(found.rows()[1]), values=values)
    return rows
