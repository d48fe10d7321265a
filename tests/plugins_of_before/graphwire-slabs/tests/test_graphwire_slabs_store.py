"""The store passes the contract tests of weight stores: round trips, damaged files, writers at the same time."""

from __future__ import annotations

from pathlib import Path

import torch
from graphwire_slabs.store import SlabsStore

import graphwire
from graphwire.testing import WeightStoreContract


class TestSlabs(WeightStoreContract):
    store = SlabsStore()
    location = "model.slabs"


def test_a_program_has_its_weights_in_the_installed_store(tmp_path: Path) -> None:
    program = torch.export.export(torch.nn.Linear(4, 2), (torch.ones(3, 4),))
    graphwire.save(program, tmp_path / "model.pt2", weights=tmp_path / "model.slabs")
    loaded = graphwire.load(tmp_path / "model.pt2")
    assert torch.equal(loaded.module()(torch.ones(3, 4)), program.module()(torch.ones(3, 4)))
