"""`torch.save` files, read without torch: the tensors of a state dict, and the example inputs.

    data.pkl        a pickle (see `pickle_reader`); each storage in it is a persistent id
    byteorder       `little` or `big`: of the records below
    data/KEY        the bytes of one storage
    version         of the zip's layout

In a program of torch 2.1 to 2.8 such a file is one stored record of the archive, so its storages are mapped from there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from graphwire.errors import ArchiveError, DecodeError, LimitError, locate
from graphwire.schema import (
    DTYPE_NAMES,
    ITEM_SIZES,
    Device,
    EncodedValue,
    Layout,
    PayloadMeta,
    ScalarType,
    SymInt,
    TensorMeta,
)
from graphwire.wire import DEFAULT_LIMITS, Limits, PickleLimits, Record
from graphwire.wire.archive import ArchiveReader, ArchiveRecord, SwappedRecord
from graphwire.wire.torch_files.pickle_reader import read_pickle
from graphwire.wire.torch_files.pickle_values import SparseTensor, Storage, StridedTensor, UnknownGlobal

SCALAR_TYPES: dict[str, ScalarType] = {name: kind for kind, name in DTYPE_NAMES.items()}
"""The numbers of the element types that have one, by torch's name."""

SPARSE_CODEC = "sparse"
"""The constant codec that makes sparse tensors."""

_HALVED = {"complex32": 2, "complex64": 4, "complex128": 8}


def number_width(dtype: str) -> int:
    """The bytes of one number of an element: what is turned around where the byte order is the other one."""
    return _HALVED.get(dtype) or ITEM_SIZES[dtype]


_REMEDY = "Raise Limits.pickle for a file that you trust"


class TorchSave:
    """A `torch.save` file, its pickle read.

    Args:
        reader: the file's archive.
        foreign: whether values of classes that are not read stand as `UnknownGlobal`; otherwise they are refused.
        limits: the bounds in force; those of the archive by default.

    Raises:
        MissingRecordError: it has no pickle: an older format of torch.save, or something else.
        DecodeError: the pickle holds what is not read.
        ArchiveError: the file is damaged.
        LimitError: it is beyond the limits.
    """

    def __init__(
        self, reader: ArchiveReader, *, foreign: bool = False, limits: PickleLimits | None = None
    ) -> None:
        self.reader = reader
        limits = limits or reader.limits.pickle
        order = reader.read("byteorder") if "byteorder" in reader else b"little"
        if order not in (b"little", b"big"):
            raise ArchiveError(f"the byte order is {order[:16]!r}", place="byteorder")
        self.is_swapped = order == b"big"
        """Whether the storages are big-endian."""
        if (size := reader.size("data.pkl")) > limits.nbytes:
            raise LimitError(f"the pickle has {size:,} bytes, more than {limits.nbytes:,}", remedy=_REMEDY)
        try:
            self.value: Any = read_pickle(reader.read("data.pkl"), limits=limits, foreign=foreign)
        except LimitError as error:
            raise LimitError(error.problem, place=error.place, remedy=error.remedy or _REMEDY) from None
        """What was saved: plain data, and the records of `pickle_values`."""


class TensorTable:
    """The storages of one `torch.save` file that tensors use, as records of a folder of ours, in the order of first use.

    Args:
        folder: where the records stand, such as `data/weights/`.
        stem: what their names begin with, such as `weight_`.
        copied: read each record into memory and check it, rather than map it, when it is asked for.
    """

    def __init__(self, saved: TorchSave, folder: str, stem: str, *, copied: bool) -> None:
        self._saved = saved
        self._folder = folder
        self._stem = stem
        self._copied = copied
        self._known: dict[str, tuple[str, str | None, int]] = {}
        self.records: dict[str, Record] = {}

    def meta(self, tensor: StridedTensor) -> PayloadMeta:
        """The tensor as a payload.

        Raises:
            MissingRecordError: its storage is not in the archive.
            ArchiveError: its storage has another length than the pickle says.
        """
        storage = tensor.storage
        device = Device("meta") if storage is None else _device(storage.location)
        has_elements = storage is not None and device.type != "meta"
        path = self._record(storage, tensor.dtype) if storage is not None and has_elements else ""
        kind = SCALAR_TYPES.get(tensor.dtype, ScalarType.UNKNOWN)
        described = TensorMeta(
            dtype=kind,
            sizes=[SymInt(as_int=size) for size in tensor.sizes],
            requires_grad=tensor.requires_grad,
            device=device,
            strides=[SymInt(as_int=stride) for stride in tensor.strides],
            storage_offset=SymInt(as_int=tensor.offset),
            layout=Layout.Strided,
            dtype_name=tensor.dtype if kind is ScalarType.UNKNOWN else None,
        )
        return PayloadMeta(
            path,
            tensor.is_param,
            False,
            described,
            conj=tensor.conj,
            neg=tensor.neg,
            placement=None if has_elements else "meta",
        )

    def _record(self, storage: Storage, dtype: str) -> str:
        """The name of the record, below the folder, that holds a storage."""
        width = number_width(dtype) if self._saved.is_swapped else 1
        known = self._known.get(storage.key)
        if known is not None:
            path, storage_dtype, storage_width = known
            if (storage_dtype, storage_width) != (storage.dtype, width):
                raise DecodeError(f"the storage {storage.key!r} is used as two types of elements")
            return path
        record: Record = ArchiveRecord(self._saved.reader, f"data/{storage.key}", copied=self._copied)
        if record.nbytes != storage.nbytes:
            raise ArchiveError(
                f"the storage has {record.nbytes:,} bytes, the pickle says {storage.nbytes:,}",
                place=f"record 'data/{storage.key}'",
            )
        path = f"{self._stem}{len(self.records)}"
        self.records[self._folder + path] = SwappedRecord(record, width) if width > 1 else record
        self._known[storage.key] = (path, storage.dtype, width)
        return path


def _device(location: str) -> Device:
    kind, colon, index = location.partition(":")
    return Device(kind, int(index) if colon else None)


@dataclass(slots=True)
class StateDict:
    """A `torch.save` file of named tensors."""

    metas: dict[str, PayloadMeta] = field(default_factory=dict)
    """By name. Names of one object say so (`same_as`); the parts of a sparse tensor stand under `NAME#INDEX`."""
    records: dict[str, Record] = field(default_factory=dict)
    """By full name."""
    encoded: dict[str, EncodedValue] = field(default_factory=dict)
    """The sparse tensors."""
    unread: dict[str, str] = field(default_factory=dict)
    """The values that are not read, and why."""
    pickled: set[str] = field(default_factory=set)
    """The members that were read as one tensor each."""

    def add(self, name: str, value: Any, table: TensorTable, first: dict[int, str]) -> None:
        """Add one named value.

        Args:
            first: for each tensor that was added, by its identity, the first name that it had.
        """
        match value:
            case StridedTensor():
                meta = table.meta(value)
                meta.same_as = first.get(id(value))
                first.setdefault(id(value), name)
                self.metas[name] = meta
            case SparseTensor():
                parts = {f"{name}#{index}": part for index, part in enumerate(value.parts)}
                self.metas.update((key, table.meta(part)) for key, part in parts.items())
                self.encoded[name] = EncodedValue(SPARSE_CODEC, _sparse_tree(value), list(parts))
            case UnknownGlobal(kind):
                self.unread[name] = f"a pickle of {kind}, which is not read because reading it would run code"
            case _:
                self.unread[name] = f"a pickled {type(value).__name__}, not a tensor"


def _sparse_tree(tensor: SparseTensor) -> dict[str, Any]:
    return {
        "layout": tensor.layout.removeprefix("torch."),
        "sizes": list(tensor.sizes),
        "coalesced": tensor.is_coalesced,
        "parameter": tensor.is_param,
        "requires_grad": tensor.requires_grad,
    }


def read_state_dict(
    reader: ArchiveReader,
    folder: str,
    stem: str,
    *,
    copied: bool = False,
) -> StateDict:
    """The named tensors of a `torch.save` file. Nothing is read but its pickle.

    Args:
        reader: the file's archive (`ArchiveReader.nested`).
        folder, stem, copied: as `TensorTable` says.

    Raises:
        ArchiveError: the file is none of torch.save, or damaged.
        DecodeError: it is no dict of named values, or the pickle is damaged.
        LimitError: it is beyond the limits.
    """
    saved = TorchSave(reader, foreign=True)
    if not isinstance(saved.value, dict) or not all(type(name) is str for name in saved.value):
        raise DecodeError(f"a state dict is expected, not {_type_name(saved.value)}")
    table = TensorTable(saved, folder, stem, copied=copied)
    state = StateDict(records=table.records)
    first: dict[int, str] = {}
    for name, value in saved.value.items():
        try:
            state.add(name, value, table, first)
        except Exception as error:
            locate(error, name)
            raise
    return state


def read_tensor(
    state: StateDict, name: str, reader: ArchiveReader, folder: str, stem: str, *, copied: bool = False
) -> None:
    """Add the one tensor of a `torch.save` file to `state`, as `name`.

    Raises:
        As `read_state_dict`.
    """
    saved = TorchSave(reader, foreign=True)
    table = TensorTable(saved, folder, stem, copied=copied)
    state.add(name, saved.value, table, {})
    state.records.update(table.records)


def read_embedded_tensor(
    name: str, data: bytes, folder: str, stem: str, limits: Limits = DEFAULT_LIMITS
) -> StateDict:
    """The one tensor of a `torch.save` file that stands inside a document.

    Raises:
        As `read_state_dict`.
    """
    state = StateDict()
    read_tensor(state, name, ArchiveReader(data, limits=limits), folder, stem, copied=True)
    return state


def _type_name(value: Any) -> str:
    return value.name if isinstance(value, UnknownGlobal) else f"a {type(value).__name__}"
