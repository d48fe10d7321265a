"""Extracts and inserts the tensors that documents of the two oldest schemas contain.

    schema 1      constants of the top-level graph: base64 of the tensor as `torch.save` writes it
    draft-2022    every weight: the bytes of its storage, big-endian, or their location outside of the document

`upgrade` omits them, since documents of the current schema contain no tensors: a loader extracts them from the document that
it read, before or after, and passes them on as payloads. The last step of writing a draft inserts them.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, cast

from graphwire.errors import SchemaError
from graphwire.evolve.step import version_of
from graphwire.evolve.steps.draft_2022 import meta_up
from graphwire.evolve.trees import MALFORMED, Record
from graphwire.schema import DRAFT, DTYPE_NAMES, ITEM_SIZES, ScalarType, Version


class ExternalBytes(NamedTuple):
    """Bytes outside of the document: big-endian storage."""

    location: str
    """The file's name in the document: its reader decides which file that is, if any."""
    offset: int
    """In bytes, from the start of the file."""
    length: int
    """In bytes."""
    checksum: str
    """SHA-256 of the bytes in hexadecimal; empty when the document gives none."""


class EmbeddedTensor(NamedTuple):
    """One tensor that a document contains or locates."""

    name: str
    """Its qualified name, as in the upgraded document's signature."""
    kind: Literal["parameter", "buffer", "constant"]
    encoding: Literal["torch.save", "storage"]
    data: bytes | ExternalBytes
    """A torch.save zip; or the bytes of the storage, little-endian unless they are external."""
    meta: Record | None
    """The tensor's meta in the current schema; None where only the bytes contain it."""


def embedded_tensors(tree: Any) -> list[EmbeddedTensor]:
    """Return the tensors inside a document of any version, in the document's order; none for 2.2 or later.

    Raises:
        SchemaError: a tensor does not match its schema.
    """
    version = version_of(tree)
    if version == Version(1):
        constants = _table(tree, "graph_module", "graph", "constants")
        return [
            EmbeddedTensor(name, "constant", "torch.save", _bytes_of(name, data), None)
            for name, data in constants.items()
        ]
    kinds: tuple[Literal["parameter", "buffer"], ...] = ("parameter", "buffer") if version == DRAFT else ()
    return [
        _draft_tensor(name, kind, tensor)
        for kind in kinds
        for name, tensor in _table(tree, f"{kind}s").items()
    ]


def _table(tree: Any, *steps: str) -> Record:
    """Return the mapping at a path; empty where there is none."""
    for step in steps:
        tree = tree.get(step) or {}
        if not isinstance(tree, dict):
            raise SchemaError(f"a mapping is expected, not {type(tree).__name__}", place=".".join(steps))
    return cast("Record", tree)


def _bytes_of(name: str, data: Any) -> bytes:
    if isinstance(data, bytes):
        return data
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise SchemaError(
            f"the bytes of {name!r} are not base64 text", place=f"constants[{name!r}]"
        ) from error


def _draft_tensor(name: str, kind: Literal["parameter", "buffer"], tensor: Record) -> EmbeddedTensor:
    place = f"{kind}s[{name!r}]"
    try:
        meta = meta_up(tensor["meta"])
        meta = {**meta, "storage_offset": {"as_int": meta["storage_offset"]}}
        match tensor["storage"]:
            case {"data_location": "Internal", "data": {"buffer": data}}:
                content: bytes | ExternalBytes = swapped(_bytes_of(name, data), ScalarType(meta["dtype"]))
            case {"data_location": "External", "data": dict(data)}:
                content = ExternalBytes(
                    str(data["location"]), int(data["offset"]), int(data["length"]), str(data["checksum"])
                )
            case _:
                raise SchemaError("a storage is neither internal nor external", place=place)
    except MALFORMED as error:
        raise SchemaError("a tensor does not match the draft's schema", place=place) from error
    return EmbeddedTensor(name, kind, "storage", content, meta)


def embed(draft: Record, storage_of: Callable[[str], bytes | memoryview]) -> Record:
    """Return a draft with its weights inside.

    Args:
        draft: the document from `downgrade`.
        storage_of: returns the little-endian bytes of a weight's storage, by its qualified name, as its meta describes them.
    """
    tables = {
        table: {name: _with_bytes(tensor, storage_of(name)) for name, tensor in draft[table].items()}
        for table in ("parameters", "buffers")
    }
    return {**draft, **tables}


def _with_bytes(tensor: Record, data: bytes | memoryview) -> Record:
    buffer = swapped(bytes(data), ScalarType(tensor["meta"]["dtype"]))
    return {**tensor, "storage": {"data_location": "Internal", "data": {"buffer": buffer}}}


def swapped(data: bytes, dtype: ScalarType) -> bytes:
    """Reverse the byte order of elements; its own reverse."""
    name = DTYPE_NAMES.get(dtype, "")
    size = ITEM_SIZES.get(name, 1) // (2 if name.startswith("complex") else 1)
    if size == 1:
        return data
    if len(data) % size:
        raise SchemaError(f"{len(data)} bytes are not a whole number of elements of {name}")
    result = bytearray(len(data))
    for byte in range(size):
        result[byte::size] = data[size - 1 - byte :: size]
    return bytes(result)
