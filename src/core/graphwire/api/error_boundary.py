"""Convert every foreign exception that leaves a public function to a `GraphwireError`.

Whatever a reader, the bridge or a plugin raises because of a document becomes a `GraphwireError` that names the file, the
record, its format, and the place inside. This module is the only one that converts. Code below does not need to foresee
exceptions: it adds places with `errors.locate`, and raises a `GraphwireError` of its own where it knows a better reason.

Exceptions that pass unchanged:
- a `GraphwireError`, which only gets the file, record and format;
- an `OSError` about the caller's own files, and what the caller's own file object raises;
- `MemoryError`, and warnings that the caller turned into errors;
- `KeyboardInterrupt` and `SystemExit`, and what the handler of a signal raises, such as a time limit of the caller. Where torch
  computes with symbolic sizes, it may put a TypeError in its place.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from graphwire import errors
from graphwire.registry.registry import Registry
from graphwire.schema import Program
from graphwire.wire.archive.source import file_name

_FILES = ("graphwire.wire.", "graphwire.api.")
"""The packages whose operating system calls concern the caller's files."""


class Boundary:
    """A context manager that converts exceptions of its block to `GraphwireError`s that name one file.

    Args:
        file: the name of the file.
        registry: the plugins in use, to name the one that raises.
        record: the record that the block reads, and its format; or a function that returns both, called on an error.
        error: the class that foreign exceptions become.
    """

    __slots__ = ("_error", "_file", "_record", "_registry")

    def __init__(
        self,
        file: str,
        registry: Registry | None = None,
        record: tuple[str, str] | Callable[[], tuple[str, str]] = ("", ""),
        error: type[errors.GraphwireError] = errors.DecodeError,
    ) -> None:
        self._file = file
        self._registry = registry
        self._record = record
        self._error = error

    def __enter__(self) -> None:
        """Do nothing: only an error needs work."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, Exception):
            return
        if (raised := errors.raised_by_signal(error)) is not None:
            if raised is error:
                return
            raise raised
        if isinstance(error, errors.GraphwireError):
            converted: errors.GraphwireError | None = error
            _name_plugin(error, self._registry)
        else:
            converted = _as_graphwire_error(error, self._error, self._registry)
        if converted is None:
            return
        record, format = ("", "")
        with errors.Ignored(Exception):  # The archive may be too damaged to know.
            record, format = self._record() if callable(self._record) else self._record
        converted.of(self._file, record, format)
        if converted is not error:
            raise converted from error


def source_name(source: Any) -> str:
    """Return the name of a program source in messages."""
    if isinstance(source, Program):
        return "the records"
    if hasattr(source, "graph_module"):
        return "the program"
    # An open archive knows the name of its file.
    return str(source.file) if hasattr(source, "program_of") else file_name(source)


def _as_graphwire_error(
    error: Exception, kind: type[errors.GraphwireError], registry: Registry | None
) -> errors.GraphwireError | None:
    """Return the `GraphwireError` for a foreign exception; None if the exception passes unchanged."""
    frames = list(_frames(error.__traceback__))
    plugin = _plugin_in(frames, registry)
    if errors.is_of_caller(error) and not (plugin and isinstance(error, MemoryError)):
        return None
    if not plugin and any(name.partition(".")[0] == "fsspec" for name, _ in frames):
        return errors.RemoteError(f"the file system fails: {errors.exception_text(error)}", remedy=_STORE)
    if isinstance(error, OSError) and not plugin:
        own = [name for name, _ in frames if name.startswith("graphwire.")]
        if own and own[-1].startswith(_FILES):
            return None
    if type(error) is ValueError and str(error).startswith("embedded null"):  # how Python refuses a path
        return errors.ArchiveError(
            "the name of a file contains a null character, which no file system allows",
            remedy="Pass another name",
        )
    converted = _new_error(error, kind, plugin, frames)
    for place in getattr(error, "__notes__", ()):
        if isinstance(place, errors.Place):
            errors.locate(converted, place)
    return converted


def _name_plugin(error: errors.GraphwireError, registry: Registry | None) -> None:
    """Add a remedy that names the plugin to a `GraphwireError` that wraps an exception of a plugin."""
    cause = next(
        (each for each in errors.causes_of(error) if not isinstance(each, errors.GraphwireError)), None
    )
    if cause is None or error.file:
        return
    plugin = _plugin_in(list(_frames(cause.__traceback__)), registry)
    if plugin and _VARIABLE not in error.remedy:
        named = "" if plugin in error.problem else f"The {plugin} fails. "
        error.remedy = f"{error.remedy}{'. ' if error.remedy else ''}{named}{_REPAIR}"


def _new_error(
    error: Exception, kind: type[errors.GraphwireError], plugin: str, frames: list[tuple[str, str]]
) -> errors.GraphwireError:
    if plugin:
        return kind(f"the {plugin} fails: {errors.exception_text(error)}", remedy=_REPAIR)
    if isinstance(error, RecursionError):
        return kind("values are nested too deeply for Python's recursion limit", remedy=_DEPTH)
    module, function = frames[-1] if frames else ("", "")
    what = "written" if issubclass(kind, errors.EncodeError) else "read"
    if what == "written" and module.partition(".")[0] not in _TRUSTED:
        return kind(
            f"{module}.{function}, which the program refers to, fails: {errors.exception_text(error)}",
            remedy=_REPAIR_OBJECT,
        )
    return kind(
        f"it cannot be {what}: {errors.exception_text(error)} (in {module}.{function})",
        remedy=DEFECT,
    )


DEFECT = "If nothing is wrong with the program, this is a defect of graphwire: report it"
"""The remedy if the code below gives none."""
_TRUSTED = frozenset(
    (
        "graphwire",
        "graphwire_plugins",
        "torch",
        "sympy",
        "mpmath",
        "msgspec",
        "numpy",
        *sys.stdlib_module_names,
    )
)
"""Packages that cannot belong to an object that the caller put into a program."""
_REPAIR_OBJECT = "Repair it, or remove the object that has it from the program"
_STORE = "Look at the server, the network and storage_options="
_DEPTH = "Nest less deeply, or raise the limit (sys.setrecursionlimit) if you trust the data"
_VARIABLE = "GRAPHWIRE_DISABLE_PLUGINS"
_REPAIR = f"Repair, update or disable it: {_VARIABLE} lists plugins to disable"


def _frames(trace: TracebackType | None) -> Iterator[tuple[str, str]]:
    """Yield the module and function of each frame between the boundary and the exception, outermost first."""
    while trace is not None:
        frame = trace.tb_frame
        yield str(frame.f_globals.get("__name__", "")), frame.f_code.co_name
        trace = trace.tb_next


def _plugin_in(frames: list[tuple[str, str]], registry: Registry | None) -> str:
    """Return the description of the innermost third-party plugin in the frames; empty if there is none."""
    found = (
        None
        if registry is None
        else next(filter(None, (registry.plugin_of(m) for m, _ in reversed(frames))), None)
    )
    return "" if found is None else str(found)
