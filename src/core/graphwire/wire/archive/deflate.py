"""Deflate and CRC-32: the only module that uses a compression library.

zlib-ng compresses about 2 times and computes CRC-32 about 10 times as fast as the interpreter's zlib.
"""

from __future__ import annotations

from typing import Any

from zlib_ng import zlib_ng

_LEVEL = 4
"""A 317 KB program becomes 17.0 KB in 0.2 ms at level 2, 13.4 KB in 0.4 ms at level 4, 11.9 KB in 0.7 ms at level 6."""

DeflateError: type[Exception] = zlib_ng.error  # type: ignore[assignment] # its stub declares an instance
"""Raised by an inflater for damaged data."""

crc32 = zlib_ng.crc32
"""Return the CRC-32 of bytes. The optional second argument is the CRC-32 of the bytes before them."""


def raw_deflate(data: bytes | memoryview) -> bytes:
    """Compress bytes to one raw deflate stream. Equal bytes give equal streams."""
    deflater = zlib_ng.compressobj(_LEVEL, zlib_ng.DEFLATED, -zlib_ng.MAX_WBITS)
    return deflater.compress(data) + deflater.flush()


def inflater() -> Any:
    """Return an object that decompresses a raw deflate stream (RFC 1951) incrementally, as `zlib.decompressobj` does."""
    return zlib_ng.decompressobj(-zlib_ng.MAX_WBITS)
