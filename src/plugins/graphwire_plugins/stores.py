"""The built-in weight stores: safetensors files, and folders of blobs that are named by their content."""

from __future__ import annotations

from graphwire.registry.interfaces import WeightStore, hookimpl
from graphwire_plugins.blobs import BlobStore
from graphwire_plugins.safetensors import SafetensorsStore


@hookimpl
def graphwire_weight_stores() -> list[WeightStore]:
    """Return the stores for safetensors files and for folders of blobs."""
    return [SafetensorsStore(), BlobStore()]
