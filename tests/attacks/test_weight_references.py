"""Hostile references to weights outside of a file: each is refused, with its place, before an element is read."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import re
import shutil
import socket
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from inside.wire import Folder
from nightly import one_in
from safetensors.torch import save_file

import graphwire
from graphwire import errors

RECORD = "program/data/weights/references.json"
Table = dict[str, Any]
SHARD = "w-00001-of-00002.safetensors"


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


def with_region(**changes: Any) -> Callable[[Table], None]:
    return lambda table: region(table).update(changes)


def with_record(**changes: Any) -> Callable[[Table], None]:
    return lambda table: first(table).update(changes)


def renamed(name: str) -> Callable[[Table], None]:
    return lambda table: table["records"].update({name: table["records"].pop("data/weights/weight_0")})


BELOW = "not below the folder"
TABLES: dict[str, tuple[Callable[[Table], object], str]] = {
    "a location above": (located("../secret.safetensors"), BELOW),
    "a location above, from below": (located("a/../../secret.safetensors"), BELOW),
    "a folder above": (lambda t: t["stores"][0].update(folder=".."), BELOW),
    "a file above": (lambda t: _files(t).update({"../secret.safetensors": {"nbytes": 1}}), BELOW),
    "a file of a size below 0": (lambda t: _files(t)[SHARD].update(nbytes=-1), "has -1 bytes"),
    "a digest that is none": (lambda t: _files(t)[SHARD].update(index_sha256="x"), "not a SHA-256"),
    "no stores": (lambda t: t.update(stores=[]), "there is no store 0"),
    "a shape of many dimensions": (with_region(shape=[1] * 100), "sizes that no tensor has"),
    "a shape beyond 64 bits": (with_region(shape=[1 << 40, 1 << 40]), "more elements"),
    "a record of terabytes": (with_record(nbytes=1 << 50), "of a record of"),
    "a record beyond 64 bits": (with_record(nbytes=1 << 70), "has .* bytes"),
    "a record that is the table": (renamed("data/weights/references.json"), "not the name of a record"),
    "stores that are text": (lambda t: t.update(stores="safetensors"), "damaged"),
    "records that are a list": (lambda t: t.update(records=[]), "damaged"),
    "regions that are numbers": (with_record(regions=[3]), "damaged"),
}
"""What the conformance suite has no file for, since it is too large or the secret must be there."""
SUITE = Path(__file__).parents[2] / "conformance/invalid/references"
SUITE_FILES = sorted(file.name for file in SUITE.glob("*.pt2") if not file.name.startswith("ranks"))


def _files(table: Table) -> Table:
    files: Table = table["stores"][0]["files"]
    return files


RAW: dict[str, bytes] = {
    "no JSON": b"{",
    "no UTF-8": b'{"stores": "\xff"}',
    "deep": b'{"stores":' + b"[" * 100_000,
    "a list": b"[]",
    "nothing": b"",
    "a key twice": b'{"stores": [], "stores": []}',
}


def refused(file: Path, told: str, **options: Any) -> None:
    """Every tool refuses it with that text and a place, or does not need what is wrong; all allocate little, and end soon.

    A conversion that reads no weights keeps the references: then a load refuses the new file.
    """
    tracemalloc.start()
    begin = time.process_time()
    assert told_with_place(partial(graphwire.load, file, **options), told), "it was loaded"
    found = [each for each in graphwire.verify(file) if re.search(told, f"{each.place}: {each.message}")]
    assert found
    assert all(each.place and each.place != "archive" for each in found)
    told_with_place(lambda: graphwire.inspect(file), told)
    told_with_place(lambda: graphwire.weights(file), told)
    for number, chosen in enumerate(conversions(file.parent)):
        new = file.parent / f"converted{number}.pt2"
        if told_with_place(partial(graphwire.convert, file, new, **chosen), told):
            assert not new.exists()
        else:
            assert told_with_place(partial(graphwire.load, new, **options), told), (
                f"{chosen} makes a good file"
            )
    assert tracemalloc.get_traced_memory()[1] < 64 << 20
    tracemalloc.stop()
    assert time.process_time() - begin < 20


def conversions(folder: Path) -> list[dict[str, Any]]:
    """Options of `convert`: the weights stay where they are, or go elsewhere."""
    return [
        {"format": "json"},
        {"weights": graphwire.IN_FILE},
        {"weights": graphwire.Blobs(folder / "new-blobs")},
        {"weights": folder / "new.safetensors"},
    ]


ELSEWHERE = "not below the folder of the new file"


def told_with_place(call: Callable[[], object], told: str) -> bool:
    """Whether a call refuses something; the error has that text, and says where."""
    found: errors.GraphwireError | None = None
    try:
        call()
    except errors.GraphwireError as error:
        found = error
    if found is not None:
        assert re.search(told, str(found)), str(found)
        assert found.file
        assert found.place or getattr(found, "problems", ()) or ELSEWHERE in str(found), str(found)
    return found is not None


@pytest.mark.parametrize("name", TABLES)
def test_hostile_references_are_refused(name: str, here: Path) -> None:
    change, told = TABLES[name]
    table = table_of(here / "m.pt2")
    change(table)
    write_table(here / "m.pt2", json.dumps(table).encode("utf-8", "surrogatepass"))
    refused(here / "m.pt2", told)


@pytest.mark.parametrize("name", one_in(4, SUITE_FILES))
def test_files_of_the_suite_are_refused_by_every_tool(name: str, tmp_path: Path) -> None:
    shutil.copytree(
        SUITE,
        tmp_path / "here",
        ignore=lambda _, names: {each for each in names if each.endswith(".pt2")} - {name},
    )
    file = tmp_path / "here" / name
    with pytest.raises(errors.GraphwireError) as caught:
        graphwire.load(file, verify=True)
    problem = getattr(caught.value, "problems", ()) or [caught.value]
    refused(file, re.escape(getattr(problem[0], "message", None) or caught.value.problem), verify=True)


@pytest.mark.parametrize("name", RAW)
def test_what_is_no_table_is_refused(name: str, here: Path) -> None:
    write_table(here / "m.pt2", RAW[name])
    refused(here / "m.pt2", "damaged")


def test_a_record_that_is_in_the_file_and_elsewhere_is_refused(here: Path) -> None:
    table = table_of(here / "m.pt2")
    content = {"data/weights/weight_0": bytes(first(table)["nbytes"])}
    write_table(here / "m.pt2", json.dumps(table).encode(), **content)
    refused(here / "m.pt2", "which the archive has")


@pytest.mark.slow
def test_very_many_regions_end_soon(here: Path) -> None:
    table = table_of(here / "m.pt2")
    first(table)["regions"] = [{**region(table), "box": [[0, 1, 1], [0, 1, 1]], "offset": 0}] * 200_000
    write_table(here / "m.pt2", json.dumps(table).encode())
    begin = time.process_time()
    with pytest.raises(errors.WeightsError, match="two regions make the same bytes"):
        graphwire.load(here / "m.pt2")
    assert time.process_time() - begin < 20


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
    refused(here / "n.pt2", f"symbolic link|{ELSEWHERE}")
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


@pytest.mark.slow
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


class Tied(torch.nn.Module):
    """Weights and constants with every kind of tie."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two, self.three = (torch.nn.Linear(8, 8, bias=False) for _ in range(3))
        self.two.weight = self.one.weight  # same_as
        both = torch.randn(8)
        self.register_buffer("kept", both)
        self.register_buffer("same", both, persistent=False)  # weight
        self.register_buffer("view", both[:4], persistent=False)  # shared
        self.register_buffer("own", torch.randn(8), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.three(self.two(self.one(x))) + self.kept + self.same + self.own
        return y + self.view.sum()


TIES: dict[str, Callable[[Table, Table], object]] = {
    "each the same as the other": lambda w, c: (
        w["one.weight"].update(same_as="three.weight"),
        w["three.weight"].update(same_as="one.weight"),
    ),
    "the same as itself": lambda w, c: w["one.weight"].update(same_as="one.weight"),
    "three in a circle": lambda w, c: (
        w["one.weight"].update(same_as="two.weight"),
        w["two.weight"].update(same_as="three.weight"),
        w["three.weight"].update(same_as="one.weight"),
    ),
    "the same as nothing": lambda w, c: w["two.weight"].update(same_as="lost"),
    "the same as another": lambda w, c: w["three.weight"].update(same_as="one.weight"),
    "the same as one of another shape": lambda w, c: w["three.weight"].update(same_as="kept"),
    "constants the same as each other": lambda w, c: (
        c["own"].update(same_as="view"),
        c["view"].update(same_as="own"),
    ),
    "a constant the same as a weight": lambda w, c: c["own"].update(same_as="kept"),
    "the weight of a constant is itself": lambda w, c: c["same"].update(weight="same"),
    "the weight of a constant is lost": lambda w, c: c["same"].update(weight="lost"),
    "the weight of a constant has another shape": lambda w, c: c["own"].update(weight="one.weight"),
    "a weight has a weight": lambda w, c: w["kept"].update(weight="kept"),
    "weights have each other": lambda w, c: (
        w["one.weight"].update(weight="three.weight"),
        w["three.weight"].update(weight="one.weight"),
    ),
    "a constant shares its own record": lambda w, c: c["view"].update(
        shared=f"data/constants/{c['view']['path_name']}"
    ),
    "constants share each other's": lambda w, c: (
        c["own"].update(shared=f"data/constants/{c['view']['path_name']}"),
        c["view"].update(shared=f"data/constants/{c['own']['path_name']}"),
    ),
    "a constant shares what is lost": lambda w, c: c["view"].update(shared="data/weights/weight_99"),
    "a constant shares the table": lambda w, c: c["view"].update(shared="data/weights/references.json"),
    "a constant shares a document": lambda w, c: c["view"].update(shared="models/model.json"),
    "a weight shares a weight": lambda w, c: w["three.weight"].update(
        shared=f"data/weights/{w['one.weight']['path_name']}"
    ),
    "all at once": lambda w, c: [
        each.update(same_as=name, weight=name, shared=f"data/weights/{each['path_name']}")
        for name, each in [*w.items(), *c.items()]
    ],
}


@pytest.fixture(scope="module")
def tied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tied")
    program = torch.export.export(Tied(), (torch.ones(1, 8),))
    graphwire.save(program, folder / "m.pt2", weights=folder / "w.safetensors")
    return folder


@pytest.mark.parametrize("name", TIES)
def test_ties_that_lie_are_refused_or_change_no_weight(name: str, tied: Path, tmp_path: Path) -> None:
    """A tie says which names are one tensor. Whatever it says, no weight gets the elements of another."""
    for path in tied.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    file = tmp_path / "m.pt2"
    members = [f"data/{kind}/model_{kind}_config.json" for kind in ("weights", "constants")]
    with zipfile.ZipFile(file) as archive:
        trees = [json.loads(archive.read(f"program/{member}")) for member in members]
        table = archive.read(RECORD)
    TIES[name](*(tree["config"] for tree in trees))
    write_table(file, table, **{m: json.dumps(t).encode() for m, t in zip(members, trees, strict=True)})
    expected = Tied()
    ends = [file]
    for number, options in enumerate(conversions(tmp_path)):
        with contextlib.suppress(errors.GraphwireError):
            graphwire.convert(file, tmp_path / f"converted{number}.pt2", **options)
            ends.append(tmp_path / f"converted{number}.pt2")
    for end in ends:
        graphwire.verify(end)
        with contextlib.suppress(errors.GraphwireError):
            graphwire.inspect(end)
            graphwire.weights(end)
        with contextlib.suppress(errors.GraphwireError):
            program = graphwire.load(end)
            for key, value in expected.state_dict().items():
                assert torch.equal(program.state_dict[key], value), key
            for key in ("same", "view", "own"):
                assert torch.equal(program.constants[key], getattr(expected, key)), key


def test_references_need_their_feature_in_the_document(here: Path) -> None:
    """Readers that know no references find there that they cannot read the file."""
    with zipfile.ZipFile(here / "m.pt2") as archive:
        document = json.loads(archive.read("program/models/model.json"))
        table = archive.read(RECORD)
    assert document["requires"] == ["external-weights"]
    document["requires"] = []
    write_table(here / "m.pt2", table, **{"models/model.json": json.dumps(document).encode()})
    with pytest.raises(
        graphwire.errors.SchemaError, match="external-weights is used by a config but not listed"
    ):
        graphwire.load(here / "m.pt2")


@pytest.mark.parametrize("requires", [["external-weights"], []], ids=["with", "without"])
def test_a_file_without_references_needs_its_weights_inside(requires: list[str], here: Path) -> None:
    """A document may say that weights are outside although all are in the file, or that they are inside and they are not."""
    inside = here / "inside.pt2"
    graphwire.convert(here / "m.pt2", inside, format="json", weights=graphwire.IN_FILE)
    for file in (inside, here / "m.pt2"):
        with zipfile.ZipFile(file) as archive:
            kept = {name: archive.read(name) for name in archive.namelist()}
        member = next(name for name in kept if name.endswith("models/model.json"))
        document = json.loads(kept[member])
        document["requires"] = requires
        kept[member] = json.dumps(document).encode()
        with zipfile.ZipFile(file, "w") as archive:
            for name, content in kept.items():
                if name != RECORD and not name.endswith("manifest.json"):
                    archive.writestr(name, content)
    assert len(graphwire.load(inside).state_dict) == 4
    refused(here / "m.pt2", "no record|missing|lacks|needs")
