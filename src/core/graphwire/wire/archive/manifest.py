"""The manifest of an archive: a SHA-256 for every record, in a record of its own.

A CRC-32 shows damage; a digest shows that a record is the one that was written, to whoever trusts the manifest: by a
signature of the file, or by a digest kept elsewhere. Small payloads share digests, a few MiB together, so that a thread can
take them in one go (see `digests`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from itertools import chain

import msgspec

from graphwire.errors import ArchiveError, ChecksumError, GraphwireError, MissingRecordError
from graphwire.wire.archive.reader import DAMAGED_REMEDY, ArchiveReader

MANIFEST = "manifest.json"


class DigestGroup(msgspec.Struct):
    """Records that share a digest."""

    sizes: dict[str, int]
    """The bytes of each, by its name below the root folder, in the order in which they are hashed."""
    sha256: str
    """Of the bytes of all, one behind the other, in hexadecimal."""


class Manifest(msgspec.Struct, omit_defaults=True):
    """The digests of an archive's records, of their bytes when they are read."""

    sha256: dict[str, str]
    """By the record's name below the root folder, in hexadecimal."""
    together: list[DigestGroup] = []

    @property
    def names(self) -> list[str]:
        """Of the records that are listed."""
        return [*self.sha256, *chain.from_iterable(each.sizes for each in self.together)]


_MANIFESTS = msgspec.json.Decoder(Manifest)
"""Made here rather than at the first manifest, for the sake of threads; see `schema.trees.conversion`."""


def write_manifest(manifest: Manifest) -> bytes:
    """The manifest as a record."""
    return msgspec.json.encode(manifest)


def read_manifest(data: bytes) -> Manifest:
    """The manifest in a record.

    Raises:
        ArchiveError: it is none.
    """
    try:
        manifest = _MANIFESTS.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ArchiveError(f"the manifest is damaged: {error}", place=f"record {MANIFEST!r}") from None
    names = manifest.names
    if len(set(names)) != len(names):
        raise ArchiveError(
            "the manifest is damaged: it lists a record more than once", place=f"record {MANIFEST!r}"
        )
    return manifest


def manifest_errors(
    archive: ArchiveReader, manifest: Manifest, names: Collection[str]
) -> Iterator[GraphwireError]:
    """Read records in pieces, and compare their checksums, and their digests where the manifest has some.

    Args:
        names: the records. Those that share a digest with one of them are read, too.

    Yields:
        An error for each record that is not what was written, or for all that share a digest, as `ArchiveReader.verify`
        raises them; and for each that is missing of those that share one.
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
    if listed is None:
        archive.verify(name)
        return
    digest = hashlib.sha256()
    archive.verify(name, digest)
    if digest.hexdigest() != listed.lower():
        raise ChecksumError(
            f"the record is not the one that the manifest lists (SHA-256 {digest.hexdigest()}, not {listed[:64]})",
            place=f"record {archive.full_name(name)!r}",
            remedy=DAMAGED_REMEDY,
        )


def _group_errors(archive: ArchiveReader, group: DigestGroup) -> Iterator[GraphwireError]:
    digest, broken = hashlib.sha256(), False
    for name, size in group.sizes.items():
        if name not in archive:
            broken = True
            others = len(group.sizes) - 1
            yield MissingRecordError(
                f"it is not there, so the digest that it shares with {others} records cannot be compared",
                place=f"record {name!r}",
                remedy=DAMAGED_REMEDY,
            )
            continue
        try:
            archive.verify(name, digest)
            if archive.size(name) != size:
                raise ChecksumError(
                    f"the record has {archive.size(name):,} bytes, and the manifest lists {size:,}",
                    place=f"record {archive.full_name(name)!r}",
                    remedy=DAMAGED_REMEDY,
                )
        except GraphwireError as error:
            broken = True
            yield error
    if not broken and digest.hexdigest() != group.sha256.lower():
        first, *_, last = map(archive.full_name, [*group.sizes, *group.sizes])
        yield ChecksumError(
            f"of these {len(group.sizes)} records at least one is not the one that the manifest lists (SHA-256 of all of "
            f"them {digest.hexdigest()}, not {group.sha256[:64]})",
            place=f"records {first!r} to {last!r}",
            remedy=DAMAGED_REMEDY,
        )
