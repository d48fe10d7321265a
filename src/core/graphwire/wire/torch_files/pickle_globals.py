"""The allow-list of globals that a pickle may name (`ALLOWED`), and the data that each of them becomes.

Each name maps to a record, or to a function of this module that checks its arguments and returns a record. Nothing that a
pickle names is imported or called.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec.structs import replace

from graphwire.errors import DecodeError
from graphwire.schema import ITEM_SIZES

# ------------------------- inert records that represent the tensors, storages, classes and functions in torch's pickles


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


SPARSE_CODEC = "sparse"
"""The name of the constant codec for sparse tensors."""


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


_MAX_DIMENSIONS = 128
_MAX_SIZE = (1 << 63) - 1
_SPARSE_COMPRESSED = ("torch.sparse_csr", "torch.sparse_csc", "torch.sparse_bsr", "torch.sparse_bsc")


# --------------------------------------------------------------------------------------------------- arguments


def _fail(what: str) -> DecodeError:
    return DecodeError(f"the pickle's {what} is malformed")


def _size(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _MAX_SIZE:
        raise _fail("size, stride or offset of a tensor")
    return value


def _sizes(value: Any) -> tuple[int, ...]:
    if type(value) is not tuple or len(value) > _MAX_DIMENSIONS:
        raise _fail("shape of a tensor")
    return tuple(map(_size, value))


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise _fail("flag of a tensor")
    return value


def _hooks(value: Any) -> None:
    if value is not None and not isinstance(value, dict):
        raise _fail("table of a tensor's hooks")


def _math_bits(metadata: Any) -> dict[str, bool]:
    """Return the pending conjugation and negation of a tensor."""
    if metadata is None:
        return {}
    if type(metadata) is not dict or not metadata.keys() <= {"conj", "neg"}:
        raise DecodeError(
            "a tensor in the pickle has backend metadata, which is not read",
            remedy="Save the program again with its tensors on the CPU",
        )
    return {key: _flag(value) for key, value in metadata.items()}


# ----------------------------------------------------------------------------------------------------- tensors


def _strided(
    storage: Storage | None,
    dtype: str,
    offset: Any,
    sizes: Any,
    strides: Any,
    requires_grad: Any,
    hooks: Any = None,
    bits: Any = None,
) -> StridedTensor:
    _hooks(hooks)
    sizes, strides = _sizes(sizes), _sizes(strides)
    if len(sizes) != len(strides):
        raise _fail("shape of a tensor")
    known = _math_bits(bits)
    return StridedTensor(storage, dtype, _size(offset), sizes, strides, _flag(requires_grad), **known)


def _rebuild_tensor_v2(arguments: tuple[Any, ...]) -> StridedTensor:
    match arguments:
        case (Storage(dtype=str(dtype)) as storage, offset, sizes, strides, requires_grad, hooks, *bits):
            if len(bits) < 2:
                return _strided(storage, dtype, offset, sizes, strides, requires_grad, hooks, *bits)
    raise _fail("tensor")


def _rebuild_tensor_v3(arguments: tuple[Any, ...]) -> StridedTensor:
    match arguments:
        case (Storage() as storage, offset, sizes, strides, requires_grad, hooks, DTypeName(dtype), *bits):
            if len(bits) < 2:
                return _strided(storage, dtype, offset, sizes, strides, requires_grad, hooks, *bits)
    raise _fail("tensor")


def _rebuild_meta_tensor(arguments: tuple[Any, ...]) -> StridedTensor:
    match arguments:
        case (DTypeName(dtype), sizes, strides, requires_grad):
            return _strided(None, dtype, 0, sizes, strides, requires_grad)
    raise _fail("tensor")


def _rebuild_parameter(arguments: tuple[Any, ...]) -> StridedTensor | SparseTensor:
    match arguments:
        case ((StridedTensor() | SparseTensor()) as tensor, bool() as requires_grad, hooks):
            _hooks(hooks)
            return replace(tensor, is_param=True, requires_grad=requires_grad)
    raise _fail("parameter")


def _rebuild_parameter_with_state(arguments: tuple[Any, ...]) -> StridedTensor | SparseTensor:
    # The state has the attributes that a user set on the parameter. The program does not use them.
    if len(arguments) != 4:
        raise _fail("parameter")
    return _rebuild_parameter(arguments[:3])


def _rebuild_from_type(arguments: tuple[Any, ...]) -> Any:
    match arguments:
        case (Function() as function, TypeName() as kind, tuple() as inner, state):
            if function.name in _TENSOR_FUNCTIONS and isinstance(state, (dict, tuple)):
                made = function.make(inner)
                if kind.name in (_TENSOR, _PARAMETER):
                    return made if kind.name == _TENSOR else replace(made, is_param=True)
    raise _fail("tensor")


def _rebuild_sparse(arguments: tuple[Any, ...]) -> SparseTensor:
    match arguments:
        case (
            LayoutName("torch.sparse_coo"),
            (StridedTensor() as indices, StridedTensor() as values, sizes, *rest),
        ):
            if len(rest) < 2 and (not rest or rest[0] is None or type(rest[0]) is bool):
                parts = (indices, values)
                return SparseTensor("torch.sparse_coo", parts, _sizes(sizes), rest[0] if rest else None)
        case (
            LayoutName(layout),
            (StridedTensor() as compressed, StridedTensor() as plain, StridedTensor() as values, sizes),
        ) if layout in _SPARSE_COMPRESSED:
            return SparseTensor(layout, (compressed, plain, values), _sizes(sizes), None)
    raise _fail("sparse tensor")


# ------------------------------------------------------------------------------------------- other values


def _get_layout(arguments: tuple[Any, ...]) -> LayoutName:
    match arguments:
        case (str(name),) if name in ("torch.strided", "torch.sparse_coo", *_SPARSE_COMPRESSED):
            return LayoutName(name)
    raise _fail("layout")


def _device(arguments: tuple[Any, ...]) -> DeviceName:
    match arguments:
        case (str(kind), *index) if kind.isascii() and kind.isidentifier() and len(index) < 2:
            if not index or (type(index[0]) is int and 0 <= index[0] < 1 << 15):
                return DeviceName(kind, *(index or [None]))
    raise _fail("device")


def _torch_size(arguments: tuple[Any, ...]) -> tuple[int, ...]:
    if len(arguments) != 1:
        raise _fail("shape")
    return _sizes(arguments[0])


def _empty(kind: type, what: str) -> Callable[[tuple[Any, ...]], Any]:
    """Return a function that makes an empty value. CPython adds the items of an OrderedDict after the call, one by one."""

    def make(arguments: tuple[Any, ...]) -> Any:
        if arguments:
            raise _fail(what)
        return kind()

    return make


def _default_dict(arguments: tuple[Any, ...]) -> DefaultDictData:
    made = DefaultDictData()
    match arguments:
        case () | (None,):
            return made
        case ((TypeName() | Function()) as factory,) if factory.name.startswith("builtins."):
            made.factory = factory.name
            return made
    raise _fail("defaultdict")


def _deque(arguments: tuple[Any, ...]) -> DequeData:
    made = DequeData()
    match arguments:
        case () | ((),):
            return made
        case ((), int(maxlen)) if type(maxlen) is int and 0 <= maxlen <= _MAX_SIZE:
            made.maxlen = maxlen
            return made
    raise _fail("deque")


def _set(arguments: tuple[Any, ...]) -> set[Any]:
    """Return the set of a list's items. Protocol 2 writes sets and byte strings as calls."""
    match arguments:
        case (list(items),) if all(type(item) in (str, int, bool, float, type(None)) for item in items):
            return set(items)
    raise _fail("set")


def _bytes_of_text(arguments: tuple[Any, ...]) -> bytes:
    match arguments:
        case (str(text), "latin1" | "latin-1"):
            try:
                return text.encode("latin-1")
            except UnicodeEncodeError:
                pass
    raise _fail("byte string")


# --------------------------------------------------------------------------------------------- allow-list

DTYPES_OF_STORAGES: Mapping[str, str] = MappingProxyType(
    {
        "DoubleStorage": "float64",
        "FloatStorage": "float32",
        "HalfStorage": "float16",
        "LongStorage": "int64",
        "IntStorage": "int32",
        "ShortStorage": "int16",
        "CharStorage": "int8",
        "ByteStorage": "uint8",
        "BoolStorage": "bool",
        "BFloat16Storage": "bfloat16",
        "ComplexDoubleStorage": "complex128",
        "ComplexFloatStorage": "complex64",
    }
)
"""The element type of each typed storage class. A storage of any other type is untyped: its length is in bytes."""

_TENSOR_FUNCTIONS: Mapping[str, Callable[[tuple[Any, ...]], Any]] = MappingProxyType(
    {
        "torch._utils._rebuild_tensor_v2": _rebuild_tensor_v2,
        "torch._utils._rebuild_tensor_v3": _rebuild_tensor_v3,
        "torch._utils._rebuild_parameter": _rebuild_parameter,
        "torch._utils._rebuild_parameter_with_state": _rebuild_parameter_with_state,
        "torch._utils._rebuild_sparse_tensor": _rebuild_sparse,
        "torch._utils._rebuild_meta_tensor_no_storage": _rebuild_meta_tensor,
    }
)

_FUNCTIONS: Mapping[str, Callable[[tuple[Any, ...]], Any]] = MappingProxyType(
    {
        **_TENSOR_FUNCTIONS,
        "torch._tensor._rebuild_from_type_v2": _rebuild_from_type,
        "torch.serialization._get_layout": _get_layout,
        "torch.Size": _torch_size,
        "torch.device": _device,
        "collections.OrderedDict": _empty(OrderedDict, "OrderedDict"),
        "collections.defaultdict": _default_dict,
        "collections.deque": _deque,
        "builtins.set": _set,
        "builtins.frozenset": _set,
        "builtins.bytes": _empty(bytes, "byte string"),
        "_codecs.encode": _bytes_of_text,
    }
)

_TENSOR, _PARAMETER = "torch.Tensor", "torch.nn.parameter.Parameter"
_TYPES = (
    _TENSOR,
    _PARAMETER,
    *(f"builtins.{n}" for n in "list dict int float str".split()),
)


def _allowed() -> dict[tuple[str, str], Any]:
    named: dict[str, Any] = {name: Function(name, make) for name, make in _FUNCTIONS.items()}
    named.update((name, TypeName(name)) for name in _TYPES)
    named.update((f"torch.{name}", StorageType(dtype)) for name, dtype in DTYPES_OF_STORAGES.items())
    named["torch.UntypedStorage"] = named["torch.storage.UntypedStorage"] = StorageType(None)
    named.update((f"torch.{name}", DTypeName(name)) for name in ITEM_SIZES)
    table = {}
    for name, value in named.items():
        module, _, attribute = name.rpartition(".")
        table[module, attribute] = value
        if module == "builtins":  # as protocols 0 to 2 write it
            table["__builtin__", attribute] = value
    return table


ALLOWED: Mapping[tuple[str, str], Any] = MappingProxyType(_allowed())
"""The value that represents each global that a pickle may name, by module and name."""
