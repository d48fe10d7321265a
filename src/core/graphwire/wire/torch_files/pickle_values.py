"""Inert records that represent the tensors, storages, classes and functions in torch's pickles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from graphwire.schema import ITEM_SIZES


class StorageType(msgspec.Struct, frozen=True):
    """A storage class of torch."""

    dtype: str | None
    """The element type; None for the untyped class, whose lengths are in bytes."""


class _Named(msgspec.Struct, frozen=True):
    name: str


class DTypeName(_Named, frozen=True):
    """An element type, by torch's name without the prefix `torch.`."""


class LayoutName(_Named, frozen=True):
    """A tensor layout, by torch's name with the prefix `torch.`."""


class DeviceName(msgspec.Struct, frozen=True):
    """A device, such as `cuda:0`."""

    type: str
    index: int | None


class TypeName(_Named, frozen=True):
    """A class that a pickle may name but not instantiate."""


class InstanceType(_Named, frozen=True):
    """A class whose instances the caller of the reader wants as data."""


class Instance(dict[Any, Any]):
    """An instance of a class as data: its attributes by name, its arguments or the items of a tuple as state by number.

    It equals only itself, so that it can be a key.
    """

    def __init__(
        self, name: str, fields: Mapping[Any, Any] | None = None, *, is_called: bool = False
    ) -> None:
        super().__init__(fields or {})
        self.name = name
        """The full name of the class."""
        self.is_called = is_called
        """Whether the class is called with arguments; otherwise the instance has a state."""

    def __hash__(self) -> int:  # type: ignore[override] # a dict has none
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other


class Shape(tuple[int, ...]):
    """A `torch.Size` to write. It is read as a tuple."""

    __slots__ = ()


class Function(msgspec.Struct, frozen=True):
    """A function or class that a pickle may call, with the function of this package that replaces it (`make`)."""

    name: str
    make: Callable[[tuple[Any, ...]], Any]


class UnknownGlobal(_Named, frozen=True):
    """A value whose class is not on the allow-list. Only the name of the class is kept."""


class Storage(msgspec.Struct, frozen=True):
    """A storage, whose bytes are a record of the archive that contains the pickle."""

    dtype: str | None
    """The element type; None for an untyped storage."""
    key: str
    """The record's name is `data/KEY`."""
    location: str
    """The device, such as `cpu` or `cuda:0`."""
    numel: int
    """The length in elements, or in bytes for an untyped storage."""

    @property
    def nbytes(self) -> int:
        """The length in bytes."""
        return self.numel * (1 if self.dtype is None else ITEM_SIZES[self.dtype])


class StridedTensor(msgspec.Struct, frozen=True, eq=False):
    """A strided tensor in a storage. It equals only itself, so that two names of one object remain one tensor."""

    storage: Storage | None
    """None for a meta tensor, which has no elements."""
    dtype: str
    offset: int
    """In elements."""
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    requires_grad: bool
    conj: bool = False
    neg: bool = False
    is_param: bool = False


class SparseTensor(msgspec.Struct, frozen=True, eq=False):
    """A sparse tensor. It equals only itself."""

    layout: str
    """torch's name of the layout, such as `torch.sparse_coo`."""
    parts: tuple[StridedTensor, ...]
    """For COO: indices and values. For the compressed layouts: compressed indices, plain indices, values."""
    sizes: tuple[int, ...]
    is_coalesced: bool | None
    """For COO only; None if the pickle does not state it."""
    is_param: bool = False
    requires_grad: bool = False


class DefaultDictData(dict[Any, Any]):
    """A `collections.defaultdict` as data."""

    factory: str | None = None
    """The name of its default factory."""


class DequeData(list[Any]):
    """A `collections.deque` as data."""

    maxlen: int | None = None
