"""Archives beyond 32 bits, and the memory that large records take."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from inside.wire import ArchiveReader, ArchiveWriter

GIB = 1 << 30
ZEROS = bytes(1 << 20)


class Sparse(io.RawIOBase):
    """A file that turns pieces of ZEROS into holes."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("w+b", buffering=0)

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if isinstance(data, memoryview) and data.obj is ZEROS:
            self.file.seek(len(data), io.SEEK_CUR)
            return len(data)
        return self.file.write(data)

    def close(self) -> None:
        self.file.close()
        super().close()


@pytest.fixture(scope="module")
def beyond_32_bits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive with a record of more than 4 GiB, and others behind it."""
    path = tmp_path_factory.mktemp("large") / "large.pt2"
    count = (4 * GIB >> 20) + 3
    with Sparse(path) as stream, ArchiveWriter(stream) as archive:
        archive.write_stream("data/weights/large", (count << 20) + 4, [*[ZEROS] * count, b"last"])
        archive.write_stream("data/weights/behind", 3, [b"abc"])
        archive.write("models/model.json", b"{}" * 100, compress=True)
    assert path.stat().st_blocks * 512 < 64 << 20
    return path


def test_records_and_offsets_beyond_4_gib(beyond_32_bits: Path) -> None:
    with ArchiveReader(beyond_32_bits) as archive:
        assert archive.size("data/weights/large") > 4 * GIB
        assert archive.offset("data/weights/behind") > 4 * GIB
        assert archive.offset("data/weights/behind") % 64 == 0
        assert archive.read("data/weights/behind") == b"abc"
        assert archive.read("models/model.json") == b"{}" * 100
        view = archive.map("data/weights/large")
        assert bytes(view[-5:]) == b"\0last"


def test_others_read_beyond_4_gib(beyond_32_bits: Path) -> None:
    with zipfile.ZipFile(beyond_32_bits) as archive:
        assert archive.getinfo("program/data/weights/large").file_size > 4 * GIB
        assert archive.read("program/data/weights/behind") == b"abc"
    torch = pytest.importorskip("torch")
    reference = torch._C.PyTorchFileReader(str(beyond_32_bits))
    assert reference.get_record("data/weights/behind") == b"abc"
    assert reference.get_record("models/model.json") == b"{}" * 100
    with ArchiveReader(beyond_32_bits) as ours:
        for name in ours.names:
            assert reference.get_record_offset(name) == ours.offset(name)


@pytest.mark.slow
def test_more_records_than_16_bits_count() -> None:
    stream = io.BytesIO()
    names = [f"data/weights/weight_{index}" for index in range(66_000)]
    with ArchiveWriter(stream) as archive:
        for name in names:
            archive.write_stream(name, 4, [b"abcd"])
    with ArchiveReader(stream) as reader:
        assert reader.names[4:] == tuple(names)
        assert reader.read(names[-1]) == b"abcd"
    with zipfile.ZipFile(stream) as archive_of_others:
        assert len(archive_of_others.namelist()) == 66_004
    torch = pytest.importorskip("torch")
    stream.seek(0)
    assert torch._C.PyTorchFileReader(stream).get_record(names[-1]) == b"abcd"


MEASURE = """
import json, mmap, sys, time
from pathlib import Path
from graphwire.wire.archive.reader import ArchiveReader
from graphwire.wire.archive.writer import ArchiveWriter

def resident(field):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024

class Discard:
    def write(self, data):
        return len(data)

path = sys.argv[1]
weights = memoryview(mmap.mmap(-1, 1 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
before = resident("VmHWM")
with ArchiveWriter(Discard()) as archive:
    archive.write_stream("data/weights/w", 1 << 30, [weights])
written = resident("VmHWM") - before

before = resident("VmRSS")
started = time.process_time()
with ArchiveReader(path) as archive:
    views = [archive.map(name) for name in archive.names if name.startswith("data/")]
seconds = time.process_time() - started
print(json.dumps([written, resident("VmRSS") - before, sum(map(len, views)), seconds]))
"""


def test_one_gib_is_written_and_mapped_in_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "gib.pt2"
    with Sparse(path) as stream, ArchiveWriter(stream) as archive:
        for index in range(16):
            archive.write_stream(f"data/weights/weight_{index}", 64 << 20, [ZEROS] * 64)
    command = [sys.executable, "-c", MEASURE, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    written, mapped, total, seconds = json.loads(done.stdout)
    assert total == GIB
    assert written < 16 << 20
    assert mapped < 4 << 20
    assert seconds < 0.25


def test_verifying_takes_little_memory(beyond_32_bits: Path, tmp_path: Path) -> None:
    path = tmp_path / "quarter.pt2"
    with Sparse(path) as stream, ArchiveWriter(stream) as archive:
        archive.write_stream("w", 256 << 20, [ZEROS] * 256)
    code = (
        "import resource, sys; from graphwire.wire.archive.reader import ArchiveReader;"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; ArchiveReader(sys.argv[1]).verify('w');"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 8 << 10
