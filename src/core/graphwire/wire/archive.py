"""A program's file: a zip archive with the record layout of PyTorch's PT2 archives."""

from __future__ import annotations

from graphwire.wire.archive_reader import ArchiveReader
from graphwire.wire.archive_source import Readable
from graphwire.wire.archive_writer import PT2_RECORDS, ArchiveWriter

__all__ = ["PT2_RECORDS", "ArchiveReader", "ArchiveWriter", "Readable"]
