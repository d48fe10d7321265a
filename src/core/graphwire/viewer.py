"""How does a program become a page for the browser? One HTML file with the program inside, and nothing loaded from elsewhere."""

from __future__ import annotations

import base64
import csv
import difflib
import io
import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from graphwire.analysis.diff.renumbering import Renumbering
from graphwire.errors import EncodeError, dict_of_pairs, warn
from graphwire.registry.interfaces import WireFormat
from graphwire.schema import Program, WeightReferences
from graphwire.wire.archive.atomic_file import ChunkBuffer
from graphwire.wire.archive.reader import raw_deflate
from graphwire.wire.archive.source import read_named
from graphwire.wire.document import write_program
from graphwire.wire.package_writer import write_package
from graphwire.wire.payloads import Document, Payloads

# ------------------------------------------------------------------------------ writes the archive that a page contains
# documents and the tables of their payloads, without elements.


def embedded(
    programs: Mapping[str, tuple[Program, Payloads]],
    json_format: WireFormat,
    references: WeightReferences | None = None,
) -> bytes:
    """Return programs as an archive without elements, deflated as a whole. Reads no payload.

    Args:
        programs: records and payloads, by name.
        json_format: the wire format JSON.
        references: where the weights are that the original file does not contain.
    """
    documents = {
        name: Document(
            write_program(program, json_format),
            json_format.suffix,
            replace(payloads, records={}, examples=None, encoded={}),
        )
        for name, (program, payloads) in programs.items()
    }
    stream = ChunkBuffer()
    write_package(stream, documents, compress=False, references=references)  # type: ignore[arg-type]
    return raw_deflate(b"".join(stream.parts))


# --------------------------------------------------------------------------------------- shows a page inside a notebook


MOST_BYTES: Final = 4 << 20
"""The size of the largest page that a notebook gets: a notebook stores what it shows."""


def inline_frame(page: bytes) -> str | None:
    """Return HTML that shows a page in a frame of its own, without access to the notebook; None if the page is too large."""
    if len(page) > MOST_BYTES:
        return None
    source = escape(page.decode("utf-8"), quote=True)
    style = "width:100%;height:640px;border:1px solid #8888"
    return f'<iframe sandbox="allow-scripts allow-downloads" style="{style}" srcdoc="{source}"></iframe>'


# --------------------------- overlays: numbers for nodes, such as measured latencies, by which a page colours the graph


OverlayValues: TypeAlias = Mapping[str, Mapping[str, float]]
"""Numbers by the name of the overlay, such as `latency [ms]`, and by the name of the node."""

_MOST_NAMED = 8


class Overlay(msgspec.Struct, frozen=True):
    """Numbers for the nodes of one file."""

    name: str
    """What the numbers are, with their unit, such as `latency [ms]`."""
    file: int
    """The index of the file."""
    values: dict[str, float]
    """By the name of the node, inside a subgraph `SUBGRAPH/NODE`, or of the module. The page lists names of nothing."""
    method: str | None = None
    """The program; None for every program of the file."""


def named_overlays(
    given: OverlayValues, names: Sequence[Collection[str]], method: str | None = None
) -> list[Overlay]:
    """Return the overlays of a page.

    Args:
        given: the numbers.
        names: those of the nodes and modules of each file.
        method: the program that the numbers are for; None for all.

    Raises:
        EncodeError: no name of an overlay is one of a node or module, or a value is not a finite number.

    Warns:
        GraphwireWarning: some names are of nothing in the files.
    """
    if not isinstance(given, Mapping):
        raise _unusable("overlay=", f"is a {type(given).__name__}")
    overlays = []
    for name, values in given.items():
        if not isinstance(values, Mapping):
            raise _unusable(f"the overlay {name!r:.80}", f"has a {type(values).__name__}")
        read = isinstance(values, TraceTimes)  # most events of a trace are of no node
        held = {
            node: value for node, value in values.items() if not read or any(node in known for known in names)
        }
        if read and not held:
            raise EncodeError(
                f"no event of the trace {name!r:.80} has the name of a node",
                remedy="Run each node in `with torch.profiler.record_function(node.name)`",
            )
        numbers = {str(node): _number(name, node, value) for node, value in held.items()}
        unknown = [node for node in numbers if not any(node in known for known in names)]
        if unknown:
            error = _unknown_names(name, unknown, names)
            if len(unknown) == len(numbers):
                raise error
            warn(str(error))
        for index, known in enumerate(names):
            found = {node: number for node, number in numbers.items() if node in known}
            if found:
                found |= {node: numbers[node] for node in unknown}
                overlays.append(Overlay(name, index, found, method))
    return overlays


def _unusable(what: str, problem: str) -> EncodeError:
    remedy = 'Pass numbers by name and node, such as {"latency [ms]": {"linear_3": 0.4}}'
    return EncodeError(f"{what} {problem}, not numbers for nodes", remedy=remedy)


def _number(name: str, node: object, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number) or isinstance(value, bool):
        raise EncodeError(
            f"the overlay {name!r:.80} has {value!r:.40} for the node {node!r:.80}, which is not a finite number",
            remedy="Leave out nodes without a number",
        )
    return number


def _unknown_names(name: str, unknown: list[str], names: Sequence[Collection[str]]) -> EncodeError:
    listed = ", ".join(map(repr, unknown[:_MOST_NAMED]))
    more = f" and {len(unknown) - _MOST_NAMED} more" if len(unknown) > _MOST_NAMED else ""
    near = difflib.get_close_matches(unknown[0], [each for known in names for each in known], 1)
    remedy = "`graphwire inspect FILE --nodes` lists the nodes, and `--modules` the modules"
    if near:
        remedy = f"Is {unknown[0]!r:.80} the name {near[0]!r:.80}? {remedy}"
    return EncodeError(
        f"the overlay {name!r:.80} names nodes or modules that are not there: {listed}{more}", remedy=remedy
    )


# ----------------------------------------------------------------------------------------------------------- files


class TraceTimes(dict[str, float]):
    """The mean time of the events of a trace, in milliseconds, by the event's name. Names that no node has are dropped."""


def read_overlays(path: Path) -> dict[str, dict[str, Any]]:
    """Return the overlays in a file, by name and node.

    A CSV file has a header: the names of nodes are in the first column, and each other column is an overlay. A JSON file has an
    object with numbers by node, by the name of the overlay; or one object with numbers by node, an overlay named as the file.
    A trace of a profiler (`torch.profiler`, in Chrome's format) is JSON, too: its overlays are the mean times of events.

    Raises:
        EncodeError: the file has something else.
        ArchiveError: it is a pipe or a device.
        OSError: it cannot be read.
    """
    try:
        text = read_named(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise EncodeError(f"{str(path)!r:.200} is not UTF-8: {error.reason}") from error
    read = _READERS.get(path.suffix.lower())
    if read is None:
        raise EncodeError(
            f"{str(path)!r:.200} is neither CSV nor JSON by its suffix",
            remedy="Name it NAME.csv or NAME.json",
        )
    return read(path, text)


def _read_csv(path: Path, text: str) -> dict[str, dict[str, Any]]:
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    except csv.Error as error:
        raise EncodeError(f"{str(path)!r:.200} is not CSV: {error}") from error
    if len(rows) < 2 or len(rows[0]) < 2:
        raise EncodeError(
            f"{str(path)!r:.200} has no header and numbers below it",
            remedy='Begin with a line such as "node,latency [ms]"',
        )
    names = rows[0][1:]
    for listed in (names, [row[0] for row in rows[1:]]):
        dict_of_pairs([(name, None) for name in listed], partial(_twice, path))
    return {
        name: {row[0]: value for row, value in _column(rows[1:], index) if value.strip()}
        for index, name in enumerate(names, 1)
    }


def _column(rows: list[list[str]], index: int) -> Iterator[tuple[list[str], str]]:
    yield from ((row, row[index]) for row in rows if index < len(row))


def _read_json(path: Path, text: str) -> dict[str, dict[str, Any]]:
    try:
        tree = json.loads(text, object_pairs_hook=partial(dict_of_pairs, twice=partial(_twice, path)))
    except (ValueError, RecursionError) as error:
        raise EncodeError(f"{str(path)!r:.200} is not JSON: {error}") from error
    if isinstance(tree, dict) and isinstance(tree.get("traceEvents"), list):
        return _trace_times(path.stem, tree["traceEvents"])
    if not isinstance(tree, dict) or not tree:
        raise _unusable(repr(str(path)), f"has a {type(tree).__name__}")
    return tree if all(isinstance(each, dict) for each in tree.values()) else {path.stem: tree}


def _twice(path: Path, name: str) -> EncodeError:
    remedy = "Give each overlay and node once"
    return EncodeError(f"{str(path)!r:.200} names {name!r:.80} twice", remedy=remedy)


def _trace_times(stem: str, events: list[Any]) -> dict[str, dict[str, Any]]:
    """Return the mean milliseconds of complete events by name, those on a GPU apart."""
    times: dict[str, dict[str, list[float]]] = {}
    for event in events:
        held = event if isinstance(event, dict) and event.get("ph") == "X" else {}
        name, length = held.get("name"), held.get("dur")
        if isinstance(name, str) and isinstance(length, int | float):
            category = held.get("cat")
            is_gpu = isinstance(category, str) and category.startswith(("gpu", "kernel"))
            milliseconds = length / 1000 if abs(length) < 1e300 else math.nan  # an integer may be no float
            times.setdefault("GPU" if is_gpu else "CPU", {}).setdefault(name, []).append(milliseconds)
    return {
        f"{stem}: {where} [ms]": TraceTimes({name: sum(each) / len(each) for name, each in named.items()})
        for where, named in times.items()
    }


_READERS = {".csv": _read_csv, ".json": _read_json}


# --------------------- the facts that a page shows beside the programs that it contains: what only Python can determine
# Each part is optional.


class ProblemFact(msgspec.Struct, frozen=True):
    """A problem that `verify` finds."""

    kind: str
    place: str
    problem: str
    remedy: str = ""


class TargetFact(msgspec.Struct, frozen=True):
    """A release of torch that a program can or cannot be written for."""

    target: str
    readable: bool
    why_not: str = ""


class MethodFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The facts about one program."""

    operators: dict[str, str] | None = None
    """The schema of each operator, by the operator's serialized name."""


class Histogram(msgspec.Struct, frozen=True):
    """The number of finite elements in intervals of equal length."""

    min: float
    max: float
    counts: list[int]


class WeightFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """Facts about a weight that the page's own file, which has no elements, does not have."""

    where: str = ""
    """Where its elements are, as `graphwire weights` has it; empty for a program in memory."""
    histogram: Histogram | None = None
    """None if no elements were read, or none is finite."""
    mean: float | None = None
    std: float | None = None
    not_finite: int = 0
    """The number of elements that are infinite or not a number."""


class WeightChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the elements of a weight differ between two programs."""

    equal: bool
    max_abs: float | None = None
    """The largest absolute difference; None if elements were not read, or differ by no finite number."""
    cosine: float | None = None
    """The cosine of the angle between both; None in these cases, too, and if one is zero."""
    norm: float | None = None
    """The norm of the difference, as a share of that of the first; None in these cases, too."""


class FileFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The facts about one file."""

    name: str
    inspection: dict[str, Any] | None = None
    """The inspection of the original file, without records and summaries: the page contains a smaller archive."""
    problems: list[ProblemFact] | None = None
    targets: list[TargetFact] | None = None
    methods: dict[str, MethodFacts] = {}
    weights: dict[str, WeightFacts] | None = None


class Facts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The facts of one page."""

    files: list[FileFacts]
    version: int = msgspec.field(default=1)
    weight_changes: dict[str, dict[str, WeightChange]] | None = None
    """By program of the second file, and by the weight's name: those that are known to differ."""
    compared: dict[str, str] = {}
    """What was compared of weights and constants, in words, by program of the second file."""
    layers: dict[str, Renumbering] = {}
    """Which layers have other numbers in the second file, by its program."""
    overlays: list[Overlay] = []


# ------------------------------- writes facts and archives into the page, in a form that no text of a program can leave


_PLACEHOLDER = b"<!-- graphwire:data -->"
"""Where the page takes its data. The page without data is a viewer for files that are dropped on it."""

_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
"""Characters of markup, in JSON. Other characters beyond ASCII are escaped by JSON itself."""


def page_chunks(facts: Facts, archives: Sequence[bytes]) -> list[bytes]:
    """Return a page, in chunks.

    Args:
        facts: what the page shows beside the archives.
        archives: one archive or, for a difference, two (`embedded`).
    """
    before, placeholder, after = _template().partition(_PLACEHOLDER)
    assert placeholder, "viewer.html has no place for data"
    chunks = [before, b'<script type="application/json" id="graphwire-facts">', _json(facts), b"</script>\n"]
    for index, archive in enumerate(archives):
        head = f'<script type="application/octet-stream" id="graphwire-file-{index}">'
        chunks += [head.encode(), base64.b64encode(archive), b"</script>\n"]
    return [*chunks, after]


def _template() -> bytes:
    return files("graphwire").joinpath("viewer.html").read_bytes()


def _json(facts: Facts) -> bytes:
    """Return facts as JSON in ASCII, without a character that could end a script or begin a tag."""
    text = json.dumps(msgspec.to_builtins(facts), allow_nan=False, separators=(",", ":"))
    for character, escaped in _ESCAPES.items():
        text = text.replace(character, escaped)
    return text.encode("ascii")
