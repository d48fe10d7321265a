"""The weight store `dcp`: folders that `torch.distributed.checkpoint` writes with its `FileSystemWriter`.

    .metadata          a pickle: types and shapes of tensors, their chunks, and where these are (see `metadata`)
    __RANK_N.distcp    one `torch.save` file after the other, each with a chunk of a tensor

torch is not needed, and no pickle runs code. Chunks are looked at when a tensor is asked for: a checkpoint with the state of an
optimizer has three times as many tensors as a program needs.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

from graphwire.errors import ArchiveError, EncodeError, GraphwireError, MissingRecordError
from graphwire.hooks import Chunk, NewTensor, StoredTensor, StoreFolder, StoreIndex
from graphwire.schema import ITEM_SIZES, FileFacts
from graphwire.wire.archive.atomic_file import write_all
from graphwire.wire.archive.digests import digests_of
from graphwire.wire.archive.source import ALIGNMENT
from graphwire.wire.torch_files.torch_save_reader import find_saved_tensor
from graphwire.wire.torch_files.torch_save_writer import PackedFile, pack_tensor
from graphwire.wire.weights.reference_table import is_dense
from graphwire_dcp.metadata import (
    METADATA,
    DescribedTensor,
    Metadata,
    SavedChunk,
    read_metadata,
    write_metadata,
)

_DATA = "__0_0.distcp"
_STEM = "dcp"
_MOST_NAMES, _MOST_TRIES = 100, 100
_READ_BYTES = 1 << 20
_REMEDY = "The checkpoint is damaged: fetch or save it again"


class DcpStore:
    """A folder with a file `.metadata`. The location is that of the file."""

    name = "dcp"
    takes_storages = False

    def find(self, folder: StoreFolder, location: str) -> str | None:
        """Return the location of the file `.metadata`, or of one that a single rank wrote (`__0.metadata`)."""
        if location:
            return location if location.endswith(METADATA) else None
        return METADATA if METADATA in folder.names() else None

    def open(self, folder: StoreFolder, location: str) -> StoreIndex:
        """Read the description of the tensors, and the sizes of the files.

        Raises:
            ArchiveError: the description is damaged, files are missing or shorter than it states, or chunks overlap in a file.
        """
        location = location or METADATA
        metadata = read_metadata(folder, location)
        above = location.rpartition("/")[0]
        files = _files(folder, above, metadata)
        _check_ranges(metadata, {name: files[_below(above, name)].nbytes for name in _named_files(metadata)})
        return StoreIndex(_Tensors(folder, above, metadata), files)

    def keeps(self, dtype: str) -> bool:
        """Return whether `torch.save` has this element type."""
        return dtype in ITEM_SIZES

    def write(
        self, folder: StoreFolder, location: str, tensors: Mapping[str, NewTensor]
    ) -> tuple[str, Mapping[str, str]]:
        """Write a checkpoint of one rank. If the folder has other content, it is written to a folder with a digest as name.

        Raises:
            EncodeError: an element type or a name cannot be kept.
        """
        if unknown := sorted({each.dtype for each in tensors.values() if not self.keeps(each.dtype)}):
            raise EncodeError(f"a checkpoint has no element type {', '.join(unknown)}")
        location = location or METADATA
        new = _pack(tensors)
        above, _, file_name = location.rpartition("/")
        for free in _free_folders(above, tensors):
            if _is_there(folder, free, file_name, new):
                return _below(free, file_name), {name: name for name in tensors}
        raise EncodeError(
            f"the folder {above!r} and others beside it have other content",
            remedy="Choose another folder for the weights",
        )


# --------------------------------------------------------------------------------------------------------------- reading


class _Tensors(Mapping[str, StoredTensor]):
    """The tensors of a checkpoint, whose chunks are found when they are asked for."""

    def __init__(self, folder: StoreFolder, above: str, metadata: Metadata) -> None:
        self._folder = folder
        self._above = above
        self._described = metadata.tensors
        self._known: dict[str, StoredTensor] = {}

    def __getitem__(self, name: str) -> StoredTensor:
        if name not in self._known:
            dtype, shape, chunks = described = self._described[name]
            found: list[Chunk] = []
            for file, group in itertools.groupby(chunks, lambda each: each.file):
                location = _below(self._above, file)
                with closing(self._folder.open(location)) as opened:
                    for chunk in group:
                        try:
                            saved = find_saved_tensor(opened, chunk.offset, chunk.nbytes)
                        except GraphwireError as error:
                            raise _bad(name, location, error.problem) from None
                        if (saved.dtype, saved.sizes) != (dtype, chunk.sizes):
                            there = f"{saved.dtype} {list(saved.sizes)}"
                            stated = f"{described.dtype} {list(chunk.sizes)}"
                            raise _bad(name, location, f"the chunk is {there}, and .metadata states {stated}")
                        if not is_dense(saved.sizes, saved.strides):
                            raise _bad(
                                name, location, f"elements overlap or have gaps (strides {saved.strides})"
                            )
                        at = chunk.offset + saved.offset
                        found.append(Chunk(location, at, chunk.start, chunk.sizes, saved.strides))
            self._known[name] = StoredTensor(dtype, shape, tuple(found))
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._described)

    def __len__(self) -> int:
        return len(self._described)


def _bad(name: str, location: str, problem: str) -> ArchiveError:
    return ArchiveError(f"{problem} (tensor {name!r:.200})", place=location, remedy=_REMEDY)


def _named_files(metadata: Metadata) -> list[str]:
    return sorted({chunk.file for each in metadata.tensors.values() for chunk in each.chunks})


def _files(folder: StoreFolder, above: str, metadata: Metadata) -> dict[str, FileFacts]:
    """Return the facts of the files with chunks. The description of all is `.metadata`."""
    found, missing = {}, []
    named = [_below(above, name) for name in _named_files(metadata)]
    for location in named:
        try:
            with closing(folder.open(location)) as file:
                found[location] = FileFacts(file.size, metadata.sha256)
        except MissingRecordError:
            missing.append(location)
    if missing:
        raise MissingRecordError(
            f"{len(missing)} of {len(named)} files are missing: {', '.join(map(repr, missing))}",
            remedy="Fetch them into the same folder",
        )
    return found


def _check_ranges(metadata: Metadata, sizes: Mapping[str, int]) -> None:
    """Raise unless chunks lie within their files, each in bytes of its own."""
    ranges = sorted(
        (chunk.file, chunk.offset, chunk.nbytes, name)
        for name, each in metadata.tensors.items()
        for chunk in each.chunks
    )
    last, end = "", 0
    for file, offset, nbytes, name in ranges:
        if offset + nbytes > sizes[file]:
            raise _bad(
                name, file, f"the file has {sizes[file]:,} bytes, and the chunk ends at {offset + nbytes:,}"
            )
        if file == last and offset < end:
            raise _bad(name, file, f"the chunk at {offset:,} overlaps another one")
        last, end = file, offset + nbytes


def _below(above: str, name: str) -> str:
    return f"{above}/{name}" if above else name


# --------------------------------------------------------------------------------------------------------------- writing


class _NewCheckpoint(NamedTuple):
    """A checkpoint to write."""

    metadata: bytes
    parts: Sequence[tuple[int, PackedFile]]
    """What the data file consists of, and how many bytes of padding are before each part."""

    def pieces(self) -> Iterator[bytes | memoryview]:
        """Yield the bytes of the data file."""
        for padding, part in self.parts:
            yield bytes(padding)
            yield from part.chunks()


def _pack(tensors: Mapping[str, NewTensor]) -> _NewCheckpoint:
    described, parts, at = {}, [], 0
    for name, new in sorted(tensors.items()):
        chunks = []
        shape = tuple(new.shape)
        if 0 not in shape:
            padding, packed = -at % ALIGNMENT, pack_tensor(new.dtype, shape, new)
            parts.append((padding, packed))
            start = (0,) * len(shape)
            chunks = [SavedChunk(_DATA, at + padding, packed.nbytes, start, shape)]
            at += padding + packed.nbytes
        described[name] = DescribedTensor(new.dtype, shape, tuple(chunks))
    return _NewCheckpoint(write_metadata(described), parts)


def _free_folders(above: str, tensors: Mapping[str, NewTensor]) -> Iterator[str]:
    """Yield the wanted folder, then others whose names have a digest of the tensors."""
    yield above
    digest = hashlib.sha256(repr([(name, *new[:2]) for name, new in sorted(tensors.items())]).encode())
    for each in digests_of({name: new.view for name, new in sorted(tensors.items())}).values():
        digest.update(each.encode())
    yield (stem := f"{above or _STEM}-{digest.hexdigest()[:12]}")
    for number in range(2, _MOST_NAMES):
        yield f"{stem}-{number}"


def _is_there(folder: StoreFolder, above: str, file_name: str, new: _NewCheckpoint) -> bool:
    """Write those of the files that are missing, the data first; return False if one of them has other content."""
    files: dict[str, Callable[[], Iterator[bytes | memoryview]]] = {
        _below(above, file_name): lambda: iter((new.metadata,))
    }
    if new.parts:
        files = {_below(above, _DATA): new.pieces, **files}
    for _ in range(_MOST_TRIES):
        states = {location: _has_content(folder, location, pieces()) for location, pieces in files.items()}
        if False in states.values():
            return False
        try:
            for location in (each for each, state in states.items() if state is None):
                with folder.create(location) as file:
                    for piece in files[location]():
                        write_all(file, piece)
        except FileExistsError:  # another writer was faster: perhaps with the same content
            continue
        return True
    return False


def _has_content(folder: StoreFolder, location: str, pieces: Iterator[bytes | memoryview]) -> bool | None:
    """Return whether a file has this content; None if it is not there."""
    try:
        file = folder.open(location)
    except MissingRecordError:
        return None
    with closing(file):
        at = 0
        for piece in pieces:
            for begin in range(0, len(piece), _READ_BYTES):
                part = piece[begin : begin + _READ_BYTES]
                if len(part) > file.size - at or file.read_at(at, len(part)) != bytes(part):
                    return False
                at += len(part)
        return at == file.size
