"""Options that several commands share: files, output, limits, and where weights are."""

from __future__ import annotations

import argparse
import json
import re
from typing import TYPE_CHECKING, Any

from graphwire.errors import GraphwireError

if TYPE_CHECKING:
    from graphwire.api.options import OpenOptions

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def add_options(parser: argparse.ArgumentParser, *, inherited: bool = False) -> None:
    """Add the options of all commands.

    Args:
        parser: the parser of a command, or of an action of a command.
        inherited: whether the command has them too, so that its values count where the action has none.
    """
    given: dict[str, Any] = {"default": argparse.SUPPRESS} if inherited else {}
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        **{"default": "auto", **given},
        help="when to print colours; auto, the default, also heeds NO_COLOR and FORCE_COLOR",
    )
    parser.add_argument("--quiet", action="store_true", **given, help="print only problems and errors")
    parser.add_argument("--debug", action="store_true", **given, help="show the traceback of an error")


def add_json(parser: argparse._ActionsContainer, help: str = "print JSON instead of text") -> None:
    """Add the option `--json`."""
    parser.add_argument("--json", action="store_true", help=help)


def add_files(parser: argparse.ArgumentParser, *, count: str = "+") -> None:
    """Add the files to read, and the limits for them, and `--json`."""
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs=count,
        help="files, folders (all *.pt2 below them), patterns, URLs, or - for standard input",
    )
    add_limits(parser)
    add_json(parser, "print a JSON object for each file, on a line of its own")


def add_limits(parser: argparse.ArgumentParser) -> None:
    """Add the option `--limit`, and those of files at URLs."""
    parser.add_argument(
        "--limit",
        metavar="NAME=NUMBER",
        dest="limits",
        type=_limit,
        action="append",
        default=[],
        help="a bound on what reading a file may take, such as program_bytes=4G or pickle.values=10M; may be repeated",
    )
    add_storage_options(parser)
    parser.add_argument(
        "--cache", metavar="FOLDER", help="a folder that keeps the weights of files at URLs, by their digests"
    )


def add_storage_options(parser: argparse.ArgumentParser) -> None:
    """Add the option `--storage-options`, which is None if it is not given."""
    parser.add_argument(
        "--storage-options",
        metavar="JSON",
        type=_object,
        help="what the file system of a URL takes, such as '{\"anon\": true}' for s3://",
    )


def add_method(parser: argparse.ArgumentParser) -> None:
    """Add the option `--method`."""
    parser.add_argument("--method", metavar="NAME", help="only this program of files with several")


def add_opset(parser: argparse.ArgumentParser) -> None:
    """Add the option `--opset`: pairs of a namespace and its version, or None if it is not given."""
    parser.add_argument(
        "--opset",
        metavar="NAMESPACE=VERSION",
        type=_opset,
        action="append",
        help="the version to bring a namespace to, instead of the installed one; may be repeated",
    )


def add_selection(parser: argparse.ArgumentParser, what: str = "the weights") -> None:
    """Add the options `--sort` and `--top`, which `inspection.selected` applies.

    Args:
        what: what they sort, for the help.
    """
    parser.add_argument(
        "--sort",
        choices=("size", "name", "dtype"),
        help=f"sort {what} by size, the largest first, or by name or dtype; by default as the program has them",
    )
    parser.add_argument(
        "--top",
        metavar="N",
        type=_count,
        help=f"list only the first N of {what}, by size without --sort, and count the others",
    )


def add_target(parser: argparse.ArgumentParser, help: str, *, dest: str = "target") -> None:
    """Add the option `--target`: the whole name of a reader, or None if it is not given."""
    parser.add_argument("--target", metavar="RELEASE", dest=dest, type=_target, help=help)


def add_weight_source(parser: argparse.ArgumentParser) -> None:
    """Add the options that tell where weights are."""
    parser.add_argument(
        "--weights-from",
        metavar="PATH",
        help="the file or folder of the weights; by default where FILE states",
    )
    parser.add_argument(
        "--rank",
        metavar="N",
        type=int,
        help="the rank whose weights are read, of a program divided between ranks",
    )


def open_options(arguments: argparse.Namespace) -> OpenOptions:
    """Return the options of `graphwire.open` that arguments name."""
    given = vars(arguments)
    names = ("rank", "weights_from", "storage_options", "cache")
    options: Any = {name: given[name] for name in names if given.get(name) is not None}
    if given.get("limits"):
        options["limits"] = _limits(arguments.limits)
    found: OpenOptions = options
    return found


def place_of(text: str | None) -> Any:
    """Return the place that `--weights` names: `in-file`, `none`, `blobs:FOLDER`, `checkpoint:PATH` or a path."""
    import graphwire

    match (text or "").partition(":"):
        case ("", _, _):
            return graphwire.AS_SAVED
        case ("in-file", "", _):
            return graphwire.IN_FILE
        case ("none", "", _):
            return None
        case ("blobs", ":", folder):
            return graphwire.Blobs(folder)
        case ("checkpoint", ":", path):
            return graphwire.Checkpoint(path)
    return text


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"this is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError("this is not a JSON object, such as '{\"anon\": true}'")
    return value


def _opset(text: str) -> tuple[str, int]:
    namespace, _, version = text.partition("=")
    if not namespace or not version.isascii() or not version.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAMESPACE=VERSION, such as aten=9")
    return namespace, int(version)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9 or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r:.80} is not a number of weights, such as 20")
    return int(text)


def _target(text: str) -> str:
    from graphwire.evolve.targets import target_named

    try:
        return target_named(text).name
    except GraphwireError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _limit(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    match = re.fullmatch(r"([0-9]{1,18})([kmgt]?)(?:i?b)?", number.replace("_", "").lower())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=NUMBER, such as program_bytes=4G")
    if name not in (names := _limit_names()):
        raise argparse.ArgumentTypeError(f"there is no limit {name!r}; there are {', '.join(names)}")
    return name, int(match[1]) * _UNITS[match[2]]


def _limit_names() -> list[str]:
    from graphwire.wire.limits import Limits, PickleLimits

    own = [name for name in Limits.__struct_fields__ if name not in ("pickle", "remote")]
    return [*own, *(f"pickle.{name}" for name in PickleLimits.__struct_fields__)]


def _limits(given: list[tuple[str, int]]) -> Any:
    from graphwire.wire.limits import Limits, PickleLimits

    own = {name: number for name, number in given if "." not in name}
    pickle = {name.partition(".")[2]: number for name, number in given if "." in name}
    return Limits(**own, pickle=PickleLimits(**pickle))  # type: ignore[arg-type]
