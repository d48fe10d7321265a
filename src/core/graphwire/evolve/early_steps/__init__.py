"""How do the drafts and the schemas of torch 2.1 to 2.3 differ from their successors?"""

from graphwire.evolve.early_steps import draft_2022, schema_1, schema_2, schema_5_1
from graphwire.evolve.early_steps.embedded import ExternalBytes, embed, embedded_tensors, swapped

__all__ = ["EARLY_STEPS", "ExternalBytes", "embed", "embedded_tensors", "swapped"]

EARLY_STEPS = (draft_2022.STEP, schema_1.STEP, schema_2.STEP, schema_5_1.STEP)
"""The steps up to schema 5.3, oldest first."""
