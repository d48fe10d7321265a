"""How are records of bytes written to one file, read back and checked?"""

from typing import TYPE_CHECKING

from graphwire.lazy import door

if TYPE_CHECKING:
    from graphwire.wire.archive.archive_record import SwappedRecord, payload_record
    from graphwire.wire.archive.atomic_file import (
        PieceBuffer,
        Replacement,
        atomic_write,
        rename_new,
        sync,
        write_all,
    )
    from graphwire.wire.archive.deflate import raw_deflate
    from graphwire.wire.archive.digests import THREAD_HASH_BYTES, Digests
    from graphwire.wire.archive.manifest import MANIFEST, Manifest, manifest_errors, read_manifest
    from graphwire.wire.archive.reader import ArchiveReader, damaged_record
    from graphwire.wire.archive.record_cache import RecordCache, keep_records, records_to_fetch
    from graphwire.wire.archive.source import (
        BufferSource,
        FileSource,
        PartSource,
        Readable,
        Source,
        file_name,
        is_mapped,
        open_source,
        type_text,
    )
    from graphwire.wire.archive.writer import ArchiveWriter
else:
    __getattr__ = door(
        __name__,
        {
            ".archive_record": "SwappedRecord payload_record",
            ".atomic_file": "PieceBuffer Replacement atomic_write rename_new sync write_all",
            ".deflate": "raw_deflate",
            ".digests": "THREAD_HASH_BYTES Digests",
            ".manifest": "MANIFEST Manifest manifest_errors read_manifest",
            ".reader": "ArchiveReader damaged_record",
            ".record_cache": "RecordCache keep_records records_to_fetch",
            ".source": (
                "BufferSource FileSource PartSource Readable Source file_name is_mapped open_source type_text"
            ),
            ".writer": "ArchiveWriter",
        },
    )

__all__ = [
    "MANIFEST",
    "THREAD_HASH_BYTES",
    "ArchiveReader",
    "ArchiveWriter",
    "BufferSource",
    "Digests",
    "FileSource",
    "Manifest",
    "PartSource",
    "PieceBuffer",
    "Readable",
    "RecordCache",
    "Replacement",
    "Source",
    "SwappedRecord",
    "atomic_write",
    "damaged_record",
    "file_name",
    "is_mapped",
    "keep_records",
    "manifest_errors",
    "open_source",
    "payload_record",
    "raw_deflate",
    "read_manifest",
    "records_to_fetch",
    "rename_new",
    "sync",
    "type_text",
    "write_all",
]
