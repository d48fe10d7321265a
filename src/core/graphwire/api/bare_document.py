"""Read bare documents: files that consist of one encoded program, without an archive.

A bare document is wrapped in an archive in memory and read like any other. The two oldest schemas store tensors in their
documents (`evolve.steps.embedded`). The first design can also refer to files with tensors; only files in the
document's own folder are read.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, cast

import msgspec

from graphwire import errors
from graphwire.evolve.steps.embedded import ExternalBytes, embedded_tensors, swapped
from graphwire.registry.interfaces import Tree
from graphwire.registry.registry import Registry
from graphwire.schema import PayloadConfig, PayloadMeta, ScalarType, TensorMeta
from graphwire.schema.trees import from_tree
from graphwire.wire.archive.source import Readable, RegularPath, RemoteFile, copy_bytes, open_source
from graphwire.wire.archive.writer import ArchiveWriter
from graphwire.wire.document import HEAD_BYTES, detect_format
from graphwire.wire.limits import Limits
from graphwire.wire.package_reader import config_members
from graphwire.wire.payloads import CONSTANTS, WEIGHTS, Payloads
from graphwire.wire.torch_files.torch_save_reader import read_embedded_tensor
from graphwire.wire.weights.folder import Folder, RemoteFolder

METHOD = "model"
"""The name of the program in a bare document."""


class BareDocument(NamedTuple):
    """A bare document, wrapped in an archive."""

    archive: bytes
    """An archive of the unchanged document, without payloads."""
    size: int
    """The size of the document in bytes."""
    folder: Path | RemoteFile | None
    """The folder of the document, or the document at its URL, beside which the files are that it refers to; None if it was read
    from neither."""


def find_bare_document(file: Readable, registry: Registry, limits: Limits) -> BareDocument | None:
    """Return the bare document in a file that is not an archive; None if no installed format recognizes its first bytes.

    Raises:
        LimitError: the document exceeds `limits`.
    """
    folder: Path | RemoteFile | None = None
    if isinstance(file, RemoteFile):
        folder = file
    elif isinstance(file, (str, os.PathLike)):
        folder = Path(file).parent
        file = RegularPath(file)
    try:
        source = open_source(file, limits)
    except errors.unless_interrupted(
        OSError, errors.ArchiveError
    ):  # a pipe, which has been read, is no document
        return None
    try:
        try:
            wire_format = detect_format(source.read_at(0, min(source.size, HEAD_BYTES)), registry)
        except errors.unless_interrupted(Exception):
            return None
        if source.size > limits.program_bytes:
            raise errors.LimitError(
                f"the document has {source.size:,} bytes, more than {limits.program_bytes:,}",
                remedy="Raise Limits.program_bytes for a file that you trust",
            )
        data = source.read_at(0, source.size)
    finally:
        source.close()
    stream = io.BytesIO()
    with ArchiveWriter(stream) as archive:
        archive.write(f"models/{METHOD}{wire_format.suffix}", data, compress=False)
        for member in config_members(METHOD).values():
            archive.write(member, msgspec.json.encode(PayloadConfig({})), compress=False)
    return BareDocument(stream.getvalue(), len(data), folder)


class _CopiedBytes:
    """A payload in memory whose views are copies, so that callers may modify them."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.nbytes = len(data)

    def view(self) -> memoryview:
        return copy_bytes(self._data)


def add_embedded(payloads: Payloads, tree: Tree, folder: Path | RemoteFile | None, limits: Limits) -> None:
    """Add the tensors inside a document, and in the files that it refers to, to its payloads.

    A tensor that cannot be read is recorded in `Payloads.unread`, with the reason.

    Args:
        payloads: the payloads to extend.
        tree: the document.
        folder: the folder of the files, or a file in it at a URL; None if there is none.
        limits: bounds on the bytes to read.

    Raises:
        SchemaError: a tensor violates its schema.
    """
    records = dict(payloads.records)
    read: dict[ExternalBytes, str] = {}
    left = limits.unmapped_bytes
    for index, tensor in enumerate(embedded_tensors(tree)):
        if tensor.encoding == "torch.save":
            # torch's readers recognize a tensor among constants by its record name, `tensor_…`.
            state = read_embedded_tensor(
                tensor.name, cast("bytes", tensor.data), CONSTANTS, f"tensor_embedded_{index}_", limits
            )
            payloads.constants.update(state.metas)
            records.update(state.records)
            continue
        name, meta = f"weight_{index}", from_tree(tensor.meta, TensorMeta)
        if isinstance(tensor.data, bytes):
            records[WEIGHTS + name] = _CopiedBytes(tensor.data)
        elif tensor.data in read:
            name = read[tensor.data]
        else:
            try:
                data = _external(tensor.data, meta.dtype, folder, left, limits)
            except errors.unless_interrupted(errors.GraphwireError, OSError) as error:
                payloads.unread[tensor.name] = (
                    error.problem if isinstance(error, errors.GraphwireError) else str(error)
                )
                continue
            left -= len(data)
            read[tensor.data] = name
            records[WEIGHTS + name] = _CopiedBytes(data)
        payloads.weights[tensor.name] = PayloadMeta(name, tensor.kind == "parameter", False, meta)
    payloads.records = records


def files_beside(folder: Path | RemoteFile | None, trees: Iterable[Tree]) -> list[str]:
    """Return the paths or URLs of the files beside a document that its tensors are in."""
    data = (tensor.data for tree in trees for tensor in embedded_tensors(tree))
    names = [each.location for each in data if isinstance(each, ExternalBytes)]
    if isinstance(folder, RemoteFile):
        return [folder.beside(name).url for name in names]
    return [] if folder is None else [os.fspath(folder / name) for name in names]


def _external(
    place: ExternalBytes, dtype: ScalarType, folder: Path | RemoteFile | None, left: int, limits: Limits
) -> bytes:
    """Return the little-endian bytes of a tensor in a file beside the document."""
    location = f"{place.location!r:.200}"
    if folder is None:
        raise errors.ArchiveError(f"it is in the file {location}, and the document was not read from a path")
    if place.length > left:
        raise errors.LimitError(f"{place.length:,} bytes of {location} exceed the limit for data in memory")
    beside = RemoteFolder(folder, limits.remote) if isinstance(folder, RemoteFile) else Folder(folder)
    with closing(beside.open(place.location)) as source:
        size = source.size
        if place.offset < 0 or place.length < 0 or place.offset + place.length > size:
            raise errors.ArchiveError(
                f"{place.length:,} bytes at {place.offset:,} are not inside {location}, which has {size:,} bytes"
            )
        data = source.read_at(place.offset, place.length)
    digest = hashlib.sha256(data).hexdigest()
    if len(data) != place.length or (place.checksum and digest != place.checksum.lower()):
        raise errors.ChecksumError(f"the bytes in {location} do not match the checksum")
    return swapped(data, dtype)
