"""Element types, layouts, memory formats and devices, with the numbers of torch's schema."""

import enum

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
