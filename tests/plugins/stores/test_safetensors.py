"""The store `safetensors` writes what the library writes, reads what it reads, and refuses what is damaged."""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import safetensors
import torch
from hypothesis import HealthCheck, given, settings, strategies as st
from inside.wire import Folder, NewFile
from safetensors.torch import load_file, save_file

from graphwire.errors import ArchiveError, EncodeError, MissingRecordError
from graphwire.hooks import NewTensor, StoreIndex
from graphwire_plugins.safetensors import SafetensorsStore
from graphwire_plugins.safetensors_header import _TYPES

STORE = SafetensorsStore()
SMALL = SafetensorsStore(shard_bytes=100)
KEPT = [dtype for dtype, _ in _TYPES.values()]
ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}

_files = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def new(tensor: torch.Tensor) -> NewTensor:
    elements = tensor.reshape(-1).view(torch.uint8).numpy() if tensor.numel() else bytearray()
    dtype = str(tensor.dtype).removeprefix("torch.")
    return NewTensor(dtype, tuple(tensor.shape), tensor.nbytes, lambda: memoryview(elements))


def news(tensors: Mapping[str, torch.Tensor]) -> dict[str, NewTensor]:
    return {name: new(tensor) for name, tensor in tensors.items()}


def some(count: int = 3, start: float = 0.0) -> dict[str, torch.Tensor]:
    return {f"layer.{index}.weight": torch.arange(start, start + 6.0).reshape(2, 3) for index in range(count)}


def file_of(header: Any, elements: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + elements


def opened(path: Path, content: bytes) -> StoreIndex:
    (path / "model.safetensors").write_bytes(content)
    return STORE.open(Folder(path), "model.safetensors")


def loaded(path: Path, location: str) -> dict[str, torch.Tensor]:
    """The tensors of a store, as the library reads the files."""
    if not location.endswith(".json"):
        return load_file(path / location)
    shards = json.loads((path / location).read_text())["weight_map"]
    return {name: load_file(path / shard)[name] for name, shard in shards.items()}


def names_in(path: Path) -> set[str]:
    return {each.name for each in path.iterdir()}


# ------------------------------------------------------------------------------------------------------- as the library


@st.composite
def tensor_dicts(draw: st.DrawFn) -> dict[str, torch.Tensor]:
    texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8).filter(
        lambda name: name != "__metadata__"
    )
    tensors = {}
    for name in draw(st.lists(texts, max_size=6, unique=True)):
        dtype = getattr(torch, draw(st.sampled_from(KEPT)))
        shape = draw(st.lists(st.integers(0, 3), min_size=dtype == torch.float4_e2m1fn_x2, max_size=3))
        content = torch.randint(0, 2, (*shape, dtype.itemsize), dtype=torch.uint8)
        tensors[name] = content.view(dtype).reshape(shape)
    return tensors


@_files
@given(tensors=tensor_dicts())
def test_a_file_is_byte_for_byte_what_the_library_writes(
    tensors: dict[str, torch.Tensor], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("files")
    save_file(tensors, path / "library.safetensors")
    location, names = STORE.write(Folder(path), "model.safetensors", news(tensors))
    assert (location, names) == ("model.safetensors", {name: name for name in tensors})
    assert (path / location).read_bytes() == (path / "library.safetensors").read_bytes()


def test_every_type_of_the_library_is_there() -> None:
    with pytest.raises(safetensors.SafetensorError) as caught:
        safetensors.deserialize(file_of({"a": {**ENTRY, "dtype": "none"}}))
    named = re.findall(r"`([A-Z0-9_]+)`", str(caught.value).partition("expected one of")[2])
    assert set(named) == {*_TYPES, "F6_E2M3", "F6_E3M2"}


@_files
@given(
    dtype=st.sampled_from(["F32", "I8", "BOOL", "F4", "U16", "F6_E2M3", "C64", "X"]),
    shape=st.lists(st.integers(-1, 3) | st.sampled_from([2.0, None, "1", True, 1 << 62]), max_size=3),
    offsets=st.lists(st.integers(-1, 12), min_size=1, max_size=3),
    size=st.integers(0, 12),
    text=st.sampled_from([b"%s", b"%s  ", b" %s", b"%s\n", b"%s\0", b"[%s]", b"%s,", b"\xff%s"]),
)
def test_what_is_read_is_what_the_library_reads(
    dtype: str,
    shape: list[Any],
    offsets: list[int],
    size: int,
    text: bytes,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    header = {"a": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}
    content = file_of(text.replace(b"%s", json.dumps(header).encode()), bytes(range(size)))
    path = tmp_path_factory.mktemp("files")
    try:
        stored = opened(path, content).tensors["a"]
    except ArchiveError:
        return
    (theirs,) = safetensors.deserialize(content)
    (chunk,) = stored.chunks
    elements = bytes(theirs[1]["data"])
    assert content[chunk.offset :] == elements
    tensor = load_file(path / "model.safetensors")["a"]
    assert (stored.dtype, stored.shape) == (str(tensor.dtype)[6:], tuple(tensor.shape))


@pytest.mark.parametrize("metadata", [None, {}, {"format": "pt", "é": ""}])
def test_a_file_of_the_library_is_read(metadata: dict[str, str] | None, tmp_path: Path) -> None:
    tensors = {"a": torch.arange(3.0), "b.c": torch.zeros(2, 0), "d": torch.tensor(True)}
    save_file(tensors, tmp_path / "model.safetensors", metadata=metadata)
    content = (tmp_path / "model.safetensors").read_bytes()
    index = STORE.open(Folder(tmp_path), "model.safetensors")
    assert {name: (each.dtype, each.shape) for name, each in index.tensors.items()} == {
        "a": ("float32", (3,)),
        "b.c": ("float32", (2, 0)),
        "d": ("bool", ()),
    }
    (chunk,) = index.tensors["a"].chunks
    assert content[chunk.offset : chunk.offset + 12] == tensors["a"].numpy().tobytes()
    header = content[: 8 + int.from_bytes(content[:8], "little")]
    (facts,) = index.files.values()
    assert (facts.nbytes, facts.index_sha256) == (len(content), hashlib.sha256(header).hexdigest())


def test_a_misaligned_tensor_is_accepted(tmp_path: Path) -> None:
    odd = file_of(json.dumps({"a": ENTRY}).encode() + b" ", bytes(8))
    (chunk,) = opened(tmp_path, odd).tensors["a"].chunks
    assert chunk.offset == len(odd) - 8
    assert opened(
        tmp_path,
        file_of(
            {
                "b": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
                "a": {**ENTRY, "data_offsets": [1, 9]},
            },
            bytes(9),
        ),
    ).tensors


# ----------------------------------------------------------------------------------------------------------- damaged files

DAMAGED: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "fewer than the 8"),
    "seven bytes": (bytes(7), "fewer than the 8"),
    "no header": (bytes(8), "valid JSON"),
    "header beyond the end": (file_of({}, length=3), "3 bytes by its first eight bytes, and 2 follow"),
    "huge header": (file_of({}, length=1 << 63), "2 follow"),
    "not UTF-8": (file_of(b'{"\xff": 1}'), "not UTF-8"),
    "not JSON": (file_of(b"{]"), "valid JSON"),
    "text after it": (file_of(b"{} {}"), "valid JSON"),
    "not an object": (file_of([]), "not an object"),
    "nan": (file_of(b'{"a": NaN}'), "NaN is not JSON"),
    "deep": (file_of(b'{"a":' + b"[" * 100_000), "nested too deeply"),
    "a number of many digits": (file_of(b'{"a":' + b"9" * 5000 + b"}"), "valid JSON"),
    "a name twice": (file_of(b'{"a":1,"a":1}'), "'a' occurs twice"),
    "a key twice": (file_of(b'{"a":{"shape":[],"shape":[]}}'), "'shape' occurs twice"),
    "a lone surrogate": (
        file_of(b'{"\\ud800":' + json.dumps(ENTRY).encode() + b"}", bytes(8)),
        "not valid Unicode",
    ),
    "an entry that is a list": (file_of({"a": ["F32", [2], [0, 8]]}, bytes(8)), "'a': it is not an object"),
    "unknown type": (file_of({"a": {**ENTRY, "dtype": "F33"}}, bytes(8)), "the format has no such type"),
    "a type that torch lacks": (
        file_of({"a": {"dtype": "F6_E2M3", "shape": [4], "data_offsets": [0, 3]}}, bytes(3)),
        "torch has no such type",
    ),
    "no type": (file_of({"a": {"shape": [2], "data_offsets": [0, 8]}}, bytes(8)), "element type is None"),
    "negative size": (file_of({"a": {**ENTRY, "shape": [-2]}}, bytes(8)), "integers from 0"),
    "a size that is a float": (file_of({"a": {**ENTRY, "shape": [2.0]}}, bytes(8)), "integers from 0"),
    "a size that is a bool": (file_of({"a": {**ENTRY, "shape": [2, True]}}, bytes(8)), "integers from 0"),
    "a size that is too large": (file_of({"a": {**ENTRY, "shape": [1 << 63, 0]}}), "integers from 0"),
    "sizes that overflow": (
        file_of({"a": {"dtype": "U8", "shape": [1 << 32, 1 << 32, 0], "data_offsets": [0, 0]}}),
        "2\\*\\*63 elements",
    ),
    "one offset": (file_of({"a": {**ENTRY, "data_offsets": [8]}}, bytes(8)), "two offsets"),
    "offsets backwards": (
        file_of({"a": {**ENTRY, "data_offsets": [8, 0]}}, bytes(8)),
        "do not take the bytes from 8 to 0",
    ),
    "wrong size": (file_of({"a": {**ENTRY, "shape": [3]}}, bytes(8)), "3 elements of type F32 do not take"),
    "odd pairs": (
        file_of({"a": {"dtype": "F4", "shape": [2, 3], "data_offsets": [0, 3]}}, bytes(3)),
        "pairs",
    ),
    "beyond the end": (file_of({"a": ENTRY}, bytes(7)), "1 bytes are missing at the end"),
    "trailing bytes": (file_of({"a": ENTRY}, bytes(9)), "1 bytes follow the last tensor"),
    "a gap": (
        file_of({"a": ENTRY, "b": {**ENTRY, "data_offsets": [9, 17]}}, bytes(17)),
        "'b': 1 unused bytes before it",
    ),
    "a gap at the start": (
        file_of({"a": {**ENTRY, "data_offsets": [1, 9]}}, bytes(9)),
        "'a': 1 unused bytes before it",
    ),
    "an overlap": (
        file_of({"a": ENTRY, "b": {**ENTRY, "data_offsets": [4, 12]}}, bytes(12)),
        "'b': it overlaps",
    ),
    "the same bytes twice": (file_of({"a": ENTRY, "b": ENTRY}, bytes(8)), "it overlaps"),
    "metadata of numbers": (
        file_of({"__metadata__": {"a": 1}, "b": ENTRY}, bytes(8)),
        "does not map texts to texts",
    ),
    "metadata that is a tensor": (file_of({"__metadata__": ENTRY}, bytes(8)), "does not map texts to texts"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_refused(name: str, tmp_path: Path) -> None:
    content, message = DAMAGED[name]
    with pytest.raises(ArchiveError, match=message) as caught:
        opened(tmp_path, content)
    assert caught.value.place == "model.safetensors"
    assert caught.value.remedy


def test_a_header_over_the_limit_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", 100_000_001))
        file.truncate(100_000_100)
    with pytest.raises(ArchiveError, match="at most 100,000,000 are allowed"):
        STORE.open(Folder(tmp_path), "model.safetensors")


def test_all_problems_are_listed_and_many_are_counted(tmp_path: Path) -> None:
    header = {f"t{index}": {**ENTRY, "dtype": "none"} for index in range(25)}
    with pytest.raises(ArchiveError, match=r"'t0'.*'t9'.*and 15 more"):
        opened(tmp_path, file_of(header, bytes(8)))


def test_a_header_of_many_tensors_is_read_in_linear_time(tmp_path: Path) -> None:
    header = {
        f"layer.{index}": {"dtype": "U8", "shape": [1], "data_offsets": [index, index + 1]}
        for index in range(50_000)
    }
    assert len(opened(tmp_path, file_of(header, bytes(50_000))).tensors) == 50_000


# ------------------------------------------------------------------------------------------------- folders and index files


def test_a_folder_is_its_index_its_model_or_its_only_file(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    assert STORE.find(folder, "") is None
    for name, content in (("other.safetensors", some()), ("model.safetensors", some())):
        STORE.write(folder, name, news(content))
        assert STORE.find(folder, "") == name
    SMALL.write(folder, "model.safetensors.index.json", news(some(20)))
    assert STORE.find(folder, "") == "model.safetensors.index.json"
    assert STORE.open(folder, "").tensors.keys() == some(20).keys()


def test_a_folder_may_have_an_index_of_another_name(tmp_path: Path) -> None:
    SMALL.write(Folder(tmp_path), "unet.safetensors", news(some(20)))
    assert STORE.find(Folder(tmp_path), "") == "unet.safetensors.index.json"


def test_shards_without_an_index_are_opened_together(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    location, _ = SMALL.write(folder, "model.safetensors", news(some(20)))
    (tmp_path / location).unlink()
    assert STORE.find(folder, "") == ""
    assert STORE.open(folder, "").tensors.keys() == some(20).keys()
    (tmp_path / "model-00002-of-00005.safetensors").unlink()
    with pytest.raises(
        MissingRecordError, match=r"1 of 5 files are missing: 'model-00002-of-00005.safetensors'"
    ):
        STORE.open(folder, "")


def test_a_tensor_in_two_shards_is_refused(tmp_path: Path) -> None:
    for index in (1, 2):
        save_file(some(1), tmp_path / f"model-0000{index}-of-00002.safetensors")
    with pytest.raises(ArchiveError, match=r"'layer\.0\.weight' is in another shard too"):
        STORE.open(Folder(tmp_path), "")


def test_several_files_that_are_no_shards_have_to_be_named(tmp_path: Path) -> None:
    for name in ("a", "b"):
        save_file(some(1), tmp_path / f"{name}.safetensors")
    assert STORE.find(Folder(tmp_path), "") == ""
    with pytest.raises(ArchiveError, match=r"several safetensors files: a\.safetensors, b\.safetensors"):
        STORE.open(Folder(tmp_path), "")


def test_a_file_of_another_name_is_found_by_its_first_bytes(tmp_path: Path) -> None:
    save_file(some(1), tmp_path / "0f3a")
    assert STORE.find(Folder(tmp_path), "0f3a") == "0f3a"
    assert STORE.open(Folder(tmp_path), "0f3a").tensors.keys() == some(1).keys()


def test_all_missing_shards_are_listed_with_what_to_do(tmp_path: Path) -> None:
    location, _ = SMALL.write(Folder(tmp_path), "model.safetensors", news(some(20)))
    for index in (2, 4):
        (tmp_path / f"model-0000{index}-of-00005.safetensors").unlink()
    with pytest.raises(
        MissingRecordError, match=r"2 of 5 files are missing: .*-00002-of.*-00004-of.*Fetch them"
    ):
        STORE.open(Folder(tmp_path), location)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (b"{", "valid JSON"),
        (b"[]", "not an object"),
        (b"{}", "no object `weight_map`"),
        (b'{"weight_map": []}', "no object `weight_map`"),
        (b'{"weight_map": {"a": 3}}', "the shard of 'a' is no text"),
        (b'{"weight_map": {"a": "m.safetensors", "a": "m.safetensors"}}', "'a' occurs twice"),
        (
            b'{"weight_map": {"layer.0.weight": "m.safetensors", "x": "m.safetensors"}}',
            "'m.safetensors' does not have the tensor 'x'",
        ),
        (
            b'{"weight_map": {"a": "../m.safetensors"}}',
            r"'\.\./m\.safetensors' is not a location below the folder",
        ),
        (b'{"weight_map": {"a": "/etc/passwd"}}', "not a location below the folder"),
        (b'{"weight_map": {"a": "https://host/m.safetensors"}}', "not a location below the folder"),
        (b'{"weight_map": {"a": ""}}', "not a location below the folder"),
        (b'{"weight_map": {"a": "link.safetensors"}}', "symbolic link"),
    ],
)
def test_a_damaged_index_is_refused(index: bytes, message: str, tmp_path: Path) -> None:
    save_file(some(1), tmp_path / "m.safetensors")
    (tmp_path / "link.safetensors").symlink_to("m.safetensors")
    (tmp_path / "model.safetensors.index.json").write_bytes(index)
    with pytest.raises(ArchiveError, match=message):
        STORE.open(Folder(tmp_path), "model.safetensors.index.json")


def test_shards_are_relative_to_their_index(tmp_path: Path) -> None:
    location, _ = SMALL.write(Folder(tmp_path), "sub/model.safetensors", news(some(20)))
    assert location == "sub/model.safetensors.index.json"
    assert set(STORE.open(Folder(tmp_path), location).files) == {
        f"sub/model-0000{index}-of-00005.safetensors" for index in range(1, 6)
    }


# ---------------------------------------------------------------------------------------------------------------- writing


def test_more_than_a_file_may_have_becomes_shards_with_the_index_of_a_hub(tmp_path: Path) -> None:
    tensors = {**some(9), "large": torch.zeros(40), "é": torch.zeros(3)}
    location, _ = SMALL.write(Folder(tmp_path), "model.safetensors", news(tensors))
    assert location == "model.safetensors.index.json"
    index = json.loads((tmp_path / location).read_text())
    assert index["metadata"] == {"total_size": 9 * 24 + 160 + 12}
    assert list(index["weight_map"]) == sorted(tensors)
    assert index["weight_map"]["large"] == "model-00003-of-00004.safetensors"
    assert names_in(tmp_path) == {
        location,
        *(f"model-0000{each}-of-00004.safetensors" for each in (1, 2, 3, 4)),
    }
    again = loaded(tmp_path, location)
    assert all(torch.equal(again[name], tensor) for name, tensor in tensors.items())


def test_shards_are_divided_in_the_order_of_the_tensors(tmp_path: Path) -> None:
    sizes = [60, 60, 20, 60, 20, 20]
    tensors = {f"{index}": torch.zeros(size, dtype=torch.uint8) for index, size in enumerate(sizes)}
    location, _ = SMALL.write(Folder(tmp_path), "m.safetensors", news(tensors))
    shards = json.loads((tmp_path / location).read_text())["weight_map"]
    assert [int(shards[name][2:7]) for name in tensors] == [1, 2, 2, 3, 3, 3]


def test_an_equal_file_of_the_library_is_used_as_it_is(tmp_path: Path) -> None:
    save_file(some(), tmp_path / "model.safetensors", metadata={"format": "pt"})
    before = (tmp_path / "model.safetensors").stat().st_mtime_ns
    assert STORE.write(Folder(tmp_path), "model.safetensors", news(some()))[0] == "model.safetensors"
    assert names_in(tmp_path) == {"model.safetensors"}
    assert (tmp_path / "model.safetensors").stat().st_mtime_ns == before


def test_an_equal_file_is_used_even_where_shards_would_be_written(tmp_path: Path) -> None:
    save_file(some(20), tmp_path / "model.safetensors")
    assert SMALL.write(Folder(tmp_path), "model.safetensors", news(some(20)))[0] == "model.safetensors"
    assert names_in(tmp_path) == {"model.safetensors"}


@pytest.mark.parametrize("store", [STORE, SMALL], ids=["file", "shards"])
def test_other_content_gets_a_name_with_its_digest(store: SafetensorsStore, tmp_path: Path) -> None:
    folder, places = Folder(tmp_path), []
    for start in (0, 1, 2, 1):
        before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
        places.append(store.write(folder, "model.safetensors", news(some(20, start)))[0])
        assert all((tmp_path / name).read_bytes() == content for name, content in before.items())
    first, second, third, fourth = places
    suffix = ".safetensors" if store is STORE else ".safetensors.index.json"
    assert first == f"model{suffix}"
    assert re.fullmatch(rf"model-[0-9a-f]{{12}}{re.escape(suffix)}", second)
    assert fourth == second
    assert third not in (first, second)
    for start, location in enumerate(places[:3]):
        assert all(
            torch.equal(each, some(1, start)["layer.0.weight"])
            for each in loaded(tmp_path, location).values()
        )


@pytest.mark.parametrize("damage", [b"", b"{}", b"x" * 500])
def test_a_damaged_file_is_not_replaced(damage: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(damage)
    location, _ = STORE.write(Folder(tmp_path), "model.safetensors", news(some()))
    assert (tmp_path / "model.safetensors").read_bytes() == damage
    (tmp_path / location).write_bytes(damage)  # even the name with the digest may be taken
    other, _ = STORE.write(Folder(tmp_path), "model.safetensors", news(some()))
    assert other == location.replace(".safetensors", "-2.safetensors")
    assert loaded(tmp_path, other).keys() == some().keys()


def test_what_an_interrupted_writer_left_is_completed(tmp_path: Path) -> None:
    location, _ = SMALL.write(Folder(tmp_path), "model.safetensors", news(some(20)))
    whole = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    for name in (location, "model-00004-of-00005.safetensors"):
        (tmp_path / name).unlink()
    assert SMALL.write(Folder(tmp_path), "model.safetensors", news(some(20)))[0] == location
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == whole


class _Overtaken(Folder):
    """A folder into which another writer puts a model of three shards before this one writes its index."""

    def create(self, location: str) -> NewFile:
        if location == "model.safetensors.index.json":
            SMALL.write(Folder(self.path), "model.safetensors", news(some(12)))
        return super().create(location)


def test_a_writer_that_another_one_overtook_leaves_no_shards(tmp_path: Path) -> None:
    location, _ = SMALL.write(_Overtaken(tmp_path), "model.safetensors", news(some(20)))
    assert location != "model.safetensors.index.json"
    for each, count in (("model.safetensors.index.json", 12), (location, 20)):
        assert loaded(tmp_path, each).keys() == some(count).keys()
    shards = (set(json.loads(each.read_text())["weight_map"].values()) for each in tmp_path.glob("*.json"))
    assert names_in(tmp_path) == {"model.safetensors.index.json", location}.union(*shards)


def test_the_links_of_a_hub_cache_are_read_if_the_caller_allows_them(tmp_path: Path) -> None:
    stored, snapshot = tmp_path / "blobs", tmp_path / "snapshot"
    SMALL.write(Folder(stored), "model.safetensors", news(some(20)))
    snapshot.mkdir()
    for number, each in enumerate(sorted(stored.iterdir())):
        (snapshot / each.name).symlink_to(each.rename(stored / f"{number:064}"))
    assert STORE.find(Folder(snapshot, links=True), "") == "model.safetensors.index.json"
    assert STORE.open(Folder(snapshot, links=True), "").tensors.keys() == some(20).keys()
    with pytest.raises(ArchiveError, match="symbolic link"):
        STORE.open(Folder(snapshot), "")


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "model.safetensors").symlink_to("other/model.safetensors")
    with pytest.raises(ArchiveError, match="symbolic link"):
        STORE.write(Folder(tmp_path), "model.safetensors", news(some()))
    assert names_in(tmp_path / "other") == set()


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"__metadata__": torch.zeros(1)}, "'__metadata__' is reserved"),
        ({"a\ud800": torch.zeros(1)}, "not valid Unicode"),
        ({"a": torch.zeros(1, dtype=torch.complex128)}, "no element type complex128"),
        ({"a": torch.zeros((), dtype=torch.uint8).view(torch.float4_e2m1fn_x2)}, "without dimensions"),
    ],
    ids=["reserved", "surrogate", "type", "0-d pair"],
)
def test_what_the_format_cannot_hold_is_refused_before_anything_is_written(
    tensors: dict[str, torch.Tensor], message: str, tmp_path: Path
) -> None:
    with pytest.raises(EncodeError, match=message):
        SMALL.write(Folder(tmp_path), "model.safetensors", news({**some(20), **tensors}))
    assert names_in(tmp_path) == set()


def test_tensors_whose_bytes_do_not_fit_their_shape_are_refused(tmp_path: Path) -> None:
    wrong = NewTensor("float32", (3,), 8, lambda: memoryview(bytes(8)))
    with pytest.raises(EncodeError, match="8 bytes are not float32 of shape"):
        STORE.write(Folder(tmp_path), "model.safetensors", {"a": wrong})


def test_types_are_kept_if_the_format_has_them() -> None:
    assert all(map(STORE.keeps, KEPT))
    assert not any(map(STORE.keeps, ["complex32", "complex128", "int4", "qint8", "bits8", "F32", ""]))
