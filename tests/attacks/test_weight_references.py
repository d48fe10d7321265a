"""Hostile references to weights outside of a file: each is refused, with its place, before an element is read."""

from __future__ import annotations

import contextlib
import copy
import json
import multiprocessing
import os
import socket
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

import graphwire
from graphwire import errors
from graphwire.wire.weights import Folder

RECORD = "program/data/weights/references.json"
Table = dict[str, Any]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program of two linear layers, beside two shards with an index, and a secret above its folder."""
    folder = tmp_path_factory.mktemp("home") / "programs"
    folder.mkdir()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 4))
    program = torch.export.export(model, (torch.ones(2, 8),))
    state = {name: value.detach().clone() for name, value in model.state_dict().items()}
    shards = {
        "w-00001-of-00002.safetensors": ("0.weight", "0.bias"),
        "w-00002-of-00002.safetensors": ("1.weight", "1.bias"),
    }
    for shard, names in shards.items():
        save_file({name: state[name] for name in names}, folder / shard)
    index = {"metadata": {}, "weight_map": {name: shard for shard, names in shards.items() for name in names}}
    (folder / "w.safetensors.index.json").write_text(json.dumps(index))
    graphwire.save(
        program, folder / "m.pt2", weights=graphwire.Checkpoint(folder / "w.safetensors.index.json")
    )
    save_file(state, folder.parent / "secret.safetensors")
    return folder


@pytest.fixture
def here(home: Path, tmp_path: Path) -> Path:
    """A copy of the folder, to be damaged."""
    (tmp_path / "above").mkdir()
    there = tmp_path / "above" / "programs"
    there.mkdir()
    for path in home.iterdir():
        (there / path.name).write_bytes(path.read_bytes())
    (there.parent / "secret.safetensors").write_bytes((home.parent / "secret.safetensors").read_bytes())
    return there


def table_of(file: Path) -> Table:
    with zipfile.ZipFile(file) as archive:
        table: Table = json.loads(archive.read(RECORD))
    return table


def write_table(file: Path, data: bytes, **members: bytes) -> None:
    """Write the archive again with other references, and without a manifest, which would tell of the change."""
    with zipfile.ZipFile(file) as archive:
        kept = {name: archive.read(name) for name in archive.namelist() if not name.endswith("manifest.json")}
    kept[RECORD] = data
    kept |= {f"program/{name}": content for name, content in members.items()}
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in kept.items():
            archive.writestr(name, content)


def first(table: Table) -> Table:
    record: Table = table["records"]["data/weights/weight_0"]
    return record


def region(table: Table) -> Table:
    found: Table = first(table)["regions"][0]
    return found


def located(location: str) -> Callable[[Table], None]:
    return lambda table: table["stores"][0].update(location=location)


def housed(folder: str) -> Callable[[Table], None]:
    return lambda table: table["stores"][0].update(folder=folder)


def filed(name: str) -> Callable[[Table], None]:
    return lambda table: table["stores"][0]["files"].update({name: {"nbytes": 1}})


def with_region(**changes: Any) -> Callable[[Table], None]:
    return lambda table: region(table).update(changes)


def with_record(**changes: Any) -> Callable[[Table], None]:
    return lambda table: first(table).update(changes)


def renamed(name: str) -> Callable[[Table], None]:
    return lambda table: table["records"].update({name: table["records"].pop("data/weights/weight_0")})


BELOW = "not below the folder"
BOX = "its box"
TABLES: dict[str, tuple[Callable[[Table], object], str]] = {
    **{
        f"a location {name}": (located(text), BELOW)
        for name, text in {
            "that is absolute": "/etc/passwd",
            "above": "../secret.safetensors",
            "above, from below": "a/../../secret.safetensors",
            "of a drive": "C:/secret.safetensors",
            "of Windows": "a\\..\\secret.safetensors",
            "of a network share": "//host/share/w.safetensors",
            "that is a URL": "https://host/w.safetensors",
            "that is a file URL": "file:///etc/passwd",
            "with a stream": "w.safetensors:stream",
            "of a device of Windows": "CON.safetensors",
            "that ends with a dot": "w.safetensors.",
            "that ends with a space": "w.safetensors ",
            "with an empty name": "a//w.safetensors",
            "with a dot": "./w.safetensors",
            "with NUL": "w\0.safetensors",
            "with a control character": "w\x1b[31m.safetensors",
            "with text from right to left": "w\u202e.safetensors",
            "with a line break": "w\n.safetensors",
            "with a pipe": "w|cat.safetensors",
            "with a wildcard": "*.safetensors",
            "with a long name": "w" * 300,
            "that is long": "a/" * 3000 + "w",
        }.items()
    },
    "a folder above": (housed(".."), BELOW),
    "a folder that is absolute": (housed("/"), BELOW),
    "a folder above, from below": (housed("a/../.."), BELOW),
    "a file above": (filed("../secret.safetensors"), BELOW),
    "a file of a size below 0": (
        lambda t: t["stores"][0]["files"]["w-00001-of-00002.safetensors"].update(nbytes=-1),
        "has -1 bytes",
    ),
    "a digest that is none": (
        lambda t: t["stores"][0]["files"]["w-00001-of-00002.safetensors"].update(index_sha256="x"),
        "not a SHA-256",
    ),
    "another digest of a header": (
        lambda t: t["stores"][0]["files"]["w-00001-of-00002.safetensors"].update(index_sha256="0" * 64),
        "describes other tensors",
    ),
    "another size of a file": (
        lambda t: t["stores"][0]["files"]["w-00001-of-00002.safetensors"].update(nbytes=5),
        "bytes, and 5 when",
    ),
    "a kind that is no name": (lambda t: t["stores"][0].update(kind="../x"), "not the name of a kind"),
    "a kind that nobody has": (
        lambda t: t["stores"][0].update(kind="elsewhere"),
        "no plugin provides the weight store",
    ),
    "a store that is not there": (with_region(store=1), "there is no store 1"),
    "a store before the first": (with_region(store=-1), "there is no store -1"),
    "no stores": (lambda t: t.update(stores=[]), "there is no store 0"),
    "an element type that nobody knows": (with_region(dtype="float33"), "element type"),
    "another element type": (with_region(dtype="int32"), "has it as float32"),
    "a shape with other sizes": (with_region(shape=[4, 16]), "has it as float32"),
    "a shape below 0": (with_region(shape=[-8, 8]), "sizes that no tensor has"),
    "a shape of many dimensions": (with_region(shape=[1] * 100), "sizes that no tensor has"),
    "a shape beyond 64 bits": (
        with_region(shape=[1 << 40, 1 << 40]),
        "sizes that no tensor has|more elements",
    ),
    "a tensor that is not there": (with_region(tensor="0.wait"), "no such tensor"),
    "the tensor of another weight": (with_region(tensor="1.weight"), "has it as float32"),
    "a box of other dimensions": (with_region(box=[[0, 8, 1]]), "other dimensions"),
    "a box beyond the end": (with_region(box=[[1, 8, 1], [0, 8, 1]]), BOX),
    "a box with step 0": (with_region(box=[[0, 8, 0], [0, 8, 1]]), BOX),
    "a box that goes back": (with_region(box=[[7, 8, -1], [0, 8, 1]]), BOX),
    "a box from before the start": (with_region(box=[[-1, 8, 1], [0, 8, 1]]), BOX),
    "a box of fewer than none": (with_region(box=[[0, -1, 1], [0, 8, 1]]), BOX),
    "a box with a huge step": (with_region(box=[[0, 2, 1 << 62], [0, 8, 1]]), BOX),
    "a box whose sides have two numbers": (with_region(box=[[0, 8], [0, 8]]), "other dimensions"),
    "a box of a part": (with_region(box=[[0, 4, 1], [0, 8, 1]]), "make 128 bytes of a record of 256"),
    "an offset beyond the record": (with_region(offset=1), "reaches byte"),
    "an offset below 0": (with_region(offset=-1), "offset is out of range"),
    "a huge offset": (with_region(offset=1 << 62), "offset is out of range"),
    "strides of other dimensions": (with_region(strides=[1]), "other strides than dimensions"),
    "strides of 0": (with_region(strides=[0, 1]), "strides are out of range"),
    "strides below 0": (with_region(strides=[-8, 1]), "strides are out of range"),
    "strides that reach further": (with_region(strides=[1000, 1]), "reaches byte"),
    "two regions of one place": (
        lambda t: first(t)["regions"].append(copy.deepcopy(region(t))),
        "make the same bytes",
    ),
    "a record of terabytes": (with_record(nbytes=1 << 50), "of a record of"),
    "a record beyond 64 bits": (with_record(nbytes=1 << 70), "damaged|has .* bytes"),
    "a record of fewer bytes than none": (with_record(nbytes=-1), "has -1 bytes"),
    "a digest of a record that is none": (with_record(sha256="zz"), "not a SHA-256"),
    "a record of constants": (renamed("data/constants/tensor_0"), "not the name of a record"),
    "a record of a program": (renamed("models/model.json"), "not the name of a record"),
    "a record above": (renamed("data/weights/../../x"), "not the name of a record"),
    "a record that is the table": (renamed("data/weights/references.json"), "not the name of a record"),
    "a record under another name": (renamed("data/weights/weight_9"), "no record|missing"),
    "ranks with other records": (
        lambda t: t.update(ranks=[{}, {"data/weights/weight_1": first(t)}]),
        "other records",
    ),
    "ranks with other sizes": (
        lambda t: t.update(
            ranks=[{"data/weights/weight_1": {"nbytes": 0}}, {"data/weights/weight_1": first(t)}]
        ),
        "other records",
    ),
    "stores that are text": (lambda t: t.update(stores="safetensors"), "damaged"),
    "records that are a list": (lambda t: t.update(records=[]), "damaged"),
    "regions that are numbers": (with_record(regions=[3]), "damaged"),
}
RAW: dict[str, bytes] = {
    "no JSON": b"{",
    "no UTF-8": b'{"stores": "\xff"}',
    "deep": b'{"stores":' + b"[" * 100_000,
    "a list": b"[]",
    "nothing": b"",
    "a key twice": b'{"stores": [], "stores": []}',
}


def refused(file: Path, told: str) -> None:
    """A load and a verify refuse it with that text, allocate little, and end soon; an inspection has a result or an error."""
    tracemalloc.start()
    begin = time.monotonic()
    with pytest.raises(errors.GraphwireError, match=told):
        graphwire.load(file)
    assert tracemalloc.get_traced_memory()[1] < 64 << 20
    tracemalloc.stop()
    problems = graphwire.verify(file)
    assert problems
    assert time.monotonic() - begin < 10
    try:
        graphwire.inspect(file)
        graphwire.weights(file)
    except errors.GraphwireError:
        pass


@pytest.mark.parametrize("name", TABLES)
def test_hostile_references_are_refused(name: str, here: Path) -> None:
    change, told = TABLES[name]
    table = table_of(here / "m.pt2")
    change(table)
    write_table(here / "m.pt2", json.dumps(table).encode("utf-8", "surrogatepass"))
    refused(here / "m.pt2", told)


@pytest.mark.parametrize("name", RAW)
def test_what_is_no_table_is_refused(name: str, here: Path) -> None:
    write_table(here / "m.pt2", RAW[name])
    refused(here / "m.pt2", "damaged")


def test_a_record_that_is_in_the_file_and_elsewhere_is_refused(here: Path) -> None:
    table = table_of(here / "m.pt2")
    content = {"data/weights/weight_0": bytes(first(table)["nbytes"])}
    write_table(here / "m.pt2", json.dumps(table).encode(), **content)
    refused(here / "m.pt2", "which the archive has")


def test_a_million_regions_end_soon(here: Path) -> None:
    table = table_of(here / "m.pt2")
    first(table)["regions"] = [{**region(table), "box": [[0, 1, 1], [0, 1, 1]], "offset": 0}] * 1_000_000
    write_table(here / "m.pt2", json.dumps(table).encode())
    begin = time.monotonic()
    with pytest.raises(errors.GraphwireError):
        graphwire.load(here / "m.pt2")
    assert time.monotonic() - begin < 60


SHARD = "w-00001-of-00002.safetensors"


def _link(path: Path, to: Path) -> None:
    path.unlink()
    path.symlink_to(to)


def _replaced(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink()
    make(path)


def _socket(path: Path) -> None:
    server = socket.socket(socket.AF_UNIX)
    cwd = Path.cwd()
    os.chdir(path.parent)  # the names of sockets are short
    try:
        server.bind(path.name)
    finally:
        os.chdir(cwd)
    server.close()


def _swap(folder: Path) -> None:
    one, other = folder / SHARD, folder / "w-00002-of-00002.safetensors"
    data = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(data)


def _index(change: Callable[[Table], object]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        path = folder / "w.safetensors.index.json"
        table = json.loads(path.read_text())
        change(table)
        path.write_text(json.dumps(table))

    return apply


FOLDERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a link to the secret": (lambda f: _link(f / SHARD, f.parent / "secret.safetensors"), "symbolic link"),
    "a link to a shard beside it": (
        lambda f: _link(f / SHARD, f / "w-00002-of-00002.safetensors"),
        "symbolic link",
    ),
    "a link that leads nowhere": (lambda f: _link(f / SHARD, f / "nothing"), "symbolic link"),
    "a link in a circle": (lambda f: _link(f / SHARD, f / SHARD), "symbolic link"),
    "a device": (lambda f: _link(f / SHARD, Path("/dev/zero")), "symbolic link"),
    "a pipe": (lambda f: _replaced(f / SHARD, os.mkfifo), "not a regular file"),
    "a socket": (lambda f: _replaced(f / SHARD, _socket), "not a file|symbolic link|not a folder or a file"),
    "a folder": (lambda f: _replaced(f / SHARD, Path.mkdir), "not a regular file|not a folder or a file"),
    "shards that were swapped": (_swap, "bytes, and|other tensors|bytes when"),
    "a shard that is shorter": (lambda f: os.truncate(f / SHARD, 100), "bytes, and"),
    "a shard that is longer": (
        lambda f: (f / SHARD).write_bytes((f / SHARD).read_bytes() + b"x"),
        "bytes, and",
    ),
    "an empty shard": (lambda f: os.truncate(f / SHARD, 0), "has 0 bytes"),
    "no shard": (lambda f: (f / SHARD).unlink(), "missing"),
    "no index": (lambda f: (f / "w.safetensors.index.json").unlink(), "w.safetensors.index.json"),
    "an index that is a link": (
        lambda f: (
            (f / "i").write_bytes((f / "w.safetensors.index.json").read_bytes()),
            _link(f / "w.safetensors.index.json", f / "i"),
        ),
        "symbolic link",
    ),
    "an index that names the secret": (
        _index(lambda t: t["weight_map"].update({"0.weight": "../secret.safetensors"})),
        "secret",
    ),
    "an index without a weight": (_index(lambda t: t["weight_map"].pop("0.weight")), "0.weight|other"),
    "an index that names another shard": (
        _index(lambda t: t["weight_map"].update({"0.weight": "w-00002-of-00002.safetensors"})),
        "0.weight",
    ),
    "an index that is a list": (lambda f: (f / "w.safetensors.index.json").write_text("[]"), "index"),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_hostile_folders_are_refused(name: str, here: Path) -> None:
    change, told = FOLDERS[name]
    change(here)
    refused(here / "m.pt2", told)


@pytest.mark.parametrize("level", ["folder", "inner"])
def test_no_link_on_the_way_is_followed(level: str, here: Path) -> None:
    program = graphwire.load(here / "m.pt2")
    (here / "folder" / "inner").mkdir(parents=True)
    graphwire.save(program, here / "n.pt2", weights=here / "folder" / "inner" / "w.safetensors")
    graphwire.load(here / "n.pt2")
    path = here / "folder" if level == "folder" else here / "folder" / "inner"
    path.rename(here.parent / "moved")
    path.symlink_to(here.parent / "moved")
    refused(here / "n.pt2", "symbolic link")
    assert (
        len(graphwire.load(here / "n.pt2", weights=here / "folder" / "inner" / "w.safetensors").state_dict)
        == 4
    )


def _exchange(folder: str, until: float) -> None:
    """Exchange a folder and a link to another one as fast as it goes."""
    path, kept, link = Path(folder) / "in", Path(folder) / "kept", Path(folder) / "link"
    while time.monotonic() < until:
        path.rename(kept)
        link.rename(path)
        path.rename(link)
        kept.rename(path)


def test_no_open_escapes_while_links_are_exchanged(tmp_path: Path) -> None:
    inside, outside = tmp_path / "home" / "in", tmp_path / "outside"
    inside.mkdir(parents=True)
    outside.mkdir()
    (inside / "w").write_bytes(b"inside")
    (outside / "w").write_bytes(b"secret")
    (tmp_path / "home" / "link").symlink_to(outside)
    context = multiprocessing.get_context("spawn")
    until = time.monotonic() + 8
    rival = context.Process(target=_exchange, args=(str(tmp_path / "home"), until))
    rival.start()
    folder, opened = Folder(tmp_path / "home"), 0
    while time.monotonic() < until - 0.5 or not opened:
        try:
            source = folder.open("in/w")
        except (errors.GraphwireError, OSError):
            continue
        assert source.read_at(0, 6) == b"inside"
        source.close()
        opened += 1
    rival.join()
    assert opened > 100


def _ties(member: str, change: Callable[[Table], object]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        with zipfile.ZipFile(folder / "m.pt2") as archive:
            tree = json.loads(archive.read(f"program/{member}"))
            table = archive.read(RECORD)
        change(tree["config"])
        write_table(folder / "m.pt2", table, **{member: json.dumps(tree).encode()})

    return apply


WEIGHTS_CONFIG = "data/weights/model_weights_config.json"


@pytest.mark.parametrize("names", [("0.weight", "1.weight"), ("0.weight", "0.weight")])
def test_cycles_of_ties_end(names: tuple[str, str], here: Path) -> None:
    one, other = names

    def tie(config: Table) -> None:
        config[one]["same_as"], config[other]["same_as"] = other, one

    _ties(WEIGHTS_CONFIG, tie)(here)
    with contextlib.suppress(errors.GraphwireError):
        graphwire.load(here / "m.pt2")
    assert graphwire.weights(here / "m.pt2")


def test_references_need_no_feature_of_the_document_and_the_feature_no_references(here: Path) -> None:
    """What a document requires is for readers that know no references; the records decide."""
    with zipfile.ZipFile(here / "m.pt2") as archive:
        document = json.loads(archive.read("program/models/model.json"))
        table = archive.read(RECORD)
    assert document["requires"] == ["external-weights"]
    document["requires"] = []
    write_table(here / "m.pt2", table, **{"models/model.json": json.dumps(document).encode()})
    assert len(graphwire.load(here / "m.pt2").state_dict) == 4
