"""The manifest of an archive: a record with SHA-256 digests that cover every other record.

A CRC-32 detects damage. A digest also detects an exchanged record, if the reader trusts the manifest, by a signature of the
file or by a digest kept elsewhere. Small payloads share digests in groups of a few MiB, so that a thread can hash a group at
once (see `digests`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain

import msgspec

from graphwire.errors import ArchiveError, ChecksumError, GraphwireError, MissingRecordError
from graphwire.process import TYPE_ANALYSIS
from graphwire.wire.archive.reader import REMEDY, ArchiveReader, damaged_record
from graphwire.wire.plain_trees import decode_json_record

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
    if len(set(names)) != len(names):
        raise ArchiveError(
            "the manifest is damaged: it lists a record more than once", place=f"record {MANIFEST!r}"
        )
    return manifest


def manifest_errors(
    archive: ArchiveReader, manifest: Manifest, names: Collection[str]
) -> Iterator[GraphwireError]:
    """Check records against their checksums and the digests in the manifest, reading them in pieces.

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
