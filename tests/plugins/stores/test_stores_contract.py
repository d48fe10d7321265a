"""The stores in the box keep the contract that a plugin's store does."""

from __future__ import annotations

from graphwire.testing import WeightStoreContract
from graphwire_plugins.blobs import BlobStore
from graphwire_plugins.safetensors import SafetensorsStore


class TestSafetensors(WeightStoreContract):
    store = SafetensorsStore()
    location = "model.safetensors"


class TestShards(WeightStoreContract):
    """More bytes than one file may have."""

    store = SafetensorsStore(shard_bytes=20)
    location = "model.safetensors.index.json"


class TestBlobs(WeightStoreContract):
    store = BlobStore()
