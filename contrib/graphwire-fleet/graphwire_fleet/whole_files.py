"""Files of catalogues and journals on this machine, which appear whole and for good, or not at all."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from graphwire.errors import ArchiveError, exception_text

__all__ = ["remove_unfinished", "whole_file"]


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A context with a stream for a file that appears when the block ends without an error. Its folder is created.

    Raises:
        ArchiveError: it cannot be written.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
    except OSError as error:
        remedy = "Make room, or let this user write there; the same command goes on where it stopped"
        raise ArchiveError(
            f"it cannot be written: {error.strerror or exception_text(error)}", remedy=remedy
        ).of(str(path)) from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def remove_unfinished(folder: Path, name: str) -> None:
    """Remove what `whole_file` left in a folder when its process was killed.

    Args:
        folder: the folder, which need not be there.
        name: a regular expression of the names of the files.
    """
    is_part = re.compile(rf"\.{name}\.[0-9]+\.part")
    for path in folder.glob(".*.part"):
        if is_part.fullmatch(path.name):
            path.unlink(missing_ok=True)
