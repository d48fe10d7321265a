"""What a diff says that it compared of weights: files of every layout, weights of every kind, with and without their elements."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

import graphwire
from graphwire.errors import EncodeError

CORPUS = sorted((Path(__file__).parents[1] / "golden/archives").glob("*.pt2"))


class Held(torch.nn.Module):
    def __init__(self, weights: dict[str, torch.Tensor], constants: dict[str, torch.Tensor]) -> None:
        super().__init__()
        for name, tensor in weights.items():
            self.register_buffer(name, tensor)
        for name, tensor in constants.items():
            self.register_buffer(name, tensor, persistent=False)

    def forward(self, x: torch.Tensor) -> Any:
        return x


def file_of(constants: dict[str, torch.Tensor] | None = None, **weights: torch.Tensor) -> bytes:
    return graphwire.dumps(torch.export.export(Held(weights, constants or {}), (torch.ones(1),)))


def compared(a: Any, b: Any, *, weights: bool = False) -> Any:
    return msgspec.to_builtins(graphwire.diff(a, b, weights=weights).compared)


ONE = torch.arange(12.0).reshape(3, 4)
SHARED = torch.arange(8.0)
CASES: dict[str, tuple[dict[str, torch.Tensor], dict[str, torch.Tensor], Any, Any]] = {
    "the same": ({"w": ONE}, {"w": ONE.clone()}, {"same": {"CRC-32": 1}}, {"same": {"elements": 1}}),
    "other elements": (
        {"w": ONE},
        {"w": ONE + 1},
        {"differ": {"w": {}}},
        {"differ": {"w": {"max_abs": 1.0, "cosine": pytest.approx(0.9974, abs=1e-4), "norm": pytest.approx(12**0.5 / 506**0.5)}}},
    ),
    "another shape": ({"w": ONE}, {"w": ONE.t()}, {"differ": {"w": {}}}, {"differ": {"w": {}}}),
    "another type": (
        {"w": ONE},
        {"w": ONE.bfloat16()},
        {"differ": {"w": {}}},
        {"differ": {"w": {"max_abs": 0.0, "cosine": pytest.approx(1), "norm": 0.0}}},
    ),
    "no elements": ({"w": torch.empty(0, 4)}, {"w": torch.empty(0, 4)}, {"same": {"shape": 1}}, {"same": {"shape": 1}}),
    "another order in memory": (
        {"w": ONE},
        {"w": ONE.t().contiguous().t()},
        {"not_compared": {"elements in another order": ["w"]}},
        {"same": {"elements": 1}},
    ),
    "parts of one storage, all of it the same": (
        {"w": SHARED[:4], "v": SHARED[4:]},
        {"w": SHARED.clone()[:4], "v": SHARED.clone()[4:]},
        None,
        {"same": {"elements": 2}},
    ),
    "tied": ({"w": ONE, "v": ONE}, {"w": ONE, "v": ONE}, {"same": {"CRC-32": 2}}, {"same": {"elements": 2}}),
    "tied on one side": (
        {"w": ONE, "v": ONE},
        {"w": ONE, "v": ONE.clone()},
        {"same": {"CRC-32": 2}},
        {"same": {"elements": 2}},
    ),
    "renamed": ({"w": ONE}, {"v": ONE}, None, None),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_was_compared_is_stated(case: str) -> None:
    before, after, cheap, read = CASES[case]
    a, b = file_of(**before), file_of(**after)
    found = compared(a, b), compared(a, b, weights=True)
    for each, wanted in zip(found, (cheap, read), strict=True):
        assert wanted is None or each == {"weight": wanted}


def test_weights_that_share_memory_on_one_side_only_are_a_difference_of_that() -> None:
    found = graphwire.diff(file_of(w=ONE, v=ONE), file_of(w=ONE, v=ONE.clone()), weights=True)
    assert {detail.what for change in found.changes for detail in change.details} == {"memory"}


def test_a_part_of_a_record_that_differs_is_unknown_without_its_elements() -> None:
    other = SHARED.clone()
    other[7] = 0
    files = [file_of(w=each[:4], v=each[4:]) for each in (SHARED, other)]
    assert compared(*files) == {"weight": {"not_compared": {"only parts of records that differ": ["w", "v"]}}}
    found = compared(*files, weights=True)["weight"]
    assert (found["same"], list(found["differ"])) == ({"elements": 1}, ["v"])


def test_constants_are_stated_apart() -> None:
    assert compared(file_of({"c": ONE}, w=ONE), file_of({"c": ONE + 1}, w=ONE)) == {
        "weight": {"same": {"CRC-32": 1}},
        "constant": {"differ": {"c": {}}},
    }


def test_records_alone_and_programs_in_memory_have_no_checksums() -> None:
    program = torch.export.export(Held({"w": ONE}, {}), (torch.ones(1),))
    records, _ = graphwire.to_schema(program)
    assert compared(records, file_of(w=ONE)) == {
        "weight": {"not_compared": {"records have no elements": ["w"]}}
    }
    assert compared(program, file_of(w=ONE)) == {"weight": {"not_compared": {"no checksum in A": ["w"]}}}
    assert compared(program, file_of(w=ONE), weights=True) == {"weight": {"same": {"elements": 1}}}
    with pytest.raises(EncodeError, match="records alone have no weights"):
        graphwire.diff(records, records, weights=True)


TARGETS = ["torch-2.3", "torch-2.6", "torch-2.8", "torch"]


@pytest.mark.parametrize("target", TARGETS)
def test_checksums_are_known_in_every_layout(target: str) -> None:
    weights = {"w": ONE, "v": torch.arange(9)}
    program = torch.export.export(Held(weights, {}), (torch.ones(1),))
    found = graphwire.diff(file_of(**weights), graphwire.dumps(program, target=target))
    assert msgspec.to_builtins(found.compared) == {"weight": {"same": {"CRC-32": 2}}}
    assert found.same


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_files_of_every_age_are_the_same_as_themselves(path: Path) -> None:
    with graphwire.open(path) as archive:
        for name in archive.methods:
            found = graphwire.diff(archive, archive, method=name)
            assert found.same
            held = sum(sum(each.same.values()) for each in found.compared.values())
            assert held == len(archive.payloads_of(name))


def test_nothing_is_read_without_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    from inside.wire import reader

    def refuse(record: Any) -> memoryview:
        raise AssertionError("elements are read")

    files = file_of(w=ONE), file_of(w=ONE + 1)
    monkeypatch.setattr(reader.ArchiveRecord, "view", refuse)
    assert list(graphwire.diff(*files).compared["weight"].differ) == ["w"]
    with pytest.raises(graphwire.errors.GraphwireError):
        graphwire.diff(*files, weights=True)


def test_many_weights_are_summed_up_in_a_line() -> None:
    state: Callable[[float], dict[str, torch.Tensor]] = lambda value: {  # noqa: E731
        f"w{index}": torch.full((2,), value) for index in range(200)
    }
    found = graphwire.diff(file_of(**state(1.0)), file_of(**state(2.0)))
    assert str(found).splitlines()[2] == "Compared: graph; weights: 200 differ (w0, w1, w2 and 197 more)"
    assert len(repr(found)) < 300


@pytest.mark.parametrize("location", ["w.safetensors", "blobs"])
def test_weights_outside_are_compared_by_the_digests_in_the_file(tmp_path: Path, location: str) -> None:
    for name, value in (("a", ONE), ("b", ONE), ("c", ONE + 1)):
        place = (
            graphwire.Blobs(tmp_path / location) if location == "blobs" else tmp_path / f"{name}.{location}"
        )
        graphwire.save(
            torch.export.export(Held({"w": value}, {}), (torch.ones(1),)),
            tmp_path / f"{name}.pt2",
            weights=place,
        )
    assert compared(tmp_path / "a.pt2", tmp_path / "b.pt2") == {"weight": {"same": {"SHA-256": 1}}}
    assert compared(tmp_path / "a.pt2", tmp_path / "c.pt2") == {"weight": {"differ": {"w": {}}}}
