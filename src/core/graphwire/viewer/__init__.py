"""How does a program become a page for the browser? One HTML file with the program inside, and nothing loaded from elsewhere."""

from graphwire.viewer.embedding import embedded
from graphwire.viewer.facts import (
    Facts,
    FileFacts,
    Histogram,
    MethodCosts,
    MethodFacts,
    NodeCost,
    ProblemFact,
    TargetFact,
    WeightChange,
    WeightFacts,
)
from graphwire.viewer.notebook import inline_frame
from graphwire.viewer.overlays import OverlayValues, named_overlays, read_overlays
from graphwire.viewer.page import page_pieces

__all__ = [
    "Facts",
    "FileFacts",
    "Histogram",
    "MethodCosts",
    "MethodFacts",
    "NodeCost",
    "OverlayValues",
    "ProblemFact",
    "TargetFact",
    "WeightChange",
    "WeightFacts",
    "embedded",
    "inline_frame",
    "named_overlays",
    "page_pieces",
    "read_overlays",
]
