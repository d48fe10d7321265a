"""A bare document: a program that stands alone in a file, and not in an archive.

It is read as an archive that holds it. The two oldest schemas have tensors in their documents (`evolve.early_steps.embedded`);
the first design also names files that hold them, which are looked for in the document's own folder and nowhere else.
"""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path
from typing import NamedTuple, cast

import msgspec

from graphwire.errors import ArchiveError, ChecksumError, FormatError, GraphwireError, LimitError
from graphwire.evolve.early_steps import ExternalBytes, embedded_tensors, swapped
from graphwire.hooks import Registry, Tree
from graphwire.schema import PayloadConfig, PayloadMeta, ScalarType, TensorMeta
from graphwire.schema.trees import from_tree
from graphwire.wire import CONSTANTS, WEIGHTS, Limits, Payloads, copy_bytes
from graphwire.wire.archive import ArchiveWriter, Readable, open_source
from graphwire.wire.package import HEAD_BYTES, config_members, detect_format
from graphwire.wire.torch_files import read_embedded_tensor

METHOD = "model"
"""The name of the program of a bare document."""


class Bare(NamedTuple):
    """A bare document, found."""

    archive: bytes
    """An archive that holds the document as it is, and no payload."""
    size: int
    """The document's length in bytes."""
    folder: Path | None
    """Where the files that it names lie; None for a document that has no folder."""


def bare_document(file: Readable, registry: Registry, limits: Limits) -> Bare | None:
    """The bare document in a file that is no archive; None where no installed format knows how it begins.

    Raises:
        LimitError: the document is larger than `limits` allow.
    """
    folder = None
    if isinstance(file, (str, os.PathLike)):
        path = Path(os.fspath(file))
        if not path.is_file():
            return None
        folder = path.parent
    source = open_source(file, limits)
    try:
        try:
            wire_format = detect_format(
                source.read_at(0, min(source.size, HEAD_BYTES)),
                registry.wire_formats.values(),
                registry.formats_in_box,
            )
        except FormatError:
            return None
        if source.size > limits.program_bytes:
            raise LimitError(
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
    return Bare(stream.getvalue(), len(data), folder)


class _Held:
    """Bytes in memory that are lent to nobody: each view is a copy."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.nbytes = len(data)

    def view(self) -> memoryview:
        return copy_bytes(self._data)


def add_embedded(payloads: Payloads, tree: Tree, folder: Path | None, limits: Limits) -> None:
    """Add the tensors that a document holds, or names the files of, to its payloads. What cannot be had is noted there
    (`Payloads.unread`).

    Args:
        folder: where those files lie; None where there is no such folder.

    Raises:
        SchemaError: a tensor is not as its schema says.
    """
    records = dict(payloads.records)
    read: dict[ExternalBytes, str] = {}
    left = limits.unmapped_bytes
    for index, tensor in enumerate(embedded_tensors(tree)):
        if tensor.encoding == "torch.save":
            # Readers of torch tell a tensor among constants by the name of its record, `tensor_…`.
            state = read_embedded_tensor(
                tensor.name, cast("bytes", tensor.data), CONSTANTS, f"tensor_embedded_{index}_", limits
            )
            payloads.constants.update(state.metas)
            records.update(state.records)
            continue
        name, meta = f"weight_{index}", from_tree(tensor.meta, TensorMeta)
        if isinstance(tensor.data, bytes):
            records[WEIGHTS + name] = _Held(tensor.data)
        elif tensor.data in read:
            name = read[tensor.data]
        else:
            try:
                data = _external(tensor.data, meta.dtype, folder, left)
            except (GraphwireError, OSError) as error:
                payloads.unread[tensor.name] = (
                    error.problem if isinstance(error, GraphwireError) else str(error)
                )
                continue
            left -= len(data)
            read[tensor.data] = name
            records[WEIGHTS + name] = _Held(data)
        payloads.weights[tensor.name] = PayloadMeta(name, tensor.kind == "parameter", False, meta)
    payloads.records = records


def _external(place: ExternalBytes, dtype: ScalarType, folder: Path | None, left: int) -> bytes:
    """The little-endian bytes of a tensor that lie in a file beside the document."""
    location = f"{place.location!r:.200}"
    if folder is None:
        raise ArchiveError(f"it lies in {location}, beside a document that has no folder here")
    parts = place.location.replace("\\", "/").split("/")
    if not all(parts) or {".", ".."} & set(parts) or "\0" in place.location or ":" in place.location:
        raise ArchiveError(f"{location} is no name of a file in the document's folder")
    root = folder.resolve()
    path = root.joinpath(*parts).resolve()
    if not path.is_relative_to(root):
        raise ArchiveError(f"{location} leads out of the document's folder")
    if place.length > left:
        raise LimitError(f"{place.length:,} bytes of {location} are more than is read into memory")
    if not path.is_file():
        raise ArchiveError(f"there is no file {location} beside the document")
    with path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        if place.offset < 0 or place.length < 0 or place.offset + place.length > size:
            raise ArchiveError(
                f"{location} has {size:,} bytes, and not {place.length:,} from {place.offset:,} on"
            )
        stream.seek(place.offset)
        data = stream.read(place.length)
    digest = hashlib.sha256(data).hexdigest()
    if len(data) != place.length or (place.checksum and digest != place.checksum.lower()):
        raise ChecksumError(f"the bytes in {location} are not those of the checksum")
    return swapped(data, dtype)
