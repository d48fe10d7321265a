"""What an allow-listed pickle holds besides plain data: inert records where torch's own pickles name classes and functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from graphwire.schema import ITEM_SIZES


@dataclass(frozen=True, slots=True)
class StorageType:
    """A class of storages."""

    dtype: str | None
    """The element type; None for one that counts bytes."""


@dataclass(frozen=True, slots=True)
class DTypeName:
    """An element type, by torch's name without its prefix."""

    name: str


@dataclass(frozen=True, slots=True)
class LayoutName:
    """A tensor's layout, by torch's name with its prefix."""

    name: str


@dataclass(frozen=True, slots=True)
class DeviceName:
    """A device."""

    type: str
    index: int | None


@dataclass(frozen=True, slots=True)
class TypeName:
    """A class that a pickle may name, but not make instances of."""

    name: str


@dataclass(frozen=True, slots=True)
class Function:
    """A function or class that a pickle may call, and what it makes here."""

    name: str
    make: Callable[[tuple[Any, ...]], Any]


@dataclass(frozen=True, slots=True)
class UnknownGlobal:
    """Something of a class that is not read: its class, and nothing else."""

    name: str


@dataclass(frozen=True, slots=True)
class Storage:
    """Where a storage's bytes are: a record of the archive that the pickle lies in."""

    dtype: str | None
    """The element type; None where it counts bytes."""
    key: str
    """The record is `data/KEY`."""
    location: str
    """The device, such as `cpu` or `cuda:0`."""
    numel: int
    """In elements."""

    @property
    def nbytes(self) -> int:
        """Its length in bytes."""
        return self.numel * (1 if self.dtype is None else ITEM_SIZES[self.dtype])


@dataclass(frozen=True, slots=True, eq=False)
class StridedTensor:
    """A tensor in a storage. Equal only to itself: two names of one object are one tensor."""

    storage: Storage | None
    """None for a tensor without elements, on the meta device."""
    dtype: str
    offset: int
    """In elements."""
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    requires_grad: bool
    conj: bool = False
    neg: bool = False
    is_param: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class SparseTensor:
    """A sparse tensor. Equal only to itself."""

    layout: str
    """torch's name, such as `torch.sparse_coo`."""
    parts: tuple[StridedTensor, ...]
    """COO: indices and values; the compressed layouts: compressed indices, plain indices, values."""
    sizes: tuple[int, ...]
    is_coalesced: bool | None
    """Of COO; None where the pickle does not say, and for other layouts."""
    is_param: bool = False
    requires_grad: bool = False


class DefaultDictData(dict[Any, Any]):
    """A `collections.defaultdict` as data."""

    factory: str | None = None
    """The name of its default factory."""


class DequeData(list[Any]):
    """A `collections.deque` as data."""

    maxlen: int | None = None
