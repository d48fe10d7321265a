"""What saving and loading cost, in calls of functions rather than in seconds: the same on every machine and every run."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from growth import calls_of
from inside.bridge import decode_program
from this_torch import RELEASE
from torch.export import ExportedProgram

import graphwire

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))

from cases import PROGRAMS, chain, decoder, unbind, unrolled

NODES = 200
"""Of the smaller graph; the larger has ten times as many."""


def costs(program: ExportedProgram) -> dict[str, int]:
    """The calls of a save and of a load."""
    data = graphwire.dumps(program)
    return {
        "save": calls_of(lambda: graphwire.dumps(program), again=True),
        "load": calls_of(lambda: graphwire.loads(data), again=True),
    }


class _Counting(torch.nn.Module):
    def __init__(self, buffers: int) -> None:
        super().__init__()
        for index in range(buffers):
            self.register_buffer(f"count_{index}", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for count in self.buffers():
            count.add_(1)
        return x + 1


def mutations(nodes: int) -> ExportedProgram:
    """A program of about so many nodes that changes a third as many buffers, and says so in its outputs."""
    return torch.export.export(_Counting(nodes // 3), (torch.ones(1),)).run_decompositions({})


def transformer(nodes: int) -> ExportedProgram:
    """A decoder of two layers that is called again and again."""
    return unrolled(nodes, layers=2)


@pytest.mark.parametrize("make", [chain, unbind, mutations, transformer])
@pytest.mark.slow
def test_cost_is_linear_in_the_nodes(make: Callable[[int], ExportedProgram]) -> None:
    few, many = costs(make(NODES)), costs(make(10 * NODES))
    assert many["save"] < 10.5 * few["save"]
    assert many["load"] < 10.5 * few["load"]


RECORDED: dict[str, dict[str, int]] = {
    "LeNet-5": {"save": 4220, "load": 4860},
    "decoder of 2 layers": {"save": 10560, "load": 13600},
    "chain of 200": {"save": 10720, "load": 13490},
    "unbind of 200": {"save": 17070, "load": 15500},
}
"""The calls of a save and of a load. A hundred calls are 10 µs or so. Runs differ a little, by what a process loaded before."""
MAKERS: dict[str, Callable[[], ExportedProgram]] = {
    "LeNet-5": PROGRAMS["lenet"],
    "decoder of 2 layers": lambda: decoder(2).program,
    "chain of 200": lambda: chain(NODES),
    "unbind of 200": lambda: unbind(NODES),
}


@pytest.mark.skipif(
    (RELEASE, sys.version_info[:2]) != ((2, 13), (3, 11)),
    reason="the calls of torch are counted too, and later Pythons call no comprehensions",
)
@pytest.mark.parametrize("name", RECORDED)
def test_a_save_and_a_load_call_as_many_functions_as_recorded(name: str) -> None:
    """A change that adds calls states it here. One that saves calls records that, so that no later change spends them unseen."""
    counted, recorded = costs(MAKERS[name]()), RECORDED[name]
    for action, count in counted.items():
        assert 0.95 * recorded[action] < count < 1.02 * recorded[action], (name, counted)


def test_a_module_of_a_file_answers_for_a_quarter_of_the_calls_of_a_program_and_its_module() -> None:
    program = decoder(2).program
    data = graphwire.dumps(program)
    args, kwargs = program.example_inputs
    module = calls_of(lambda: graphwire.load_module(io.BytesIO(data))(*args, **kwargs), again=True)
    through_program = calls_of(lambda: graphwire.loads(data).module()(*args, **kwargs), again=True)
    assert module < 0.25 * through_program


def test_a_load_keeps_no_record_of_a_node_that_it_has_made(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = []

    def remembered(request: Any, *args: Any, **options: Any) -> ExportedProgram:
        kept.append(request.record.graph_module.graph.nodes)
        return decode_program(request, *args, **options)

    monkeypatch.setattr(sys.modules[decode_program.__module__], "decode_program", remembered)
    data = graphwire.dumps(chain(10))
    loaded = graphwire.loads(data)
    assert len(loaded.graph.nodes) == 12
    assert [node.target for node in kept.pop()] == [""] * 10
    with graphwire.open(data) as archive:  # what its caller still reads stays
        (method,) = archive.methods
        program, payloads = archive.program_of(method), archive.payloads_of(method)
        assert str(graphwire.from_schema(program, payloads).graph) == str(loaded.graph)
        assert str(archive.module().graph) == str(archive.module().graph)
        assert {node.target for node in program.graph_module.graph.nodes} == {"torch.ops.aten.relu.default"}


@pytest.mark.parametrize("format", ["json", "msgpack", "cbor"])
def test_no_two_values_share_what_a_pass_could_change(format: str) -> None:
    loaded = graphwire.loads(graphwire.dumps(chain(20), format=format))
    values = [
        node.meta["val"] for node in loaded.graph.nodes if isinstance(node.meta.get("val"), torch.Tensor)
    ]
    assert len(values) == 21
    assert len({id(value) for value in values}) == len(values)
    assert len({value.untyped_storage()._cdata for value in values}) == len(values)
    metas = [node.meta for node in loaded.graph.nodes]
    assert len({id(meta.get("nn_module_stack")) for meta in metas if meta.get("nn_module_stack")}) == 20
