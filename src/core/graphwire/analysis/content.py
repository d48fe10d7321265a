"""The content of a program as one number: equal for two exports of one model, and else different.

content_hash(program)             of the canonical document
content_hash(program, payloads)   and of the elements of the weights and constants
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import msgspec
from msgspec.structs import replace

from graphwire.analysis.canonical import canonicalize
from graphwire.analysis.payload_content import PayloadSet, payload_digests
from graphwire.schema.program import EncodedValue, Program

__all__ = ["VERSION", "canonical_document", "content_hash", "document_hash"]

VERSION = 1
"""Of the canonical form: a hash made by another one is another hash."""


def content_hash(program: Program, payloads: PayloadSet | None = None) -> str:
    """The SHA-256 of a program's canonical form, in hexadecimal.

    Args:
        program: a valid program.
        payloads: its weights and constants, if their elements count, too. Reads them all. Example inputs never count.

    Raises:
        SchemaError: nodes wait for each other's results.
        MissingRecordError: a payload has no record, or one that is too short.
    """
    return document_hash(canonical_document(canonicalize(program)), payloads)


def document_hash(document: bytes, payloads: PayloadSet | None = None) -> str:
    """The content hash of a program whose canonical document there is already."""
    found = hashlib.sha256(b"graphwire canonical form %d\0" % VERSION)
    found.update(document)
    if payloads is not None:
        digests = payload_digests(payloads)
        found.update(msgspec.json.encode(sorted((*key, digest) for key, digest in digests.items())))
    return found.hexdigest()


def canonical_document(program: Program) -> bytes:
    """The bytes of a program in canonical form: its JSON, in which free data is spelled so that nothing is lost."""
    encoded = {
        name: EncodedValue(value.codec, _spelled(value.tree), value.tensors)
        for name, value in program.encoded_values.items()
    }
    # What a reader must know follows from the rest of the document, or is said by payloads.
    return msgspec.json.encode(replace(program, encoded_values=encoded, requires=[]))


def _spelled(tree: Any) -> Any:
    """Free data for JSON: bytes and floats that are not finite as text beside a mark, mappings as pairs."""
    if isinstance(tree, (bytes, bytearray, memoryview)):
        return {"bytes": bytes(tree).hex()}
    if isinstance(tree, float) and not math.isfinite(tree):
        return {"float": repr(tree)}
    if isinstance(tree, dict):
        return {"dict": sorted([key, _spelled(value)] for key, value in tree.items())}
    if isinstance(tree, list):
        return [_spelled(item) for item in tree]
    return tree
