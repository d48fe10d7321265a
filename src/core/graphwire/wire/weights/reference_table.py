"""Reads and writes the table of references: the archive's record that names where weights are outside of it."""

from __future__ import annotations

import itertools
import math
import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from graphwire.errors import ArchiveError, Problem, WeightsError
from graphwire.process import TYPE_ANALYSIS
from graphwire.schema import (
    ITEM_SIZES,
    MAX_DIMENSIONS,
    MAX_ELEMENTS,
    RecordReference,
    Region,
    StoreReference,
    WeightReferences,
)
from graphwire.wire.payloads import WEIGHTS
from graphwire.wire.plain_trees import decode_json_record
from graphwire.wire.weights.boxes import is_dense, row_major

# --------------------------------------------------- which locations of files are plain relative ones, on every system?


_MOST_CHARACTERS = 4096
_MOST_NAME_BYTES = 255
_RESERVED: Final = frozenset(
    "con prn aux nul com1 com2 com3 com4 com5 com6 com7 com8 com9 lpt1 lpt2 lpt3 lpt4 lpt5 lpt6 lpt7 lpt8 lpt9".split()
)
"""Names of devices on Windows, with any ending."""
_FORBIDDEN: Final = frozenset('\\:*?"<>|')


def location_problem(location: str) -> str:
    """Return why a location is not a plain relative one that every system accepts; empty if it is.

    A plain location has names of printable characters, with `/` between them: no `..`, no root, drive, URL or stream.
    """
    if not location or len(location) > _MOST_CHARACTERS:
        return "it is empty" if not location else f"it has more than {_MOST_CHARACTERS:,} characters"
    if "://" in location:
        return "it is a URL"
    for name in location.split("/"):
        if name in ("", ".", ".."):
            return "it is absolute, or has an empty name, `.` or `..`"
        if not name.isprintable() or not _FORBIDDEN.isdisjoint(name):
            return 'it has characters that a portable name lacks (\\ : * ? " < > |, or unprintable ones)'
        if name.endswith((".", " ")) or name.partition(".")[0].lower() in _RESERVED:
            return "it has a name that some systems do not allow"
        try:
            if len(name.encode()) > _MOST_NAME_BYTES:
                return f"it has a name of more than {_MOST_NAME_BYTES} bytes"
        except UnicodeEncodeError:
            return "it is not valid Unicode"
    return ""


def check_location(location: str) -> list[str]:
    """Return the names of a plain relative location.

    Raises:
        ArchiveError: it is not one.
    """
    if problem := location_problem(location):
        raise ArchiveError(
            f"{location!r:.200} is not a location below the folder: {problem}",
            remedy="A location has plain names with `/` between them. To use other files, pass weights=",
        )
    return location.split("/")


REFERENCES = f"{WEIGHTS}references.json"
"""The archive's record with the references."""
_MOST_BYTES = 1 << 62
with TYPE_ANALYSIS:
    _TABLES = msgspec.json.Decoder(WeightReferences)
_DIGEST = r"(?a)[0-9a-f]{64}"
RANK_REMEDY = "Pass rank=, such as torch.distributed.get_rank()"
_A_RANK = "Pass an integer, such as torch.distributed.get_rank()"
_KIND = r"(?a)[a-z][a-z0-9_]*"


def write_references(references: WeightReferences) -> bytes:
    """Encode references as the bytes of their record."""
    return msgspec.json.encode(references)


def read_references(data: bytes) -> WeightReferences:
    """Decode references, and check that they describe possible records.

    Raises:
        ArchiveError: the bytes are not references.
        WeightsError: a location leaves the folder, or regions do not fit; the error lists all problems.
    """
    references = decode_json_record(_TABLES, data, "the references to weights are", f"record {REFERENCES!r}")
    problems = [*_store_problems(references.stores), *_record_problems(references)]
    if problems:
        place = f"record {REFERENCES!r}"
        raise WeightsError(problems, place=place, remedy="The file is damaged or hostile; write it again")
    return references


def check_rank(name: str, rank: object) -> int | None:
    """Return a rank, or a number of ranks, after a check that it is an integer or None.

    Args:
        name: the argument, for messages.

    Raises:
        ArchiveError: it is something else.
    """
    if rank is None:
        return None
    if not isinstance(rank, bool):
        with suppress(TypeError):
            return operator.index(rank)  # type: ignore[arg-type]
    raise ArchiveError(f"{name}={rank!r:.80} is not an integer", remedy=_A_RANK)


def records_of_rank(references: WeightReferences, rank: int | None) -> Mapping[str, RecordReference]:
    """Return the records that one rank of a program has.

    Args:
        rank: the rank; None for a program that is not divided. The records of all ranks have equal names and sizes.

    Raises:
        ArchiveError: there is no such rank.
    """
    count = len(references.ranks)
    if rank is not None and not count:
        raise ArchiveError(
            f"there is no rank {rank}: the weights are not divided between ranks",
            remedy="Leave rank= out: all ranks load the same weights",
        )
    if rank is not None and not 0 <= rank < count:
        raise ArchiveError(
            f"there is no rank {rank}: the weights are divided between {count} ranks",
            remedy=f"Pass rank= from 0 to {count - 1}",
        )
    return {**references.records, **references.ranks[rank or 0]} if count else references.records


def _store_problems(stores: Sequence[StoreReference]) -> Iterator[Problem]:
    for index, store in enumerate(stores):
        place = f"stores[{index}]"
        if re.fullmatch(_KIND, store.kind) is None:
            yield Problem(place, "kind", f"{store.kind!r:.80} is not the name of a kind of store")
        named = [("location", store.location), ("folder", store.folder or "")]
        named = [(what, text) for what, text in named if text]
        for what, text in [*named, *(("file", name) for name in store.files)]:
            if problem := location_problem(text):
                yield Problem(
                    place, "location", f"the {what} {text!r:.200} is not below the folder: {problem}"
                )
        for name, facts in store.files.items():
            if not 0 <= facts.nbytes <= _MOST_BYTES:
                yield Problem(place, "size", f"the file {name!r:.200} has {facts.nbytes} bytes")
            if facts.index_sha256 and re.fullmatch(_DIGEST, facts.index_sha256) is None:
                yield Problem(place, "digest", f"the digest of the file {name!r:.200} is not a SHA-256")


def _record_problems(references: WeightReferences) -> Iterator[Problem]:
    for table in (references.records, *references.ranks):
        for name, record in table.items():
            place = f"records[{name!r:.200}]"
            if not name.startswith(WEIGHTS) or location_problem(name) or name == REFERENCES:
                yield Problem(place, "name", "it is not the name of a record of weights")
            if not 0 <= record.nbytes <= _MOST_BYTES:
                yield Problem(place, "size", f"the record has {record.nbytes} bytes")
                continue
            if record.sha256 and re.fullmatch(_DIGEST, record.sha256) is None:
                yield Problem(place, "digest", "the digest is not a SHA-256")
            yield from regions_problems(record, len(references.stores), place)
    sizes = [{name: record.nbytes for name, record in table.items()} for table in references.ranks]
    if any(each != sizes[0] for each in sizes[1:]):
        yield Problem("ranks", "size", "the ranks have other records, or records of other sizes")


def regions_problems(
    record: RecordReference, stores: int, place: str, *, partly: bool = False
) -> Iterator[Problem]:
    """Yield what is wrong with the regions of a record: a box out of range, or bytes that no region or two make.

    Args:
        stores: how many stores there are.
        place: the start of each problem's place.
        partly: whether regions may leave bytes open, or overlap.
    """
    total, spans = 0, []
    for index, region in enumerate(record.regions):
        where = f"{place}.regions[{index}]"
        if problem := _region_problem(region, stores):
            yield Problem(where, "region", problem)
            return
        item = ITEM_SIZES[region.dtype]
        counts = counts_of(region)
        nbytes = math.prod(counts) * item
        strides = strides_of(region)
        reach = (
            sum((count - 1) * stride for count, stride in zip(counts, strides, strict=True)) if nbytes else -1
        )
        last = (region.offset + reach + 1) * item
        if last > record.nbytes:
            yield Problem(where, "region", f"it reaches byte {last:,} of a record of {record.nbytes:,}")
            return
        total += nbytes
        if nbytes and is_dense(counts, strides):
            spans.append((region.offset * item, last))
        if total > record.nbytes and not partly:
            break  # a hostile table may have very many
    if partly:
        return
    spans.sort()
    if any(low < high for (_, high), (low, _) in itertools.pairwise(spans)):
        yield Problem(place, "region", "two regions make the same bytes")
    elif record.regions and total != record.nbytes:
        yield Problem(place, "region", f"the regions make {total:,} bytes of a record of {record.nbytes:,}")


def _region_problem(region: Region, stores: int) -> str:
    if not 0 <= region.store < stores:
        return f"there is no store {region.store}"
    if region.dtype not in ITEM_SIZES:
        return f"the element type {region.dtype!r:.80} is unknown"
    shape = region.shape
    if len(shape) > MAX_DIMENSIONS or any(not 0 <= size <= MAX_ELEMENTS for size in shape):
        return "the stored tensor has sizes that no tensor has"
    if math.prod(size or 1 for size in shape) > MAX_ELEMENTS:
        return "the stored tensor has more elements than can be counted"
    if not 0 <= region.offset <= MAX_ELEMENTS:
        return "its offset is out of range"
    if region.box is not None:
        if len(region.box) != len(shape) or any(len(side) != 3 for side in region.box):
            return "its box has other dimensions than the stored tensor"
        for size, (first, count, step) in zip(shape, region.box, strict=True):
            if first < 0 or count < 0 or step < 1 or (count and first + (count - 1) * step >= size):
                return f"its box takes {count} from {first} in steps of {step}, of a dimension of {size}"
    if region.strides is not None:
        if len(region.strides) != len(shape):
            return "it has other strides than dimensions"
        counts = counts_of(region)
        for count, stride in zip(counts, region.strides, strict=True):
            if not 0 <= stride <= MAX_ELEMENTS or (count > 1 and stride == 0):
                return "its strides are out of range"
    return ""


def counts_of(region: Region) -> list[int]:
    """Return the sizes of a region's box."""
    return list(region.shape) if region.box is None else [count for _, count, _ in region.box]


def strides_of(region: Region) -> list[int]:
    """Return the strides of a region in its record, in elements."""
    return row_major(counts_of(region)) if region.strides is None else region.strides


def used_files(references: WeightReferences, records: Iterable[RecordReference]) -> set[int]:
    """Return the indexes of the stores that records need."""
    return {region.store for record in records for region in record.regions}
