"""The serializer passes the contract tests of treespec serializers: round trips, and untrusted files."""

from __future__ import annotations

import torch
from graphwire_slabs.treespec import Slabs, SlabsSerializer, register

import graphwire
from graphwire.testing import TreespecContract

register()


class TestSlabs(TreespecContract):
    serializer = SlabsSerializer()
    examples = (Slabs(1, 2), Slabs(None, [3], "é"))
    refused = (Slabs(1, 2, label=3),)  # type: ignore[arg-type]
    bad_contexts = ((None, 1), ("3", 1), ("[", 1))


class Model(torch.nn.Module):
    def forward(self, pair: Slabs) -> Slabs:
        return Slabs(pair.second, pair.first + 1, pair.label)


def test_a_saved_program_takes_and_gives_one() -> None:
    x, y = torch.zeros(2), torch.ones(3)
    program = torch.export.export(Model(), (Slabs(x, y, "a"),))
    result = graphwire.loads(graphwire.dumps(program)).module()(Slabs(x, y, "a"))
    assert isinstance(result, Slabs)
    assert torch.equal(result.first, y)
    assert torch.equal(result.second, x + 1)
    assert result.label == "a"
