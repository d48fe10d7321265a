"""No function replaces a file that it reads by something else: not a program by its page, not weights by a program."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import graphwire
from graphwire.errors import ArchiveError

WRITES: dict[str, Callable[[Path, Path], object]] = {
    "view": lambda read, output: graphwire.view(read, output=output),
    "view of two": lambda read, output: graphwire.view(read.with_name("other.pt2"), read, output=output),
    "view of an open file": lambda read, output: graphwire.view(graphwire.open(read), output=output),
    "View.save": lambda read, output: graphwire.view(read).save(output),
    "convert": lambda read, output: graphwire.convert(read, output, format="cbor"),
    "convert into one": lambda read, output: graphwire.convert(read, output, weights=graphwire.IN_FILE),
    "upgrade": lambda read, output: graphwire.upgrade(read, output, format="cbor"),
}


@pytest.fixture
def read(tmp_path: Path) -> Path:
    """A file whose weights are in another, `weights.safetensors`."""
    program = torch.export.export(torch.nn.Linear(4, 2), (torch.ones(3, 4),))
    graphwire.save(program, tmp_path / "other.pt2")
    graphwire.save(program, tmp_path / "read.pt2", weights=tmp_path / "weights.safetensors")
    return tmp_path / "read.pt2"


@pytest.mark.parametrize("link", [None, os.symlink, os.link])
@pytest.mark.parametrize(
    ("write", "name"),
    [
        *((write, "weights.safetensors") for write in WRITES),
        # A program may be written again in its place.
        *((write, "read.pt2") for write in WRITES if write.lower().startswith("view")),
    ],
)
def test_what_is_read_stays(
    write: str, name: str, link: Callable[[Path, Path], None] | None, read: Path, tmp_path: Path
) -> None:
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    output = tmp_path / name
    if link is not None:
        output = tmp_path / "a link"
        link(tmp_path / name, output)
    with pytest.raises(ArchiveError, match=r"this file is read .* and would be replaced"):
        WRITES[write](read, output)
    assert {each: Path(tmp_path, each).read_bytes() for each in before} == before


def test_a_program_is_written_again_in_its_place(read: Path) -> None:
    graphwire.convert(read, read, format="cbor")
    assert graphwire.verify(read) == []


def test_a_page_replaces_a_page(read: Path, tmp_path: Path) -> None:
    for _ in range(2):
        graphwire.view(read, output=tmp_path / "page.html")


def test_a_wrong_call_is_no_fault_of_the_file(read: Path) -> None:
    with graphwire.open(read) as archive, pytest.raises(TypeError, match="required positional argument"):
        archive.payloads_of()  # type: ignore[call-arg]
