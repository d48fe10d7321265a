"""Plugins that tests make of providers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
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


def put_distribution(folder: Path, name: str, version: str, entry_points: str, **modules: str) -> Path:
    """Put a distribution with these modules into a folder, as an installer leaves it there; the folder with its metadata."""
    info = folder / f"{name.replace('-', '_').replace('.', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nName: other\n"
    )
    (info / "entry_points.txt").write_text(entry_points)
    for module, source in modules.items():
        (folder / f"{module}.py").write_text(source)
    return info
