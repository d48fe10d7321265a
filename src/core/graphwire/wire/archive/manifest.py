"""The manifest of an archive, which has the digests of its records, and a cache of remote records, which are found by them.

A CRC-32 detects damage. A digest also detects an exchanged record, if the reader trusts the manifest, by a signature of the
file or by a digest kept elsewhere. Small payloads share digests in groups of a few MiB, so that a thread can hash a group at
once (see `digests`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain

import msgspec

from graphwire.errors import ArchiveError, ChecksumError, GraphwireError, MissingRecordError
from graphwire.process import TYPE_ANALYSIS
from graphwire.wire.archive.reader import REMEDY, ArchiveReader, ArchiveRecord, damaged_record
from graphwire.wire.archive.source import ALIGNMENT, FileSource, address, allocate, copy_bytes
from graphwire.wire.document import decode_json_record
from graphwire.wire.payloads import Record

MANIFEST = "manifest.json"


class DigestGroup(msgspec.Struct):
    """A group of records that share one digest."""

    sizes: dict[str, int]
    """The size of each record in bytes, by its name below the root folder, in the order of hashing."""
    sha256: str
    """The digest of the concatenated records, in hexadecimal."""


class Manifest(msgspec.Struct, omit_defaults=True):
    """The digests of an archive's records, computed over their inflated bytes."""

    sha256: dict[str, str]
    """The digest of a single record in hexadecimal, by its name below the root folder."""
    together: list[DigestGroup] = []
    """The groups of records that share a digest."""

    @property
    def names(self) -> list[str]:
        """The names of all listed records."""
        return [*self.sha256, *chain.from_iterable(each.sizes for each in self.together)]


with TYPE_ANALYSIS:
    _MANIFESTS = msgspec.json.Decoder(Manifest)
# Made at import rather than at first use: see `process`.


def write_manifest(manifest: Manifest) -> bytes:
    """Encode a manifest as the bytes of its record."""
    return msgspec.json.encode(manifest)


def read_manifest(data: bytes) -> Manifest:
    """Decode a manifest from the bytes of its record.

    Raises:
        ArchiveError: the bytes are not a manifest, or it lists a record twice.
    """
    manifest = decode_json_record(_MANIFESTS, data, "the manifest is", f"record {MANIFEST!r}")
    names = manifest.names
    twice = "it lists a record more than once" if len(set(names)) != len(names) else ""
    if fault := twice or ("" if all(each.sizes for each in manifest.together) else "a group has no records"):
        raise ArchiveError(f"the manifest is damaged: {fault}", place=f"record {MANIFEST!r}")
    return manifest


def manifest_errors(
    archive: ArchiveReader, manifest: Manifest, names: Collection[str]
) -> Iterator[GraphwireError]:
    """Check records against their checksums and the digests in the manifest, reading them in chunks.

    Args:
        names: the records to check. Records that share a digest with one of them are read, too.

    Yields:
        An error, as `ArchiveReader.verify` raises, for each record or group that differs from what was written, and for each
        missing record of a group.
    """
    wanted = set(names)
    for each in manifest.together:
        if not wanted.isdisjoint(each.sizes):
            wanted.difference_update(each.sizes)
            yield from _group_errors(archive, each)
    for name in names:
        if name in wanted:
            try:
                _check(archive, name, manifest.sha256.get(name))
            except GraphwireError as error:
                yield error


def _check(archive: ArchiveReader, name: str, listed: str | None) -> None:
    import hashlib

    digest = hashlib.sha256()
    archive.verify(name, None if listed is None else digest)
    if listed is not None and digest.hexdigest() != listed.lower():
        raise damaged_record(
            archive.full_name(name),
            f"the record is not the one that the manifest lists (SHA-256 {digest.hexdigest()}, not {listed[:64]})",
            ChecksumError,
        )


def _group_errors(archive: ArchiveReader, group: DigestGroup) -> Iterator[GraphwireError]:
    import hashlib

    digest, broken = hashlib.sha256(), False
    for name, size in group.sizes.items():
        if name not in archive:
            broken = True
            others = len(group.sizes) - 1
            problem = f"it is missing, so the digest that it shares with {others} records cannot be compared"
            yield damaged_record(name, problem, MissingRecordError)
            continue
        try:
            archive.verify(name, digest)
            if archive.size(name) != size:
                problem = f"the record has {archive.size(name):,} bytes, and the manifest lists {size:,}"
                raise damaged_record(archive.full_name(name), problem, ChecksumError)
        except GraphwireError as error:
            broken = True
            yield error
    if not broken and digest.hexdigest() != group.sha256.lower():
        first, *_, last = map(archive.full_name, [*group.sizes, *group.sizes])
        yield ChecksumError(
            f"of these {len(group.sizes)} records at least one is not the one that the manifest lists (SHA-256 of all of "
            f"them {digest.hexdigest()}, not {group.sha256[:64]})",
            place=f"records {first!r} to {last!r}",
            remedy=REMEDY,
        )


class SwappedRecord:
    """A big-endian record, presented as little-endian.

    Args:
        width: the size of one number in bytes: half an element if elements are complex.
    """

    __slots__ = ("_record", "_width", "nbytes")

    def __init__(self, record: Record, width: int) -> None:
        if record.nbytes % width:
            raise ArchiveError(
                f"a big-endian record of {record.nbytes:,} bytes is not a whole number of {width}-byte numbers"
            )
        self._record = record
        self._width = width
        self.nbytes = record.nbytes

    def verify(self) -> None:
        """Compare the bytes of the file with their checksum, as `ArchiveRecord.verify`."""
        if isinstance(self._record, ArchiveRecord):
            self._record.verify()

    def view(self) -> memoryview:
        """Return the bytes in little-endian order, in new memory."""
        source = self._record.view()
        swapped = allocate(self.nbytes)
        for index in range(self._width):
            swapped[index :: self._width] = source[self._width - 1 - index :: self._width]
        return swapped


def verify_records(records: Iterable[Record]) -> None:
    """Compare the bytes of those records that lie in an archive with its checksums, before their elements are used.

    Raises:
        ChecksumError: the bytes of a record are not those that were written.
    """
    for record in records:
        if isinstance(record, (ArchiveRecord, SwappedRecord)):
            record.verify()


# ---------------------- a folder of this machine that keeps records of remote files, each in a file named by its digest


_DIGEST = r"[0-9a-f]{64}\Z"
"""Digests come from files and become names of files."""


class RecordCache:
    """Keeps bytes by their digest. Files are written whole, and compared with their digest whenever they are used, so that any
    number of processes may share the folder, and whoever can write to a remote file cannot change what others read.

    Args:
        folder: the folder; it is created when something is kept.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        from graphwire.wire.weights.folder import Folder

        self._folder = Folder(folder, remedy=_REPAIR)

    def has(self, digest: str, kind: str = "sha256") -> bool:
        """Return whether there is a file for a digest. Its content may still be wrong."""
        found = self._open(_location(digest, kind))
        if found is not None:
            found.close()
        return found is not None

    def view(
        self,
        digest: str,
        nbytes: int,
        fetch: Callable[[], memoryview],
        digest_of: Callable[[memoryview], str],
        kind: str = "sha256",
    ) -> memoryview:
        """Return bytes: mapped from the folder, or fetched and kept there. They have the digest.

        Args:
            digest: in hexadecimal.
            fetch: returns the bytes if they are not in the folder, or are damaged there.
            digest_of: computes the digest.
            kind: names the digest: other kinds have other files.

        Raises:
            ChecksumError: the fetched bytes have another digest.
            ArchiveError: the way to the file leads over a link, or there is a folder in its place.
            OSError: the folder cannot be written.
        """
        location = _location(digest, kind)
        kept = self._mapped(location, nbytes)
        if kept is not None and digest_of(kept) == digest:
            return kept
        fetched = fetch()
        if (found := digest_of(fetched)) != digest:
            raise ChecksumError(
                f"the bytes are not the ones that were written (SHA-256 {found}, not {digest})", remedy=REMEDY
            )
        from graphwire.wire.archive.atomic_file import write_all

        with self._folder.create(location, replaces=True) as file:
            write_all(file, fetched)
        return fetched

    def _mapped(self, location: str, nbytes: int) -> memoryview | None:
        source = self._open(location)
        if source is None:
            return None
        try:
            return source.map(0, nbytes) if source.size == nbytes else None
        finally:
            source.close()

    def _open(self, location: str) -> FileSource | None:
        """Return the file at a location; None if there is none, or something else, which a new file replaces."""
        try:
            return self._folder.open(location)
        except ArchiveError:
            return None


def _location(digest: str, kind: str) -> str:
    return f"{kind}/{digest[:2]}/{digest[2:]}"


_REPAIR = "Remove it from the cache, or name another folder as cache="


class _Together:
    """Records of an archive that share a digest, and so a file."""

    def __init__(
        self, cache: RecordCache, archive: ArchiveReader, sizes: Mapping[str, int], sha256: str
    ) -> None:
        self.cache = cache
        self.sha256 = sha256
        self._archive = archive
        self._sizes = sizes
        self._view: memoryview | None = None
        """Kept if several records are in it."""

    def part(self, name: str) -> memoryview:
        """Return the bytes of one record."""
        view = self._view
        if view is None:
            view = self.cache.view(self.sha256, sum(self._sizes.values()), self._fetch, _sha256)
            self._view = view if len(self._sizes) > 1 else None
        start = 0
        for each, size in self._sizes.items():
            if each == name:
                return view[start : start + size]
            start += size
        raise KeyError(name)

    def _fetch(self) -> memoryview:
        if len(self._sizes) == 1:
            return self._archive.copy(next(iter(self._sizes)))
        self._archive.expect(self._sizes)
        memory, start = allocate(sum(self._sizes.values())), 0
        for name, size in self._sizes.items():
            memory[start : start + size] = self._archive.copy(name)
            start += size
        return memory


class _KeptRecord:
    """A record that is in the cache, or will be when it is read."""

    def __init__(self, name: str, nbytes: int, together: _Together, checksums: Mapping[str, str]) -> None:
        self.nbytes = nbytes
        self.checksums = checksums
        self._name = name
        self._together = together

    @property
    def is_kept(self) -> bool:
        """Whether reading it needs no remote file, unless the cache is damaged."""
        return self._together.cache.has(self._together.sha256)

    def view(self) -> memoryview:
        """Return the bytes, at an aligned address."""
        view = self._together.part(self._name)
        return copy_bytes(view) if view.nbytes and address(view) % ALIGNMENT else view


def keep_records(
    records: Mapping[str, Record], archive: ArchiveReader, manifest: Manifest, cache: RecordCache
) -> dict[str, Record]:
    """Return records of a remote archive that are read through a cache, if the manifest has their digests."""
    groups = [
        DigestGroup({name: archive.size(name)}, sha256)
        for name, sha256 in manifest.sha256.items()
        if name in archive
    ]
    kept: dict[str, Record] = dict(records)
    for group in (*groups, *manifest.together):
        if not re.match(_DIGEST, group.sha256) or any(
            name not in archive or archive.size(name) != size for name, size in group.sizes.items()
        ):
            continue
        together = _Together(cache, archive, group.sizes, group.sha256)
        for name, size in group.sizes.items():
            if name in records and records[name].nbytes == size:
                checksums = getattr(records[name], "checksums", {})
                kept[name] = _KeptRecord(name, size, together, checksums)
    return kept


def records_to_fetch(records: Mapping[str, Record]) -> list[str]:
    """Return the records that are not in a cache."""
    return [name for name, each in records.items() if not (isinstance(each, _KeptRecord) and each.is_kept)]


def _sha256(view: memoryview) -> str:
    import hashlib

    return hashlib.sha256(view).hexdigest()
