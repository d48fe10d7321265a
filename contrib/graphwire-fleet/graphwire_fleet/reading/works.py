"""The works that read files into a catalogue: `inspect`, `verify` and `targets`. None of them imports torch."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

import graphwire
from graphwire.errors import UNRECOGNIZED, GraphwireError, NotAnArchiveError, TargetError, exception_text
from graphwire_fleet.reading.node_rows import node_rows
from graphwire_fleet.reading.program_rows import content_hash, program_row, weight_rows
from graphwire_fleet.reading.readers import readers
from graphwire_fleet.tables import FILES, encode_rows
from graphwire_fleet.work import Failure, File, Packed, Result, Row


@dataclass(frozen=True)
class Reading:
    """Reads one file to rows of a catalogue."""

    options: Mapping[str, Any] = field(default_factory=dict)
    """The options of `graphwire.open`."""

    name: ClassVar[str] = ""
    """The value of `work` in the table `files`."""

    def tables(self, file: File) -> dict[str, list[Row]]:
        """Return what is found, by table; in the table `files` one row with columns that only this work fills."""
        raise NotImplementedError

    @property
    def settings(self) -> str:
        """The options that decide which rows there are, as JSON. Files that were read with others are read again."""
        own = {name: value for name, value in asdict(self).items() if name != "options"}
        return json.dumps(own, sort_keys=True)

    @property
    def readers(self) -> list[str]:
        """What reads the files here, such as `graphwire 0.1.0`."""
        return readers()

    def __call__(self, file: File) -> Result:
        """Read a file. An error becomes its failure."""
        start = time.perf_counter()
        try:
            tables, failure = self.tables(file), None
        except (GraphwireError, OSError) as error:
            tables, failure = {}, failure_of(error)
        return Result(file, tables, failure, time.perf_counter() - start)

    def pack(self, results: Sequence[Result]) -> Packed:
        """Encode the rows of several files as streams of Arrow, each row with the number of its reading among them."""
        rows: dict[str, list[Row]] = {FILES: []}
        known = self.readers
        for read, result in enumerate(results):
            own = next(iter(result.tables.get(FILES, ())), {})
            rows[FILES].append({"read": read, **self._file_row(result, known), **own})
            for table, found in result.tables.items():
                if table != FILES:
                    same = {"read": read, "file": result.file.name}
                    rows.setdefault(table, []).extend({**same, **row} for row in found)
        return {table: encode_rows(table, found) for table, found in rows.items()}

    def _file_row(self, result: Result, known: list[str]) -> Row:
        file, failure = result.file, result.failure or Failure("", "")
        return {
            "file": file.name,
            "work": self.name,
            "settings": self.settings,
            "stamp": file.stamp,
            "bytes": file.nbytes,
            "failure_kind": failure.kind or None,
            "failure": failure.message or None,
            "failure_place": failure.place or None,
            "failure_remedy": failure.remedy or None,
            "seconds": result.seconds,
            "readers": known,
        }


def failure_of(error: Exception) -> Failure:
    """Return an error as the failure of a file. The message lists all its problems."""
    kind = type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        return Failure(kind, f"{error.strerror}: {error.filename}" if error.filename else error.strerror)
    if not isinstance(error, GraphwireError):
        return Failure(kind, exception_text(error))
    if isinstance(error, TargetError):
        listed = "".join(f"\n  {each}" for each in error.obstacles)
        return Failure(kind, f"{error.problem}. {error.remedy}{listed}", error.place)
    listed = "".join(f"\n  {each}" for each in getattr(error, "problems", ()))
    return Failure(kind, f"{error.problem}{listed}", error.place, error.remedy)


@dataclass(frozen=True)
class Inspecting(Reading):
    """What programs, nodes and weights a file has. Reads no weights, unless their digests are asked for."""

    nodes: bool = True
    """Whether each node gets a row."""
    digests: bool = False
    """Whether the weights are read, for the digests that the file does not list."""

    name: ClassVar[str] = "inspect"

    def tables(self, file: File) -> dict[str, list[Row]]:
        """Return the rows of `programs`, `nodes` and `weights`."""
        with graphwire.open(file.source, **self.options) as archive:
            found = archive.inspect(file.name)
            rows: dict[str, list[Row]] = {name: [] for name in ("programs", "nodes", "weights")}
            for method in found.methods:
                name = method.name
                rows["programs"].append(
                    {
                        "method": name,
                        **program_row(method, content_hash(archive, name), archive.disclosures(name)),
                    }
                )
                rows["weights"] += _of_method(name, weight_rows(archive, name, digests=self.digests))
                if self.nodes:
                    rows["nodes"] += _of_method(name, node_rows(archive.program_of(name)))
            own = {
                "layout": found.layout,
                "payload_bytes": found.payload_bytes,
                "extra_files": list(archive.extra_files),
            }
        return rows | {FILES: [own]}


def _of_method(name: str, rows: Iterator[Row]) -> list[Row]:
    return [{"method": name, **row} for row in rows]


@dataclass(frozen=True)
class Verifying(Reading):
    """What problems a file has. Reads all of it."""

    sha256: bool = False
    """Whether the digest of the whole file is computed; a file at a URL is read twice."""

    name: ClassVar[str] = "verify"

    def tables(self, file: File) -> dict[str, list[Row]]:
        """Return the rows of `problems`."""
        problems = graphwire.verify(file.source, **self.options)
        if unknown := [each.message for each in problems if each.kind == UNRECOGNIZED]:
            raise NotAnArchiveError(
                unknown[0], remedy="Name files that graphwire.save or torch.export.save wrote"
            )
        own: Row = {"problems": len(problems), "sha256": self._digest(file) if self.sha256 else None}
        return {"problems": [each._asdict() for each in problems], FILES: [own]}

    def _digest(self, file: File) -> str:
        digest = hashlib.sha256()
        with _opened(file.source, self.options.get("storage_options")) as stream:
            while part := stream.read(1 << 20):
                digest.update(part)
        return digest.hexdigest()


def _opened(source: str, options: Any) -> Any:
    from graphwire.wire.archive.source import RemoteFile, located

    place = located(source, options)
    if isinstance(place, RemoteFile):
        return place.ask("open the file", "open", place.path, "rb")
    return Path(place).open("rb")


@dataclass(frozen=True)
class Targeting(Reading):
    """Which readers the programs of a file can be written for."""

    name: ClassVar[str] = "targets"

    def tables(self, file: File) -> dict[str, list[Row]]:
        """Return the rows of `targets`."""
        with graphwire.open(file.source, **self.options) as archive:
            rows: list[Row] = [
                {
                    "method": method,
                    "target": target,
                    "fits": not obstacles,
                    "obstacles": [each._asdict() for each in obstacles],
                }
                for method in archive.methods
                for target, obstacles in archive.targets(method).items()
            ]
        return {"targets": rows}


READINGS: Final[dict[str, type[Reading]]] = {each.name: each for each in (Inspecting, Verifying, Targeting)}
"""The works by the name of their action."""
