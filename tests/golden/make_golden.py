"""The golden files: small documents that together own every record, variant and field of the schema, in every format.

    python tests/golden/make_golden.py

`documents/NAME.json` is written by hand. The script writes what belongs to it: the same program in the other formats, and an
archive in each format, with the payloads of `archives/json.pt2`.

A new field or variant goes into a document, or into a new one. A file that exists and would change is a break with what was
written before: the script refuses, unless it is told `--replace`. Before the first release nothing was written before.

    documents/NAME.FORMAT    the program NAME as a document
    archives/FORMAT.pt2      the first programs in one archive, with payloads of every kind
"""

from __future__ import annotations

import argparse
import io
from pathlib import Path

import msgspec

import graphwire
from graphwire.hooks import default_registry
from graphwire.schema import Program, SchemaVersion
from graphwire.wire.package_writer import write_package
from graphwire.wire.payloads import Document

HERE = Path(__file__).parent
FORMATS = ("json", "msgpack", "cbor")
VERSION = SchemaVersion(8, 20)
"""The schema version of the files. It stays when a newer version comes."""
NAMES = sorted(path.stem for path in (HERE / "documents").glob("*.json"))


def document_path(name: str, format: str) -> Path:
    return HERE / "documents" / f"{name}.{format}"


def archive_path(format: str) -> Path:
    return HERE / "archives" / f"{format}.pt2"


def program(name: str, format: str = "json") -> Program:
    """The program of a document, with the schema version that it was written with."""
    found = graphwire.decode(document_path(name, format).read_bytes())
    return msgspec.structs.replace(found, schema_version=VERSION)


def archive(format: str) -> bytes:
    """The programs of the archives as they are in the documents, with the payloads that they had in the first archive."""
    suffix, stream = default_registry().wire_format(format).suffix, io.BytesIO()
    with graphwire.open(archive_path("json")) as first:
        documents = {
            name: Document(graphwire.encode(program(name), format), suffix, first.payloads_of(name))
            for name in first.methods
        }
        write_package(stream, documents, {path: first.read_extra(path) for path in first.extra_files})
    return stream.getvalue()


def main() -> None:
    """Write all files."""
    parser = argparse.ArgumentParser(description="Writes the golden files.")
    parser.add_argument("--replace", action="store_true", help="replace files that differ")
    replace = parser.parse_args().replace
    made = {
        document_path(name, each): graphwire.encode(program(name), each) for each in FORMATS for name in NAMES
    }
    made |= {archive_path(each): archive(each) for each in FORMATS}
    for path, data in made.items():
        if path.exists() and path.read_bytes() != data and not replace:
            raise SystemExit(
                f"{path} would change: old files would no longer be read as they were (--replace)"
            )
        path.write_bytes(data)


if __name__ == "__main__":
    main()
