"""PyTorch's own reader and writer on the other side of our archives."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from inside.wire import PT2_RECORDS, ArchiveReader, ArchiveWriter

torch = pytest.importorskip("torch")


class Small(torch.nn.Module):  # type: ignore[misc,name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 5)
        self.register_buffer("offset", torch.arange(5.0))

    def forward(self, x: Any) -> Any:
        return self.linear(x) + self.offset


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("torch") / "small.pt2"
    torch.export.save(torch.export.export(Small().eval(), (torch.ones(2, 8),)), path)
    return path


def rewritten(theirs: Path, stream: Any) -> None:
    """Their records in an archive of ours: the program deflated, the rest streamed."""
    with ArchiveReader(theirs) as source, ArchiveWriter(stream) as target:
        for name in source.names:
            if name in PT2_RECORDS:
                continue
            if name.startswith("models/"):
                target.write(name, source.read(name), compress=True)
            else:
                target.write_stream(name, source.size(name), [source.map(name)])


def test_our_reader_reads_what_torch_wrote(theirs: Path) -> None:
    reference = torch._C.PyTorchFileReader(str(theirs))
    with ArchiveReader(theirs) as archive:
        assert archive.root == "small"
        assert list(archive.names) == reference.get_all_records()
        for name in archive.names:
            data = reference.get_record(name)
            assert archive.read(name) == data
            assert bytes(archive.map(name)) == data
            assert archive.offset(name) == reference.get_record_offset(name)
            archive.verify(name)


def test_torch_reads_what_our_writer_wrote(theirs: Path, tmp_path: Path) -> None:
    path = tmp_path / "ours.pt2"
    with path.open("wb") as file:
        rewritten(theirs, file)
    for source in (str(path), io.BytesIO(path.read_bytes())):
        reference = torch._C.PyTorchFileReader(source)
        with ArchiveReader(path) as archive:
            assert reference.get_all_records() == list(archive.names)
            for name in archive.names:
                assert reference.get_record(name) == archive.read(name)
                assert reference.get_record_offset(name) == archive.offset(name)
