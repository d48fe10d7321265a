"""The adapter of Model Explorer, which imports `main` of each extension that it is given."""

from __future__ import annotations

from typing import Any

from model_explorer import Adapter, AdapterMetadata, ModelExplorerGraphs

from graphwire_model_explorer.graphs import graphs_of

__all__ = ["GraphwireAdapter"]


class GraphwireAdapter(Adapter):  # type: ignore[misc]
    """Files of graphwire and of `torch.export.save`, read as records."""

    metadata = AdapterMetadata(
        id="graphwire",
        name="graphwire",
        description="Exported PyTorch programs, without loading them through torch",
        source_repo="https://github.com/graphwire/graphwire",
        fileExts=["gw", "pt2"],
    )

    def convert(self, model_path: str, settings: dict[str, Any]) -> ModelExplorerGraphs:
        """The programs of a file, each with its subgraphs.

        Args:
            model_path: the file.
            settings: those of the page; none count.

        Raises:
            graphwire.errors.GraphwireError: the file is no archive, is damaged, or holds no valid program.
        """
        return {"graphs": graphs_of(model_path)}
