"""The files that a command reads: none of its outputs replaces one."""

from __future__ import annotations

import argparse
import os
import stat
from collections.abc import Hashable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from graphwire.cli.files.inputs import STDIN, Input
from graphwire.cli.files.options import open_options, place_of
from graphwire.errors import ArchiveError, GraphwireError

__all__ = ["READ_OPTIONS", "ReadFiles"]

READ_OPTIONS = ("overlays", "weights_from", "weights")
"""The options with files that a command reads besides its inputs, of all commands that write."""


class ReadFiles:
    """The files that a command reads, and those with the weights of their programs, by whatever names and links.

    Nothing is looked up before an output exists: a new file replaces nothing.

    Args:
        inputs: the inputs of the command.
        arguments: its arguments, which may name others (`READ_OPTIONS`).
    """

    def __init__(self, inputs: Sequence[Input], arguments: argparse.Namespace) -> None:
        self._inputs = inputs
        self._arguments = arguments

    def check(self, output: Any) -> None:
        """Check that writing a file replaces none of them.

        Args:
            output: a path or URL.

        Raises:
            ArchiveError: it does.
        """
        for key in self._keys(output):
            if key not in self._names and not (isinstance(key, Path) and self._folders & {*key.parents}):
                continue
            shown = self._names.get(key, "")
            known = f" ({shown})" if shown not in ("", str(output)) else ""
            is_input = hasattr(self._arguments, "in_place") and shown in (each.name for each in self._inputs)
            raise ArchiveError(
                f"the command reads this file{known} and would replace it",
                remedy="Write to another file" + (", or pass --in-place to replace it" if is_input else ""),
            ).of(str(output))

    def _keys(self, file: Any) -> Iterator[Hashable]:
        """Yield what all names of an existing file have in common; of a folder only its path."""
        from graphwire.wire.remote import RemoteFile, located

        if file is None or file == STDIN:
            return
        place = located(file, getattr(self._arguments, "storage_options", None))
        if isinstance(place, RemoteFile):
            yield from (place.url, (type(place.fs), place.path))
            return
        is_open = hasattr(place, "fileno")
        # There may be no such file, or a null character in its name, or a stream that is no file.
        with suppress(OSError, ValueError):
            status = os.fstat(place.fileno()) if is_open else Path(place).stat()
            if stat.S_ISREG(status.st_mode):  # a device or pipe is written to, not replaced
                yield status.st_dev, status.st_ino
            if not is_open:
                yield Path(place).resolve()

    @cached_property
    def _names(self) -> dict[Hashable, str]:
        return {key: name for name, file in self._files() for key in self._keys(file)}

    @cached_property
    def _folders(self) -> frozenset[Path]:
        """The folders of which everything is read."""
        return frozenset(each for each in self._names if isinstance(each, Path) and each.is_dir())

    def _files(self) -> Iterator[tuple[str, Any]]:
        """Yield each file, or folder of weights, with its name in messages."""
        import graphwire
        from graphwire.api.weights import STORE_CHOICES, store_files
        from graphwire.hooks import default_registry

        options = open_options(self._arguments)
        for each in self._inputs:
            yield each.name, each.source
            if each.error is None and each.name != STDIN:
                with suppress(GraphwireError, OSError), graphwire.open(each.source, **options) as archive:
                    yield from ((f"of {each.name}", file) for file in archive.weight_files())
        for option in READ_OPTIONS:
            given = getattr(self._arguments, option, None)
            for value in given if isinstance(given, list) else [given]:
                choice = place_of(value) if option == "weights" and isinstance(value, str) else value
                if isinstance(choice, STORE_CHOICES):
                    yield from ((str(value), file) for file in store_files(choice, default_registry()))
