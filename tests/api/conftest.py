"""The programs that all tests of the public functions run on, each in every wire format."""

from __future__ import annotations

import copy
import functools
from pathlib import Path
from typing import Any

import pytest
from programs import Example
from running import results
from small_programs import ALL_PROGRAMS, shared_example
from torch.export import ExportedProgram

import graphwire

FORMATS = ("json", "msgpack", "cbor")


HALVED = {"test_we_read_what_torch_wrote", "test_torch_reads_what_requires_no_extension"}
"""Tests that take a tenth of a second and more for each program."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to `make test-slow` what `make test` tries often enough: two formats of each program, or half of the programs."""
    names = list(ALL_PROGRAMS)
    for item in items:
        params = item.callspec.params if hasattr(item, "callspec") else {}
        if item.path.parent == Path(__file__).parent and params.get("example") in names:
            index = names.index(params["example"])
            others = params.get("wire_format") not in (None, FORMATS[index % len(FORMATS)])
            if others or (index % 2 and item.originalname in HALVED):
                item.add_marker(pytest.mark.slow)


@pytest.fixture(params=ALL_PROGRAMS)
def example(request: pytest.FixtureRequest) -> Example:
    """Each of the programs; made once, so no test may change it."""
    return shared_example(request.param)


@pytest.fixture
def fresh(request: pytest.FixtureRequest, example: Example) -> Example:
    """The same as `example`, made again, for what torch does to a program in place."""
    return ALL_PROGRAMS[request.node.callspec.params["example"]]()


@functools.cache
def _results(name: str) -> list[Any]:
    example = shared_example(name)
    return results(copy.deepcopy(example.program).module(), example.calls)


@pytest.fixture
def expected(request: pytest.FixtureRequest, example: Example) -> list[Any]:
    """The results of the program's calls."""
    return _results(request.node.callspec.params["example"])


@pytest.fixture(params=FORMATS)
def wire_format(request: pytest.FixtureRequest) -> Any:
    """The name of each wire format in the box."""
    return request.param


@functools.cache
def _saved(name: str, format: str) -> bytes:
    return graphwire.dumps(shared_example(name).program, format=format)


@pytest.fixture
def saved(request: pytest.FixtureRequest, example: Example) -> bytes:
    """The bytes of the program's file, in the format of the test, or else in JSON."""
    format = request.getfixturevalue("wire_format") if "wire_format" in request.fixturenames else "json"
    return _saved(request.node.callspec.params["example"], format)


@pytest.fixture
def loaded(saved: bytes) -> ExportedProgram:
    """The program, loaded from its file."""
    return graphwire.loads(saved)


@pytest.fixture
def small_file(tmp_path: Path) -> Path:
    """A file with a program that has weights, in a folder of its own."""
    path = tmp_path / "small.pt2"
    path.write_bytes(_saved("tied_weights", "json"))
    return path
