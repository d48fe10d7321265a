"""Uses every function that needs no torch in several threads at once, and compares their results with those of one thread.

    python tests/process/at_once.py FILE… [--threads 8] [--measure]

It needs graphwire's dependencies alone, so it runs on an interpreter for which there is no torch, such as one without a
global lock. Threads begin in a fresh process: they import modules, discover plugins and fill caches at the same time.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

FORMATS = "json", "msgpack", "cbor"

Facts = dict[str, str]
"""What a function found, by its name and file."""


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _each_function(path: Path, other: Path, shared: Any) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield functions over a file, by name. What they return is equal wherever and whenever they are called."""
    import graphwire  # at its first use: threads import it at once

    def converted(format: str) -> str:
        buffer = io.BytesIO()
        graphwire.convert(path, buffer, format=format)
        return _digest(buffer.getvalue())

    def upgraded() -> object:
        buffer = io.BytesIO()
        plans = graphwire.upgrade(path, buffer)
        return _digest(buffer.getvalue()), plans

    def documents() -> list[str]:
        with graphwire.open(path) as archive:
            found = []
            for format in FORMATS:
                document = graphwire.encode(archive.program, format)
                if graphwire.decode(document, format) != archive.program:
                    raise AssertionError(f"{path}: the document in {format} has another program")
                found.append(_digest(document))
            return found

    yield "inspect", lambda: graphwire.inspect(path)
    yield "verify", lambda: graphwire.verify(path)
    yield "hash", lambda: graphwire.content_hash(path, weights=True)
    yield "diff", lambda: graphwire.diff(path, other)
    yield "weights", lambda: graphwire.weights(path)
    yield "targets", lambda: graphwire.targets(path)
    yield "documents", documents
    yield "upgrade", upgraded
    yield from ((f"convert to {each}", lambda each=each: converted(each)) for each in FORMATS)
    yield "one archive", lambda: (graphwire.content_hash(shared), graphwire.inspect(shared), shared.program)


def _facts(files: Sequence[Path], archives: dict[Path, Any], first: int = 0) -> Facts:
    """Return what the functions find in the files. Begins with the file of the given number."""
    from graphwire.errors import GraphwireError

    found = {}
    for number in range(first, first + len(files)):
        path, other = (files[each % len(files)] for each in (number, number + 1))
        for name, function in _each_function(path, other, archives[path]):
            try:
                found[f"{path}: {name}"] = repr(function())
            except GraphwireError as error:
                found[f"{path}: {name}"] = f"{type(error).__name__}: {error}"
    return found


def _archives(files: Sequence[Path]) -> dict[Path, Any]:
    import graphwire

    return {path: graphwire.open(path) for path in files}


def in_threads(files: Sequence[Path], count: int) -> list[Facts]:
    """Return what each thread found. Even ones read the same file at the same time, odd ones different files."""
    results: list[Facts] = []
    failures: list[str] = []
    together = threading.Barrier(count)
    archives: dict[Path, Any] = {}

    def work(number: int) -> None:
        try:
            together.wait()
            opened = _archives(files)  # the first imports of the process
            if not together.wait():
                archives.update(opened)
            together.wait()
            results.append(_facts(files, archives, number if number % 2 else 0))
        except BaseException:
            together.abort()
            failures.append(traceback.format_exc())

    threads = [threading.Thread(target=work, args=[number]) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise SystemExit("\n".join(failures))
    return results


def _measure(files: Sequence[Path]) -> None:
    """Print what the same work takes in one thread and in two."""
    archives = _archives(files)
    for count in (1, 2, 1, 2):
        parts = [files[number::count] for number in range(count)]
        threads = [threading.Thread(target=_facts, args=[part, archives]) for part in parts]
        started = time.perf_counter(), time.process_time()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wall, processor = time.perf_counter() - started[0], time.process_time() - started[1]
        print(f"{count} threads: {wall:.2f} s, {processor:.2f} s of processor time")


def main() -> None:
    """Compare, and with `--measure` print times."""
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--measure", action="store_true")
    options = parser.parse_args()
    sys.setswitchinterval(1e-5)  # with a global lock, threads take turns often
    found = in_threads(options.files, options.threads)
    expected = _facts(options.files, _archives(options.files))
    different = {
        name: [expected[name], facts[name]]
        for facts in found
        for name in expected
        if facts[name] != expected[name]
    }
    for name, (right, wrong) in different.items():
        print(f"{name}\n  one thread: {right[:2000]}\n  at once:    {wrong[:2000]}", file=sys.stderr)
    if different:
        raise SystemExit(f"{len(different)} results differ")
    lock = getattr(sys, "_is_gil_enabled", lambda: True)()
    errors = sum(text.split(":")[0].endswith("Error") for text in expected.values())
    print(f"{len(found)} threads, {len(expected)} results each, {errors} of them errors, global lock: {lock}")
    if options.measure:
        sys.setswitchinterval(5e-3)
        _measure(options.files)


if __name__ == "__main__":
    main()
