"""Works on batches in a process with bounds on time and memory, and replaces the process when it has to end."""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import NamedTuple

import psutil

from graphwire.errors import GraphwireError, exception_text
from graphwire_fleet.engine.batches import Bounds, Counts, Done
from graphwire_fleet.engine.child import (
    BOARD,
    OUT_OF_MEMORY,
    Broken,
    Piece,
    index_on,
    packed,
    put_index,
    work_for,
)
from graphwire_fleet.work import Failure, File, Result, Work

_LOOK = 0.1
"""Seconds between two looks at time and memory."""
_START_SECONDS = 300.0
_TRACE_SECONDS = 0.5
_STARTS = 3
"""How often a process is started that ends before it works on a file."""
_PROGRAM = (
    f"import sys; from {work_for.__module__} import {work_for.__name__} as run; run(*map(int, sys.argv[1:]))"
)
_TIMEOUT, _DIED = "Timeout", "WorkerDied"
_FRAME = re.compile(r'File "(.*)", line (\d+) in (.*)')


class FleetError(GraphwireError):
    """The work cannot be done at all: its processes do not start, or its cluster is not there."""


class Ended(NamedTuple):
    """Why a process had to end."""

    kind: str
    message: str
    position: int
    """The file it worked on; -1 for none."""
    place: str = ""


class Bounded:
    """Works on batches of files, one at a time, in a process of its own.

    Args:
        work: what is done with each file.
        bounds: what this may take.
    """

    def __init__(self, work: Work, bounds: Bounds) -> None:
        self._work = work
        self._bounds = bounds
        self._process: _Process | None = None
        self._is_interrupted = False

    def run(self, files: Sequence[File]) -> Done:
        """Work on all files, and return what came of them.

        A file whose process died is tried once more, in a process of its own: another file, or somebody else, may be why.
        """
        done = Done()
        waiting = deque([(list(files), False)])
        starts = 0
        while waiting:
            batch, is_alone = waiting.popleft()
            count, ended = self._running().work_on(batch, done)
            if ended is None:
                continue
            self.close()
            rest = batch[count:]
            if ended.position < count:  # It had not begun with any of the others.
                starts = 0 if count else starts + 1
                if starts == _STARTS:
                    raise FleetError(f"a worker ends before it reads a file: {ended.message}")
            elif ended.kind == _TIMEOUT or is_alone:
                file = rest.pop(ended.position - count)
                failure = Failure(ended.kind, ended.message, ended.place)
                for piece, counts in packed(self._work, [Result(file, failure=failure)]):
                    _keep(done, piece, counts)
            else:
                waiting.append(([rest.pop(ended.position - count)], True))
            if rest:
                waiting.append((rest, is_alone))
        return done

    def close(self) -> None:
        """End the process. `run` starts another."""
        if self._process is not None:
            self._process.end()
            self._process = None

    def interrupt(self) -> None:
        """Let `run`, which another thread calls, raise an error, now and ever."""
        self._is_interrupted = True
        if (process := self._process) is not None:
            process.kill()

    def _running(self) -> _Process:
        if self._process is None and not self._is_interrupted:
            try:
                self._process = _Process(self._work, self._bounds)
            except OSError as error:
                raise FleetError(
                    f"a worker cannot start: {exception_text(error)}",
                    remedy="Look at what is free: memory, processes, and room in the folder for temporary files (TMPDIR)",
                ) from error
        if self._is_interrupted or self._process is None:
            self.close()
            raise FleetError("the run was interrupted")
        return self._process


class _Process:
    """A running process, and what is shared with it."""

    def __init__(self, work: Work, bounds: Bounds) -> None:
        self._bounds = bounds
        ours, theirs = socket.socketpair()
        self._trace = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `end`
        with tempfile.TemporaryFile() as board:
            board.write(
                bytes(BOARD)
            )  # A file that only has this length would end the process where a disk is full.
            board.flush()
            self._board = mmap.mmap(board.fileno(), BOARD)
            put_index(self._board, -1)
            passed = (theirs.fileno(), board.fileno(), self._trace.fileno())
            command = [sys.executable, "-P", "-c", _PROGRAM, *map(str, passed), str(os.getpid())]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
            with theirs:
                self._popen = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=passed,
                    env=environment,
                )
        self._watched = psutil.Process(self._popen.pid)
        self._connection = Connection(ours.detach())
        self._start(work)

    def _start(self, work: Work) -> None:
        try:
            self._connection.send(sys.path)
            self._connection.send((work, self._bounds))
            answer = (
                self._connection.recv()
                if self._connection.poll(_START_SECONDS)
                else Broken("it does not start")
            )
        except (EOFError, OSError) as error:
            answer = Broken(str(error) or self._death())
        if isinstance(answer, Broken):
            self.end()
            raise FleetError(f"a worker cannot work: {answer.reason}")

    def work_on(self, files: list[File], done: Done) -> tuple[int, Ended | None]:
        """Work on files; return how many are done, from the first, and why the process ended, if it did."""
        put_index(self._board, -1)
        count = 0
        seen, since = -1, time.monotonic()
        try:
            self._connection.send(files)
            while count < len(files):
                if self._connection.poll(_LOOK):
                    piece = self._connection.recv()
                    assert isinstance(piece, Piece)
                    _keep(done, piece.packed, piece.counts)
                    count += piece.counts.files
                    continue
                now, index = time.monotonic(), index_on(self._board)
                if index != seen:
                    seen, since = index, now
                limit = self._bounds.seconds_for(files[max(index, 0)])
                if now - since > limit:
                    return count, Ended(_TIMEOUT, f"no result after {limit:.0f} s", index, self._where())
                if self._memory() > self._bounds.memory:
                    message = f"reading it takes more than {self._bounds.memory >> 20:,} MiB of memory"
                    return count, Ended(OUT_OF_MEMORY, message, index, self._where())
        except (EOFError, OSError):
            return count, Ended(_DIED, self._death(), index_on(self._board), self._traced())
        return count, None

    def kill(self) -> None:
        """Kill the process."""
        with contextlib.suppress(OSError):
            self._popen.kill()

    def end(self) -> None:
        """Kill the process, and close what is shared with it."""
        self.kill()
        with contextlib.suppress(
            subprocess.TimeoutExpired
        ):  # It waits for a file system that does not answer.
            self._popen.wait(5)
        self._connection.close()
        self._trace.close()

    def _memory(self) -> int:
        """The bytes of memory it uses, without what is mapped from files."""
        try:
            used = self._watched.memory_info()
        except psutil.Error:
            return 0
        return used.rss - getattr(used, "shared", 0)

    def _death(self) -> str:
        try:
            code = self._popen.wait(5)
        except subprocess.TimeoutExpired:
            return "the process does not answer"
        if code >= 0:
            return f"the process ended with {code}"
        with contextlib.suppress(ValueError):
            return f"the process was ended by {signal.Signals(-code).name}"
        return f"the process was ended by the signal {-code}"

    def _where(self) -> str:
        """Ask the process where it is: the handler works also while C code runs."""
        with contextlib.suppress(OSError):
            self._popen.send_signal(signal.SIGUSR1)
        end = time.monotonic() + _TRACE_SECONDS
        while not (place := self._traced()) and time.monotonic() < end:
            time.sleep(_LOOK)
        return place

    def _traced(self) -> str:
        """The innermost place of the traceback that the process left."""
        self._trace.seek(0)
        found = _FRAME.search(self._trace.read(64 << 10).decode("utf-8", "replace"))
        if found is None:
            return ""
        path, line, function = found.groups()
        return f"{'/'.join(path.split('/')[-2:])}:{line} in {function}"


def _keep(done: Done, piece: object, counts: Counts) -> None:
    done.pieces.append(piece)  # type: ignore[arg-type]
    done.counts.add(counts)
