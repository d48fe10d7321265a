"""Opset upgraders for torch's own operators."""

from __future__ import annotations

from graphwire.hooks import OpsetUpgrader, hookimpl
from graphwire_plugins.opsets.aten import ATEN_STEPS


@hookimpl
def graphwire_opset_upgraders() -> list[OpsetUpgrader]:
    """Return the upgrade and downgrade steps of ATen."""
    return list(ATEN_STEPS)
