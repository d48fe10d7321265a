"""The manifest of an archive: the SHA-256 of each record, in a record of its own.

A CRC-32 shows damage; a digest shows that a record is the one that was written, to whoever trusts the manifest: by a
signature of the file, or by a digest kept elsewhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import msgspec

from graphwire.errors import ArchiveError

__all__ = ["MANIFEST", "Digests", "read_manifest", "write_manifest"]

MANIFEST = "manifest.json"

_ASIDE_BYTES = 1 << 20
"""Chunks from this size on are hashed by a thread of their own, while they are written."""


class _Manifest(msgspec.Struct):
    sha256: dict[str, str]
    """By the record's name below the root folder: the SHA-256 of its bytes when it is read, in hexadecimal."""


_MANIFESTS = msgspec.json.Decoder(_Manifest)
"""Made here rather than at the first manifest, for the sake of threads; see `schema.tree`."""


class Digests:
    """The digests of records, taken while they are written."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        """By name, in hexadecimal; of a record that is being written, nothing."""
        self._aside: ThreadPoolExecutor | None = None

    def add(self, name: str, data: memoryview) -> None:
        """Take the digest of a record that is in memory."""
        self.found[name] = hashlib.sha256(data).hexdigest()

    @contextmanager
    def beside(self, digest: hashlib._Hash, chunk: memoryview) -> Iterator[None]:
        """Add a chunk to a digest, beside what is done in the block. The chunk must not change meanwhile."""
        if chunk.nbytes < _ASIDE_BYTES:
            digest.update(chunk)
            yield
            return
        if self._aside is None:
            self._aside = ThreadPoolExecutor(1, "graphwire-sha256")
        waiting = self._aside.submit(digest.update, chunk)
        try:
            yield
        finally:
            waiting.result()

    def close(self) -> None:
        """Let go of the thread."""
        if self._aside is not None:
            self._aside.shutdown()
            self._aside = None


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
