"""Every construct comes back from every wire format as it was, and does what it did."""

from __future__ import annotations

import copy
import functools
import io
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from attribute_differences import lost_attributes
from construct import Call, quiet
from families import CONSTRUCTS
from inside.testing import Snapshot, snapshot
from nightly import by_day, one_in
from torch.export import ExportedProgram
from torch_construction import assert_made_as_by_torch

import graphwire
from graphwire.errors import EncodeError, GraphwireWarning
from graphwire.hooks import default_registry
from graphwire.testing import assert_same_program, assert_same_values

FORMATS = ("json", "msgpack", "cbor")
KEPT = [key for key, construct in CONSTRUCTS.items() if construct.refusal is None]
REFUSED = [key for key, construct in CONSTRUCTS.items() if construct.refusal is not None]


class Made(NamedTuple):
    """What is known of a construct's program, of one export: what it was before it was run, and what it computed."""

    snapshot: Snapshot
    lost: list[str]
    """The attributes in which the loaded program differs, but those that may (`attribute_differences`)."""
    told: list[str]
    """What the saves warn of."""
    graphs: list[torch.fx.Graph]
    """The program's own, and those below it."""
    saved: dict[str, bytes]
    """Its file, by wire format."""
    hashes: list[str]
    """Its content hash, then those of its files, and last of the one that torch writes, if it does."""
    results: list[Any]


@functools.lru_cache(maxsize=1)
def made(key: str) -> Made:
    """The program of a construct. A call may change what the program holds, so it comes last."""
    construct = CONSTRUCTS[key]
    with quiet():
        program = construct.program()
        before = snapshot(program)
        with warnings.catch_warnings(record=True) as told:
            saved = {name: graphwire.dumps(program, format=name) for name in FORMATS}
        named = [str(each.message) for each in told if issubclass(each.category, GraphwireWarning)]
        hashes = [
            graphwire.content_hash(each) for each in (program, *saved.values(), *_written_by_torch(program))
        ]
        modules = program.graph_module.modules()
        graphs = [each.graph for each in modules if isinstance(each, torch.fx.GraphModule)]
        lost = lost_attributes(program, graphwire.loads(saved["json"]))
        return Made(before, lost, named, graphs, saved, hashes, _results(program, construct.calls))


def _written_by_torch(program: ExportedProgram) -> list[bytes]:
    file = io.BytesIO()
    try:
        torch.export.save(program, file)
    except Exception:  # torch says in many ways that it cannot
        return []
    return [file.getvalue()]


@pytest.fixture(params=one_in(2, KEPT), scope="module")
def key(request: pytest.FixtureRequest) -> Any:
    """Each construct that is kept. Tests of one construct run together, on one export."""
    return request.param


@pytest.mark.nightly
def test_it_comes_back_as_it_was_saves_to_the_same_bytes_and_computes_the_same(key: str) -> None:
    expected = made(key)
    for wire_format in by_day((FORMATS[KEPT.index(key) % len(FORMATS)],), by_night=FORMATS):
        with quiet():
            loaded = graphwire.loads(expected.saved[wire_format])
            assert_same_program(loaded, expected.snapshot)
            again = graphwire.dumps(loaded, format=wire_format)
            assert again == expected.saved[wire_format], "the second save gives other bytes"
            assert_same_values(_results(loaded, CONSTRUCTS[key].calls), expected.results)


def test_no_attribute_that_its_objects_have_differs_but_those_listed(key: str) -> None:
    assert made(key).lost == []
    assert not re.search(r"not saved: .*(the (attribute|submodule) '|hooks of)", "\n".join(made(key).told))


def test_its_nodes_and_code_are_those_that_torch_makes(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = made(key).saved["json"]
    with quiet():
        assert_made_as_by_torch(lambda: graphwire.loads(data), monkeypatch)


def test_its_hash_is_one_in_memory_in_every_format_and_in_the_file_of_torch(key: str) -> None:
    hashes = made(key).hashes
    if "a call of one that changes its arguments" in key:  # torch writes an index into its table of kernels
        hashes = hashes[:4]
    assert len(set(hashes)) == 1


def test_the_documents_say_of_all_metadata_whether_it_is_kept(key: str) -> None:
    noted = {name for graph in made(key).graphs for node in graph.nodes for name in node.meta}
    assert noted <= _documented_metadata()


def test_export_leaves_no_reader_of_an_attribute_that_nothing_uses(key: str) -> None:
    readers = [node for graph in made(key).graphs for node in graph.find_nodes(op="get_attr")]
    assert [node.name for node in readers if not node.users] == []


def test_the_coverage_table_has_a_row_for_every_construct() -> None:
    text = (Path(__file__).parents[2] / "docs" / "coverage.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+?) \| (?:yes|refused) \|", text, re.MULTILINE)
    assert sorted(rows) == sorted(each.name for each in CONSTRUCTS.values())


@functools.cache
def _documented_metadata() -> set[str]:
    """The keys in the table of docs/spec/graph.md, and those that plugins declare."""
    text = (Path(__file__).parents[2] / "docs" / "spec" / "graph.md").read_text(encoding="utf-8")
    section = text.partition("### What graphwire stores")[2].partition("\n## ")[0]
    keys = [line.split("|")[1] for line in section.splitlines() if line.startswith("|")]
    return {*re.findall("`([a-z_]+)`", " ".join(keys)), *default_registry().metadata_keys}


@pytest.mark.parametrize("refused", REFUSED)
def test_what_is_refused_by_policy_says_what_to_do(refused: str) -> None:
    with quiet(), pytest.raises(EncodeError, match=CONSTRUCTS[refused].refusal) as caught:
        graphwire.dumps(CONSTRUCTS[refused].program())
    assert caught.value.remedy


def _results(program: ExportedProgram, calls: Sequence[Call]) -> list[Any]:
    """What calls return, and what becomes of their arguments."""
    found = []
    for call in calls:
        args = copy.deepcopy(call)
        torch.manual_seed(0)
        found.append((program.module()(*args), args))
    return found
