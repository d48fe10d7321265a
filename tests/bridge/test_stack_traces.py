"""Stack traces are written where torch writes them, as the text of each node, and come back letter for letter."""

from __future__ import annotations

import msgspec
import pytest
import torch
from torch.export import ExportedProgram, export

import graphwire
from graphwire.schema import StackFrame


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


def test_each_node_has_its_trace_where_torch_looks_for_it(program: ExportedProgram) -> None:
    record, _ = graphwire.to_schema(program)
    nodes = record.graph_module.graph.nodes
    assert nodes
    assert [node.metadata["stack_trace"] for node in nodes] == [
        node.meta["stack_trace"] for node in program.graph.nodes if node.op == "call_function"
    ]
    assert record.graph_module.stack_frames == []


_FRAME = '  File "/a, b.py", line 3, in f\n    x = y\n'


@pytest.mark.parametrize(
    "trace", [_FRAME, _FRAME.strip(), _FRAME * 3, f"\n{_FRAME}", "somewhere else", 'a "quote" \u2028 \t é 😀']
)
def test_any_trace_comes_back(program: ExportedProgram, trace: str) -> None:
    node = next(node for node in program.graph.nodes if node.op == "call_function")
    node.meta["stack_trace"] = trace
    for format in ("json", "msgpack", "cbor"):
        assert _traces(graphwire.loads(graphwire.dumps(program, format=format)))[node.name] == trace


def test_traces_in_a_table_are_read(program: ExportedProgram) -> None:
    """As graphwire wrote them first: rows of frames, each once."""
    record, payloads = graphwire.to_schema(program)
    module = record.graph_module
    source = StackFrame("/a, b.py", 3, "f", "    x = y\n")
    module.stack_frames = [source, msgspec.structs.replace(source, line=4)]
    for node in module.graph.nodes:
        del node.metadata["stack_trace"]
        node.stack = [0, 1, 0]
    loaded = graphwire.from_schema(record, payloads)
    second = _FRAME.replace("3", "4")
    assert _traces(loaded)["add"] == _FRAME + second + _FRAME
    again, _ = graphwire.to_schema(loaded)
    assert graphwire.content_hash(again) == graphwire.content_hash(record)


@pytest.mark.parametrize("trace", ['File "/a\r.py", line 3, in f\r\n    x\0 = y\r', "else\rwhere\0"])
def test_lines_with_other_ends_are_lines(program: ExportedProgram, trace: str) -> None:
    node = next(node for node in program.graph.nodes if node.op == "call_function")
    node.meta["stack_trace"] = trace
    plain = trace.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    assert _traces(graphwire.loads(graphwire.dumps(program)))[node.name] == plain
