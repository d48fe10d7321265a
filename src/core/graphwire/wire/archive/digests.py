"""Digests of records, taken while they are written, for the manifest.

SHA-256 takes longer than writing to memory, and about as long as writing to a disk. So threads take the digests of payloads
and large documents, beside whoever writes. Of a large payload a thread falls behind, and catches up while the disk is waited
for. Of small ones it is given a few MiB together: a thread that hashed each of them would wait for the interpreter longer than
it hashes. The manifest is the same whoever hashed what.
"""

from __future__ import annotations

import hashlib
import io
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from graphwire.errors import ArchiveError
from graphwire.wire import Closing, Record
from graphwire.wire.archive.manifest import DigestGroup, Manifest

THREAD_HASH_BYTES = 1 << 20
"""Payloads from this size on are hashed by threads, while they and the next ones are written."""
_MAX_THREADS = 4
_MAX_COPIES = 2
"""As many records of copies that were made to be written may be kept until they are hashed."""
_GROUP_BYTES = 4 << 20
"""Smaller records share a digest, so many bytes of them: that much is copied to be hashed in one go."""
_MIN_THREAD_BYTES = 1 << 18
"""Fewer bytes, of small records or of one that is in memory, are hashed sooner than a thread begins."""


class _Thread(ThreadPoolExecutor):
    """A thread that hashes what it is given, in order."""

    def __init__(self) -> None:
        super().__init__(1, "graphwire-sha256")
        self._buffer = io.BytesIO()

    def hash_all(self, views: Sequence[memoryview]) -> hashlib._Hash:
        """The digest of records, which are copied to where those before them were: memory that is new is slow."""
        self._buffer.seek(0)
        self._buffer.writelines(views)
        with self._buffer.getbuffer() as room:
            return hashlib.sha256(room[: self._buffer.tell()])


class _ThreadedDigest:
    """A record that is hashed by a thread, or by whoever needs its digest before the thread gets to it."""

    def __init__(self, name: str, thread: _Thread) -> None:
        self.name = name
        self.digest = hashlib.sha256()
        self._thread = thread
        self._chunks: list[memoryview] = []
        self._steps: list[Future[None]] = []
        self._claim = threading.Lock()
        """Held, for good, by who hashes the record."""
        self._by_thread = False
        self._lost = False
        """Whether the thread could not be given a chunk."""

    def add(self, chunk: memoryview) -> None:
        """Let the thread hash one more chunk."""
        self._chunks.append(chunk)
        try:
            self._steps.append(self._thread.submit(self._hash, chunk, first=len(self._chunks) == 1))
        except RuntimeError:  # no thread can be had, as when the interpreter ends
            self._lost = True
            self._claim.acquire(
                blocking=False
            )  # from a thread that is had later, and finds the chunk in its queue

    def _hash(self, chunk: memoryview, *, first: bool) -> None:
        if first:
            self._by_thread = self._claim.acquire(blocking=False)
        if self._by_thread:
            self.digest.update(chunk)

    def hash_here(self) -> None:
        """Hash the record now, unless the thread has begun with it."""
        if not self._lost and self._claim.acquire(blocking=False):
            for chunk in self._chunks:
                self.digest.update(chunk)

    def wait(self) -> None:
        """Wait until the record is hashed, and let go of it.

        Raises:
            Exception: what became of it in the thread.
        """
        for step in self._steps:
            step.result()
        if self._lost:
            self.digest = hashlib.sha256()
            for chunk in self._chunks:
                self.digest.update(chunk)
        self._steps, self._chunks, self._lost = [], [], False


class _Group:
    """Small records that share a digest: hashed by a thread ahead, or as they are written."""

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}
        self.digest = hashlib.sha256()
        self._views: Sequence[memoryview] = ()
        self._step: Future[hashlib._Hash] | None = None

    def begin(self, views: Sequence[memoryview], thread: _Thread) -> bool:
        """Let a thread hash the records; whether there can be one."""
        with suppress(RuntimeError):  # as when the interpreter ends
            self._step = thread.submit(thread.hash_all, views)
            self._views = views
        return self._step is not None

    def update(self, data: memoryview) -> None:
        """Hash a record that is written, in its turn, if no thread does."""
        if self._step is None:
            self.digest.update(data)

    def hash_here(self) -> None:
        """Hash the records now, unless the thread has begun with them."""
        if self._step is not None and self._step.cancel():
            self._step = None
            for view in self._views:
                self.digest.update(view)

    def wait(self) -> None:
        """Wait until the records are hashed, and let go of them.

        Raises:
            Exception: what became of it in the thread.
        """
        if self._step is not None:
            self.digest = self._step.result()
        self._views = ()


class Digests(Closing):
    """The digests of the records of one archive. A context manager, which leaves no thread behind."""

    def __init__(self) -> None:
        self._digests: dict[str, hashlib._Hash] = {}
        self._groups: list[_Group] = []
        self._group_of: dict[str, _Group] = {}
        self._threads: list[_Thread] = []
        self._assigned = 0
        """How often a thread was given something."""
        self._threaded: list[_ThreadedDigest] = []
        self._now: hashlib._Hash | _Group | None = None
        """What hashes the record that was begun last, where no thread does."""
        self._copies: list[_ThreadedDigest] = []
        """Those of `_threaded` that are copies."""
        self._views: dict[str, memoryview] = {}
        self.busy = False
        """Whether threads may be behind, with large payloads left to hash. For a document it is not worth to wait."""

    def begin_groups(self, records: Mapping[str, Record]) -> None:
        """Begin with the small ones of records that will be written, in this order. Which of them share a digest depends on
        nothing but their sizes."""
        groups = list(_grouped(records))
        ahead = sum(sum(group.sizes.values()) for group in groups) >= _MIN_THREAD_BYTES and _processors() > 1
        for group in groups:
            self._groups.append(group)
            self._group_of.update(dict.fromkeys(group.sizes, group))
            members = {name: records[name] for name in group.sizes}
            if ahead and all(getattr(record, "lends", False) for record in members.values()):
                views = [record.view() for record in members.values()]
                # Of a record that has another length than it says, `take` tells.
                sizes_match = [*map(len, views)] == [*group.sizes.values()]
                if sizes_match and group.begin(views, self._next_thread()):
                    self._views.update(zip(members, views, strict=True))

    def pop_view(self, name: str) -> memoryview | None:
        """The bytes of a record of `begin_groups`, where its digest is being taken already, and `take` is not needed; given
        once."""
        return self._views.pop(name, None)

    def take(self, name: str, data: memoryview) -> None:
        """Take the digest of a record that is in memory, and must not change before `finish`.

        Raises:
            ArchiveError: it has not the length that it said it has.
        """
        group = self._group_of.get(name)
        if group is None:
            if data.nbytes < _MIN_THREAD_BYTES or _processors() == 1:
                self._digests[name] = hashlib.sha256(data)
            else:
                record = self._hash_in_thread(name)
                self._digests[name] = record.digest  # has its place now, whoever hashes it
                record.add(data)
            return
        if data.nbytes != group.sizes[name]:
            raise ArchiveError(
                f"the record was announced with {group.sizes[name]:,} bytes but has {data.nbytes:,}",
                place=f"record {name!r}",
                remedy="Its `nbytes` has to be the length of its view",
            )
        group.update(data)

    def begin(self, name: str, nbytes: int, *, lent: bool) -> None:
        """From here on `add` adds to the digest of a record of `nbytes` bytes.

        Args:
            lent: whether its chunks are memory that is there anyway. Of copies, no more than a few records are kept: this
                waits until those before are hashed.
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

    def add(self, chunk: memoryview) -> None:
        """Add a chunk to the digest of the record that was begun last. It must not change before `finish`."""
        if self._now is not None:
            self._now.update(chunk)
        else:
            self._threaded[-1].add(chunk)

    def finish(self) -> Manifest:
        """Hash what is left together with the threads."""
        pending: list[_Group | _ThreadedDigest] = [*self._groups, *self._threaded]
        for each in reversed(pending):  # the threads begin at the other end
            each.hash_here()
        for each in pending:
            each.wait()
        self._digests.update((record.name, record.digest) for record in self._threaded)
        return Manifest(
            {name: digest.hexdigest() for name, digest in self._digests.items()},
            [DigestGroup(group.sizes, group.digest.hexdigest()) for group in self._groups],
        )

    def close(self) -> None:
        """Let go of the threads, without hashing what is left."""
        for thread in self._threads:
            thread.shutdown(cancel_futures=True)
        self._threads, self._threaded, self._copies, self._groups, self._views = [], [], [], [], {}

    def _hash_in_thread(self, name: str) -> _ThreadedDigest:
        record = _ThreadedDigest(name, self._next_thread())
        self._threaded.append(record)
        return record

    def _next_thread(self) -> _Thread:
        """The threads take turns; there are as many as processors are left by the one that writes."""
        if not self._threads or len(self._threads) < min(_processors() - 1, _MAX_THREADS):
            self._threads.append(_Thread())
        self._assigned += 1
        return self._threads[self._assigned % len(self._threads)]


def _grouped(records: Mapping[str, Record]) -> Iterator[_Group]:
    """The records that share digests. One that would be alone has its own."""
    group, filled = _Group(), 0
    for name, record in records.items():
        nbytes = record.nbytes
        if nbytes >= THREAD_HASH_BYTES:
            continue
        if filled + nbytes > _GROUP_BYTES:
            if len(group.sizes) > 1:
                yield group
            group, filled = _Group(), 0
        group.sizes[name] = nbytes
        filled += nbytes
    if len(group.sizes) > 1:
        yield group


def _processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
