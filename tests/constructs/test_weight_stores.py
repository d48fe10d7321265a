"""Every program has the same weights wherever they are: in its file, in each store, or given by the caller.

Every program is tried by `make test-gate`; by day each tenth is, and one that has weights of every kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from construct import quiet
from families import CONSTRUCTS
from family_tensors import _DTYPES, _LAYOUTS, _QUANTIZED
from gate_programs import CASES
from nightly import by_day, one_in
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram

import graphwire

ALL: dict[str, Callable[[], Any]] = {
    **CASES,
    **{name: each.program for name, each in CONSTRUCTS.items() if each.refusal is None},
}
"""What makes each program, by name; also of those that cannot be called here."""
TRIED = by_day(list(ALL)[::10], by_night=list(ALL))
GOLDEN = Path(__file__).parents[1] / "golden" / "archives"


def facts(value: Any) -> tuple[Any, ...]:
    """What a weight is, without its elements: the hash covers those, and memory that weights share."""
    if not isinstance(value, torch.Tensor):
        return (type(value),)
    plain = value.layout is torch.strided and not value.is_meta and type(value).__module__.startswith("torch")
    moves = (value.stride(), value.storage_offset()) if plain and not value.is_quantized else ()
    shape = None if value.is_nested else value.shape  # whose symbols are new in each load
    return (type(value), value.dtype, shape, value.requires_grad, value.device, *moves)


def ties(program: ExportedProgram) -> dict[str, str]:
    first: dict[int, str] = {}
    return {name: first.setdefault(id(value), name) for name, value in program.state_dict.items()}


def assert_same_weights(one: ExportedProgram, other: ExportedProgram, how: str) -> None:
    assert list(one.state_dict) == list(other.state_dict), how
    for values, others in ((one.state_dict, other.state_dict), (one.constants, other.constants)):
        for name, value in values.items():
            assert facts(value) == facts(others[name]), (how, name)
    assert ties(one) == ties(other), how
    assert graphwire.content_hash(one, weights=True) == graphwire.content_hash(other, weights=True), how


def stores(folder: Path) -> dict[str, Any]:
    """Where weights may be, by name. The checkpoint is what the first one wrote."""
    return {
        "safetensors": folder / "w.safetensors",
        "blobs": graphwire.Blobs(folder / "blobs"),
        "checkpoint": graphwire.Checkpoint(folder / "w.safetensors", rest="file"),
    }


def assert_stores_keep(program: ExportedProgram, folder: Path) -> None:
    """Save a loaded program with its weights in each place, and compare what is found there."""
    for how, weights in stores(folder).items():
        if how == "checkpoint" and not (folder / "w.safetensors").exists():
            continue  # safetensors holds none of its weights
        graphwire.save(program, folder / f"{how}.pt2", weights=weights)
        assert graphwire.verify(folder / f"{how}.pt2") == []
        for copy in (False, True):
            assert_same_weights(graphwire.load(folder / f"{how}.pt2", copy=copy), program, how)
        graphwire.convert(folder / f"{how}.pt2", folder / "back.pt2", weights=graphwire.IN_FILE)
        assert_same_weights(graphwire.load(folder / "back.pt2"), program, how)
        assert graphwire.content_hash(folder / f"{how}.pt2") == graphwire.content_hash(program)
    for name, value in [*program.state_dict.items()]:
        if value.is_quantized or value.is_nested:  # cannot be without elements; or has sizes of its own
            del program.state_dict[name]
    graphwire.save(program, folder / "bare.pt2", weights=None)
    if not any(value.is_meta or isinstance(value, FakeTensor) for value in program.state_dict.values()):
        given = graphwire.load(folder / "bare.pt2", weights=program.state_dict)
        assert_same_weights(given, program, "given")


@pytest.mark.parametrize("name", one_in(2, TRIED))
def test_a_program_has_the_same_weights_from_each_store(name: str, tmp_path: Path) -> None:
    with quiet():
        try:
            made = ALL[name]()
        except Exception as error:
            pytest.skip(f"torch does not export it: {error}")
        program = getattr(made, "program", made)
        if program is None or not program.state_dict:
            pytest.skip("it has no weights")
        try:
            graphwire.save(program, tmp_path / "in.pt2")
            loaded = graphwire.load(tmp_path / "in.pt2")
        except graphwire.errors.GraphwireError as error:
            pytest.skip(f"it is not saved: {error}")
        assert_stores_keep(loaded, tmp_path)


def every_kind() -> Iterator[tuple[str, torch.Tensor]]:
    """Weights of every element type and layout, ties, and views that overlap."""
    for dtype in _DTYPES:
        if dtype not in _QUANTIZED:
            elements = torch.arange(32, dtype=torch.uint8)
            yield str(dtype), elements > 7 if dtype is torch.bool else elements.view(dtype)
    for name, make in _LAYOUTS.items():
        yield name, make()
    floats = torch.arange(-8.0, 8.0).reshape(4, 4)
    for dtype in (torch.quint8, torch.qint8, torch.qint32):
        yield str(dtype), torch.quantize_per_tensor(floats, 0.5, 3, dtype)
    scales, zeros = torch.tensor([0.5, 0.25, 1.0, 2.0]), torch.zeros(4, dtype=torch.long)
    yield "quantized by channel", torch.quantize_per_channel(floats, scales, zeros, 0, torch.qint8)
    yield "jagged", torch.nested.nested_tensor([floats, floats[:2]], layout=torch.jagged)
    yield "a sparse parameter", torch.nn.Parameter(floats.to_sparse())
    yield "conjugate", torch.tensor([1 + 2j, 3 - 4j]).conj()
    parameter = torch.nn.Parameter(floats.t())
    yield "a parameter", parameter
    yield "a parameter again", parameter
    yield "its rows", parameter.detach()[1:3]
    yield "its rows that overlap", parameter.detach()[2:]
    yield "its bytes", floats.view(torch.uint8)


def test_weights_of_every_kind_are_the_same_from_each_store(tmp_path: Path) -> None:
    program = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
    with quiet():
        program.state_dict.update(every_kind())
        graphwire.save(program, tmp_path / "in.pt2")
        loaded = graphwire.load(tmp_path / "in.pt2")
        assert len(loaded.state_dict) > 60
        assert_same_weights(loaded, program, "in its file")
        assert_stores_keep(loaded, tmp_path)
    outside = {each.name for each in graphwire.weights(tmp_path / "safetensors.pt2") if each.place != "file"}
    assert {"weight", "bias", "torch.float8_e5m2", "torch.complex64", "a scalar"} <= outside
    assert outside.isdisjoint({"torch.complex32", "torch.int4", "its rows", "expanded"})
    blobs = {each.name for each in graphwire.weights(tmp_path / "blobs.pt2") if each.place != "file"}
    assert {"torch.complex32", "torch.int4", "its rows", "expanded"} <= blobs


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.iterdir()))
def test_golden_archives_keep_their_weights_in_each_store(name: str, tmp_path: Path) -> None:
    with graphwire.open(GOLDEN / name) as archive:
        methods = archive.methods
    hashes = [graphwire.content_hash(GOLDEN / name, method=each, weights=True) for each in methods]
    for how, weights in stores(tmp_path).items():
        graphwire.convert(GOLDEN / name, tmp_path / f"{how}.pt2", weights=weights)
        graphwire.convert(tmp_path / f"{how}.pt2", tmp_path / "back.pt2", weights=graphwire.IN_FILE)
        for file in (tmp_path / f"{how}.pt2", tmp_path / "back.pt2"):
            assert graphwire.verify(file) == graphwire.verify(GOLDEN / name)
            assert [graphwire.content_hash(file, method=each, weights=True) for each in methods] == hashes
