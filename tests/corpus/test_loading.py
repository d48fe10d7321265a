"""Every file of the corpus loads and computes what eager computed: straight, and through each wire format without torch."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from loaded_modules import assert_same_module
from nightly import by_day, one_in
from torch_construction import assert_code_is_torchs

import graphwire
from graphwire.errors import GraphwireWarning


@pytest.fixture(scope="session")
def reference() -> ModuleType:
    """The corpus's own checker. Importing it registers the operators and containers that the files use."""
    path = Path(__file__).with_name("reference.py")
    spec = importlib.util.spec_from_file_location("corpus_reference", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it registers types in the ways of several releases
        spec.loader.exec_module(module)
    return module


def problem_of(reference: ModuleType, original: Path, loaded: Path) -> str | None:
    """What differs between the loaded program's outputs and the reference beside the original file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphwireWarning)  # example inputs of classes that are not there
        program = graphwire.load(loaded)
        assert_code_is_torchs(program)
        warnings.simplefilter("ignore")  # what old programs do to today's torch when they run
        problem: str | None = reference.check_program(program, str(original.with_suffix("")))
    return problem


@pytest.mark.parametrize("quarter", one_in(4, range(4)))
def test_each_file_computes_what_eager_computed(
    reference: ModuleType, files: list[Path], release: str, quarter: int
) -> None:
    """Of a release every fourth program in `make test`, and of the next release others."""
    minor = int(release.split(".")[1])
    problems = {path.stem: problem_of(reference, path, path) for path in files[(quarter + minor) % 4 :: 4]}
    assert not {name: problem for name, problem in problems.items() if problem}


@pytest.mark.nightly
def test_each_file_is_loaded_as_the_module_of_its_program(
    reference: ModuleType, files: list[Path], release: str
) -> None:
    """Of a release one program in 32 by day."""
    step = by_day(32, by_night=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as above, and of the reader of the references
        for path in files[int(release.split(".")[1]) % step :: step]:
            for args, kwargs in calls_of(reference, path):
                assert_same_module(path.read_bytes(), args, kwargs, violations=by_day(4, by_night=40))


def calls_of(reference: ModuleType, path: Path) -> list[tuple[Any, Any]]:
    """The arguments of each call in the reference; none of a joint graph, of which torch makes no module."""
    document, get = reference.read_case(str(path.with_suffix("")))
    calls = [] if document.get("kind") == "joint" else document["calls"]
    return [(reference.dec(each["args"], get), reference.dec(each["kwargs"], get)) for each in calls]


@pytest.mark.filterwarnings("ignore:the example inputs of")  # of classes that no reader of pickles makes
@pytest.mark.parametrize("part", one_in(2, [slice(1), slice(1, None)]), ids=["one", "others"])
@pytest.mark.parametrize("wire_format", ["json", "msgpack", "cbor"])
def test_each_file_computes_the_same_after_conversion(
    reference: ModuleType, files: list[Path], tmp_path: Path, wire_format: str, part: slice
) -> None:
    third = ["json", "msgpack", "cbor"].index(wire_format)
    problems = {}
    for path in files[third::3][part]:
        converted = tmp_path / path.name
        graphwire.convert(path, converted, format=wire_format)
        problems[path.stem] = problem_of(reference, path, converted)
    assert problems
    assert not {name: problem for name, problem in problems.items() if problem}
