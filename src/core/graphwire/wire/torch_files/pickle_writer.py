"""Writes pickles of plain containers and tensors (protocol 2) that old torch reads. Equal input gives equal bytes."""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from itertools import chain
from types import MappingProxyType, NoneType
from typing import Any

import msgspec
from msgspec.structs import replace

from graphwire.errors import EncodeError
from graphwire.wire.torch_files.pickle_globals import (
    DTYPES_OF_STORAGES,
    DTypeName,
    Instance,
    LayoutName,
    Shape,
    SparseTensor,
    Storage,
    StridedTensor,
)

_STORAGE_OF_DTYPE = {dtype: name for name, dtype in DTYPES_OF_STORAGES.items()}


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
        self._memo: dict[Hashable, int] = {}

    def finish(self) -> bytes:
        """End the pickle, and return its bytes."""
        return b"".join([*self._parts, b"."])

    def value(self, value: Any) -> None:
        """Write None, bool, int, float, text, tensors, and instances, tuples, lists, dicts and OrderedDicts of them.

        Raises:
            EncodeError: the value cannot be written.
        """
        write = _WRITERS.get(type(value))
        if write is not None:
            write(self, value)
        elif (known := self._leaf(value)) is not None:
            self.value(known)
        else:
            raise EncodeError(f"a {type(value).__name__} cannot be written for an old torch")

    def put(self, opcodes: bytes) -> None:
        """Write opcodes as they are."""
        self._parts.append(opcodes)

    def _values(self, before: bytes, values: Iterable[Any], after: bytes) -> None:
        self.put(before)
        for value in values:
            self.value(value)
        self.put(after)

    def _once(self, key: Hashable, write: Callable[[], None]) -> None:
        """Write a value on the first call with `key`, and a reference to it on later ones."""
        index = self._memo.get(key)
        codes = b"hj"
        if index is None:
            write()
            index, codes = self._memo.setdefault(key, len(self._memo)), b"qr"
        self.put(codes[:1] + bytes([index]) if index < 256 else codes[1:] + struct.pack("<I", index))

    def _global(self, value: _Global) -> None:
        self._once(value, lambda: self.put(f"c{value.module}\n{value.name}\n".encode()))

    def _call(self, value: _Call) -> None:
        self._global(value.function)
        self._tuple(value.arguments)
        self.put(b"R")

    def _ordered_dict(self, value: OrderedDict[Any, Any]) -> None:
        self._call(_NEW_DICT)
        self._values(b"(", chain.from_iterable(value.items()), b"u")

    def _instance(self, value: Instance) -> None:
        module, _, name = value.name.rpartition(".")
        if value.is_called:
            self._call(_Call(module, name, *value.values()))
            return
        self._global(_Global(module, name))
        self.put(b")\x81")
        numbered = list(value) == list(range(len(value)))
        self.value(tuple(value.values()) if numbered and value else dict(value))
        self.put(b"b")

    def _storage(self, storage: Storage) -> None:
        """Write the persistent id of a storage."""
        kind = (
            _Global("torch.storage", "UntypedStorage")
            if storage.dtype is None
            else _Global("torch", _STORAGE_OF_DTYPE[storage.dtype])
        )
        parts = (Shared("storage"), kind, storage.key, Shared(storage.location), storage.numel)
        self._values(b"(", parts, b"tQ")

    def _tuple(self, value: tuple[Any, ...]) -> None:
        if not value:
            self.put(b")")
        elif len(value) <= 3:
            self._values(b"", value, bytes([0x84 + len(value)]))
        else:
            self._values(b"(", value, b"t")

    def _integer(self, value: int) -> None:
        if 0 <= value < 1 << 8:
            self.put(b"K" + bytes([value]))
        elif 0 <= value < 1 << 16:
            self.put(b"M" + struct.pack("<H", value))
        elif -(1 << 31) <= value < 1 << 31:
            self.put(b"J" + struct.pack("<i", value))
        else:
            data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
            self.put(b"\x8a" + bytes([len(data)]) + data)

    def _text(self, value: str) -> None:
        data = value.encode("utf-8")
        self.put(b"X" + struct.pack("<I", len(data)) + data)


_NEW_DICT = _Call("collections", "OrderedDict")


def _parameter(tensor: StridedTensor | SparseTensor) -> _Call:
    inner = replace(tensor, is_param=False, requires_grad=False)
    return _Call("torch._utils", "_rebuild_parameter", inner, tensor.requires_grad, _NEW_DICT)


def _strided(tensor: StridedTensor) -> _Call:
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


def _sparse(tensor: SparseTensor) -> _Call:
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
        Shared: lambda writer, value: writer._once(value, lambda: writer.value(value.value)),
        StridedTensor: lambda writer, value: writer._call(_strided(value)),
        SparseTensor: lambda writer, value: writer._call(_sparse(value)),
        Storage: PickleWriter._storage,
        Instance: PickleWriter._instance,
        Shape: lambda writer, value: writer._call(_Call("torch", "Size", tuple(value))),
        DTypeName: lambda writer, value: writer._global(_Global("torch", value.name)),
        LayoutName: lambda writer, value: writer._call(_layout(value.name)),
        _Global: PickleWriter._global,
        _Call: PickleWriter._call,
    }
)
"""How values of each type are written."""
