"""What is known of a tensor without its elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from graphwire.schema.scalars import DTYPE_NAMES, Device, Layout, ScalarType
from graphwire.schema.symbols import SymInt

MAX_DIMENSIONS = 64
"""What torch's kernels iterate over at most (`at::TensorIterator`)."""
MAX_ELEMENTS = 1 << 59
"""Of a tensor, and of the storage that it reaches: beyond, bytes cannot be counted with 63 bits."""


def fault_of_extents(sizes: Sequence[int | None], strides: Sequence[int | None], offset: int | None) -> str:
    """What is wrong with the sizes, strides and offset of a tensor, counted in elements; empty where nothing is.

    What is not known (None, a symbol) counts as small.
    """
    if len(sizes) > MAX_DIMENSIONS:
        return f"there are {len(sizes)} sizes, and at most {MAX_DIMENSIONS} are possible"
    # torch multiplies sizes without the zeros among them, to check strides.
    count = 1
    for size in sizes:
        count *= size or 1
    if count > MAX_ELEMENTS:
        return "the sizes come to more elements than can be counted"
    reach = offset or 0
    for size, stride in zip(sizes, strides, strict=False):
        if size and stride:
            reach += (size - 1) * stride
    if reach >= MAX_ELEMENTS:
        return "the strides and the offset reach further than can be counted"
    return ""


class SparseMeta(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """How a sparse tensor is laid out. How many elements are stored is not known of a value in a graph."""

    dense_dim: int = 0
    """How many of the last dimensions are dense inside each stored element."""
    coalesced: bool = False
    """Layout SparseCoo: whether indices are known to be sorted and without repetition."""
    index_dtype: ScalarType = ScalarType.LONG
    """The compressed layouts: the element type of indices, INT or LONG."""
    block: list[int] | None = None
    """Layouts SparseBsr and SparseBsc: rows and columns of a block."""


class TensorMeta(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """A tensor's type, shape and place. Equal ones of a program are mostly one record: put another in the place of one
    rather than edit its lists."""

    dtype: ScalarType
    sizes: list[SymInt]
    """In elements, outermost dimension first."""
    requires_grad: bool
    device: Device
    strides: list[SymInt]
    """In elements, one for each size."""
    storage_offset: SymInt
    """In elements, from the start of the storage."""
    layout: Layout
    dtype_name: str | None = None
    """Extension `dtypes`: torch's name of an element type that ScalarType has no number for."""
    layout_name: str | None = None
    """Extension `layouts`: torch's name of a layout that Layout has no number for, such as `jagged`."""
    sparse: SparseMeta | None = None
    """Extension without requirement: how a tensor of a sparse layout is laid out."""

    @property
    def dtype_text(self) -> str:
        """torch's name of the element type, such as `float32`; `unknown` when the document gives none."""
        return self.dtype_name or DTYPE_NAMES.get(self.dtype, "unknown")


class Part(msgspec.Struct, gc=False, omit_defaults=True):
    """A tensor that another one consists of."""

    meta: TensorMeta
    composition: Composition | None = None
    """What it consists of itself."""


class Composition(msgspec.Struct, gc=False, omit_defaults=True):
    """Of which tensors a value of a tensor subclass consists, as a constant codec says it."""

    codec: str
    tree: Any
    """Plain data. `{"graphwire.integer": I}` in it stands for row I of `integers`."""
    parts: list[Part]
    """What the tree refers to by position."""
    integers: list[SymInt] = []
    """The symbolic integers in the tree."""


class PayloadMeta(msgspec.Struct, gc=False, omit_defaults=True):
    """Where one weight or constant lies in an archive, and how its record is read."""

    path_name: str
    """The record's name below its folder, such as `weight_0`."""
    is_param: bool
    use_pickle: bool
    """Whether torch pickled the record. We never write one."""
    tensor_meta: TensorMeta | None
    same_as: str | None = None
    """Extension without requirement: the earlier payload that is the very same tensor object (a tied weight)."""
    weight: str | None = None
    """Extension without requirement, of a constant: the weight that is the very same tensor object."""
    shared: str | None = None
    """Extension without requirement, of a constant: the full name of the weights' record in whose storage it lies. Its own
    record is a copy of that one, for readers that look for it."""
    buffer: bool | None = None
    """Extension without requirement, of a `torch.nn.Buffer`: whether it is persistent."""
    conj: bool = False
    """Extension `lazy-bits`: the tensor is read through a pending conjugation."""
    neg: bool = False
    """Extension `lazy-bits`: the tensor is read through a pending negation."""
    placement: str | None = None
    """Extension `placement`: `meta` or `fake` for a tensor that has no elements, and no record."""


class PayloadConfig(msgspec.Struct, gc=False):
    """The payloads of one kind (weights, constants, sample inputs) of one program, by qualified name."""

    config: dict[str, PayloadMeta]
