"""PyTorch's own reader and writer on the other side: what we write as JSON, `torch.export.load` reads; what
`torch.export.save` writes, we read."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from programs import Example
from running import results
from small_programs import SMALL_PROGRAMS
from this_torch import written_for_this_torch
from torch.export import ExportedProgram

import graphwire
from graphwire.errors import TargetError
from graphwire.testing import assert_same_program, assert_same_values

REQUIREMENTS = {
    "outputs_of_every_kind": ["outputs"],
    "containers": ["containers"],
    "annotated": ["containers"],
}
"""The programs that need an extension, and which; torch reads all others."""

REFUSED_BY_TORCH: dict[str, type[Exception]] = {
    "custom_operator_that_returns_an_integer": RuntimeError,  # an operator that returns a tensor and a symbol
    "containers": NotImplementedError,  # an output of torch.return_types
    "annotated": NotImplementedError,  # likewise
}
"""The programs that torch itself does not save, and what it raises."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """torch logs the errors that it raises."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def _saved_by_torch(program: ExportedProgram) -> bytes:
    stream = io.BytesIO()
    torch.export.save(program, stream)
    return stream.getvalue()


@pytest.fixture(scope="module")
def written_by_torch() -> dict[str, bytes]:
    """What torch wrote so far, by the program's name."""
    return {}


@pytest.fixture
def theirs(request: pytest.FixtureRequest, example: Example, written_by_torch: dict[str, bytes]) -> bytes:
    """The program's file as torch writes it, of a program that nothing was done to: torch's `module()` changes some."""
    if example.name in REFUSED_BY_TORCH:
        pytest.skip("torch does not save it")
    if example.name not in written_by_torch:
        fresh: Example = request.getfixturevalue("fresh")
        written_by_torch[example.name] = _saved_by_torch(fresh.program)
    return written_by_torch[example.name]


def test_only_what_torch_cannot_read_requires_an_extension(example: Example, saved: bytes) -> None:
    with graphwire.open(saved) as archive:
        assert archive.program.requires == REQUIREMENTS.get(example.name, [])


def test_torch_reads_what_requires_no_extension(example: Example, expected: list[Any]) -> None:
    if example.name in REQUIREMENTS:
        with pytest.raises((RuntimeError, KeyError, TargetError)):
            torch.export.load(io.BytesIO(written_for_this_torch(example.program)))
        return
    program = torch.export.load(io.BytesIO(written_for_this_torch(example.program)))
    assert_same_values(results(program.module(), example.calls), expected)


# `structured` has example inputs of a class of the user's own.
@pytest.mark.filterwarnings("ignore:the example inputs are dropped")
def test_we_read_what_torch_wrote(example: Example, theirs: bytes, expected: list[Any]) -> None:
    program = graphwire.loads(theirs)
    assert_same_values(results(program.module(), example.calls), expected)


# `structured` has example inputs of a class of the user's own.
@pytest.mark.filterwarnings("ignore:the example inputs are dropped")
def test_what_torch_wrote_comes_back_from_our_own_file(theirs: bytes) -> None:
    program = graphwire.loads(theirs)
    saved = graphwire.dumps(program)
    again = graphwire.loads(saved)
    assert_same_program(again, program)
    assert graphwire.dumps(again) == saved


@pytest.mark.parametrize("name", REFUSED_BY_TORCH)
def test_we_save_what_torch_does_not(name: str) -> None:
    program = SMALL_PROGRAMS[name]().program
    assert_same_program(graphwire.loads(graphwire.dumps(program)), program)
    with pytest.raises(REFUSED_BY_TORCH[name]):
        _saved_by_torch(program)
