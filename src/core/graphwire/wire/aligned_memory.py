"""New memory for the bytes of tensors. It begins where that of torch's allocator does, for those who rely on it (DLPack)."""

from __future__ import annotations

import ctypes
import errno
import mmap

ALIGNMENT = 64
"""Bytes. torch's own memory on a processor begins at a multiple of so many, and so does each record of an archive."""
_PAGES = 1 << 20
"""Bytes from which on memory is asked of the system, as pages of zeros. A `bytearray` would write each zero first."""


def allocate(nbytes: int) -> memoryview:
    """Writable memory of zeros that begins at a multiple of `ALIGNMENT`.

    Raises:
        MemoryError: there is not so much.
    """
    if nbytes >= _PAGES and hasattr(mmap, "MAP_PRIVATE"):
        try:
            return memoryview(mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        except OSError as error:
            if error.errno == errno.ENOMEM:
                raise MemoryError(f"there is no room for {nbytes:,} bytes") from error
            raise
    memory = memoryview(bytearray(nbytes + ALIGNMENT - 1))
    start = -address(memory) % ALIGNMENT
    return memory[start : start + nbytes]


def copy_bytes(content: bytes | bytearray | memoryview) -> memoryview:
    """Bytes in new memory.

    Raises:
        MemoryError: there is not so much.
    """
    memory = allocate(len(content))
    memory[:] = content
    return memory


def address(memory: memoryview) -> int:
    """Where writable memory of one byte or more begins."""
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))
