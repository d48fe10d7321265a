"""Reads and writes the file `.metadata` of a checkpoint: a pickle that describes tensors and where their chunks are.

It is read by graphwire's reader of pickles, which runs no code. The classes in `_CLASSES` become data; a pickle that names
another one is refused, and the error has the name.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any, NamedTuple

from graphwire.errors import ArchiveError, EncodeError, GraphwireError
from graphwire.hooks import StoreFolder
from graphwire.wire.limits import PickleLimits
from graphwire.wire.torch_files.pickle_globals import DTypeName, Instance, LayoutName, Shape
from graphwire.wire.torch_files.pickle_reader import read_pickle
from graphwire.wire.torch_files.torch_save_writer import PickleWriter

METADATA = ".metadata"

_HERE = "torch.distributed.checkpoint.metadata."
_BEFORE_2_3 = "torch.distributed._shard.sharded_tensor.metadata."
_STORAGE_INFO = "torch.distributed.checkpoint.filesystem._StorageInfo"
_CLASSES = frozenset(
    [
        *(_HERE + name for name in "Metadata MetadataIndex StorageMeta TensorProperties".split()),
        *(_HERE + f"{kind}StorageMetadata" for kind in ("Tensor", "Bytes", "Chunk")),
        _HERE + "_MEM_FORMAT_ENCODING",
        _BEFORE_2_3 + "TensorProperties",
        _BEFORE_2_3 + "MEM_FORMAT_ENCODING",
        _STORAGE_INFO,
        *(f"pathlib{part}.{system}Path" for part in ("", "._local") for system in ("Posix", "Windows")),
    ]
)
_LIMITS = PickleLimits(nbytes=1 << 29, steps=1 << 25, values=1 << 25)
"""A chunk takes about 75 steps, so this is enough for 400,000."""
_MOST_SIZE = 1 << 62
_REMEDY = "The checkpoint is damaged, or no FileSystemWriter wrote it: fetch or save it again"


class SavedChunk(NamedTuple):
    """A box of a tensor, and the part of a file that `torch.save` wrote for it."""

    file: str
    """Relative to the folder of `.metadata`."""
    offset: int
    """In bytes."""
    nbytes: int
    start: tuple[int, ...]
    """The index of the first element in each dimension of the tensor."""
    sizes: tuple[int, ...]


class DescribedTensor(NamedTuple):
    """A tensor as `.metadata` describes it."""

    dtype: str
    shape: tuple[int, ...]
    chunks: tuple[SavedChunk, ...]
    """Those that have elements."""


class Metadata(NamedTuple):
    """What a checkpoint contains. Values that are not tensors are dropped."""

    tensors: Mapping[str, DescribedTensor]
    sha256: str
    """The digest of `.metadata`, in hexadecimal."""


def read_metadata(folder: StoreFolder, location: str) -> Metadata:
    """Read a file `.metadata`.

    Raises:
        MissingRecordError: there is no such file.
        ArchiveError: it is damaged, or names a class that is not a part of a checkpoint's description.
    """
    with closing(folder.open(location)) as file:
        if file.size > _LIMITS.nbytes:
            raise ArchiveError(
                f"the file has {file.size:,} bytes, more than {_LIMITS.nbytes:,}", place=location
            )
        data = file.read_at(0, file.size)
    try:
        tensors = dict(_tensors(read_pickle(data, limits=_LIMITS, classes=_CLASSES)))
    except GraphwireError as error:
        place = f"{location}: {error.place}" if error.place else location
        raise ArchiveError(error.problem, place=place, remedy=_REMEDY) from None
    return Metadata(tensors, hashlib.sha256(data).hexdigest())


def _tensors(value: Any) -> Iterator[tuple[str, DescribedTensor]]:
    described = _field(value, "Metadata", "state_dict_metadata", dict)
    places = _places(_field(value, "Metadata", "storage_data", dict))
    for name, entry in described.items():
        if type(name) is not str:
            raise _malformed("a name is no text")
        if not _is(entry, "BytesStorageMetadata"):
            yield name, _tensor(name, entry, places.get(name, {}))


def _places(storage_data: Mapping[Any, Any]) -> dict[str, dict[tuple[int, ...], tuple[str, int, int]]]:
    """Return file, offset and size of each chunk, by the name of its tensor and the index of its first element."""
    found: dict[str, dict[tuple[int, ...], tuple[str, int, int]]] = {}
    for key, info in storage_data.items():
        name, start = _field(key, "MetadataIndex", "fqn", str), key.get("offset")
        if start is None:
            continue  # a value that is not a tensor
        if info.get("transform_descriptors"):
            raise ArchiveError(
                f"the tensor {name!r:.200} is stored with transforms ({info['transform_descriptors']!r:.100})",
                remedy="Save the checkpoint without extensions such as compression",
            )
        file = _field(info, "_StorageInfo", "relative_path", str)
        offset, nbytes = (_number(_field(info, "_StorageInfo", each, int)) for each in ("offset", "length"))
        if _numbers(start) in found.setdefault(name, {}):
            raise _malformed(f"the tensor {name!r:.200} has a chunk twice")
        found[name][start] = file, offset, nbytes
    return found


def _tensor(name: str, entry: Any, places: Mapping[tuple[int, ...], tuple[str, int, int]]) -> DescribedTensor:
    kind = "TensorStorageMetadata"
    properties = _field(entry, kind, "properties", Instance)
    shape = _numbers(_field(entry, kind, "size", tuple))
    if math.prod(size or 1 for size in shape) > _MOST_SIZE:
        raise _malformed(f"the tensor {name!r:.200} has more elements than can be counted")
    match [properties.get(0), properties.get(1)] if _is(properties, "TensorProperties") else []:
        case [DTypeName(dtype), LayoutName("torch.strided")]:
            pass
        case _:
            raise _malformed(f"the tensor {name!r:.200} is not a strided one of a known element type")
    chunks: dict[tuple[int, ...], SavedChunk] = {}
    for each in _field(entry, kind, "chunks", list):
        start, sizes = (
            _numbers(_field(each, "ChunkStorageMetadata", key, tuple)) for key in ("offsets", "sizes")
        )
        if not len(start) == len(sizes) == len(shape) or any(
            first + size > whole for first, size, whole in zip(start, sizes, shape, strict=True)
        ):
            raise _malformed(f"a chunk of the tensor {name!r:.200} is outside of its shape {list(shape)}")
        if 0 in sizes:
            continue
        if start not in places:
            raise _malformed(f"no file is named for the chunk at {list(start)} of the tensor {name!r:.200}")
        if chunks.setdefault(start, SavedChunk(*places[start], start, sizes)).sizes != sizes:
            raise _malformed(f"two chunks of the tensor {name!r:.200} begin at {list(start)}")
    return DescribedTensor(dtype, shape, tuple(chunks.values()))


def _is(value: Any, name: str) -> bool:
    return type(value) is Instance and value.name.rpartition(".")[2] == name


def _field(value: Any, name: str, key: str, kind: type) -> Any:
    """Return an attribute of an instance of a class."""
    if not _is(value, name) or not isinstance(value.get(key), kind):
        raise _malformed(f"{key!r} of a {name} is missing, or of another type")
    return value[key]


def _numbers(value: Any) -> tuple[int, ...]:
    if type(value) is not tuple:
        raise _malformed("an index is not a tuple")
    return tuple(map(_number, value))


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _MOST_SIZE:
        raise _malformed("a size or an offset is out of range")
    return value


def _malformed(what: str) -> ArchiveError:
    return ArchiveError(what, remedy=_REMEDY)


# --------------------------------------------------------------------------------------------------------------- writing


def write_metadata(tensors: Mapping[str, DescribedTensor]) -> bytes:
    """Return the bytes of a `.metadata` file. Equal input gives equal bytes.

    Raises:
        EncodeError: a name is not Unicode text.
    """
    writer = PickleWriter()
    value = Instance(
        _HERE + "Metadata",
        {
            "state_dict_metadata": {name: _described(each) for name, each in tensors.items()},
            "planner_data": {name: (name,) for name in tensors},
            "storage_data": {
                Instance(
                    _HERE + "MetadataIndex", {"fqn": name, "offset": Shape(chunk.start), "index": index}
                ): Instance(
                    _STORAGE_INFO,
                    {"relative_path": chunk.file, "offset": chunk.offset, "length": chunk.nbytes},
                )
                for name, each in tensors.items()
                for index, chunk in enumerate(each.chunks)
            },
            "storage_meta": None,
            "version": "1.0.0",
        },
    )
    try:
        writer.value(value)
    except UnicodeEncodeError as error:
        raise EncodeError(f"a name is not valid Unicode: {error.object!r:.200}") from None
    return writer.finish()


def _described(tensor: DescribedTensor) -> Instance:
    encoding = Instance(_HERE + "_MEM_FORMAT_ENCODING", {0: 0}, is_called=True)
    facts = (DTypeName(tensor.dtype), LayoutName("torch.strided"), False, encoding, False)
    chunks = [
        Instance(_HERE + "ChunkStorageMetadata", {"offsets": Shape(each.start), "sizes": Shape(each.sizes)})
        for each in tensor.chunks
    ]
    return Instance(
        _HERE + "TensorStorageMetadata",
        {
            "properties": Instance(_HERE + "TensorProperties", dict(enumerate(facts))),
            "size": Shape(tensor.shape),
            "chunks": chunks,
        },
    )
