"""Tensor metadata: element type, shape, strides, device, layout, and where an archive stores the elements."""

from collections.abc import Sequence
from typing import Any

import msgspec

from graphwire.schema.scalars import DTYPE_NAMES, Device, Layout, ScalarType
from graphwire.schema.symbols import SymInt

MAX_DIMENSIONS = 64
"""The largest number of dimensions that torch's kernels iterate over (`at::TensorIterator`)."""
MAX_ELEMENTS = 1 << 59
"""The largest number of elements of a tensor and of the storage it reaches. Beyond it, 63 bits cannot count the bytes."""


def fault_of_extents(sizes: Sequence[int | None], strides: Sequence[int | None], offset: int | None) -> str:
    """Return what is wrong with a tensor's sizes, strides and offset (in elements), or an empty string.

    Unknown values (None, a symbol) count as small.
    """
    if len(sizes) > MAX_DIMENSIONS:
        return f"there are {len(sizes)} sizes, and at most {MAX_DIMENSIONS} are possible"
    # torch skips zeros when it multiplies sizes to check strides.
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
    """The layout of a sparse tensor. A graph does not record how many elements a value stores."""

    dense_dim: int = 0
    """The number of trailing dimensions that are dense inside each stored element."""
    coalesced: bool = False
    """For SparseCoo: whether the indices are known to be sorted and unique."""
    index_dtype: ScalarType = ScalarType.LONG
    """For compressed layouts: the element type of the indices, INT or LONG."""
    block: list[int] | None = None
    """For SparseBsr and SparseBsc: rows and columns of a block. Absent: another layout."""


class TensorMeta(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """A tensor's element type, shape, device and memory layout.

    Equal metas of a program usually share one record. To change a value's meta, replace the record; never edit its
    lists.
    """

    dtype: ScalarType
    """The element type; `UNKNOWN` (0) if `dtype_name` names it."""
    sizes: list[SymInt]
    """The number of elements in each dimension, outermost first."""
    requires_grad: bool
    """Whether the tensor requires a gradient."""
    device: Device
    """The device of the tensor at export."""
    strides: list[SymInt]
    """The distance of neighbours in each dimension, in elements. As many as `sizes` if the layout is `Strided`; other
    layouts may have none."""
    storage_offset: SymInt
    """The position of the first element, in elements from the start of the storage."""
    layout: Layout
    """The layout; `Unknown` (0) if `layout_name` names it."""
    dtype_name: str | None = None
    """Extension `dtypes`: torch's name of an element type without a number. Absent: `dtype` has the number."""
    layout_name: str | None = None
    """Extension `layouts`: torch's name of a layout without a number, such as `jagged`. Absent: `layout` has the
    number."""
    sparse: SparseMeta | None = None
    """Extension without requirement: the details of a sparse layout. Absent: their defaults."""

    @property
    def dtype_text(self) -> str:
        """torch's name of the element type, such as `float32`; `unknown` if the document gives none."""
        return self.dtype_name or DTYPE_NAMES.get(self.dtype, "unknown")


class Part(msgspec.Struct, gc=False, omit_defaults=True):
    """An inner tensor of a tensor subclass."""

    meta: TensorMeta
    """The element type, shape and layout of the inner tensor."""
    composition: "Composition | None" = None
    """The inner tensors of this part, if it is a tensor subclass itself. Absent: it is a plain tensor."""


class Composition(msgspec.Struct, gc=False, omit_defaults=True):
    """The inner tensors of a tensor subclass in a graph, as a constant codec describes them."""

    codec: str
    """The name of the codec."""
    tree: Any
    """What the codec returned: any tree. `{"graphwire.integer": I}` in it represents row I of `integers`."""
    parts: list[Part]
    """The tensors that the tree refers to by position."""
    integers: list[SymInt] = []
    """The symbolic integers in the tree."""


class PayloadMeta(msgspec.Struct, gc=False, omit_defaults=True):
    """Where an archive stores one weight or constant, and how to read its record."""

    path_name: str
    """The name of the record in the config's folder, such as `weight_0`; several entries may have the same."""
    is_param: bool
    """Whether the tensor is a parameter."""
    use_pickle: bool
    """Whether torch pickled the record. graphwire never writes pickles."""
    tensor_meta: TensorMeta | None
    """The tensor's metadata. Its strides and storage offset count in the record, and may differ from those in the
    graph. Null: the payload is not a tensor."""
    same_as: str | None = None
    """Extension without requirement: the earlier payload that is the same tensor object (a tied weight). Absent: it is
    an object of its own."""
    weight: str | None = None
    """Extension without requirement, for a constant: the weight that is the same tensor object. Absent: none is."""
    shared: str | None = None
    """Extension without requirement, for a constant: the full name of the weight record that contains its storage (a
    path such as `data/weights/weight_0`, unlike `path_name`). The constant's own record is a copy, for readers that
    expect one. Absent: it shares no weight's storage."""
    buffer: bool | None = None
    """Extension without requirement, for a `torch.nn.Buffer`: whether it is persistent. Absent: it is none."""
    conj: bool = False
    """Extension `lazy-bits`: the tensor has a pending conjugation."""
    neg: bool = False
    """Extension `lazy-bits`: the tensor has a pending negation."""
    placement: str | None = None
    """Extension `placement`: `meta` or `fake` for a tensor without elements, which has no record. Absent: it has
    one."""


class PayloadConfig(msgspec.Struct, gc=False):
    """The payloads of one kind (weights, constants, sample inputs) of one program, by qualified name."""

    config: dict[str, PayloadMeta]
    """The payloads by qualified name, in the order of the program's state."""
