"""Writes `torch.save` files without torch, for torch releases up to 2.8. Equal input gives equal bytes."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator, Mapping
from typing import BinaryIO, Final, cast

import msgspec
from msgspec.structs import replace

from graphwire.errors import EncodeError, MissingRecordError
from graphwire.schema import (
    ITEM_SIZES,
    MAX_DIMENSIONS,
    MAX_ELEMENTS,
    EncodedValue,
    ExampleInputs,
    Layout,
    PayloadMeta,
    TensorArgument,
)
from graphwire.wire.archive.writer import ArchiveWriter
from graphwire.wire.payloads import Record, known_integers
from graphwire.wire.torch_files.pickle_globals import DTYPES_OF_STORAGES, SparseTensor, Storage, StridedTensor
from graphwire.wire.torch_files.pickle_writer import PickleWriter, Shared
from graphwire.wire.torch_files.sample_inputs import examples_tree
from graphwire.wire.torch_files.torch_save_reader import SPARSE_CODEC

_CHUNK_BYTES = 1 << 22
_TYPED = frozenset(DTYPES_OF_STORAGES.values())
UNTYPED = frozenset(ITEM_SIZES) - _TYPED
"""The element types without a typed storage class. Each torch release supports some of them (`LayoutSpec.untyped`)."""


def record_chunks(record: Record) -> Iterator[memoryview]:
    """Yield a record's bytes in chunks of 4 MiB."""
    view = record.view()
    for start in range(0, record.nbytes, _CHUNK_BYTES):
        yield view[start : start + _CHUNK_BYTES]


class PackedFile:
    """A `torch.save` file to be written: its small parts in memory, and references to the records with the other bytes."""

    def __init__(self) -> None:
        self._chunks: list[bytes | Record] = []
        self._lent: Record | None = None
        self.nbytes = 0

    def chunks(self) -> Iterator[bytes | memoryview]:
        """Yield the file's bytes in chunks."""
        for chunk in self._chunks:
            if isinstance(chunk, bytes):
                yield chunk
            else:
                yield from record_chunks(chunk)

    def write(self, data: bytes | memoryview) -> int:
        """Accept bytes from an `ArchiveWriter`. The bytes of a record passed to `lend` are replaced by a reference to it."""
        self.nbytes += len(data)
        if isinstance(data, bytes) or self._lent is None:
            self._chunks.append(bytes(data))
        elif self._chunks[-1] is not self._lent:
            self._chunks.append(self._lent)
        return len(data)

    def lend(self, archive: ArchiveWriter, name: str, record: Record) -> None:
        """Write a record to the archive by reference. It is read now for its checksum, and again by `chunks`."""
        self._lent = record
        archive.write_stream(name, record.nbytes, record_chunks(record))
        self._lent = None


class _Storages(msgspec.Struct):
    """The storages of one file, numbered in the order of first use."""

    metas: Mapping[str, PayloadMeta]
    records: Mapping[str, Record]
    folder: str
    untyped: frozenset[str]
    numbers: dict[str, int] = {}
    dtypes: dict[str, set[str]] = {}

    def __post_init__(self) -> None:
        for meta in self.metas.values():
            if meta.tensor_meta is not None:
                self.dtypes.setdefault(meta.path_name, set()).add(meta.tensor_meta.dtype_text)

    def tensor(self, meta: PayloadMeta) -> StridedTensor:
        """Convert a payload to the tensor that is pickled; for a parameter, the tensor inside it.

        Raises:
            EncodeError: old torch cannot represent it.
        """
        described = meta.tensor_meta
        if described is None or meta.use_pickle or described.layout is not Layout.Strided:
            raise EncodeError("it is not a plain tensor")
        if meta.placement not in (None, "meta"):
            raise EncodeError(
                f"it has no elements ({meta.placement})", remedy="Give it elements before it is saved"
            )
        sizes, strides = known_integers(described.sizes), known_integers(described.strides)
        if sizes is None or strides is None or described.storage_offset.as_int is None:
            raise EncodeError("its size is symbolic")
        storage = None if meta.placement == "meta" else self._storage(meta)
        return StridedTensor(
            storage,
            described.dtype_text,
            described.storage_offset.as_int,
            tuple(sizes),
            tuple(strides),
            described.requires_grad and not meta.is_param,
            meta.conj,
            meta.neg,
        )

    def _storage(self, meta: PayloadMeta) -> Storage:
        path = meta.path_name
        record = self.records.get(self.folder + path)
        if record is None or meta.tensor_meta is None:
            raise MissingRecordError(f"there is no record {self.folder + path!r}")
        number = self.numbers.setdefault(path, len(self.numbers))
        dtypes = self.dtypes[path]
        dtype = next(iter(dtypes))
        # A typed storage cannot represent two element types, a type without a class, or an incomplete last element.
        typed = len(dtypes) == 1 and dtype in _TYPED and record.nbytes % ITEM_SIZES[dtype] == 0
        if not typed and (not self.untyped or not dtypes <= self.untyped | _TYPED):
            raise EncodeError(f"this release of torch has no storage of {' and '.join(sorted(dtypes))}")
        device = meta.tensor_meta.device
        location = device.type if device.index is None else f"{device.type}:{device.index}"
        numel = record.nbytes // ITEM_SIZES[dtype] if typed else record.nbytes
        return Storage(dtype if typed else None, str(number), location, numel)

    def pack(self, pickled: bytes) -> PackedFile:
        """Return the whole file, given its pickle."""
        return _pack(
            pickled,
            {str(number): self.records[self.folder + path] for path, number in self.numbers.items()},
        )


def _pack(pickled: bytes, records: Mapping[str, Record]) -> PackedFile:
    """Return a file with a pickle, and the storages that it refers to by key."""
    file = PackedFile()
    with ArchiveWriter(cast(BinaryIO, file), root="archive", records={}) as archive:
        archive.write("data.pkl", pickled, compress=False)
        archive.write("byteorder", b"little", compress=False)
        for key, record in records.items():
            file.lend(archive, f"data/{key}", record)
        archive.write("version", b"3\n", compress=False)
    return file


def pack_state_dict(
    metas: Mapping[str, PayloadMeta],
    records: Mapping[str, Record],
    folder: str,
    encoded: Mapping[str, EncodedValue] | None = None,
    *,
    untyped: frozenset[str] = UNTYPED,
) -> PackedFile:
    """Encode named tensors as a `torch.save` file of a dict. Shared storages and tied parameters remain shared.

    Args:
        metas: the payloads by name, including the parts of sparse tensors.
        records: their records by full name, little-endian.
        folder: the prefix of a payload's `path_name` in `records`.
        encoded: the values that codecs encoded. Only sparse tensors can be written.
        untyped: the element types without a typed storage class that the reader supports.

    Raises:
        EncodeError: old torch cannot represent a value; `place` names it.
    """
    sparse = {name: v for name, v in (encoded or {}).items() if all(part in metas for part in v.tensors)}
    parts = {part for value in sparse.values() for part in value.tensors}
    storages = _Storages(metas, records, folder, untyped)
    pickle = PickleWriter()
    firsts = _first_names(metas)
    made: dict[str, Shared] = {}

    def tensor(name: str) -> Shared | SparseTensor:
        if name in sparse:
            return _sparse_tensor(sparse[name], metas, storages)
        if firsts[name] not in made:
            made[firsts[name]] = Shared(_tensor(metas[name], storages))
        return made[firsts[name]]

    pickle.put(b"}(")
    for name in [name for name in metas if name not in parts] + list(sparse):
        pickle.value(name)
        try:
            pickle.value(tensor(name))
        except (EncodeError, MissingRecordError) as error:
            raise error.within(name) from None
    pickle.put(b"u")
    return storages.pack(pickle.finish())


def pack_tensor(dtype: str, sizes: tuple[int, ...], record: Record) -> PackedFile:
    """Encode one contiguous tensor as a `torch.save` file.

    Args:
        dtype: torch's name of the element type.
        record: its elements, row-major and little-endian.
    """
    typed = dtype in _TYPED
    numel = record.nbytes // ITEM_SIZES[dtype] if typed else record.nbytes
    tensor = StridedTensor(
        Storage(dtype if typed else None, "0", "cpu", numel),
        dtype,
        0,
        sizes,
        contiguous_strides(sizes),
        False,
    )
    pickle = PickleWriter()
    pickle.value(tensor)
    return _pack(pickle.finish(), {"0": record})


def contiguous_strides(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a contiguous tensor, in elements."""
    steps = itertools.accumulate((max(size, 1) for size in sizes[:0:-1]), operator.mul, initial=1)
    return tuple(steps)[::-1] if sizes else ()


def _first_names(metas: Mapping[str, PayloadMeta]) -> dict[str, str]:
    """Return the first name of each payload's object.

    torch 2.9 and later do not store which names are the same parameter. Parameters with the same record and the same meta are
    treated as one.
    """
    firsts: dict[str, str] = {}
    places: dict[tuple[str, str], str] = {}
    for name, meta in metas.items():
        first = meta.same_as if meta.same_as in firsts else name
        if first == name and meta.is_param and meta.path_name:
            first = places.setdefault((meta.path_name, repr(meta.tensor_meta)), name)
        firsts[name] = first
    return firsts


def _tensor(meta: PayloadMeta, storages: _Storages) -> StridedTensor:
    tensor = storages.tensor(meta)
    if not meta.is_param or meta.tensor_meta is None:
        return tensor
    return replace(tensor, is_param=True, requires_grad=meta.tensor_meta.requires_grad)


_SPARSE_PARTS: Final = {"sparse_coo": 2} | dict.fromkeys(
    ("sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"), 3
)
"""The number of plain tensors of each sparse layout."""


def _sparse_tensor(
    value: EncodedValue, metas: Mapping[str, PayloadMeta], storages: _Storages
) -> SparseTensor:
    """Return a sparse tensor of what its codec encoded. It may come from a file, so all of it is checked.

    Raises:
        EncodeError: another codec encoded it, or this is not what the codec of sparse tensors makes.
    """
    if value.codec != SPARSE_CODEC:
        raise EncodeError(f"old torch has no form for what the codec {value.codec!r:.80} wrote")
    match value.tree:
        case {
            "layout": str(layout),
            "sizes": list(sizes),
            "coalesced": bool() | None as coalesced,
            "parameter": bool(parameter),
            "requires_grad": bool(requires_grad),
        } if (
            len(value.tensors) == _SPARSE_PARTS.get(layout)
            and len(sizes) <= MAX_DIMENSIONS
            and all(type(size) is int and 0 <= size <= MAX_ELEMENTS for size in sizes)
        ):
            return SparseTensor(
                f"torch.{layout}",
                tuple(storages.tensor(metas[part]) for part in value.tensors),
                tuple(sizes),
                coalesced if layout == "sparse_coo" else None,
                parameter,
                parameter and requires_grad,
            )
    raise EncodeError(
        f"{len(value.tensors)} tensors and {value.tree!r:.200} do not describe a sparse tensor",
        remedy="The file is damaged: `graphwire verify` lists its problems",
    )


def pack_examples(
    examples: ExampleInputs,
    metas: Mapping[str, PayloadMeta],
    records: Mapping[str, Record],
    folder: str,
    *,
    untyped: frozenset[str] = UNTYPED,
) -> PackedFile:
    """Encode example inputs as a `torch.save` file of `(args, kwargs)`.

    Raises:
        EncodeError: a part of them has no plain form.
        SchemaError: their treespec is malformed.
    """
    storages = _Storages(metas, records, folder, untyped)

    def tensor(leaf: object) -> StridedTensor | None:
        if not isinstance(leaf, TensorArgument) or leaf.name not in metas:
            return None
        return _tensor(metas[leaf.name], storages)

    pickle = PickleWriter(tensor)
    pickle.value(examples_tree(examples))
    return storages.pack(pickle.finish())
