"""The metadata key `slabs`: an entry of `node.meta` that files keep. `mark` writes it, `marked` reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphwire import hookimpl
from graphwire.hooks import MetadataKey

if TYPE_CHECKING:
    from torch.export import ExportedProgram

GRAPHWIRE_API = 1
"""The version of graphwire's plugin interface that this module uses."""

KEY = "slabs"


def mark(program: ExportedProgram, operator: str, note: str) -> None:
    """Store a note in each node that calls an operator, such as `aten.relu.default`."""
    for node in program.graph.nodes:
        if str(node.target) == operator:
            node.meta[KEY] = note


def marked(program: ExportedProgram) -> dict[str, str]:
    """Return the notes, by the names of the nodes."""
    return {node.name: node.meta[KEY] for node in program.graph.nodes if KEY in node.meta}


@hookimpl
def graphwire_metadata_keys() -> list[MetadataKey]:
    """Return the metadata keys of this plugin."""
    return [MetadataKey(KEY)]
