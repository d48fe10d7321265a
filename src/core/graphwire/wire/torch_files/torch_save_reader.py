"""Reads `torch.save` files without torch: the tensors of a state dict, and the example inputs.

    data.pkl        a pickle (see `pickle_reader`) that refers to storages by persistent ids
    byteorder       `little` or `big`: the byte order of the records below
    data/KEY        the bytes of one storage
    version         the version of the zip's layout

In a program of torch 2.1 to 2.8 such a file is one stored record of the archive, so its storages can be mapped.

Example inputs are a pickled `(args, kwargs)`, which becomes a treespec and its leaves, and is made of these. A program works
without them. If they cannot be read or written, they are dropped with a warning.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

from msgspec.structs import replace

from graphwire import schema
from graphwire.errors import ArchiveError, DecodeError, GraphwireError, LimitError, locate
from graphwire.schema.texts import treespec
from graphwire.wire.archive.manifest import SwappedRecord
from graphwire.wire.archive.reader import ArchiveReader, payload_record
from graphwire.wire.limits import DEFAULT_LIMITS, Limits, PickleLimits
from graphwire.wire.payloads import SAMPLE_INPUTS, Payloads, Record, StateDict, number_width
from graphwire.wire.torch_files.pickle_globals import (
    SPARSE_CODEC,
    DefaultDictData,
    DequeData,
    DeviceName,
    DTypeName,
    LayoutName,
    SparseTensor,
    Storage,
    StridedTensor,
    UnknownGlobal,
)
from graphwire.wire.torch_files.pickle_reader import read_pickle

SCALAR_TYPES: dict[str, schema.ScalarType] = {name: kind for kind, name in schema.DTYPE_NAMES.items()}
"""The schema's number of each element type that has one, by torch's name."""

_REMEDY = "Raise Limits.pickle for a file that you trust"


class TorchSave:
    """A `torch.save` file with its decoded pickle.

    Args:
        reader: the file's archive.
        foreign: whether values of classes outside the allow-list become `UnknownGlobal`, or are errors.
        limits: the limits that apply; those of the archive by default.

    Raises:
        MissingRecordError: it has no pickle: it is in an older format of torch.save, or another kind of file.
        DecodeError: the pickle contains a value that is not supported.
        ArchiveError: the file is damaged.
        LimitError: it exceeds the limits.
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
            raise LimitError(error.problem, place=error.place, remedy=error.remedy or _REMEDY) from error
        """The saved value: plain data, and the records of `pickle_values`."""


class TensorTable:
    """Presents the storages of one `torch.save` file as payload records, numbered in the order of first use.

    Args:
        folder: the folder of the records, such as `data/weights/`.
        stem: the prefix of their names, such as `weight_`.
        copied: whether each view of a record is a checked copy in memory, not a mapping.
    """

    def __init__(self, saved: TorchSave, folder: str, stem: str, *, copied: bool) -> None:
        self._saved = saved
        self._folder = folder
        self._stem = stem
        self._copied = copied
        self._known: dict[str, tuple[str, str | None, int]] = {}
        self.records: dict[str, Record] = {}

    def meta(self, tensor: StridedTensor) -> schema.PayloadMeta:
        """Describe a tensor as a payload.

        Raises:
            MissingRecordError: its storage is not in the archive.
            ArchiveError: the length of its storage differs from that in the pickle.
        """
        storage = tensor.storage
        device = schema.Device("meta") if storage is None else _device(storage.location)
        has_elements = storage is not None and device.type != "meta"
        path = self._record(storage, tensor.dtype) if storage is not None and has_elements else ""
        kind = SCALAR_TYPES.get(tensor.dtype, schema.ScalarType.UNKNOWN)
        described = schema.TensorMeta(
            dtype=kind,
            sizes=[schema.SymInt(as_int=size) for size in tensor.sizes],
            requires_grad=tensor.requires_grad,
            device=device,
            strides=[schema.SymInt(as_int=stride) for stride in tensor.strides],
            storage_offset=schema.SymInt(as_int=tensor.offset),
            layout=schema.Layout.Strided,
            dtype_name=tensor.dtype if kind is schema.ScalarType.UNKNOWN else None,
        )
        return schema.PayloadMeta(
            path,
            tensor.is_param,
            False,
            described,
            conj=tensor.conj,
            neg=tensor.neg,
            placement=None if has_elements else "meta",
        )

    def _record(self, storage: Storage, dtype: str) -> str:
        """Return the name, below the folder, of the record that stores a storage."""
        width = number_width(dtype) if self._saved.is_swapped else 1
        known = self._known.get(storage.key)
        if known is not None:
            path, storage_dtype, storage_width = known
            if (storage_dtype, storage_width) != (storage.dtype, width):
                raise DecodeError(f"the storage {storage.key!r} is used as two types of elements")
            return path
        record: Record = payload_record(self._saved.reader, f"data/{storage.key}", copied=self._copied)
        if record.nbytes != storage.nbytes:
            raise ArchiveError(
                f"the storage has {record.nbytes:,} bytes, but the pickle states {storage.nbytes:,}",
                place=f"record 'data/{storage.key}'",
            )
        path = f"{self._stem}{len(self.records)}"
        self.records[self._folder + path] = SwappedRecord(record, width) if width > 1 else record
        self._known[storage.key] = (path, storage.dtype, width)
        return path


def _device(location: str) -> schema.Device:
    kind, colon, index = location.partition(":")
    return schema.Device(kind, int(index) if colon else None)


def _add(state: StateDict, name: str, value: Any, table: TensorTable, first: dict[int, str]) -> None:
    """Add one named value to `state`.

    Args:
        first: the first name of each added tensor, by its `id`.
    """
    match value:
        case StridedTensor():
            meta = table.meta(value)
            meta.same_as = first.get(id(value))
            first.setdefault(id(value), name)
            state.metas[name] = meta
        case SparseTensor():
            parts = {f"{name}#{index}": part for index, part in enumerate(value.parts)}
            state.metas.update((key, table.meta(part)) for key, part in parts.items())
            state.encoded[name] = schema.EncodedValue(SPARSE_CODEC, _sparse_tree(value), list(parts))
        case UnknownGlobal(kind):
            state.unread[name] = f"a pickle of {kind}, which is not read because reading it would run code"
        case _:
            state.unread[name] = f"a pickled {type(value).__name__}, not a tensor"


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
    """Return the named tensors of a `torch.save` file. Only its pickle is read.

    Args:
        reader: the file's archive (`ArchiveReader.nested`).
        folder, stem, copied: see `TensorTable`.

    Raises:
        ArchiveError: torch.save did not write the file, or it is damaged.
        DecodeError: it does not contain a dict of named values, or the pickle is damaged.
        LimitError: it exceeds the limits.
    """
    saved = TorchSave(reader, foreign=True)
    if type(saved.value) not in (dict, OrderedDict) or not all(type(name) is str for name in saved.value):
        raise DecodeError(f"a state dict is expected, not {_type_name(saved.value)}")
    table = TensorTable(saved, folder, stem, copied=copied)
    state = StateDict(records=table.records)
    first: dict[int, str] = {}
    for name, value in saved.value.items():
        try:
            _add(state, name, value, table, first)
        except Exception as error:
            locate(error, name)
            raise
    return state


def read_tensor(
    state: StateDict, name: str, reader: ArchiveReader, folder: str, stem: str, *, copied: bool = False
) -> None:
    """Add the single tensor of a `torch.save` file to `state`, under `name`.

    Raises:
        GraphwireError: as `read_state_dict`.
    """
    saved = TorchSave(reader, foreign=True)
    table = TensorTable(saved, folder, stem, copied=copied)
    _add(state, name, saved.value, table, {})
    state.records.update(table.records)


def read_embedded_tensor(name: str, data: bytes, folder: str, stem: str, limits: Limits) -> StateDict:
    """Return the single tensor of a `torch.save` file that is embedded in a document.

    Raises:
        GraphwireError: as `read_state_dict`.
    """
    state = StateDict()
    read_tensor(state, name, ArchiveReader(data, limits=limits), folder, stem, copied=True)
    return state


def _type_name(value: Any) -> str:
    return value.name if isinstance(value, UnknownGlobal) else f"a {type(value).__name__}"


# ---------------------------------- finds the elements of a single tensor that `torch.save` wrote, without reading them


class SavedTensor(NamedTuple):
    """A tensor of a `torch.save` file, and where its elements are."""

    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements."""
    offset: int
    """Where the first element is, in bytes from the start of the `torch.save` file."""


class _File(Protocol):
    def read_at(self, offset: int, size: int) -> bytes: ...


def find_saved_tensor(file: _File, offset: int, nbytes: int) -> SavedTensor:
    """Return where the elements of the tensor in a `torch.save` file are. They are little-endian, and lie within the file.

    Args:
        file: a file that contains the `torch.save` file.
        offset: where that begins in it, in bytes.
        nbytes: its size in bytes.

    Raises:
        ArchiveError: torch.save did not write the file, it is damaged, or its elements are compressed or big-endian.
        DecodeError: it does not contain one strided tensor with elements.
        LimitError: it exceeds the limits.
    """
    saved = TorchSave(ArchiveReader.of(_Ends(file, offset, nbytes), limits=DEFAULT_LIMITS), foreign=True)
    tensor, reader = saved.value, saved.reader
    if not isinstance(tensor, StridedTensor) or tensor.storage is None or tensor.conj or tensor.neg:
        kind = tensor.name if isinstance(tensor, UnknownGlobal) else f"a {type(tensor).__name__}"
        kind = (
            "a tensor without elements, or with pending operations"
            if isinstance(tensor, StridedTensor)
            else kind
        )
        raise DecodeError(f"a plain tensor is expected, not {kind}")
    record = f"data/{tensor.storage.key}"
    if not reader.is_stored(record) or (saved.is_swapped and schema.ITEM_SIZES[tensor.dtype] > 1):
        raise ArchiveError(
            "the elements are compressed or big-endian", remedy="Write the file again on this machine"
        )
    if reader.size(record) != tensor.storage.nbytes:
        raise ArchiveError(
            f"the storage has {reader.size(record):,} bytes, but the pickle states {tensor.storage.nbytes:,}"
        )
    item = schema.ITEM_SIZES[tensor.dtype]
    reach = sum((size - 1) * stride for size, stride in zip(tensor.sizes, tensor.strides, strict=True))
    last = 0 if 0 in tensor.sizes else tensor.offset + reach + 1
    if last * item > tensor.storage.nbytes:
        raise ArchiveError(f"the tensor {list(tensor.sizes)} reaches beyond the end of its storage")
    return SavedTensor(
        tensor.dtype, tensor.sizes, tensor.strides, reader.offset(record) + tensor.offset * item
    )


_END_BYTES = 4096
"""In bytes. What describes a tensor is in the first and the last few hundred bytes of its file: each is read at once."""


class _Ends:
    """A range of a file (a `Source`), whose first and last bytes are read once."""

    is_remote = False
    """Whatever reads the elements compares them with their checksums."""

    def __init__(self, file: _File, offset: int, size: int) -> None:
        self._file = file
        self._offset = offset
        self.size = size
        few = min(size, _END_BYTES)
        self._ends = [(start, file.read_at(offset + start, few)) for start in dict.fromkeys((0, size - few))]
        self.closed = False

    def read_at(self, offset: int, size: int) -> bytes:
        for start, data in self._ends:
            if start <= offset and offset + size <= start + len(data):
                return data[offset - start : offset - start + size]
        return self._file.read_at(self._offset + offset, size)

    def read_into(self, offset: int, memory: memoryview) -> None:
        memory[:] = self.read_at(offset, memory.nbytes)

    def map(self, offset: int, size: int) -> memoryview:
        return memoryview(bytearray(self.read_at(offset, size)))

    def expect(self, ranges: Iterable[tuple[int, int]], *, together: bool = False) -> None:
        """Do nothing: what describes a tensor is read at once."""

    def close(self) -> None:
        """Do nothing: whoever opened the file closes it."""


_LAYOUTS = {f"torch.{name}": layout for layout, name in schema.LAYOUT_NAMES.items()}
_MAX_DEPTH = 100
"""The nesting depth of containers, limited because `_flatten` recurses."""


# ------------------------------------------------------------------------------------- reads the example inputs of a program


def read_sample_inputs(
    reader: ArchiveReader, member: str, stem: str, *, copied: bool, payloads: Payloads
) -> None:
    """Add the example inputs, their tensors and records to `payloads`, or a warning if they cannot be read.

    Args:
        member: the record with the `torch.save` file. It is empty if there are no example inputs.
        stem: the prefix of the names of tensor records.
    """
    if member not in reader or reader.size(member) == 0:
        return
    try:
        bounds = reader.limits.pickle
        limits = replace(bounds, depth=min(bounds.depth, _MAX_DEPTH))
        saved = TorchSave(reader.nested(member), limits=limits)
        if saved.value is None or saved.value == {}:
            return
        table = TensorTable(saved, SAMPLE_INPUTS, stem, copied=copied)
        leaves: list[schema.Argument] = []
        metas: dict[str, schema.PayloadMeta] = {}
        match saved.value:
            case (tuple() | list(), dict()):
                spec = _flatten(saved.value, table, leaves, metas)
            case _:
                raise DecodeError("the example inputs are not a pair of arguments and keyword arguments")
        if problems := Payloads(sample_inputs=metas, records=table.records).problems():
            raise DecodeError(problems[0].message, place=problems[0].place)
        payloads.examples = schema.ExampleInputs(treespec.format_treespec(spec), leaves)
        payloads.sample_inputs = metas
        payloads.records = {**payloads.records, **table.records}
    except GraphwireError as error:
        payloads.warnings.append(f"the example inputs are dropped: {error.problem}")


def _flatten(
    value: Any, table: TensorTable, leaves: list[schema.Argument], metas: dict[str, schema.PayloadMeta]
) -> treespec.TreeSpec:
    """Return the structure of a value, and append its leaves. `read_pickle` has checked the depth."""
    kind, context, children = _container(value)
    if kind is not None:
        return treespec.TreeSpec(kind, context, [_flatten(child, table, leaves, metas) for child in children])
    if isinstance(value, StridedTensor):
        name = f"leaf_{len(leaves)}"
        metas[name] = table.meta(value)
        leaves.append(schema.Argument(as_tensor=schema.TensorArgument(name)))
    else:
        leaves.append(_leaf(value))
    return treespec.LEAF


def _container(value: Any) -> tuple[str | None, Any, Any]:
    """Return the serialized type of a container, its context as torch writes it, and its children; None for a leaf."""
    if type(value) in (tuple, list):
        return f"builtins.{type(value).__name__}", treespec.dump_json(None), value
    if isinstance(value, DequeData):
        return "collections.deque", treespec.dump_json(value.maxlen), value
    if not isinstance(value, dict):
        return None, None, ()
    keys = list(value)
    if not treespec.is_plain_json(keys):
        raise DecodeError("a dict among the example inputs has keys other than text and numbers")
    if isinstance(value, DefaultDictData):
        module, _, name = (value.factory or "").rpartition(".")
        if not name:
            raise DecodeError("a defaultdict among the example inputs has no factory")
        context = {"default_factory_module": module, "default_factory_name": name, "dict_context": keys}
        return "collections.defaultdict", context, value.values()
    ordered = isinstance(value, OrderedDict)
    return "collections.OrderedDict" if ordered else "builtins.dict", treespec.dump_json(keys), value.values()


def _leaf(value: Any) -> schema.Argument:
    kind = type(value)
    if value is None:
        return schema.Argument(as_none=True)
    if kind is bool:
        return schema.Argument(as_bool=value)
    if kind is int and -(1 << 63) <= value < 1 << 63:
        return schema.Argument(as_int=value)
    if kind is float:
        return schema.Argument(as_float=schema.encode_float(value))
    if kind is str:
        return schema.Argument(as_string=value)
    if kind is DeviceName:
        return schema.Argument(as_device=schema.Device(value.type, value.index))
    if kind is DTypeName and value.name in SCALAR_TYPES:
        return schema.Argument(as_scalar_type=SCALAR_TYPES[value.name])
    if kind is LayoutName and value.name in _LAYOUTS:
        return schema.Argument(as_layout=_LAYOUTS[value.name])
    raise DecodeError(f"a {kind.__name__} among the example inputs is not supported")
