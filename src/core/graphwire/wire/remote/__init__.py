"""How are files at URLs read by ranges, and written whole?"""

from graphwire.wire.remote.location import RemoteFile, UniversalPath, located, protocols_of, shown_url, url_of
from graphwire.wire.remote.remote_source import RemoteSource, open_remote
from graphwire.wire.remote.upload import RemoteWrite

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
