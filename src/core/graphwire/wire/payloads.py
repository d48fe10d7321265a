"""The payloads of a program: its weights, constants and sample inputs, and the records that store their bytes."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec
from msgspec.structs import replace

from graphwire import schema
from graphwire.errors import DecodeError, Problem, SchemaError, WeightsError

WEIGHTS = "data/weights/"
CONSTANTS = "data/constants/"
SAMPLE_INPUTS = "data/sample_inputs/"


class Record(Protocol):
    """The little-endian bytes of one storage, in memory or in a file.

    A record with a true attribute `lends` makes no copy: its views are memory that exists anyway. An attribute `checksums`
    has, by kind, those of its bytes that are known without reading it. A record that can be read without `view` is a
    `RangedRecord`.
    """

    @property
    def nbytes(self) -> int:
        """The length in bytes. Reading it does not read the record."""

    def view(self) -> memoryview:
        """Return the bytes, mapped or lent where possible. Writing to the view never changes a file."""


class _Nothing:
    """The record of a tensor without elements."""

    nbytes, lends = 0, True

    def view(self) -> memoryview:
        return memoryview(b"")


class RecordCheck(Protocol):
    """Compares the bytes of a record with their checksum while they are read."""

    def update(self, chunk: memoryview) -> None:
        """Add the next bytes. All bytes of the record are added once, in order."""

    def finish(self) -> None:
        """Compare, after all bytes were added.

        Raises:
            ChecksumError: they differ from the written ones.
        """


@runtime_checkable
class RangedRecord(Record, Protocol):
    """A record whose file can be read in ranges, into memory of the caller. Nothing is mapped, and no more is held.

    Loads to a device read such records through buffers of bounded size; the whole `view` of any other record is copied.
    """

    def read_into(self, offset: int, memory: memoryview) -> None:
        """Fill `memory` with the bytes that begin at `offset`. Several threads may call this at once.

        Args:
            offset: in bytes, from the start of the record.
            memory: writable bytes; `offset` and its length stay within the record.

        Raises:
            ArchiveError: the file is closed, or became shorter.
            OSError: the system cannot read the file.
        """

    def check(self) -> RecordCheck | None:
        """Return a check for one reading of the record; None if whoever opened it wants none."""


_NUMPY_TYPES = {
    "bool": "|b1",
    "uint8": "|u1",
    "int8": "|i1",
    **{f"{kind}{8 * size}": f"<{kind[0]}{size}" for kind in ("uint", "int") for size in (2, 4, 8)},
    **{f"float{8 * size}": f"<f{size}" for size in (2, 4, 8)},
    **{f"complex{8 * size}": f"<c{size}" for size in (8, 16)},
}
"""The element types that NumPy has, by torch's name, in the form of its array interface."""


class Payload(msgspec.Struct, frozen=True):
    """One weight or constant: its type, its shape, and the bytes of its storage. `numpy.asarray` of it makes no copy."""

    name: str
    meta: schema.PayloadMeta
    record: Record | None
    """The bytes of its storage; None if there are none."""

    def __repr__(self) -> str:
        return f"<Payload {self.name!r:.200}: {self.dtype} {list(self.shape or ())}, {self.nbytes:,} bytes>"

    @property
    def dtype(self) -> str:
        """torch's name of the element type, such as `float32`; empty if it is not a plain tensor."""
        return "" if self.meta.tensor_meta is None else self.meta.tensor_meta.dtype_text

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The sizes; None if it is not a plain tensor."""
        return self._numbers("sizes")

    @property
    def strides(self) -> tuple[int, ...] | None:
        """The strides in elements; None if it is not a plain tensor."""
        return self._numbers("strides")

    @property
    def offset(self) -> int:
        """The position of the first element in the storage, in elements."""
        tensor = self.meta.tensor_meta
        return (tensor.storage_offset.as_int or 0) if tensor is not None else 0

    @property
    def nbytes(self) -> int:
        """The size of its storage in bytes."""
        return 0 if self.record is None else self.record.nbytes

    def view(self) -> memoryview:
        """Return the little-endian bytes of its storage, mapped where possible.

        Raises:
            DecodeError: there are none.
        """
        if self.record is None:
            raise DecodeError(f"there are no bytes of {self.name!r:.200}")
        return self.record.view()

    @property
    def __array_interface__(self) -> dict[str, Any]:
        kind, shape, strides = _NUMPY_TYPES.get(self.dtype), self.shape, self.strides
        if kind is None or shape is None or strides is None or self.meta.conj or self.meta.neg:
            raise AttributeError(f"NumPy has no array like {self!r}; take its bytes from view()")
        item = schema.ITEM_SIZES[self.dtype]
        needed = extent(self.meta.tensor_meta) if self.meta.tensor_meta is not None else None
        view = self.view()
        if needed is None or needed > view.nbytes:
            raise AttributeError(f"{self!r} does not fit its record")
        return {
            "version": 3,
            "typestr": kind,
            "shape": shape,
            "strides": tuple(item * stride for stride in strides),
            "data": view,
            "offset": item * self.offset,
        }

    def _numbers(self, field: str) -> tuple[int, ...] | None:
        tensor = self.meta.tensor_meta
        known = None if tensor is None else known_integers(getattr(tensor, field))
        return None if known is None else tuple(known)


class _MappingStructMeta(msgspec.StructMeta, ABCMeta):
    """Makes records that are mappings, too."""


class Payloads(msgspec.Struct, Mapping[str, Payload], metaclass=_MappingStructMeta):
    """The tensors and objects that a program refers to by name, in the order of the program's own dictionaries.

    It is a mapping from the qualified names of all weights, then of all constants, to each `Payload`. No elements are read
    before they are asked for.
    """

    weights: dict[str, schema.PayloadMeta] = {}
    """Parameters and persistent buffers, by qualified name."""
    constants: dict[str, schema.PayloadMeta] = {}
    """Lifted tensors, non-persistent buffers and objects, by qualified name."""
    sample_inputs: dict[str, schema.PayloadMeta] = {}
    """The tensors among the example inputs, by position."""
    records: Mapping[str, Record] = {}
    """The records that the metas refer to, by full name such as `data/weights/weight_0`."""
    encoded: dict[str, schema.EncodedValue] = {}
    """Weights and constants that are not plain tensors, read from a file of torch. Files of graphwire store them in the
    program."""
    examples: schema.ExampleInputs | None = None
    """The example inputs, if torch stored them beside the program. Their tensors are in `sample_inputs`."""
    unread: dict[str, str] = {}
    """The weights and constants that are not read, by qualified name, with the reason: usually, reading would run code."""
    warnings: list[str] = []
    """One sentence for each thing that is dropped without harm to the program."""
    requires: set[str] = set()
    """The extensions whose fields the configs have."""
    unlisted: set[tuple[str, str]] = set()
    """The folder and name of each tensor of an entry that torch pickled: what it is says the pickle, and not the config."""

    def __repr__(self) -> str:
        return (
            f"<Payloads: {len(self.weights)} weights, {len(self.constants)} constants, {self.nbytes:,} bytes>"
        )

    def __getitem__(self, name: str) -> Payload:
        """Return the weight or constant of a qualified name; a weight if there are both.

        Raises:
            KeyError: there is none.
        """
        for folder, metas in self._tables()[:2]:
            if name in metas:
                meta = metas[name]
                record = self.records.get(folder + meta.path_name)
                if record is None and meta.shared is not None:
                    record = self.records.get(meta.shared)
                return Payload(name, meta, record)
        import difflib

        known = difflib.get_close_matches(name, [*self.weights, *self.constants], n=1)
        raise KeyError(
            f"there is no weight or constant {name!r:.200}"
            + (f"; did you mean {known[0]!r:.200}?" if known else "")
        )

    def __contains__(self, name: object) -> bool:
        return name in self.weights or name in self.constants

    __eq__ = Mapping.__eq__
    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[str]:
        """Yield the names of all weights, then of all constants."""
        yield from self.weights
        yield from (name for name in self.constants if name not in self.weights)

    def __len__(self) -> int:
        """Return the number of names."""
        return len(self.weights.keys() | self.constants.keys())

    @property
    def nbytes(self) -> int:
        """The size of all records, in bytes."""
        return sum(record.nbytes for record in self.records.values())

    def complete(self, program: schema.Program) -> None:
        """Add to a program what its file stores beside it: example inputs, encoded values, and the extensions they need.

        Raises:
            SchemaError: a config has fields of an extension that the program does not list.
        """
        if unlisted := sorted(self.requires.difference(program.requires)):
            raise SchemaError(
                f"the extension {unlisted[0]} is used by a config but not listed", place="requires"
            )
        if program.example_inputs is None:
            program.example_inputs = self.examples
        if new := {name: value for name, value in self.encoded.items() if name not in program.encoded_values}:
            program.encoded_values = {**program.encoded_values, **new}
        features = extensions_of(
            (*self.weights.values(), *self.constants.values(), *self.sample_inputs.values())
        )
        features |= {"codecs"} if program.encoded_values else set()
        if not features <= set(program.requires):
            program.requires = sorted({*program.requires, *features})

    def without_examples(self) -> Payloads:
        """Return the payloads without example inputs."""
        kept = {name: each for name, each in self.records.items() if not name.startswith(SAMPLE_INPUTS)}
        return replace(self, sample_inputs={}, examples=None, records=kept)

    def as_torch_writes(self, program: schema.Program) -> tuple[schema.Program, Payloads]:
        """Return a program and these payloads with tensors of the meta device as torch writes them: with an empty record."""
        if "placement" not in program.requires:
            return program, self
        tables, records = [], dict(self.records)
        for (folder, metas), stem in zip(self._tables(), ("weight", "tensor", "tensor"), strict=True):
            named = dict(metas)
            tables.append(named)
            for index, (name, meta) in enumerate(metas.items()):
                described = meta.tensor_meta
                if meta.placement == "meta" and described is not None and extent(described) is not None:
                    # Of every program of a file: whoever has this name has nothing in it.
                    named[name] = replace(meta, placement=None, path_name=f"{stem}_meta_{index}")
                    records[f"{folder}{stem}_meta_{index}"] = _Nothing()
        weights, constants, samples = tables
        left = extensions_of(meta for table in tables for meta in table.values())
        requires = [name for name in program.requires if name != "placement" or name in left]
        payloads = replace(self, weights=weights, constants=constants, sample_inputs=samples, records=records)
        return replace(program, requires=requires), payloads

    def check_read(self, program: schema.Program) -> None:
        """Check that every value that a program needs was read, and that ties agree.

        Raises:
            DecodeError: one was not. The message names each such value, with the reason.
            WeightsError: as for `check_ties`.
        """
        self.check_ties()
        if not self.unread:
            return
        needed = {held.name for held in schema.held_in(program.graph_module.signature)}
        refused = [f"{name} ({why})" for name, why in self.unread.items() if name in needed]
        if refused:
            raise DecodeError(
                f"the program needs values that are not read: {'; '.join(refused)}",
                remedy="Save the program again without them, or with graphwire and a constant codec that owns them",
            )

    def problems(self) -> list[Problem]:
        """Return a problem for every payload that was not read or does not fit its record."""
        problems = [Problem(name, "unread", why) for name, why in self.unread.items()]
        problems += [Problem(SAMPLE_INPUTS.rstrip("/"), "unread", warning) for warning in self.warnings]
        for folder, metas in self._tables():
            for name, meta in metas.items():
                place = f"{folder}{name}"
                if meta.placement not in (None, "meta", "fake"):
                    problems.append(Problem(place, "placement", f"unknown placement {meta.placement!r:.80}"))
                if meta.use_pickle or meta.placement is not None:
                    continue
                if meta.tensor_meta is None:
                    problems.append(Problem(place, "extent", "nothing describes the tensor"))
                    continue
                record = self.records.get(folder + meta.path_name)
                shared = record if meta.shared is None else self.records.get(meta.shared)
                record = shared if record is None else record  # a copy, which a file with references lacks
                if record is None or shared is None:
                    missing = meta.path_name if record is None else meta.shared
                    problems.append(Problem(place, "missing-record", f"there is no record {missing!r}"))
                elif (needed := extent(meta.tensor_meta)) is None:
                    problems.append(
                        Problem(place, "extent", "the sizes, strides and offset do not describe a tensor")
                    )
                elif needed > (length := min(record.nbytes, shared.nbytes)):
                    problem = f"the tensor needs {needed:,} bytes, its record has {length:,}"
                    problems.append(Problem(place, "extent", problem))
            problems += self._tie_problems(folder, metas)
        return problems

    def _tables(self) -> tuple[tuple[str, dict[str, schema.PayloadMeta]], ...]:
        return (WEIGHTS, self.weights), (CONSTANTS, self.constants), (SAMPLE_INPUTS, self.sample_inputs)

    def check_ties(self) -> None:
        """Check that names which are said to be one tensor agree on it.

        Raises:
            WeightsError: some do not; the error lists all of them.
        """
        if problems := [each for table in self._tables() for each in self._tie_problems(*table)]:
            raise WeightsError(problems, remedy="The file is damaged or hostile; write it again")

    def _tie_problems(self, folder: str, metas: Mapping[str, schema.PayloadMeta]) -> Iterator[Problem]:
        """Yield a problem for each tie that contradicts what it ties: it would give a value the elements of another."""
        for name, meta in metas.items():
            if meta.same_as is None and meta.weight is None and meta.shared is None:
                continue
            place, known = f"{folder}{name}", metas.get(meta.same_as or "")
            if known is not None and (known.path_name != meta.path_name or not _is_alike(known, meta)):
                told = f"it is said to be the same tensor as {meta.same_as!r:.200}, which differs"
                yield Problem(place, "tie", f"{told} in record, type or shape")
            if folder != CONSTANTS:
                if meta.weight is not None or meta.shared is not None:
                    yield Problem(place, "tie", "only a constant can be a weight, or share its record")
                continue
            weight = self.weights.get(meta.weight or "")
            if weight is not None and not _is_alike(weight, meta):
                told = f"it is said to be the weight {meta.weight!r:.200}, which differs in type or shape"
                yield Problem(place, "tie", told)
            if meta.shared is not None and not meta.shared.startswith(WEIGHTS):
                yield Problem(place, "tie", f"{meta.shared!r:.200} is not a record of weights")


def _is_alike(one: schema.PayloadMeta, other: schema.PayloadMeta) -> bool:
    """Return whether two payloads describe the same elements of a record."""
    a, b = one.tensor_meta, other.tensor_meta
    if a is None or b is None:
        return a is b
    return (a.dtype_text, a.sizes, a.strides, a.storage_offset) == (
        b.dtype_text,
        b.sizes,
        b.strides,
        b.storage_offset,
    )


def known_integers(values: list[schema.SymInt]) -> list[int] | None:
    """Return sizes, strides or offsets as integers; None if one is symbolic or negative."""
    known = [number for value in values if (number := value.as_int) is not None]
    return known if len(known) == len(values) and min(known, default=0) >= 0 else None


def extent(meta: schema.TensorMeta) -> int | None:
    """Return how many bytes, from its storage's start, a strided tensor needs; None if the meta describes no tensor of known
    size."""
    item = schema.ITEM_SIZES.get(meta.dtype_text)
    if item is None:
        return None
    return strided_bytes(
        known_integers(meta.sizes), known_integers(meta.strides), meta.storage_offset.as_int, item
    )


def strided_bytes(
    sizes: list[int] | None, strides: list[int] | None, offset: int | None, item: int
) -> int | None:
    """Return how many bytes, from its storage's start, a strided tensor needs; None if no such tensor can exist.

    Args:
        sizes: the sizes of the dimensions; None if unknown.
        strides: in elements.
        offset: in elements.
        item: the size of one element, in bytes.
    """
    if sizes is None or strides is None or offset is None or offset < 0 or len(sizes) != len(strides):
        return None
    if schema.fault_of_extents(sizes, strides, offset):
        return None
    if 0 in sizes:
        return 0
    last = offset
    for size, stride in zip(sizes, strides, strict=True):
        last += (size - 1) * stride
    return (last + 1) * item


# ---------------------------------------------------------------------- what a `torch.save` file of named tensors holds
# This module needs no reader of pickles.


def number_width(dtype: str) -> int:
    """Return the size of one number in bytes, the unit of a byte-order swap: half an element if the type is complex."""
    return schema.ITEM_SIZES[dtype] // (2 if dtype.startswith("complex") else 1)


class StateDict(msgspec.Struct):
    """The named tensors of a `torch.save` file."""

    metas: dict[str, schema.PayloadMeta] = {}
    """The tensors by name. `same_as` marks further names of one object. Parts of a sparse tensor are named `NAME#INDEX`."""
    records: dict[str, Record] = {}
    """The records by full name."""
    encoded: dict[str, schema.EncodedValue] = {}
    """The sparse tensors by name."""
    unread: dict[str, str] = {}
    """The reason for each value that is not read, by name."""
    pickled: set[str] = set()
    """The members already read as a single pickled tensor."""
    unlisted: set[tuple[str, str]] = set()
    """The folder and name of each tensor that such a member has, and not the config."""
    requires: set[str] = set()
    """The extensions whose fields the config has."""


def extensions_of(metas: Iterable[schema.PayloadMeta]) -> set[str]:
    """Return the extensions that payloads need."""
    found: set[str] = set()
    for meta in metas:
        if meta.conj or meta.neg:
            found.add("lazy-bits")
        if meta.placement is not None:
            found.add("placement")
        if (described := meta.tensor_meta) is not None and described.dtype_name is not None:
            found.add("dtypes")
    return found


class Document(msgspec.Struct, frozen=True):
    """An encoded program with its payloads, ready to be written to a package."""

    data: bytes
    suffix: str
    """The suffix of its member, which identifies the wire format."""
    payloads: Payloads
    providers: Sequence[schema.PluginRequirement] = ()
    """The distribution that provides the wire format, and those that the program needs besides; empty for graphwire's formats."""
    lists_examples: bool = True
    """Whether the document has the example inputs, whose tensors then are records; otherwise only torch's pickle has them."""
