"""The store keeps the contract of weight stores."""

from __future__ import annotations

from graphwire_dcp import DcpStore

from graphwire.testing import WeightStoreContract


class TestDcp(WeightStoreContract):
    store = DcpStore()
    location = "checkpoint/.metadata"
