"""Stack traces are written as rows of a table of frames, each once, and come back letter for letter."""

from __future__ import annotations

import time

import pytest
import torch
from torch.export import ExportedProgram, export

import graphwire
from graphwire.bridge.context import EncodeContext
from graphwire.bridge.metadata import encode_stack
from graphwire.hooks.registry import default_registry


class _Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.twice(x).relu()

    def twice(self, x: torch.Tensor) -> torch.Tensor:
        return (x + x).sin()


@pytest.fixture
def program() -> ExportedProgram:
    return export(_Model(), (torch.rand(2),))


def _traces(program: ExportedProgram) -> dict[str, str | None]:
    return {node.name: node.meta.get("stack_trace") for node in program.graph.nodes}


def test_the_traces_of_an_exported_program_are_rows_and_no_text(program: ExportedProgram) -> None:
    record, _ = graphwire.to_schema(program)
    nodes = record.graph_module.graph.nodes
    assert nodes
    assert all(node.stack and "stack_trace" not in node.metadata for node in nodes)
    frames = [(frame.name, frame.source.strip()) for frame in record.graph_module.stack_frames]
    assert frames == [("forward", "return self.twice(x).relu()")]  # torch keeps the frames of `forward` alone


def test_they_come_back(program: ExportedProgram) -> None:
    assert any(_traces(program).values())
    assert _traces(graphwire.loads(graphwire.dumps(program))) == _traces(program)


_FRAME = '  File "/a, b.py", line 3, in f\n    x = y\n'


@pytest.mark.parametrize(
    ("trace", "rows"),
    [
        (_FRAME, 1),
        (_FRAME.strip(), 1),
        (_FRAME * 3, 1),
        ((_FRAME * 3).strip(), 3),  # the first without its indentation, the last without its line's end
        (_FRAME + _FRAME.replace("3", "4"), 2),
        ('  File "/a.py", line 3, in f\n', 1),
        ('  File "/a.py", line 3, in f\n    File "x", line 1, in y\n', 1),
        (f"\n{_FRAME}", None),
        (f" {_FRAME.strip()}", None),
        (_FRAME.replace("3", "03"), None),
        ('  File "/a", line 1, in g", line 3, in f\n', 1),
        (_FRAME.replace("3", "9" * 5000), None),
        ("somewhere else", None),
    ],
)
def test_any_trace_comes_back_as_rows_or_as_text(
    program: ExportedProgram, trace: str, rows: int | None
) -> None:
    node = next(node for node in program.graph.nodes if node.op == "call_function")
    for each in program.graph.nodes:
        each.meta.pop("stack_trace", None)
    node.meta["stack_trace"] = trace
    record, payloads = graphwire.to_schema(program)
    frames = record.graph_module.stack_frames
    assert len(frames) == (rows or 0)
    assert (record.graph_module.graph.nodes[0].metadata.get("stack_trace") == trace) is (rows is None)
    assert _traces(graphwire.from_schema(record, payloads))[node.name] == trace


@pytest.mark.parametrize("trace", ['File "/a\r.py", line 3, in f\r\n    x\0 = y\r', "else\rwhere\0"])
def test_lines_with_other_ends_are_lines(program: ExportedProgram, trace: str) -> None:
    node = next(node for node in program.graph.nodes if node.op == "call_function")
    node.meta["stack_trace"] = trace
    plain = trace.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    assert _traces(graphwire.loads(graphwire.dumps(program)))[node.name] == plain


def test_a_long_line_takes_no_longer_than_its_length() -> None:
    """Of lines in which the head of a frame seems to begin again and again."""

    def taken(times: int) -> float:
        hostile = '  File "x' + '", line 1, in ' * times
        started = time.process_time()
        assert encode_stack(EncodeContext(default_registry(), {}), f"{hostile}\n{hostile}") is not None
        return time.process_time() - started

    few, many = (min(taken(times) for _ in range(3)) for times in (10_000, 80_000))
    assert many < 30 * few  # 8 times as long, or 64 times where it grows with the square
