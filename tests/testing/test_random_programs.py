"""Any program that torch exports comes back from every wire format as it was, and does what it did.

20 examples by day; `make test-nightly` tries thousands, others on each run.
"""

from __future__ import annotations

import copy
import io
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from inside.testing import assert_same_snapshot, snapshot
from nightly import by_day
from random_programs import ExportableProgram, exportable_programs, program_sources

import graphwire
from graphwire.errors import GraphwireWarning
from graphwire.hooks import default_registry
from graphwire.testing import assert_same_program, assert_same_values

FORMATS = sorted(default_registry().wire_formats)
CALLS = ({}, {"n": 9, "m": 5})
"""Sizes to call a program with: those that it was exported with, and others."""

PARTS = max(1, settings().max_examples // 500)
"""How many tests share the examples, so that they run on several processors. Each finds others by itself, but for the
steady profile, which has one part."""

slow = settings(
    max_examples=by_day(8, by_night=settings().max_examples // PARTS),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """What torch has to say of a random program is not what is tested."""
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        warnings.filterwarnings("error", category=GraphwireWarning)
        yield


def results(module: torch.nn.Module, made: ExportableProgram) -> list[Any]:
    """For each call what it returns, or that it fails; and what it makes of its arguments, and of the module's tensors."""
    found: list[Any] = []
    held = {**dict(module.named_buffers()), **dict(module.named_parameters())}
    # Not what subgraphs hold that torch left behind when it took the calls of them out.
    kept = {*made.program.state_dict, *made.program.constants}
    state = {name: tensor for name, tensor in held.items() if name in kept}
    before = {name: tensor.detach().clone() for name, tensor in state.items()}
    for sizes in CALLS:
        args, kwargs = made.inputs(**sizes)
        torch.manual_seed(0)
        try:
            found.append(copy.deepcopy(_detached((module(*args, **kwargs), args, kwargs))))
        except Exception as error:
            found.append(type(error).__name__)
    found.append({name: state[name].detach().clone() for name in sorted(state)})
    with torch.no_grad():
        for name, tensor in state.items():
            if not torch.equal(tensor, before[name]):
                _distinct(tensor).copy_(_distinct(before[name], like=tensor))
    return found


def _detached(value: Any) -> Any:
    return torch.utils._pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, value)


def test_as_many_are_tried_as_is_said() -> None:
    assert slow.max_examples * PARTS >= by_day(8, by_night=1000)


def _distinct(tensor: torch.Tensor, like: torch.Tensor | None = None) -> torch.Tensor:
    """A tensor without the elements that an expanded one, it or `like`, repeats."""
    shown = tensor if like is None else like
    if shown.layout is torch.strided:
        for dimension, stride in enumerate(shown.stride()):
            if stride == 0 and shown.shape[dimension]:
                tensor = tensor.narrow(dimension, 0, 1)
    return tensor


@pytest.mark.parametrize("part", range(PARTS))
@slow
@given(made=exportable_programs())
def test_any_program_comes_back_from_every_format(made: ExportableProgram, part: int) -> None:
    program = made.program
    before, expected = snapshot(program), results(program.module(), made)
    saved = {name: graphwire.dumps(program, format=name) for name in FORMATS}
    assert_same_snapshot(snapshot(program), before)
    for name, data in saved.items():
        loaded = graphwire.loads(data)
        assert_same_program(loaded, program)
        assert graphwire.dumps(loaded, format=name) == data, "the second save differs"
        assert graphwire.verify(data) == []
        assert_same_values(results(loaded.module(), made), expected)
        stream = io.BytesIO()
        graphwire.convert(saved["json"], stream, format=name)
        assert stream.getvalue() == data, "converting does not give what saving gives"


KINDS = (
    *("torch.cond(", "while_loop(", "_ops.map(", "_ops.scan(", "torch.autocast", "torch.no_grad", "    def "),
    *("Pair(", "Box(", "OrderedDict", "defaultdict", "None", "nn.Parameter", "persistent=False", "requires_grad=False"),
    *("complex64", "bfloat16", "float8_e4m3fn", "bool", "uint16", ".expand(3, 4)"),
    *("Dim(", "Dim.AUTO", "Dim.DYNAMIC", "2 * rows", "rows + 1", "columns", "torch.sym_", ".item()", "_(", "*, k"),
    *("strict=True", "run_decompositions", ".split(", "].shape[0]"),
)  # fmt: skip
"""Words of everything that a random program may have."""


@pytest.mark.slow
def test_everything_is_drawn() -> None:
    seen: set[str] = set()

    @settings(max_examples=300, database=None, derandomize=True, phases=[Phase.generate], deadline=None)
    @given(data=st.data())
    def look(data: st.DataObject) -> None:
        source = data.draw(program_sources())
        seen.update(kind for kind in KINDS if kind in source)

    look()
    assert seen == set(KINDS)
