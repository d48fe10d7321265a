"""How do records become plain trees, and trees records?"""

from typing import TYPE_CHECKING

from graphwire.lazy import door

if TYPE_CHECKING:
    from graphwire.schema.trees.conversion import from_tree, program_from_tree, to_tree
    from graphwire.schema.trees.reading import ProgramDecoder
    from graphwire.schema.trees.unfolding import (
        MAX_DEPTH,
        OMITTED,
        WHY_OMITTED,
        TraceTexts,
        Unfolding,
        provenance_of,
        traces_of,
    )
else:
    __getattr__ = door(
        __name__,
        {
            ".conversion": "from_tree program_from_tree to_tree",
            ".reading": "ProgramDecoder",
            ".unfolding": "MAX_DEPTH OMITTED WHY_OMITTED TraceTexts Unfolding provenance_of traces_of",
        },
    )

__all__ = [
    "MAX_DEPTH",
    "OMITTED",
    "WHY_OMITTED",
    "ProgramDecoder",
    "TraceTexts",
    "Unfolding",
    "from_tree",
    "program_from_tree",
    "provenance_of",
    "to_tree",
    "traces_of",
]
