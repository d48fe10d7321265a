"""What it means that a program round-trips, for the programs of torch's own databases of operators and examples."""

from __future__ import annotations

import copy
import io
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import torch
from inside.testing import differences, snapshot
from this_torch import written_for_this_torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree
from torch_construction import assert_code_is_torchs

import graphwire
from graphwire.testing import assert_same_values

sys.path.append(str(Path(__file__).parent))

RoundTrip: TypeAlias = Callable[..., bool]


@pytest.fixture(scope="module", autouse=True)
def _defined_memory() -> Iterator[None]:
    """Let operators that make uninitialised tensors (`empty`) fill them, so that what they compute can be compared."""
    before = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(before[0], warn_only=before[1])


@pytest.fixture(autouse=True)
def _quiet_torch() -> Iterator[None]:
    """What torch says about its own export and reader, of which many programs here are known to be beyond."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def assert_round_trips() -> RoundTrip:
    """A function that fails unless a program round-trips, as its docstring says."""
    return _assert_round_trips


def _assert_round_trips(
    program: ExportedProgram,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    format: str = "json",
    *,
    with_torch: bool = True,
) -> bool:
    """Fail unless a program that went through a file computes the same, bit by bit, is saved to the same bytes again, and has
    the code that torch writes.

    In JSON, torch must also read our file and we torch's, wherever torch reads its own, and where ours has no extension.

    Args:
        args: inputs that the program was exported with; and so are `kwargs`.
        format: the wire format.
        with_torch: whether torch must agree too.

    Returns:
        Whether the loaded program differs in anything else: its graph, metadata, signature, example inputs.
    """
    with _torch_may_warn():
        expected = _computed(program, args, kwargs)
    data = graphwire.dumps(program, format=format)
    loaded = graphwire.loads(data)
    assert_code_is_torchs(loaded)
    with _torch_may_warn():
        assert_same_values(_computed(loaded, args, kwargs), expected)
        assert_same_values(_computed(graphwire.load_module(data), args, kwargs), expected)
    assert graphwire.dumps(loaded, format=format) == data, "the second save gives other bytes"
    if format == "json" and with_torch:
        _assert_torch_agrees(program, data, lambda each: _computed(each, args, kwargs), expected)
    return any(differences(snapshot(loaded), snapshot(program)))


def _assert_torch_agrees(
    program: ExportedProgram, data: bytes, compute: Callable[[ExportedProgram], Any], expected: Any
) -> None:
    """Fail unless torch and we read each other's files of a program, if torch reads its own."""
    with _torch_may_warn():
        try:
            written = _saved_by_torch(program)
            assert_same_values(compute(_loaded_by_torch(written)), expected)
        except Exception:
            return
    assert graphwire.content_hash(written) == graphwire.content_hash(data), (
        "the file of torch has another hash"
    )
    ours = graphwire.loads(written)
    with _torch_may_warn():
        assert_same_values(compute(ours), expected)
    with graphwire.open(data) as archive:
        extended = bool(archive.program.requires)
    if not extended:
        with _torch_may_warn():
            assert_same_values(compute(_loaded_by_torch(written_for_this_torch(program))), expected)


def _saved_by_torch(program: ExportedProgram) -> bytes:
    file = io.BytesIO()
    torch.export.save(program, file)
    return file.getvalue()


def _loaded_by_torch(data: bytes) -> ExportedProgram:
    return torch.export.load(io.BytesIO(data))


def _computed(
    program: ExportedProgram | torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """What a program or its module computes from copies of inputs and what it leaves in them, or how it fails to."""
    args, kwargs = pytree.tree_map_only(torch.Tensor, _copied, (args, kwargs))
    module = program if isinstance(program, torch.nn.Module) else program.module()
    torch.manual_seed(0)
    try:
        return module(*args, **kwargs), args, kwargs
    except Exception as error:  # such as an operator that has no CPU kernel
        return type(error).__name__, str(error)


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    # A deep copy keeps strides, but tensors without a storage have none.
    return copy.deepcopy(tensor) if tensor.layout is torch.strided else tensor.clone()


def _torch_may_warn() -> warnings.catch_warnings[None]:
    """A context for what torch does itself: operators that are deprecated, in beta, or nondeterministic, warn."""
    return warnings.catch_warnings(action="ignore")


@pytest.fixture
def torch_may_warn() -> Callable[[], warnings.catch_warnings[None]]:
    """A context for what torch does itself."""
    return _torch_may_warn
