"""Work whose files say what it does: wait, take memory, end its process. It is in a module that workers import."""

from __future__ import annotations

import ctypes
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphwire_fleet.engine import Summary, run
from graphwire_fleet.sources import files_of
from graphwire_fleet.work import File, Packed, Result

from graphwire.cli.terminal import Output
from graphwire.errors import ArchiveError


def take_memory() -> None:
    taken = []
    while True:
        taken.append(b"x" * (8 << 20))


def raise_error() -> None:
    raise ArchiveError("this is wrong", place="graph.nodes[3]", remedy="Mend it")


def end() -> None:
    raise SystemExit(3)


DEEDS: Mapping[str, Callable[[], Any]] = {
    "hang": lambda: time.sleep(1000),
    # C code that keeps the interpreter's lock: no thread and no handler of Python runs.
    "hang in C": lambda: ctypes.PyDLL(None).sleep(1000),
    "loop": lambda: all(iter(lambda: True, False)),
    "take memory": take_memory,
    "ask for memory": lambda: bytearray(1 << 50),
    "crash": lambda: ctypes.string_at(0),
    "abort": os.abort,
    "leave": lambda: os._exit(7),
    "exit": end,
    "raise": raise_error,
    "be killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
}


@dataclass(frozen=True)
class Deeds:
    """Does what files say."""

    seconds: float = 0.0
    """The time that each file takes at least."""
    log: str = ""
    """A file that gets a line a file, and the process, when it is begun."""

    def __call__(self, file: File) -> Result:
        word = Path(file.source).read_text(encoding="utf-8")
        if self.log:
            with Path(self.log).open("a", encoding="utf-8") as log:
                log.write(f"{os.getpid()} {file.name!a}\n")
        if word in DEEDS:
            DEEDS[word]()
        if word == "die the first time":
            Path(file.source).write_text("well", encoding="utf-8")
            os._exit(1)
        time.sleep(self.seconds)
        return Result(file, {"program": [{"file": file.name, "word": word}]})

    def pack(self, results: Sequence[Result]) -> Packed:
        rows = [
            {
                "file": each.file.name,
                "stamp": each.file.stamp,
                "word": [row["word"] for row in each.tables.get("program", ())],
                "failure": each.failure and [each.failure.kind, each.failure.message, each.failure.place],
            }
            for each in results
        ]
        if any(row["word"] == ["cannot be packed"] for row in rows):
            raise ValueError("this cannot be packed")
        return {"program": json.dumps(rows).encode()}


class Kept:
    """A consumer in memory, or in a folder: each batch is a file there, which appears whole."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self.batches: list[str] = []
        self.rows: list[dict[str, Any]] = []
        for file in sorted(folder.glob("*.json")) if folder else ():
            self.rows += json.loads(file.read_text())

    def still_to_do(self, files: Sequence[File]) -> Sequence[File]:
        known = {(row["file"], row["stamp"]) for row in self.rows}
        return [file for file in files if (file.name, file.stamp) not in known]

    def add(self, batch: str, pieces: Sequence[Packed]) -> None:
        rows = [row for piece in pieces for row in json.loads(piece["program"])]
        self.batches.append(batch)
        self.rows += rows
        if self.folder:
            part = self.folder / f"{batch}.part"
            part.write_text(json.dumps(rows))
            part.rename(self.folder / f"{batch}.json")

    @property
    def failures(self) -> dict[str, list[str]]:
        return {Path(row["file"]).stem: row["failure"] for row in self.rows if row["failure"]}

    @property
    def names(self) -> list[str]:
        return sorted(Path(row["file"]).stem for row in self.rows)


class Words:
    """The files of a folder."""

    def __init__(self, *words: str | Path) -> None:
        self.words = [str(word) for word in words]
        self.errors: list[tuple[Exception, str]] = []

    def __iter__(self) -> Any:
        return files_of(self.words, None, lambda error, name: self.errors.append((error, name)))

    def counted(self) -> Any:
        return iter(())


def written(folder: Path, words: dict[str, str]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, word in words.items():
        (folder / f"{name}.pt2").write_text(word)
    return folder


def ran(folder: Path, work: Any, kept: Kept, **options: Any) -> Summary:
    output = Output(stdout=io.StringIO(), stderr=io.StringIO())
    return run(
        Words(folder), work, kept, output, doing="Trying", **{"workers": 2, "timeout": 120.0, **options}
    )


def begun(log: Path) -> set[int]:
    """The processes that worked on files."""
    return {int(line.split()[0]) for line in log.read_text().splitlines()} if log.exists() else set()


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(true: Callable[[], Any]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


RUN = """
import signal
import sys
from pathlib import Path
from fleet_works import Deeds, Kept, Words
from graphwire.cli.terminal import Output
from graphwire_fleet.engine import run
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts what runs in the background without it
files, kept, log, *ray = sys.argv[1:]
options = {"workers": 2, "batch_files": 2, "ray": ray[0] if ray else None}
run(Words(files), Deeds(0.02, log), Kept(Path(kept)), Output(), doing="Trying", **options)
"""


def started_run(*words: str | Path) -> subprocess.Popen[bytes]:
    """A process that runs `Deeds` on the files of a folder, keeps results in another, and logs to a file."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    return subprocess.Popen([sys.executable, "-c", RUN, *words], env=environment)
