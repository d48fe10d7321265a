"""Opset upgraders for what torch itself brings."""

from __future__ import annotations

from graphwire.hooks import OpsetUpgrader, hookimpl
from graphwire_plugins.opsets.aten import ATEN_STEPS

__all__ = ["graphwire_opset_upgraders"]


@hookimpl
def graphwire_opset_upgraders() -> list[OpsetUpgrader]:
    """ATen's history, up and down."""
    return list(ATEN_STEPS)
