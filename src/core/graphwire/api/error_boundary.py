"""The one place where an exception that is none of ours becomes an error of ours.

Whatever a reader, the bridge or a plugin raises on account of a document leaves the API as a `GraphwireError` that names the
file, the record and its format, and where in it. Below, nobody need foresee what may be raised: who knows a place puts it in
front (`errors.locate`), and who knows a better reason says it.

Left as they are: errors of ours, which get file, record and format; what the operating system says of the caller's own files;
what the caller's own file object raises; `MemoryError`; warnings that the caller made errors; and what is no `Exception`
(`KeyboardInterrupt`, `SystemExit`), also where torch made an error of its own of an interrupt.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from graphwire.errors import (
    DecodeError,
    EncodeError,
    GraphwireError,
    Place,
    exception_text,
    is_of_caller,
    locate,
)
from graphwire.hooks import Registry, registry_or_installed
from graphwire.schema import Program
from graphwire.wire.archive import file_name

P = ParamSpec("P")
R = TypeVar("R")

_FILES = ("graphwire.wire.", "graphwire.api.")
"""The parts whose calls of the operating system are about the caller's files."""


class Boundary:
    """A block whose errors are of one file, and all ours.

    Args:
        file: what the file is called.
        registry: the plugins in force, one of which may be what raises.
        record: the record that the block is about, and its format; or what tells them when there is an error.
        error: what a foreign exception becomes.
    """

    __slots__ = ("_error", "_file", "_record", "_registry")

    def __init__(
        self,
        file: str,
        registry: Registry | None = None,
        record: tuple[str, str] | Callable[[], tuple[str, str]] = ("", ""),
        error: type[GraphwireError] = DecodeError,
    ) -> None:
        self._file = file
        self._registry = registry
        self._record = record
        self._error = error

    def __enter__(self) -> None:
        """Nothing is done before there is an error."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, Exception):
            return
        if isinstance(error, TypeError) and _INTERRUPTED.match(str(error)):
            raise KeyboardInterrupt from error
        if isinstance(error, GraphwireError):
            ours: GraphwireError | None = error
            _name_plugin(error, self._registry)
        else:
            ours = _ours(error, self._error, self._registry)
        if ours is None:
            return
        record, format = ("", "")
        with suppress(Exception):  # the archive may be so damaged that it cannot tell
            record, format = self._record() if callable(self._record) else self._record
        ours.of(self._file, record, format)
        if ours is not error:
            raise ours from error


_INTERRUPTED = re.compile(
    r"""\w+\(\): argument '\w+' failed to unpack the object at pos \d+ with error "KeyboardInterrupt: """
)
"""What torch says where Ctrl-C comes while it asks a symbolic size for its value. No text of a file stands in front."""


def source_name(source: Any) -> str:
    """What a program is called in a message, wherever it is."""
    if isinstance(source, Program):
        return "the records"
    if isinstance(source, (str, bytes, bytearray, memoryview)) or hasattr(source, "__fspath__"):
        return file_name(source)
    if hasattr(source, "graph_module"):
        return "the program"
    # An archive that is open knows the name of its file.
    return str(getattr(source, "file", "")) if hasattr(source, "program_of") else file_name(source)


def reading(*sources: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorates a public function: what it raises is ours, and of the file or files that it is given.

    Args:
        sources: the names of its parameters that take a file, or a program in another form.
    """
    return _bounded(sources, DecodeError)


def writing(*sources: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """As `reading`, of a function that writes what it is given."""
    return _bounded(sources, EncodeError)


def _bounded(
    sources: tuple[str, ...], kind: type[GraphwireError]
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        options = signature.parameters.keys()

        @functools.wraps(function)
        def bounded(*args: P.args, **kwargs: P.kwargs) -> R:
            if unknown := kwargs.keys() - options:
                raise TypeError(f"{function.__name__}() got an unexpected keyword argument {min(unknown)!r}")
            try:
                return function(*args, **kwargs)
            except Exception as error:
                if error.__traceback__ is None or error.__traceback__.tb_next is None:
                    raise  # the call itself, which has other arguments than the function
                given = signature.bind_partial(*args, **kwargs).arguments
                called = [source_name(given[each]) for each in sources if each in given]
                with Boundary(" and ".join(filter(None, called)), _registry(given), error=kind):
                    raise

        return bounded

    return decorate


def _registry(given: dict[str, Any]) -> Registry | None:
    with suppress(Exception):  # which may be what is wrong
        return registry_or_installed(given.get("registry"))
    return None


def _ours(error: Exception, kind: type[GraphwireError], registry: Registry | None) -> GraphwireError | None:
    """An error of ours in place of a foreign one; None where it is to be left as it is."""
    frames = list(_frames(error.__traceback__))
    plugin = _plugin_in(frames, registry)
    if is_of_caller(error) and not (plugin and isinstance(error, MemoryError)):
        return None
    if isinstance(error, OSError) and not plugin:
        own = [name for name, _ in frames if name.startswith("graphwire.")]
        if own and own[-1].startswith(_FILES):
            return None
    ours = _told(error, kind, plugin, frames)
    for place in getattr(error, "__notes__", ()):
        if isinstance(place, Place):
            locate(ours, place)
    return ours


def _name_plugin(error: GraphwireError, registry: Registry | None) -> None:
    """Say whose fault an error of ours is that was made of what a plugin raises, and what to do."""
    cause = error.__cause__
    if cause is None or isinstance(cause, GraphwireError) or error.file:
        return
    plugin = _plugin_in(list(_frames(cause.__traceback__)), registry)
    if plugin:
        named = "" if plugin in error.problem else f"It is the {plugin} that fails. "
        error.remedy = error.remedy or f"{named}{_REPAIR}"


def _told(
    error: Exception, kind: type[GraphwireError], plugin: str, frames: list[tuple[str, str]]
) -> GraphwireError:
    if plugin:
        return kind(f"the {plugin} fails: {exception_text(error)}", remedy=_REPAIR)
    if isinstance(error, RecursionError):
        return kind("values are nested too deeply for Python's recursion limit", remedy=_DEPTH)
    module, function = frames[-1] if frames else ("", "")
    what = "written" if issubclass(kind, EncodeError) else "read"
    if what == "written" and module.partition(".")[0] not in _TRUSTED:
        return kind(
            f"{module}.{function} fails, which the program refers to: {exception_text(error)}",
            remedy=_REPAIR_OBJECT,
        )
    return kind(
        f"it cannot be {what}: {exception_text(error)} (in {module}.{function})",
        remedy=DEFECT,
    )


DEFECT = "Where nothing is wrong with the program, that is a defect of graphwire: report it"
"""The remedy where nobody below knows a better one."""
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
"""The packages whose failure is none of an object that the caller put into a program."""
_REPAIR_OBJECT = "Repair it, or take the object that has it out of the program"
_DEPTH = "Nest less deeply, or raise the limit (sys.setrecursionlimit) where the data is yours"
_REPAIR = "Repair or update it, or do without it: GRAPHWIRE_DISABLE_PLUGINS names plugins that are not loaded"


def _frames(trace: TracebackType | None) -> Iterator[tuple[str, str]]:
    """The modules and functions between the boundary and what raised, outermost first."""
    while trace is not None:
        frame = trace.tb_frame
        yield str(frame.f_globals.get("__name__", "")), frame.f_code.co_name
        trace = trace.tb_next


def _plugin_in(frames: list[tuple[str, str]], registry: Registry | None) -> str:
    """The plugin of others whose code raises, the innermost of several; empty where none does."""
    found = (
        None
        if registry is None
        else next(filter(None, (registry.plugin_of(m) for m, _ in reversed(frames))), None)
    )
    return "" if found is None else str(found)
