"""The order of the early steps."""

from graphwire.evolve.documents import Step
from graphwire.evolve.early_steps import draft_2022, schema_1, schema_2, schema_5_1

EARLY_STEPS: tuple[Step, ...] = (draft_2022.STEP, schema_1.STEP, schema_2.STEP, schema_5_1.STEP)
"""The steps up to schema 5.3, oldest first."""
