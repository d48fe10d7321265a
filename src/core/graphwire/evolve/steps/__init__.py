"""How do the schemas of torch 2.4 and later differ from their successors?"""

from typing import TYPE_CHECKING

from graphwire.lazy import door

if TYPE_CHECKING:
    from graphwire.evolve.steps.extensions import resolve_extensions
    from graphwire.evolve.steps.order import COMPACT_5_3, LATER_STEPS
else:
    __getattr__ = door(
        __name__,
        {
            ".extensions": "resolve_extensions",
            ".order": "COMPACT_5_3 LATER_STEPS",
        },
    )

__all__ = ["COMPACT_5_3", "LATER_STEPS", "resolve_extensions"]
