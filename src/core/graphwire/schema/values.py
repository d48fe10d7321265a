"""Element types, layouts, memory formats and devices, with the numbers of torch's schema."""

import enum
import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec


class ScalarType(enum.IntEnum):
    """A tensor's element type. A type without a number here is UNKNOWN, and `TensorMeta.dtype_name` names it."""

    UNKNOWN = 0
    """No number; `dtype_name` names the type."""
    BYTE = 1
    """Unsigned integer of 8 bits."""
    CHAR = 2
    """Integer of 8 bits, two's complement."""
    SHORT = 3
    """Integer of 16 bits, two's complement."""
    INT = 4
    """Integer of 32 bits, two's complement."""
    LONG = 5
    """Integer of 64 bits, two's complement."""
    HALF = 6
    """IEEE 754 binary16: 1 sign bit, 5 exponent bits (bias 15), 10 fraction bits."""
    FLOAT = 7
    """IEEE 754 binary32: 1 sign bit, 8 exponent bits (bias 127), 23 fraction bits."""
    DOUBLE = 8
    """IEEE 754 binary64: 1 sign bit, 11 exponent bits (bias 1023), 52 fraction bits."""
    COMPLEXHALF = 9
    """Two binary16 numbers: the real part, then the imaginary part."""
    COMPLEXFLOAT = 10
    """Two binary32 numbers: the real part, then the imaginary part."""
    COMPLEXDOUBLE = 11
    """Two binary64 numbers: the real part, then the imaginary part."""
    BOOL = 12
    """One byte: 0 for false, 1 for true."""
    BFLOAT16 = 13
    """The upper half of a binary32: 1 sign bit, 8 exponent bits (bias 127), 7 fraction bits."""
    UINT16 = 28
    """Unsigned integer of 16 bits."""
    FLOAT8E4M3FN = 29
    """1 sign bit, 4 exponent bits (bias 7), 3 fraction bits; no infinities; NaN has all exponent and fraction bits
    set."""
    FLOAT8E5M2 = 30
    """1 sign bit, 5 exponent bits (bias 15), 2 fraction bits; infinities and NaN as in IEEE 754."""
    FLOAT8E4M3FNUZ = 31
    """1 sign bit, 4 exponent bits (bias 8), 3 fraction bits; no infinities, no negative zero; NaN is 0x80."""
    FLOAT8E5M2FNUZ = 32
    """1 sign bit, 5 exponent bits (bias 16), 2 fraction bits; no infinities, no negative zero; NaN is 0x80."""
    FLOAT8E8M0FNU = 33
    """8 exponent bits (bias 127), no sign, no fraction: the byte b is 2 to the power of b - 127; NaN is 0xFF; there is
    no zero."""
    UINT32 = 34
    """Unsigned integer of 32 bits."""
    UINT64 = 35
    """Unsigned integer of 64 bits."""


class Layout(enum.IntEnum):
    """The memory layout of a tensor's elements. A layout without a number is Unknown, and `TensorMeta.layout_name`
    names it."""

    Unknown = 0
    """No number; `layout_name` names the layout."""
    SparseCoo = 1
    """Coordinates of the stored elements, and their values."""
    SparseCsr = 2
    """Compressed rows."""
    SparseCsc = 3
    """Compressed columns."""
    SparseBsr = 4
    """Compressed rows of blocks."""
    SparseBsc = 5
    """Compressed columns of blocks."""
    _mkldnn = 6
    """Opaque to everything but oneDNN."""
    Strided = 7
    """Sizes, strides and an offset in a storage. Dense tensors have it."""


class MemoryFormat(enum.IntEnum):
    """The order of strides that an operator is asked to produce."""

    Unknown = 0
    """Not used by writers."""
    ContiguousFormat = 1
    """The last dimension is the innermost."""
    ChannelsLast = 2
    """Of four dimensions (N, C, H, W), C is the innermost, then W, H, N."""
    ChannelsLast3d = 3
    """Of five dimensions (N, C, D, H, W), C is the innermost, then W, H, D, N."""
    PreserveFormat = 4
    """That of the input."""


class Device(msgspec.Struct, frozen=True):
    """The device of a tensor."""

    type: str
    """The device type: `cpu`, `cuda`, `meta` …"""
    index: int | None = None
    """The number of the device of its type. Null or absent: the current device."""


DTYPE_NAMES: dict[ScalarType, str] = {
    ScalarType.BYTE: "uint8",
    ScalarType.CHAR: "int8",
    ScalarType.SHORT: "int16",
    ScalarType.INT: "int32",
    ScalarType.LONG: "int64",
    ScalarType.HALF: "float16",
    ScalarType.FLOAT: "float32",
    ScalarType.DOUBLE: "float64",
    ScalarType.COMPLEXHALF: "complex32",
    ScalarType.COMPLEXFLOAT: "complex64",
    ScalarType.COMPLEXDOUBLE: "complex128",
    ScalarType.BOOL: "bool",
    ScalarType.BFLOAT16: "bfloat16",
    ScalarType.UINT16: "uint16",
    ScalarType.FLOAT8E4M3FN: "float8_e4m3fn",
    ScalarType.FLOAT8E5M2: "float8_e5m2",
    ScalarType.FLOAT8E4M3FNUZ: "float8_e4m3fnuz",
    ScalarType.FLOAT8E5M2FNUZ: "float8_e5m2fnuz",
    ScalarType.FLOAT8E8M0FNU: "float8_e8m0fnu",
    ScalarType.UINT32: "uint32",
    ScalarType.UINT64: "uint64",
}
"""torch's name of each numbered element type (`torch.float32` without its prefix)."""
LAYOUT_NAMES: dict[Layout, str] = {
    Layout.SparseCoo: "sparse_coo",
    Layout.SparseCsr: "sparse_csr",
    Layout.SparseCsc: "sparse_csc",
    Layout.SparseBsr: "sparse_bsr",
    Layout.SparseBsc: "sparse_bsc",
    Layout._mkldnn: "_mkldnn",
    Layout.Strided: "strided",
}
"""torch's name of each numbered layout."""
MEMORY_FORMAT_NAMES: dict[MemoryFormat, str] = {
    MemoryFormat.ContiguousFormat: "contiguous_format",
    MemoryFormat.ChannelsLast: "channels_last",
    MemoryFormat.ChannelsLast3d: "channels_last_3d",
    MemoryFormat.PreserveFormat: "preserve_format",
}
"""torch's name of each numbered memory format."""

_OF_SIZES = {
    1: "uint8 int8 bool float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn_x2"
    " qint8 quint8 quint4x2 quint2x4 bits1x8 bits2x4 bits4x2 bits8"
    " int1 int2 int3 int4 int5 int6 int7 uint1 uint2 uint3 uint4 uint5 uint6 uint7",
    2: "int16 uint16 float16 bfloat16 bits16",
    4: "int32 uint32 float32 complex32 qint32",
    8: "int64 uint64 float64 complex64",
    16: "complex128",
}
ITEM_SIZES: dict[str, int] = {name: size for size, names in _OF_SIZES.items() for name in names.split()}
"""The size of one element in bytes, by the name of the element type."""


# ---------------------------------------------------------------- sizes, strides and scalar values that may be symbolic


Float: TypeAlias = float | Literal["Infinity", "-Infinity", "NaN"]
"""A float in a document. Values that JSON cannot represent are strings, in every wire format (torch, schema 8.14)."""


class SymExprHint(msgspec.Struct, gc=False, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The value of a symbolic expression on the example inputs. Exactly one variant is set."""

    as_int: int | None = None
    """The value of an integer expression."""
    as_bool: bool | None = None
    """The value of a boolean expression."""
    as_float: Float | None = None
    """The value of a float expression."""


class SymExpr(msgspec.Struct, gc=False, frozen=True):
    """A symbolic expression."""

    expr_str: str
    """The expression, as constructor text such as `Symbol('s0', positive=True, integer=True)`."""
    hint: SymExprHint | None = None
    """The value on the example inputs. Null or absent: unknown, as of unbacked symbols."""


class SymInt(msgspec.Struct, gc=False, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """An integer, known or symbolic. Exactly one variant is set."""

    as_expr: SymExpr | None = None
    """An expression."""
    as_int: int | None = None
    """A known value."""


class SymFloat(msgspec.Struct, gc=False, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A float, known or symbolic. Exactly one variant is set."""

    as_expr: SymExpr | None = None
    """An expression."""
    as_float: Float | None = None
    """A known value."""


class SymBool(msgspec.Struct, gc=False, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A boolean, known or symbolic. Exactly one variant is set."""

    as_expr: SymExpr | None = None
    """An expression."""
    as_bool: bool | None = None
    """A known value."""


class RangeConstraint(msgspec.Struct, gc=False, frozen=True):
    """The inclusive range of a symbol or expression. A bound of None means unbounded."""

    min_val: int | None
    """The smallest value. Null: no lower bound."""
    max_val: int | None
    """The largest value. Null: no upper bound."""


def encode_float(value: float) -> Float:
    """Encode a float for a document: as `Infinity`, `-Infinity` or `NaN` if it is not finite."""
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def decode_float(value: Float) -> float:
    """Return the float that a document stores."""
    return float(value)


# ------------------------------------------------------------------------------------------------------ tensor metadata
# element type, shape, strides, device, layout, and where an archive stores the elements.


MAX_DIMENSIONS = 64
"""The largest number of dimensions that torch's kernels iterate over (`at::TensorIterator`)."""
MAX_ELEMENTS = 1 << 59
"""The largest number of elements of a tensor and of the storage it reaches. Beyond it, 63 bits cannot count the bytes."""


def fault_of_extents(sizes: Sequence[int | None], strides: Sequence[int | None], offset: int | None) -> str:
    """Return what is wrong with a tensor's sizes, strides and offset (in elements), or an empty string.

    Unknown values (None, a symbol) count as 1.
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
        if size:
            reach += (size - 1) * (1 if stride is None else stride)
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


# ------------------------------------ versions of torch's schema: of a document, or the first that supports a construct


class Version(NamedTuple):
    """A version of the schema."""

    major: int
    minor: int = 0
    variant: str = ""

    def __str__(self) -> str:
        if self == DRAFT:
            return "draft-2022"
        number = str(self.major) if self.major < 3 else f"{self.major}.{self.minor}"
        return f"{self.variant}-{number}" if self.variant else number


DRAFT = Version(0)
