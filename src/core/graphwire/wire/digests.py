"""The manifest of an archive: the SHA-256 of each record, in a record of its own.

A CRC-32 shows damage; a digest shows that a record is the one that was written, to whoever trusts the manifest: by a
signature of the file, or by a digest kept elsewhere.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import msgspec

from graphwire.errors import ArchiveError

__all__ = ["MANIFEST", "Digests", "read_manifest", "write_manifest"]

MANIFEST = "manifest.json"

_ASIDE_BYTES = 1 << 20
"""Records from this size on are hashed by threads of their own, while they and the next ones are written."""
_MOST_THREADS = 4
_BEHIND = 2
"""As many records of copies that were made to be written may be kept until they are hashed."""


class _Manifest(msgspec.Struct):
    sha256: dict[str, str]
    """By the record's name below the root folder: the SHA-256 of its bytes when it is read, in hexadecimal."""


_MANIFESTS = msgspec.json.Decoder(_Manifest)
"""Made here rather than at the first manifest, for the sake of threads; see `schema.tree`."""


class _Aside:
    """A record that is hashed by a thread, or by whoever needs its digest before the thread gets to it."""

    def __init__(self, digest: hashlib._Hash, thread: ThreadPoolExecutor) -> None:
        self._digest = digest
        self._thread = thread
        self._chunks: list[memoryview] = []
        self._steps: list[Future[None]] = []
        self._claim = threading.Lock()
        """Held, for good, by who hashes the record."""
        self._by_thread = False

    def add(self, chunk: memoryview) -> None:
        """Let the thread hash one more chunk."""
        self._chunks.append(chunk)
        self._steps.append(self._thread.submit(self._hash, chunk, first=not self._steps))

    def _hash(self, chunk: memoryview, *, first: bool) -> None:
        if first:
            self._by_thread = self._claim.acquire(blocking=False)
        if self._by_thread:
            self._digest.update(chunk)

    def hash_here(self) -> None:
        """Hash the record now, unless the thread has begun with it."""
        if self._claim.acquire(blocking=False):
            for chunk in self._chunks:
                self._digest.update(chunk)

    def wait(self) -> None:
        """Wait until the record is hashed, and let go of it.

        Raises:
            Exception: what became of it in the thread.
        """
        for step in self._steps:
            step.result()
        self._steps, self._chunks = [], []


class Digests:
    """The digests of records, taken while they are written.

    SHA-256 takes longer than writing to memory, and about as long as writing to a disk. The threads leave a processor to the
    one that writes, fall behind, and catch up while the disk is waited for; what they leave then is shared.
    """

    def __init__(self) -> None:
        self._digests: dict[str, hashlib._Hash] = {}
        self._threads: list[ThreadPoolExecutor] = []
        """Each hashes what it is given in order."""
        self._aside: list[_Aside] = []
        self._now: hashlib._Hash | None = None
        """That of the record that was begun last, where no thread hashes it."""
        self._made: list[_Aside] = []
        """Those of `_aside` that are copies."""

    def take(self, name: str, data: memoryview) -> None:
        """Take the digest of a record that is in memory."""
        self._digests[name] = hashlib.sha256(data)

    def begin(self, name: str, nbytes: int, *, lent: bool) -> None:
        """From here on `add` adds to the digest of a record of `nbytes` bytes.

        Args:
            lent: whether its chunks are memory that is there anyway. Of copies, no more than a few records are kept: this
                waits until those before are hashed.
        """
        digest = self._now = self._digests[name] = hashlib.sha256()
        if nbytes < _ASIDE_BYTES:
            return
        self._now = None
        if len(self._threads) < min(_processors() - 1, _MOST_THREADS) or not self._threads:
            self._threads.append(ThreadPoolExecutor(1, "graphwire-sha256"))
        record = _Aside(digest, self._threads[len(self._aside) % len(self._threads)])
        self._aside.append(record)
        if not lent:
            self._made.append(record)
            if len(self._made) > _BEHIND:
                self._made.pop(0).wait()

    def add(self, chunk: memoryview) -> None:
        """Add a chunk to the digest of the record that was begun last. It must not change before `finish`."""
        if self._now is not None:
            self._now.update(chunk)
        else:
            self._aside[-1].add(chunk)

    @property
    def busy(self) -> bool:
        """Whether threads may have something left to hash."""
        return bool(self._threads)

    def finish(self) -> dict[str, str]:
        """Hash what is left together with the threads; the digests by name, in hexadecimal."""
        for record in reversed(self._aside):
            record.hash_here()
        for record in self._aside:
            record.wait()
        return {name: digest.hexdigest() for name, digest in self._digests.items()}

    def close(self) -> None:
        """Let go of the threads, without hashing what is left."""
        for thread in self._threads:
            thread.shutdown(cancel_futures=True)
        self._threads, self._aside, self._made = [], [], []


def _processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def write_manifest(digests: Mapping[str, str]) -> bytes:
    """The manifest as a record."""
    return msgspec.json.encode(_Manifest(dict(digests)))


def read_manifest(data: bytes) -> dict[str, str]:
    """The digests of a manifest, by the names of records.

    Raises:
        ArchiveError: it is none.
    """
    try:
        return _MANIFESTS.decode(data).sha256
    except (msgspec.DecodeError, RecursionError) as error:
        raise ArchiveError(f"the manifest is damaged: {error}", place=f"record {MANIFEST!r}") from None
