"""The HTTP server of `contrib/graphwire-serve` answers calls, and says what is wrong with those that do not fit."""

from __future__ import annotations

import asyncio
import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch

import graphwire

pytest.importorskip("aiohttp")
FILE = Path(__file__).resolve().parents[2] / "contrib/graphwire-serve/serve.py"


def _application(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("serve", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.application(str(path), threads=2)


def test_calls_are_answered_at_once_and_wrong_ones_refused(tmp_path: Path) -> None:
    from aiohttp.test_utils import TestClient, TestServer

    path = tmp_path / "model.pt2"
    program = torch.export.export(torch.nn.Linear(2, 1), (torch.ones(3, 2),))
    graphwire.save(program, path)
    good, bad = {"args": [[[1.0, 2.0]] * 3]}, {"args": [[[1.0, 2.0]] * 2]}

    async def session() -> None:
        async with TestClient(TestServer(_application(path))) as client:
            assert (await (await client.get("/health")).json())["program"] == graphwire.content_hash(path)
            answers = await asyncio.gather(*(client.post("/", json=good) for _ in range(20)))
            results = [(await each.json())["result"] for each in answers]
            expected = program.module()(torch.tensor(good["args"][0]))
            assert results == [expected.tolist()] * 20
            refused = await client.post("/", json=bad)
            assert refused.status == 400
            assert await refused.json() == {"error": "input.shape[0] is 2, must be 3"}
            assert (await client.post("/", data=b"{")).status == 400

    asyncio.run(session())
