"""Writes `torch.save` files, and the pickles in them (protocol 2), without torch, for torch releases up to 2.8.

Equal input gives equal bytes.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType, NoneType
from typing import Any, BinaryIO, Final, cast

import msgspec
from msgspec.structs import replace

from graphwire import schema
from graphwire.errors import EncodeError, MissingRecordError
from graphwire.schema.texts.treespec import TreeSpec, load_json, parse_treespec
from graphwire.wire.archive.atomic_file import ChunkBuffer
from graphwire.wire.archive.writer import ArchiveWriter
from graphwire.wire.payloads import Record, known_integers
from graphwire.wire.torch_files import pickle_globals
from graphwire.wire.weights.reference_table import row_major

_STORAGE_OF_DTYPE = {dtype: name for name, dtype in pickle_globals.DTYPES_OF_STORAGES.items()}


class Shared(msgspec.Struct, frozen=True):
    """A value that is written where it first occurs, and referred to where it occurs again."""

    value: Hashable


class _Global(msgspec.Struct, frozen=True):
    """A function or class of torch or Python."""

    module: str
    name: str


class _Call:
    """A call of a global."""

    def __init__(self, module: str, name: str, *arguments: Any) -> None:
        self.function = _Global(module, name)
        self.arguments = arguments


class PickleWriter:
    """Writes one pickle value by value. `finish` returns it.

    Args:
        leaf: returns a value that can be written for one that cannot, or None.
    """

    def __init__(self, leaf: Callable[[Any], Any] = lambda value: None) -> None:
        self._leaf = leaf
        self._parts: list[bytes] = [b"\x80\x02"]
        self.put = self._parts.append
        """Writes opcodes as they are."""
        self._memo: dict[Hashable, int] = {}

    def finish(self) -> bytes:
        """End the pickle, and return its bytes."""
        return b"".join([*self._parts, b"."])

    def value(self, value: Any) -> None:
        """Write None, bool, int, float, text, tensors, and instances, tuples, lists, dicts and OrderedDicts of them.

        Raises:
            EncodeError: the value cannot be written.
        """
        kind = type(value)
        if kind in _WRITERS:
            _WRITERS[kind](self, value)
        elif (known := self._leaf(value)) is not None:
            self.value(known)
        else:
            raise EncodeError(f"a {type(value).__name__} cannot be written for an old torch")

    def _values(self, before: bytes, values: Iterable[Any], after: bytes) -> None:
        put = self.put
        put(before)
        for value in values:
            if type(value) is int and 0 <= value < 1 << 8:  # most sizes and strides
                put(_SMALL[value])
            else:
                self.value(value)
        put(after)

    def _once(self, key: Hashable, write: Callable[[Any], object], value: Any) -> None:
        """Write a value on the first call with `key`, and a reference to it on later ones."""
        index = self._memo.get(key)
        codes = b"hj"
        if index is None:
            write(value)
            index, codes = len(self._memo), b"qr"
            self._memo[key] = index
        self.put(codes[:1] + bytes([index]) if index < 256 else codes[1:] + struct.pack("<I", index))

    def _global(self, value: _Global) -> None:
        self._once(value, self.put, f"c{value.module}\n{value.name}\n".encode())

    def _call(self, value: _Call) -> None:
        self._global(value.function)
        self._tuple(value.arguments)
        self.put(b"R")

    def _ordered_dict(self, value: OrderedDict[Any, Any]) -> None:
        self._call(_NEW_DICT)
        self._values(b"(", chain.from_iterable(value.items()), b"u")

    def _instance(self, value: pickle_globals.Instance) -> None:
        module, _, name = value.name.rpartition(".")
        if value.is_called:
            self._call(_Call(module, name, *value.values()))
            return
        self._global(_Global(module, name))
        self.put(b")\x81")
        numbered = list(value) == list(range(len(value)))
        self.value(tuple(value.values()) if numbered and value else dict(value))
        self.put(b"b")

    def _storage(self, storage: pickle_globals.Storage) -> None:
        """Write the persistent id of a storage."""
        kind = (
            _Global("torch.storage", "UntypedStorage")
            if storage.dtype is None
            else _Global("torch", _STORAGE_OF_DTYPE[storage.dtype])
        )
        parts = (Shared("storage"), kind, storage.key, Shared(storage.location), storage.numel)
        self._values(b"(", parts, b"tQ")

    def _tuple(self, value: tuple[Any, ...]) -> None:
        if (code := _TUPLES.get(len(value))) is not None:
            self._values(b"", value, code)
        else:
            self._values(b"(", value, b"t")

    def _integer(self, value: int) -> None:
        if 0 <= value < 1 << 8:
            self.put(_SMALL[value])
        elif 0 <= value < 1 << 16:
            self.put(b"M" + struct.pack("<H", value))
        elif -(1 << 31) <= value < 1 << 31:
            self.put(b"J" + struct.pack("<i", value))
        else:
            data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
            self.put(b"\x8a" + bytes([len(data)]) + data)

    def _text(self, value: str) -> None:
        data = value.encode("utf-8", "surrogatepass")  # as Python does
        self.put(b"X" + struct.pack("<I", len(data)) + data)


_SMALL = tuple(b"K" + bytes([value]) for value in range(1 << 8))
"""The codes of integers of one byte, by these."""
_TUPLES = {0: b")", 1: b"\x85", 2: b"\x86", 3: b"\x87"}
"""The codes that make tuples of the last values, by their number."""
_NEW_DICT = _Call("collections", "OrderedDict")


def _parameter(tensor: pickle_globals.StridedTensor | pickle_globals.SparseTensor) -> _Call:
    inner = replace(tensor, is_param=False, requires_grad=False)
    return _Call("torch._utils", "_rebuild_parameter", inner, tensor.requires_grad, _NEW_DICT)


def _strided(tensor: pickle_globals.StridedTensor) -> _Call:
    if tensor.is_param:
        return _parameter(tensor)
    storage, dtype = tensor.storage, _Global("torch", tensor.dtype)
    facts = (tensor.sizes, tensor.strides, tensor.requires_grad)
    if storage is None:
        return _Call("torch._utils", "_rebuild_meta_tensor_no_storage", dtype, *facts)
    arguments = [storage, tensor.offset, *facts, _NEW_DICT]
    if storage.dtype is None:
        arguments.append(dtype)
    if bits := {key: True for key in ("conj", "neg") if getattr(tensor, key)}:
        arguments.append(bits)
    return _Call("torch._utils", f"_rebuild_tensor_{'v3' if storage.dtype is None else 'v2'}", *arguments)


def _sparse(tensor: pickle_globals.SparseTensor) -> _Call:
    if tensor.is_param:
        return _parameter(tensor)
    coalesced = () if tensor.is_coalesced is None else (tensor.is_coalesced,)
    data = (*tensor.parts, _Call("torch", "Size", tensor.sizes), *coalesced)
    return _Call("torch._utils", "_rebuild_sparse_tensor", _layout(tensor.layout), data)


def _layout(name: str) -> _Call:
    return _Call("torch.serialization", "_get_layout", name)


_WRITERS: Mapping[type, Callable[[PickleWriter, Any], None]] = MappingProxyType(
    {
        NoneType: lambda writer, _: writer.put(b"N"),
        bool: lambda writer, value: writer.put(b"\x88" if value else b"\x89"),
        int: PickleWriter._integer,
        float: lambda writer, value: writer.put(b"G" + struct.pack(">d", value)),
        str: PickleWriter._text,
        tuple: PickleWriter._tuple,
        list: lambda writer, value: writer._values(b"](", value, b"e"),
        dict: lambda writer, value: writer._values(b"}(", chain.from_iterable(value.items()), b"u"),
        OrderedDict: PickleWriter._ordered_dict,
        Shared: lambda writer, value: writer._once(value, writer.value, value.value),
        pickle_globals.StridedTensor: lambda writer, value: writer._call(_strided(value)),
        pickle_globals.SparseTensor: lambda writer, value: writer._call(_sparse(value)),
        pickle_globals.Storage: PickleWriter._storage,
        pickle_globals.Instance: PickleWriter._instance,
        pickle_globals.Shape: lambda writer, value: writer._call(_Call("torch", "Size", tuple(value))),
        pickle_globals.DTypeName: lambda writer, value: writer._global(_Global("torch", value.name)),
        pickle_globals.LayoutName: lambda writer, value: writer._call(_layout(value.name)),
        _Global: PickleWriter._global,
        _Call: PickleWriter._call,
    }
)
"""How values of each type are written."""


_CHUNK_BYTES = 1 << 22
_TYPED = frozenset(pickle_globals.DTYPES_OF_STORAGES.values())
UNTYPED = frozenset(schema.ITEM_SIZES) - _TYPED
"""The element types without a typed storage class. Each torch release supports some of them (`LayoutSpec.untyped`)."""


def record_chunks(record: Record) -> Iterator[memoryview]:
    """Yield a record's bytes in chunks of 4 MiB."""
    view = record.view()
    for start in range(0, record.nbytes, _CHUNK_BYTES):
        yield view[start : start + _CHUNK_BYTES]


class PackedFile(ChunkBuffer):
    """A `torch.save` file to be written: its small parts in memory, and references to the records with the other bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.lent: Record | None = None
        """What is written by reference now. It is read for its checksum, and again by `chunks`."""
        self.nbytes = 0

    def chunks(self) -> Iterator[bytes | memoryview]:
        """Yield the file's bytes in chunks."""
        for chunk in self.parts:
            if isinstance(chunk, bytes):
                yield chunk
            else:
                yield from record_chunks(chunk)

    def write_many(self, chunks: Sequence[bytes | memoryview]) -> None:
        """Keep chunks of an `ArchiveWriter`. The bytes of the record that is lent are replaced by a reference to it."""
        for chunk in chunks:
            self.nbytes += len(chunk)
            if self.lent is None or type(chunk) is bytes:
                self.parts.append(bytes(chunk))
            elif self.parts[-1] is not self.lent:
                self.parts.append(self.lent)


class _Storages(msgspec.Struct):
    """The storages of one file, numbered in the order of first use."""

    metas: Mapping[str, schema.PayloadMeta]
    records: Mapping[str, Record]
    folder: str
    untyped: frozenset[str]
    numbers: dict[str, int] = {}
    dtypes: dict[str, set[str]] = {}

    def __post_init__(self) -> None:
        for meta in self.metas.values():
            if meta.tensor_meta is not None:
                self.dtypes.setdefault(meta.path_name, set()).add(meta.tensor_meta.dtype_text)

    def tensor(self, meta: schema.PayloadMeta) -> pickle_globals.StridedTensor:
        """Convert a payload to the tensor that is pickled; for a parameter, the tensor inside it.

        Raises:
            EncodeError: old torch cannot represent it.
        """
        described = meta.tensor_meta
        if described is None or meta.use_pickle or described.layout is not schema.Layout.Strided:
            raise EncodeError("it is not a plain tensor")
        if meta.placement not in (None, "meta"):
            raise EncodeError(
                f"it has no elements ({meta.placement})", remedy="Give it elements before it is saved"
            )
        sizes, strides = known_integers(described.sizes), known_integers(described.strides)
        if sizes is None or strides is None or described.storage_offset.as_int is None:
            raise EncodeError("its size is symbolic")
        storage = None if described.device.type == "meta" else self._storage(meta)
        return pickle_globals.StridedTensor(
            storage,
            described.dtype_text,
            described.storage_offset.as_int,
            tuple(sizes),
            tuple(strides),
            described.requires_grad and not meta.is_param,
            meta.conj,
            meta.neg,
        )

    def _storage(self, meta: schema.PayloadMeta) -> pickle_globals.Storage:
        path = meta.path_name
        record = self.records.get(self.folder + path)
        if record is None or meta.tensor_meta is None:
            raise MissingRecordError(f"there is no record {self.folder + path!r}")
        number = self.numbers.setdefault(path, len(self.numbers))
        dtypes = self.dtypes[path]
        dtype = next(iter(dtypes))
        # A typed storage cannot represent two element types, a type without a class, or an incomplete last element.
        typed = len(dtypes) == 1 and dtype in _TYPED and record.nbytes % schema.ITEM_SIZES[dtype] == 0
        if not typed and (not self.untyped or not dtypes <= self.untyped | _TYPED):
            raise EncodeError(f"this release of torch has no storage of {' and '.join(sorted(dtypes))}")
        device = meta.tensor_meta.device
        location = device.type if device.index is None else f"{device.type}:{device.index}"
        numel = record.nbytes // schema.ITEM_SIZES[dtype] if typed else record.nbytes
        return pickle_globals.Storage(dtype if typed else None, str(number), location, numel)

    def pack(self, pickled: bytes) -> PackedFile:
        """Return the whole file, given its pickle."""
        return _pack(
            pickled,
            {str(number): self.records[self.folder + path] for path, number in self.numbers.items()},
        )


def _pack(pickled: bytes, records: Mapping[str, Record]) -> PackedFile:
    """Return a file with a pickle, and the storages that it refers to by key."""
    file = PackedFile()
    with ArchiveWriter(cast("BinaryIO", file), root="archive", records={}) as archive:
        archive.write("data.pkl", pickled, compress=False)
        archive.write("byteorder", b"little", compress=False)
        for key, record in records.items():
            archive.flush()
            file.lent = record
            archive.write_stream(f"data/{key}", record.nbytes, record_chunks(record))
            archive.flush()
            file.lent = None
        archive.write("version", b"3\n", compress=False)
    return file


def pack_state_dict(
    metas: Mapping[str, schema.PayloadMeta],
    records: Mapping[str, Record],
    folder: str,
    encoded: Mapping[str, schema.EncodedValue] | None = None,
    *,
    untyped: frozenset[str] = UNTYPED,
) -> PackedFile:
    """Encode named tensors as a `torch.save` file of a dict. Shared storages and tied parameters remain shared.

    Args:
        metas: the payloads by name, including the parts of sparse tensors.
        records: their records by full name, little-endian.
        folder: the prefix of a payload's `path_name` in `records`.
        encoded: the values that codecs encoded. Only sparse tensors can be written.
        untyped: the element types without a typed storage class that the reader supports.

    Raises:
        EncodeError: old torch cannot represent a value; `place` names it.
    """
    sparse = {name: v for name, v in (encoded or {}).items() if all(part in metas for part in v.tensors)}
    parts = {part for value in sparse.values() for part in value.tensors}
    storages = _Storages(metas, records, folder, untyped)
    pickle = PickleWriter()
    firsts = _first_names(metas)
    made: dict[str, Shared] = {}

    def tensor(name: str) -> Shared | pickle_globals.SparseTensor:
        if name in sparse:
            return _sparse_tensor(sparse[name], metas, storages)
        if firsts[name] not in made:
            made[firsts[name]] = Shared(_tensor(metas[name], storages))
        return made[firsts[name]]

    pickle.put(b"}(")
    for name in [name for name in metas if name not in parts] + list(sparse):
        pickle.value(name)
        try:
            pickle.value(tensor(name))
        except (EncodeError, MissingRecordError) as error:
            error.within(name)
            raise
    pickle.put(b"u")
    return storages.pack(pickle.finish())


def pack_tensor(dtype: str, sizes: tuple[int, ...], record: Record) -> PackedFile:
    """Encode one contiguous tensor as a `torch.save` file.

    Args:
        dtype: torch's name of the element type.
        record: its elements, row-major and little-endian.
    """
    typed = dtype in _TYPED
    numel = record.nbytes // schema.ITEM_SIZES[dtype] if typed else record.nbytes
    tensor = pickle_globals.StridedTensor(
        pickle_globals.Storage(dtype if typed else None, "0", "cpu", numel),
        dtype,
        0,
        sizes,
        tuple(row_major(sizes)),
        False,
    )
    pickle = PickleWriter()
    pickle.value(tensor)
    return _pack(pickle.finish(), {"0": record})


def _first_names(metas: Mapping[str, schema.PayloadMeta]) -> dict[str, str]:
    """Return the first name of each payload's object.

    torch 2.9 and later do not store which names are the same parameter. Parameters with the same record and the same meta are
    treated as one.
    """
    firsts: dict[str, str] = {}
    places: dict[tuple[str, str], str] = {}
    for name, meta in metas.items():
        first = meta.same_as if meta.same_as in firsts else name
        if first == name and meta.is_param and meta.path_name:
            first = places.setdefault((meta.path_name, repr(meta.tensor_meta)), name)
        firsts[name] = first
    return firsts


def _tensor(meta: schema.PayloadMeta, storages: _Storages) -> pickle_globals.StridedTensor:
    tensor = storages.tensor(meta)
    if not meta.is_param or meta.tensor_meta is None:
        return tensor
    return replace(tensor, is_param=True, requires_grad=meta.tensor_meta.requires_grad)


_SPARSE_PARTS: Final = {"sparse_coo": 2} | dict.fromkeys(
    ("sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"), 3
)
"""The number of plain tensors of each sparse layout."""


def _sparse_tensor(
    value: schema.EncodedValue, metas: Mapping[str, schema.PayloadMeta], storages: _Storages
) -> pickle_globals.SparseTensor:
    """Return a sparse tensor of what its codec encoded. It may come from a file, so all of it is checked.

    Raises:
        EncodeError: another codec encoded it, or this is not what the codec of sparse tensors makes.
    """
    if value.codec != pickle_globals.SPARSE_CODEC:
        raise EncodeError(f"old torch has no form for what the codec {value.codec!r:.80} wrote")
    match value.tree:
        case {
            "layout": str(layout),
            "sizes": list(sizes),
            "coalesced": bool() | None as coalesced,
            "parameter": bool(parameter),
            "requires_grad": bool(requires_grad),
        } if (
            len(value.tensors) == _SPARSE_PARTS.get(layout)
            and len(sizes) <= schema.MAX_DIMENSIONS
            and all(type(size) is int and 0 <= size <= schema.MAX_ELEMENTS for size in sizes)
        ):
            return pickle_globals.SparseTensor(
                f"torch.{layout}",
                tuple(storages.tensor(metas[part]) for part in value.tensors),
                tuple(sizes),
                coalesced if layout == "sparse_coo" else None,
                parameter,
                parameter and requires_grad,
            )
    raise EncodeError(
        f"{len(value.tensors)} tensors and {value.tree!r:.200} do not describe a sparse tensor",
        remedy="The file is damaged: `graphwire verify` lists its problems",
    )


def pack_examples(
    examples: schema.ExampleInputs,
    metas: Mapping[str, schema.PayloadMeta],
    records: Mapping[str, Record],
    folder: str,
    *,
    untyped: frozenset[str] = UNTYPED,
) -> PackedFile:
    """Encode example inputs as a `torch.save` file of `(args, kwargs)`.

    Raises:
        EncodeError: a part of them has no plain form.
        SchemaError: their treespec is malformed.
    """
    storages = _Storages(metas, records, folder, untyped)

    def tensor(leaf: object) -> pickle_globals.StridedTensor | None:
        if not isinstance(leaf, schema.TensorArgument) or leaf.name not in metas:
            return None
        return _tensor(metas[leaf.name], storages)

    pickle = PickleWriter(tensor)
    pickle.value(_examples_tree(examples))
    return storages.pack(pickle.finish())


def _examples_tree(examples: schema.ExampleInputs) -> Any:
    """Return the example inputs as `(args, kwargs)`, each tensor as a `TensorArgument` with its name.

    Raises:
        EncodeError: they contain a container or a leaf without a plain form that old readers support.
        SchemaError: the treespec is malformed.
    """
    leaves = iter(examples.leaves)
    try:
        return _unflatten(parse_treespec(examples.spec), leaves)
    except StopIteration:
        raise EncodeError("the example inputs have fewer leaves than their structure") from None


def _unflatten(spec: TreeSpec, leaves: Any) -> Any:
    if spec.type is None:
        return _value(next(leaves))
    items = [_unflatten(child, leaves) for child in spec.children]
    match spec.type:
        case "builtins.tuple":
            return tuple(items)
        case "torch.Size" if all(type(item) is int for item in items):
            return pickle_globals.Shape(items)
        case "builtins.list":
            return items
        case "builtins.dict" | "collections.OrderedDict":
            keys = load_json(spec.context)
            if (
                type(keys) is list
                and len(keys) == len(items)
                and all(key is None or type(key) in (str, int, float, bool) for key in keys)
            ):
                pairs = zip(keys, items, strict=True)
                return OrderedDict(pairs) if spec.type == "collections.OrderedDict" else dict(pairs)
    raise EncodeError(f"a {spec.type} among the example inputs has no plain form")


def _value(leaf: schema.Argument) -> Any:
    if leaf.as_tensor is not None:
        return leaf.as_tensor
    match leaf:
        case schema.Argument(as_none=True):
            return None
        case (
            schema.Argument(as_bool=bool(value))
            | schema.Argument(as_int=int(value))
            | schema.Argument(as_string=str(value))
        ):
            return value
        case schema.Argument(as_float=(float() | str() | int()) as value):
            return schema.decode_float(value)
    raise EncodeError("a leaf of the example inputs has no plain form")
