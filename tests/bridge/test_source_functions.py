"""What `source_fn_stack` has of functions and classes comes back as what it was, where torch or Python have it."""

from __future__ import annotations

import builtins
import inspect
import io
import operator
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from inside.bridge import function_table, name_of_function, operator_packet
from torch import nn
from torch.export import ExportedProgram, export

import graphwire
from graphwire.testing import assert_same_program

FORMATS = ("json", "msgpack", "cbor")


@pytest.fixture(scope="module", autouse=True)
def _operators() -> Iterator[None]:
    with torch.library._scoped_library("graphwire_sources", "DEF") as library:
        library.define("plus(Tensor x) -> Tensor")
        library.impl("plus", lambda x: x + 1, "CompositeExplicitAutograd")
        torch.library.register_fake("graphwire_sources::plus", lambda x: x + 1, lib=library)
        yield


class _Own(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


class Everything(nn.Module):
    """Every kind of function that a strict export notes."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm, self.own = nn.Linear(4, 4), nn.LayerNorm(4), _Own()

    def forward(self, x: torch.Tensor) -> Any:
        y = self.own(self.norm(self.linear(x)))
        y += x
        y -= 1
        y *= x
        y = -(y**2) @ x.T
        y = torch.ops.graphwire_sources.plus(y) + torch.ops.aten.sin(y) + torch.ops.aten.cos.default(y)
        y = torch.special.erf(y) + torch.fft.fft(y).real + torch.linalg.norm(y)
        y = nn.functional.gelu(y) + nn.functional.softmax(y, -1) + torch.einsum("ij->ij", y)
        y = torch.cond(y.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (y,))
        return torch.cat([y, y.relu()])[0]


def _stacks(program: ExportedProgram) -> dict[str, Any]:
    return {
        f"{path}.{node.name}": node.meta["source_fn_stack"]
        for path, module in program.graph_module.named_modules()
        if isinstance(module, torch.fx.GraphModule)
        for node in module.graph.nodes
        if "source_fn_stack" in node.meta
    }


@pytest.fixture(scope="module")
def program(_operators: None) -> ExportedProgram:
    return export(Everything(), (torch.ones(4, 4),), strict=True)


def test_what_a_strict_export_notes_comes_back(program: ExportedProgram) -> None:
    stacks = _stacks(program)
    noted = [function for stack in stacks.values() for _, function in stack]
    for expected in (
        *(operator.iadd, torch.ops.graphwire_sources.plus, nn.Linear, getattr, torch.cat, torch.einsum),
        *(torch.fft.fft, torch.ops.aten.cos.default, torch.ops.higher_order.cond, "relu"),
    ):
        assert any(function is expected for function in noted), expected
    for format in FORMATS:
        loaded = graphwire.loads(graphwire.dumps(program, format=format))
        assert _stacks(loaded) == stacks
        assert_same_program(loaded, program)


def test_the_names_are_those_that_torch_writes(program: ExportedProgram) -> None:
    stream = io.BytesIO()
    torch.export.save(program, stream)
    with (
        graphwire.open(stream.getvalue()) as theirs,
        graphwire.open(graphwire.dumps(program)) as ours,
    ):
        for one, other in zip(
            theirs.program.graph_module.graph.nodes, ours.program.graph_module.graph.nodes, strict=True
        ):
            assert other.metadata.get("source_fn_stack") == one.metadata.get("source_fn_stack")
    stacks = _stacks(program)
    of_calls = _stacks(graphwire.loads(stream.getvalue()))  # torch keeps none of what is no call
    assert of_calls == {name: stacks[name] for name in of_calls}


def test_every_function_of_the_table_is_written_by_a_name_that_leads_to_it() -> None:
    program = export(_Own(), (torch.ones(1, 2),))
    (call,) = program.graph.find_nodes(op="call_function", target=torch.ops.aten.mul.Tensor)
    table = function_table()
    assert len(table) > 2000
    call.meta["source_fn_stack"] = [(str(index), f) for index, f in enumerate(table.values())]
    (loaded,) = _stacks(graphwire.loads(graphwire.dumps(program))).values()
    wrong = [
        (name, was)
        for (_, was), (_, name) in zip(call.meta["source_fn_stack"], loaded, strict=True)
        if was is not name
    ]
    assert wrong == []


def test_a_class_that_is_not_torchs_stays_a_name() -> None:
    program = export(_Own(), (torch.ones(1, 2),))
    (call,) = program.graph.find_nodes(op="call_function", target=torch.ops.aten.mul.Tensor)
    call.meta["source_fn_stack"] = [("own", _Own), ("test", test_a_class_that_is_not_torchs_stays_a_name)]
    (stack,) = _stacks(graphwire.loads(graphwire.dumps(program))).values()
    assert stack == [
        ("own", f"{__name__}._Own"),
        ("test", f"{__name__}.{call.meta['source_fn_stack'][1][1].__name__}"),
    ]


@pytest.mark.parametrize(
    "name",
    [
        *(
            "builtins.eval",
            "builtins.exec",
            "builtins.__import__",
            "builtins.open",
            "builtins.compile",
            "os.system",
        ),
        *(
            "torch.load",
            "torch.ops.load_library",
            "torch.ops.aten",
            "torch.ops.aten.no_such",
            "torch._C._disabled",
        ),
        *(
            "torch.ops.__class__.mro",
            "torch.hub.load",
            "posix.system",
            "_operator.__loader__",
            "torch.nn.modules",
        ),
    ],
)
def test_a_name_that_is_in_no_table_stays_a_name(name: str) -> None:
    program = export(_Own(), (torch.ones(1, 2),))
    (call,) = program.graph.find_nodes(op="call_function", target=torch.ops.aten.mul.Tensor)
    call.meta["source_fn_stack"] = [("it", name)]
    (stack,) = _stacks(graphwire.loads(graphwire.dumps(program))).values()
    assert stack == [("it", name)]


def test_no_function_of_the_table_runs_code_or_opens_files() -> None:
    named = {
        f
        for name, f in inspect.getmembers(builtins, inspect.isbuiltin)
        if name in "eval exec open compile __import__".split()
    }
    assert len(named) == 5
    assert named.isdisjoint(f for f in function_table().values() if not isinstance(f, type))
    assert {"torch.load", "torch.save"}.isdisjoint(map(name_of_function, function_table().values()))


def test_a_packet_is_found_where_torch_wrote_it_by_its_python_module() -> None:
    assert (
        operator_packet("torch._ops.aten.sin") is operator_packet("torch.ops.aten.sin") is torch.ops.aten.sin
    )
