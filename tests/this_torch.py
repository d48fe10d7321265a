"""The torch that the tests run on, which may be an older or a newer one than graphwire writes for by default."""

from __future__ import annotations

from typing import Any

import torch
from torch._export.serde.schema import SCHEMA_VERSION
from torch.export import ExportedProgram

import graphwire
from graphwire.schema import SCHEMA_VERSION as OURS

__all__ = ["RELEASE", "written_for_this_torch"]

_major, _minor, *_ = torch.__version__.split(".")
RELEASE = (int(_major), int(_minor))
"""Its release: major and minor version."""


def written_for_this_torch(program: ExportedProgram, **options: Any) -> bytes:
    """A program's file as this torch reads it: the one that is written by default, or by a target where that is newer.

    Args:
        program: the program.
        options: others than `target=` that `graphwire.dumps` takes.
    """
    target = None if SCHEMA_VERSION == OURS else f"torch-{RELEASE[0]}.{RELEASE[1]}"
    return graphwire.dumps(program, target=target, **options)
