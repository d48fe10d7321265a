"""A weight store that reads its bytes by itself is as good as files, and whatever its reader does wrong is an error of ours."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch
from given_plugins import registry_with

import graphwire
from graphwire.errors import ChecksumError, GraphwireError, WeightsError
from graphwire.hooks import Limits, NewTensor, StoredTensor, StoreFolder, StoreIndex
from graphwire.schema import FileFacts

ROWS, COLUMNS = 64, 600


class Inflated:
    """The elements of one tensor, inflated at each read."""

    def __init__(self, folder: StoreFolder, location: str, start: int, stored: int, size: int) -> None:
        self.folder, self.location, self.start, self.stored, self.size = folder, location, start, stored, size

    def read_into(self, offset: int, view: memoryview) -> int:
        with closing(self.folder.open(self.location)) as file:
            data = file.read_at(self.start, self.stored)
        part = zlib.decompressobj().decompress(data, self.size)[offset : offset + view.nbytes]
        view[: len(part)] = part
        return len(part)


class DeflatedStore:
    """Files `*.deflated`: a header line that Python's `repr` wrote, then the deflated elements of each tensor."""

    name = "deflated"
    takes_storages = False
    reader: Callable[..., Any] = Inflated

    def find(self, folder: StoreFolder, location: str) -> str | None:
        return location if location.endswith(".deflated") else None

    def open(self, folder: StoreFolder, location: str) -> StoreIndex:
        import ast

        with closing(folder.open(location)) as file:
            head, _, _ = file.read_at(0, min(file.size, 10_000)).partition(b"\n")
            size = file.size
        tensors, at = {}, len(head) + 1
        for name, (dtype, shape, stored, nbytes) in ast.literal_eval(head.decode()).items():
            reader = type(self).reader(folder, location, at, stored, nbytes)
            tensors[name] = StoredTensor.whole(dtype, shape, reader)
            at += stored
        return StoreIndex(tensors, {location: FileFacts(size)})

    def keeps(self, dtype: str) -> bool:
        return dtype in ("float32", "uint8")

    def write(
        self, folder: StoreFolder, location: str, tensors: Mapping[str, NewTensor]
    ) -> tuple[str, Mapping[str, str]]:
        parts = {name: zlib.compress(new.view()) for name, new in tensors.items()}
        head = {n: (new.dtype, new.shape, len(parts[n]), new.nbytes) for n, new in tensors.items()}
        with folder.create(location) as file:
            file.write(b"\n".join((repr(head).encode(), b"".join(parts.values()))))
        return location, {name: name for name in tensors}


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(COLUMNS, ROWS)
        self.bias = torch.nn.Parameter(torch.ones(ROWS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) + self.bias


REGISTRY = registry_with(weight_stores=[DeflatedStore()])


@pytest.fixture(scope="module")
def program() -> torch.export.ExportedProgram:
    torch.manual_seed(0)
    return torch.export.export(Model(), (torch.ones(2, COLUMNS),))


@pytest.fixture
def saved(program: torch.export.ExportedProgram, tmp_path: Path) -> Path:
    graphwire.save(program, tmp_path / "m.pt2", weights=tmp_path / "m.deflated", registry=REGISTRY)
    return tmp_path / "m.pt2"


def test_every_way_to_read_a_program_reads_them(
    program: torch.export.ExportedProgram, saved: Path, tmp_path: Path
) -> None:
    given: dict[str, Any] = {"registry": REGISTRY}
    x = torch.randn(2, COLUMNS)
    expected = program.module()(x)
    for options in ({}, {"copy": True}, {"verify": True}, {"weights": tmp_path / "m.deflated"}):
        assert torch.equal(graphwire.load(saved, **options, **given).module()(x), expected)
    assert torch.equal(graphwire.load_module(saved, **given)(x), expected)
    assert graphwire.verify(saved, **given) == []
    assert {each.place for each in graphwire.weights(saved, **given)} == {
        f"m.deflated: {name}" for name in program.state_dict
    }
    assert graphwire.inspect(saved, **given).methods
    assert graphwire.view(saved, **given)
    whole = tmp_path / "whole.pt2"
    graphwire.convert(saved, whole, weights=graphwire.IN_FILE, **given)
    assert torch.equal(graphwire.load(whole).module()(x), expected)
    assert graphwire.diff(saved, whole, **given).same
    assert graphwire.content_hash(saved, weights=True, **given) == graphwire.content_hash(whole, weights=True)
    graphwire.save(
        program, tmp_path / "c.pt2", weights=graphwire.Checkpoint(tmp_path / "m.deflated"), **given
    )
    assert torch.equal(graphwire.load(tmp_path / "c.pt2", **given).module()(x), expected)


def test_parts_of_a_tensor_are_read(tmp_path: Path) -> None:
    """Rows and transposed columns of a stored tensor, as ranks have them."""
    whole = torch.randn(8, 6)

    class Both(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.whole = torch.nn.Parameter(whole)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.whole @ x

    class Part(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rows = torch.nn.Parameter(whole[4:].clone())
            self.turned = torch.nn.Parameter(whole[:, 1:3].t().contiguous())

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.rows @ x, self.turned.sum() * x

    x = torch.ones(6)
    graphwire.save(
        torch.export.export(Both(), (x,)),
        tmp_path / "a.pt2",
        weights=tmp_path / "a.deflated",
        registry=REGISTRY,
    )
    names = {
        "rows": [graphwire.Piece("whole", part=(slice(4, 8),))],
        "turned": [graphwire.Piece("whole", part=(slice(None), slice(1, 3)), order=(1, 0))],
    }
    graphwire.save(
        torch.export.export(Part(), (x,)),
        tmp_path / "b.pt2",
        weights=graphwire.Checkpoint(tmp_path / "a.deflated", names=names),
        registry=REGISTRY,
    )
    loaded = graphwire.load(tmp_path / "b.pt2", registry=REGISTRY)
    assert torch.equal(loaded.state_dict["rows"], whole[4:])
    assert torch.equal(loaded.state_dict["turned"], whole[:, 1:3].t())


# -------------------------------------------------------------------------------------------------------- wrong readers


class Nothing(Inflated):
    def read_into(self, offset: int, view: memoryview) -> int:
        return 0


class TooMany(Inflated):
    def read_into(self, offset: int, view: memoryview) -> int:
        return view.nbytes + 1


class Negative(Inflated):
    def read_into(self, offset: int, view: memoryview) -> int:
        return -1


class Silent(Inflated):
    def read_into(self, offset: int, view: memoryview) -> Any:
        super().read_into(offset, view)


class Unfilled(Inflated):
    def read_into(self, offset: int, view: memoryview) -> int:
        return view.nbytes


class Raising(Inflated):
    def read_into(self, offset: int, view: memoryview) -> int:
        raise ZeroDivisionError("a defect")


class Overflowing(Inflated):
    def read_into(self, offset: int, view: memoryview) -> int:
        view[:] = bytes(view.nbytes + 1)
        return view.nbytes


class Shorter(Inflated):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.size -= 1


class NoSize(Inflated):
    @property
    def size(self) -> Any:
        raise ZeroDivisionError("a defect")

    @size.setter
    def size(self, value: int) -> None: ...


class OddSize(Inflated):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.size = float("inf")  # type: ignore[assignment]


WRONG = (
    Nothing,
    TooMany,
    Negative,
    Silent,
    Unfilled,
    Raising,
    Overflowing,
    Shorter,
    NoSize,
    OddSize,
)


@pytest.mark.parametrize("reader", WRONG)
def test_a_wrong_reader_is_an_error_that_names_the_store(reader: type[Inflated], saved: Path) -> None:
    class Wrong(DeflatedStore):
        pass

    Wrong.reader = reader
    given: dict[str, Any] = {"registry": registry_with(weight_stores=[Wrong()])}
    for read in (graphwire.load, graphwire.load_module):
        with pytest.raises(GraphwireError, match=r"deflated|not those that were saved"):
            read(saved, **given)
    assert graphwire.verify(saved, **given)
    with pytest.raises(GraphwireError):
        graphwire.content_hash(saved, weights=True, **given)
    new = saved.with_name("new.pt2")
    with pytest.raises(GraphwireError):
        graphwire.convert(saved, new, weights=graphwire.IN_FILE, **given)
    assert not new.exists()


def test_bytes_that_change_between_two_reads_are_noticed(saved: Path) -> None:
    class Changing(Inflated):
        reads = 0

        def read_into(self, offset: int, view: memoryview) -> int:
            count = super().read_into(offset, view)
            Changing.reads += 1
            if Changing.reads > 3:
                view[0] ^= 1
            return count

    class Wrong(DeflatedStore):
        reader = Changing

    registry = registry_with(weight_stores=[Wrong()])
    graphwire.load(saved, registry=registry)
    with pytest.raises(ChecksumError, match="not those that were saved"):
        graphwire.load(saved, registry=registry)
    Changing.reads = 0
    new = saved.with_name("new.pt2")
    with pytest.raises(ChecksumError, match="not those that were saved"):
        graphwire.convert(saved, new, weights=graphwire.IN_FILE, registry=registry)
    assert not new.exists()


def test_limits_bound_what_a_store_makes_of_its_files(tmp_path: Path) -> None:
    """Zeros deflate to a thousandth. Neither one tensor nor all together exceed the limit."""

    class Zeros(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.many = torch.nn.ParameterList(torch.zeros(1 << 18) + number for number in range(20))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + sum(each[0] for each in self.many)

    path = tmp_path / "z.pt2"
    zeros = torch.export.export(Zeros(), (torch.ones(1),))
    graphwire.save(zeros, path, weights=tmp_path / "z.deflated", registry=REGISTRY)
    for most in (1 << 19, 1 << 21):
        limits = Limits(inflate_free_bytes=most, inflate_ratio=0)
        with pytest.raises(WeightsError, match=r"Limits\.inflate_ratio"):
            graphwire.load(path, registry=REGISTRY, limits=limits)
        assert "inflate_ratio" in str(graphwire.verify(path, registry=REGISTRY, limits=limits))
    with pytest.raises(WeightsError, match=r"Limits\.inflate_ratio"):
        graphwire.load(path, registry=REGISTRY)
    graphwire.load(path, registry=REGISTRY, limits=Limits(inflate_ratio=2000))


def test_a_stated_size_of_enormous_bytes_takes_no_memory(saved: Path) -> None:
    data = saved.with_suffix(".deflated").read_bytes()
    head, _, rest = data.partition(b"\n")
    head = head.replace(b"(64, 600)", b"(64, 600000000000)").replace(b"153600)", b"153600000000000)")
    saved.with_suffix(".deflated").write_bytes(head + b"\n" + rest)
    program = graphwire.load(saved, weights=None, registry=REGISTRY)
    assert program.state_dict["linear.weight"].shape == (64, 600)
    with pytest.raises(WeightsError, match="600000000000"):
        graphwire.load(saved, weights=saved.with_suffix(".deflated"), registry=REGISTRY)


def test_the_names_of_files_that_a_reader_needs_are_recorded(saved: Path) -> None:
    saved.with_suffix(".deflated").unlink()
    with pytest.raises(WeightsError, match="the file is missing"):
        graphwire.load(saved, registry=REGISTRY)
