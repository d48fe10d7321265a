"""The interface of weight stores (hook `graphwire_weight_stores`): where tensors lie outside of a program's file.

A store says where elements are; graphwire opens the files, maps and reads them. So a store needs no torch, and cannot read
outside of its folder. A store whose bytes are not in files as they are (a database, compressed or encrypted) reads them itself.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import BinaryIO, NamedTuple, Protocol, runtime_checkable

from graphwire.errors import Problem
from graphwire.schema import FileFacts


@runtime_checkable
class StoredBytes(Protocol):
    """Bytes that a store reads by itself. Any number of threads may read at once.

    graphwire reads them in parts, never maps them, and compares them with the digest that the program's file has.
    """

    @property
    def size(self) -> int:
        """In bytes."""
        ...

    def read_into(self, offset: int, view: memoryview) -> int:
        """Fill a view, or its beginning, with the bytes from an offset within `size`, and return how many they are: at least 1.

        The view belongs to the caller again when this returns.

        Args:
            view: writable memory of at least one byte, which ends within `size`.

        Raises:
            ArchiveError: the bytes are damaged or missing.
        """
        ...


class Chunk(NamedTuple):
    """A box of a stored tensor whose elements lie together, little-endian and without gaps."""

    file: str | StoredBytes
    """Where they are: a file's location, relative to the folder of the store, with `/` between names; or the bytes of a store
    that reads them itself."""
    offset: int
    """Where the first element is, in bytes from the start of the file or of the store's bytes."""
    start: tuple[int, ...]
    """The index of the first element in each dimension of the tensor."""
    sizes: tuple[int, ...]
    """The sizes of the box."""
    strides: tuple[int, ...] | None = None
    """From one element to the next in each dimension, in elements; None if the box is row-major."""


class StoredTensor(NamedTuple):
    """A tensor of a store. Its chunks cover each element once."""

    dtype: str
    """torch's name of the element type, such as `float32`."""
    shape: tuple[int, ...]
    """Its sizes."""
    chunks: tuple[Chunk, ...]
    """Where its elements are."""

    @classmethod
    def whole(
        cls, dtype: str, shape: tuple[int, ...], file: str | StoredBytes, offset: int = 0
    ) -> StoredTensor:
        """Return a tensor whose elements lie together in row-major order.

        Args:
            file: as in `Chunk`.
            offset: of the first element, in bytes.
        """
        return cls(dtype, shape, (Chunk(file, offset, (0,) * len(shape), shape),))


class StoreIndex(NamedTuple):
    """What an opened store contains."""

    tensors: Mapping[str, StoredTensor]
    """Each stored tensor, by name."""
    files: Mapping[str, FileFacts]
    """Each file that chunks refer to, or that the store reads by itself, by location."""


class NewTensor(NamedTuple):
    """A tensor to write: contiguous, row-major, little-endian."""

    dtype: str
    """torch's name of the element type, such as `float32`."""
    shape: tuple[int, ...]
    """Its sizes."""
    nbytes: int
    """The size of its elements in bytes."""
    view: Callable[[], memoryview]
    """Returns the elements as bytes, each time it is called; a view of the program's memory where that is possible."""


class StoreFile(Protocol):
    """An open file of a store. Whoever opens it closes it."""

    size: int
    """In bytes."""

    def read_at(self, offset: int, size: int) -> bytes:
        """Return exactly the bytes of a range within `size`."""
        ...

    def close(self) -> None:
        """Close the file. Nothing happens if it is closed already."""
        ...


class StoreFolder(Protocol):
    """The folder of a store. Locations are relative, with `/` between names; nothing outside of the folder can be reached."""

    def names(self, location: str = "") -> Sequence[str]:
        """Return the names in the folder or in one below it, sorted; folders end with `/`. Empty if it does not exist.

        Raises:
            ArchiveError: the location leaves the folder.
        """
        ...

    def open(self, location: str) -> StoreFile:
        """Open a file.

        Raises:
            MissingRecordError: there is no such file.
            ArchiveError: the location leaves the folder, or is not a regular file.
        """
        ...

    def local_path(self, location: str) -> str:
        """Return the path of a file, for a library that opens files by itself.

        Unlike `open`, this cannot keep others from exchanging the file before the library opens it.

        Raises:
            MissingRecordError: there is no such file.
            ArchiveError: the location leaves the folder, or is not a regular file, or the folder is not on a disk.
        """
        ...

    def create(self, location: str) -> AbstractContextManager[BinaryIO]:
        """Return a context manager for a new file, which appears whole, and synced, when the `with` block ends.

        Folders are made as needed. A file that exists is never replaced.

        Raises:
            FileExistsError: there is such a file already.
            ArchiveError: the location leaves the folder.
        """
        ...


@runtime_checkable
class WeightStore(Protocol):
    """Finds and writes tensors in a folder (hook `graphwire_weight_stores`)."""

    @property
    def name(self) -> str:
        """The name that references contain, such as `safetensors`: lower case, a plain identifier."""
        ...

    @property
    def takes_storages(self) -> bool:
        """Whether `write` receives whole storages as tensors of `uint8`, named by their digest. Otherwise it receives each
        tensor under its name in the program; whatever it cannot keep stays in the program's file."""
        ...

    def find(self, folder: StoreFolder, location: str) -> str | None:
        """Return the location that `open` takes, if `location` (a file, or empty for the folder) is of this store's kind;
        None otherwise. Decide by names, and by the first bytes where names do not tell. The file need not exist: a location
        of a file to be written is found by its name alone."""
        ...

    def open(self, folder: StoreFolder, location: str) -> StoreIndex:
        """Read the index of a store, not its elements.

        Raises:
            ArchiveError: the index is damaged, or a file that it names is missing; the error lists all missing files.
        """
        ...

    def keeps(self, dtype: str) -> bool:
        """Whether `write` can store elements of this type, by torch's name for it."""
        ...

    def write(
        self, folder: StoreFolder, location: str, tensors: Mapping[str, NewTensor]
    ) -> tuple[str, Mapping[str, str]]:
        """Write tensors to new files, and return the location that `open` takes, and each tensor's name in the store.

        A file that exists is never replaced: a file with equal content is used as it is, and otherwise the store picks
        another name (see `StoreFolder.create`).

        Args:
            location: what the caller asked for, as `find` returned it.
            tensors: the tensors by name.

        Raises:
            EncodeError: the store cannot hold one of them, though `keeps` is true for its type.
        """
        ...


@runtime_checkable
class PrunableFolder(StoreFolder, Protocol):
    """The folder of a store from which unused files can be removed."""

    def age(self, location: str) -> float:
        """Return the seconds since a file was written or refreshed.

        Raises:
            FileNotFoundError: there is no such file.
        """
        ...

    def refresh(self, location: str) -> None:
        """Make the age of a file 0, because a new program is about to refer to it.

        Raises:
            MissingRecordError: there is no such file.
        """
        ...

    def remove(self, location: str) -> None:
        """Delete a file; nothing happens if there is none."""
        ...


class UnusedFile(NamedTuple):
    """A file of a store that no program refers to."""

    location: str
    """Its path in the folder of the store."""
    nbytes: int
    """Its size in bytes."""


@runtime_checkable
class PrunableStore(WeightStore, Protocol):
    """A store whose files are named by their content and shared by many programs (`graphwire blobs`). Optional."""

    def damaged(self, folder: StoreFolder) -> Iterator[Problem]:
        """Read all files, and yield a problem for each whose content does not have the digest that its name states."""
        ...

    def unused(self, folder: PrunableFolder, used: Container[str], older_than: float) -> Iterator[UnusedFile]:
        """Yield the files that may be removed.

        Args:
            folder: the folder of the store.
            used: the names of the stored tensors that programs refer to.
            older_than: in seconds. Younger files are kept: a writer may be about to refer to them.
        """
        ...
