"""The built-in weight stores: safetensors files, and folders of blobs that are named by their content."""

from __future__ import annotations

from graphwire.hooks import WeightStore, hookimpl
from graphwire_plugins.stores.blobs import BlobStore
from graphwire_plugins.stores.safetensors import SafetensorsStore

__all__ = ["BlobStore", "SafetensorsStore", "graphwire_weight_stores"]


@hookimpl
def graphwire_weight_stores() -> list[WeightStore]:
    """Return the stores for safetensors files and for folders of blobs."""
    return [SafetensorsStore(), BlobStore()]
