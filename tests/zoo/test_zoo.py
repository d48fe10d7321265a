"""Models of other people's libraries: exported, saved, loaded, and used in every way that the exported program serves for.

    make test-zoo

`results.json` says what came of it, and `make_table.py` writes it and `docs/zoo.md`.
"""

from __future__ import annotations

import functools
import gc
import io
import json
import os
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("torch_geometric", reason="needs the extra `zoo`: make test-zoo")

import torch
from architecture import Architecture
from construct import quiet
from inside.testing import Snapshot, assert_same_snapshot, snapshot
from loaded_modules import assert_same_module
from torch.export import ExportedProgram
from torch_construction import assert_code_is_torchs
from uses import outcomes, uses_of
from zoo import ZOO

import graphwire
from graphwire.testing import assert_same_program, assert_same_values

FORMATS = ("json", "msgpack", "cbor")
RESULTS = Path(__file__).with_name("results.json")
FEW_USES = ["is_called", "is_copied"]
"""The uses of a variant, which others of its kind are used as."""
RECORD = os.environ.get("ZOO_RECORD")
"""A folder to write what came of each architecture to, instead of comparing it with `results.json`."""


class Made(NamedTuple):
    """What is known of an exported architecture, and of its files."""

    architecture: Architecture
    program: ExportedProgram
    snapshot: Snapshot
    """Of the program before it was called."""
    hash: str
    results: list[Any]
    """Of its calls."""


@functools.lru_cache(maxsize=1)
def made(key: str) -> Made:
    """An architecture, exported. A call may change what the program holds, so it comes last."""
    architecture = ZOO[key]
    program = architecture.program()
    with quiet():
        before, meaning = snapshot(program), graphwire.content_hash(program, weights=True)
        return Made(architecture, program, before, meaning, _results(architecture, program))


def _results(architecture: Architecture, program: ExportedProgram) -> list[Any]:
    module = program.module()
    results = []
    for call in architecture.calls():
        torch.manual_seed(0)
        with torch.no_grad():
            results.append(module(*call.args, **call.kwargs))
    return results


@pytest.fixture(params=ZOO, scope="module")
def key(request: pytest.FixtureRequest) -> Any:
    """Each architecture. Tests of one run together, on one export."""
    return request.param


def test_the_zoo_has_three_hundred_programs_of_twelve_libraries() -> None:
    assert len(ZOO) >= 300
    assert len({architecture.library for architecture in ZOO.values()}) >= 12
    recorded = set(json.loads(RESULTS.read_text(encoding="utf-8"))["architectures"])
    assert recorded <= set(ZOO)
    assert recorded >= {key for key, architecture in ZOO.items() if architecture.in_every_use}


def test_it_comes_back_whole_from_every_format(key: str) -> None:
    expected = made(key)
    for format in formats_of(key):
        with quiet():
            data = graphwire.dumps(expected.program, format=format)
            assert graphwire.verify(data) == []
            assert graphwire.content_hash(data, weights=True) == expected.hash
            loaded = graphwire.loads(data)
            assert_same_program(loaded, snapshot(expected.program))
            assert_code_is_torchs(loaded)
            assert_same_values(_results(expected.architecture, loaded), expected.results)
            assert graphwire.dumps(loaded, format=format) == data


def formats_of(key: str) -> Sequence[str]:
    """Every format; of variants, one each."""
    variants = [each.key for each in ZOO.values() if not each.in_every_use]
    return FORMATS if key not in variants else [FORMATS[variants.index(key) % len(FORMATS)]]


def test_the_program_is_as_it_was_before_it_was_saved(key: str) -> None:
    expected = made(key)
    graphwire.dumps(expected.program)
    before = dict(expected.snapshot)
    assert_same_snapshot(snapshot(expected.program), before)


def test_graphwire_loads_the_file_of_torch(key: str) -> None:
    expected = made(key)
    file = io.BytesIO()
    with quiet():
        torch.export.save(expected.program, file)
        data = file.getvalue()
        assert graphwire.content_hash(data, weights=True) == expected.hash
        assert_same_values(_results(expected.architecture, graphwire.loads(data)), expected.results)


@pytest.mark.parametrize("target", [None, "torch"])
def test_torch_loads_the_file_of_graphwire(key: str, target: str | None) -> None:
    expected = made(key)
    with quiet():
        loaded = torch.export.load(io.BytesIO(graphwire.dumps(expected.program, target=target)))
        assert_same_values(_results(expected.architecture, loaded), expected.results)
        assert str(loaded.graph_signature) == str(expected.program.graph_signature)
        assert list(loaded.state_dict) == list(expected.program.state_dict)


def test_a_module_is_that_of_the_loaded_program(key: str) -> None:
    expected = made(key)
    with quiet(), torch.no_grad():
        data = graphwire.dumps(expected.program)
        for call in expected.architecture.calls():
            assert_same_module(
                data, call.args, call.kwargs, violations=20 if expected.architecture.in_every_use else 5
            )


if RECORD is not None:

    def test_what_it_takes_is_recorded(key: str) -> None:
        with warnings.catch_warnings(action="ignore"):  # of what a save leaves out
            record(key, {"takes": what_it_takes(made(key).program)})


def test_what_is_loaded_serves_for_what_the_exported_program_serves_for(key: str) -> None:
    """The last test of an architecture: `unflatten` may change its program."""
    expected = made(key)
    with quiet():
        uses = uses_of(expected.program) if expected.architecture.in_every_use else FEW_USES
        found = outcomes(expected.program, expected.architecture.calls()[0], uses)
    made.cache_clear()
    wrong = [f"{use}: {each.defect[:1200]}" for use, each in found.items() if each.defect is not None]
    assert not wrong, "\n".join(wrong)
    refusals = {use: _first_line(each.refusal) for use, each in found.items() if each.refusal is not None}
    nodes = len(expected.program.graph.nodes)
    row = {"nodes": nodes, "dynamic": expected.architecture.dynamic, "uses": len(found), "refusals": refusals}
    if RECORD:
        record(key, row)
    else:
        recorded = json.loads(RESULTS.read_text(encoding="utf-8"))["architectures"].get(key, {"refusals": {}})
        assert set(refusals) == set(recorded["refusals"]), "the exported program serves for more, or for less"


def record(key: str, row: dict[str, Any]) -> None:
    """Add what is known of an architecture to its file."""
    file = Path(str(RECORD), key.replace(": ", "~"))
    before = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    file.write_text(json.dumps({**before, **row}), encoding="utf-8")


def what_it_takes(program: ExportedProgram) -> dict[str, float]:
    """The bytes of a program's file, and the processor time in milliseconds of a save and a load, each the least of three rounds;
    also of torch's, in turns."""
    data = graphwire.dumps(program)
    file = io.BytesIO()
    torch.export.save(program, file)
    calls: dict[str, Callable[[], object]] = {
        "save": lambda: graphwire.dumps(program),
        "load": lambda: graphwire.loads(data),
        "save of torch": lambda: torch.export.save(program, io.BytesIO()),
        "load of torch": lambda: torch.export.load(io.BytesIO(file.getvalue())),
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(3):
        for name, call in calls.items():
            gc.collect()
            start = time.process_time()
            call()
            times[name].append((time.process_time() - start) * 1000)
    return {"bytes": len(data), **{name: round(min(each), 1) for name, each in times.items()}}


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0][:160]
