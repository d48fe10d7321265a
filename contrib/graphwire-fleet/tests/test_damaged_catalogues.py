"""A catalogue touches no file that is not its own, and a damaged one gives right answers, or an error with a remedy."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

sys.path.insert(0, str(Path(__file__).parent))

from fleet_files import asked, listed, read, some_files
from graphwire_fleet.reading import Inspecting
from graphwire_fleet.tables import TABLES
from graphwire_fleet.work import Failure, Result

from graphwire.cli import main
from graphwire.errors import ArchiveError


def contents(folder: Path) -> dict[str, bytes]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def fleet(*words: Any) -> int:
    return main(["fleet", *map(str, words)])


# ---------------------------------------------------------------------------------------------------- other people's files


def test_a_folder_with_other_files_becomes_no_catalogue_and_stays_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("programs/a.pt2", "weights/b.safetensors", "commits/c.json", "drafts/.d.part"):
        (tmp_path / name).parent.mkdir()
        shutil.copy(some_files(300)[0], tmp_path / name)
    before = contents(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert fleet("inspect", "programs", "-o", ".") == 2
    assert "the folder is not empty, and no catalogue. Name a new folder" in capsys.readouterr().err
    assert contents(tmp_path) == before


def test_files_that_are_not_of_the_catalogue_stay_in_it(tmp_path: Path) -> None:
    files = listed(*some_files(300))
    read(tmp_path, files[:1], Inspecting())
    others = {f"{table}/notes.txt": b"mine" for table in TABLES} | {
        "weights/.draft.part": b"mine",
        "README": b"mine",
    }
    for name, data in others.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    assert len(read(tmp_path, files, Inspecting())) == len(files) - 1
    assert fleet("compact", tmp_path) == 0
    assert {name: (tmp_path / name).read_bytes() for name in others} == others
    assert asked(tmp_path, "SELECT count(*) FROM programs") == [(len(files),)]


@pytest.mark.parametrize("name", ["all?", "all[1]", "file=x/work=y", 'it\'s "one"\nof'])
def test_a_catalogue_has_any_name(name: str, tmp_path: Path) -> None:
    files, place = listed(*some_files(300)), tmp_path / name
    read(place, files[1:], Inspecting())
    for neighbour in ("all1", "all2"):
        shutil.copytree(place, tmp_path / neighbour)
    read(place, files, Inspecting())
    assert fleet("compact", place) == 0
    rows = asked(place, "SELECT file, work FROM files ORDER BY file")
    assert rows == sorted((each.name, "inspect") for each in files)
    assert asked(tmp_path / "all1", "SELECT count(*) FROM programs") == [(len(files) - 1,)]


# ----------------------------------------------------------------------------------------------------------------- damage

_QUERY = " UNION ALL ".join(f"SELECT '{name}', file, count(*) FROM {name} GROUP BY file" for name in TABLES)


def answered(place: Path) -> list[Any]:
    return sorted(asked(place, _QUERY))


@pytest.fixture(scope="module")
def catalogue() -> Iterator[Path]:
    """A catalogue of three parts."""
    with TemporaryDirectory() as folder:
        read(folder, listed(*some_files(300)), Inspecting(), batch=1)
        yield Path(folder)


def remove(path: Path, where: int) -> None:
    path.unlink()


def truncate(path: Path, where: int) -> None:
    path.write_bytes(path.read_bytes()[: where % max(path.stat().st_size, 1)])


def duplicate(path: Path, where: int) -> None:
    shutil.copy(path, path.with_stem(f"{path.stem}-copy"))


def scramble(path: Path, where: int) -> None:
    data = path.read_bytes()
    start = where % len(data)
    path.write_bytes(data[:start] + b"\xff" * len(data[start : start + 16]) + data[start + 16 :])


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_a_damaged_catalogue_is_an_error_with_a_remedy_or_answers_as_before(
    catalogue: Path, data: st.DataObject
) -> None:
    files = listed(*some_files(300))
    with TemporaryDirectory() as temporary:
        place = Path(temporary, "damaged")
        shutil.copytree(catalogue, place)
        names = sorted(contents(place).keys() - {".lock"})
        path = place / data.draw(st.sampled_from(names))
        data.draw(st.sampled_from([remove, truncate, duplicate, scramble]))(
            path, data.draw(st.integers(0, 1 << 16))
        )
        error, found = None, []
        try:
            found = answered(place)
        except ArchiveError as raised:
            error = raised
        if error is not None:
            assert error.remedy
            if error.place:
                (place / error.place).unlink()
            else:
                shutil.rmtree(place)
        elif path.parent.name == "commits" and not path.exists():
            assert set(found) < set(answered(catalogue))  # That is how a part is removed.
        else:
            assert found == answered(catalogue) or path.suffix == ".parquet"
            return
        assert set(read(place, files, Inspecting())) <= {each.name for each in files}
        assert answered(place) == answered(catalogue)


@pytest.mark.parametrize("action", ["query", "inspect", "compact"])
@pytest.mark.parametrize("damage", [remove, truncate])
def test_every_action_names_the_damaged_part(
    action: str, damage: Any, catalogue: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "damaged"
    shutil.copytree(catalogue, place)
    path = min((place / "programs").iterdir())
    damage(path, 100)
    words = {"query": [place, "SELECT * FROM programs"], "compact": [place]}
    assert fleet(action, *words.get(action, [some_files(300)[0], "-o", place])) == 2
    printed = capsys.readouterr().err
    assert f"commits/{path.stem}.json: a part is damaged: " in printed
    assert "Remove the commit, and run inspect" in printed


def test_a_commit_cannot_replace_itself_or_later_parts(catalogue: Path, tmp_path: Path) -> None:
    place = tmp_path / "damaged"
    shutil.copytree(catalogue, place)
    first, *_, last = sorted((place / "commits").iterdir())
    whole = first.read_text()
    for name in (first.stem, last.stem, "../../elsewhere"):
        first.write_text(whole[:-1] + f',"replaces":["{name}"]' + "}")
        with pytest.raises(ArchiveError, match="it replaces what is no earlier part"):
            answered(place)


# ------------------------------------------------------------------------------------------- failures that may be over


@pytest.mark.parametrize(
    ("kind", "again"),
    [("LimitError", True), ("FileNotFoundError", True), ("OSError", True), ("SchemaError", False)],
)
def test_a_failure_counts_for_good_only_if_the_bytes_of_the_file_are_why(
    kind: str, again: bool, tmp_path: Path
) -> None:
    from graphwire_fleet.catalogue import open_catalogue

    [file], work = listed(some_files(300)[0]), Inspecting()
    with open_catalogue(str(tmp_path), work) as opened:
        opened.add("failed", [work.pack([Result(file, failure=Failure(kind, "failed"))])])
    assert read(tmp_path, [file], work) == [file.name] * again
