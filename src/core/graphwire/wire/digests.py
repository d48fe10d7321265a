"""The manifest of an archive: the SHA-256 of each record, in a record of its own.

A CRC-32 shows damage; a digest shows that a record is the one that was written, to whoever trusts the manifest: by a
signature of the file, or by a digest kept elsewhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import msgspec

from graphwire.errors import ArchiveError

__all__ = ["MANIFEST", "Digests", "read_manifest", "write_manifest"]

MANIFEST = "manifest.json"

_ASIDE_BYTES = 1 << 20
"""Records from this size on are hashed by threads of their own, while they and the next ones are written."""
_LANES = 2
"""Such threads: SHA-256 takes three times as long as writing to memory, so one would be waited for."""


class _Manifest(msgspec.Struct):
    sha256: dict[str, str]
    """By the record's name below the root folder: the SHA-256 of its bytes when it is read, in hexadecimal."""


_MANIFESTS = msgspec.json.Decoder(_Manifest)
"""Made here rather than at the first manifest, for the sake of threads; see `schema.tree`."""


class Digests:
    """The digests of records, taken while they are written."""

    def __init__(self) -> None:
        self._digests: dict[str, hashlib._Hash] = {}
        self._lanes: list[ThreadPoolExecutor] = []
        self._lane: ThreadPoolExecutor | None = None
        self._last: list[Future[None]] = []
        """Of each record that a thread hashes, the last step."""

    def take(self, name: str, data: memoryview) -> None:
        """Take the digest of a record that is in memory."""
        self._digests[name] = hashlib.sha256(data)

    def begin(self, name: str, nbytes: int) -> None:
        """From here on `add` adds to the digest of a record of `nbytes` bytes.

        Waits until fewer records than there are threads are left to hash: what is written does not get further ahead, as
        it may be copies that were made to be written.
        """
        self._digests[name] = hashlib.sha256()
        self._lane = None
        if nbytes >= _ASIDE_BYTES:
            index = len(self._last)
            if index >= _LANES:
                self._last[index - _LANES].result()
            if len(self._lanes) < _LANES:
                self._lanes.append(ThreadPoolExecutor(1, "graphwire-sha256"))
            self._lane = self._lanes[index % _LANES]
            self._last.append(self._lane.submit(_nothing))

    def add(self, name: str, chunk: memoryview) -> None:
        """Add a chunk to the digest of the record that was begun last. It must not change before `close`."""
        update = self._digests[name].update
        if self._lane is None:
            update(chunk)
        else:
            self._last[-1] = self._lane.submit(update, chunk)

    @property
    def busy(self) -> bool:
        """Whether threads may have something left to hash."""
        return bool(self._lanes)

    def close(self) -> dict[str, str]:
        """Wait for the threads, and let go of them; the digests by name, in hexadecimal."""
        for lane in self._lanes:
            lane.shutdown()
        for each in self._last:
            each.result()
        self._lanes, self._last = [], []
        return {name: digest.hexdigest() for name, digest in self._digests.items()}


def _nothing() -> None:
    pass


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
