"""Saves and loads work inside of what is compiled or traced, in worker processes and in threads."""

from __future__ import annotations

import io
import multiprocessing
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import ExportedProgram, export

import graphwire

X = torch.ones(2, 3)


def _program() -> ExportedProgram:
    torch.manual_seed(0)
    return export(nn.Linear(3, 3), (X,), dynamic_shapes=({0: torch.export.Dim("n")},))


PROGRAM = _program()
DATA = graphwire.dumps(PROGRAM)
EXPECTED = PROGRAM.module()(X)
USES: dict[str, Callable[[], Any]] = {
    "load": lambda: graphwire.loads(DATA),
    "load_module": lambda: graphwire.load_module(io.BytesIO(DATA)),
    "save": lambda: graphwire.dumps(PROGRAM),
}
WAYS: dict[str, Callable[[Any], Any]] = {
    "torch.compile": lambda f: torch.compile(f, backend="eager")(X),
    "torch.jit.trace": lambda f: torch.jit.trace(f, (X,))(X),
    "torch.func.grad": lambda f: torch.func.grad(lambda x: f(x).sum())(X),
    "torch.func.vmap": lambda f: torch.func.vmap(f)(X),
    "autocast": lambda f: _under(torch.autocast("cpu", torch.bfloat16), f),
    "a profiler": lambda f: _under(torch.profiler.profile(record_shapes=True), f),
    "a default device": lambda f: _under(torch.device("meta"), f),
}


def _under(context: Any, function: Any) -> Any:
    with context:
        return function(X)


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace.*")
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("way", WAYS)
def test_it_gives_the_same_inside(way: str, use: str) -> None:
    made: list[Any] = []

    def function(x: torch.Tensor) -> torch.Tensor:
        made.append(USES[use]())
        return x + 1

    torch._dynamo.reset()
    with warnings.catch_warnings():
        if way == "torch.jit.trace":
            warnings.simplefilter("ignore")  # torch says that it is deprecated
        WAYS[way](function)
    loaded = graphwire.loads(made[0]) if isinstance(made[0], bytes) else made[0]
    module = loaded.module() if isinstance(loaded, ExportedProgram) else loaded
    result = module(X)
    assert torch.equal(result, EXPECTED)
    result.sum().backward()
    assert all(each.grad is not None for each in module.parameters())


@pytest.mark.parametrize("use", ["load", "loads", "load_module", "dumps", "verify"])
def test_a_compiler_that_wants_one_graph_is_told_to_call_it_outside(tmp_path: Path, use: str) -> None:
    graphwire.save(PROGRAM, path := tmp_path / "program.pt2")
    given = {"loads": DATA, "dumps": PROGRAM}.get(use, path)

    def function(x: torch.Tensor) -> Any:
        return getattr(graphwire, use)(given), x

    with pytest.raises(Exception, match=r"graphwire reads and writes files: call it outside"):
        torch.compile(function, backend="eager", fullgraph=True)(X)


def loaded_in_worker(data: bytes) -> tuple[list[float], bytes]:
    """What a worker process makes of a file."""
    program = graphwire.loads(data)
    return program.module()(X).flatten().tolist(), graphwire.dumps(program)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("start", ["spawn", "fork", "forkserver"])
def test_worker_processes_load_and_save(start: str) -> None:
    context = multiprocessing.get_context(start)
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        for values, data in pool.map(loaded_in_worker, [DATA] * 3):
            assert values == EXPECTED.flatten().tolist()
            assert data == DATA


def test_threads_load_and_save_while_others_trace() -> None:
    def compiled(_: int) -> bytes:
        torch.compile(lambda x: x.sin() + 1, backend="eager")(X)
        return DATA

    def used(_: int) -> bytes:
        return loaded_in_worker(DATA)[1]

    with ThreadPoolExecutor(4) as pool:
        found = [pool.submit(each, 0) for each in (used, compiled) * 4]
    assert {each.result() for each in found} == {DATA}
