"""All errors that graphwire raises deliberately.

    GraphwireError
    ├── EncodeError                  a program contains something that the schema cannot represent
    │   └── TargetError              …or that the requested older version cannot; every obstacle in `.obstacles`
    ├── DecodeError                  records cannot become a program on this installation
    │   ├── UnknownOperatorError     no handler on this installation resolves an operator
    │   └── UnknownTypeError         a container type is not registered here
    ├── InputError                   the arguments of a call of a loaded module do not fit the program
    ├── SchemaError                  a document is not a program of a supported schema
    │   ├── ValidationError          …with every problem and its place in `.problems`
    │   ├── UnsupportedFeatureError  the document requires a feature that this version does not know
    │   └── SchemaVersionError       the document has an unsupported schema version
    ├── ExpressionError              text is not a valid symbolic expression or guard
    ├── FormatError                  bytes cannot be read, or a tree cannot be written, in a wire format
    │   └── UnknownFormatError       no installed plugin provides a wire format
    │       └── MissingFormatError   a MissingPluginError, too: the file is in such a format
    ├── ArchiveError                 a file is not an archive, or is damaged
    │   ├── NotAnArchiveError        …or it is another kind of file, or empty
    │   ├── MissingRecordError       the archive lacks a record that the program needs
    │   └── ChecksumError            a record's bytes differ from those that were written
    ├── RemoteError                  a file at a URL cannot be read or written: the server, the network or a file system fails
    ├── WeightsError                 weights outside of a file are missing, changed or unsuitable; all of them in `.problems`
    ├── LimitError                   a size, depth or count exceeds the limits
    ├── OpsetError                   operators cannot be converted to another opset version; reasons in `.problems`
    ├── TorchReleaseError            torch is not installed, or older than the oldest supported release
    └── PluginError                  a plugin cannot be used
        ├── PluginConflictError      two plugins register one name
        └── MissingPluginError       the file needs a plugin that is not installed

A message names the `file`, the `record`, its `format` and the `place`, and states the problem and what to do next
(`remedy`).

Texts in a message may come from an untrusted file. Each part is shortened, and characters that control a terminal are
escaped. The attributes hold the original texts.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from types import BuiltinFunctionType, FunctionType, TracebackType
from typing import Any, NamedTuple, Self, TypeVar

__all__ = [
    "ArchiveError",
    "ChecksumError",
    "DecodeError",
    "EncodeError",
    "ExpressionError",
    "FormatError",
    "GraphwireError",
    "GraphwireWarning",
    "InputError",
    "LimitError",
    "MissingFormatError",
    "MissingPluginError",
    "MissingRecordError",
    "NotAnArchiveError",
    "Obstacle",
    "OpsetError",
    "PluginConflictError",
    "PluginError",
    "Problem",
    "RemoteError",
    "SchemaError",
    "SchemaVersionError",
    "TargetError",
    "TorchReleaseError",
    "UnknownFormatError",
    "UnknownOperatorError",
    "UnknownTypeError",
    "UnsupportedFeatureError",
    "ValidationError",
    "WeightsError",
]

_MOST_TOLD = 2_000
"""Characters of one part of a message. A name in a file may be as long as the file."""


class GraphwireWarning(UserWarning):
    """Something in a program is dropped without changing what the program computes, or weights are kept that differ
    from the graph's description."""


_INNER = frozenset(("graphwire", "graphwire_plugins", "torch", "importlib", "contextlib", "functools"))
"""The packages whose functions stand between the caller of a public function and a warning."""


def warn(text: str, kind: type[Warning] = GraphwireWarning) -> None:
    """Warn of the line that called graphwire, however deep below it the reason is found."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _INNER:
        frame = frame.f_back
    held = frame.f_globals
    where = frame.f_code.co_filename, frame.f_lineno, held.get("__name__")
    warnings.warn_explicit(text, kind, *where, held.setdefault("__warningregistry__", {}))


def escaped(text: str) -> str:
    """Return `text` with every unprintable character as an escape, such as `\\x1b`."""
    if text.isprintable():
        return text
    return "".join(
        part if part.isprintable() else part.encode("unicode_escape").decode("ascii") for part in text
    )


def shortened(text: str) -> str:
    """Return `text`, truncated if it is too long for a message."""
    more = len(text) - _MOST_TOLD
    return text if more <= 0 else f"{text[:_MOST_TOLD]}… ({more:,} characters more)"


def count_text(number: int, noun: str) -> str:
    """Return a number and a noun, such as `1 file` or `2 files`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def dict_of_pairs(pairs: Sequence[tuple[Any, Any]], twice: Callable[[Any], Exception]) -> dict[Any, Any]:
    """Return the dict of an object that a parser gives as pairs.

    Raises:
        Exception: what `twice` makes of a key that occurs twice.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[Any] = set()
        raise twice(next(key for key, _ in pairs if key in seen or seen.add(key)))  # type: ignore[func-returns-value]
    return found


def message_text(text: str) -> str:
    """Return `text` as messages contain it: on one line, escaped and truncated."""
    return escaped(shortened(text).replace("\n", " "))


class GraphwireError(Exception):
    """The base class of all errors that graphwire raises.

    Args:
        problem: what is wrong, one sentence without a full stop.
        place: where, as a path such as `graph.nodes[7].inputs[1]`; empty if unknown.
        remedy: what to do next; empty if nothing helps.
    """

    def __init__(self, problem: str, *, place: str = "", remedy: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.place = place
        self.remedy = remedy
        self.file = ""
        """The file's path, or a name for another source, such as `the bytes`. The public functions set it."""
        self.record = ""
        """The record of the file that has the problem; empty if the problem is in the file itself or in a bare
        document."""
        self.format = ""
        """The wire format of that record."""
        self.argument = ""
        """The caller's argument that is wrong, such as `target`. The error then names no file: none has to do with it."""

    def about(self, argument: str) -> Self:
        """Set the caller's argument that is wrong, and return this error."""
        self.argument = argument
        return self

    def within(self, place: str) -> GraphwireError:
        """Prepend `place` to this error's place as the error propagates, and return the error."""
        joint = "" if not self.place or self.place.startswith("[") else "."
        self.place = f"{place}{joint}{self.place}"
        return self

    def of(self, file: str = "", record: str = "", format: str = "") -> GraphwireError:
        """Set the file, record and format of this error unless they are set already, and return the error."""
        if self.argument:
            return self
        if not self.file:
            self.file = file
            if self.place == file:
                self.place = ""
        # An error of the archive itself names its record in `place`, if it concerns one.
        if not (self.record or self.format or isinstance(self, ArchiveError)):
            self.record, self.format = record, format
        return self

    @property
    def source(self) -> str:
        """File, record and format, as a message shows them."""
        record = f"record {self.record!r}" if self.record else ""
        names = ": ".join(filter(None, (self.file, record)))
        return f"{names} ({self.format})" if self.format else names

    def __str__(self) -> str:
        place = "" if self.record and self.place == f"record {self.record!r}" else self.place
        parts = [message_text(part) for part in (self.source, place, self.problem) if part]
        what_next = f". {message_text(self.remedy)}" if self.remedy else ""
        return f"{': '.join(parts)}{what_next}"


class Place(str):
    """The place of a foreign exception, attached to it as a note."""

    __slots__ = ()


def locate(error: Exception, place: str) -> None:
    """Prepend `place` to an error's place as the error propagates.

    A GraphwireError stores the place. Any other exception carries it as a note until a public function converts it.
    """
    if isinstance(error, GraphwireError):
        error.within(place)
    else:
        BaseException.add_note(error, Place(place))


class located:  # noqa: N801 # a function with a generator would take three times as long
    """A context that prepends a place to the place of an error.

    Args:
        place: returns the place. It is called after an error, so it may name the current item of a loop inside the block.
    """

    __slots__ = ("_place",)

    def __init__(self, place: Callable[[], str]) -> None:
        self._place = place

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception):
            with Ignored(Exception):  # an interrupt may come before the loop has its first item
                locate(error, self._place())


def exception_text(error: BaseException) -> str:
    """Return an exception's type and message, even if its `__str__` raises."""
    try:
        text = str(error)
    except unless_interrupted(BaseException):  # foreign code
        text = ""
    kind = type(error).__name__
    return f"{kind}: {text}" if text else kind


_TOLD_WHOLE = (bool, float, complex, str, bytes, type(None), type, FunctionType, BuiltinFunctionType)
"""Types whose `repr` is always safe, whatever the value's size: it runs no foreign code and visits no parts."""


def shown(value: object) -> str:
    """Return a caller's value as messages show it: its `repr` if that is safe and fast, else only its type."""
    if type(value) in _TOLD_WHOLE or (type(value) is int and value.bit_length() < 1 << 10):
        return f"{value!r:.80}"
    kind = type(value)
    return (
        f"a value of type {kind.__module__}.{kind.__qualname__}"
        if kind.__module__ != "builtins"
        else f"a value of type {kind.__name__}"
    )


class _OfCaller(str):
    """A note on an exception that the caller's own object raised."""

    __slots__ = ()


def note_caller(error: BaseException) -> None:
    """Mark an exception as raised by the caller's own code, such as a file object, so that it is not converted."""
    BaseException.add_note(error, _OfCaller("raised by an object passed to graphwire"))


def raised_by_signal(error: BaseException | None) -> BaseException | None:
    """Return what the handler of a signal raised, the error or one of its causes: it runs between any two steps of other code,
    which may take it for a failure of its own."""
    import _signal  # type: ignore[import-not-found]  # `signal` makes an enumeration's member of each handler, which takes ten times as long

    handlers = filter(callable, map(_signal.getsignal, range(1, _signal.NSIG)))
    codes = {_code_of(each) for each in handlers}
    for each in causes_of(error):
        trace = each.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code in codes:
                return each
            trace = trace.tb_next
    return None


def causes_of(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes. fsspec keeps an error and raises it again, so causes may go round."""
    seen = set[int]()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__


def _code_of(function: Any) -> Any:
    while isinstance(function, partial):
        function = function.func
    return getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)


E = TypeVar("E", bound=BaseException)


def unless_interrupted(*kinds: type[E]) -> tuple[type[E], ...]:
    """Return what an `except` catches that converts an error or goes on: these kinds, but nothing while an interrupt, or what the
    handler of a signal raised, passes."""
    error = sys.exception()
    return () if isinstance(error, KeyboardInterrupt) or raised_by_signal(error) is not None else kinds


class Ignored(suppress):
    """A context that ends with an error of these kinds as if there were none, but lets pass what `unless_interrupted` does."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return (
            error is not None
            and bool(unless_interrupted(BaseException))
            and super().__exit__(kind, error, trace)
        )


def is_of_caller(error: BaseException) -> bool:
    """Whether an exception has nothing to do with the document.

    True if the caller's code raised it, the handler of a signal included, if memory ran out, or if the caller turned a warning
    into an error.
    """
    if isinstance(error, Warning):
        text = exception_text(error).partition(": ")[2]
        matching = (
            action
            for action, message, category, *_ in warnings.filters
            if isinstance(error, category) and (message is None or re.match(message, text))
        )
        return next(matching, "") == "error"
    return (
        isinstance(error, MemoryError)
        or any(isinstance(note, _OfCaller) for note in getattr(error, "__notes__", ()))
        or raised_by_signal(error) is not None
    )


class EncodeError(GraphwireError):
    """A program contains something that the schema cannot represent."""


class Obstacle(NamedTuple):
    """One thing in a program that an older version cannot represent."""

    place: str
    """Path from the document's root, such as `graph_module.graph.nodes[7].inputs[1].arg`."""
    node: str
    """The name or target of the node that it belongs to; empty if it belongs to none."""
    construct: str
    """The unsupported construct, such as `a list of lists of floats`."""
    first: str
    """The first target that supports it, such as `torch-2.12`; `graphwire` if no release of torch does."""

    def __str__(self) -> str:
        owner = f" (node {self.node})" if self.node else ""
        return f"{message_text(self.place + owner)}: {message_text(self.construct)} [{self.first}]"


class TargetError(EncodeError):
    """An older version cannot represent a program; `obstacles` lists every reason, not just the first."""

    def __init__(self, target: str, obstacles: Sequence[Obstacle]) -> None:
        self.target = target
        self.obstacles = tuple(obstacles)
        count = len(self.obstacles)
        things = "one thing" if count == 1 else f"{count} things"
        super().__init__(
            f"{things} in the program that {target} cannot express",
            remedy="The first target that can is in brackets:",
        )

    def __str__(self) -> str:
        return "\n  ".join([super().__str__(), *map(str, self.obstacles)])


class Problem(NamedTuple):
    """One thing wrong with a document."""

    place: str
    """Path from the document's root, such as `graph_module.graph.nodes[7]`."""
    kind: str
    """A stable identifier of the broken rule, such as `dangling-reference`."""
    message: str
    """What is wrong there, one sentence without a full stop; after it, what to do, if an error says that."""

    def __str__(self) -> str:
        return f"{message_text(self.place)}: {message_text(self.message)} [{self.kind}]"


class _ProblemsError(GraphwireError):
    """An error that lists every problem, one per line."""

    def __init__(
        self, problem: str, *, problems: Sequence[Problem] = (), place: str = "", remedy: str = ""
    ) -> None:
        super().__init__(problem, place=place, remedy=remedy)
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return "\n  ".join([super().__str__(), *map(str, self.problems)])


UNRECOGNIZED = "unrecognized"
"""The kind of the problem of a file that has nothing to verify: it is neither an archive nor a document of a known schema."""


def problems_of(error: GraphwireError, kind: str) -> list[Problem]:
    """Return the problems that an error lists, or the error itself as a problem of a kind. The last one also says what to do."""
    if isinstance(error, _ProblemsError) and error.problems:
        before = f"{error.place}: " if error.place else ""
        problems = [each._replace(place=f"{before}{each.place}") for each in error.problems]
    else:
        problems = [Problem(error.place or "archive", kind, error.problem)]
    if error.remedy:
        problems[-1] = problems[-1]._replace(message=f"{problems[-1].message}. {error.remedy}")
    return problems


class InputError(GraphwireError, ValueError):
    """The arguments of a call do not fit the program; the message names the input and what it must be."""


class DecodeError(GraphwireError):
    """Records cannot become a program on this installation."""


class UnknownOperatorError(_ProblemsError, DecodeError):
    """No handler on this installation resolves an operator; `problems` names each such operator."""


class UnknownTypeError(DecodeError):
    """A container type is not registered on this installation."""


class SchemaError(GraphwireError):
    """A document is not a program of a supported schema."""


class ValidationError(_ProblemsError, SchemaError):
    """A document breaks rules of the schema; `problems` lists all of them, not just the first."""

    def __init__(self, problems: Sequence[Problem], *, place: str = "", remedy: str = "") -> None:
        head = f"{count_text(len(problems), 'problem')} in the program"
        super().__init__(head, problems=problems, place=place, remedy=remedy)


class WeightsError(_ProblemsError):
    """Weights outside of a program's file are missing, changed, or do not fit; `problems` lists all of them."""

    def __init__(self, problems: Sequence[Problem], *, place: str = "", remedy: str = "") -> None:
        head = f"{count_text(len(problems), 'problem')} with the weights"
        super().__init__(head, problems=problems, place=place, remedy=remedy)


class UnsupportedFeatureError(SchemaError):
    """The document requires a feature that this version does not know."""


class SchemaVersionError(SchemaError):
    """The document has a schema version that this version does not support."""


class ExpressionError(GraphwireError):
    """A text is not a valid symbolic expression or guard."""


class FormatError(GraphwireError):
    """Bytes are not a valid document of their wire format, or a wire format cannot represent a tree."""


class UnknownFormatError(FormatError):
    """No installed plugin provides a wire format."""


class ArchiveError(GraphwireError):
    """A file is not an archive, or is damaged."""


class NotAnArchiveError(ArchiveError):
    """A file is neither an archive nor a document: it is of another kind, or empty."""


class MissingRecordError(ArchiveError):
    """The archive lacks a record that the program needs."""


class ChecksumError(ArchiveError):
    """A record's bytes differ from those that were written."""


class RemoteError(GraphwireError):
    """A file at a URL cannot be read or written: the server, the network or a file system fails, or is not installed."""


class LimitError(GraphwireError):
    """A size, depth or count exceeds the limits."""


class OpsetError(_ProblemsError):
    """Operators cannot be converted to another version of their namespace; `problems` lists every reason with its
    place."""


class TorchReleaseError(GraphwireError):
    """torch is not installed, or older than the oldest supported release."""


class PluginError(GraphwireError):
    """A plugin cannot be used."""


class PluginConflictError(PluginError):
    """Two plugins register one name."""


class MissingPluginError(_ProblemsError, PluginError):
    """The file needs plugins that are not installed; `problems` lists each with its purpose and place."""


class MissingFormatError(MissingPluginError, UnknownFormatError):
    """The file is in a wire format that no installed plugin provides; `problems` lists every plugin that it needs."""
