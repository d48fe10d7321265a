"""The order of the later steps."""

from graphwire.evolve.documents import Step
from graphwire.evolve.steps import compact_5_3, schema_5_3, schema_7_3, schema_8_2, schema_8_15
from graphwire.evolve.steps.additions import TO_8_8, TO_8_14, TO_8_15, TO_8_20

LATER_STEPS: tuple[Step, ...] = (
    schema_5_3.STEP,
    schema_7_3.STEP,
    schema_8_2.STEP,
    TO_8_8,
    TO_8_14,
    TO_8_15,
    schema_8_15.STEP,
    TO_8_20,
)
"""The steps from schema 5.3 on, oldest first."""
COMPACT_5_3: Step = compact_5_3.STEP
"""The step from the compact variant of schema 5.3 to schema 5.3."""
