"""Weights and constants: what they share, how they lie in memory, where they are put, and that the file stays as it was."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from this_torch import written_for_this_torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.export import ExportedProgram, export
from torch.export.pt2_archive._package import load_pt2

import graphwire
from graphwire.testing import assert_same_program, assert_same_values


class Holder(nn.Module):
    """A module that holds given tensors, and reads all of them."""

    def __init__(self, **tensors: Any) -> None:
        super().__init__()
        for name, tensor in tensors.items():
            if isinstance(tensor, nn.Parameter):
                self.register_parameter(name, tensor)
            else:
                self.register_buffer(name, tensor)

    def forward(self, x: Tensor) -> Any:
        return [x, *(tensor.clone() for tensor in [*self.parameters(), *self.buffers()])]


def holding(**tensors: Any) -> ExportedProgram:
    return export(Holder(**tensors), (torch.ones(1),))


def through(program: ExportedProgram, **options: Any) -> ExportedProgram:
    return graphwire.loads(graphwire.dumps(program), **options)


def weight_records(data: bytes) -> dict[str, int]:
    """The records of weights in a file, with their sizes in bytes."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {
            info.filename.rpartition("/")[2]: info.file_size
            for info in archive.infolist()
            if "/data/weights/" in f"/{info.filename}" and not info.filename.endswith(".json")
        }


# ------------------------------------------------------------------------------------------------- what they share


def test_views_of_one_storage_are_written_once_and_share_again() -> None:
    base = torch.arange(12.0).view(3, 4)
    program = holding(whole=base, row=base[1], turned=base.t(), part=base[1:, ::2])
    data = graphwire.dumps(program)
    assert weight_records(data) == {"weight_0": 48}
    state = graphwire.loads(data).state_dict
    state["whole"][1, 2] = -1.0
    assert state["row"][2] == state["turned"][2, 1] == state["part"][0, 1] == -1.0


# Of torch 2.9, whose own way to read it is.
@pytest.mark.filterwarnings(
    "ignore:The given buffer is not writable", "ignore:This version of file is deprecated"
)
def test_a_constant_shares_the_storage_of_a_weight_in_our_reader_and_has_a_copy_for_others() -> None:
    module = nn.Module()
    module.weight = nn.Parameter(torch.arange(6.0))
    module.register_buffer("tail", module.weight.detach()[2:], persistent=False)
    module.forward = lambda x: x * module.weight + module.tail.sum()
    program = export(module, (torch.ones(6),), strict=False)
    data = graphwire.dumps(program)
    loaded = graphwire.loads(data)
    loaded.constants["tail"][0] = 7.0
    assert loaded.state_dict["weight"][2] == 7.0
    theirs = torch.export.load(io.BytesIO(written_for_this_torch(program)))
    assert_same_values(theirs.module()(torch.ones(6)), program.module()(torch.ones(6)))


def test_a_small_part_of_a_large_storage_is_written_alone() -> None:
    large = torch.arange(100_000.0)
    program = holding(first=large[40_000:40_010], second=large[40_008:40_020])
    data = graphwire.dumps(program)
    assert weight_records(data) == {"weight_0": 80}
    loaded = graphwire.loads(data)
    assert_same_values(loaded.state_dict["first"], large[40_000:40_010].clone())
    assert graphwire.dumps(loaded) == data
    loaded.state_dict["first"][9] = -1.0
    assert loaded.state_dict["second"][1] == -1.0


def test_parts_of_a_large_storage_may_be_of_several_element_types() -> None:
    large = torch.arange(100_000, dtype=torch.int32)
    program = holding(narrow=large[50_001:50_004], wide=large.view(torch.int64)[25_001:25_002])
    loaded = through(program)
    assert loaded.state_dict["narrow"].tolist() == [50_001, 50_002, 50_003]
    assert torch.equal(loaded.state_dict["wide"], program.state_dict["wide"])


# ---------------------------------------------------------------------------------------------- how they lie in memory

LAYOUTS: dict[str, Callable[[], Tensor]] = {
    "contiguous": lambda: torch.randn(2, 3),
    "transposed": lambda: torch.randn(2, 3).t(),
    "stepped": lambda: torch.randn(10)[1::3],
    "channels last": lambda: torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "expanded": lambda: torch.randn(1, 3).expand(5, 3),
    "overlapping": lambda: torch.randn(6).as_strided((4, 3), (1, 1)),
    "of an offset": lambda: torch.randn(9)[6:],
    "of one element": lambda: torch.tensor(3.5),
    "without elements": lambda: torch.empty(0, 4),
    "without elements, of odd strides": lambda: torch.empty_strided((2, 0, 3), (7, 5, 2)),
    "infinite and nan": lambda: torch.tensor([float("inf"), float("-inf"), float("nan"), -0.0]),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("copy", [False, True])
def test_a_tensor_lies_in_memory_as_it_did(layout: str, copy: bool, tmp_path: Path) -> None:
    tensor = LAYOUTS[layout]()
    program = holding(tensor=tensor, weight=nn.Parameter(tensor.clone(), requires_grad=False))
    graphwire.save(program, tmp_path / "tensor.pt2")
    assert_same_program(graphwire.load(tmp_path / "tensor.pt2", copy=copy), program)


_DTYPES = (
    "bool uint8 int8 int16 uint16 int32 uint32 int64 uint64 float16 bfloat16 float32 float64 complex32 complex64 "
    "complex128 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu"
).split()


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental:UserWarning")
@pytest.mark.parametrize("name", _DTYPES)
def test_every_element_type_is_kept_to_the_last_bit(name: str) -> None:
    dtype = getattr(torch, name)
    size = 16 * dtype.itemsize
    pattern = torch.arange(size, dtype=torch.int64).mul(37).to(torch.uint8)
    tensor = pattern.bitwise_and(1).view(torch.bool) if dtype is torch.bool else pattern.view(dtype)
    program = holding(tensor=tensor)
    loaded = through(program)
    assert loaded.state_dict["tensor"].dtype is dtype
    assert_same_program(loaded, program)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda z: z.conj(), id="conj"),
        pytest.param(lambda z: torch._neg_view(z), id="neg"),
        pytest.param(lambda z: torch._neg_view(z.conj()), id="both"),
        pytest.param(lambda z: z.conj().imag, id="imaginary part of a conj"),
    ],
)
def test_a_pending_conjugation_or_negation_stays_pending(make: Callable[[Tensor], Tensor]) -> None:
    z = torch.randn(3, dtype=torch.complex64)
    tensor = make(z)
    program = holding(base=z, tensor=tensor)
    data = graphwire.dumps(program)
    loaded = graphwire.loads(data)
    assert_same_program(loaded, program)
    assert len(weight_records(data)) == 1


# --------------------------------------------------------------------------------------------------- where they are put


def test_weights_on_the_meta_device_come_back_there() -> None:
    program = export(nn.Linear(3, 2, device="meta"), (torch.ones(1, 3, device="meta"),))
    data = graphwire.dumps(program)
    assert set(weight_records(data).values()) == {0}
    assert_same_program(graphwire.loads(data), program)


def test_fake_weights_come_back_fake() -> None:
    with FakeTensorMode():
        program = export(nn.Linear(3, 2), (torch.ones(1, 3),))
    data = graphwire.dumps(program)
    loaded = graphwire.loads(data)
    assert weight_records(data) == {}
    assert isinstance(loaded.state_dict["weight"], FakeTensor)
    assert isinstance(loaded.state_dict["weight"], nn.Parameter)
    assert loaded.state_dict["weight"].device == torch.device("cpu")


def test_without_weights_no_payload_is_read(tmp_path: Path) -> None:
    program = holding(weight=nn.Parameter(torch.randn(4, 5).t()), table=torch.arange(1000))
    path = tmp_path / "program.pt2"
    graphwire.save(program, path)
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if "data/weights/weight_" in info.filename:
                start = info.header_offset
                data[start : start + 30 + info.file_size] = b"\xff" * (30 + info.file_size)
    path.write_bytes(data)
    loaded = graphwire.load(path, weights=None)
    weight = loaded.state_dict["weight"]
    assert (weight.device.type, weight.shape, weight.stride()) == ("meta", (5, 4), (1, 5))
    assert isinstance(weight, nn.Parameter)
    assert loaded.graph_module.code == program.graph_module.code
    with pytest.raises(graphwire.errors.ArchiveError):
        graphwire.load(path)


class OnDevice(nn.Module):
    """A module whose graph names a device."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Any:
        return self.linear(x) + torch.ones(3, device=x.device) + torch.tensor([1.0, 2.0, 3.0])


@pytest.mark.parametrize("device", ["meta", torch.device("meta"), "cpu"])
def test_a_device_is_put_everywhere_at_load(device: Any) -> None:
    program = export(OnDevice(), (torch.ones(1, 3),))
    loaded = through(program, device=device)
    kind = torch.device(device).type
    devices = [tensor.device.type for tensor in [*loaded.state_dict.values(), *loaded.constants.values()]]
    devices += [node.meta["val"].device.type for node in loaded.graph.nodes if "val" in node.meta]
    devices += [node.kwargs["device"].type for node in loaded.graph.nodes if "device" in node.kwargs]
    assert set(devices) == {kind}
    output = loaded.module()(torch.ones(1, 3, device=device))
    assert output.device.type == kind


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(graphwire.errors.GraphwireError, match="nowhere"):
        through(holding(a=torch.ones(1)), device="nowhere")


# ------------------------------------------------------------------------------------------- several programs in a file


def test_programs_that_share_weights_share_them_in_the_file() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(64, 64)

    class Forwards(Model):
        def forward(self, x: Tensor) -> Tensor:
            return self.linear(x)

    class Backwards(Model):
        def forward(self, x: Tensor) -> Tensor:
            return x @ self.linear.weight.t() * 2

    forwards, backwards = Forwards(), Backwards()
    backwards.linear = forwards.linear
    x = torch.randn(2, 64)
    programs = {"forwards": export(forwards, (x,)), "backwards": export(backwards, (x,))}
    data = graphwire.dumps(programs, format="cbor")
    assert sorted(weight_records(data).values()) == [64 * 4, 64 * 64 * 4]
    with graphwire.open(data) as archive:
        assert archive.methods == ("forwards", "backwards")
    for name, program in programs.items():
        assert_same_program(graphwire.loads(data, method=name), program)
    with pytest.raises(graphwire.errors.ArchiveError, match="several programs: 'forwards', 'backwards'"):
        graphwire.loads(data)
    with pytest.raises(graphwire.errors.ArchiveError, match="no program 'sideways'"):
        graphwire.loads(data, method="sideways")


def test_programs_may_read_different_parts_of_one_storage() -> None:
    large = torch.arange(100_000.0)
    programs = {"first": holding(part=large[20:50]), "second": holding(part=large[10_000:10_100])}
    data = graphwire.dumps(programs)
    assert list(weight_records(data).values()) == [(10_100 - 16) * 4]
    for name, program in programs.items():
        assert torch.equal(graphwire.loads(data, method=name).state_dict["part"], program.state_dict["part"])


@pytest.mark.parametrize(
    "names", [("a/b",), ("a", "a/b", "a/b/c"), ("a.json", "a"), ("v1.0/x", "é ü", "."), ("x/data/weights/y",)]
)
@pytest.mark.parametrize("format", ["json", "cbor"])
def test_a_program_may_have_any_name(names: tuple[str, ...], format: str, tmp_path: Path) -> None:
    """Names with slashes are files in folders of the archive, and read from there, as torch reads them."""
    programs = {name: export(torch.nn.Linear(2, 2), (torch.ones(1, 2),)) for name in names}
    path = tmp_path / "several.pt2"
    graphwire.save(programs, path, format=format)
    assert graphwire.verify(path) == []
    read = {name: graphwire.load(path, method=name) for name in names}
    if format == "json":
        read_by_torch = load_pt2(path).exported_programs
        assert list(read_by_torch) == list(names)
        read = {**read, **{f"{name} by torch": each for name, each in read_by_torch.items()}}
    with graphwire.open(path) as archive:
        assert archive.methods == names
    for name, each in read.items():
        assert_same_values(each.state_dict, programs[name.removesuffix(" by torch")].state_dict)


# ----------------------------------------------------------------------------------------------- the file stays as it is


def test_writing_to_a_mapped_weight_never_reaches_the_file(tmp_path: Path) -> None:
    path = tmp_path / "program.pt2"
    graphwire.save(holding(table=torch.zeros(5000)), path)
    before = path.read_bytes()
    loaded = graphwire.load(path)
    loaded.state_dict["table"].fill_(1.0)
    assert path.read_bytes() == before
    assert torch.equal(graphwire.load(path).state_dict["table"], torch.zeros(5000))


def test_a_buffer_that_the_program_changes_is_changed_in_memory_alone(tmp_path: Path) -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x: Tensor) -> Tensor:
            self.count.add_(1)
            return x + self.count

    path = tmp_path / "counter.pt2"
    graphwire.save(export(Counter(), (torch.zeros(1),)), path)
    before = path.read_bytes()
    module = graphwire.load(path).module()
    assert [module(torch.zeros(1)).item() for _ in range(3)] == [1.0, 2.0, 3.0]
    assert path.read_bytes() == before


def test_a_mapped_program_outlives_the_file_that_it_came_from(tmp_path: Path) -> None:
    path = tmp_path / "program.pt2"
    first, second = (holding(table=torch.full((5000,), value)) for value in (1.0, 2.0))
    graphwire.save(first, path)
    loaded = graphwire.load(path)
    graphwire.save(second, path)
    assert_same_program(loaded, first)
    path.unlink()
    assert_same_program(loaded, first)


def test_a_program_can_be_saved_over_the_file_that_it_is_mapped_from(tmp_path: Path) -> None:
    path = tmp_path / "program.pt2"
    program = holding(table=torch.randn(5000))
    graphwire.save(program, path)
    before = path.read_bytes()
    graphwire.save(graphwire.load(path), path)
    assert path.read_bytes() == before
    assert_same_program(graphwire.load(path), program)


def test_digests_of_large_records_are_listed_and_those_of_small_ones_are_shared() -> None:
    data = graphwire.dumps(holding(large=torch.rand(1 << 20, 2), small=torch.rand(2)))
    with graphwire.open(data) as archive:
        large, small = sorted((each for each in archive.names if "weight_" in each), key=archive.record_size)[
            ::-1
        ]
        assert archive.listed_digest(large) == archive.record_digests()[large]
        assert archive.listed_digest(small) is None
        assert archive.listed_digest("data/weights/nothing") is None
