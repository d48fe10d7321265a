"""Contract tests of a weight store, for a plugin's tests to subclass.

from graphwire.testing import WeightStoreContract

class TestPacked(WeightStoreContract):
    store = PackedStore()
    location = "model.packed"
"""

from __future__ import annotations

import math
import random
import shutil
import threading
import tracemalloc
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import pytest

from graphwire.errors import ArchiveError, EncodeError
from graphwire.registry.interfaces import Chunk, NewTensor, StoredBytes, StoreIndex, WeightStore
from graphwire.schema import ITEM_SIZES
from graphwire.testing.suites import ProviderSuite
from graphwire.wire.archive.digests import chunk_digest
from graphwire.wire.archive.source import BufferSource, FileSource
from graphwire.wire.weights.folder import Folder
from graphwire.wire.weights.reference_table import Axis, copy_box, row_major

_SHAPES: tuple[tuple[int, ...], ...] = ((3, 4), (), (0,), (2, 0, 3), (1,), (7,), (2, 1, 5), (1,) * 12)
_NAMES = (
    *"weight layers.0.self_attn.q_proj.weight a A b/c /b .. . b//c C:\\d con - 0 __proto__".split(),
    *'é e\u0301 層.重み 😀 quote" back\\slash \x7f'.split(),
    *("new\nline", "nul\0", " "),
    "long." * 300,
)
_MIB = 1 << 20
_SECONDS = 60


class WeightStoreContract(ProviderSuite):
    """Contract tests of a weight store. Subclass it as `TestSomething`, and set `store`, and `location` if it is not a folder.

    Attributes:
        store: the store to test.
        location: where `write` is asked to write: a file such as `model.packed`; empty for a store that is a folder.
    """

    hook, attribute = "graphwire_weight_stores", "store"
    store: WeightStore
    location: str = ""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Folder:
        """Return a folder that does not exist yet."""
        return Folder(tmp_path / "weights")

    def test_it_says_which_types_it_keeps(self) -> None:
        kept = [dtype for dtype in ITEM_SIZES if self.store.keeps(dtype)]
        assert kept, "`keeps` is true for no type"
        assert all(type(self.store.keeps(dtype)) is bool for dtype in (*ITEM_SIZES, "no_such_type", "")), (
            "`keeps` returns something else than a bool"
        )
        assert not self.store.keeps("no_such_type"), "`keeps` is true for a type that does not exist"
        if self.store.takes_storages:
            assert self.store.keeps("uint8"), "storages are bytes"

    # Places

    def test_it_finds_what_it_wrote(self, folder: Folder) -> None:
        if self.location:
            assert self.store.find(folder, self.location) == self.location, "it need not exist"
        location, _ = self._written(folder, self._some(1))
        assert self.store.find(folder, location) == location, "`find` does not know what `write` wrote"

    def test_it_does_not_find_what_others_wrote(self, folder: Folder) -> None:
        for name in ("notes.txt", "model.bin", "model.pt2", "empty"):
            with folder.create(name) as file:
                file.write(b"" if name == "empty" else b"PK\3\4 something else" * 100)
            assert self.store.find(folder, name) is None, f"`find` takes {name}, which others wrote"
        assert self.store.find(folder, "") is None, "`find` takes a folder in which others wrote"
        assert self.store.find(folder, "no/such/file") is None, (
            "`find` takes a file that does not exist and has no name of its own"
        )

    def test_what_is_not_there_is_an_error(self, folder: Folder) -> None:
        with pytest.raises(ArchiveError):
            self.store.open(folder, self.location)

    # Round trips

    @pytest.mark.parametrize("dtype", list(ITEM_SIZES))
    def test_every_type_and_shape_that_it_keeps_comes_back(self, dtype: str, folder: Folder) -> None:
        if not self.store.keeps(dtype):
            with pytest.raises(EncodeError):
                self._written(folder, {"weight": _tensor(dtype, (3, 4), 0)})
            return
        for number, shape in enumerate(_SHAPES):
            tensors = self._named({"weight": _tensor(dtype, shape, number)})
            with suppress(EncodeError):  # a shape that the store cannot hold is refused
                self._comes_back(folder, tensors, f"{number}/{self.location}" if self.location else "")

    def test_every_name_comes_back(self, folder: Folder) -> None:
        tensors = self._named({name: _tensor(self._dtype, (3,), seed) for seed, name in enumerate(_NAMES)})
        self._comes_back(folder, tensors)

    def test_a_name_that_is_not_unicode_is_refused_or_comes_back(self, folder: Folder) -> None:
        tensors = self._named({"lone \ud800 surrogate": _tensor(self._dtype, (3,), 1)})
        with suppress(EncodeError):
            self._comes_back(folder, tensors)

    def test_many_tensors_come_back(self, folder: Folder) -> None:
        self._comes_back(folder, self._some(300))

    def test_no_tensor_at_all_comes_back(self, folder: Folder) -> None:
        self._comes_back(folder, {})

    def test_a_large_tensor_comes_back(self, folder: Folder) -> None:
        self._comes_back(folder, self._named({"weight": _tensor(self._dtype, (5 * _MIB + 3,), 1)}))

    def test_equal_tensors_come_back(self, folder: Folder) -> None:
        same = _tensor(self._dtype, (5, 3), 1)
        self._comes_back(folder, self._named({"one": same, "other": same}))

    # Files

    def test_equal_content_is_written_once(self, folder: Folder) -> None:
        written = self._written(folder, self._some(5))
        before = _contents(folder)
        assert self._written(folder, self._some(5)) == written, (
            "equal tensors are written to another location, or under other names"
        )
        assert _contents(folder) == before, "equal tensors are written twice"

    def test_no_file_is_replaced(self, folder: Folder) -> None:
        given = [self._some(5, seed) for seed in range(3)]
        places = []
        before: dict[str, bytes] = {}
        for tensors in given:
            places.append(self._written(folder, tensors))
            now = _contents(folder)
            assert before.items() <= now.items(), "a file was changed or removed"
            before = now
        for tensors, (location, names) in zip(given, places, strict=True):
            self._has(folder, location, names, tensors)

    def test_other_types_and_shapes_of_the_same_bytes_are_other_content(self, folder: Folder) -> None:
        if self.store.takes_storages:
            return
        content = bytes(8 * ITEM_SIZES[self._dtype])
        for shape in ((8,), (2, 4), (8, 1)):
            tensors = {"weight": NewTensor(self._dtype, shape, len(content), lambda: memoryview(content))}
            self._comes_back(folder, tensors)

    def test_a_write_that_fails_leaves_nothing_that_can_be_opened(self, folder: Folder) -> None:
        good = self._some(4)
        *_, (name, last) = good.items()
        with pytest.raises(_LostError):
            self._written(folder, {**good, name: last._replace(view=_fail)})
        assert name not in self._names_in(folder), "a tensor of a write that failed can be opened"
        self._comes_back(folder, good)

    def test_writers_in_parallel_do_not_meet(self, folder: Folder) -> None:
        given = [self._some(6, number // 4) for number in range(8)]
        together = threading.Barrier(len(given))

        def work(tensors: Mapping[str, NewTensor]) -> tuple[str, Mapping[str, str]]:
            together.wait(_SECONDS)
            return self._written(folder, tensors)

        with ThreadPoolExecutor(len(given)) as pool:
            places = list(pool.map(work, given))
        for tensors, (location, names) in zip(given, places, strict=True):
            self._has(folder, location, names, tensors)

    def test_memory_does_not_grow_with_the_tensors(self, folder: Folder) -> None:
        count = 160 * _MIB // ITEM_SIZES[self._dtype]
        tensors = self._named({"weight": _tensor(self._dtype, (count,), 0)})
        tracemalloc.start()
        try:
            location, _ = self._written(folder, tensors)
            self._written(folder, tensors)  # it is compared
            self.store.open(folder, location)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 80 * _MIB, (
            f"writing and opening 160 MiB takes {peak / _MIB:.0f} MiB of memory, which may be 80"
        )

    def test_it_closes_the_files_that_it_opens(self, folder: Folder) -> None:
        watched = _WatchedFolder(folder.path)
        location, names = self._written(watched, self._some(3))
        self._written(watched, self._some(3))
        index = self.store.open(watched, location)
        assert all(name in index.tensors for name in names.values()), (
            "the index lacks a tensor that was written"
        )
        self.store.find(watched, location)
        assert all(file.closed for file in watched.opened), "a file stays open"

    # Damage

    def test_a_missing_file_is_noticed(self, folder: Folder, tmp_path: Path) -> None:
        location, whole = self._whole(folder)
        for file in whole:
            copy = _copied(folder, tmp_path / "copy")
            (copy.path / file).unlink()
            assert not self._looks_the_same(folder, copy, location), f"{file} is missing"

    def test_a_truncated_file_is_noticed(self, folder: Folder, tmp_path: Path) -> None:
        location, whole = self._whole(folder)
        for file, content in whole.items():
            end = len(content.rstrip(b" \n"))  # what follows an index may mean nothing
            for size in {0, 1, end // 2, end - 1} - {end, -1}:
                copy = _copied(folder, tmp_path / "copy")
                (copy.path / file).write_bytes(content[:size])
                assert not self._looks_the_same(folder, copy, location), f"{file} has {size} bytes"

    def test_damage_is_an_archive_error_or_describes_what_is_there(
        self, folder: Folder, tmp_path: Path
    ) -> None:
        location, whole = self._whole(folder)
        copy = _copied(folder, tmp_path / "copy")
        for file, content in whole.items():
            for damaged in _damaged(content):
                (copy.path / file).write_bytes(damaged)
                try:
                    index = self.store.open(copy, location)
                    for name in index.tensors:
                        _content(copy, index, name)
                except ArchiveError:
                    continue
            (copy.path / file).write_bytes(content)

    # Bytes that the store reads by itself

    def test_bytes_that_it_reads_are_the_same_in_any_parts(self, folder: Folder) -> None:
        tensors = self._named({"weight": _tensor(self._dtype, (3 * _MIB + 5,), 1)})
        location, names = self._written(folder, tensors)
        index = self.store.open(folder, location)
        ((name, new),) = tensors.items()
        whole = new.view()
        for chunk in index.tensors[names[name]].chunks:
            stored = chunk.file
            if isinstance(stored, str):
                continue
            assert type(stored.size) is int, "the size of stored bytes is no integer"
            chance, size = random.Random(0), stored.size - chunk.offset
            starts = [0, size - 1, *(chance.randrange(size) for _ in range(40))]
            ranges = [(start, min(1 + chance.randrange(_MIB), size - start)) for start in starts]
            with ThreadPoolExecutor(8) as pool:
                reads = [
                    pool.submit(_read_by_store, stored, chunk.offset + start, count)
                    for start, count in ranges
                ]
                parts = [read.result() for read in reads]
            if chunk.sizes == tuple(new.shape):
                for (start, count), part in zip(ranges, parts, strict=True):
                    assert part == whole[start : start + count], f"{count} bytes at {start} are others"

    def test_bytes_that_change_after_it_was_opened_are_an_archive_error_or_others(
        self, folder: Folder, tmp_path: Path
    ) -> None:
        location, whole = self._whole(folder)
        copy = _copied(folder, tmp_path / "copy")
        index = self.store.open(copy, location)
        stored = [
            chunk.file
            for each in index.tensors.values()
            for chunk in each.chunks
            if not isinstance(chunk.file, str)
        ]
        for file, content in whole.items() if stored else ():
            for damaged in _damaged(content):
                (copy.path / file).write_bytes(damaged)
                for each in stored:
                    with suppress(ArchiveError):
                        _read_by_store(each, 0, each.size)
            (copy.path / file).write_bytes(content)

    # ---------------------------------------------------------------------------------------------------------- the tests' own

    @property
    def _dtype(self) -> str:
        """An element type that the store keeps."""
        return "uint8" if self.store.takes_storages else next(filter(self.store.keeps, ITEM_SIZES))

    def _some(self, count: int, seed: int = 0) -> dict[str, NewTensor]:
        shapes = [(1 + number % 5, 1 + number % 3) for number in range(count)]
        return self._named(
            {
                f"layer.{number}": _tensor(self._dtype, shape, count * seed + number)
                for number, shape in enumerate(shapes)
            }
        )

    def _named(self, tensors: Mapping[str, NewTensor]) -> dict[str, NewTensor]:
        """Return tensors as `write` receives them: storages are bytes named by their digests."""
        if not self.store.takes_storages:
            return dict(tensors)
        return {
            chunk_digest(new.view()): NewTensor("uint8", (new.nbytes,), new.nbytes, new.view)
            for new in tensors.values()
        }

    def _written(
        self, folder: Folder, tensors: Mapping[str, NewTensor], location: str | None = None
    ) -> tuple[str, Mapping[str, str]]:
        written, names = self.store.write(folder, self.location if location is None else location, tensors)
        assert type(written) is str, "`write` returns a location that is no text"
        return written, names

    def _comes_back(
        self, folder: Folder, tensors: Mapping[str, NewTensor], location: str | None = None
    ) -> None:
        written, names = self._written(folder, tensors, location)
        self._has(folder, written, names, tensors)

    def _has(
        self, folder: Folder, location: str, names: Mapping[str, str], tensors: Mapping[str, NewTensor]
    ) -> None:
        """Assert that a store has exactly these tensors under their names in it."""
        index = self.store.open(folder, location)
        assert names.keys() == tensors.keys(), "`write` does not name each tensor"
        assert len(set(names.values())) == len(names), "two tensors have one name"
        if not self.store.takes_storages:
            assert set(index.tensors) == set(names.values()), "the index has other tensors than were written"
        for name, new in tensors.items():
            stored = index.tensors[names[name]]
            assert (stored.dtype, tuple(stored.shape)) == (new.dtype, tuple(new.shape)), name
            assert _content(folder, index, names[name]) == bytes(new.view()), name

    def _names_in(self, folder: Folder) -> set[str]:
        """Return the names of the tensors that can be opened where the tests write."""
        try:
            return set(self.store.open(folder, self.location).tensors)
        except ArchiveError:
            return set()

    def _whole(self, folder: Folder) -> tuple[str, dict[str, bytes]]:
        """Write a few tensors, and return the location and the content of each file."""
        location, _ = self._written(folder, self._some(3))
        return location, _contents(folder)

    def _looks_the_same(self, folder: Folder, copy: Folder, location: str) -> bool:
        """Return whether a damaged copy has the tensors and files of the whole one, as far as can be seen without reading it."""
        try:
            whole, damaged = self.store.open(folder, location), self.store.open(copy, location)
            return _description(whole) == _description(damaged)
        except ArchiveError:
            return False


def _description(index: StoreIndex) -> object:
    """Return what an index states, with sizes in place of bytes that the store reads by itself."""
    tensors = {
        name: [
            (dtype, shape, [chunk[0] if isinstance(chunk[0], str) else chunk[0].size, chunk[1:]])
            for chunk in chunks
        ]
        for name, (dtype, shape, chunks) in index.tensors.items()
    }
    return tensors, dict(index.files)


class _WatchedFolder(Folder):
    """A folder that remembers which files were opened."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.opened: list[FileSource] = []

    def open(self, location: str) -> FileSource:
        self.opened.append(super().open(location))
        return self.opened[-1]


class _LostError(Exception):
    """The memory of a tensor cannot be read."""


def _fail() -> memoryview:
    raise _LostError


def _tensor(dtype: str, shape: tuple[int, ...], seed: int) -> NewTensor:
    nbytes = math.prod(shape) * ITEM_SIZES[dtype]
    pattern = random.Random(seed).randbytes(min(nbytes, 1009))
    content = (pattern * (nbytes // max(len(pattern), 1) + 1))[:nbytes]
    return NewTensor(dtype, shape, nbytes, lambda: memoryview(content))


def _content(folder: Folder, index: StoreIndex, name: str) -> bytes:
    """Return the elements of a stored tensor, row-major. Its chunks must lie within their files, and cover it once."""
    stored = index.tensors[name]
    item = ITEM_SIZES[stored.dtype]
    content = bytearray(math.prod(stored.shape) * item)
    covered, strides = 0, row_major(stored.shape)
    for chunk in stored.chunks:
        assert len(chunk.start) == len(chunk.sizes) == len(stored.shape), (
            "a chunk has another number of dimensions than its tensor"
        )
        assert all(
            0 <= first <= whole - size
            for first, size, whole in zip(chunk.start, chunk.sizes, stored.shape, strict=True)
        ), "a chunk is not inside of its tensor"
        nbytes = math.prod(chunk.sizes) * item
        part = BufferSource(_bytes_of(folder, index, chunk, nbytes))
        covered += nbytes
        first = sum(at * stride for at, stride in zip(chunk.start, strides, strict=True))
        axes = [Axis(*each) for each in zip(chunk.sizes, row_major(chunk.sizes), strides, strict=True)]
        copy_box(part, 0, memoryview(content), first * item, axes, item)
    assert covered == len(content), "chunks overlap, or leave out elements"
    return bytes(content)


def _bytes_of(folder: Folder, index: StoreIndex, chunk: Chunk, nbytes: int) -> bytes:
    stored = chunk.file
    if not isinstance(stored, str):
        assert 0 <= chunk.offset <= stored.size - nbytes, f"a chunk ends beyond its {stored.size:,} bytes"
        return _read_by_store(stored, chunk.offset, nbytes)
    with closing(folder.open(stored)) as file:
        assert index.files[stored].nbytes == file.size, f"`files` states another size of {stored!r}"
        assert 0 <= chunk.offset <= file.size - nbytes, f"a chunk ends beyond its file {stored!r}"
        return file.read_at(chunk.offset, nbytes)


def _read_by_store(stored: StoredBytes, offset: int, nbytes: int) -> bytes:
    content, done = bytearray(nbytes), 0
    while done < nbytes:
        with memoryview(content)[done:] as view:
            count = stored.read_into(offset + done, view)
        assert type(count) is int, f"`read_into` returned {count!r}, not a number of bytes"
        assert 0 < count <= nbytes - done, f"`read_into` returned {count} for a view of {nbytes - done} bytes"
        done += count
    return bytes(content)


def _contents(folder: Folder) -> dict[str, bytes]:
    """Return the content of each file of a store."""
    return {
        path.relative_to(folder.path).as_posix(): path.read_bytes()
        for path in sorted(folder.path.rglob("*"))
        if path.is_file()
    }


def _copied(folder: Folder, path: Path) -> Folder:
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(folder.path, path)
    return Folder(path)


def _damaged(content: bytes) -> Iterator[bytes]:
    """Yield variants of a file with changed, missing and added bytes, most of them where an index is small."""
    chance = random.Random(0)
    for _ in range(150):
        at = chance.randrange(min(len(content), 600) + 1)
        cut = chance.choice((0, 1, 1, 2, 8))
        yield content[:at] + chance.randbytes(chance.choice((0, 1, 1, 2, 8))) + content[at + cut :]
    yield from (b"", b"{", b"[]", b"{}", b"\xff" * 16, b"[" * 100_000, content + b"\0", content * 2)
