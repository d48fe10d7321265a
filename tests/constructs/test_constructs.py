"""Every construct comes back from every wire format as it was, and does what it did."""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from construct import Call, quiet
from families import CONSTRUCTS
from torch.export import ExportedProgram

import graphwire
from graphwire.errors import EncodeError
from graphwire.testing.programs import assert_same_program, assert_same_values

FORMATS = ("json", "msgpack", "cbor")
KEPT = [key for key, construct in CONSTRUCTS.items() if construct.refusal is None]
REFUSED = [key for key, construct in CONSTRUCTS.items() if construct.refusal is not None]


@functools.lru_cache(maxsize=4)
def _program(key: str) -> ExportedProgram:
    with quiet():
        return CONSTRUCTS[key].program()


@functools.lru_cache(maxsize=4)
def _saved(key: str, format: str) -> bytes:
    with quiet():
        return graphwire.dumps(_program(key), format=format)


@pytest.fixture(params=KEPT)
def key(request: pytest.FixtureRequest) -> Any:
    """Each construct that is kept."""
    return request.param


@pytest.fixture(params=FORMATS)
def wire_format(request: pytest.FixtureRequest) -> Any:
    """Each wire format in the box."""
    return request.param


def test_it_comes_back_as_it_was_and_computes_the_same(key: str, wire_format: str) -> None:
    program, saved = _program(key), _saved(key, wire_format)
    with quiet():
        loaded = graphwire.loads(saved)
        assert_same_program(loaded, program)
        assert_same_values(_results(loaded, CONSTRUCTS[key].calls), _expected(key))


def test_saving_it_again_gives_the_same_bytes(key: str, wire_format: str) -> None:
    saved = _saved(key, wire_format)
    with quiet():
        assert graphwire.dumps(graphwire.loads(saved), format=wire_format) == saved


@pytest.mark.parametrize("refused", REFUSED)
def test_what_is_refused_by_policy_says_what_to_do(refused: str) -> None:
    with quiet(), pytest.raises(EncodeError, match=CONSTRUCTS[refused].refusal) as caught:
        graphwire.dumps(CONSTRUCTS[refused].program())
    assert caught.value.remedy


@functools.lru_cache(maxsize=4)
def _expected(key: str) -> list[Any]:
    construct = CONSTRUCTS[key]
    # Of a program of its own: a call may change what the program holds.
    return _results(construct.program(), construct.calls) if construct.calls else []


def _results(program: ExportedProgram, calls: Sequence[Call]) -> list[Any]:
    """What calls return, and what becomes of their arguments."""
    found = []
    for call in calls:
        args = copy.deepcopy(call)
        torch.manual_seed(0)
        found.append((program.module()(*args), args))
    return found
