"""Records of bytes as they come from an archive: mapped where that is safe, copied and checked where it is not."""

from __future__ import annotations

from graphwire.errors import ArchiveError
from graphwire.wire import ALIGNMENT, Record, address, allocate
from graphwire.wire.archive.reader import ArchiveReader


class ArchiveRecord:
    """A record of an open archive.

    Args:
        copied: read the record into memory and check it, rather than map it, when it is asked for.
    """

    __slots__ = ("_archive", "_copied", "_name", "nbytes")

    def __init__(self, archive: ArchiveReader, name: str, *, copied: bool) -> None:
        self._archive = archive
        self._name = name
        self._copied = copied
        self.nbytes = archive.size(name)

    @property
    def lends(self) -> bool:
        """Whether the bytes are mapped from a file; else each view is a copy."""
        archive, name = self._archive, self._name
        if self._copied or not (archive.is_mapped and archive.is_stored(name)):
            return False
        return archive.offset(name) % ALIGNMENT == 0

    def view(self) -> memoryview:
        """The bytes: mapped from the file, or read and checked where a copy was asked for, where the record is packed, and
        where it does not lie at a multiple of `ALIGNMENT`. (torch aligns records, but up to 2.7 not the archives in archives.)
        """
        if self._copied or not self._archive.is_stored(self._name):
            return self._archive.copy(self._name)
        view = self._archive.map(self._name)
        if self.nbytes and address(view) % ALIGNMENT:
            return self._archive.copy(self._name)
        return view


class SwappedRecord:
    """A record in the other byte order.

    Args:
        width: bytes of one number; half an element where elements are complex.
    """

    __slots__ = ("_record", "_width", "nbytes")

    def __init__(self, record: Record, width: int) -> None:
        if record.nbytes % width:
            raise ArchiveError(
                f"a big-endian record of {record.nbytes:,} bytes is no row of {width}-byte numbers"
            )
        self._record = record
        self._width = width
        self.nbytes = record.nbytes

    def view(self) -> memoryview:
        """The bytes in little-endian order, in new memory."""
        source = self._record.view()
        swapped = allocate(self.nbytes)
        for index in range(self._width):
            swapped[index :: self._width] = source[self._width - 1 - index :: self._width]
        return swapped
