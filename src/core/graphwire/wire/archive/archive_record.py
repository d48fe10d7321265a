"""Payload records of an open archive: mapped from the file, or copied and checked."""

from __future__ import annotations

from graphwire.errors import ArchiveError
from graphwire.wire import ALIGNMENT, Record, address, allocate
from graphwire.wire.archive.reader import ArchiveReader, RunningChecksum


class ArchiveRecord:
    """A payload record of an open archive.

    Args:
        copied: whether each view is a checked copy in memory, not a mapping.
    """

    __slots__ = ("_archive", "_copied", "_name", "nbytes")

    def __init__(self, archive: ArchiveReader, name: str, *, copied: bool) -> None:
        self._archive = archive
        self._name = name
        self._copied = copied
        self.nbytes = archive.size(name)

    @property
    def checksums(self) -> dict[str, str]:
        """The checksums of its bytes that the archive lists, by kind. Nothing is read."""
        crc = self._archive.listed_crc(self._name)
        return {"CRC-32": f"{crc:08x}"} if crc else {}  # torch can be told to write none

    @property
    def lends(self) -> bool:
        """Whether views are mapped from a file; otherwise each view is a copy."""
        archive, name = self._archive, self._name
        if self._copied or not (archive.is_mapped and archive.is_stored(name)):
            return False
        return archive.offset(name) % ALIGNMENT == 0

    def view(self) -> memoryview:
        """Return the bytes, mapped from the file.

        The bytes are a checked copy if the caller chose copies, the record is deflated, or its offset is not a multiple of
        `ALIGNMENT`. (torch aligns records, but releases up to 2.7 do not align an archive inside an archive.)
        """
        if self._copied or not self._archive.is_stored(self._name):
            return self._archive.copy(self._name)
        view = self._archive.map(self._name)
        if self.nbytes and address(view) % ALIGNMENT:
            return self._archive.copy(self._name)
        return view


class StoredRecord(ArchiveRecord):
    """A payload record that is stored without compression, so that its ranges can be read (a `RangedRecord`)."""

    __slots__ = ()

    def read_into(self, offset: int, memory: memoryview) -> None:
        """Fill `memory` with the bytes that begin at `offset`, read from the file and not mapped.

        Raises:
            ArchiveError: the archive is closed or damaged, the range is not inside the record, or the file became shorter.
        """
        self._archive.read_into(self._name, offset, memory)

    def check(self) -> RunningChecksum | None:
        """Return a check of the CRC-32 if the caller chose checked copies."""
        return self._archive.checksum(self._name) if self._copied else None


def payload_record(archive: ArchiveReader, name: str, *, copied: bool) -> ArchiveRecord:
    """Return a record of an open archive.

    Args:
        copied: as in `ArchiveRecord`.

    Raises:
        MissingRecordError: the archive has no such record.
    """
    return (StoredRecord if archive.is_stored(name) else ArchiveRecord)(archive, name, copied=copied)


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

    def view(self) -> memoryview:
        """Return the bytes in little-endian order, in new memory."""
        source = self._record.view()
        swapped = allocate(self.nbytes)
        for index in range(self._width):
            swapped[index :: self._width] = source[self._width - 1 - index :: self._width]
        return swapped
