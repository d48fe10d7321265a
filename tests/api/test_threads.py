"""Many threads at once: no error, and nothing of one program in another."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from programs import structured
from small_programs import SMALL_PROGRAMS
from torch.export import ExportedProgram

import graphwire
from graphwire.testing import assert_same_program

ROUNDS = 100
FORMATS = ("json", "msgpack", "cbor")
NAMES = (
    "unbacked_sizes",
    "cond",
    "custom_operator",
    "preserved_module_calls",
    "buffers_and_constants",
    "mutated_inputs",
    "tied_weights",
)
THREADS = 1 + len(NAMES)


@pytest.fixture(scope="module")
def programs() -> list[ExportedProgram]:
    """A program for each thread, as different as they are."""
    return [structured().program, *(SMALL_PROGRAMS[name]().program for name in NAMES)]


@pytest.fixture(autouse=True)
def _switch_often() -> Iterator[None]:
    """Let threads take turns ten times as often as they do, to meet in more places."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(usual / 10)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.slow
def test_eight_threads_save_and_load_different_programs_a_hundred_times(
    programs: list[ExportedProgram],
) -> None:
    expected = [
        {format: graphwire.dumps(program, format=format) for format in FORMATS} for program in programs
    ]
    start = Barrier(THREADS)

    def work(thread: int) -> None:
        program, files = programs[thread], expected[thread]
        start.wait()
        for turn in range(ROUNDS):
            format = FORMATS[(turn + thread) % len(FORMATS)]
            assert graphwire.dumps(program, format=format) == files[format]
            loaded = graphwire.loads(files[format])
            assert graphwire.dumps(loaded, format=format) == files[format]
        assert_same_program(loaded, program)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))


def test_eight_threads_share_an_open_file(programs: list[ExportedProgram]) -> None:
    names = [str(index) for index in range(THREADS)]
    data = graphwire.dumps(dict(zip(names, programs, strict=True)), format="cbor")
    start = Barrier(THREADS)
    with graphwire.open(data) as archive:

        def work(thread: int) -> None:
            start.wait()
            for turn in range(THREADS):
                index = (thread + turn) % THREADS
                record = archive.program_of(names[index])
                program = graphwire.from_schema(record, archive.payloads_of(names[index]))
                assert_same_program(program, programs[index])

        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(work, range(THREADS)))


_FIRST_READ = """
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import graphwire

sys.setswitchinterval(1e-6)
start = Barrier(16)

def read(_):
    start.wait()
    with graphwire.open(sys.argv[1]) as archive:
        return archive.program, archive.payloads.weights

with ThreadPoolExecutor(16) as pool:
    first, *others = pool.map(read, range(16))
assert all(other == first for other in others)
"""


@pytest.mark.parametrize("attempt", range(3))
def test_the_first_programs_of_a_process_may_be_read_by_many_threads(attempt: int, small_file: Path) -> None:
    """What msgspec finds out about a type at its first use crashed the process two times in three."""
    command = [sys.executable, "-c", _FIRST_READ, small_file]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
