"""Where does a command write? To a file, a folder or standard output; nothing that it reads is replaced."""

from __future__ import annotations

import argparse
import errno
import os
import stat
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from itertools import takewhile
from pathlib import Path, PurePath
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from graphwire.cli.files import OK, STDIN, Input, for_each_file, inputs_of, is_address
from graphwire.cli.options import open_options, place_of
from graphwire.cli.terminal import Output
from graphwire.display import size_text
from graphwire.errors import ArchiveError, GraphwireError, Ignored

# ----------------------------------------------------- the files that a command reads: none of its outputs replaces one


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
        from graphwire.wire.archive.source import RemoteFile, located

        if file is None or file == STDIN:
            return
        place = located(file, getattr(self._arguments, "storage_options", None))
        if isinstance(place, RemoteFile):
            yield from (place.url, (type(place.fs), place.path))
            return
        is_open = hasattr(place, "fileno")
        # There may be no such file, or a null character in its name, or a stream that is no file.
        with Ignored(OSError, ValueError):
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
        from graphwire.registry.registry import default_registry

        options = open_options(self._arguments)
        for each in self._inputs:
            yield each.name, each.source
            if each.error is None and each.name != STDIN:
                with Ignored(GraphwireError, OSError), graphwire.open(each.source, **options) as archive:
                    yield from ((f"of {each.name}", file) for file in archive.weight_files())
        for option in READ_OPTIONS:
            given = getattr(self._arguments, option, None)
            for value in given if isinstance(given, list) else [given]:
                choice = place_of(value) if option == "weights" and isinstance(value, str) else value
                if isinstance(choice, STORE_CHOICES):
                    yield from ((str(value), file) for file in store_files(choice, default_registry()))


# ---------------------- where a command writes: a file, a folder that gets a file for each one read, or standard output


class Destination(msgspec.Struct, frozen=True):
    """Where the file of one input is written."""

    name: str
    file: Any
    """A path, an address, or a binary stream."""

    @property
    def is_path(self) -> bool:
        """Whether it is a local file."""
        return isinstance(self.file, Path)

    @property
    def is_stream(self) -> bool:
        """Whether it is standard output, a pipe or a device, which holds nothing but the file."""
        return self.name == STDIN or (self.is_path and self.file.exists() and not self.file.is_file())

    @property
    def nbytes(self) -> int:
        """The size of the written file; 0 for a stream."""
        return self.file.stat().st_size if self.is_path else 0

    def write(self, data: bytes, storage_options: Mapping[str, Any] | None = None) -> None:
        """Write the whole file at once; a path is replaced atomically.

        Args:
            storage_options: those of a URL.
        """
        from graphwire.wire.archive.atomic_file import atomic_write, write_all
        from graphwire.wire.archive.source import located

        if self.name == STDIN:
            write_all(self.file, data)
            return
        with self.folder_made(), atomic_write(located(self.file, storage_options)) as stream:
            write_all(stream, data)

    @contextmanager
    def folder_made(self) -> Iterator[None]:
        """Create the folders above the file that are missing; they go again if it is not written."""
        made: list[Path] = []
        try:
            if self.is_path:
                folder = self.file.parent
                missing = list(takewhile(lambda each: not each.is_dir(), (folder, *folder.parents)))
                for each in reversed(missing):
                    try:
                        each.mkdir()
                        made.append(each)
                    except FileExistsError:
                        if not each.is_dir():  # another process may have made it just now
                            raise NotADirectoryError(
                                errno.ENOTDIR, "this is not a folder", str(each)
                            ) from None
            yield
        except BaseException:
            for each in reversed(made):
                with Ignored(OSError):  # another has written into it
                    each.rmdir()
            raise


def add_dry_run(parser: argparse.ArgumentParser) -> None:
    """Add the option `--dry-run`."""
    parser.add_argument(
        "--dry-run", action="store_true", help="check and show what would be written, and write nothing"
    )


def add_output(
    parser: argparse._ActionsContainer, help: str, *, metavar: str = "FILE", default: str | None = None
) -> None:
    """Add the option `-o`, `--output`: where a command writes. `destination_of` takes its value."""
    parser.add_argument("-o", "--output", metavar=metavar, default=default, help=help)


def destination_of(target: str, read: ReadFiles, *, is_program: bool = False) -> Destination:
    """Return where a command writes a file. Every output of every command comes from here.

    Args:
        target: a path or URL, or `-` for standard output.
        read: the files that it must not replace.
        is_program: whether a program is written. Nothing else replaces a program.

    Raises:
        ArchiveError: it is one of them.
    """
    if target == STDIN:
        return Destination(STDIN, sys.stdout.buffer)
    read.check(target)
    if not is_address(target):
        if target.endswith(("/", os.sep)):
            raise ArchiveError("this names a folder", remedy="Name a file in it").of(target)
        if not is_program and _is_zip(Path(target)):
            raise ArchiveError(
                "this is a ZIP archive, such as a program, and what is written is none",
                remedy="Write to another file",
            ).of(target)
        return Destination(target, Path(target))
    from graphwire.wire.remote import shown_url

    return Destination(shown_url(target), target)


def _is_zip(path: Path) -> bool:
    from graphwire.wire.archive.source import open_regular

    # It may be no file, or have a null character in its name.
    with Ignored(ArchiveError, OSError, ValueError), open_regular(str(path)) as file:
        return file.read(4) == b"PK\3\4"
    return False


def tell_written(output: Output, place: Destination, *facts: str, dry_run: bool = False) -> None:
    """Print that a file is written, or would be: its name, facts and size; nothing if it went to a stream."""
    if not place.is_stream:
        size = "not written" if dry_run else size_text(place.nbytes) if place.is_path else "written"
        output.line(f"{place.name}: {', '.join(filter(None, (*facts, size)))}")


def destinations(inputs: Sequence[Input], arguments: argparse.Namespace) -> dict[Input, Destination | None]:
    """Return where the file of each input is written.

    A single file goes to `--output`, or into it if it is a folder, or ends with a slash. Several go into that folder, each under
    its own path below the folder that the command line names. An input whose path another one has, or that would be replaced,
    gets an error.
    """
    words, target = arguments.files, arguments.output
    several = len(inputs) != 1 or Path(words[0]).is_dir()
    if several and target == STDIN:
        raise ArchiveError(
            "several files cannot go to standard output", remedy="Name a folder to write them to"
        )
    if several and Path(target).is_file():
        raise ArchiveError("this is a file, and several files are to be written", remedy="Name a folder").of(
            target
        )
    read, found = ReadFiles(inputs, arguments), dict[str, str]()
    pairs: dict[Input, Destination | None] = {}
    for each in inputs:
        if each.error is not None:
            pairs[each] = None
            continue
        name = target
        if is_address(target):
            name = f"{target.rstrip('/')}/{each.below.as_posix()}" if several else target
        elif several or (target != STDIN and (target.endswith(("/", os.sep)) or Path(target).is_dir())):
            name = os.path.join(target, each.below)  # noqa: PTH118 "./a" stays as it is in messages
        real = name if is_address(name) else os.path.realpath(name)
        try:
            if several and not is_address(target):
                _check_below(target, each.below)
            if real in found:
                problem = f"{found[real]} is written to {name} already"
                raise ArchiveError(problem, remedy="Write it to another folder").of(each.name)
            pairs[each] = destination_of(name, read, is_program=True)
        except GraphwireError as error:
            pairs[replace(each, error=error)] = None
        found.setdefault(real, each.name)
    return pairs


def _check_below(folder: str, below: PurePath) -> None:
    """Check that a file below a folder for outputs, and the way to it, is no link: it may lead out of the folder.

    Raises:
        ArchiveError: it is one.
    """
    from graphwire.wire.weights.folder import Folder

    remedy = "Remove the link, or write to another folder"
    with suppress(FileNotFoundError):
        found = Folder(folder, remedy=remedy).act(below.parts, partial(os.stat, follow_symlinks=False))
        if stat.S_ISLNK(found.st_mode):
            raise ArchiveError("this is a link", remedy=remedy).of(os.fspath(Path(folder, below)))


def add_rewriting(parser: argparse.ArgumentParser) -> None:
    """Add the options of a command that writes files again: `--in-place` and `--output`."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--in-place", action="store_true", help="replace the files")
    add_output(
        where,
        "the file to write, replaced if it exists; a folder for several; or - for standard output",
        metavar="DST",
    )


RewriteTask: TypeAlias = Callable[[Input, Destination | None, argparse.Namespace, Output], int]
"""What a command does with one file that it writes again; the place is None with `--dry-run` and no place."""


def rewrite_files(task: RewriteTask, doing: str, arguments: argparse.Namespace, output: Output) -> int:
    """Run a task on each file of a command with `add_rewriting`. Return the largest exit code.

    Raises:
        ArchiveError: the arguments name no place.
    """
    inputs = inputs_of(arguments.files)
    if arguments.output is not None:
        places = destinations(inputs, arguments)
    elif arguments.in_place:
        places = {each: _itself(each) for each in inputs}
    elif arguments.dry_run:
        places = dict.fromkeys(inputs)
    else:
        raise ArchiveError(
            "where to write is missing, and nothing is overwritten unless you ask for it",
            remedy="Pass --in-place, --output DST, or --dry-run to see what would change",
        )
    codes = for_each_file(
        [*places],
        output,
        lambda each: task(each, places[each], arguments, output),
        doing=doing,
        as_json=arguments.json,
    )
    return max(codes, default=OK)


def _itself(each: Input) -> Destination:
    if each.name == STDIN:
        raise ArchiveError("standard input cannot be replaced", remedy="Pass --output").of(STDIN)
    return Destination(each.name, each.source if is_address(each.name) else Path(each.source))  # type: ignore[arg-type]
