"""Every operator in torch's database of operators that exports round-trips.

By day some members of each family, with one sample. By night
(`make test-nightly`), with two samples of all. `load_module` makes the module of each of them, also where shapes are dynamic.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from higher_order import GIVEN, Call
from loaded_modules import assert_same_module
from nightly import IS_NIGHTLY, by_day, one_in
from this_torch import RELEASE
from torch.export import Dim, ExportedProgram, export
from torch.utils import _pytree as pytree

import graphwire

BATCHES = 24
BY_DAY = {"OpInfo": 3, "UnaryUfuncInfo": 6, "BinaryUfuncInfo": 4, "ReductionOpInfo": 3, "SpectralFuncInfo": 3}
"""Families of operators, and one of how many members is tried by day."""
TORCH_BY_DAY = 3
"""One of how many operators is also read and written by torch by day."""

DOES_NOT_EXPORT = {
    **dict.fromkeys(("allclose", "corrcoef", "cov", "equal"), "branches on the elements of a tensor"),
    **dict.fromkeys(
        ("linalg.lstsq", "linalg.lstsq.grad_oriented", "nn.functional.ctc_loss"),
        "output sizes depend on elements",
    ),
    "nn.functional.gaussian_nll_loss": "branches on the elements of a tensor",
    **dict.fromkeys(
        (
            "jiterator_unary",
            "jiterator_binary",
            "jiterator_4inputs_with_extra_args",
            "jiterator_binary_return_by_ref",
            "jiterator_2inputs_2outputs",
        ),
        "needs a GPU",
    ),
}
if RELEASE < (2, 12):
    DOES_NOT_EXPORT |= dict.fromkeys(("nanquantile", "quantile"), "branches on the elements of a tensor")
"""The operators that `torch.export.export` itself refuses, and why. One that it takes must leave this table."""

DOES_NOT_ROUND_TRIP: dict[str, str] = {}
"""The operators that export and do not round-trip, and why. One that begins to must leave this table."""


def _operators() -> list[Any]:
    from torch.testing._internal.common_methods_invocations import op_db

    return list(op_db)


def _tried() -> list[Any]:
    """The operators of this run."""
    seen: Counter[str] = Counter()
    found = []
    for info in _operators():
        family = type(info).__name__
        seen[family] += 1
        is_table_row = _name(info) in DOES_NOT_EXPORT or _name(info) in DOES_NOT_ROUND_TRIP
        if IS_NIGHTLY or is_table_row or seen[family] % BY_DAY.get(family, 1) == 0:
            found.append(info)
    return found


def _name(info: Any) -> str:
    return f"{info.name}.{info.variant_test_name}" if info.variant_test_name else str(info.name)


def _program_of(
    info: Any, sample: Any, dynamic: bool
) -> tuple[ExportedProgram, tuple[Any, ...], dict[str, Any]]:
    """The exported call of an operator with a sample, whatever can be an input being one; and those inputs.

    Args:
        dynamic: whether every size is dynamic that can be.
    """
    every = (sample.input, *sample.args)
    args = tuple(value for value in every if _can_be_input(value))
    # The code that FX generates spells devices as `device(…)`, and cannot if an input has that name.
    kwargs = {key: value for key, value in sample.kwargs.items() if key != "device" and _can_be_input(value)}
    module = Call(
        info.op,
        [GIVEN if _can_be_input(value) else value for value in every],
        {key: value for key, value in sample.kwargs.items() if key not in kwargs},
    )
    shapes = pytree.tree_map(
        lambda each: [Dim.AUTO] * each.ndim if isinstance(each, torch.Tensor) else None,
        {"args": args, **kwargs},
    )
    return export(module, args, kwargs, dynamic_shapes=shapes if dynamic else None), args, kwargs


def _can_be_input(value: Any) -> bool:
    plain = (torch.Tensor, int, float, bool, str, type(None))
    return all(type(leaf) in plain for leaf in pytree.tree_leaves(value))


def _samples_of(info: Any, first_only: bool) -> list[Any]:
    """The first and the last sample of an operator: mostly the plainest, and one with every option."""
    dtypes = sorted(info.dtypes, key=str) or [torch.float32]
    dtype = torch.float32 if torch.float32 in dtypes else dtypes[0]
    # All are made: a generator that is left half-way restores the mode of gradients whenever it is collected.
    samples = list(info.sample_inputs("cpu", dtype))
    if first_only:
        return samples[:1]
    return samples if len(samples) < 2 else [samples[0], samples[-1]]


def _programs(
    info: Any,
    last_first: bool,
    torch_may_warn: Callable[[], warnings.catch_warnings[None]],
    *,
    dynamic: bool = False,
) -> Iterator[tuple[int, ExportedProgram, tuple[Any, ...], dict[str, Any]]]:
    """The programs of those samples of an operator that export, each with the position of the sample."""
    with torch_may_warn():
        samples = list(enumerate(_samples_of(info, first_only=not (IS_NIGHTLY or last_first))))
    for position, sample in reversed(samples) if last_first else samples:
        with torch_may_warn():
            try:
                program = _program_of(info, sample, dynamic)
            except Exception:
                continue
        yield position, *program


@pytest.mark.nightly
@pytest.mark.parametrize("batch", one_in(12, range(BATCHES)))
def test_every_operator_that_exports_round_trips(
    batch: int,
    assert_round_trips: Callable[..., bool],
    torch_may_warn: Callable[[], warnings.catch_warnings[None]],
) -> None:
    wrong = []
    for index, info in list(enumerate(_tried()))[batch::BATCHES]:
        name, problem, exported, graph_differs = _name(info), None, False, False
        for position, program, args, kwargs in _programs(info, index % 2 == 1, torch_may_warn):
            exported = True
            # JSON for the first sample of each, and another format for the other one.
            format = ("msgpack", "cbor")[index // 2 % 2] if position else "json"
            try:
                with_torch = IS_NIGHTLY or index % TORCH_BY_DAY == 0
                graph_differs |= assert_round_trips(program, args, kwargs, format, with_torch=with_torch)
            except Exception as error:
                problem = f"{name} in {format}: {type(error).__name__}: {error}"
            if problem is not None or not IS_NIGHTLY:
                break
        if exported is (name in DOES_NOT_EXPORT):
            wrong.append(f"{name} {'exports' if exported else 'does not export'}")
        if graph_differs:
            wrong.append(f"the graph of {name} differs")
        if problem is not None and name not in DOES_NOT_ROUND_TRIP:
            wrong.append(problem)
        if problem is None and name in DOES_NOT_ROUND_TRIP:
            wrong.append(f"{name} round-trips")
    assert not wrong, "\n".join(wrong)


ENDS_THE_PROCESS = {"lu_unpack"}
"""Where torch reads outside of an argument that does not fit."""


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("batch", range(BATCHES))
def test_a_module_is_that_of_the_loaded_program(
    batch: int, torch_may_warn: Callable[[], warnings.catch_warnings[None]]
) -> None:
    """It has the same attributes, computes the same, and refuses the same calls; by day with dynamic sizes."""
    wrong = []
    for info in _tried()[batch::BATCHES]:
        for dynamic in by_day([True], by_night=[False, True]):
            for _, program, args, kwargs in _programs(info, False, torch_may_warn, dynamic=dynamic):
                violations = 0 if _name(info) in ENDS_THE_PROCESS else by_day(8, by_night=40)
                try:
                    data = graphwire.dumps(program)
                    with torch_may_warn():
                        assert_same_module(data, args, kwargs, violations=violations)
                        assert_same_module(data, args, kwargs, check_guards=False, violations=violations // 4)
                except Exception as error:
                    wrong.append(f"{_name(info)}{' dynamic' if dynamic else ''}: {error}")
    assert not wrong, "\n".join(wrong)


def test_the_tables_of_exceptions_name_operators_and_leave_650_to_pass() -> None:
    names = [_name(info) for info in _operators()]
    assert len(names) == len(set(names))
    assert not {*DOES_NOT_EXPORT, *DOES_NOT_ROUND_TRIP} - set(names)
    assert len(names) - len(DOES_NOT_EXPORT) - len(DOES_NOT_ROUND_TRIP) >= 650
