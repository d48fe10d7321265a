"""What a caller gets wrong, and what he is told: what is wrong, where, and what to do."""

# ruff: noqa: E501 - a row a mistake
from __future__ import annotations

import io
import re
import resource
import signal
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.export import ExportedProgram, export

import graphwire
from graphwire import Registry, errors


class Shelf(NamedTuple):
    """A folder with files, good and bad, and a program."""

    folder: Path
    program: ExportedProgram
    streams: ExitStack

    def __truediv__(self, name: str) -> Path:
        return self.folder / name

    def open(self, name: str, mode: str) -> Any:
        return self.streams.enter_context((self / name).open(mode))


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    folder = tmp_path_factory.mktemp("shelf")
    program = export(nn.Linear(3, 2), (torch.ones(1, 3),))
    graphwire.save(program, folder / "good.pt2")
    graphwire.save({"one": program, "two": program}, folder / "two.pt2")
    data = (folder / "good.pt2").read_bytes()
    (folder / "cut.pt2").write_bytes(data[: len(data) // 2])
    (folder / "empty.pt2").write_bytes(b"")
    (folder / "text.pt2").write_text("hello\n")
    (folder / "other.json").write_text('{"a": 1}')
    torch.save(program.state_dict, folder / "weights.pt")
    graphwire.save(program, folder / "for-2.6.pt2", target="torch-2.6")
    with (
        zipfile.ZipFile(folder / "for-2.6.pt2") as intact,
        zipfile.ZipFile(folder / "without_examples.pt2", "w") as spoilt,
    ):
        for record in intact.infolist():
            spoilt.writestr(
                record, b"no pickle" if "example_inputs" in record.filename else intact.read(record)
            )
    with ExitStack() as streams:
        yield Shelf(folder, program, streams)


def _closed(path: Path) -> io.BufferedReader:
    with path.open("rb") as stream:
        return stream


S, L = graphwire.save, graphwire.load
MISTAKES: dict[str, tuple[Callable[[Shelf], Any], type[Exception], str]] = {
    "a null character to read": (lambda s: L(f"{s.folder}/a\0b"), errors.ArchiveError, "null character, .* Pass another name"),
    "a null character to write": (lambda s: S(s.program, f"{s.folder}/a\0b"), errors.ArchiveError, "null character, .* Pass another name"),
    "a number as device": (lambda s: L(s / "good.pt2", device=3.5), errors.DecodeError, "does not support the device 3.5. Use"),
    "a list as device": (lambda s: L(s / "good.pt2", device=[]), errors.DecodeError, r"does not support the device \[\]. Use"),
    "no such file": (lambda s: L(s / "none.pt2"), FileNotFoundError, r"none\.pt2"),
    "a folder": (lambda s: L(s.folder), errors.ArchiveError, "folder, not an archive. Name the file inside it"),
    "an empty file": (lambda s: L(s / "empty.pt2"), errors.ArchiveError, r"empty\.pt2: the file is empty"),
    "a text": (lambda s: L(s / "text.pt2"), errors.ArchiveError, r"text\.pt2: this is not an archive"),
    "half a file": (lambda s: L(s / "cut.pt2"), errors.ArchiveError, r"cut\.pt2: .*was cut"),
    "a file of torch.save": (lambda s: L(s / "weights.pt"), errors.ArchiveError, "torch.save .*wrote it. Export the module"),
    "other JSON": (lambda s: L(s / "other.json"), errors.SchemaError, "does not declare the version of its schema"),
    "nothing": (lambda s: L(None), errors.ArchiveError, "None is not a path, a binary file or bytes"),
    "a number": (lambda s: L(3), errors.ArchiveError, "a value of type int is not a path"),
    "a stream of text": (lambda s: L(s.open("good.pt2", "r")), errors.ArchiveError, 'binary mode, "rb"'),
    "a stream to write to": (lambda s: L(s.open("new", "wb")), errors.ArchiveError, 'returns no bytes .*Open the file with "rb"'),
    "a closed stream": (lambda s: L(_closed(s / "good.pt2")), errors.ArchiveError, "closed"),
    "one of several programs": (lambda s: L(s / "two.pt2"), errors.ArchiveError, "'one', 'two'. Pass method="),
    "another method": (lambda s: L(s / "two.pt2", method="three"), errors.ArchiveError, "no program 'three'. It holds 'one', 'two'"),
    "an unknown device": (lambda s: L(s / "good.pt2", device="gpu"), errors.DecodeError, "device 'gpu'. Use torch's device names"),
    "no place of weights": (lambda s: L(s / "good.pt2", weights=3), errors.ArchiveError, "a path, a Checkpoint"),
    "an unknown policy": (lambda s: L(s / "good.pt2", unknown_ops="skip"), errors.DecodeError, "'error', 'opaque'"),
    "an unknown plugin": (lambda s: L(s / "good.pt2", registry=Registry.only("none")), errors.PluginError, "names none, and no plugin"),
    "a module": (lambda s: S(nn.Linear(3, 2), s / "new"), errors.EncodeError, "Export it first"),
    "a state dict": (lambda s: S(s.program.state_dict, s / "new"), errors.EncodeError, "program 'weight': .*Parameter"),
    "the file first": (lambda s: S(str(s / "new"), s.program), errors.EncodeError, "Pass the program first"),
    "a list of programs": (lambda s: S([s.program], s / "new"), errors.EncodeError, "list is not an exported program"),
    "no programs": (lambda s: S({}, s / "new"), errors.EncodeError, "no program to save"),
    "a number as a name": (lambda s: S({1: s.program}, s / "new"), errors.EncodeError, "is a string, not 1"),
    "an unknown format": (lambda s: S(s.program, s / "new", format="yaml"), errors.UnknownFormatError, "Installed: .*json"),
    "a format in capitals": (lambda s: S(s.program, s / "new", format="JSON"), errors.UnknownFormatError, "Did you mean 'json'"),
    "a release that is none": (lambda s: S(s.program, s / "new", target="2.66"), errors.SchemaVersionError, "Did you mean 'torch-2."),
    "a format that a target does not read": (lambda s: S(s.program, s / "new", target="torch-2.6", format="cbor"), errors.EncodeError, 'format="json"'),
    "unknown containers": (lambda s: S(s.program, s / "new", containers="all"), errors.EncodeError, "'named', 'plain'"),
    "a number as an extra file": (lambda s: S(s.program, s / "new", extra_files={"a": 3}), errors.EncodeError, r"extra_files\['a'\]: .*not int"),
    "a list of extra files": (lambda s: S(s.program, s / "new", extra_files=["a"]), errors.EncodeError, "takes Mapping, not"),
    "an extra file outside": (lambda s: S(s.program, s / "new", extra_files={"../a": b""}), errors.ArchiveError, "steps out"),
    "a folder to save to": (lambda s: S(s.program, s.folder), IsADirectoryError, "name a file inside it"),
    "a folder that is not there": (lambda s: S(s.program, s / "no" / "new"), FileNotFoundError, "no such folder: .*no'"),
    "a stream that takes text": (lambda s: S(s.program, s.open("new", "w")), errors.ArchiveError, 'binary mode, "wb"'),
    "a stream to read from": (lambda s: S(s.program, s.open("good.pt2", "rb")), errors.ArchiveError, 'Open the file with "wb"'),
    "a plugin as the registry": (lambda s: L(s / "good.pt2", registry=io), errors.PluginError, r"not a module. Registry\.only\(name.*Registry\.of\(plugin"),
    "a number as a plugin": (lambda s: L(s / "good.pt2", registry=Registry.only(3)), errors.PluginError, "by its name, not by 3"),
    "numbers as limits": (lambda s: L(s / "good.pt2", limits=5), errors.DecodeError, r"takes Limits, not a value of type int. graphwire\.Limits\(program_bytes"),
    "the class of limits": (lambda s: L(s / "good.pt2", limits=graphwire.Limits), errors.DecodeError, "not the class Limits"),
    "a text as a limit": (lambda s: graphwire.Limits(program_bytes="1 GiB"), errors.DecodeError, "program_bytes= of Limits is '1 GiB', not an integer from 0"),
    "a limit below nothing": (lambda s: graphwire.PickleLimits(steps=-1), errors.DecodeError, "steps= of PickleLimits is -1, not"),
    "a number as limits of pickles": (lambda s: graphwire.Limits(pickle=5), errors.DecodeError, "not graphwire.PickleLimits"),
    "no attempts": (lambda s: graphwire.Attempts(count=0), errors.DecodeError, "count= of Attempts is 0. Pass 1 or more"),
    "a text as seconds": (lambda s: graphwire.Attempts(wait="1s"), errors.DecodeError, "wait= of Attempts is '1s', not a number"),
    "a number as a folder of blobs": (lambda s: graphwire.Blobs(3), errors.ArchiveError, "location= of Blobs is a value of type int"),
    "nothing as a checkpoint": (lambda s: graphwire.Checkpoint(None), errors.ArchiveError, "location= of Checkpoint is None. Pass a path"),
    "a list as names": (lambda s: graphwire.Checkpoint("a", names=["b"]), errors.ArchiveError, "names= of Checkpoint is a value of type list"),
    "no mapping as shards": (lambda s: graphwire.Checkpoint("a", shard=None, ranks=2), errors.ArchiveError, "shard= of Checkpoint is None"),
    "the class Blobs as weights": (lambda s: S(s.program, s / "new", weights=graphwire.Blobs), errors.ArchiveError, "weights= is the class Blobs"),
    "a number as a report": (lambda s: S(s.program, s / "new", report=3), errors.EncodeError, "report= is a value of type int. Pass a function"),
    "a list as a report": (lambda s: L(s / "good.pt2", report=[]), errors.DecodeError, "report= is a value of type list. Pass a function"),
    "a list as a method": (lambda s: L(s / "good.pt2", method=["a"]), errors.DecodeError, "method= is a value of type list"),
    "a number as a cache": (lambda s: L(s / "good.pt2", cache=3), errors.DecodeError, "cache= is a value of type int. Pass the path of a folder"),
    "a number as a treespec": (lambda s: graphwire.treespec_loads(3), errors.DecodeError, "a treespec is text or bytes, not a value of type int"),
    "numbers as limits of a document": (lambda s: graphwire.decode(b"{}", limits=5), errors.DecodeError, "takes Limits"),
    "a format object": (lambda s: S(s.program, s / "new", format=None), errors.UnknownFormatError, "not by None. Installed: .*json"),
    "a number as target": (lambda s: S(s.program, s / "new", target=2.6), errors.SchemaVersionError, r"not by 2\.6. Targets are "),
    "an opset for everything": (lambda s: S(s.program, s / "new", opset_version=9), errors.OpsetError, "not a mapping of namespaces"),
    "an opset as text": (lambda s: S(s.program, s / "new", opset_version={"aten": "9"}), errors.OpsetError, "not a mapping of namespaces"),
    "a dict as payloads": (lambda s: graphwire.from_schema(graphwire.to_schema(s.program)[0], {}), errors.DecodeError, "takes Payloads, not a value of type dict"),
    "a program for records": (lambda s: graphwire.encode(s.program), errors.SchemaError, "graphwire.to_schema converts"),
    "a text for a document": (lambda s: graphwire.decode("{}"), errors.FormatError, "bytes, not str"),
    "a mapping to compare with": (lambda s: graphwire.diff(s / "good.pt2", {}), errors.EncodeError, "dict: this is neither a file nor a program"),
    "a module to hash": (lambda s: graphwire.content_hash(nn.Linear(1, 1)), errors.EncodeError, "Export it first"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_with_what_to_do(mistake: str, shelf: Shelf) -> None:
    make, error, told = MISTAKES[mistake]
    with pytest.raises(error) as caught:
        make(shelf)
    assert re.search(told, str(caught.value), re.DOTALL), str(caught.value)
    assert len(str(caught.value)) < 1000
    assert not [path for path in shelf.folder.iterdir() if path.name.endswith(".part")]


C = graphwire.convert
WRONG_OPTIONS: dict[str, Callable[[Shelf], Any]] = {
    "target": lambda s: C(s / "good.pt2", s / "unwritten", target="9.9"),
    "target of supports": lambda s: graphwire.supports(s / "good.pt2", "9.9"),
    "target of save": lambda s: S(s.program, s / "unwritten", target="9.9"),
    "format": lambda s: C(s / "good.pt2", s / "unwritten", format="yaml"),
    "format of upgrade": lambda s: graphwire.upgrade(s / "good.pt2", s / "unwritten", format="yaml"),
    "ranges": lambda s: C(s / "good.pt2", s / "unwritten", ranges="wide"),
    "strip": lambda s: C(s / "good.pt2", s / "unwritten", strip=["all"]),
    "unknown_ops": lambda s: L(s / "good.pt2", unknown_ops="skip"),
}


@pytest.mark.parametrize("wrong", WRONG_OPTIONS)
def test_a_wrong_option_is_not_blamed_on_a_file_or_record(wrong: str, shelf: Shelf) -> None:
    with pytest.raises(errors.GraphwireError) as caught:
        WRONG_OPTIONS[wrong](shelf)
    assert caught.value.argument == wrong.partition(" ")[0]
    assert caught.value.file == caught.value.record == caught.value.place == ""
    assert not (shelf / "unwritten").exists()


WARNED = {
    "save": lambda s, noted: S(noted, io.BytesIO()),
    "dumps": lambda s, noted: graphwire.dumps(noted, format="cbor"),
    "to_schema": lambda s, noted: graphwire.to_schema(noted),
    "content_hash": lambda s, noted: graphwire.content_hash(noted),
    "view": lambda s, noted: graphwire.view(s / "good.pt2", overlay={"ms": {"linear": 1, "other": 2}}),
    "load": lambda s, noted: L(s / "without_examples.pt2"),
    "convert": lambda s, noted: C(s / "without_examples.pt2", io.BytesIO()),
    "upgrade": lambda s, noted: graphwire.upgrade(s / "without_examples.pt2", io.BytesIO(), format="cbor"),
}


@pytest.mark.parametrize("call", WARNED)
def test_a_warning_names_the_line_of_the_caller(call: str, shelf: Shelf) -> None:
    noted = export(nn.Linear(3, 2), (torch.ones(1, 3),))
    for node in noted.graph.nodes:
        node.meta["note of mine"] = 1
    with pytest.warns(errors.GraphwireWarning) as caught:
        WARNED[call](shelf, noted)
    assert {each.filename for each in caught} == {__file__}


def test_a_full_disk_names_the_file_and_leaves_the_old_one(shelf: Shelf) -> None:
    before = (shelf / "good.pt2").read_bytes()
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(OSError, match=r"good\.pt2"):
            graphwire.save(shelf.program, shelf / "good.pt2")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert (shelf / "good.pt2").read_bytes() == before
