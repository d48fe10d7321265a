"""The HTTP server of `contrib/graphwire-serve` answers calls, and says what is wrong with those that do not fit."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import socket
import subprocess
import sys
import urllib.request
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
            for wrong in (
                b"{",
                b"\xff",
                b"[]",
                b"3",
                b'{"args": [[[null]]]}',
                b'{"args": 3}',
                b'{"kwargs": [1]}',
            ):
                assert (await client.post("/", data=wrong)).status == 400, wrong

    asyncio.run(session())


class _Gather(torch.nn.Module):
    def forward(self, parts: dict[str, Any], *, scale: float) -> dict[str, Any]:
        rows, (first, many) = parts["rows"], parts["pair"]
        return {"made": [rows[many] * scale, first]}


def test_values_have_the_types_and_containers_that_the_program_states(tmp_path: Path) -> None:
    from aiohttp.test_utils import TestClient, TestServer

    path = tmp_path / "model.pt2"
    parts = {"rows": torch.ones(2, 1), "pair": (torch.tensor(True), torch.tensor([1, 0]))}
    graphwire.save(torch.export.export(_Gather(), (parts,), {"scale": 2.5}), path)

    async def session() -> None:
        async with TestClient(TestServer(_application(path))) as client:
            given = {"rows": [[3], [4]], "pair": [1, [1, 0]]}
            answer = await client.post("/", json={"args": [given], "kwargs": {"scale": 2.5}})
            assert (await answer.json())["result"] == {"made": [[[10.0], [7.5]], True]}
            for wrong in ({**given, "more": 3}, {"rows": [[3], [4]]}, {**given, "pair": [1]}, [given], None):
                refused = await client.post("/", json={"args": [wrong], "kwargs": {"scale": 2.5}})
                assert refused.status == 400, wrong

    asyncio.run(session())


def test_the_command_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    graphwire.save(torch.export.export(torch.nn.Linear(4, 2), (torch.ones(1, 4),)), path)
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = [sys.executable, "-W", "ignore", str(FILE), str(path), "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "Running on" in process.stdout.readline()
        request = urllib.request.Request(f"http://127.0.0.1:{port}/", data=b'{"args": [[[1, 2, 3, 4]]]}')
        with urllib.request.urlopen(request) as answer:
            assert len(json.load(answer)["result"][0]) == 2
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 0
