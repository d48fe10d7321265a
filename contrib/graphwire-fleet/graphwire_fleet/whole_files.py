"""Files of catalogues and journals on this machine, which appear whole and for good, or not at all."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from graphwire.errors import ArchiveError, GraphwireError, exception_text
from graphwire.wire.weights.folder import Folder

OWN_FILES = "Remove it: a catalogue or journal has regular files of its own"
"""What to do about links, pipes and folders in place of such files."""


@contextmanager
def whole_file(folder: Folder, name: str) -> Iterator[BinaryIO]:
    """A context with a stream for a file that appears when the block ends without an error. Its folder is created.

    Raises:
        ArchiveError: it cannot be written.
    """
    try:
        with folder.create(name, replaces=True) as stream:
            assert stream is not None
            yield stream
    except OSError as error:
        raise not_writable(folder.shown(name), error) from error


def not_writable(path: str, error: OSError) -> GraphwireError:
    """Return the error of a file that cannot be written."""
    remedy = "Make room, or let this user write there; the same command goes on where it stopped"
    return ArchiveError(f"it cannot be written: {error.strerror or exception_text(error)}", remedy=remedy).of(
        path
    )


def remove_unfinished(folder: Folder) -> None:
    """Remove what `whole_file` left in a folder, which need not be there, when its process was killed."""
    for name in folder.names():
        if re.fullmatch(r"\.graphwire-[0-9a-f]+\.part", name):
            folder.remove(name)
