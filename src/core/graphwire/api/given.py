"""What a caller gives to the public functions, checked before anything is done with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from graphwire.errors import DecodeError, EncodeError, GraphwireError, SchemaError
from graphwire.schema.program import Program
from graphwire.wire.archive_source import type_text
from graphwire.wire.limits import Limits

if TYPE_CHECKING:
    from torch.export import ExportedProgram

__all__ = [
    "check_choice",
    "check_extra_files",
    "check_kind",
    "check_limits",
    "check_records",
    "programs_by_name",
]


def check_choice(
    option: str, value: Any, choices: tuple[str | None, ...], error: type[GraphwireError] = DecodeError
) -> None:
    """Refuse a value of an option that has a few.

    Raises:
        GraphwireError: of the type given; it is none of them.
    """
    if value not in choices:
        raise error(f"{option}={value!r:.80} is none of {', '.join(map(repr, choices))}")


def check_kind(option: str, value: Any, kind: type, error: type[GraphwireError], remedy: str) -> None:
    """Refuse a value of another class than an option takes.

    Raises:
        GraphwireError: of the type given.
    """
    if not isinstance(value, kind):
        raise error(f"{option}= takes {kind.__name__}, not {type_text(value)}", remedy=remedy)


def check_limits(limits: Any) -> None:
    """Refuse what are no `Limits`.

    Raises:
        DecodeError: it is something else.
    """
    remedy = "dataclasses.replace(graphwire.Limits(), …) makes others than the usual"
    check_kind("limits", limits, Limits, DecodeError, remedy)


def programs_by_name(program: Any, name: str) -> dict[str, ExportedProgram]:
    """The programs to save, by name: one, which is called `name`, or several.

    Raises:
        EncodeError: there are none, one is no exported program, or a name is no text.
    """
    from graphwire.bridge.exported import check_exported

    if not isinstance(program, Mapping):
        check_exported(program)
        return {name: program}
    if not program:
        raise EncodeError("there is no program to save")
    for key, each in program.items():
        if not isinstance(key, str):
            raise EncodeError(f"a program's name is a text, not {key!r:.80}")
        check_exported(each, f"program {key!r:.80}")
    return dict(program)


def check_extra_files(files: Mapping[str, bytes] | None) -> None:
    """Refuse extra files that are no bytes.

    Raises:
        EncodeError: one is something else.
    """
    for path, data in (files or {}).items():
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise EncodeError(
                f"an extra file is bytes, not {type(data).__name__}",
                place=f"extra_files[{path!r:.80}]",
                remedy="Encode a text, or read a file in binary mode",
            )


def check_records(program: Any) -> None:
    """Refuse what are no schema records.

    Raises:
        SchemaError: it is something else.
    """
    if not isinstance(program, Program):
        raise SchemaError(
            f"{type_text(program)} is no program of schema records",
            remedy="graphwire.to_schema makes them of an exported program, graphwire.open of a file",
        )
