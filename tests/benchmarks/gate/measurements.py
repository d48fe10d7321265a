"""What the gate measures of each side: actions of the public interface, on the same files.

A measurement gets the file that both sides read, and a folder of its own. It prepares what it needs, and returns the action.
"""

from __future__ import annotations

import io
import pstats
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["MEASUREMENTS", "TORCH_FREE", "Command"]

Action = Callable[[], object]


def _programs(name: str) -> Any:
    from cases import PROGRAMS

    return PROGRAMS[name]()


def _save(name: str, format: str = "json") -> Callable[[Path, Path], Action]:
    def prepare(_file: Path, _folder: Path) -> Action:
        import graphwire

        program = _programs(name)
        return lambda: graphwire.save(program, io.BytesIO(), format=format)

    return prepare


def _load(name: str, format: str = "json") -> Callable[[Path, Path], Action]:
    def prepare(_file: Path, folder: Path) -> Action:
        import graphwire

        saved = folder / f"{name}.pt2"
        graphwire.save(_programs(name), saved, format=format)
        return lambda: graphwire.load(saved)

    return prepare


def _of_file(action: Callable[[Any, Path], object]) -> Callable[[Path, Path], Action]:
    """An action on the file that both sides read."""

    def prepare(file: Path, _folder: Path) -> Action:
        import graphwire

        return lambda: action(graphwire, file)

    return prepare


def _convert(file: Path, folder: Path) -> Action:
    import graphwire

    return lambda: graphwire.convert(file, folder / "converted.pt2", format="msgpack")


class Command(NamedTuple):
    """A whole process, with the start of the interpreter."""

    words: tuple[str, ...]

    def __call__(self) -> None:
        subprocess.run([sys.executable, "-m", "graphwire", *self.words], check=True, capture_output=True)

    def counted(self, folder: Path) -> int:
        """The calls of functions in the process: those of this one, which waits for it, differ from run to run."""
        profile = folder / "profile"
        command = [sys.executable, "-m", "cProfile", "-o", profile, "-m", "graphwire", *self.words]
        subprocess.run(command, check=True, capture_output=True)
        return int(pstats.Stats(str(profile)).total_calls)


def _command(*words: str) -> Callable[[Path, Path], Action]:
    return lambda file, _folder: Command((*words, str(file)))


TORCH_FREE: dict[str, Callable[[Path, Path], Action]] = {
    "inspect": _of_file(lambda graphwire, file: graphwire.inspect(file)),
    "verify": _of_file(lambda graphwire, file: graphwire.verify(file)),
    "content hash": _of_file(lambda graphwire, file: graphwire.content_hash(file)),
    "difference": _of_file(lambda graphwire, file: graphwire.diff(file, file)),
    "convert": _convert,
    "view": _of_file(lambda graphwire, file: graphwire.view(file)),
    "command inspect": _command("inspect"),
}
"""Measurements without torch, by name."""
MEASUREMENTS: dict[str, Callable[[Path, Path], Action]] = {
    "save, decoder": _save("decoder-12-dynamic"),
    "save, decoder, msgpack": _save("decoder-12-dynamic", "msgpack"),
    "save, convnet": _save("convnet"),
    "load, decoder": _load("decoder-12-dynamic"),
    "load, decoder, CBOR": _load("decoder-12-dynamic", "cbor"),
    "load, LeNet-5": _load("lenet"),
    **TORCH_FREE,
}
"""All measurements, by name."""
