"""What a caller gives to the public functions, checked before anything is done with it."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from graphwire.errors import DecodeError, EncodeError, GraphwireError, SchemaError
from graphwire.schema import Program
from graphwire.wire import Limits
from graphwire.wire.archive import type_text

if TYPE_CHECKING:
    from torch.export import ExportedProgram


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
    from graphwire.bridge.program import check_exported

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


def bytes_of_extra_files(files: Mapping[str, bytes | str] | None) -> dict[str, bytes]:
    """Extra files to write; text becomes UTF-8.

    Raises:
        EncodeError: they are no mapping, or one is neither bytes nor text.
    """
    if files is not None:
        remedy = 'Such as extra_files={"notes.txt": "text"}'
        check_kind("extra_files", files, Mapping, EncodeError, remedy)
    return {path: _bytes_of(path, data) for path, data in (files or {}).items()}


def _bytes_of(path: str, data: Any) -> bytes:
    place = f"extra_files[{path!r:.80}]"
    if isinstance(data, str):
        try:
            return data.encode()
        except UnicodeEncodeError as error:
            remedy = "Encode it yourself"
            raise EncodeError(
                f"an extra file is a text that is no UTF-8: {error.reason}", place=place, remedy=remedy
            ) from None
    if not isinstance(data, (bytes, bytearray, memoryview)):
        remedy = "Read a file in binary mode"
        raise EncodeError(
            f"an extra file is bytes or text, not {type(data).__name__}", place=place, remedy=remedy
        )
    return data  # type: ignore[return-value]


def check_taken_extra_files(files: Any) -> None:
    """Refuse what cannot be filled with extra files.

    Raises:
        DecodeError: it is no dict.
    """
    if files is not None:
        remedy = "Such as found = {}; load(…, extra_files=found)"
        check_kind("extra_files", files, MutableMapping, DecodeError, remedy)


def fill_extra_files(given: MutableMapping[str, Any], files: Mapping[str, bytes]) -> None:
    """Put extra files into a caller's dict: as text, or as bytes where they are no UTF-8 or bytes stand there already."""
    for path, data in files.items():
        try:
            given[path] = data if isinstance(given.get(path), (bytes, bytearray)) else data.decode()
        except UnicodeDecodeError:
            given[path] = data


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
