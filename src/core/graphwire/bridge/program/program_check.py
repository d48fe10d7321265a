"""What is saved is an exported program, and nothing else that a caller may hold for one."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram

from graphwire.errors import EncodeError
from graphwire.wire.archive import type_text


def check_exported(program: Any, place: str = "") -> None:
    """Refuse what is no exported program.

    Raises:
        EncodeError: it is something else; the message says how to make one of a module.
    """
    if isinstance(program, ExportedProgram):
        return
    remedy = "Give what torch.export.export made"
    if isinstance(program, torch.nn.Module):
        remedy = "Export it first: torch.export.export(module, example_inputs)"
    elif isinstance(program, str):
        remedy = "The program comes first, then the file"
    raise EncodeError(f"{type_text(program)} is no exported program", place=place, remedy=remedy)
