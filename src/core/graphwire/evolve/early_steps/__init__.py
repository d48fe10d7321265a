"""How do the drafts and the schemas of torch 2.1 to 2.3 differ from their successors?"""

from typing import TYPE_CHECKING

from graphwire.lazy import door

if TYPE_CHECKING:
    from graphwire.evolve.early_steps.embedded import ExternalBytes, embed, embedded_tensors, swapped
    from graphwire.evolve.early_steps.order import EARLY_STEPS
else:
    __getattr__ = door(
        __name__,
        {
            ".embedded": "ExternalBytes embed embedded_tensors swapped",
            ".order": "EARLY_STEPS",
        },
    )

__all__ = ["EARLY_STEPS", "ExternalBytes", "embed", "embedded_tensors", "swapped"]
