"""Documents of the first design (2022) with their weights in a file beside them, as graphwire reads and does not write them."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

__all__ = ["externalize"]


def externalize(draft: dict[str, Any], location: str) -> tuple[dict[str, Any], bytes]:
    """A draft whose weights lie in one file, and the file's bytes.

    Args:
        draft: a document with its weights inside.
        location: what the draft calls the file.
    """
    content = bytearray()
    tables: dict[str, Any] = {}
    for table in ("parameters", "buffers"):
        tables[table] = {}
        for name, tensor in draft[table].items():
            buffer = tensor["storage"]["data"]["buffer"]
            data = base64.b64decode(buffer) if isinstance(buffer, str) else bytes(buffer)
            external = {
                "location": location,
                "offset": str(len(content)),
                "length": str(len(data)),
                "checksum": hashlib.sha256(data).hexdigest(),
            }
            content += data
            tables[table][name] = {**tensor, "storage": {"data_location": "External", "data": external}}
    return {**draft, **tables}, bytes(content)
