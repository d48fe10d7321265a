"""Element types, layouts, memory formats and devices, with the numbers of torch's schema."""

from __future__ import annotations

import enum

import msgspec


class ScalarType(enum.IntEnum):
    """A tensor's element type. A type without a number here is UNKNOWN, and `TensorMeta.dtype_name` names it."""

    UNKNOWN = 0
    BYTE = 1
    CHAR = 2
    SHORT = 3
    INT = 4
    LONG = 5
    HALF = 6
    FLOAT = 7
    DOUBLE = 8
    COMPLEXHALF = 9
    COMPLEXFLOAT = 10
    COMPLEXDOUBLE = 11
    BOOL = 12
    BFLOAT16 = 13
    UINT16 = 28
    FLOAT8E4M3FN = 29
    FLOAT8E5M2 = 30
    FLOAT8E4M3FNUZ = 31
    FLOAT8E5M2FNUZ = 32
    FLOAT8E8M0FNU = 33
    UINT32 = 34
    UINT64 = 35


class Layout(enum.IntEnum):
    """The memory layout of a tensor's elements. A layout without a number is Unknown, and `TensorMeta.layout_name`
    names it."""

    Unknown = 0
    SparseCoo = 1
    SparseCsr = 2
    SparseCsc = 3
    SparseBsr = 4
    SparseBsc = 5
    _mkldnn = 6
    Strided = 7


class MemoryFormat(enum.IntEnum):
    """The order of strides that an operator is asked to produce."""

    Unknown = 0
    ContiguousFormat = 1
    ChannelsLast = 2
    ChannelsLast3d = 3
    PreserveFormat = 4


class Device(msgspec.Struct, frozen=True):
    """The device of a tensor."""

    type: str
    """The device type: `cpu`, `cuda`, `meta` …"""
    index: int | None = None
    """The device's number; None for the current device."""


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
