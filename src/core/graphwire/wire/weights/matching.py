"""Finds the weights of programs among the tensors of a store, by name, and describes them as regions of records."""

from __future__ import annotations

import fnmatch
import itertools
import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from graphwire.errors import ArchiveError, Problem
from graphwire.registry.interfaces import StoredTensor
from graphwire.schema import ITEM_SIZES, PayloadMeta, RecordReference, Region
from graphwire.wire.payloads import WEIGHTS, Payloads, known_integers
from graphwire.wire.weights.reference_table import is_contiguous, is_dense, regions_problems, row_major

RANK_REMEDY = "Pass rank=, such as torch.distributed.get_rank()"


class Piece(NamedTuple):
    """A part of a weight, and the stored tensor that it is taken from.

    `Piece("experts.0.w1.weight", into=(0, slice(0, 64)))` fills the first 64 rows of the first expert.
    """

    tensor: str
    """The name of the stored tensor."""
    into: tuple[int | slice, ...] = ()
    """The part of the weight that it fills, as an index: integers and slices; empty for all of it."""
    part: tuple[slice, ...] = ()
    """The part of the stored tensor, in its own dimensions: slices with positive steps; empty for all of it."""
    order: tuple[int, ...] | None = None
    """The order in which dimensions of the stored tensor become those of the filled part, such as (1, 0) for a transpose."""


Names: TypeAlias = Mapping[str, str | Sequence[Piece]] | Callable[[str], str | Sequence[Piece] | None]
"""How weights are named in a store: a mapping from names in the program, or a function. A name that the mapping lacks, or for
which the function returns None, is the same in both."""


class Weight(NamedTuple):
    """A weight of a program: a tensor in a record."""

    name: str
    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements."""
    offset: int
    """In elements, from the start of the record."""
    is_plain: bool
    """Whether the record has the elements as they are read: nothing is conjugated or negated."""

    @property
    def nbytes(self) -> int:
        """The size of its elements."""
        return math.prod(self.sizes) * ITEM_SIZES[self.dtype]


class WeightRecord(msgspec.Struct):
    """A record of weights, and the weights in it by name. Tied weights have several names."""

    name: str
    nbytes: int
    weights: list[Weight] = []

    def distinct(self) -> list[Weight]:
        """Return the weights that are different parts of the record, each under its first name."""
        return list(
            {
                (each.offset, each.sizes, each.strides, each.dtype): each for each in reversed(self.weights)
            }.values()
        )[::-1]

    def is_covered(self) -> bool:
        """Return whether the weights are different parts of the record, and all of it."""
        parts = self.distinct()
        spans = sorted(
            (each.offset * ITEM_SIZES[each.dtype], each.offset * ITEM_SIZES[each.dtype] + each.nbytes)
            for each in parts
        )
        touching = all(high == low for (_, high), (low, _) in itertools.pairwise(spans))
        whole = bool(spans) and spans[0][0] == 0 and spans[-1][1] == self.nbytes
        plain = all(each.is_plain and is_dense(each.sizes, each.strides) for each in parts)
        return touching and whole and plain


def weight_records(programs: Iterable[Payloads]) -> dict[str, WeightRecord]:
    """Return the records of the weights of programs that share them, by full name."""
    found: dict[str, WeightRecord] = {}
    for payloads in programs:
        for name, meta in payloads.weights.items():
            weight = _weight(name, meta)
            full_name = WEIGHTS + meta.path_name
            if weight is None or full_name not in payloads.records:
                continue
            if full_name not in found:
                found[full_name] = WeightRecord(full_name, payloads.records[full_name].nbytes)
            found[full_name].weights.append(weight)
    return found


def _weight(name: str, meta: PayloadMeta) -> Weight | None:
    described = meta.tensor_meta
    if (
        meta.use_pickle
        or meta.placement is not None
        or described is None
        or described.dtype_text not in ITEM_SIZES
    ):
        return None
    sizes, strides = known_integers(described.sizes), known_integers(described.strides)
    offset = described.storage_offset.as_int
    if sizes is None or strides is None or offset is None:
        return None
    plain = not (meta.conj or meta.neg)
    return Weight(name, described.dtype_text, tuple(sizes), tuple(strides), offset, plain)


class Match(msgspec.Struct, frozen=True):
    """How the records of programs are made of a store's tensors."""

    records: dict[str, RecordReference]
    """By the record's name; without digests."""
    missing: list[Problem]
    """Each weight that the store lacks, or has with another type or shape."""
    prefix: tuple[str, str]
    """The prefix that was removed from the program's names, and the one that was put there instead."""


def match_records(
    records: Mapping[str, WeightRecord],
    tensors: Mapping[str, StoredTensor],
    names: Names | None,
    *,
    rank: tuple[int, int],
    shard: Mapping[str, int] | None,
    partly: bool = False,
) -> Match:
    """Describe records as regions of a store's tensors.

    Args:
        records: the records.
        tensors: the store's tensors by name.
        names: how weights are named in the store; None if as in the program, or with another prefix.
        rank: this rank, and the number of ranks.
        shard: for each pattern of stored names (`*` matches anything) the dimension that ranks divide.
        partly: whether regions may leave bytes of a record open, which no weight reads.
    """
    wanted = [weight.name for record in records.values() for weight in record.weights]
    prefix = ("", "") if names is not None else common_prefix(wanted, tensors)
    pieces_of = _resolver(names, prefix)
    found: dict[str, RecordReference] = {}
    missing: list[Problem] = []
    for record in records.values():
        regions: list[Region] = []
        problems: list[Problem] = []
        for part in record.distinct():
            same = [each for each in record.weights if each[1:] == part[1:]]
            regions_or_problem = _regions_of(same, pieces_of, tensors, rank, shard or {})
            if isinstance(regions_or_problem, Problem):
                problems.append(regions_or_problem)
            else:
                regions += regions_or_problem
        reference = RecordReference(record.nbytes, regions)
        if not problems and not partly:
            problems += _unused_bytes(record)
        if not problems:
            problems += regions_problems(reference, 1, record.weights[0].name, partly=partly)
        missing += problems
        if not problems:
            found[record.name] = reference
    named = (
        {piece.tensor for name in wanted for piece in pieces_of(name)} if shard and not partly else tensors
    )
    return Match(found, [*_idle_patterns(shard or {}, tensors, named), *missing], prefix)


def _unused_bytes(record: WeightRecord) -> Iterator[Problem]:
    """Yield a problem if weights use only a part of their storage: nobody knows where the rest would be."""
    parts = record.distinct()
    used = sum(each.nbytes for each in parts)
    if used < record.nbytes and len(parts) == 1:
        yield Problem(
            parts[0].name,
            "view",
            f"it is a view, of {used:,} of the {record.nbytes:,} bytes of a storage; save a copy of it instead (.contiguous())",
        )


def _idle_patterns(
    shard: Mapping[str, int], tensors: Mapping[str, object], named: Container[str]
) -> Iterator[Problem]:
    """Yield a problem for each pattern of `shard` that divides no weight.

    Args:
        named: the stored tensors that weights consist of.
    """
    for pattern in shard:
        fitting = [name for name in tensors if fnmatch.fnmatchcase(name, pattern)]
        if not fitting:
            yield Problem(pattern, "shard", "no stored tensor has a name that fits this pattern of shard=")
        elif not any(name in named for name in fitting):
            shown = f"{fitting[0]!r:.200}{' and others' if len(fitting) > 1 else ''}"
            yield Problem(
                pattern,
                "shard",
                f"this pattern of shard= fits only stored tensors that no weight consists of ({shown})",
            )


def common_prefix(wanted: Sequence[str], stored: Mapping[str, object]) -> tuple[str, str]:
    """Return the prefix of the program's names to remove, and the one to put there, under which most names are found.

    Both are empty if no prefix makes more names known than none.

    Raises:
        ArchiveError: several prefixes make equally many names known.
    """
    counts: dict[tuple[str, str], int] = {("", ""): sum(name in stored for name in wanted)}
    if counts["", ""] == len(wanted):
        return "", ""
    by_end: dict[str, list[str]] = {}
    for name in stored:
        by_end.setdefault(name.rpartition(".")[2], []).append(name)
    for name in wanted[:: max(1, len(wanted) // 8)][:8]:
        ends = by_end.get(name.rpartition(".")[2], ())
        for other in ends[:1024]:
            if name.endswith(f".{other}"):
                counts.setdefault((name[: -len(other)], ""), 0)
            elif other.endswith(f".{name}"):
                counts.setdefault(("", other[: -len(name)]), 0)
    for old, new in counts:
        if old or new:
            counts[old, new] = sum(
                name.startswith(old) and new + name[len(old) :] in stored for name in wanted
            )
    most = max(counts.values())
    best = [pair for pair, count in counts.items() if count == most]
    if ("", "") in best:
        return "", ""
    if len(best) > 1:
        shown = " or ".join(repr(new or old) for old, new in best[:3])
        raise ArchiveError(
            f"the names fit with several prefixes ({shown})",
            remedy="Pass Checkpoint(…, names=)",
        )
    return best[0]


def _resolver(names: Names | None, prefix: tuple[str, str]) -> Callable[[str], Sequence[Piece]]:
    old, new = prefix

    def pieces_of(name: str) -> Sequence[Piece]:
        given = names(name) if callable(names) else None if names is None else names.get(name)
        if given is None:
            return (Piece(new + name[len(old) :] if name.startswith(old) else name),)
        return (Piece(given),) if isinstance(given, str) else given

    return pieces_of


def _regions_of(
    weights: Sequence[Weight],
    pieces_of: Callable[[str], Sequence[Piece]],
    tensors: Mapping[str, StoredTensor],
    rank: tuple[int, int],
    shard: Mapping[str, int],
) -> list[Region] | Problem:
    """Return the regions of a weight with one or more names; the problem with its first name if no name is in the store."""
    problems = []
    for weight in weights:
        made = [_region(weight, piece, tensors, rank, shard) for piece in pieces_of(weight.name)]
        wrong = [each for each in made if isinstance(each, str)]
        if not wrong and made:
            return [each for each in made if isinstance(each, Region)]
        problems.append(Problem(weight.name, "weight", wrong[0] if wrong else "no piece of it is given"))
    return problems[0]


def _region(
    weight: Weight,
    piece: Piece,
    tensors: Mapping[str, StoredTensor],
    rank: tuple[int, int],
    shard: Mapping[str, int],
) -> Region | str:
    """Return the region of one piece of a weight, or what is wrong with it."""
    tensor = tensors.get(piece.tensor)
    if tensor is None:
        return f"the store has no tensor {piece.tensor!r:.200}"
    if tensor.dtype != weight.dtype:
        return f"it is {weight.dtype}, and stored as {tensor.dtype} ({piece.tensor})"
    filled = _filled(weight, piece.into)
    if isinstance(filled, str):
        return filled
    sizes, strides, offset = filled
    order = tuple(range(len(tensor.shape))) if piece.order is None else tuple(piece.order)
    if sorted(order) != list(range(len(tensor.shape))):
        return f"the order {order} is not one of {len(tensor.shape)} dimensions ({piece.tensor})"
    box = _box(tensor.shape, piece, rank, shard)
    if isinstance(box, str):
        return box
    taken = [count for _, count, _ in box]
    if [taken[index] for index in order] != sizes:
        shown = [taken[index] for index in order]
        return f"its shape is {sizes}, and the stored one {shown} ({piece.tensor})"
    placed = [0] * len(order)
    for position, index in enumerate(order):
        placed[index] = strides[position] if sizes[position] > 1 else max(strides[position], 1)
    whole = all(
        first == 0 and count == size and step == 1
        for (first, count, step), size in zip(box, tensor.shape, strict=True)
    )
    return Region(
        piece.tensor,
        tensor.dtype,
        list(tensor.shape),
        box=None if whole else box,
        offset=offset,
        strides=None if placed == row_major(taken) or is_contiguous(taken, placed) else placed,
    )


def _filled(weight: Weight, into: tuple[int | slice, ...]) -> tuple[list[int], list[int], int] | str:
    """Return sizes, strides and offset of the part of a weight that an index selects."""
    if len(into) > len(weight.sizes):
        return f"the index {into} has more dimensions than the weight"
    sizes, strides, offset = [], [], weight.offset
    for dimension, (size, stride) in enumerate(zip(weight.sizes, weight.strides, strict=True)):
        index = into[dimension] if dimension < len(into) else slice(None)
        if isinstance(index, slice):
            first, _, step = index.indices(size)
            count = len(range(*index.indices(size)))
            if step < 1:
                return f"the index {into} has a negative step"
            sizes.append(count)
            strides.append(stride * step)
            offset += first * stride
        else:
            if not -size <= index < size:
                return f"the index {into} is out of range"
            offset += index % size * stride
    return sizes, strides, offset


def _box(
    shape: Sequence[int], piece: Piece, rank: tuple[int, int], shard: Mapping[str, int]
) -> list[list[int]] | str:
    """Return the part of a stored tensor that a piece takes, on one rank."""
    if len(piece.part) > len(shape):
        return f"the part {piece.part} has more dimensions than the stored tensor ({piece.tensor})"
    box = []
    for dimension, size in enumerate(shape):
        taken = piece.part[dimension] if dimension < len(piece.part) else slice(None)
        first, _, step = taken.indices(size)
        if step < 1:
            return f"the part {piece.part} has a negative step"
        box.append([first, len(range(*taken.indices(size))), step])
    number, ranks = rank
    fitting = {dim for pattern, dim in shard.items() if fnmatch.fnmatchcase(piece.tensor, pattern)}
    for dimension in fitting:
        if not -len(shape) <= dimension < len(shape):
            has = f"has {len(shape)} dimension{'' if len(shape) == 1 else 's'}"
            return f"shard= divides dimension {dimension} of {piece.tensor}, which {has}"
    dimensions = {dimension % len(shape) for dimension in fitting}
    if len(dimensions) > 1:
        return f"several patterns of shard= fit {piece.tensor}, with different dimensions"
    for dimension in dimensions:
        first, count, step = box[dimension]
        if count % ranks:
            return f"{ranks} ranks cannot divide dimension {dimension} of {piece.tensor} equally: its size there is {count}"
        box[dimension] = [first + number * (count // ranks) * step, count // ranks, step]
    return box
