"""What a user sees: progress on a terminal and nothing of it in a pipe; the command's own words, and no other's."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from fleet_works import RUN, begun, until, written

NOISE = """
import ctypes, logging, subprocess, sys, warnings
from graphwire.cli.terminal import Output
from graphwire_fleet.engine.quiet import quiet
output = Output()
with quiet(output):
    print("noise")
    print("noise", file=sys.stderr)
    logging.warning("noise")
    warnings.warn("noise")
    libc = ctypes.CDLL(None)
    libc.write(1, b"noise", 5), libc.write(2, b"noise", 5)
    subprocess.run(["sh", "-c", "echo noise; echo noise >&2"])
    output.line("an answer")
    output.failure(ValueError("an error"))
    assert output.stderr.isatty() == ("terminal" in sys.argv)
print("printed after")
"""


def seen(command: list[str | Path], *, meanwhile: Callable[[], None] = lambda: None) -> str:
    """What a process writes to a terminal that is all its streams."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    told = bytearray()

    def read() -> None:
        try:
            while data := os.read(ours, 1 << 16):
                told.extend(data)
        except OSError:  # Nobody has the other end.
            pass

    reading = threading.Thread(target=read)
    reading.start()
    meanwhile()
    assert process.wait(120) == 0, told.decode()
    reading.join()
    os.close(ours)
    return told.decode()


def test_only_the_command_is_heard_while_a_library_works() -> None:
    told = seen([sys.executable, "-c", NOISE, "terminal"])
    piped = subprocess.run([sys.executable, "-c", NOISE], capture_output=True, text=True, check=True)
    for text in (told, piped.stdout + piped.stderr):
        assert "noise" not in text
        assert all(words in text for words in ("an answer", "an error", "printed after"))
    assert "an answer\nprinted after\n" in piped.stdout


def slow(folder: Path) -> list[str | Path]:
    """A run of two seconds."""
    files = written(folder / "files", {f"{number:03}": "well" for number in range(80)})
    (folder / "kept").mkdir()
    return [
        sys.executable,
        "-c",
        RUN.replace("Deeds(0.02", "Deeds(0.05"),
        files,
        folder / "kept",
        folder / "log",
    ]


def test_progress_is_seen_on_a_terminal_and_a_pipe_is_silent(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    told = seen(slow(tmp_path / "a"))
    assert "Trying: " in told
    assert "files/s" in told
    assert told.endswith("\r\x1b[K")
    (tmp_path / "b").mkdir()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run(slow(tmp_path / "b"), capture_output=True, text=True, check=True, env=environment)
    assert done.stdout + done.stderr == ""


def test_nothing_of_ray_is_seen_even_if_an_actor_dies(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="needs the extra `fleet`: make test-fleet")
    command, log = slow(tmp_path), tmp_path / "log"

    def kill_actor() -> None:
        until(lambda: begun(log))
        parent = Path(f"/proc/{min(begun(log))}/stat").read_text().rpartition(")")[2].split()[1]
        os.kill(int(parent), signal.SIGKILL)

    told = seen([*command, "local"], meanwhile=kill_actor)
    lines = told.replace("\r\x1b[K", "\n").split("\n")
    assert {line.partition(":")[0] for line in lines if line.strip()} == {"Trying"}, told
