"""A record whose bytes are in a weight store: mapped if it is one stored tensor, otherwise copied together from regions."""

from __future__ import annotations

from graphwire.errors import ChecksumError, GraphwireError
from graphwire.registry.interfaces import Chunk
from graphwire.schema import ITEM_SIZES, RecordReference, Region
from graphwire.wire.archive.digests import CHUNK_BYTES, ChunkDigest, chunk_digest
from graphwire.wire.archive.source import FileSource, allocate
from graphwire.wire.remote_files import RemoteSource
from graphwire.wire.weights import reference_table
from graphwire.wire.weights.opened_stores import OpenedStores, is_read_by_store

_MAPPED_AGAIN_BYTES = 1 << 20
"""In bytes. Records of this size that share stored bytes with another record get a mapping of their own; smaller ones are copied.
Each mapping holds a descriptor."""


_ZEROS = memoryview(bytes(1 << 16))


class ExternalRecord:
    """A record of weights outside of the program's file. Its bytes can be read in ranges (`RangedRecord`).

    Args:
        stores: the stores, open.
        name: the record's name, for messages.
        reference: the regions that make it.
        copied: whether each view is a checked copy in memory, not a mapping, as it always is of remote stores, and of stores
            that read bytes by themselves.
    """

    __slots__ = ("_copied", "_is_covered", "_name", "nbytes", "reference", "stores")

    def __init__(
        self, stores: OpenedStores, name: str, reference: RecordReference, *, copied: bool = False
    ) -> None:
        self.stores = stores
        self._name = name
        self._copied = copied or stores.is_remote
        self.reference = reference
        self.nbytes = reference.nbytes
        self._is_covered: bool | None = None

    @property
    def is_checked(self) -> bool:
        """Whether each view is a checked copy.

        Raises:
            WeightsError: a tensor is missing, or has another type or shape.
        """
        return self._copied or any(
            is_read_by_store(self.stores.tensor(each)) for each in self.reference.regions
        )

    @property
    def checksums(self) -> dict[str, str]:
        """The digest of its bytes that the program's file lists; none if the caller chose other weights. Nothing is read."""
        stated, kind = (
            self.reference.sha256,
            "SHA-256" if self._digest_kind == "sha256" else "SHA-256 of chunks",
        )
        return {kind: stated} if stated and self.stores.checked and not self.stores.unusable else {}

    @property
    def _digest_kind(self) -> str:
        """The name of its digest in a cache: of few bytes it is their SHA-256."""
        return "sha256" if self.nbytes <= CHUNK_BYTES else "chunks"

    @property
    def lends(self) -> bool:
        """Whether views are mapped from a file; otherwise each view is a copy."""
        return not self._copied and self._mapped_range() is not None

    def read_into(self, offset: int, memory: memoryview) -> None:
        """Fill `memory` with the bytes that begin at `offset`, read from the files and not mapped. Bytes of no region are 0.

        Raises:
            WeightsError: a tensor is missing, or has another type or shape.
            ArchiveError: a file is missing or became shorter.
        """
        regions = self.reference.regions
        item = max((ITEM_SIZES[each.dtype] for each in regions), default=1)
        before, after = offset % item, -(offset + memory.nbytes) % item
        if before or after:  # a part of an element
            whole = allocate(before + memory.nbytes + after)
            self.read_into(offset - before, whole)
            memory[:] = whole[before : before + memory.nbytes]
            return
        if not self._covered():
            for start in range(0, memory.nbytes, len(_ZEROS)):
                part = memory[start : start + len(_ZEROS)]
                part[:] = _ZEROS[: part.nbytes]
        for region in regions:
            try:
                self._read_region(region, offset, memory)
            except GraphwireError as error:
                if not error.place:
                    error.within(self._name)
                raise

    def expect(self) -> None:
        """Announce that all bytes are going to be read: those of remote files are fetched ahead, in parallel."""
        kept = self.stores.cache is not None and self.stores.cache.has(
            self.reference.sha256 or "", self._digest_kind
        )
        for region in self.reference.regions if self.stores.is_remote and not kept else ():
            item = ITEM_SIZES[region.dtype]
            for chunk in self.stores.tensor(region).chunks:
                met = _meet(region, chunk)
                if met is not None and isinstance(chunk.file, str):
                    start = chunk.offset + met.source * item
                    reach = sum((axis.size - 1) * axis.source for axis in met.axes)
                    source = self.stores.source(region.store, chunk.file)
                    source.expect([(start, start + (reach + 1) * item)])

    def check(self) -> _RunningDigest | None:
        """Return a check of the digest if the caller chose checked copies."""
        return _RunningDigest(self) if self.is_checked else None

    def view(self) -> memoryview:
        """Return the bytes: mapped if the record is one whole stored tensor, otherwise copied.

        Raises:
            WeightsError: a tensor is missing, or has another type or shape.
            ChecksumError: the caller asked for checked copies, and the bytes are not those that were saved.
            ArchiveError: a file is missing or became shorter.
        """
        found = None if self._copied else self._mapped_range()
        if found is not None:
            source, offset = found
            if self.stores.is_first(source, offset, self.nbytes, self._name):
                return source.map(offset, self.nbytes)
            if self.nbytes >= _MAPPED_AGAIN_BYTES:
                return source.map_anew(offset, self.nbytes)
        cache, stated = self.stores.cache, self.reference.sha256
        if cache is not None and stated and self.stores.checked and self.stores.is_remote:
            return cache.view(stated, self.nbytes, self._checked_copy, chunk_digest, self._digest_kind)
        return self._checked_copy()

    def verify(self) -> None:
        """Compare the bytes with the recorded digest, if there is one. Reads them in chunks where they are together.

        Raises:
            ChecksumError: they are not those that were saved.
        """
        found = self._range()
        if not self.reference.sha256 or not self.stores.checked:
            if found is None:
                self._copy()
            return
        in_chunks = found is None or not self.stores.maps or self.stores.is_remote
        whole = self._copy() if found is None or in_chunks else _bytes_at(*found, self.nbytes)
        self.check_digest(chunk_digest(whole))

    def check_digest(self, digest: str) -> None:
        """Raise unless the digest of the bytes is the recorded one. Nothing is recorded of bytes that nobody read.

        Raises:
            ChecksumError: it is another one.
        """
        stated = self.reference.sha256
        if stated and self.stores.checked and digest != stated:
            tensors = ", ".join(dict.fromkeys(repr(each.tensor) for each in self.reference.regions[:3]))
            raise ChecksumError(
                f"the elements are not those that were saved (stored tensor {tensors}; SHA-256 {digest}, not {stated})",
                place=f"record {self._name!r}",
                remedy="Restore the file, or pass weights= to use other weights on purpose",
            )

    # ---------------------------------------------------------------------------------------------------------- regions

    def _mapped_range(self) -> tuple[FileSource | RemoteSource, int] | None:
        """Return where the record can be mapped: it is a whole tensor, which begins at a multiple of its element size."""
        (region, *others) = self.reference.regions or (None,)
        if region is None or others or region.box is not None or self.nbytes == 0 or not self.stores.maps:
            return None
        found = self._range()
        return found if found is not None and found[1] % ITEM_SIZES[region.dtype] == 0 else None

    def _range(self) -> tuple[FileSource | RemoteSource, int] | None:
        """Return the file and the offset of the record's bytes, if they are together."""
        if len(self.reference.regions) != 1:
            return None
        (region,) = self.reference.regions
        counts = reference_table.counts_of(region)
        if region.offset or not reference_table.is_contiguous(counts, reference_table.strides_of(region)):
            return None
        tensor = self.stores.tensor(region)
        if len(tensor.chunks) != 1 or not _is_run(region):
            return None
        chunk = tensor.chunks[0]
        if not isinstance(chunk.file, str):
            return None
        if chunk.strides is not None and not reference_table.is_contiguous(chunk.sizes, chunk.strides):
            return None
        if self.nbytes != _box_bytes(counts, region.dtype):
            return None
        firsts = [0] * len(counts) if region.box is None else [first for first, _, _ in region.box]
        skipped = sum(
            first * stride
            for first, stride in zip(firsts, reference_table.row_major(region.shape), strict=True)
        )
        source = self.stores.source(region.store, chunk.file)
        return source, chunk.offset + skipped * ITEM_SIZES[region.dtype]

    def _checked_copy(self) -> memoryview:
        memory = self._copy()
        if self.is_checked:
            self.check_digest(chunk_digest(memory))
        return memory

    def _copy(self) -> memoryview:
        self.expect()
        memory = allocate(self.nbytes)
        self.read_into(0, memory)
        return memory

    def _covered(self) -> bool:
        """Return whether it is certain that regions make each byte."""
        if self._is_covered is None:
            spans = sorted(map(_dense_span, self.reference.regions))
            ends = [0, *(high for _, high in spans)]
            self._is_covered = [low for low, _ in spans] == ends[:-1] and ends[-1] == self.nbytes
        return self._is_covered

    def _read_region(self, region: Region, offset: int, memory: memoryview) -> None:
        item = ITEM_SIZES[region.dtype]
        low, high = offset // item, (offset + memory.nbytes) // item
        for chunk in self.stores.tensor(region).chunks:
            met = _meet(region, chunk)
            for part in () if met is None else reference_table.parts_in_range(met, low, high):
                source = self.stores.bytes_of(region.store, chunk)
                start = chunk.offset + part.source * item
                reference_table.copy_box(source, start, memory, (part.target - low) * item, part.axes, item)


class _RunningDigest:
    """Compares the bytes of a record with its digest while they are read."""

    def __init__(self, record: ExternalRecord) -> None:
        self._record = record
        self._digest = ChunkDigest(record.nbytes)

    def update(self, chunk: memoryview) -> None:
        self._digest.update(chunk)

    def finish(self) -> None:
        self._record.check_digest(self._digest.hexdigest())


def _dense_span(region: Region) -> tuple[int, int]:
    """Return the bytes of a record that a region makes, from the first to the last; (-1, -1) if there are gaps between them."""
    counts, strides = reference_table.counts_of(region), reference_table.strides_of(region)
    if not reference_table.is_dense(counts, strides):
        return -1, -1
    first = region.offset * ITEM_SIZES[region.dtype]
    return first, first + _box_bytes(counts, region.dtype)


def _box_bytes(counts: list[int], dtype: str) -> int:
    total = ITEM_SIZES[dtype]
    for count in counts:
        total *= count
    return total


def _is_run(region: Region) -> bool:
    """Return whether the box of a region is contiguous in the stored tensor."""
    if region.box is None:
        return True
    whole = True  # of the dimensions further in
    for size, (_, count, step) in reversed(list(zip(region.shape, region.box, strict=True))):
        if count != 1 and not whole:
            return False
        if count != 1 and step != 1:
            return False
        whole = whole and count == size
    return True


def _meet(region: Region, chunk: Chunk) -> reference_table.Part | None:
    """Return the part of a region's box that lies in a chunk, as a copy from the chunk to the record. None if there is none."""
    axes: list[reference_table.Axis] = []
    there, here = 0, region.offset
    sides = region.box or [[0, size, 1] for size in region.shape]
    inside = chunk.strides or reference_table.row_major(chunk.sizes)
    strides = reference_table.strides_of(region)
    for (first, count, step), start, size, source, target in zip(
        sides, chunk.start, chunk.sizes, inside, strides, strict=True
    ):
        low = max(0, -((first - start) // step))
        high = min(count - 1, (start + size - 1 - first) // step)
        if high < low:
            return None
        axes.append(reference_table.Axis(high - low + 1, step * source, target))
        there += (first + low * step - start) * source
        here += low * target
    return reference_table.Part(axes, there, here)


def _bytes_at(source: FileSource | RemoteSource, offset: int, nbytes: int) -> memoryview:
    """Return bytes of a file: in memory if they are few, and mapped if they are many."""
    if nbytes <= CHUNK_BYTES:
        return memoryview(source.read_at(offset, nbytes))
    return source.map(offset, nbytes)
