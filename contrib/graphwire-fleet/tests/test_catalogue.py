"""The catalogue has what `graphwire inspect --json` prints; it is whole at any time, and shows the present."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import torch
from fleet_files import add, asked, corpus, listed, read, some_files
from graphwire_fleet.catalogue import compact, open_catalogue, roots_of
from graphwire_fleet.operator_names import split_target
from graphwire_fleet.reading import Inspecting, Targeting, Verifying
from graphwire_fleet.reading.arguments import FORMS
from graphwire_fleet.tables import TABLES

import graphwire
from graphwire.cli import main
from graphwire.errors import ArchiveError
from graphwire.schema import ARGUMENT_VARIANTS
from graphwire_plugins import ops, opsets, treespecs
from graphwire_plugins.json_format import JsonFormat


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A catalogue of a part of the corpus, read for all that there is."""
    place = tmp_path_factory.mktemp("catalogue") / "all"
    files = listed(*some_files())
    for work in (Inspecting(), Verifying(sha256=True), Targeting()):
        assert len(read(place, files, work)) == len(files)
    return place


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> list[Any]:
    assert main([*words, "--json"]) in (0, 1)
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


# -------------------------------------------------------------------------------------------------- what inspect prints


def test_programs_are_those_that_inspect_prints(catalogue: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [str(each) for each in some_files()]
    expected = {}
    for tree in printed(capsys, "inspect", *paths):
        for method in tree["methods"]:
            expected[tree["file"], method["name"]] = facts_printed(tree, method)
    columns = list(next(iter(expected.values())))
    rows = asked(
        catalogue,
        f"""SELECT file, method, {", ".join(columns)} FROM programs
        JOIN (SELECT file, layout, payload_bytes, extra_files FROM files WHERE work = 'inspect') USING (file)""",
    )
    assert {row[:2]: dict(zip(columns, row[2:], strict=True)) for row in rows} == expected


def facts_printed(tree: Any, method: Any) -> dict[str, Any]:
    summary, report = method["summary"], method["report"]
    same = "torch_version dialects guards nodes subgraphs values inputs outputs modules plugins operators"
    held = {
        f"{kind}{column}": summary[f"{kind}s"][name]
        for kind in ("parameter", "buffer", "constant")
        for column, name in (("s", "count"), ("_elements", "elements"), ("_bytes", "bytes"))
    }
    return {
        "layout": tree["layout"],
        "payload_bytes": tree["payload_bytes"],
        "extra_files": tree["extra_files"],
        "format": method["format"],
        "document_bytes": method["program_bytes"],
        "stored_bytes": method["stored_bytes"],
        "producer": report["producer"],
        "schema_version": report["schema_version"],
        "readable_from": report["readable_from"],
        "opsets": summary["opset_versions"],
        "requires": summary["features"],
        "steps": report["steps"],
        "derived": report["derived"],
        "absent": report["absent"],
        "contains": [each["what"] for each in method["contains"]],
        **{name: summary[name] for name in same.split()},
        **held,
    }


def test_nodes_and_weights_are_those_that_inspect_prints(
    catalogue: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected_nodes, expected_weights = Counter[Any](), Counter[Any]()
    paths = [str(each) for each in some_files()]
    for tree in printed(capsys, "inspect", "--nodes", "--parameters", *paths):
        for method in tree["methods"]:
            same = tree["file"], method["name"]
            expected_nodes.update(
                (*same, each["graph"], each["index"], each["target"]) for each in method["nodes"]
            )
            names = ("name", "dtype", "nbytes", "place", "tied_to")
            expected_weights.update(
                (*same, *(each[name] for name in names), *each["shape"]) for each in method["weights"]
            )
    nodes = asked(catalogue, "SELECT file, method, graph, index, target FROM nodes")
    weights = asked(catalogue, "SELECT file, method, name, dtype, bytes, place, tied_to, shape FROM weights")
    assert Counter(nodes) == expected_nodes
    assert Counter((*row[:-1], *row[-1]) for row in weights) == expected_weights


def test_hashes_problems_and_targets_are_those_of_the_functions(catalogue: Path) -> None:
    for path in some_files()[::5]:
        hashes = asked(catalogue, "SELECT method, hash FROM programs WHERE file = $file", file=str(path))
        assert hashes == [("model", graphwire.content_hash(path))]
        problems = asked(
            catalogue, "SELECT place, kind, message FROM problems WHERE file = $file", file=str(path)
        )
        assert problems == [tuple(each) for each in graphwire.verify(path)]
        targets = asked(
            catalogue, "SELECT target, fits, obstacles FROM targets WHERE file = $file", file=str(path)
        )
        assert {name: [*map(tuple, map(dict.values, found))] for name, _, found in targets} == {
            name: [tuple(each) for each in found] for name, found in graphwire.targets(path).items()
        }
        assert all(fits != bool(found) for _, fits, found in targets)


def test_arguments_are_json_that_tells_kinds_apart(tmp_path: Path) -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(1, 2, 3, padding=1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.clamp(self.conv(x), max=float("inf"))
            return torch.ops.aten._to_copy.default(y, dtype=torch.float16).sum([1, 2])

    path, sizes = tmp_path / "net.pt2", {"x": {0: torch.export.Dim("batch")}}
    graphwire.save(torch.export.export(Net(), (torch.ones(2, 1, 4, 4),), dynamic_shapes=sizes), path)
    read(tmp_path / "catalogue", listed(path), Inspecting())
    found = {
        row[0]: (json.loads(row[1]), *row[2:])
        for row in asked(
            tmp_path / "catalogue",
            "SELECT operator, arguments, module, module_type, outputs[1].dtype, outputs[1].shape FROM nodes",
        )
    }
    conv, module, kind, dtype, shape = found["aten.conv2d"]
    assert conv["padding"] == [1, 1]
    assert conv["input"] == {"tensor": "x"}
    assert (module, kind) == ("conv", "torch.nn.modules.conv.Conv2d")
    assert dtype == "float32"
    assert shape.endswith(", 2, 4, 4]")
    assert not shape.startswith("[2,")
    assert found["aten.clamp"][0]["max"] == {"float": "inf"}
    assert found["aten._to_copy"][0]["dtype"] == {"dtype": "float16"}
    assert found["aten.sum"][0]["dim"] == [1, 2]
    assert split_target("torch.ops.higher_order.cond") == ("higher_order.cond", "")


def test_a_file_with_several_programs_has_rows_for_each(tmp_path: Path) -> None:
    one, two = torch.nn.Linear(4, 4), torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    two[0].load_state_dict(one.state_dict())
    example = (torch.ones(1, 4),)
    programs = {"one": torch.export.export(one, example), "two": torch.export.export(two, example)}
    graphwire.save(programs, tmp_path / "both.pt2")
    place = tmp_path / "catalogue"
    for work in (Inspecting(digests=True), Targeting()):
        read(place, listed(tmp_path / "both.pt2"), work)
    assert asked(place, "SELECT method, nodes FROM programs ORDER BY ALL") == [("one", 1), ("two", 2)]
    assert asked(place, "SELECT method, operator FROM nodes ORDER BY ALL") == [
        ("one", "aten.linear"),
        ("two", "aten.linear"),
        ("two", "aten.relu"),
    ]
    names = asked(
        place,
        "SELECT list_sort(list(method || ' ' || name)) AS same FROM weights GROUP BY digest ORDER BY same",
    )
    assert names == [(["one bias", "two 0.bias"],), (["one weight", "two 0.weight"],)]
    assert asked(place, "SELECT method, fits FROM targets WHERE target = 'torch-2.6' ORDER BY ALL") == [
        ("one", True),
        ("two", True),
    ]


def test_every_column_has_a_name_that_sql_takes_as_it_is(catalogue: Path) -> None:
    for table in TABLES.values():
        names = ", ".join(column.name for column in table.columns)
        rows = asked(catalogue, f"SELECT {names} FROM {table.name} LIMIT 1")
        assert all(len(row) == len(table.columns) for row in rows)


def test_reading_imports_no_torch(tmp_path: Path) -> None:
    code = """
import sys
sys.path.insert(0, sys.argv[1])
from fleet_files import listed, read
from graphwire_fleet.reading import READINGS

for work in READINGS.values():
    assert read(sys.argv[2], listed(sys.argv[3]), work())
print("torch" in sys.modules)
"""
    command = [sys.executable, "-c", code, Path(__file__).parent, tmp_path, some_files()[-1]]
    assert subprocess.run(command, capture_output=True, check=True, text=True).stdout == "False\n"


def test_every_kind_of_argument_has_a_form() -> None:
    assert set(FORMS) == set(ARGUMENT_VARIANTS)


# ------------------------------------------------------------------------------------------------- damaged, and missing


def test_a_damaged_file_is_a_row_with_its_error_and_what_cannot_be_written_is_escaped(tmp_path: Path) -> None:
    good = some_files(200)[0]
    (tmp_path / "bad.pt2").write_bytes(good.read_bytes()[:-200])
    (tmp_path / "gone.pt2").symlink_to(tmp_path / "nowhere")
    shutil.copy(good, os.fsencode(tmp_path) + b"/\xff.pt2")
    place = tmp_path / "catalogue"
    read(place, listed(tmp_path), Inspecting())
    rows = asked(
        place, "SELECT file, failure_kind, failure, failure_remedy, readers FROM files ORDER BY file"
    )
    kinds = {Path(row[0]).name: row[1] for row in rows}
    assert kinds == {"bad.pt2": "ArchiveError", "gone.pt2": "FileNotFoundError", "\\xff.pt2": None}
    assert any(each.startswith("graphwire ") for each in rows[0][4])
    assert asked(place, "SELECT count(*) FROM programs") == [(1,)]


class Reversed:
    """A wire format that no plugin here provides: JSON, backwards."""

    name, suffix, media_type = "reversed", ".reversed", "application/x-reversed"

    def encode(self, tree: Any) -> bytes:
        return JsonFormat().encode(tree)[::-1]

    def decode(self, buffer: Any) -> Any:
        return JsonFormat().decode(bytes(buffer)[::-1])

    def matches(self, head: bytes) -> bool:
        return head.startswith(b"}")


class Plugin:
    @graphwire.hookimpl
    def graphwire_wire_formats(self) -> list[Any]:
        return [Reversed()]


def test_a_file_whose_plugin_is_missing_says_which(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    registry = graphwire.Registry.of(Plugin(), ops, opsets, treespecs)
    program = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
    graphwire.save(program, tmp_path / "program.pt2", format="reversed", registry=registry)
    read(tmp_path / "catalogue", listed(tmp_path), Inspecting())
    [row] = printed(capsys, "fleet", "plugins", str(tmp_path / "catalogue"))
    assert row["file"] == str(tmp_path / "program.pt2")
    assert "reversed" in row["failure"]


# ---------------------------------------------------------------------------------------------------- only what changed


def test_only_what_changed_is_read_again_and_the_catalogue_shows_the_present(tmp_path: Path) -> None:
    folder, place = tmp_path / "files", tmp_path / "catalogue"
    folder.mkdir()
    a, b, c = (
        shutil.copy(path, folder / f"{name}.pt2")
        for name, path in zip("abc", some_files(100)[:3], strict=True)
    )
    assert read(place, listed(folder), Inspecting()) == [str(a), str(b), str(c)]
    assert read(place, listed(folder), Inspecting()) == []
    assert len(read(place, listed(folder), Verifying())) == 3
    assert len(read(place, listed(folder), Inspecting(nodes=False))) == 3
    before = asked(place, "SELECT file, hash FROM programs ORDER BY file")

    shutil.copy(some_files(100)[4], b)
    c.unlink()
    assert read(place, listed(folder), Inspecting(nodes=False)) == [str(b)]
    after = asked(place, "SELECT file, hash FROM programs ORDER BY file")
    assert [before[0], after[0], before[2], after[2]] == [after[0], before[0], after[2], before[2]]
    assert before[1][1] != after[1][1]
    # What `verify` found in the old file counts no more.
    assert asked(place, "SELECT file FROM files WHERE work = 'verify' ORDER BY file") == [
        (str(a),),
        (str(c),),
    ]

    with open_catalogue(str(place), Inspecting(nodes=False)) as catalogue:
        assert catalogue.still_to_do(listed(folder)) == []
        assert catalogue.forget_vanished(roots_of([str(tmp_path / "elsewhere")]), os.path.exists) == 0
        assert catalogue.forget_vanished(roots_of([str(folder)]), os.path.exists) == 1
        catalogue.tidy()
    assert asked(place, "SELECT DISTINCT file FROM files ORDER BY file") == [(str(a),), (str(b),)]
    assert asked(place, "SELECT count(*) FROM nodes") == [(0,)]
    # Rows that no longer count are gone from the files too, so that any reader of Parquet sees the present.
    assert pq.read_table(place / "programs").num_rows == 2
    assert {each.name for each in place.iterdir() if not each.name.startswith(".")} <= {
        *TABLES,
        "commits",
        "catalogue.json",
    }


def test_failures_that_may_be_over_are_tried_again(tmp_path: Path) -> None:
    from graphwire_fleet.work import Failure, Result

    files, work = listed(*some_files(300)), Inspecting()
    with open_catalogue(str(tmp_path), work) as catalogue:
        results = [
            Result(files[0], failure=Failure("Timeout", "slow")),
            Result(files[1], failure=Failure("SchemaError", "bad")),
        ]
        catalogue.add("failed", [work.pack(results)])
    assert read(tmp_path, files[:2], work) == [files[0].name]


def test_many_small_parts_are_merged_and_nothing_is_lost_or_there_twice(tmp_path: Path) -> None:
    files, work = listed(corpus() / "2.6.0")[:40], Inspecting(nodes=False)
    with open_catalogue(str(tmp_path), work) as catalogue:
        add(catalogue, files, work, batch=1)
    assert len(list((tmp_path / "commits").iterdir())) < 2 + len(files) % 32 + len(files) // 32
    assert sorted(asked(tmp_path, "SELECT file FROM programs")) == [(each.name,) for each in files]
    assert main(["fleet", "compact", str(tmp_path)]) == 0
    assert [each.name for each in (tmp_path / "programs").iterdir()] == [
        each.name for each in (tmp_path / "files").iterdir()
    ]
    assert sorted(asked(tmp_path, "SELECT file FROM programs")) == [(each.name,) for each in files]


def test_a_catalogue_at_a_url_is_the_same() -> None:
    place, files = "memory://bucket/catalogue", listed(*some_files(100))
    read(place, files, Inspecting(), batch=2)
    assert read(place, files, Inspecting()) == []
    compact(place)
    assert asked(place, "SELECT count(*) FROM programs") == [(len(files),)]


# --------------------------------------------------------------------------------------------------------------- killed

_WRITER = """
import sys
sys.path.insert(0, sys.argv[1])
from fleet_files import add, listed
from graphwire_fleet.catalogue import open_catalogue
from graphwire_fleet.reading import Inspecting

files, work = listed(sys.argv[3]), Inspecting()
packed = work.pack([work(each) for each in files])
with open_catalogue(sys.argv[2], work) as catalogue:
    print("begin", flush=True)
    for number in range(10_000):
        catalogue.add(str(number), [packed])
"""


@pytest.mark.parametrize("seconds", [0.1, 4.0])
def test_a_killed_writer_leaves_whole_parts_and_the_next_one_cleans_up(
    seconds: float, tmp_path: Path
) -> None:
    folder, place = tmp_path / "files", tmp_path / "catalogue"
    folder.mkdir()
    for path in sorted((corpus() / "2.1.0").glob("*.pt2"))[:8]:
        shutil.copy(path, folder)
    command = [sys.executable, "-c", _WRITER, str(Path(__file__).parent), str(place), str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"begin\n"
        with (
            pytest.raises(ArchiveError, match="another process writes"),
            open_catalogue(str(place), Inspecting()),
        ):
            pass
        until, count = time.monotonic() + seconds, len(list(folder.glob("*.pt2")))
        seen = 0
        try:
            while time.monotonic() < until:  # Who asks meanwhile sees whole batches, and all of those before.
                now = asked(place, "SELECT count(*) FROM every_programs")[0][0]
                assert (now % count, now >= seen) == (0, True)
                seen = now
        finally:
            writer.send_signal(signal.SIGKILL)
    assert asked(place, "SELECT count(DISTINCT file), count(*) FROM programs") in ([(0, 0)], [(count, count)])
    every = asked(place, "SELECT count(*) FROM every_programs")[0][0]
    assert every % count == 0
    assert asked(place, "SELECT count(*) FROM every_files") == [(every,)]
    assert len(read(place, listed(folder), Inspecting())) in (0, count)
    kept = {each.stem for each in (place / "commits").iterdir()}
    for table in TABLES:
        assert {each.stem for each in place.glob(f"{table}/*")} <= kept
    assert not list(place.glob("*/.*"))


def test_another_version_and_damage_are_errors_with_a_remedy(tmp_path: Path) -> None:
    read(tmp_path, listed(*some_files(300)), Inspecting())
    commit = next((tmp_path / "commits").iterdir())
    commit.write_text(commit.read_text()[:-5])
    with pytest.raises(ArchiveError, match="Remove this file"):
        asked(tmp_path, "SELECT 1")
    commit.unlink()
    assert read(tmp_path, listed(*some_files(300)), Inspecting())
    (tmp_path / "catalogue.json").write_text('{"schema": 99, "written_by": "graphwire-fleet 7"}')
    with pytest.raises(ArchiveError, match=r"version 99 .* \(written by graphwire-fleet 7\).*Make it anew"):
        asked(tmp_path, "SELECT 1")
    with pytest.raises(ArchiveError, match=r"this is no catalogue.*graphwire fleet inspect"):
        asked(tmp_path / "nothing", "SELECT 1")
