"""The graphwire plugin for checkpoints of `torch.distributed.checkpoint`: the weight store `dcp`."""

from __future__ import annotations

from graphwire.hooks import WeightStore, hookimpl
from graphwire_dcp.store import DcpStore

__all__ = ["DcpStore", "graphwire_weight_stores"]


@hookimpl
def graphwire_weight_stores() -> list[WeightStore]:
    """Return the store for folders that `torch.distributed.checkpoint` writes and reads."""
    return [DcpStore()]
