"""`torch.save` files: read like torch reads them, and written so that torch reads them."""

from __future__ import annotations

import io
import warnings
import zipfile
from typing import Any

import pytest
import torch
from inside.wire import ArchiveReader, ArchiveWriter, StateDict, pack_state_dict, read_state_dict
from msgspec import structs

from graphwire import Payloads, PickleLimits
from graphwire.errors import (
    ArchiveError,
    DecodeError,
    EncodeError,
    GraphwireError,
    LimitError,
    MissingRecordError,
)
from graphwire.hooks import Limits
from graphwire.schema import DTYPE_NAMES, EncodedValue

FOLDER, STEM = "data/weights/", "weight_"

VALUES = torch.tensor([0.0, 1.0, 0.0, 2.0, 1.0, 3.0])
WORDS = VALUES.to(torch.uint16)


def saved(value: Any) -> bytes:
    stream = io.BytesIO()
    torch.save(value, stream)
    return stream.getvalue()


def read(data: bytes) -> StateDict:
    return read_state_dict(ArchiveReader(data), FOLDER, STEM)


def tensor_of(state: StateDict, name: str) -> torch.Tensor:
    """The tensor that a payload describes, made of its record by torch."""
    meta = state.metas[name]
    described = meta.tensor_meta
    assert described is not None
    dtype = getattr(torch, described.dtype_text)
    sizes, strides = ([n.as_int for n in values] for values in (described.sizes, described.strides))
    if meta.placement == "meta":
        return torch.empty_strided(sizes, strides, dtype=dtype, device="meta")
    record = state.records[FOLDER + meta.path_name]
    whole = (
        torch.frombuffer(record.view(), dtype=torch.uint8)
        if record.nbytes
        else torch.empty(0, dtype=torch.uint8)
    )
    tensor = torch.empty(0, dtype=dtype)
    tensor.set_(whole.untyped_storage(), described.storage_offset.as_int, sizes, strides)
    tensor = tensor.conj() if meta.conj else tensor
    tensor = torch._neg_view(tensor) if meta.neg else tensor
    if meta.is_param:
        return torch.nn.Parameter(tensor, requires_grad=described.requires_grad)
    return tensor.requires_grad_(described.requires_grad)


def written(state: StateDict) -> bytes:
    return b"".join(pack_state_dict(state.metas, state.records, FOLDER, state.encoded).chunks())


def assert_same(left: torch.Tensor, right: torch.Tensor) -> None:
    facts = ("dtype", "shape", "device", "requires_grad", "layout")
    assert [getattr(left, fact) for fact in facts] == [getattr(right, fact) for fact in facts]
    assert type(left) is type(right)
    if left.layout is not torch.strided:
        assert torch.equal(left.to_dense(), right.to_dense())
        return
    assert (left.stride(), left.storage_offset()) == (right.stride(), right.storage_offset())
    assert (left.is_conj(), left.is_neg()) == (right.is_conj(), right.is_neg())
    if left.device.type != "meta":
        assert left.untyped_storage().tolist() == right.untyped_storage().tolist()


def tied() -> dict[str, torch.Tensor]:
    shared = torch.nn.Parameter(torch.randn(3, 2))
    return {
        "a": shared,
        "b": torch.ones(1),
        "c": shared,
        "frozen": torch.nn.Parameter(shared.detach(), False),
    }


def overlapping() -> dict[str, torch.Tensor]:
    base = torch.arange(24.0)
    return {
        "whole": base,
        "part": base[3:9].view(2, 3),
        "strided": base.view(4, 6).t()[1:3],
        "scalar": base[7],
    }


STATES = {
    "nothing": {},
    **{name: {"x": VALUES.to(getattr(torch, name))} for name in DTYPE_NAMES.values() if name != "complex32"},
    "complex32": {"x": torch.view_as_complex(torch.arange(8.0, dtype=torch.float16).view(4, 2))},
    "parameters": {
        "a": torch.nn.Parameter(torch.randn(2, 3)),
        "b": torch.nn.Parameter(torch.ones(2), requires_grad=False),
    },
    "tied": tied(),
    "overlapping": overlapping(),
    "empty": {"none": torch.empty(0), "column": torch.empty(3, 0, 2), "scalar": torch.tensor(5)},
    "expanded": {"x": torch.ones(1).expand(3, 4)},
    "conjugated": {
        "x": torch.ones(2, dtype=torch.complex64).conj(),
        "y": torch.ones(2, dtype=torch.complex64).conj().imag,
    },
    "requires grad": {"x": torch.ones(2, requires_grad=True)},
    "meta": {"x": torch.empty(2, 3, device="meta")},
    "channels last": {"x": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)},
    "many": {f"layer.{index}.weight": torch.full((2,), index) for index in range(300)},
    "large numbers": {"x": torch.empty(70_000, dtype=torch.uint8)},
    "two types in one storage": {"x": WORDS, "y": WORDS.view(torch.float8_e5m2)},
}


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("name", STATES)
def test_a_state_dict_is_read_as_torch_reads_it(name: str) -> None:
    data = saved(STATES[name])
    state = read(data)
    expected = torch.load(io.BytesIO(data), weights_only=True)
    assert list(state.metas) == list(expected)
    for key, tensor in expected.items():
        assert_same(tensor_of(state, key), tensor)


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("name", STATES)
def test_torch_reads_what_is_written_and_it_is_the_same(name: str) -> None:
    state = read(saved(STATES[name]))
    loaded = torch.load(io.BytesIO(written(state)), weights_only=True)
    assert list(loaded) == list(STATES[name])
    for key, tensor in loaded.items():
        assert_same(tensor_of(state, key), tensor)


@pytest.mark.parametrize("name", STATES)
def test_what_is_written_is_read_again_and_written_the_same(name: str) -> None:
    state = read(saved(STATES[name]))
    first = written(state)
    assert first == written(state)
    again = read(first)
    assert again.metas == state.metas
    assert {n: bytes(r.view()) for n, r in again.records.items()} == {
        n: bytes(r.view()) for n, r in state.records.items()
    }
    assert written(again) == first


def test_names_of_one_parameter_are_one_parameter() -> None:
    state = read(saved(STATES["tied"]))
    assert [state.metas[name].same_as for name in "abc"] == [None, None, "a"]
    assert state.metas["frozen"].same_as is None
    assert len(state.records) == 2
    loaded = torch.load(io.BytesIO(written(state)), weights_only=True)
    assert loaded["a"] is loaded["c"]
    assert loaded["frozen"] is not loaded["a"]
    assert loaded["frozen"].data_ptr() == loaded["a"].data_ptr()


def test_parameters_in_one_place_are_one_parameter_where_no_writer_noted_it() -> None:
    state = read(saved(STATES["tied"]))
    state.metas["c"].same_as = None
    loaded = torch.load(io.BytesIO(written(state)), weights_only=True)
    assert loaded["a"] is loaded["c"]


def test_tensors_of_one_storage_share_one_record() -> None:
    state = read(saved(STATES["overlapping"]))
    assert len(state.records) == 1
    loaded = torch.load(io.BytesIO(written(state)), weights_only=True)
    loaded["whole"][7] = 99
    assert loaded["scalar"] == 99


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_protocol_that_torch_can_write_is_read(protocol: int) -> None:
    stream = io.BytesIO()
    torch.save(STATES["tied"], stream, pickle_protocol=protocol)
    assert list(read(stream.getvalue()).metas) == ["a", "b", "c", "frozen"]


def test_a_tensor_with_attributes_of_its_own_is_read_without_them() -> None:
    tensor = torch.ones(2)
    tensor.tag = {1, 2}  # type: ignore[attr-defined]
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.note = "x"  # type: ignore[attr-defined]
    state = read(saved({"t": tensor, "p": parameter}))
    assert_same(tensor_of(state, "t"), torch.ones(2))
    assert_same(tensor_of(state, "p"), torch.nn.Parameter(torch.ones(2)))


def test_the_state_dict_of_a_module_is_read_without_its_versions() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    state = read(saved(module.state_dict()))
    assert list(state.metas) == list(module.state_dict())


# ------------------------------------------------------------------------------------------------------ sparse


def sparse(layout: torch.layout) -> torch.Tensor:
    return torch.eye(4).to_sparse(layout=layout, blocksize=(2, 2) if "bs" in str(layout) else None)


SPARSE = [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc]


@pytest.mark.filterwarnings("ignore:Sparse .* tensor support is in beta state")
@pytest.mark.filterwarnings("ignore:Validating sparse tensor invariants")
@pytest.mark.parametrize("layout", SPARSE, ids=str)
def test_sparse_tensors_are_values_of_a_codec_and_written_back(layout: torch.layout) -> None:
    state = read(saved({"a": torch.ones(1), "s": sparse(layout)}))
    value = state.encoded["s"]
    assert value.codec == "sparse"
    assert value.tree["layout"] == str(layout).removeprefix("torch.")
    assert set(value.tensors) == state.metas.keys() - {"a"}
    loaded = torch.load(io.BytesIO(written(state)), weights_only=True)
    assert_same(loaded["s"], sparse(layout))
    assert_same(loaded["a"], torch.ones(1))


@pytest.mark.parametrize(
    "change",
    [
        None,
        [],
        {"layout": "sparse_csr"},
        {"layout": "strided"},
        {"layout": 3},
        {"sizes": None},
        {"sizes": [2, -1]},
        {"sizes": [True, 2]},
        {"sizes": [1 << 70, 2]},
        {"sizes": [1] * 100},
        {"coalesced": "yes"},
        {"parameter": None},
        {"requires_grad": 1},
    ],
    ids=repr,
)
def test_a_tree_that_describes_no_sparse_tensor_is_refused(change: Any) -> None:
    state = read(saved({"s": sparse(torch.sparse_coo)}))
    value = state.encoded["s"]
    tree = {**value.tree, **change} if isinstance(change, dict) else change
    wrong = {"s": structs.replace(value, tree=tree)}
    with pytest.raises(EncodeError, match="do not describe a sparse tensor") as caught:
        pack_state_dict(state.metas, state.records, "", wrong)
    assert caught.value.place == "s"


# -------------------------------------------------------------------------------------------------- byte order


def as_big_endian(data: bytes, widths: dict[str, int]) -> bytes:
    """A torch.save file as a big-endian machine writes it: the numbers of each storage turned around."""
    stream = io.BytesIO()
    reader = ArchiveReader(data)
    with ArchiveWriter(stream, root="archive", records={}) as archive:
        for name in reader.names:
            content = reader.read(name)
            if name == "byteorder":
                content = b"big"
            if name in widths:
                width = widths[name]
                numbers = [content[at : at + width][::-1] for at in range(0, len(content), width)]
                content = b"".join(numbers)
            archive.write(name, content, compress=False)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("dtype", "width"),
    [
        ("float32", 4),
        ("float64", 8),
        ("int16", 2),
        ("uint8", 1),
        ("complex64", 4),
        ("complex128", 8),
        ("uint16", 2),
    ],
)
def test_a_big_endian_file_is_read(dtype: str, width: int) -> None:
    tensor = VALUES.to(getattr(torch, dtype))
    data = as_big_endian(saved({"x": tensor}), {"data/0": width})
    assert_same(tensor_of(read(data), "x"), tensor)
    if dtype != "uint16":  # torch itself does not turn around what it writes as bytes
        assert_same(torch.load(io.BytesIO(data), weights_only=True)["x"], tensor)


def test_a_big_endian_storage_of_two_types_is_refused() -> None:
    data = as_big_endian(saved(STATES["two types in one storage"]), {"data/0": 2})
    with pytest.raises(DecodeError, match=r"y: the storage '0' is used as two types"):
        read(data)


# ------------------------------------------------------------------------------------------------------ memory


def test_storages_in_a_nested_archive_are_mapped_where_they_are_aligned(tmp_path: Any) -> None:
    inner = saved({"x": torch.arange(1000.0)})
    path = tmp_path / "outer.zip"
    with path.open("wb") as stream, ArchiveWriter(stream, root="", records={}) as archive:
        archive.write("state.pt", inner, compress=False)
    with ArchiveReader(path) as outer:
        state = read_state_dict(outer.nested("state.pt"), FOLDER, STEM)
        (record,) = state.records.values()
        first, second = record.view(), record.view()
        first[0] = 77
        assert second[0] == 77  # one mapping, not two copies
    assert path.read_bytes().count(inner) == 1


def test_storages_that_are_not_aligned_are_copied(tmp_path: Any) -> None:
    inner = saved({"x": torch.arange(1000.0)})
    path = tmp_path / "outer.zip"
    for shift in range(1, 4):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a" * shift, b"")
            archive.writestr("state.pt", inner)
        with ArchiveReader(path) as outer:
            state = read_state_dict(outer.nested("state.pt"), FOLDER, STEM)
            (record,) = state.records.values()
            tensor = torch.frombuffer(record.view(), dtype=torch.float32)
            assert tensor.data_ptr() % 16 == 0
            assert torch.equal(tensor, torch.arange(1000.0))


# ----------------------------------------------------------------------------------------------------- refused


class Odd:
    """A class that no reader knows."""


def test_values_of_other_classes_are_named_and_the_rest_is_read() -> None:
    state = read(saved({"x": torch.ones(2), "odd": Odd(), "nested": [1], "none": None}))
    assert list(state.metas) == ["x"]
    assert "Odd" in state.unread["odd"]
    assert state.unread["nested"] == "a pickled list, not a tensor"
    assert state.unread["none"] == "a pickled NoneType, not a tensor"


def test_a_tensor_subclass_is_not_taken_for_a_tensor() -> None:
    state = read(saved({"x": torch.ones(2).as_subclass(_Subclass), "q": _quantized()}))
    assert not state.metas
    assert "_Subclass" in state.unread["x"]
    assert "_rebuild_qtensor" in state.unread["q"]


class _Subclass(torch.Tensor):
    pass


def _quantized() -> torch.Tensor:
    with warnings.catch_warnings(action="ignore"):
        return torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)


def changed(data: bytes, changes: dict[str, bytes | None]) -> bytes:
    """A torch.save file with other bytes in some records, or without them."""
    stream = io.BytesIO()
    reader = ArchiveReader(data)
    with ArchiveWriter(stream, root="archive", records={}) as archive:
        for name in reader.names:
            content = changes.get(name, reader.read(name))
            if content is not None:
                archive.write(name, content, compress=False)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"data.pkl": None}, MissingRecordError, "no record 'data.pkl'"),
        ({"data/0": None}, MissingRecordError, "no record 'data/0'"),
        ({"data/0": b"1234"}, ArchiveError, "the storage has 4 bytes, but the pickle states 8"),
        ({"data/0": b"123456789"}, ArchiveError, "the storage has 9 bytes"),
        ({"byteorder": b"middle"}, ArchiveError, "the byte order is b'middle'"),
        ({"data.pkl": b""}, DecodeError, "not a pickle of protocol 2 to 5"),
        ({"data.pkl": b"\x80\x02."}, DecodeError, "does not end with one value"),
        ({"data.pkl": b"\x80\x02]."}, DecodeError, "a state dict is expected, not a list"),
        ({"data.pkl": b"\x80\x02}K\x01K\x02s."}, DecodeError, "a state dict is expected"),
    ],
)
def test_a_damaged_file_is_refused(
    changes: dict[str, bytes | None], error: type[GraphwireError], words: str
) -> None:
    data = changed(saved({"x": torch.ones(2)}), changes)
    with pytest.raises(error, match=words):
        read(data)


def test_one_storage_with_two_types_of_storages_is_refused() -> None:
    data = saved({"x": torch.ones(2), "y": torch.ones(2, dtype=torch.int32)})
    pickle = ArchiveReader(data).read("data.pkl").replace(b"X\x01\x00\x00\x001", b"X\x01\x00\x00\x000")
    with pytest.raises(DecodeError, match="two types of elements"):
        read(changed(data, {"data.pkl": pickle}))


def test_a_tensor_that_reaches_beyond_its_storage_is_a_problem_of_the_payloads() -> None:
    data = saved({"x": torch.ones(2)})
    pickle = ArchiveReader(data).read("data.pkl").replace(b"K\x00K\x02\x85", b"K\x01K\x02\x85")
    state = read(changed(data, {"data.pkl": pickle}))
    (problem,) = Payloads(state.metas, records=state.records).problems()
    assert (problem.place, problem.kind) == ("data/weights/x", "extent")


def test_what_old_torch_has_no_form_for_is_refused_by_name() -> None:
    state = read(saved({"x": torch.ones(2)}))
    with pytest.raises(EncodeError, match=r"s: old torch has no form for what the codec 'other' wrote"):
        pack_state_dict(state.metas, state.records, FOLDER, {"s": EncodedValue("other", {}, ["x"])})
    state.metas["x"].placement = "fake"
    with pytest.raises(EncodeError, match=r"x: it has no elements \(fake\)"):
        pack_state_dict(state.metas, state.records, FOLDER)


def test_a_caller_raises_and_lowers_the_limits_of_pickles_with_those_of_the_archive() -> None:
    data = saved({"x": torch.ones(2)})
    small = Limits(pickle=PickleLimits(steps=3))
    with pytest.raises(LimitError, match=r"more than 3 steps\. Raise Limits\.pickle"):
        read_state_dict(ArchiveReader(data, limits=small), FOLDER, STEM)
    tiny = Limits(pickle=PickleLimits(nbytes=10))
    with pytest.raises(LimitError, match=r"bytes, more than 10\. Raise Limits\.pickle"):
        read_state_dict(ArchiveReader(data, limits=tiny), FOLDER, STEM)
    large = Limits(pickle=PickleLimits(steps=1 << 40))
    assert list(read_state_dict(ArchiveReader(data, limits=large), FOLDER, STEM).metas) == ["x"]
