"""Objects of stores that change between two reads: a load has the old program, the new one, or an error, and never a mixture."""

from __future__ import annotations

import io
from typing import Any

import fsspec
import pytest
import torch
from fsspec.implementations.memory import MemoryFileSystem

import graphwire
from graphwire.errors import GraphwireError

X = torch.ones(1, 512)


def _program(seed: int) -> bytes:
    torch.manual_seed(seed)
    layers = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(4)))
    return graphwire.dumps(torch.export.export(layers, (X,)))


OLD, NEW = _program(0), _program(1)
RESULTS = [graphwire.loads(data).module()(X) for data in (OLD, NEW)]


class Changing(MemoryFileSystem):
    """A store whose object is replaced after some reads, without a word."""

    protocol = "changing"
    cachable = False
    reads = 0
    after = 0

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        return {"name": path, "size": len(OLD), "type": "file"}

    def cat_file(self, path: str, start: Any = None, end: Any = None, **options: Any) -> bytes:
        type(self).reads += 1
        data = NEW if type(self).reads > type(self).after else OLD
        return io.BytesIO(data).getbuffer()[start:end].tobytes()


fsspec.register_implementation("changing", Changing, clobber=True)


@pytest.mark.parametrize("after", range(8))
def test_a_load_is_of_one_version(after: int) -> None:
    assert len(OLD) == len(NEW)
    for function in (graphwire.load, graphwire.load_module):
        Changing.reads, Changing.after = 0, after
        try:
            loaded = function("changing://bucket/program.pt2")
        except GraphwireError:
            assert after > 0
            continue
        module = loaded.module() if function is graphwire.load else loaded
        result = module(X)
        assert any(torch.equal(result, each) for each in RESULTS)
