"""The digest of a record of any size, computed in chunks by several threads.

The digest of up to 16 MiB is their SHA-256. Of more it is the SHA-256 of the concatenated SHA-256 digests (32 bytes each) of its
chunks of 16 MiB; the last chunk may be shorter.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

CHUNK_BYTES = 16 << 20
_MAX_THREADS = 4


class ChunkDigest:
    """The digest of bytes that come in parts.

    Args:
        nbytes: how many there are.
    """

    def __init__(self, nbytes: int) -> None:
        import hashlib

        self._is_one = nbytes <= CHUNK_BYTES
        self._whole = hashlib.sha256()
        self._chunk = hashlib.sha256()
        self._left = CHUNK_BYTES

    def update(self, part: memoryview) -> None:
        """Add the next bytes."""
        if self._is_one:
            self._whole.update(part)
            return
        while part.nbytes:
            some, part = part[: self._left], part[self._left :]
            self._chunk.update(some)
            self._left -= some.nbytes
            if not self._left:
                self._end_chunk()

    def _end_chunk(self) -> None:
        import hashlib

        self._whole.update(self._chunk.digest())
        self._chunk, self._left = hashlib.sha256(), CHUNK_BYTES

    def hexdigest(self) -> str:
        """Return the digest in hexadecimal, after all bytes were added."""
        if not self._is_one and self._left < CHUNK_BYTES:
            self._end_chunk()
        return self._whole.hexdigest()


def chunk_digest(view: memoryview) -> str:
    """Return the digest of bytes, in hexadecimal."""
    digest = ChunkDigest(view.nbytes)
    digest.update(view)
    return digest.hexdigest()


def digests_of(views: Mapping[str, Callable[[], memoryview]]) -> dict[str, str]:
    """Return the digests of several records by name. Several threads compute those of large records.

    Args:
        views: for each name a function that returns the bytes. It is called once, and its result is dropped after use.
    """
    from concurrent.futures import ThreadPoolExecutor

    digests: dict[str, str] = {}
    with ThreadPoolExecutor(min(_MAX_THREADS, os.cpu_count() or 1), "graphwire-sha256") as threads:
        for name, view in views.items():
            digests[name] = _digest_by(threads, view())
    return digests


def _digest_by(threads: ThreadPoolExecutor, view: memoryview) -> str:
    import hashlib

    if view.nbytes <= CHUNK_BYTES:
        return hashlib.sha256(view).hexdigest()
    whole = hashlib.sha256()
    for digest in _in_order(threads, _chunks(view)):
        whole.update(digest)
    return whole.hexdigest()


def _in_order(threads: ThreadPoolExecutor, chunks: Iterable[memoryview]) -> Iterator[bytes]:
    import hashlib

    return threads.map(lambda chunk: hashlib.sha256(chunk).digest(), chunks)


def _chunks(view: memoryview) -> Iterator[memoryview]:
    for start in range(0, view.nbytes, CHUNK_BYTES):
        yield view[start : start + CHUNK_BYTES]
