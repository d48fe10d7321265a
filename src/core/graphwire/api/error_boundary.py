"""Convert every foreign exception that leaves a public function to a `GraphwireError`.

Whatever a reader, the bridge or a plugin raises because of a document becomes a `GraphwireError` that names the file, the
record, its format, and the place inside. This module is the only one that converts. Code below does not need to foresee
exceptions: it adds places with `errors.locate`, and raises a `GraphwireError` of its own where it knows a better reason.

Exceptions that pass unchanged:
- a `GraphwireError`, which only gets the file, record and format;
- an `OSError` about the caller's own files, and what the caller's own file object raises;
- `MemoryError`, and warnings that the caller turned into errors;
- `KeyboardInterrupt` and `SystemExit`.
"""

from __future__ import annotations

import functools
import inspect
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from graphwire.errors import (
    ArchiveError,
    DecodeError,
    EncodeError,
    GraphwireError,
    Place,
    RemoteError,
    exception_text,
    is_of_caller,
    locate,
)
from graphwire.registry import Registry, registry_or_installed
from graphwire.schema import Program
from graphwire.wire.archive.source import file_name
from graphwire.wire.remote import url_of

if TYPE_CHECKING:
    import logging

_INFO = 20
"""`logging.INFO`, whose module takes milliseconds to import."""


class _Log:
    """Logs what public functions read, upgrade and skip, and how long it takes, under `graphwire`.

    Silent unless the caller configures logging, for which the caller imports `logging`. This class does not import it.
    """

    def is_on(self) -> bool:
        """Return whether somebody wants to read what is logged."""
        return "logging" in sys.modules and self._logger.isEnabledFor(_INFO)

    def info(self, text: str, *values: object) -> None:
        """Log `text % values`."""
        if self.is_on():
            self._logger.info(text, *values, stacklevel=2)

    @functools.cached_property
    def _logger(self) -> logging.Logger:
        import logging

        logger = logging.getLogger("graphwire")
        logger.addHandler(logging.NullHandler())
        return logger


LOG = _Log()

P = ParamSpec("P")
R = TypeVar("R")

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

    __slots__ = ("_error", "_file", "_outer", "_record", "_registry")

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
        """Do nothing: only an error needs work."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, Exception):
            return
        if isinstance(error, GraphwireError):
            converted: GraphwireError | None = error
            _name_plugin(error, self._registry)
        else:
            converted = _as_graphwire_error(error, self._error, self._registry)
        if converted is None:
            return
        record, format = ("", "")
        with suppress(Exception):  # The archive may be too damaged to know.
            record, format = self._record() if callable(self._record) else self._record
        converted.of(self._file, record, format)
        if converted is not error:
            raise converted from error


def source_name(source: Any) -> str:
    """Return the name of a program source in messages."""
    if isinstance(source, Program):
        return "the records"
    if (
        isinstance(source, (str, bytes, bytearray, memoryview))
        or hasattr(source, "__fspath__")
        or url_of(source)
    ):
        return file_name(source)
    if hasattr(source, "graph_module"):
        return "the program"
    # An open archive knows the name of its file.
    return str(getattr(source, "file", "")) if hasattr(source, "program_of") else file_name(source)


def reading(*sources: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Convert what the decorated public function raises to `GraphwireError`s that name its files; log what it has read.

    Args:
        sources: the names of the parameters that take a file, or a program in another form.
    """
    return _bounded(sources, DecodeError)


def writing(*sources: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Do the same as `reading`, for a function that writes: foreign exceptions become `EncodeError`s."""
    return _bounded(sources, EncodeError)


_OF_TORCH = {
    "expected_opset_version": "operators are brought to the installed versions; `opset_version` of save and convert"
    " chooses those of a file",
    "map_location": "device= names the device",
    "pickle_protocol": "graphwire writes no pickles",
    "weights_only": "graphwire never runs a file's pickles",
    "f": "the file is the first argument",
    "ep": "the program is the first argument",
}
"""Arguments of torch's functions, and what to use instead."""


def _bounded(
    sources: tuple[str, ...], kind: type[GraphwireError]
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def bounded(*args: P.args, **kwargs: P.kwargs) -> R:
            start = time.perf_counter()
            try:
                result = function(*args, **kwargs)
            except Exception as error:
                signature = inspect.signature(function)
                if unknown := kwargs.keys() - signature.parameters.keys():
                    raise _unknown_option(function.__name__, min(unknown), signature.parameters) from None
                if error.__traceback__ is None or error.__traceback__.tb_next is None:
                    raise  # The call itself failed: its arguments do not fit the signature.
                given = signature.bind_partial(*args, **kwargs).arguments
                with Boundary(_named(sources, given), _registry(given), error=kind):
                    raise
            if LOG.is_on():
                given = inspect.signature(function).bind_partial(*args, **kwargs).arguments
                files = _named(sources or ("file",), given)
                done = f"{function.__name__}: {files}" if files else function.__name__
                LOG.info("%s, %.3f s", done, time.perf_counter() - start)
            return result

        return bounded

    return decorate


def _named(sources: tuple[str, ...], given: dict[str, Any]) -> str:
    return " and ".join(filter(None, (source_name(given[each]) for each in sources if each in given)))


def _unknown_option(function: str, name: str, options: Iterable[str]) -> TypeError:
    """Return the error of an argument that a function lacks, with what to use in its place."""
    from difflib import get_close_matches  # only mistakes need it

    near = get_close_matches(name, options, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    hint = f"; {_OF_TORCH[name]}" if name in _OF_TORCH else hint
    return TypeError(f"{function}() got an unexpected keyword argument {name!r}{hint}")


def _registry(given: dict[str, Any]) -> Registry | None:
    with suppress(Exception):  # `registry=` may be the wrong argument.
        return registry_or_installed(given.get("registry"))
    return None


def _as_graphwire_error(
    error: Exception, kind: type[GraphwireError], registry: Registry | None
) -> GraphwireError | None:
    """Return the `GraphwireError` for a foreign exception; None if the exception passes unchanged."""
    frames = list(_frames(error.__traceback__))
    plugin = _plugin_in(frames, registry)
    if is_of_caller(error) and not (plugin and isinstance(error, MemoryError)):
        return None
    if not plugin and any(name.partition(".")[0] == "fsspec" for name, _ in frames):
        return RemoteError(f"the file system fails: {exception_text(error)}", remedy=_STORE)
    if isinstance(error, OSError) and not plugin:
        own = [name for name, _ in frames if name.startswith("graphwire.")]
        if own and own[-1].startswith(_FILES):
            return None
    if type(error) is ValueError and str(error).startswith("embedded null"):  # how Python refuses a path
        return ArchiveError(
            "the name of a file contains a null character, which no file system allows",
            remedy="Pass another name",
        )
    converted = _new_error(error, kind, plugin, frames)
    for place in getattr(error, "__notes__", ()):
        if isinstance(place, Place):
            locate(converted, place)
    return converted


def _name_plugin(error: GraphwireError, registry: Registry | None) -> None:
    """Add a remedy that names the plugin to a `GraphwireError` that wraps an exception of a plugin."""
    cause: BaseException | None = error
    seen = set[int]()  # fsspec keeps an error and raises it again, so causes may go round
    while isinstance(cause, GraphwireError) and id(cause) not in seen:
        seen.add(id(cause))
        cause = cause.__cause__
    if cause is None or error.file:
        return
    plugin = _plugin_in(list(_frames(cause.__traceback__)), registry)
    if plugin and _VARIABLE not in error.remedy:
        named = "" if plugin in error.problem else f"The {plugin} fails. "
        error.remedy = f"{error.remedy}{'. ' if error.remedy else ''}{named}{_REPAIR}"


def _new_error(
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
            f"{module}.{function}, which the program refers to, fails: {exception_text(error)}",
            remedy=_REPAIR_OBJECT,
        )
    return kind(
        f"it cannot be {what}: {exception_text(error)} (in {module}.{function})",
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
