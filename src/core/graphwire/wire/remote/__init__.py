"""How are files at URLs read by ranges, and written whole?"""

from typing import TYPE_CHECKING

from graphwire.lazy import door

if TYPE_CHECKING:
    from graphwire.wire.remote.location import (
        RemoteFile,
        UniversalPath,
        located,
        protocols_of,
        shown_url,
        url_of,
    )
    from graphwire.wire.remote.remote_source import RemoteSource, open_remote
    from graphwire.wire.remote.upload import RemoteWrite
else:
    __getattr__ = door(
        __name__,
        {
            ".location": "RemoteFile UniversalPath located protocols_of shown_url url_of",
            ".remote_source": "RemoteSource open_remote",
            ".upload": "RemoteWrite",
        },
    )

__all__ = [
    "RemoteFile",
    "RemoteSource",
    "RemoteWrite",
    "UniversalPath",
    "located",
    "open_remote",
    "protocols_of",
    "shown_url",
    "url_of",
]
