"""What a tool is to this folder: a module with the names of `Tool`, in `through_NAME.py`."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

from programs import Inputs
from torch.export import ExportedProgram

FOLDER = Path(__file__).resolve().parent
TOOLS = tuple(sorted(path.stem.removeprefix("through_") for path in FOLDER.glob("through_*.py")))
"""Each tool's name."""


class Lowered(NamedTuple):
    """What a tool makes of a program."""

    numbers: Any
    """What it computes, as the tool returns it."""
    text: str | bytes
    """What it was lowered to, where two runs write the same; compared to the letter."""


class Tool(Protocol):
    """A module that gives programs to a tool."""

    NAME: str
    """What the tool is called in docs/ecosystem.md."""
    PACKAGES: tuple[str, ...]
    """The distributions whose versions count."""
    EVERY: int
    """One of how many programs is tried: as many as a quarter of an hour takes."""
    READS_FILES: bool
    """Whether it is given what torch reads of our default file too."""

    def through(self, program: ExportedProgram, call: Inputs) -> Lowered:
        """Lower a program, and compute one call of it. Raises whatever the tool raises."""


def tool(name: str) -> Tool:
    """The tool of a name, which its environment must hold."""
    return cast(Tool, importlib.import_module(f"through_{name}"))


def flat(program: ExportedProgram, call: Inputs) -> list[Any]:
    """The arguments of a call as a program lists its inputs: the leaves of the containers, without weights."""
    from torch.utils import _pytree as pytree

    return pytree.tree_leaves((call.args, {key: call.kwargs[key] for key in _order(program, call)}))


def _order(program: ExportedProgram, call: Inputs) -> Iterator[str]:
    spec = program.call_spec.in_spec
    names = spec.children()[1].context if spec is not None else []
    return iter(names or call.kwargs)
