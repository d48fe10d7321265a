"""What runs in a process that works on files, which `graphwire_fleet.engine.bounded` starts.

Whoever starts it watches its time and memory, and ends it. It ends itself if that process is gone.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import mmap
import os
import signal
import stat
import sys
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from graphwire.errors import ArchiveError, GraphwireError, exception_text
from graphwire.wire.archive.source import url_of
from graphwire_fleet.engine.batches import Bounds, Counts
from graphwire_fleet.work import Failure, File, Packed, Result, Work

OUT_OF_MEMORY = "OutOfMemory"
BOARD = mmap.PAGESIZE
"""The size of the memory that both processes share: it has the index of the file that is worked on."""
_FLUSH_SECONDS, _FLUSH_ROWS = 1.0, 50_000
"""Results are sent after this time, or this many rows: a process that has to end loses no more than these."""
_GRACE = 30.0
"""Seconds after which the process ends itself, if nobody did it in time."""
_SLACK = 1 << 30
"""Bytes by which what the process reserves may exceed what it may use."""
_COLLECT = 100_000, 50, 100
"""When garbage is collected: records of programs have few cycles, and looking for them took a quarter of the time."""
_PR_SET_PDEATHSIG = 1


class Ready(NamedTuple):
    """The process has imported what it needs."""


class Broken(NamedTuple):
    """The process cannot work at all."""

    reason: str


class Piece(NamedTuple):
    """Results of the next files of a batch."""

    packed: Packed
    counts: Counts


def index_on(board: mmap.mmap) -> int:
    """Return the index of the file that is worked on; -1 for none."""
    return int.from_bytes(board[:8], "little", signed=True)


def put_index(board: mmap.mmap, index: int) -> None:
    """State the index of the file that is worked on."""
    board[:8] = index.to_bytes(8, "little", signed=True)


def packed(work: Work, results: Sequence[Result]) -> list[tuple[Packed, Counts]]:
    """Encode results. One whose rows cannot be encoded fails, and no other."""
    try:
        return [(work.pack(results), Counts.of(results))]
    except Exception as error:
        if len(results) > 1:
            half = len(results) // 2
            return [*packed(work, results[:half]), *packed(work, results[half:])]
        (result,) = results
        if result.failure is not None and not result.tables:
            raise
        return packed(work, [Result(result.file, failure=_failure(error), seconds=result.seconds)])


def work_for(connection_fd: int, board_fd: int, trace_fd: int, parent: int) -> None:
    """Work on batches until the connection is closed."""
    _end_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    trace = os.fdopen(trace_fd, "wb", buffering=0)
    faulthandler.enable(trace, all_threads=False)
    faulthandler.register(signal.SIGUSR1, trace, all_threads=False)
    connection, board = Connection(connection_fd), mmap.mmap(board_fd, BOARD)
    try:
        sys.path[:] = connection.recv()
        work, bounds = connection.recv()
    except Exception as error:  # noqa: BLE001 - the work's module cannot be imported here
        connection.send(Broken(exception_text(error)))
        return
    with contextlib.suppress(ImportError, OSError, ValueError):
        _bound_memory(bounds.memory)
    gc.set_threshold(*_COLLECT)
    connection.send(Ready())
    with contextlib.suppress(EOFError, ConnectionError):
        goes_on = _work_on(connection.recv(), work, bounds, connection, board)
        gc.collect()
        gc.freeze()  # What the first files made the process import stays.
        while goes_on:
            goes_on = _work_on(connection.recv(), work, bounds, connection, board)


def _work_on(files: list[File], work: Work, bounds: Bounds, connection: Connection, board: mmap.mmap) -> bool:
    """Work on a batch, and return whether the process takes another."""
    results: list[Result] = []
    flushed, rows, is_last = time.monotonic(), 0, False
    for index, file in enumerate(files):
        put_index(board, index)
        signal.setitimer(signal.ITIMER_REAL, bounds.seconds_for(file) + _GRACE)
        results.append(result := _result(work, file))
        rows += sum(map(len, result.tables.values()))
        if is_last := result.failure is not None and result.failure.kind == OUT_OF_MEMORY and len(files) > 1:
            results.pop()  # Others may have left too little: whoever started this process tries it in another.
        is_late = time.monotonic() - flushed > _FLUSH_SECONDS
        if is_late or is_last or rows > _FLUSH_ROWS or index + 1 == len(files):
            for piece, counts in packed(work, results) if results else ():
                connection.send(Piece(piece, counts))
            results, rows, flushed = [], 0, time.monotonic()
        if is_last:
            break
    signal.setitimer(signal.ITIMER_REAL, 0)
    return not is_last


def _result(work: Work, file: File) -> Result:
    begin = time.perf_counter()
    try:
        if url_of(file.source) is None and not stat.S_ISREG(Path(file.source).stat().st_mode):
            raise ArchiveError("this is not a regular file")
        return work(file)
    except MemoryError:
        failure = Failure(OUT_OF_MEMORY, "reading it takes more memory than --memory allows")
    except BaseException as error:  # noqa: BLE001 - a plugin may raise SystemExit
        failure = _failure(error)
    return Result(file, failure=failure, seconds=time.perf_counter() - begin)


def _failure(error: BaseException) -> Failure:
    kind = type(error).__name__
    if isinstance(error, GraphwireError):
        return Failure(kind, error.problem, " ".join(filter(None, (error.record, error.place))), error.remedy)
    if isinstance(error, OSError) and error.strerror:
        return Failure(kind, error.strerror)
    return Failure(kind, exception_text(error))


def _end_with(parent: int) -> None:
    """End when the parent ends, also while C code runs."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


def _bound_memory(nbytes: int) -> None:
    """Let requests for much more memory than is allowed fail. The process that watches this one ends it before."""
    import resource

    import psutil

    used = psutil.Process().memory_info()
    bound = getattr(used, "data", used.rss) + nbytes + _SLACK
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(
        resource.RLIMIT_DATA, (bound if hard == resource.RLIM_INFINITY else min(bound, hard), hard)
    )
