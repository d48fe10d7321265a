"""A remote file as a `Source`: what is expected to be read is fetched ahead in large pieces, by several threads."""

from __future__ import annotations

import bisect
import threading
from collections import deque
from collections.abc import Iterable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from itertools import islice
from operator import attrgetter

from graphwire.errors import ArchiveError
from graphwire.wire import Attempts, allocate
from graphwire.wire.remote.location import RemoteFile
from graphwire.wire.remote.ranges import Ranges, ranges_of

TAIL_BYTES = 1 << 17
"""In bytes. The end of a file is read first: it has the directory of an archive, unless that has more than some 1,500 records."""
WINDOW_BYTES = 1 << 16
"""In bytes. The least that is fetched where nothing is expected."""
GAP_BYTES = 1 << 16
"""In bytes. Expected ranges with smaller gaps between them are fetched together."""
PIECE_BYTES = 4 << 20
"""In bytes. The most that is fetched at once."""
TOGETHER_BYTES = 32 << 20
"""In bytes. The same, where the caller wants few requests."""
THREADS = 8
AHEAD = 8
"""How many pieces are fetched ahead."""
HELD_BYTES = 16 << 20
"""In bytes. Pieces that were read are kept up to this size. With those fetched ahead, a source holds 48 MiB, and its threads what
they receive."""


class _Piece:
    """A range of the file, which is fetched as a whole."""

    __slots__ = ("end", "future", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end
        self.future: Future[bytes] | None = None


_START = attrgetter("start")
_CLOSED = "the archive is closed"


class RemoteSource:
    """A file at a URL. `map` copies.

    Ranges that `expect` announces become pieces, fetched in the order of the file while earlier ones are read. Any other range
    is fetched when it is read.

    Args:
        ranges: reads the file.
    """

    is_remote = True

    def __init__(self, ranges: Ranges) -> None:
        self._ranges = ranges
        self.closed = False
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(THREADS, "graphwire-remote")
        self._pieces: list[_Piece] = []
        """Without overlaps, in the order of the file."""
        self._fetched: deque[_Piece] = deque()
        """The pieces that are or were fetched, the oldest first."""
        self._held = 0
        """Their size in bytes."""
        self.size, tail = ranges.tail(TAIL_BYTES)
        if tail:
            piece = _Piece(self.size - len(tail), self.size)
            piece.future = Future()
            piece.future.set_result(tail)
            self._pieces.append(piece)

    def read_at(self, offset: int, size: int) -> bytes:
        piece = self._piece_with(offset, size) if size else None
        if piece is not None and offset + size <= piece.end:
            data = self._data_of(piece)
            return data[offset - piece.start : offset - piece.start + size]
        memory = bytearray(size)
        self.read_into(offset, memoryview(memory))
        return bytes(memory)

    def read_into(self, offset: int, memory: memoryview) -> None:
        while memory.nbytes:
            piece = self._piece_with(offset, memory.nbytes)
            data = self._data_of(piece)
            count = min(piece.end - offset, memory.nbytes)
            memory[:count] = memoryview(data)[offset - piece.start : offset - piece.start + count]
            memory = memory[count:]
            offset += count

    def map(self, offset: int, size: int) -> memoryview:
        self.expect([(offset, offset + size)])
        memory = allocate(size)
        self.read_into(offset, memory)
        return memory

    def map_anew(self, offset: int, size: int) -> memoryview:
        """Return the range in new memory, as `map` always does."""
        return self.map(offset, size)

    def expect(self, ranges: Iterable[tuple[int, int]], *, together: bool = False) -> None:
        most = TOGETHER_BYTES if together else PIECE_BYTES
        wanted = _joined(ranges, self.size)
        with self._lock:
            added = [each for start, end in wanted for each in self._missing(start, end)]
            for start, end in added:
                step = -(-(end - start) // -(-(end - start) // most))  # equal pieces
                self._pieces += (_Piece(at, min(at + step, end)) for at in range(start, end, step))
            self._pieces.sort(key=_START)

    def close(self) -> None:
        self.closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._pieces.clear()
            self._fetched.clear()

    def _missing(self, start: int, end: int) -> Iterable[tuple[int, int]]:
        """Yield the parts of a range that no piece has."""
        index = bisect.bisect_right(self._pieces, start, key=_START)
        if index:
            start = max(start, self._pieces[index - 1].end)
        while start < end:
            until = min(end, self._pieces[index].start) if index < len(self._pieces) else end
            if start < until:
                yield start, until
            start = self._pieces[index].end if index < len(self._pieces) else end
            index += 1

    def _piece_with(self, offset: int, size: int) -> _Piece:
        """Return the piece with the byte at an offset; it and the next ones are being fetched."""
        with self._lock:
            if self.closed:
                raise ArchiveError(_CLOSED)
            index = bisect.bisect_right(self._pieces, offset, key=_START) - 1
            if index < 0 or self._pieces[index].end <= offset:
                index += 1
                end = min(offset + max(WINDOW_BYTES, min(size, PIECE_BYTES)), self.size)
                if index < len(self._pieces):
                    end = min(end, self._pieces[index].start)
                self._pieces.insert(index, _Piece(offset, end))
            found = self._pieces[index]
            for piece in islice(self._pieces, index, index + AHEAD):
                if piece.future is None:
                    piece.future = self._pool.submit(self._ranges.read, piece.start, piece.end)
                    self._fetched.append(piece)
                    self._held += piece.end - piece.start
            self._forget(found)
        return found

    def _forget(self, kept: _Piece) -> None:
        """Forget the oldest pieces that were fetched, if they take too much memory."""
        while self._held > HELD_BYTES + AHEAD * PIECE_BYTES and self._fetched[0] is not kept:
            oldest = self._fetched.popleft()
            self._held -= oldest.end - oldest.start
            index = bisect.bisect_left(self._pieces, oldest.start, key=_START)
            if index < len(self._pieces) and self._pieces[index] is oldest:
                del self._pieces[index]

    def _data_of(self, piece: _Piece) -> bytes:
        future = piece.future
        assert future is not None  # `_piece_with` began to fetch it
        try:
            return future.result()
        except CancelledError:
            raise ArchiveError(_CLOSED) from None
        except Exception:
            with self._lock:
                if piece.future is future:
                    piece.future = None  # whoever reads it again tries again
                    if piece in self._fetched:
                        self._fetched.remove(piece)
                        self._held -= piece.end - piece.start
            raise


def _joined(ranges: Iterable[tuple[int, int]], size: int) -> list[tuple[int, int]]:
    """Return ranges in order, and those with small gaps between them as one."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted((max(start, 0), min(end, size)) for start, end in ranges):
        if joined and start <= joined[-1][1] + GAP_BYTES:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        elif start < end:
            joined.append((start, end))
    return joined


def open_remote(file: RemoteFile, attempts: Attempts) -> RemoteSource:
    """Open a remote file; its end is read.

    Raises:
        OSError: there is no such file, or access is denied.
        RemoteError: the file cannot be read.
    """
    return RemoteSource(ranges_of(file, attempts))
