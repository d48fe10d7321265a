"""The files that words of a command line name, listed lazily, with their sizes and stamps. No file is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from graphwire_fleet.work import File

__all__ = ["files_of"]


def files_of(words: Sequence[str], storage_options: Mapping[str, Any] | None = None) -> Iterator[File]:
    """Return the files that words name, in the order of the words, those of a folder or pattern by name."""
    for word in words:
        folder = Path(word).absolute()
        for path in sorted(folder.rglob("*.pt2")):
            stat = path.stat()
            yield File(
                str(path),
                str(path),
                path.relative_to(folder).as_posix(),
                stat.st_size,
                f"{stat.st_mtime_ns}-{stat.st_size}",
            )
