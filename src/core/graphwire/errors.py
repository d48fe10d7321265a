"""Every error that graphwire raises on purpose.

    GraphwireError
    ├── EncodeError                  a program holds something that the schema cannot say
    │   └── TargetError              …or that the older version asked for cannot; every obstacle in `.obstacles`
    ├── DecodeError                  records cannot become a program on this installation
    │   ├── UnknownOperatorError     an operator that no handler on this installation resolves
    │   └── UnknownTypeError         a container type that nobody registered here
    ├── SchemaError                  a document is not a program of a schema that we read
    │   ├── ValidationError          …with every problem and its place in `.problems`
    │   ├── UnsupportedFeatureError  the document requires a feature that this version does not know
    │   └── SchemaVersionError       the document's schema version is not one we read
    ├── ExpressionError              text that is no symbolic expression or guard of our grammar
    ├── FormatError                  bytes that are not a document of their wire format, or the reverse
    │   └── UnknownFormatError       a wire format that no installed plugin provides
    ├── ArchiveError                 a file that is no archive, or a damaged one
    │   ├── MissingRecordError       the archive lacks a record that the program needs
    │   └── ChecksumError            a record's bytes are not the ones that were written
    ├── LimitError                   a size, depth or count beyond the limits in force
    ├── OpsetError                   operators cannot be brought to another version of theirs; `.problems` says which
    ├── TorchReleaseError            the installed torch is older than graphwire runs on
    └── PluginError                  a plugin that cannot be used
        ├── PluginConflictError      two plugins claim one name
        └── MissingPluginError       the file needs a plugin that is not installed

A message says in which `file`, `record` and `format`, where (`place`), what is wrong, and what to do next (`remedy`).

What is told may come from a file that nobody vouches for: no character that controls a terminal gets into a message, and
each part of it has a bound. The attributes hold the texts as they are.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from types import BuiltinFunctionType, FunctionType
from typing import NamedTuple

__all__ = [
    "ArchiveError",
    "ChecksumError",
    "DecodeError",
    "EncodeError",
    "ExpressionError",
    "FormatError",
    "GraphwireError",
    "GraphwireWarning",
    "LimitError",
    "MissingPluginError",
    "MissingRecordError",
    "Obstacle",
    "PluginConflictError",
    "PluginError",
    "Problem",
    "SchemaError",
    "SchemaVersionError",
    "TargetError",
    "TorchReleaseError",
    "UnknownFormatError",
    "UnknownOperatorError",
    "UnknownTypeError",
    "UnsupportedFeatureError",
    "ValidationError",
]

_MOST_TOLD = 2_000
"""Characters of one part of a message. Names in a file may be as long as the file."""


class GraphwireWarning(UserWarning):
    """Something that a program had and that is left out, without harm to what the program computes; or weights that are
    kept, and are not what the graph says of them."""


def escaped(text: str) -> str:
    """`text` with every character that does not print written as an escape, such as `\\x1b`."""
    if text.isprintable():
        return text
    return "".join(
        part if part.isprintable() else part.encode("unicode_escape").decode("ascii") for part in text
    )


def shortened(text: str) -> str:
    """`text`, cut where it is longer than any name that helps a reader."""
    more = len(text) - _MOST_TOLD
    return text if more <= 0 else f"{text[:_MOST_TOLD]}… ({more:,} characters more)"


def message_text(text: str) -> str:
    """`text` as a message has it: on one line, without control characters, and cut where it is long."""
    return escaped(shortened(text).replace("\n", " "))


class GraphwireError(Exception):
    """The root of the tree.

    Args:
        problem: what is wrong, one sentence without a full stop.
        place: where, as a path such as `graph.nodes[7].inputs[1]`; empty when unknown.
        remedy: what to do next; empty when there is nothing to do.
    """

    def __init__(self, problem: str, *, place: str = "", remedy: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.place = place
        self.remedy = remedy
        self.file = ""
        """The file's path, or what it was read from, such as `the bytes`; empty until the error leaves the API."""
        self.record = ""
        """The record of the file whose content is at fault; empty where it is the file, or a bare document."""
        self.format = ""
        """The wire format of that record."""

    def within(self, place: str) -> GraphwireError:
        """Put `place` in front of this error's place (on its way up), and return the error."""
        joint = "" if not self.place or self.place.startswith("[") else "."
        self.place = f"{place}{joint}{self.place}"
        return self

    def of(self, file: str = "", record: str = "", format: str = "") -> GraphwireError:
        """Say which file, record and format this error is of, where it does not say so yet, and return the error."""
        if not self.file:
            self.file = file
            if self.place == file:
                self.place = ""
        # An error of the archive itself is of the record that its place names, if of any.
        if not (self.record or self.format or isinstance(self, ArchiveError)):
            self.record, self.format = record, format
        return self

    @property
    def source(self) -> str:
        """File, record and format as a message has them."""
        record = f"record {self.record!r}" if self.record else ""
        names = ": ".join(filter(None, (self.file, record)))
        return f"{names} ({self.format})" if self.format else names

    def __str__(self) -> str:
        parts = [message_text(part) for part in (self.source, self.place, self.problem) if part]
        what_next = f". {message_text(self.remedy)}" if self.remedy else ""
        return f"{': '.join(parts)}{what_next}"


class Place(str):
    """Where an error that is none of ours happened, as a note on it."""

    __slots__ = ()


def locate(error: Exception, place: str) -> None:
    """Put `place` in front of where an error happened, on its way up: ours keeps it, any other has it as a note until the
    boundary of the API makes one of ours of it."""
    if isinstance(error, GraphwireError):
        error.within(place)
    else:
        BaseException.add_note(error, Place(place))


def exception_text(error: BaseException) -> str:
    """The type and the message of an exception, whatever its class does when it is asked for that."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 a stranger's class
        text = ""
    kind = type(error).__name__
    return f"{kind}: {text}" if text else kind


_TOLD_WHOLE = (bool, float, complex, str, bytes, type(None), type, FunctionType, BuiltinFunctionType)
"""Types whose values `repr` tells, of whatever size: none runs a stranger's code, and none has parts."""


def shown(value: object) -> str:
    """A value of the caller's as a message has it. Of one whose `repr` may fail, or may take forever, that is its type."""
    if type(value) in _TOLD_WHOLE or (type(value) is int and value.bit_length() < 1 << 10):
        return f"{value!r:.80}"
    kind = type(value)
    return (
        f"a value of type {kind.__module__}.{kind.__qualname__}"
        if kind.__module__ != "builtins"
        else f"a value of type {kind.__name__}"
    )


class _OfCaller(str):
    """A note on what the caller's own object raises."""

    __slots__ = ()


def note_caller(error: BaseException) -> None:
    """Note that the caller's own code raises this, such as a file object's: it is left as it is."""
    BaseException.add_note(error, _OfCaller("raised by what graphwire was given"))


def is_of_caller(error: BaseException) -> bool:
    """Whether an exception is no matter of a document: the caller's code raises it, memory is short, or the caller made a
    warning an error."""
    if isinstance(error, Warning):
        text = exception_text(error).partition(": ")[2]
        matching = (
            action
            for action, message, category, *_ in warnings.filters
            if isinstance(error, category) and (message is None or re.match(message, text))
        )
        return next(matching, "") == "error"
    return isinstance(error, MemoryError) or any(
        isinstance(note, _OfCaller) for note in getattr(error, "__notes__", ())
    )


class EncodeError(GraphwireError):
    """A program holds something that the schema cannot say."""


class Obstacle(NamedTuple):
    """One thing in a program that an older version cannot say."""

    place: str
    """Path from the document's root, such as `graph_module.graph.nodes[7].inputs[1].arg`."""
    node: str
    """The node it belongs to, by its name or target; empty where it belongs to none."""
    construct: str
    """What cannot be said, such as `a list of lists of floats`."""
    first: str
    """The first target that can say it, such as `torch-2.12`; `graphwire` where no release of torch can."""

    def __str__(self) -> str:
        owner = f" (node {self.node})" if self.node else ""
        return f"{message_text(self.place + owner)}: {message_text(self.construct)} [{self.first}]"


class TargetError(EncodeError):
    """An older version cannot say a program; `obstacles` holds everything that stands in the way, not just the first."""

    def __init__(self, target: str, obstacles: Sequence[Obstacle]) -> None:
        self.target = target
        self.obstacles = tuple(obstacles)
        count = len(self.obstacles)
        things = "one thing" if count == 1 else f"{count} things"
        super().__init__(
            f"{things} in the program that {target} cannot express",
            remedy="Each with the first target that can in brackets:",
        )

    def __str__(self) -> str:
        return "\n  ".join([super().__str__(), *map(str, self.obstacles)])


class Problem(NamedTuple):
    """One thing wrong with a document."""

    place: str
    """Path from the document's root, such as `graph_module.graph.nodes[7]`."""
    kind: str
    """A stable word for the rule that was broken, such as `dangling-reference`."""
    message: str
    """What is wrong there, one sentence without a full stop."""

    def __str__(self) -> str:
        return f"{message_text(self.place)}: {message_text(self.message)} [{self.kind}]"


class _ProblemsError(GraphwireError):
    """An error that lists every problem, a line each."""

    def __init__(
        self, problem: str, *, problems: Sequence[Problem] = (), place: str = "", remedy: str = ""
    ) -> None:
        super().__init__(problem, place=place, remedy=remedy)
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return "\n  ".join([super().__str__(), *map(str, self.problems)])


class DecodeError(GraphwireError):
    """Records cannot become a program on this installation."""


class UnknownOperatorError(_ProblemsError, DecodeError):
    """An operator that no handler on this installation resolves; where there are several, `problems` names each."""


class UnknownTypeError(DecodeError):
    """A container type that nobody registered on this installation."""


class SchemaError(GraphwireError):
    """A document is not a program of a schema that we read."""


class ValidationError(_ProblemsError, SchemaError):
    """A document breaks rules of the schema; `problems` holds all of them, not just the first."""

    def __init__(self, problems: Sequence[Problem], *, place: str = "", remedy: str = "") -> None:
        count = len(problems)
        head = f"{count} problem{'s' if count != 1 else ''} in the program"
        super().__init__(head, problems=problems, place=place, remedy=remedy)


class UnsupportedFeatureError(SchemaError):
    """The document requires a feature that this version does not know."""


class SchemaVersionError(SchemaError):
    """The document's schema version is not one that this version reads."""


class ExpressionError(GraphwireError):
    """Text that is no symbolic expression or guard of our grammar."""


class FormatError(GraphwireError):
    """Bytes that are not a document of their wire format, or a tree that the format cannot say."""


class UnknownFormatError(FormatError):
    """A wire format that no installed plugin provides."""


class ArchiveError(GraphwireError):
    """A file that is no archive, or a damaged one."""


class MissingRecordError(ArchiveError):
    """The archive lacks a record that the program needs."""


class ChecksumError(ArchiveError):
    """A record's bytes are not the ones that were written."""


class LimitError(GraphwireError):
    """A size, depth or count beyond the limits in force."""


class OpsetError(_ProblemsError):
    """Operators cannot be brought to another version of their namespace; `problems` holds every reason with its place."""


class TorchReleaseError(GraphwireError):
    """The installed torch is older than the oldest that graphwire runs on."""


class PluginError(GraphwireError):
    """A plugin that cannot be used."""


class PluginConflictError(PluginError):
    """Two plugins claim one name."""


class MissingPluginError(_ProblemsError, PluginError):
    """The file needs plugins that are not installed here; `problems` says which, for what, and where."""
