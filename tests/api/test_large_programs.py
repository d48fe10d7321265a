"""Large programs: the work of every function grows with the nodes, and weights larger than memory are not read."""

from __future__ import annotations

import io
import mmap
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from growth import calls_of
from inside.evolve import Edits, rewrite
from inside.schema import to_tree
from inside.wire import read_document, read_program

import graphwire
from graphwire.errors import LimitError
from graphwire.hooks import Limits
from graphwire.schema import Program

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))

from cases import chain
from sets.large import sparse_weights

NODES = 100
"""Of the smaller program; the larger has five times as many."""
FUNCTIONS: dict[str, Callable[[bytes, bytes], object]] = {
    "inspect": lambda data, _: graphwire.inspect(data),
    "verify": lambda data, _: graphwire.verify(data),
    "hash": lambda data, _: graphwire.content_hash(data),
    "diff": graphwire.diff,
    "targets": lambda data, _: graphwire.targets(data),
    "convert": lambda data, _: graphwire.convert(data, io.BytesIO(), format="msgpack"),
    "convert for torch 2.1": lambda data, _: graphwire.convert(
        data, io.BytesIO(), format="json", target="torch-2.1"
    ),
    "strip": lambda data, _: graphwire.convert(data, io.BytesIO(), strip=True),
    "view": lambda data, other: graphwire.view(data, other, use_torch=False),
}


@pytest.fixture(scope="module")
def files() -> dict[int, tuple[bytes, bytes]]:
    """By the number of nodes: a file, and one with fewer nodes."""
    return {
        nodes: (graphwire.dumps(chain(nodes)), graphwire.dumps(chain(nodes - nodes // 10)))
        for nodes in (NODES, 5 * NODES)
    }


@pytest.mark.parametrize("name", FUNCTIONS)
def test_work_is_linear_in_the_nodes(name: str, files: dict[int, tuple[bytes, bytes]]) -> None:
    few, many = (calls_of(lambda nodes=nodes: FUNCTIONS[name](*files[nodes]), again=True) for nodes in files)
    assert many < 5.3 * few


def test_a_large_document_is_decoded_without_a_tree_unless_it_may_have_too_many_values() -> None:
    registry = graphwire.Registry.discover()
    record, _ = graphwire.to_schema(chain(20))
    for name, decoded in (("json", True), ("msgpack", False)):
        format = registry.wire_format(name)
        data = graphwire.encode(record, format=name)
        values = count(to_tree(record))
        if decoded:
            assert values <= format.most_values(data) < len(data)
        limits = Limits(tree_nodes=len(data) - 1)
        assert isinstance(read_program(data, format, limits), Program) is decoded
        assert read_document(data, format, limits) == to_tree(record)
        limits = Limits(tree_nodes=values - 1)
        assert read_program(data, format, limits) is None
        with pytest.raises(LimitError):
            read_document(data, format, limits)


def count(tree: object) -> int:
    """The values of a tree."""
    inner = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    return 1 + sum(map(count, inner))


def test_a_rewritten_document_shares_what_no_step_edits() -> None:
    tree = to_tree(graphwire.to_schema(chain(5))[0])
    nodes = tree["graph_module"]["graph"]["nodes"]

    def renamed(node: dict[str, object], where: object) -> dict[str, object] | None:
        return {**node, "name": "other"} if node is nodes[2] else None

    edits = Edits(argument=lambda argument, where: None, node=renamed)
    made = rewrite(tree, edits)["graph_module"]["graph"]["nodes"]
    assert [new is old for new, old in zip(made, nodes, strict=True)] == [True, True, False, True, True]
    assert made[2]["inputs"] is nodes[2]["inputs"]


class Rows(torch.nn.Module):
    """Adds the first rows of its weights."""

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        super().__init__()
        self.weights = torch.nn.ParameterList(tensors)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for weight in self.weights:
            x = x + weight[0]
        return x


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells how much memory a process has for itself")
@pytest.mark.filterwarnings("ignore:The given buffer is not writable:UserWarning")
def test_weights_larger_than_memory_are_referred_to_and_mapped_without_being_read(tmp_path: Path) -> None:
    file, tensors, rows = tmp_path / "sparse.safetensors", 8, 1 << 20
    start, size = sparse_weights(file, tensors, rows), rows * 4096
    with file.open("rb") as stream:
        maps = [
            mmap.mmap(stream.fileno(), size, access=mmap.ACCESS_READ, offset=start + size * index)
            for index in range(tensors)
        ]
    held = [torch.frombuffer(each, dtype=torch.float32).view(rows, 1024) for each in maps]
    program = torch.export.export(Rows(held), (torch.ones(1024),))
    names = {f"weights.{index}": f"w{index}" for index in range(tensors)}
    checkpoint = graphwire.Checkpoint(file, names=names, check="names")
    before = own_memory()
    graphwire.save(program, tmp_path / "program.pt2", weights=checkpoint)
    assert not graphwire.verify(tmp_path / "program.pt2")
    loaded = graphwire.load(tmp_path / "program.pt2")
    assert sum(each.nbytes for each in loaded.state_dict.values()) == 32 << 30
    assert torch.equal(loaded.module()(torch.ones(1024)), torch.ones(1024))
    assert own_memory() - before < 64 << 20


def own_memory() -> int:
    """The bytes that this process has for itself, without pages of mapped files."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))
