"""Writes pickles of plain containers and tensors (protocol 2) that old torch reads. Equal input gives equal bytes."""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

from graphwire.errors import EncodeError
from graphwire.wire.torch_files.pickle_globals import DTYPES_OF_STORAGES
from graphwire.wire.torch_files.pickle_values import Storage, StridedTensor

_STORAGE_OF_DTYPE = {dtype: name for name, dtype in DTYPES_OF_STORAGES.items()}


class PickleWriter:
    """Writes one pickle value by value. `finish` returns it."""

    def __init__(self) -> None:
        self._parts: list[bytes] = [b"\x80\x02"]
        self._memo: dict[Hashable, int] = {}

    def finish(self) -> bytes:
        """End the pickle, and return its bytes."""
        return b"".join([*self._parts, b"."])

    def shared(self, key: Hashable, write: Callable[[], None]) -> None:
        """Write a value on the first call with `key`, and a reference to it on later ones."""
        index = self._memo.get(key)
        if index is not None:
            self._put(b"h" + bytes([index]) if index < 256 else b"j" + struct.pack("<I", index))
            return
        write()
        index = self._memo[key] = len(self._memo)
        self._put(b"q" + bytes([index]) if index < 256 else b"r" + struct.pack("<I", index))

    def value(self, value: Any, leaf: Callable[[Any], bool] = lambda value: False) -> None:
        """Write None, bool, int, float, text, and tuples, lists, dicts and OrderedDicts of them.

        Args:
            leaf: writes a value of any other type, and returns whether it could.

        Raises:
            EncodeError: the value cannot be written.
        """
        kind = type(value)
        if value is None:
            self._put(b"N")
        elif kind is bool:
            self._put(b"\x88" if value else b"\x89")
        elif kind is int:
            self._integer(value)
        elif kind is float:
            self._put(b"G" + struct.pack(">d", value))
        elif kind is str:
            self._text(value)
        elif kind is tuple:
            self._tuple(*(partial(self.value, item, leaf) for item in value))
        elif kind is list:
            self._put(b"](")
            for item in value:
                self.value(item, leaf)
            self._put(b"e")
        elif kind in (dict, OrderedDict):
            self.mapping(
                {key: partial(self.value, item, leaf) for key, item in value.items()},
                ordered=kind is OrderedDict,
            )
        elif not leaf(value):
            raise EncodeError(f"a {kind.__name__} cannot be written for an old torch")

    def mapping(self, items: dict[Any, Callable[[], None]], *, ordered: bool = False) -> None:
        """Write a dict. For each key, `items` has a function that writes the value."""
        if ordered:
            self.call("collections", "OrderedDict")
        else:
            self._put(b"}")
        self._put(b"(")
        for key, write in items.items():
            self.value(key)
            write()
        self._put(b"u")

    def call(self, module: str, name: str, *arguments: Callable[[], None]) -> None:
        """Write a call of a global. Each of `arguments` is a function that writes one argument."""
        self.name(module, name)
        self._tuple(*arguments)
        self._put(b"R")

    def name(self, module: str, name: str) -> None:
        """Write a global."""
        self.shared(("global", module, name), lambda: self._put(f"c{module}\n{name}\n".encode()))

    def tensor(self, tensor: StridedTensor) -> None:
        """Write a tensor that is not a parameter, and whose storage is a record of the archive."""
        storage = tensor.storage
        if storage is None:
            self.call(
                "torch._utils",
                "_rebuild_meta_tensor_no_storage",
                lambda: self.name("torch", tensor.dtype),
                *self._plain(tensor.sizes, tensor.strides, tensor.requires_grad),
            )
            return
        arguments = [
            lambda: self._storage(storage),
            *self._plain(tensor.offset, tensor.sizes, tensor.strides, tensor.requires_grad),
            lambda: self.call("collections", "OrderedDict"),
        ]
        if storage.dtype is None:
            arguments.append(lambda: self.name("torch", tensor.dtype))
        bits = {key: True for key in ("conj", "neg") if getattr(tensor, key)}
        if bits:
            arguments.append(lambda: self.value(bits))
        version = "v3" if storage.dtype is None else "v2"
        self.call("torch._utils", f"_rebuild_tensor_{version}", *arguments)

    def parameter(self, write: Callable[[], None], requires_grad: bool) -> None:
        """Write a parameter. `write` writes its tensor."""
        hooks: Callable[[], None] = lambda: self.call("collections", "OrderedDict")  # noqa: E731
        self.call("torch._utils", "_rebuild_parameter", write, *self._plain(requires_grad), hooks)

    def _plain(self, *values: Any) -> list[Callable[[], None]]:
        return [partial(self.value, value) for value in values]

    def _storage(self, storage: Storage) -> None:
        """Write the persistent id of a storage."""
        module, name = (
            ("torch.storage", "UntypedStorage")
            if storage.dtype is None
            else ("torch", _STORAGE_OF_DTYPE[storage.dtype])
        )
        self._tuple(
            lambda: self.shared("storage", lambda: self._text("storage")),
            lambda: self.name(module, name),
            lambda: self._text(storage.key),
            lambda: self.shared(("location", storage.location), lambda: self._text(storage.location)),
            lambda: self._integer(storage.numel),
        )
        self._put(b"Q")

    def _tuple(self, *writes: Callable[[], None]) -> None:
        if not writes:
            self._put(b")")
            return
        short = len(writes) <= 3
        if not short:
            self._put(b"(")
        for write in writes:
            write()
        self._put(bytes([0x84 + len(writes)]) if short else b"t")

    def _integer(self, value: int) -> None:
        if 0 <= value < 1 << 8:
            self._put(b"K" + bytes([value]))
        elif 0 <= value < 1 << 16:
            self._put(b"M" + struct.pack("<H", value))
        elif -(1 << 31) <= value < 1 << 31:
            self._put(b"J" + struct.pack("<i", value))
        else:
            data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
            self._put(b"\x8a" + bytes([len(data)]) + data)

    def _text(self, value: str) -> None:
        data = value.encode("utf-8")
        self._put(b"X" + struct.pack("<I", len(data)) + data)

    def _put(self, data: bytes) -> None:
        self._parts.append(data)
