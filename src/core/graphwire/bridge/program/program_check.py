"""Checks that the object to save is an exported program."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram

from graphwire.errors import EncodeError
from graphwire.wire.archive import type_text


def check_is_exported_program(program: Any, place: str = "") -> None:
    """Raise unless given an exported program.

    Raises:
        EncodeError: it is something else; the message tells how to export a module.
    """
    if isinstance(program, ExportedProgram):
        return
    remedy = "Pass the result of torch.export.export"
    if isinstance(program, torch.nn.Module):
        remedy = "Export it first: torch.export.export(module, example_inputs)"
    elif isinstance(program, str):
        remedy = "Pass the program first, then the file"
    raise EncodeError(f"{type_text(program)} is not an exported program", place=place, remedy=remedy)
