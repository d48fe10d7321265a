"""The store keeps graphwire's contract, and what hostile databases claim is an error before it takes memory or runs anything."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import torch
from graphwire_sqlite import SqliteStore

import graphwire
from graphwire.errors import ChecksumError, GraphwireError
from graphwire.testing import WeightStoreContract

REGISTRY = graphwire.Registry.discover()
if "sqlite" not in REGISTRY.weight_stores:
    import graphwire_sqlite

    REGISTRY = REGISTRY.extended(graphwire_sqlite)


class TestContract(WeightStoreContract):
    store = SqliteStore()
    location = "model.sqlite"


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(600, 700)
        self.last = torch.nn.Linear(700, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.first(x).relu())


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    program = torch.export.export(Model(), (torch.ones(2, 600),))
    graphwire.save(program, tmp_path / "m.pt2", weights=tmp_path / "m.sqlite", registry=REGISTRY)
    return tmp_path / "m.pt2"


def change(path: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(statement, values)


def test_every_command_reads_weights_in_a_database(saved: Path, tmp_path: Path) -> None:
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    x = torch.randn(2, 600)
    loaded = graphwire.load(saved, registry=REGISTRY)
    expected = loaded.module()(x)
    assert torch.equal(graphwire.load_module(saved, registry=REGISTRY)(x), expected)
    assert graphwire.verify(saved, registry=REGISTRY) == []
    assert graphwire.content_hash(saved, weights=True, registry=REGISTRY) == graphwire.content_hash(
        loaded, weights=True, registry=REGISTRY
    )
    assert {each.place.partition(":")[0] for each in graphwire.weights(saved, registry=REGISTRY)} == {
        "m.sqlite"
    }
    assert len(graphwire.view(saved, registry=REGISTRY).html) > 1000
    graphwire.convert(saved, tmp_path / "whole.pt2", weights=graphwire.IN_FILE, registry=REGISTRY)
    assert torch.equal(graphwire.load(tmp_path / "whole.pt2").module()(x), expected)
    assert graphwire.diff(saved, tmp_path / "whole.pt2", registry=REGISTRY).same
    (tmp_path / "whole.pt2").unlink()
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == before


HOSTILE: dict[str, Callable[[Path], None]] = {
    "a view in place of a table": lambda path: (
        change(path, "DROP TABLE pages"),
        change(path, "CREATE VIEW pages AS SELECT 1 AS number, zeroblob(1000000000) AS elements"),
    )[0],
    "a trigger": lambda path: change(path, "CREATE TRIGGER t AFTER INSERT ON pages BEGIN SELECT 1; END"),
    "an index": lambda path: change(path, "CREATE INDEX i ON tensors (dtype)"),
    "a shape that is huge": lambda path: change(path, "UPDATE tensors SET shape = '[4611686018427387903]'"),
    "a shape that overflows": lambda path: change(path, f"UPDATE tensors SET shape = '{[1 << 61] * 60}'"),
    "a shape that is deep": lambda path: change(path, f"UPDATE tensors SET shape = '{'[' * 4000}'"),
    "a shape that is no list": lambda path: change(path, "UPDATE tensors SET shape = '{}'"),
    "a shape that is no text": lambda path: change(path, "UPDATE tensors SET shape = x'5b5d'"),
    "a type that is unknown": lambda path: change(path, "UPDATE tensors SET dtype = 'float33'"),
    "a name that is no text": lambda path: change(path, "UPDATE tensors SET name = CAST(x'ff' AS TEXT) WHERE name = 'last.bias'"),
    "a page that is missing": lambda path: change(path, "DELETE FROM pages WHERE number = 2"),
    "a page that is short": lambda path: change(path, "UPDATE pages SET elements = x'00'"),
    "a page that is long": lambda path: change(path, "UPDATE pages SET elements = zeroblob(900000000) WHERE number = 2"),
    "a page that is a number": lambda path: change(path, "UPDATE pages SET elements = 7"),
    "pages of another tensor": lambda path: change(path, "UPDATE tensors SET page = page + 9223372036854775000"),
    "bytes that changed": lambda path: change(
        path, "UPDATE pages SET elements = zeroblob(length(elements)) WHERE number = 1"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("given", [False, True], ids=["as saved", "given"])
def test_a_hostile_database_is_an_error(name: str, given: bool, saved: Path) -> None:
    """As saved, its size and its digest differ. Where the caller chose it, its own values decide: other weights are no error."""
    HOSTILE[name](saved.with_suffix(".sqlite"))
    weights = saved.with_suffix(".sqlite") if given else graphwire.AS_SAVED
    if given and name == "bytes that changed":
        assert not graphwire.load(saved, weights=weights, registry=REGISTRY).state_dict["first.bias"].any()
        return
    with pytest.raises(GraphwireError) as caught:
        graphwire.load(saved, weights=weights, registry=REGISTRY)
    assert isinstance(caught.value, ChecksumError) or "m.sqlite" in str(caught.value)
    if not given:
        assert graphwire.verify(saved, registry=REGISTRY)


def test_a_journal_beside_it_is_not_played(saved: Path) -> None:
    before = saved.with_suffix(".sqlite").read_bytes()
    for end in ("-journal", "-wal", "-shm"):
        saved.with_name(f"m.sqlite{end}").write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(600))
    graphwire.load(saved, registry=REGISTRY)
    assert saved.with_suffix(".sqlite").read_bytes() == before
    assert saved.with_name("m.sqlite-wal").stat().st_size == 608


def test_rows_that_repeat_without_end_are_an_error(tmp_path: Path, saved: Path) -> None:
    """A page of the tree whose every child is the same page, as no SQLite writes it."""
    path = tmp_path / "m.sqlite"
    data = bytearray(path.read_bytes())
    # The page that has the rows of `tensors` becomes an inner page with many children: the old rows, at a new page at the end.
    size = 65536
    pages = [bytes(data[at : at + size]) for at in range(0, len(data), size)]
    number = next(
        index for index, page in enumerate(pages) if index and b"first.bias" in page and page[0] == 0x0A
    )
    child = (len(pages) + 1).to_bytes(4, "big")
    cell = child + b"\x0d\x05\x0f\x17\x11\x09auint8[]"
    inner = bytearray(size)
    most = 2000
    inner[0] = 0x02
    inner[3:5] = most.to_bytes(2, "big")
    at = size - len(cell)
    inner[at:] = cell
    inner[5:7] = at.to_bytes(2, "big")
    inner[8:12] = child
    for index in range(most):
        inner[12 + 2 * index : 14 + 2 * index] = at.to_bytes(2, "big")
    pages[number] = bytes(inner)
    pages.append(bytes(data[number * size : (number + 1) * size]))
    data = bytearray(b"".join(pages))
    data[28:32] = len(pages).to_bytes(4, "big")
    path.write_bytes(data)
    with pytest.raises(GraphwireError, match="twice"):
        graphwire.load(saved, weights=path, registry=REGISTRY)


def test_a_database_elsewhere_is_refused_where_it_cannot_be_read(saved: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    for name in ("m.pt2", "m.sqlite"):
        memory.pipe(f"/stored/{name}", saved.with_name(name).read_bytes())
    with pytest.raises(GraphwireError, match="not on a disk"):
        graphwire.load("memory://stored/m.pt2", registry=REGISTRY)
    program = graphwire.load("memory://stored/m.pt2", weights=saved.with_name("m.sqlite"), registry=REGISTRY)
    assert program.state_dict["first.bias"].shape == (700,)
