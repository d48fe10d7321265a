"""Write, compare and hash the bytes of tensors in pieces, so that memory does not grow with them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO

from graphwire.hooks import StoreFile
from graphwire.lazy import futures, hashlib
from graphwire.wire import weights

_READ_BYTES = 1 << 20
"""In bytes. Larger reads leave the processor's cache before they are used."""
_THREADS = 2


def write_content(file: BinaryIO, content: bytes | memoryview) -> None:
    """Write all bytes to a file, which may be unbuffered and write fewer than it is given."""
    rest = memoryview(content)
    while rest.nbytes:
        rest = rest[file.write(rest[: weights.PIECE_BYTES]) :]


def write_hashed(file: BinaryIO, content: memoryview) -> str:
    """Write all bytes to a file, and return their digest (see `digest_of_pieces`). A thread hashes while they are written.

    Pieces are copied before they are hashed and written, so the digest is that of the file even if the content changes.
    """
    if content.nbytes <= _READ_BYTES:
        piece = bytes(content)
        write_content(file, piece)
        return digest_of_pieces([_sha256(piece)])
    # The same rooms for all pieces: new memory has to be mapped page by page.
    rooms = [memoryview(bytearray(min(content.nbytes, weights.PIECE_BYTES))) for _ in range(_THREADS)]
    hashed: list[futures.Future[bytes]] = []
    with futures.ThreadPoolExecutor(_THREADS, "graphwire-blobs") as threads:
        for at in range(0, content.nbytes, weights.PIECE_BYTES):
            if len(hashed) >= _THREADS:
                hashed[-_THREADS].result()  # its room is free again
            part = content[at : at + weights.PIECE_BYTES]
            copy = rooms[len(hashed) % _THREADS][: part.nbytes]
            copy[:] = part
            hashed.append(threads.submit(_sha256, copy))
            write_content(file, copy)
        return digest_of_pieces(each.result() for each in hashed)


def has_content(file: StoreFile, offset: int, content: memoryview) -> bool:
    """Return whether the bytes at an offset of a file, in bytes, are these. The range lies within the file."""
    # Comparing with a view takes ten times longer than copying it and comparing bytes.
    return all(
        file.read_at(offset + at, min(_READ_BYTES, content.nbytes - at))
        == bytes(content[at : at + _READ_BYTES])
        for at in range(0, content.nbytes, _READ_BYTES)
    )


def digest_of_file(file: StoreFile) -> str:
    """Return the digest of a file's content (see `digest_of_pieces`), computed in two threads."""

    def of_piece(start: int) -> bytes:
        digest = hashlib.sha256()
        end = min(start + weights.PIECE_BYTES, file.size)
        for at in range(start, end, _READ_BYTES):
            digest.update(file.read_at(at, min(_READ_BYTES, end - at)))
        return digest.digest()

    with futures.ThreadPoolExecutor(_THREADS, "graphwire-blobs") as threads:
        return digest_of_pieces(threads.map(of_piece, range(0, max(file.size, 1), weights.PIECE_BYTES)))


def digest_of_pieces(pieces: Iterable[bytes]) -> str:
    """Return the digest of content in hexadecimal.

    Content of at most 16 MiB (16,777,216 bytes) has the SHA-256 of its bytes. Longer content is cut into pieces of 16 MiB, the
    last one shorter, and has the SHA-256 of their SHA-256 digests (32 bytes each), one after the other.

    Args:
        pieces: the SHA-256 of each piece; that of no bytes for empty content.
    """
    first, *rest = pieces
    return hashlib.sha256(b"".join([first, *rest])).hexdigest() if rest else first.hex()


def _sha256(piece: bytes | memoryview) -> bytes:
    return hashlib.sha256(piece).digest()
