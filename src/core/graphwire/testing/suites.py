"""What contract suites share: a plugin with the tested provider, and programs that are exported once and run."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from graphwire.hooks import hookimpl

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def plugin_of(hook: str, provider: Any) -> Any:
    """Return a plugin with one provider."""
    return SimpleNamespace(**{hook: hookimpl(lambda: [provider])})


class ProgramSuite:
    """A contract suite that needs programs."""

    programs: Sequence[Callable[[], ExportedProgram]]

    @pytest.fixture
    def exported(self) -> list[ExportedProgram]:
        """Return the programs, exported once."""
        assert self.programs
        return [_exported(make) for make in self.programs]


@functools.cache
def _exported(make: Callable[[], ExportedProgram]) -> ExportedProgram:
    return make()


def run_program(program: ExportedProgram, inputs: Any = None) -> Any:
    """Return what a program computes for copies of its example inputs, or of other ones."""
    import torch

    args, kwargs = copy.deepcopy(inputs or program.example_inputs)
    torch.manual_seed(0)
    return program.module()(*args, **kwargs)
