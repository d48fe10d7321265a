"""What is written of an edited program for torch, or called readable by it, torch's own reader reads, and so does ours.

8 examples by default; `make test-nightly` tries thousands.
"""

from __future__ import annotations

import copy
import functools
import io
import random
import warnings
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from nightly import IS_NIGHTLY, by_day, one_in
from random_programs.edits import EDITS, edit
from this_torch import RELEASE
from torch.export import Dim, ExportedProgram, export

import graphwire
from graphwire.errors import GraphwireError

X = torch.ones(3, 4)


class Modes(torch.nn.Module):
    """Subgraphs of every kind of mode, and results that are taken apart."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("total", torch.ones(4))

    def forward(self, x: torch.Tensor) -> Any:
        with torch.no_grad():
            a = x.sin() + 1
            values, indices = torch.topk(a, 2)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            b = self.linear(x) @ x.t()
            mean = torch.std_mean(b)[1]
        c = torch.cond(x.sum() > 0, lambda x: (x.sin(), x + 1), lambda x: (x.cos(), x * 2), (a,))
        self.total.add_(1)
        return a * 2, b + 1, values, mean, indices, c[0] + c[1] + self.total


class Numbers(torch.nn.Module):
    """Sizes, and numbers that only a run knows."""

    def forward(self, x: torch.Tensor) -> Any:
        count = (x > 0).sum().item()
        torch._check(count >= 0)
        torch._check(count < 12)
        rows = x.shape[0]
        return torch.ones(count), x * x.sum().item(), x.new_full((2,), rows * 2), x.reshape(rows * 2, -1)


@functools.cache
def made(name: str) -> ExportedProgram:
    if name == "numbers":
        return export(Numbers(), (X,), dynamic_shapes=({0: Dim("rows", min=2, max=50)},))
    program = export(Modes(), (X,))
    return program.run_decompositions() if name == "modes, decomposed" else program


STATED: dict[str, Any] = {
    "nothing": None,
    "an integer": 3,
    "a float": 0.5,
    "a truth value": True,
    "an empty tuple": (),
    "a tensor": torch.ones(()),
}


def assert_read(program: ExportedProgram, target: str | None) -> bool:
    """Fail where a file is called readable and is not. Whether it is."""
    try:
        data = graphwire.dumps(program, target=target)
    except GraphwireError:
        return False
    with graphwire.open(data) as archive:
        reader = archive.program.readable_from
    if target is None and not is_here(reader):
        return False
    graphwire.loads(data)
    torch.export.load(io.BytesIO(data))
    return True


def is_here(reader: str | None) -> bool:
    """Whether the torch that is installed is said to read a file."""
    name, _, release = (reader or "").partition("-")
    return name == "torch" and tuple(map(int, release.split("."))) <= RELEASE


@settings(
    max_examples=by_day(8, by_night=settings().max_examples),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.generate],
)
@given(
    name=st.sampled_from(["modes", "modes, decomposed", "numbers"]),
    seed=st.integers(0, 1 << 32),
    target=st.sampled_from([None, "torch"]),
)
@pytest.mark.slow
def test_what_is_called_readable_after_edits_torch_reads(name: str, seed: int, target: str | None) -> None:
    program, chance = copy.deepcopy(made(name)), random.Random(seed)
    kinds = [*EDITS, *["restate"] * 5]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done = edit(program, chance, count=chance.randint(1, 4), kinds=kinds)
        try:
            assert_read(program, target)
        except Exception as error:
            raise AssertionError("\n  ".join(["after these edits:", *done, str(error)])) from error


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["modes", "numbers"])
@pytest.mark.parametrize("said", one_in(2, STATED))
def test_a_node_that_states_something_else_is_read_or_not_called_readable(name: str, said: str) -> None:
    """No reader of torch is asked for a tensor, where its operator makes one, that a document has as something else: which of
    the releases look for it there is theirs to know."""
    program = copy.deepcopy(made(name))
    nodes = [
        node
        for module in program.graph_module.modules()
        if isinstance(module, torch.fx.GraphModule)
        for node in module.graph.nodes
        if node.op == "call_function"
    ]
    for node in nodes if IS_NIGHTLY else random.Random(said).sample(nodes, 6):
        value = node.meta["val"]
        node.meta["val"] = STATED[said]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            is_read = assert_read(program, "torch")
        schema = getattr(node.target, "_schema", None)
        one = schema is not None and [str(each.type) for each in schema.returns] == ["Tensor"]
        assert not (is_read and one) or isinstance(STATED[said], torch.Tensor), node
        if value is not None and all(user.op != "output" for user in node.users):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                graphwire.loads(graphwire.dumps(program))
        node.meta["val"] = value
