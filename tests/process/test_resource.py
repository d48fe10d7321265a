"""What a block holds is given back: after an error in it, and after one halfway to it."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from graphwire.process import Resource, file_of


class Held(Resource):
    """Holds two things, and fails between them if it is told to."""

    def __init__(self, *, fails: bool) -> None:
        self.held: list[str] = []
        self._fails = fails

    def begin(self) -> None:
        self.held.append("one")
        if self._fails:
            raise FileNotFoundError
        self.held.append("two")

    def end(self, error: BaseException | None) -> None:
        self.held.clear()


@pytest.mark.parametrize("fails", [False, True])
def test_nothing_is_held_after_an_error(fails: bool) -> None:
    resource = Held(fails=fails)
    with pytest.raises(FileNotFoundError), resource:
        raise FileNotFoundError
    assert resource.held == []


def test_a_number_that_no_file_takes_over_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    closed: list[int] = []

    def refused(number: int) -> io.FileIO:
        closed.append(number)
        raise KeyboardInterrupt

    monkeypatch.setattr(io, "FileIO", refused)
    with pytest.raises(KeyboardInterrupt):
        file_of(os.open, tmp_path / "file", os.O_RDONLY)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(closed[0])
