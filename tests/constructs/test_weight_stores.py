"""Every program has the same weights wherever they are: in its file, in each store, or given by the caller.

Every program is tried by `make test-gate` (the profile `nightly` of hypothesis); otherwise each tenth is.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from construct import quiet
from gate_programs import CASES
from torch.export import ExportedProgram

import graphwire

TRIED = list(CASES) if os.environ.get("HYPOTHESIS_PROFILE") == "nightly" else list(CASES)[::10]


def facts(value: Any) -> tuple[Any, ...]:
    """What a weight is, without its elements: the hash covers those, and memory that weights share."""
    if not isinstance(value, torch.Tensor):
        return (type(value),)
    plain = value.layout is torch.strided and not value.is_meta and type(value).__module__.startswith("torch")
    moves = (value.stride(), value.storage_offset()) if plain and not value.is_quantized else ()
    return (type(value), value.dtype, value.shape, value.requires_grad, value.device, *moves)


def ties(program: ExportedProgram) -> dict[str, str]:
    first: dict[int, str] = {}
    return {name: first.setdefault(id(value), name) for name, value in program.state_dict.items()}


def assert_same_weights(one: ExportedProgram, other: ExportedProgram, how: str) -> None:
    assert list(one.state_dict) == list(other.state_dict), how
    for values, others in ((one.state_dict, other.state_dict), (one.constants, other.constants)):
        for name, value in values.items():
            assert facts(value) == facts(others[name]), (how, name)
    assert ties(one) == ties(other), how
    assert graphwire.content_hash(one, weights=True) == graphwire.content_hash(other, weights=True), how


@pytest.mark.parametrize("name", TRIED)
def test_a_program_has_the_same_weights_from_each_store(name: str, tmp_path: Path) -> None:
    with quiet():
        try:
            case = CASES[name]()
        except Exception as error:
            pytest.skip(f"torch does not export it: {error}")
        if case is None or not case.program.state_dict:
            pytest.skip("it has no weights")
        file = tmp_path / "in.pt2"
        try:
            graphwire.save(case.program, file)
            program = graphwire.load(file)
        except graphwire.errors.GraphwireError as error:
            pytest.skip(f"it is not saved: {error}")
        for how, weights in (
            ("safetensors", tmp_path / "w.safetensors"),
            ("blobs", graphwire.Blobs(tmp_path / "blobs")),
        ):
            graphwire.save(program, tmp_path / f"{how}.pt2", weights=weights)
            assert graphwire.verify(tmp_path / f"{how}.pt2") == []
            for copy in (False, True):
                loaded = graphwire.load(tmp_path / f"{how}.pt2", copy=copy)
                assert_same_weights(loaded, program, how)
            graphwire.convert(tmp_path / f"{how}.pt2", tmp_path / "back.pt2", weights=graphwire.IN_FILE)
            assert_same_weights(graphwire.load(tmp_path / "back.pt2"), program, how)
            assert graphwire.content_hash(tmp_path / f"{how}.pt2") == graphwire.content_hash(file)
