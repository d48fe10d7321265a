"""Which locations of files are plain relative ones, on every system?"""

from __future__ import annotations

from typing import Final

from graphwire.errors import ArchiveError

_MOST_CHARACTERS = 4096
_MOST_NAME_BYTES = 255
_RESERVED: Final = frozenset(
    "con prn aux nul com1 com2 com3 com4 com5 com6 com7 com8 com9 lpt1 lpt2 lpt3 lpt4 lpt5 lpt6 lpt7 lpt8 lpt9".split()
)
"""Names of devices on Windows, with any ending."""
_FORBIDDEN: Final = frozenset('\\:*?"<>|')


def location_problem(location: str) -> str:
    """Return why a location is not a plain relative one that every system accepts; empty if it is.

    A plain location has names of printable characters, with `/` between them: no `..`, no root, drive, URL or stream.
    """
    if not location or len(location) > _MOST_CHARACTERS:
        return "it is empty" if not location else f"it has more than {_MOST_CHARACTERS:,} characters"
    if "://" in location:
        return "it is a URL"
    for name in location.split("/"):
        if name in ("", ".", ".."):
            return "it is absolute, or has an empty name, `.` or `..`"
        if not name.isprintable() or not _FORBIDDEN.isdisjoint(name):
            return 'it has characters that a portable name lacks (\\ : * ? " < > |, or unprintable ones)'
        if name.endswith((".", " ")) or name.partition(".")[0].lower() in _RESERVED:
            return "it has a name that some systems do not allow"
        try:
            if len(name.encode()) > _MOST_NAME_BYTES:
                return f"it has a name of more than {_MOST_NAME_BYTES} bytes"
        except UnicodeEncodeError:
            return "it is not valid Unicode"
    return ""


def check_location(location: str) -> list[str]:
    """Return the names of a plain relative location.

    Raises:
        ArchiveError: it is not one.
    """
    if problem := location_problem(location):
        raise ArchiveError(
            f"{location!r:.200} is not a location below the folder: {problem}",
            remedy="A location has plain names with `/` between them. To use other files, pass weights=",
        )
    return location.split("/")
