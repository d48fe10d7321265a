"""The adapter class. Model Explorer imports the module `main` of each extension."""

from __future__ import annotations

from typing import Any

from model_explorer import Adapter, AdapterMetadata, ModelExplorerGraphs

from graphwire_model_explorer.graphs import graphs_of


class GraphwireAdapter(Adapter):  # type: ignore[misc]
    """An adapter for files of graphwire and of `torch.export.save`, which it reads as records."""

    metadata = AdapterMetadata(
        id="graphwire",
        name="graphwire",
        description="Exported PyTorch programs, without loading them through torch",
        source_repo="https://github.com/graphwire/graphwire",
        fileExts=["pt2"],
    )

    def convert(self, model_path: str, settings: dict[str, Any]) -> ModelExplorerGraphs:
        """Return the graphs of all programs of a file, with their subgraphs.

        Args:
            model_path: the path of the file.
            settings: the settings of the page; ignored.

        Raises:
            graphwire.errors.GraphwireError: the file is not an archive, is damaged, or contains an invalid program.
        """
        return {"graphs": graphs_of(model_path)}
