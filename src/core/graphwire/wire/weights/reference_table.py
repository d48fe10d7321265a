"""Reads and writes the table of references: the archive's record that names where weights are outside of it.

A weight may be a box of a stored tensor: a slice, a part of a concatenation, a transpose. Boxes are copied without torch.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, Protocol

import msgspec

from graphwire import schema
from graphwire.errors import ArchiveError, Problem, WeightsError
from graphwire.process import TYPE_ANALYSIS
from graphwire.wire.document import decode_json_record
from graphwire.wire.payloads import WEIGHTS


def store_requirements(references: schema.WeightReferences) -> list[schema.PluginRequirement]:
    """Return the plugins of the stores that a file refers to, as far as the file names them."""
    used = sorted({each.kind for each in references.stores} & references.providers.keys())
    return [
        msgspec.structs.replace(references.providers[kind], provides=[f"weight_store:{kind}"])
        for kind in used
        if references.providers[kind].is_installable
    ]


_FORMATS: Final[Mapping[int, Literal["B", "H", "I", "Q"]]] = {1: "B", 2: "H", 4: "I", 8: "Q"}
_FEW_BYTES = 4096
"""In bytes. Runs shorter than this, with gaps shorter than this, are read together: a disk reads whole pages anyway."""
_CHUNK_BYTES = 2 << 20
"""In bytes. At most this much is read at once, unless it goes where it belongs directly. Several threads may do so."""


_MOST_DIVIDED = 6
"""Dimensions along which one tensor may be divided. Real meshes have four at most, and each more doubles the work."""


class Bytes(Protocol):
    """Bytes that can be read at any offset."""

    def read_at(self, offset: int, size: int) -> bytes:
        """Return exactly the bytes of a range."""

    def read_into(self, offset: int, memory: memoryview) -> None:
        """Fill memory with the bytes that begin at an offset."""


class Axis(msgspec.Struct, frozen=True):
    """One dimension of a copy."""

    size: int
    source: int
    """From one element to the next in the source, in elements."""
    target: int
    """From one element to the next in the target, in elements."""


def row_major(sizes: Sequence[int]) -> list[int]:
    """Return the strides of a contiguous tensor, in elements."""
    strides, step = [0] * len(sizes), 1
    for index in reversed(range(len(sizes))):
        strides[index] = step
        step *= max(sizes[index], 1)
    return strides


def is_contiguous(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether strides are those of a contiguous tensor, as far as they matter."""
    return 0 in sizes or all(
        size == 1 or stride == wanted
        for size, stride, wanted in zip(sizes, strides, row_major(sizes), strict=True)
    )


def is_dense(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether the elements of a tensor are different, and lie together without gaps, in any order of dimensions."""
    step = 1
    for stride, size in sorted(
        (stride, size) for size, stride in zip(sizes, strides, strict=True) if size != 1
    ):
        if stride != step:
            return 0 in sizes
        step *= size
    return True


def tiles(shape: Sequence[int], boxes: Sequence[tuple[Sequence[int], Sequence[int]]]) -> bool:
    """Return whether boxes cover each element of a tensor once. They lie within it.

    The corners of a box have alternating signs. Where boxes meet, corners cancel; boxes that make the whole leave the corners of
    the whole, and no other set of boxes does.

    Args:
        boxes: the first index and the sizes of each.

    Raises:
        ArchiveError: the tensor is divided along more than `_MOST_DIVIDED` dimensions.
    """
    boxes = [box for box in boxes if 0 not in box[1]]
    divided = [
        dimension
        for dimension, size in enumerate(shape)
        if any(sizes[dimension] != size for _, sizes in boxes)
    ]
    if 0 in shape or not boxes:
        return 0 in shape and not boxes
    if len(divided) > _MOST_DIVIDED:
        raise ArchiveError(f"a tensor is divided along {len(divided)} dimensions, more than {_MOST_DIVIDED}")
    corners: Counter[tuple[int, ...]] = Counter()
    for start, sizes in boxes:
        for ends in itertools.product((0, 1), repeat=len(divided)):
            corner = tuple(start[axis] + end * sizes[axis] for axis, end in zip(divided, ends, strict=True))
            corners[corner] += (-1) ** sum(ends)
    whole = {
        tuple(end * shape[axis] for axis, end in zip(divided, ends, strict=True)): (-1) ** sum(ends)
        for ends in itertools.product((0, 1), repeat=len(divided))
    }
    return {corner: count for corner, count in corners.items() if count} == whole


class Part(msgspec.Struct, frozen=True):
    """A part of a copy."""

    axes: list[Axis]
    source: int
    """The first element in the source."""
    target: int
    """The first element in the target."""


def parts_in_range(whole: Part, low: int, high: int) -> Iterator[Part]:
    """Yield parts of a copy that together have the elements whose places in the target are in a range.

    Args:
        whole: the copy. Its elements have different places in the target.
        low: the first place, in elements of the target.
        high: one past the last.
    """
    axes = sorted(_merged(whole.axes), key=lambda each: -each.target)
    reaches = [0]
    """For each number of inner dimensions, from the first to the last of their elements in the target."""
    for axis in reversed(axes):
        reaches.append(reaches[-1] + (axis.size - 1) * axis.target)

    def parts(outer: int, source: int, target: int) -> Iterator[Part]:
        inner = axes[outer:]
        reach = reaches[len(inner)]
        if target >= high or target + reach < low:
            return
        if low <= target and target + reach < high:
            yield Part(inner, source, target)
            return
        axis, reach = inner[0], reaches[len(inner) - 1]
        touched = range(
            max(0, -((target + reach - low) // axis.target)),
            min(axis.size, (high - 1 - target) // axis.target + 1),
        )
        inside = range(
            max(0, -((target - low) // axis.target)),
            min(axis.size, (high - 1 - target - reach) // axis.target + 1),
        )
        if inside:
            begin = inside[0]
            shorter = Axis(len(inside), axis.source, axis.target)
            yield Part([shorter, *inner[1:]], source + begin * axis.source, target + begin * axis.target)
        for index in touched:
            if index not in inside:
                yield from parts(outer + 1, source + index * axis.source, target + index * axis.target)

    if all(axis.size for axis in whole.axes):
        yield from parts(0, whole.source, whole.target)


def copy_box(
    source: Bytes, start: int, target: memoryview, first: int, axes: Sequence[Axis], item: int
) -> None:
    """Copy the elements of a box.

    Args:
        source: where to read.
        start: the byte of the first element in the source.
        target: writable bytes.
        first: the byte of the first element in the target.
        axes: the dimensions.
        item: the size of an element, in bytes.
    """
    if any(axis.size == 0 for axis in axes):
        return
    if item not in _FORMATS:  # two numbers, such as complex128
        axes = [*(Axis(each.size, each.source * 2, each.target * 2) for each in axes), Axis(2, 1, 1)]
        item //= 2
    merged = _merged(axes)
    *outer, inner = merged
    if inner.source == inner.target == 1:
        _copy_runs(source, start, target, first, outer, inner.size * item, item)
    else:
        _copy_scattered(source, start, target, first, merged, item)


def _merged(axes: Sequence[Axis]) -> list[Axis]:
    """Drop dimensions of one element, and merge those that are one in both source and target. Ordered by the source."""
    merged: list[Axis] = []
    for axis in sorted((each for each in axes if each.size != 1), key=lambda each: -each.source):
        last = merged[-1] if merged else None
        if last and last.source == axis.source * axis.size and last.target == axis.target * axis.size:
            merged[-1] = Axis(last.size * axis.size, axis.source, axis.target)
        else:
            merged.append(axis)
    return merged or [Axis(1, 1, 1)]


def _offsets(axes: Sequence[Axis]) -> Iterator[tuple[int, int]]:
    """Yield the source and target offset of each index, in elements."""
    if not axes:
        yield 0, 0
        return
    (axis, *rest) = axes
    for index in range(axis.size):
        for there, here in _offsets(rest):
            yield index * axis.source + there, index * axis.target + here


def _copy_runs(
    source: Bytes, start: int, target: memoryview, first: int, outer: list[Axis], run: int, item: int
) -> None:
    """Copy contiguous runs. Short ones with short gaps are read together."""
    if outer and run < _FEW_BYTES and outer[-1].source * item - run < _FEW_BYTES:
        rows = max(1, _CHUNK_BYTES // max(outer[-1].source * item, 1))
        *above, row = outer
        for there, here in _offsets(above):
            for begin in range(0, row.size, rows):
                count = min(rows, row.size - begin)
                step = row.source * item
                offset = start + (there + begin * row.source) * item
                data = memoryview(source.read_at(offset, (count - 1) * step + run))
                at = first + (here + begin * row.target) * item
                for index in range(count):
                    place = at + index * row.target * item
                    target[place : place + run] = data[index * step : index * step + run]
        return
    for there, here in _offsets(outer):
        offset, at = start + there * item, first + here * item
        for begin in range(0, run, _CHUNK_BYTES):
            size = min(_CHUNK_BYTES, run - begin)
            source.read_into(offset + begin, target[at + begin : at + begin + size])


def _copy_scattered(
    source: Bytes, start: int, target: memoryview, first: int, axes: list[Axis], item: int
) -> None:
    """Copy a box whose innermost dimension in the source is strided in the source or in the target."""
    form = _FORMATS[item]
    inner = axes[-1]
    if first % item or len(target) % item:
        # The target is aligned memory of whole elements; only a damaged description gets here.
        raise ValueError("the target is not made of whole elements")
    cells = target.cast(form)
    base = first // item
    span = (inner.size - 1) * inner.source + 1
    # Rows with short gaps between them are read together.
    rows = axes[-2] if len(axes) > 1 and (axes[-2].source - span) * item < _FEW_BYTES else None
    above = axes[:-2] if rows else axes[:-1]
    for there, here in _offsets(above):
        if rows is None:
            for begin in range(0, inner.size, _CHUNK_BYTES // item):
                count = min(inner.size - begin, _CHUNK_BYTES // item)
                size = ((count - 1) * inner.source + 1) * item
                data = memoryview(source.read_at(start + (there + begin * inner.source) * item, size)).cast(
                    form
                )
                _scatter(
                    cells,
                    base + here + begin * inner.target,
                    Axis(count, inner.source, inner.target),
                    data,
                    0,
                )
            continue
        most = max(1, _CHUNK_BYTES // max(rows.source * item, 1))
        for begin in range(0, rows.size, most):
            count = min(most, rows.size - begin)
            size = ((count - 1) * rows.source + span) * item
            data = memoryview(source.read_at(start + (there + begin * rows.source) * item, size)).cast(form)
            at = base + here + begin * rows.target
            if count > inner.size:  # the longer loop runs in the interpreter's own code
                for index in range(inner.size):
                    axis = Axis(count, rows.source, rows.target)
                    _scatter(cells, at + index * inner.target, axis, data, index * inner.source)
            else:
                for index in range(count):
                    _scatter(cells, at + index * rows.target, inner, data, index * rows.source)


def _scatter(cells: memoryview, at: int, axis: Axis, data: memoryview, begin: int) -> None:
    """Copy the elements of one dimension."""
    size, there, here = axis.size, axis.source, axis.target
    cells[at : at + (size - 1) * here + 1 : here] = data[begin : begin + (size - 1) * there + 1 : there]


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
    _TABLES = msgspec.json.Decoder(schema.WeightReferences)
_DIGEST = r"(?a)[0-9a-f]{64}"
_KIND = r"(?a)[a-z][a-z0-9_]*"


def write_references(references: schema.WeightReferences) -> bytes:
    """Encode references as the bytes of their record."""
    return msgspec.json.encode(references)


def read_references(data: bytes) -> schema.WeightReferences:
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


def _store_problems(stores: Sequence[schema.StoreReference]) -> Iterator[Problem]:
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


def _record_problems(references: schema.WeightReferences) -> Iterator[Problem]:
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
    record: schema.RecordReference, stores: int, place: str, *, partly: bool = False
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
        item = schema.ITEM_SIZES[region.dtype]
        counts = counts_of(region)
        nbytes = math.prod(counts) * item
        strides = strides_of(region)
        reach = (
            sum((count - 1) * stride for count, stride in zip(counts, strides, strict=True)) if nbytes else -1
        )
        last = (region.offset + reach + 1) * item
        if nbytes and last > record.nbytes:
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


def _region_problem(region: schema.Region, stores: int) -> str:
    if not 0 <= region.store < stores:
        return f"there is no store {region.store}"
    if region.dtype not in schema.ITEM_SIZES:
        return f"the element type {region.dtype!r:.80} is unknown"
    shape = region.shape
    if len(shape) > schema.MAX_DIMENSIONS or any(not 0 <= size <= schema.MAX_ELEMENTS for size in shape):
        return "the stored tensor has sizes that no tensor has"
    if math.prod(size or 1 for size in shape) > schema.MAX_ELEMENTS:
        return "the stored tensor has more elements than can be counted"
    if not 0 <= region.offset <= schema.MAX_ELEMENTS:
        return "its offset is out of range"
    if region.box is not None:
        if len(region.box) != len(shape) or any(len(side) != 3 for side in region.box):
            return "its box has other dimensions than the stored tensor"
        for size, (first, count, step) in zip(shape, region.box, strict=True):
            end = first + (count - 1) * step + 1 if count else first
            if first < 0 or count < 0 or step < 1 or end > size:
                return f"its box takes {count} from {first} in steps of {step}, of a dimension of {size}"
    if region.strides is not None:
        if len(region.strides) != len(shape):
            return "it has other strides than dimensions"
        counts = counts_of(region)
        for count, stride in zip(counts, region.strides, strict=True):
            if not 0 <= stride <= schema.MAX_ELEMENTS or (count > 1 and stride == 0):
                return "its strides are out of range"
    return ""


def counts_of(region: schema.Region) -> list[int]:
    """Return the sizes of a region's box."""
    return list(region.shape) if region.box is None else [count for _, count, _ in region.box]


def strides_of(region: schema.Region) -> list[int]:
    """Return the strides of a region in its record, in elements."""
    return row_major(counts_of(region)) if region.strides is None else region.strides
