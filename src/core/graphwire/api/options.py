"""What functions for users share: checks of their arguments, their decorator, and typed options of `save`, `load` and `open`.

`save`, `load` and `open` have their options as keyword parameters and document them. A function that passes options on takes
the mapping: `def dumps(program, **options: Unpack[SaveOptions])`.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeAlias, TypedDict, TypeVar

from graphwire.analysis.load_report import STRIPPABLE, Strippable
from graphwire.api.error_boundary import Boundary, source_name
from graphwire.api.weights import LoadWeights
from graphwire.errors import (
    ArchiveError,
    DecodeError,
    EncodeError,
    GraphwireError,
    Ignored,
    SchemaError,
    TorchReleaseError,
)
from graphwire.process import LOG
from graphwire.registry.registry import Registry, registry_or_installed
from graphwire.schema import Program
from graphwire.wire.archive.source import RemoteFile, type_text
from graphwire.wire.limits import Limits

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram


# -------------------------------------------------------- checks of arguments that callers pass to the public functions


StorageOptions: TypeAlias = "Mapping[str, Any] | None"
"""The options of the file system of a URL."""


def check_storage_options(options: Any) -> None:
    """Check that a value is a mapping of options.

    Raises:
        DecodeError: it is not.
    """
    if options is not None:
        remedy = 'Such as storage_options={"anon": True}'
        check_kind("storage_options", options, Mapping, DecodeError, remedy)


def check_choice(
    option: str, value: Any, choices: tuple[str | None, ...], error: type[GraphwireError] = DecodeError
) -> None:
    """Check that the value of an option is one of its choices.

    Raises:
        GraphwireError: of the class `error`; it is not.
    """
    if value not in choices:
        raise error(f"{option}={value!r:.80} is not one of {', '.join(map(repr, choices))}").about(option)


def check_strip(kinds: Any) -> frozenset[Strippable]:
    """Return what the option `strip` of `save` and `convert` drops.

    Raises:
        EncodeError: it names something else.
    """
    if isinstance(kinds, bool):
        return frozenset(STRIPPABLE if kinds else ())
    remedy = f"Such as strip=True, or strip={list(STRIPPABLE[:2])!r}"
    if isinstance(kinds, str):
        raise EncodeError("strip= takes True, False or a list of names, not text", remedy=remedy)
    check_kind("strip", kinds, Collection, EncodeError, remedy)
    for kind in kinds:
        check_choice("strip", kind, STRIPPABLE, EncodeError)
    return frozenset(kinds)


def check_kind(option: str, value: Any, kind: type, error: type[GraphwireError], remedy: str) -> None:
    """Check that the value of an option is an instance of a class.

    Raises:
        GraphwireError: of the class `error`; it is not.
    """
    if not isinstance(value, kind):
        raise error(f"{option}= takes {kind.__name__}, not {type_text(value)}", remedy=remedy)


def check_report(report: Any, error: type[GraphwireError]) -> None:
    """Check that `report=` is a function or None.

    Raises:
        GraphwireError: of the class `error`; it is not.
    """
    if report is not None and not callable(report):
        raise error(
            f"report= is {type_text(report)}", remedy="Pass a function, which is called with the report"
        ).about("report")


def check_limits(limits: Any) -> None:
    """Check that a value is a `Limits`.

    Raises:
        DecodeError: it is not.
    """
    remedy = "graphwire.Limits(program_bytes=…) changes single limits"
    check_kind("limits", limits, Limits, DecodeError, remedy)


def programs_by_name(program: Any, name: str) -> dict[str, ExportedProgram]:
    """Return the programs to save, by name.

    Args:
        program: one program, or a mapping of names to programs.
        name: the name of a single program.

    Raises:
        EncodeError: the mapping is empty, a value is not an exported program, or a name is not a string.
    """
    from graphwire.bridge.program import check_is_exported_program

    if not isinstance(program, Mapping):
        check_is_exported_program(program)
        return {name: program}
    if not program:
        raise EncodeError("there is no program to save")
    for key, each in program.items():
        if not isinstance(key, str):
            raise EncodeError(f"the name of a program is a string, not {key!r:.80}")
        check_is_exported_program(each, f"program {key!r:.80}")
    return dict(program)


def bytes_of_extra_files(files: Mapping[str, bytes | str] | None) -> dict[str, bytes]:
    """Return the bytes of the extra files to write; text is encoded as UTF-8.

    Raises:
        EncodeError: the value is not a mapping, or a file is neither bytes nor text.
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
            remedy = "Pass bytes"
            raise EncodeError(
                f"an extra file is a text that UTF-8 cannot encode: {error.reason}",
                place=place,
                remedy=remedy,
            ) from None
    if not isinstance(data, (bytes, bytearray, memoryview)):
        remedy = "Read a file in binary mode"
        raise EncodeError(
            f"an extra file is bytes or text, not {type(data).__name__}", place=place, remedy=remedy
        )
    return data  # type: ignore[return-value]


def check_extra_files_dict(files: Any) -> None:
    """Check that a value can be filled with extra files.

    Raises:
        DecodeError: it is not a mutable mapping.
    """
    if files is not None:
        remedy = "Such as found = {}; load(…, extra_files=found)"
        check_kind("extra_files", files, MutableMapping, DecodeError, remedy)


def fill_extra_files(given: MutableMapping[str, Any], files: Mapping[str, bytes]) -> None:
    """Fill a caller's dict with extra files: as text, or as bytes if a file is not UTF-8 or its present value is bytes."""
    for path, data in files.items():
        try:
            given[path] = data if isinstance(given.get(path), (bytes, bytearray)) else data.decode()
        except UnicodeDecodeError:
            given[path] = data


def group_names(groups: Any) -> dict[str, str]:
    """Return the names of the process groups to use, by the names in the program.

    Raises:
        DecodeError: the value is not a mapping of names to names or process groups.
    """
    remedy = 'Such as groups={"0": mesh.get_group("tp")}'
    if groups is not None:
        check_kind("groups", groups, Mapping, DecodeError, remedy)
    names = {}
    for key, group in (groups or {}).items():
        name = group if isinstance(group, str) else getattr(group, "group_name", None)
        if not isinstance(key, str) or not isinstance(name, str):
            wrong = key if not isinstance(key, str) else group
            raise DecodeError(
                f"groups= maps names to process groups or their names; {type_text(wrong)} is neither",
                place=f"groups[{key!r:.80}]",
                remedy=remedy,
            )
        names[key] = name
    return names


def is_same_file(one: Any, other: Any) -> bool:
    """Return whether two paths, by whatever links, or two URLs are one file that exists. A file object is none."""
    if isinstance(one, (str, os.PathLike)) and isinstance(other, (str, os.PathLike)):
        from pathlib import Path  # here: reading needs none of it, and its import takes long

        return Path(one).exists() and Path(other).exists() and Path(one).samefile(other)
    return isinstance(one, RemoteFile) and one == other


def check_replaces_none(output: Any, read: Iterable[Any]) -> None:
    """Check that writing a file replaces none of others, nor anything in a folder of them.

    Raises:
        ArchiveError: it does.
    """
    from pathlib import Path

    for each in read:
        is_folder = isinstance(each, (str, os.PathLike)) and Path(each).is_dir()
        if is_same_file(each, output) or (
            is_folder
            and isinstance(output, (str, os.PathLike))
            and Path(output).exists()
            and Path(each).resolve() in Path(output).resolve().parents
        ):
            raise ArchiveError(
                f"this file is read ({Path(str(each)).name}), and would be replaced",
                remedy="Write to another file",
            ).of(str(output))


def check_records(program: Any) -> None:
    """Check that a value is a program of schema records.

    Raises:
        SchemaError: it is not.
    """
    if not isinstance(program, Program):
        raise SchemaError(
            f"{type_text(program)} is not a program of schema records",
            remedy="graphwire.to_schema converts an exported program to records; graphwire.open reads them from a file",
        )


Containers: TypeAlias = Literal["named", "plain"]
Ranges: TypeAlias = Literal["exact", "narrowed"]
Names: TypeAlias = Literal["exact", "renamed"]
Groups: TypeAlias = "Mapping[str, str | torch.distributed.ProcessGroup]"


class FileOptions(TypedDict, total=False):
    """The options of whatever reads a file."""

    registry: Registry | None
    limits: Limits
    rank: int | None
    storage_options: StorageOptions
    cache: str | os.PathLike[str] | None


class OpenOptions(FileOptions, total=False):
    """The options of `open`."""

    weights_from: LoadWeights


_PLAIN = {"str": str, "int": int, "bool": bool, "bytes": bytes, "None": type(None)}


@functools.cache
def _plain_parameters(function: Callable[..., object]) -> dict[str, tuple[type, ...]]:
    """Return the types of each parameter that takes plain values only."""
    parameters = inspect.signature(function).parameters.items()
    types = {name: str(each.annotation).split(" | ") for name, each in parameters}
    return {
        name: tuple(_PLAIN[each] for each in parts) if all(each in _PLAIN for each in parts) else ()
        for name, parts in types.items()
    }


def check_types(
    function: Callable[..., object],
    args: Sequence[object],
    options: Mapping[str, object],
    error: type[GraphwireError],
    *,
    only: type = object,
) -> None:
    """Check that arguments have the plain types that a function declares: a wrong call is no fault of a file.

    Args:
        only: the only type to check.

    Raises:
        GraphwireError: of the class `error`; one has not.
    """
    declared = _plain_parameters(function)
    for name, value in (*zip(declared, args, strict=False), *options.items()):
        kinds = declared.get(name, ())
        if type(value) in kinds or not kinds or not issubclass(kinds[0], only):
            continue
        # What has a truth value of its own, such as NumPy's, is as good as a bool.
        wrong = (
            isinstance(value, (str, bytes, Collection)) if kinds == (bool,) else not isinstance(value, kinds)
        )
        if wrong:
            wanted = " or ".join(each.__name__ for each in kinds).replace("NoneType", "None")
            raise error(f"{name}= is {type_text(value)}", remedy=f"Pass {wanted}").about(name)


P = ParamSpec("P")
R = TypeVar("R")


def public_function(
    *files: str, errors: type[GraphwireError] = DecodeError
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Give the decorated function what every function for users has: a wrong option gets a hint, errors name the file, the time
    is logged.

    Args:
        files: the names of the parameters that take a file, or a program in another form.
        errors: the class that foreign exceptions become (see `error_boundary`).
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def public(*args: P.args, **kwargs: P.kwargs) -> R:
            start = time.perf_counter()
            try:
                check_types(function, args, kwargs, errors, only=bool)
                with _plain_torch():
                    result = function(*args, **kwargs)
            except Exception as error:
                signature = inspect.signature(function)
                if unknown := kwargs.keys() - signature.parameters.keys():
                    raise _unknown_option(function.__name__, min(unknown), signature.parameters) from error
                if error.__traceback__ is None or error.__traceback__.tb_next is None:
                    raise  # The call itself failed: its arguments do not fit the signature.
                given = signature.bind_partial(*args, **kwargs).arguments
                with Boundary(_named(files, given), _registry(given), error=errors):
                    raise
            if LOG.is_on():
                given = inspect.signature(function).bind_partial(*args, **kwargs).arguments
                done = ": ".join(filter(None, (function.__name__, _named(files or ("file",), given))))
                LOG.info("%s, %.3f s", done, time.perf_counter() - start)
            return result

        vars(public).update(_UNTRACED)
        return public

    return decorate


_UNTRACED = {
    "_torchdynamo_disable": True,
    "_torchdynamo_disable_msg": "graphwire reads and writes files: call it outside of what torch.compile makes one graph of",
}
"""What torch's compiler reads of a function that it must not trace, as `torch.compiler.disable` writes it."""


@contextmanager
def _plain_torch() -> Iterator[None]:
    """A context in which no mode of torch is on and torch's compiler traces nothing, if they are in use.

    The modes are set aside before anything of the bridge is imported, for what a mode answers would stay in its constants.
    This is a generator because torch's compiler, where it is on, would compile a function that is called before it is off.
    """
    aside: AbstractContextManager[None] = nullcontext()
    traced: AbstractContextManager[None] = nullcontext()
    if "torch" in sys.modules:
        with Ignored(TorchReleaseError):  # what needs no torch runs beside any
            from graphwire.bridge.torch_compat.modes import modes_set_aside

            aside = modes_set_aside()
    with aside:
        if "torch._dynamo" in sys.modules:
            from graphwire.bridge.torch_compat.private import without_tracing

            traced = without_tracing()
        with traced:
            yield


def _named(files: tuple[str, ...], given: dict[str, Any]) -> str:
    return " and ".join(filter(None, (source_name(given[each]) for each in files if each in given)))


def _registry(given: dict[str, Any]) -> Registry | None:
    with Ignored(Exception):  # `registry=` may be the wrong argument.
        return registry_or_installed(given.get("registry"))
    return None


def _unknown_option(function: str, name: str, options: Iterable[str]) -> TypeError:
    """Return the error of an argument that a function lacks, with what to use in its place."""
    from difflib import get_close_matches  # only mistakes need it

    near = get_close_matches(name, options, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; it takes {', '.join(options)}"
    hint = f"; {_OF_TORCH[name]}" if name in _OF_TORCH else hint
    return TypeError(f"{function}() got an unexpected keyword argument {name!r}{hint}")


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


F = TypeVar("F", bound=Callable[..., object])


def options_of(documented: Callable[..., object]) -> Callable[[F], F]:
    """Make `help` show the `**options` of the decorated function, which reads or writes files, as keyword parameters.

    Args:
        documented: the function that has these keyword parameters.
    """
    options = [
        each for each in inspect.signature(documented).parameters.values() if each.kind is each.KEYWORD_ONLY
    ]

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        vars(function).update(_UNTRACED, __signature__=signature.replace(parameters=[*own, *options]))
        return function

    return decorate
