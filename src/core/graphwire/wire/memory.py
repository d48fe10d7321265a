"""Allocates memory for the bytes of tensors, aligned as torch's allocator aligns it, because DLPack users rely on that."""

from __future__ import annotations

import errno
import mmap
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

ALIGNMENT = 64
"""In bytes. torch's CPU memory and each stored record of an archive begin at a multiple of it."""
_PAGES = 1 << 20
"""In bytes. From this size on memory comes from the system as zero pages; a `bytearray` would write each zero first."""


def allocate(nbytes: int) -> memoryview:
    """Return writable, zeroed memory that begins at a multiple of `ALIGNMENT`.

    Raises:
        MemoryError: not enough memory is available.
    """
    if nbytes >= _PAGES and hasattr(mmap, "MAP_PRIVATE"):
        try:
            return memoryview(mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        except OSError as error:
            if error.errno == errno.ENOMEM:
                raise MemoryError(f"not enough memory for {nbytes:,} bytes") from error
            raise
    memory = memoryview(bytearray(nbytes + ALIGNMENT - 1))
    start = -address(memory) % ALIGNMENT
    return memory[start : start + nbytes]


def copy_bytes(content: bytes | bytearray | memoryview) -> memoryview:
    """Return a copy of bytes in new aligned memory.

    Raises:
        MemoryError: not enough memory is available.
    """
    memory = allocate(len(content))
    memory[:] = content
    return memory


def address(memory: memoryview) -> int:
    """Return the address of writable memory of at least one byte."""
    import ctypes

    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def memory_at(start: int, nbytes: int, owner: object) -> memoryview:
    """Return memory by its address. The view keeps the memory's owner alive."""
    import ctypes

    array = (ctypes.c_char * nbytes).from_address(start)
    array.owner = owner  # type: ignore[attr-defined]
    return memoryview(array).cast("B")


# ------------------------------------------------------------- the base class of objects that a `with` statement closes


class Closing(ABC):
    """An object with a `close` method, which the end of a `with` statement calls."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> None:
        """Release what the object holds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
