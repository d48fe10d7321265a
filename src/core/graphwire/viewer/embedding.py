"""Writes the archive that a page contains: documents and the tables of their payloads, without elements."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from graphwire.hooks import WireFormat
from graphwire.schema import Program, WeightReferences
from graphwire.wire import Payloads
from graphwire.wire.archive import PieceBuffer, raw_deflate
from graphwire.wire.package import Document, write_package, write_program


def embedded(
    programs: Mapping[str, tuple[Program, Payloads]],
    json_format: WireFormat,
    references: WeightReferences | None = None,
) -> bytes:
    """Return programs as an archive without elements, deflated as a whole. Reads no payload.

    Args:
        programs: records and payloads, by name.
        json_format: the wire format JSON.
        references: where the weights are that the original file does not contain.
    """
    documents = {
        name: Document(
            write_program(program, json_format),
            json_format.suffix,
            replace(payloads, records={}, examples=None, encoded={}),
        )
        for name, (program, payloads) in programs.items()
    }
    stream = PieceBuffer()
    write_package(stream, documents, compress=False, references=references)  # type: ignore[arg-type]
    return raw_deflate(b"".join(stream.pieces))
