"""Computes the SHA-256 digests of records for the manifest, in threads, while the records are written.

SHA-256 takes longer than writing to memory, and about as long as writing to a disk. So threads compute the digests of payloads
and large documents in parallel with the write. With large payloads a thread falls behind, and catches up while the writer
waits for the disk. Small payloads are passed to a thread in groups of a few MiB: a thread that hashed each alone would spend
more time waiting for the interpreter than hashing. The manifest does not depend on which thread computed which digest.
"""

from __future__ import annotations

import hashlib
import io
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from graphwire.errors import ArchiveError, Ignored, unless_interrupted
from graphwire.process import Step, Threads
from graphwire.wire.archive.manifest import DigestGroup, Manifest
from graphwire.wire.archive.source import Closing
from graphwire.wire.payloads import Record

THREAD_HASH_BYTES = 1 << 20
"""In bytes. Threads hash payloads of at least this size, while they and the next ones are written."""
_MAX_THREADS = 4
_MAX_COPIES = 2
"""How many temporary copies of records may stay in memory until they are hashed."""
_GROUP_BYTES = 4 << 20
"""In bytes. Smaller records share a digest in groups of at most this size. A thread copies and hashes a group at once."""
_MIN_THREAD_BYTES = 1 << 20
"""In bytes. Hashing less than this takes half a millisecond to two, and a thread half a millisecond more, with its copy, its
start and its turns with this one."""


class _Thread(Threads):
    """A thread that hashes records in the order in which it receives them."""

    def __init__(self) -> None:
        super().__init__(1, "graphwire-sha256")
        self._buffer = io.BytesIO()

    def hash_all(self, views: Sequence[memoryview]) -> hashlib._Hash:
        """Return the digest of several records. They are copied into a reused buffer, because writing to new memory is slow."""
        self._buffer.seek(0)
        self._buffer.writelines(views)
        with self._buffer.getbuffer() as room:
            return hashlib.sha256(room[: self._buffer.tell()])


class _ThreadedDigest:
    """The digest of one record, computed by a thread, or by the writer if the thread has not started it in time."""

    def __init__(self, name: str, thread: _Thread) -> None:
        self.name = name
        self.digest = hashlib.sha256()
        self._thread = thread
        self._chunks: list[bytes | memoryview] = []
        self._steps: list[Step] = []
        self._turn = threading.Lock()
        """Acquired, and never released, by whichever thread hashes the record."""
        self._by_thread = False
        self._lost = False
        """Whether a chunk could not be submitted to the thread."""

    def add(self, chunk: bytes | memoryview) -> None:
        """Submit the next chunk to the thread."""
        self._chunks.append(chunk)
        try:
            self._steps.append(self._thread.submit(self._hash, chunk))
        except unless_interrupted(RuntimeError):  # no thread can start, for example at interpreter shutdown
            self._lost = True
            # Keeps out a thread that starts later and finds the chunk in its queue.
            self._turn.acquire(blocking=False)

    def _hash(self, chunk: bytes | memoryview) -> None:
        self._by_thread = self._by_thread or self._turn.acquire(blocking=False)
        if self._by_thread:
            self.digest.update(chunk)

    def hash_here(self) -> None:
        """Hash the record in the calling thread, unless the other thread has started."""
        if not self._lost and self._turn.acquire(blocking=False):
            for chunk in self._chunks:
                self.digest.update(chunk)

    def wait(self) -> None:
        """Wait until the record is hashed, and release its chunks.

        Raises:
            Exception: an error from the thread.
        """
        for step in self._steps:
            step.result()
        if self._lost:
            self.digest = hashlib.sha256()
            for chunk in self._chunks:
                self.digest.update(chunk)
        self._steps, self._chunks, self._lost = [], [], False


def _by_thread(data: bytes | memoryview) -> None:
    """Leave a record to the thread that hashes its group."""


class _Group:
    """Small records that share a digest, hashed by a thread in advance or one by one as they are written."""

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}
        self.digest = hashlib.sha256()
        self.update: Callable[[bytes | memoryview], object] = self.digest.update
        """Hashes the next record as it is written, unless a thread hashes the group."""
        self._views: Sequence[memoryview] = ()
        self._step: Step | None = None

    def begin(self, views: Sequence[memoryview], thread: _Thread) -> bool:
        """Submit the records to a thread. Return whether a thread could start."""
        with Ignored(RuntimeError):  # for example at interpreter shutdown
            self._step = thread.submit(thread.hash_all, views)
            self._views, self.update = views, _by_thread
        return self._step is not None

    def hash_here(self) -> None:
        """Hash the records in the calling thread, unless the other thread has started."""
        if self._step is not None and self._step.cancel():
            self._step = None
            for view in self._views:
                self.digest.update(view)

    def wait(self) -> None:
        """Wait until the records are hashed, and release them.

        Raises:
            Exception: an error from the thread.
        """
        if self._step is not None:
            self.digest = self._step.result()
        self._views = ()


class Digests(Closing):
    """Computes the digests of one archive's records. As a context manager it ends its threads."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        """Digests of records that need not be computed, by name."""
        self._digests: dict[str, hashlib._Hash] = {}
        self._groups: list[_Group] = []
        self._group_of: dict[str, _Group] = {}
        self._threads: list[_Thread] = []
        self._assigned = 0
        """How many tasks the threads received."""
        self._threaded: list[_ThreadedDigest] = []
        self._now: hashlib._Hash | _Group | None = None
        """The hash of the record that was begun last; None if a thread hashes it."""
        self._copies: list[_ThreadedDigest] = []
        """The records in `_threaded` whose chunks are temporary copies."""
        self.views: dict[str, memoryview] = {}
        """The bytes of records that a thread already hashes since `begin_groups`. They need no `take`."""
        self.busy = False
        """Whether threads may still have large payloads to hash. A document alone is not worth waiting for."""

    def begin_groups(self, records: Mapping[str, Record]) -> None:
        """Group the small ones among the records to be written, and start hashing the groups in threads.

        Records are grouped in the given order. Which of them share a digest depends on their sizes only.
        """
        groups = _grouped(records)
        ahead = sum(sum(group.sizes.values()) for group in groups) >= _MIN_THREAD_BYTES and _processors() > 1
        for group in groups:
            self._groups.append(group)
            self._group_of.update(dict.fromkeys(group.sizes, group))
            members = {name: records[name] for name in group.sizes}
            if ahead and all(getattr(record, "lends", False) for record in members.values()):
                views = [record.view() for record in members.values()]
                # `take` reports a record whose length differs from its `nbytes`.
                sizes_match = [*map(len, views)] == [*group.sizes.values()]
                if sizes_match and group.begin(views, self._next_thread()):
                    self.views.update(zip(members, views, strict=True))

    def take(self, name: str, data: bytes | memoryview) -> None:
        """Compute the digest of a record in memory. Its bytes must not change before `finish`.

        Args:
            data: the bytes; a view of them has single bytes as its items.

        Raises:
            ArchiveError: the length differs from the announced one.
        """
        group = self._group_of.get(name)
        if group is not None:
            if len(data) != group.sizes[name]:
                raise ArchiveError(
                    f"the record was announced with {group.sizes[name]:,} bytes but has {len(data):,}",
                    place=f"record {name!r}",
                    remedy="Its `nbytes` has to be the length of its view",
                )
            group.update(data)
        elif len(data) < _MIN_THREAD_BYTES or _processors() == 1:
            self._digests[name] = hashlib.sha256(data)
        else:
            record = self._hash_in_thread(name)
            # Fixes its place in the manifest, whichever thread hashes it.
            self._digests[name] = record.digest
            record.add(data)

    def begin(self, name: str, nbytes: int, *, lent: bool) -> None:
        """Start the digest of a record of `nbytes` bytes, which `add` extends.

        Args:
            lent: whether the chunks are memory that exists anyway. If they are temporary copies, only a few records are kept:
                the call waits until earlier ones are hashed.
        """
        self._now = self._group_of.get(name)
        if self._now is not None:
            return
        if nbytes < THREAD_HASH_BYTES:
            self._now = self._digests[name] = hashlib.sha256()
            return
        self.busy = True
        record = self._hash_in_thread(name)
        if not lent:
            self._copies.append(record)
            if len(self._copies) > _MAX_COPIES:
                self._copies.pop(0).wait()

    def add(self, chunk: bytes | memoryview) -> None:
        """Add a chunk to the digest of the record begun last. The chunk must not change before `finish`."""
        if self._now is not None:
            self._now.update(chunk)
        else:
            self._threaded[-1].add(chunk)

    def finish(self) -> Manifest:
        """Hash what is left, in this thread and the others, and return the manifest."""
        pending: list[_Group | _ThreadedDigest] = [*self._groups, *self._threaded]
        for each in reversed(pending):  # the threads started from the other end
            each.hash_here()
        for each in pending:
            each.wait()
        self._digests.update((record.name, record.digest) for record in self._threaded)
        return Manifest(
            self.known | {name: digest.hexdigest() for name, digest in self._digests.items()},
            [DigestGroup(group.sizes, group.digest.hexdigest()) for group in self._groups],
        )

    def close(self) -> None:
        """End the threads without hashing what is left."""
        for thread in self._threads:
            thread.close()
        self._threads, self._threaded, self._copies, self._groups, self.views = [], [], [], [], {}

    def _hash_in_thread(self, name: str) -> _ThreadedDigest:
        record = _ThreadedDigest(name, self._next_thread())
        self._threaded.append(record)
        return record

    def _next_thread(self) -> _Thread:
        """Return the threads in rotation. There is one for each processor that the writing thread leaves free, up to a limit."""
        if not self._threads or len(self._threads) < min(_processors() - 1, _MAX_THREADS):
            self._threads.append(_Thread())
        self._assigned += 1
        return self._threads[self._assigned % len(self._threads)]


def _grouped(records: Mapping[str, Record]) -> list[_Group]:
    """Return the groups of records that share a digest. A record that would be alone in a group has its own digest."""
    groups, filled = [_Group()], 0
    for name, record in records.items():
        nbytes = record.nbytes
        if nbytes >= THREAD_HASH_BYTES:
            continue
        if filled + nbytes > _GROUP_BYTES:
            groups.append(_Group())
            filled = 0
        groups[-1].sizes[name] = nbytes
        filled += nbytes
    return [group for group in groups if len(group.sizes) > 1]


def _processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


CHUNK_BYTES = 16 << 20


class ChunkDigest:
    """The digest of bytes that come in parts.

    Args:
        nbytes: how many there are.
    """

    def __init__(self, nbytes: int) -> None:
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
    digests: dict[str, str] = {}
    with Threads(min(_MAX_THREADS, os.cpu_count() or 1), "graphwire-sha256") as threads:
        for name, view in views.items():
            digests[name] = _digest_by(threads, view())
    return digests


def _digest_by(threads: Threads, view: memoryview) -> str:
    if view.nbytes <= CHUNK_BYTES:
        return hashlib.sha256(view).hexdigest()
    whole = hashlib.sha256()
    for digest in _in_order(threads, _chunks(view)):
        whole.update(digest)
    return whole.hexdigest()


def _in_order(threads: Threads, chunks: Iterable[memoryview]) -> Iterator[bytes]:
    steps = [threads.submit(lambda chunk: hashlib.sha256(chunk).digest(), chunk) for chunk in chunks]
    return (step.result() for step in steps)


def _chunks(view: memoryview) -> Iterator[memoryview]:
    for start in range(0, view.nbytes, CHUNK_BYTES):
        yield view[start : start + CHUNK_BYTES]
