"""Files of catalogues and journals on this machine, which appear whole and for good, or not at all."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from graphwire.errors import ArchiveError, GraphwireError, exception_text

__all__ = ["not_writable", "remove_unfinished", "whole_file"]


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A context with a stream for a file that appears when the block ends without an error. Its folder is created.

    Raises:
        ArchiveError: it cannot be written.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.unlink(missing_ok=True)
        with part.open("xb") as stream:  # "x" follows no link that somebody put there
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
    except OSError as error:
        raise not_writable(path, error) from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def not_writable(path: Path, error: OSError) -> GraphwireError:
    """Return the error of a file that cannot be written."""
    remedy = "Make room, or let this user write there; the same command goes on where it stopped"
    return ArchiveError(f"it cannot be written: {error.strerror or exception_text(error)}", remedy=remedy).of(
        str(path)
    )


def remove_unfinished(folder: Path, name: str) -> None:
    """Remove what `whole_file`, or a new file of a `Folder`, left in a folder when its process was killed.

    Args:
        folder: the folder, which need not be there.
        name: a regular expression of the names of the files.
    """
    is_part = re.compile(rf"\.{name}\.[0-9]+\.part|\.graphwire-[0-9a-f]+\.part")
    for path in folder.glob(".*.part"):
        if is_part.fullmatch(path.name):
            path.unlink(missing_ok=True)
