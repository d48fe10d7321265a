"""Finds the elements of a single tensor that `torch.save` wrote, without reading them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from graphwire.errors import ArchiveError, DecodeError
from graphwire.schema import ITEM_SIZES
from graphwire.wire import DEFAULT_LIMITS, Limits
from graphwire.wire.archive import ArchiveReader
from graphwire.wire.torch_files.pickle_values import StridedTensor, UnknownGlobal
from graphwire.wire.torch_files.torch_save_reader import TorchSave


class SavedTensor(NamedTuple):
    """A tensor of a `torch.save` file, and where its elements are."""

    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements."""
    offset: int
    """Where the first element is, in bytes from the start of the `torch.save` file."""


class _File(Protocol):
    def read_at(self, offset: int, size: int) -> bytes: ...


def find_saved_tensor(
    file: _File, offset: int, nbytes: int, *, limits: Limits = DEFAULT_LIMITS
) -> SavedTensor:
    """Return where the elements of the tensor in a `torch.save` file are. They are little-endian, and lie within the file.

    Args:
        file: a file that contains the `torch.save` file.
        offset: where that begins in it, in bytes.
        nbytes: its size in bytes.

    Raises:
        ArchiveError: torch.save did not write the file, it is damaged, or its elements are compressed or big-endian.
        DecodeError: it does not contain one strided tensor with elements.
        LimitError: it exceeds the limits.
    """
    source = _Ends(file, offset, nbytes)
    saved = TorchSave(ArchiveReader.of(source, limits=limits), foreign=True)
    tensor, reader = saved.value, saved.reader
    if not isinstance(tensor, StridedTensor) or tensor.storage is None or tensor.conj or tensor.neg:
        kind = tensor.name if isinstance(tensor, UnknownGlobal) else f"a {type(tensor).__name__}"
        kind = (
            "a tensor without elements, or with pending operations"
            if isinstance(tensor, StridedTensor)
            else kind
        )
        raise DecodeError(f"a plain tensor is expected, not {kind}")
    record = f"data/{tensor.storage.key}"
    if not reader.is_stored(record) or (saved.is_swapped and ITEM_SIZES[tensor.dtype] > 1):
        raise ArchiveError(
            "the elements are compressed or big-endian", remedy="Write the file again on this machine"
        )
    if reader.size(record) != tensor.storage.nbytes:
        raise ArchiveError(
            f"the storage has {reader.size(record):,} bytes, but the pickle states {tensor.storage.nbytes:,}"
        )
    item = ITEM_SIZES[tensor.dtype]
    reach = sum((size - 1) * stride for size, stride in zip(tensor.sizes, tensor.strides, strict=True))
    last = 0 if 0 in tensor.sizes else tensor.offset + reach + 1
    if last * item > tensor.storage.nbytes:
        raise ArchiveError(f"the tensor {list(tensor.sizes)} reaches beyond the end of its storage")
    return SavedTensor(
        tensor.dtype, tensor.sizes, tensor.strides, reader.offset(record) + tensor.offset * item
    )


_END_BYTES = 4096
"""In bytes. What describes a tensor is in the first and the last few hundred bytes of its file: each is read at once."""


class _Ends:
    """A range of a file (a `Source`), whose first and last bytes are read once."""

    is_remote = False
    """Whatever reads the elements compares them with their checksums."""

    def __init__(self, file: _File, offset: int, size: int) -> None:
        self._file = file
        self._offset = offset
        self.size = size
        few = min(size, _END_BYTES)
        self._ends = [(start, file.read_at(offset + start, few)) for start in dict.fromkeys((0, size - few))]
        self.closed = False

    def read_at(self, offset: int, size: int) -> bytes:
        for start, data in self._ends:
            if start <= offset and offset + size <= start + len(data):
                return data[offset - start : offset - start + size]
        return self._file.read_at(self._offset + offset, size)

    def read_into(self, offset: int, memory: memoryview) -> None:
        memory[:] = self.read_at(offset, memory.nbytes)

    def map(self, offset: int, size: int) -> memoryview:
        return memoryview(bytearray(self.read_at(offset, size)))

    def expect(self, ranges: Iterable[tuple[int, int]], *, together: bool = False) -> None:
        """Do nothing: what describes a tensor is read at once."""

    def close(self) -> None:
        """Do nothing: whoever opened the file closes it."""
