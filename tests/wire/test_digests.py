"""The manifest: digests of all records, which `verify` compares, and which stand in the way of no reader."""

from __future__ import annotations

import hashlib
import io
import json
import random
import subprocess
import sys
import threading
import time
import tracemalloc
import weakref
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from inside.wire import (
    MANIFEST,
    ArchiveReader,
    ArchiveWriter,
    Digests,
    Document,
    begin_digests,
    digests,
    read_manifest,
    write_package,
)
from torch import nn
from torch.export import export

import graphwire
from graphwire import Payloads, errors


@pytest.fixture(scope="module")
def data() -> bytes:
    return graphwire.dumps(export(nn.Linear(700, 700), (torch.ones(1, 700),)), extra_files={"note": b"hello"})


def records(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def rewritten(data: bytes, **changes: bytes | None) -> bytes:
    stream = io.BytesIO()
    with ArchiveWriter(stream, records={}) as archive:
        for name, content in {**records(data), **changes}.items():
            if content is not None:
                archive.write(name, content, compress=False)
    return stream.getvalue()


@pytest.fixture(scope="module")
def many() -> bytes:
    """A program with 60 small weights of 5.4 MiB together, and two that are large."""
    small = [torch.rand(256 * (1 + index % 180)) for index in range(0, 2400, 40)]
    return graphwire.dumps(
        export(_Sum(nn.ParameterList([*small, *torch.rand(2, 1 << 18)])), (torch.ones(1),))
    )


class _Bytes:
    """A record of zeros, which are there anyway."""

    lends = True

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes

    def view(self) -> memoryview:
        return memoryview(bytes(self.nbytes))


def sha256(*contents: bytes) -> str:
    return hashlib.sha256(b"".join(contents)).hexdigest()


@pytest.mark.parametrize("fixture", ["data", "many"])
def test_every_record_is_listed_with_a_digest(request: pytest.FixtureRequest, fixture: str) -> None:
    data = request.getfixturevalue(fixture)
    found = records(data)
    manifest = json.loads(found.pop(MANIFEST))
    listed = dict(manifest["sha256"])
    assert listed == {name: sha256(found[name]) for name in listed}
    for together in manifest["together"]:
        assert together["sizes"] == {name: len(found[name]) for name in together["sizes"]}
        assert together["sha256"] == sha256(*(found[name] for name in together["sizes"]))
        assert max(together["sizes"].values()) < 1 << 20
        assert sum(together["sizes"].values()) <= 4 << 20
        assert listed.keys().isdisjoint(together["sizes"])
        listed.update(together["sizes"])
    assert listed.keys() == found.keys()
    assert graphwire.verify(data) == []


def test_what_shares_a_digest_does_not_depend_on_who_hashes_it(
    many: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ahead by a thread, where the memory is there; else as it is written."""
    path = tmp_path / "many.pt2"
    graphwire.save(graphwire.loads(many), path)
    assert path.read_bytes() == many
    for source in (many, path):  # copied, mapped
        stream = io.BytesIO()
        graphwire.convert(source, stream, format="json")
        assert records(stream.getvalue()) == records(many)
    hashed_by: set[str] = set()
    begun = threading.Event()
    together, helped = digests._Thread.hash_all, digests._Group.hash_here

    def told(thread: Any, views: Sequence[memoryview]) -> Any:
        hashed_by.add(threading.current_thread().name)
        begun.set()
        return together(thread, views)

    def helped_later(group: Any) -> None:
        assert begun.wait(60)  # a thread that has had no turn by then hashes nothing
        helped(group)

    monkeypatch.setattr(digests._Thread, "hash_all", told)
    monkeypatch.setattr(digests, "_processors", lambda: 1)
    assert graphwire.dumps(graphwire.loads(many)) == many
    assert hashed_by == set()
    monkeypatch.setattr(digests, "_processors", lambda: 4)
    with monkeypatch.context() as patched:
        patched.setattr(digests._Group, "hash_here", helped_later)
        assert graphwire.dumps(graphwire.loads(many)) == many
    assert hashed_by == {"graphwire-sha256_0"}, (
        "the one that writes helps in the end, and copies nothing for it"
    )
    monkeypatch.setattr(threading.Thread, "start", _no_thread)
    assert graphwire.dumps(graphwire.loads(many)) == many


def _no_thread(_thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


LATE = """
import atexit, sys, threading, time
import graphwire
program = graphwire.load(sys.argv[1])

def late():
    threading.main_thread().join()
    graphwire.save(program, sys.argv[2])

threading.Thread(target=late).start()
atexit.register(graphwire.save, program, sys.argv[3])
"""


@pytest.mark.slow
def test_programs_are_saved_when_the_interpreter_ends(many: bytes, tmp_path: Path) -> None:
    names = [str(tmp_path / name) for name in ("many.pt2", "late.pt2", "atexit.pt2")]
    Path(names[0]).write_bytes(many)
    done = subprocess.run([sys.executable, "-c", LATE, *names], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert [Path(name).read_bytes() == many for name in names] == [True] * 3


def test_of_records_that_share_a_digest_the_damaged_one_is_named(many: bytes) -> None:
    with zipfile.ZipFile(io.BytesIO(many)) as archive:
        member = archive.getinfo("program/data/weights/weight_5")
    at = many.index(records(many)["data/weights/weight_5"], member.header_offset)
    damaged = bytearray(many)
    damaged[at + 9] ^= 4
    assert [p.place for p in graphwire.verify(bytes(damaged))] == [f"record {member.filename!r}"]


def test_a_small_record_that_is_missing_is_found(many: bytes) -> None:
    changed = rewritten(many, **{"data/weights/weight_3": None})
    found = {(p.place, p.kind) for p in graphwire.verify(changed) if p.kind in ("record", "manifest")}
    assert found == {("record 'data/weights/weight_3'", kind) for kind in ("record", "manifest")}


def test_a_record_that_is_missing_does_not_hide_one_that_was_changed(many: bytes, tmp_path: Path) -> None:
    """A program loads without its example inputs."""
    weight = bytearray(records(many)["data/weights/weight_59"])
    weight[7] ^= 1
    changes = {"data/weights/weight_59": bytes(weight), "data/sample_inputs/tensor_0": None}
    together = json.loads(records(many)[MANIFEST])["together"]
    assert any(changes.keys() <= each["sizes"].keys() for each in together)
    changed = rewritten(many, **changes)
    with pytest.raises(errors.ArchiveError, match=r"tensor_0.*cannot be compared"):
        graphwire.loads(changed, verify=True)
    with pytest.raises(errors.ArchiveError, match=r"tensor_0.*cannot be compared"):
        graphwire.convert(changed, tmp_path / "converted.pt2", format="cbor")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("processors", [1, 2])
def test_a_record_of_another_length_than_announced_is_refused(
    monkeypatch: pytest.MonkeyPatch, processors: int
) -> None:
    class Short(_Bytes):
        def view(self) -> memoryview:
            return memoryview(bytes(self.nbytes - 1))

    monkeypatch.setattr(digests, "_processors", lambda: processors)
    small: dict[str, Any] = {f"data/weights/weight_{index}": _Bytes(1 << 18) for index in range(3)}
    payloads = Payloads(records={**small, "data/weights/weight_3": Short(1 << 18)})
    with pytest.raises(errors.ArchiveError, match="announced with 262,144 bytes but has 262,143"):
        write_package(io.BytesIO(), {"model": Document(b"{}", ".json", payloads)})


def test_a_record_that_is_written_in_chunks_may_share_a_digest() -> None:
    small = {f"weight_{index}": _Bytes(40) for index in range(2)}
    taken = Digests()
    taken.begin_groups(small)
    with ArchiveWriter(stream := io.BytesIO(), digests=taken) as archive:
        archive.write("weight_0", bytes(40), compress=False)
        archive.write_stream("weight_1", 40, [bytes(7), bytes(33)])
    (together,) = read_manifest(ArchiveReader(stream).read(MANIFEST)).together
    assert (together.sizes, together.sha256) == ({"weight_0": 40, "weight_1": 40}, sha256(bytes(80)))


@pytest.mark.parametrize("threads", [True, False])
@pytest.mark.parametrize("processors", [1, 2, 4])
def test_a_large_document_makes_the_same_file_whoever_hashes_it(
    monkeypatch: pytest.MonkeyPatch, processors: int, threads: bool
) -> None:
    """A thread does, while the document is deflated and what follows is written; that is no reason to wait for the disk twice."""
    monkeypatch.setattr(digests, "_processors", lambda: processors)
    if not threads:
        monkeypatch.setattr(threading.Thread, "start", _no_thread)
    document, extra = random.Random(1).randbytes(3 << 20), {"large": bytes(1 << 20), "small": b"hello"}
    settled: list[None] = []
    stream = io.BytesIO()
    write_package(
        stream,
        {"model": Document(document, ".json", Payloads())},
        extra,
        settle=lambda: settled.append(None),
    )
    assert settled == []
    found = records(stream.getvalue())
    listed = json.loads(found.pop(MANIFEST))["sha256"]
    assert list(listed.items()) == [(name, sha256(content)) for name, content in found.items()]


@pytest.mark.parametrize("streamed", [True, False])
def test_a_thread_that_is_had_late_hashes_nothing_twice(
    monkeypatch: pytest.MonkeyPatch, streamed: bool
) -> None:
    """One that could not be started leaves what it was given in its queue, where the next one finds it."""
    monkeypatch.setattr(digests, "_processors", lambda: 2)
    start, run = threading.Thread.start, threading.Thread.run
    refused: list[threading.Thread] = []

    def start_late(thread: threading.Thread) -> None:
        if not refused:
            refused.append(thread)
            raise RuntimeError("can't start new thread")
        start(thread)

    def run_late(thread: threading.Thread) -> None:
        time.sleep(0.004)
        run(thread)

    monkeypatch.setattr(threading.Thread, "start", start_late)
    monkeypatch.setattr(threading.Thread, "run", run_late)
    contents = {"first": random.Random(1).randbytes(8 << 20), "second": random.Random(2).randbytes(1 << 20)}
    with Digests() as taken:
        for name, content in contents.items():
            if streamed:
                taken.begin(name, len(content), lent=True)
                taken.add(memoryview(content))
            else:
                taken.take(name, memoryview(content))
        found = taken.finish().sha256
    assert refused
    assert found == {name: sha256(content) for name, content in contents.items()}


def test_a_save_that_fails_leaves_no_thread(many: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "_processors", lambda: 2)

    class Full(io.BytesIO):
        def write(self, data: Any) -> int:
            if self.tell() > 1 << 20:
                raise OSError("full")
            return super().write(data)

    program = graphwire.loads(many)
    with pytest.raises(OSError, match="full"):
        graphwire.save(program, Full())
    with pytest.raises(errors.ArchiveError):
        graphwire.save(program, io.BytesIO(), extra_files={"models/../x": b""})

    class Gone(_Bytes):
        def view(self) -> memoryview:
            raise OSError("gone")

    small = {f"weight_{index}": _Bytes(1 << 19) for index in range(8)}
    with pytest.raises(OSError, match="gone") as raised:
        begin_digests([Payloads(records={**small, "a": Gone(9), "b": Gone(9)})])
    assert raised.tb is not None  # whose frames are alive
    assert not [each for each in threading.enumerate() if each.name.startswith("graphwire-sha256")]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"sha256": 3}',
        b"[" * 100_000,
        b'{"sha256": {"a": "", "\\u0061": ""}}',
        b'{"sha256": {"\xff": ""}}',
    ],
)
def test_a_damaged_manifest_is_a_problem_and_no_hindrance(data: bytes, content: bytes) -> None:
    changed = rewritten(data, **{MANIFEST: content})
    assert [p.kind for p in graphwire.verify(changed)] == ["manifest"]
    graphwire.loads(changed)
    with pytest.raises(errors.ArchiveError, match="manifest"):
        graphwire.loads(changed, verify=True)


class _Copy(bytearray):
    """Memory that can be seen to be gone."""


@pytest.mark.parametrize("lent", [True, False])
def test_large_and_small_records_in_any_order_have_their_digests(lent: bool) -> None:
    draw = random.Random(1)
    contents = {f"record_{i}": draw.randbytes(draw.choice([0, 100, 1 << 20, 3 << 20])) for i in range(30)}
    with ArchiveWriter(stream := io.BytesIO(), digests=Digests()) as archive:
        for name, content in contents.items():
            chunks = [content[start : start + (1 << 19)] for start in range(0, len(content), 1 << 19)]
            archive.write_stream(name, len(content), chunks, lent=lent)
    listed = read_manifest(ArchiveReader(stream).read(MANIFEST)).sha256
    assert {name: listed[name] for name in contents} == {
        name: hashlib.sha256(content).hexdigest() for name, content in contents.items()
    }


def test_few_copies_are_kept_until_they_are_hashed() -> None:
    made: list[weakref.ref[_Copy]] = []

    def copies(byte: int) -> Iterator[_Copy]:
        copy = _Copy(bytes([byte]) * (2 << 20))
        made.append(weakref.ref(copy))
        yield copy

    most = 0
    with ArchiveWriter(io.BytesIO(), digests=Digests()) as archive:
        for index in range(20):
            archive.write_stream(f"copy_{index}", 2 << 20, copies(index))
            most = max(most, sum(each() is not None for each in made))
    assert 1 <= most <= 3
    assert not any(each() for each in made)


def test_a_failure_at_the_end_leaves_no_thread() -> None:
    def fails() -> None:
        raise OSError("no space")

    archive = ArchiveWriter(io.BytesIO(), digests=Digests(), settle=fails)
    for index in range(20):
        archive.write_stream(f"weight_{index}", 4 << 20, [bytes(4 << 20)], lent=True)
    with pytest.raises(OSError, match="no space"):
        archive.close()
    assert not [each for each in threading.enumerate() if each.name.startswith("graphwire-sha256")]


def test_weights_that_are_no_file_are_converted_without_all_of_them_in_memory(tmp_path: Path) -> None:
    model = nn.ParameterList(torch.rand(1 << 19) for _ in range(24))  # 2 MiB each
    data = graphwire.dumps(export(_Sum(model), (torch.ones(1),)))
    tracemalloc.start()
    try:
        graphwire.convert(data, tmp_path / "converted.pt2", format="cbor")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20
    assert graphwire.verify(tmp_path / "converted.pt2") == []


class _Sum(nn.Module):
    def __init__(self, weights: nn.ParameterList) -> None:
        super().__init__()
        self.weights = weights

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for weight in self.weights:
            x = x + weight[:1]
        return x
