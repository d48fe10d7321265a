"""Plugins that tests make of providers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from graphwire.hooks import Registry, hookimpl


class Plugin:
    """A plugin with these providers: `Plugin(wire_formats=[format])` has the hook `graphwire_wire_formats`."""

    def __init__(self, **provided: Iterable[Any]) -> None:
        for kind, providers in provided.items():
            setattr(self, f"graphwire_{kind}", hookimpl(lambda given=providers: [*given]))


def registry_with(**provided: Iterable[Any]) -> Registry:
    """The installed plugins, and one with these providers."""
    return Registry.discover().extended(Plugin(**provided))
