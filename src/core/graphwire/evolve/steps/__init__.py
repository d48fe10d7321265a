"""How do the schemas of torch 2.4 and later differ from their successors?"""

from graphwire.evolve.steps import (
    compact_5_3,
    schema_5_3,
    schema_7_3,
    schema_8_2,
    schema_8_7,
    schema_8_8,
    schema_8_14,
    schema_8_15,
    schema_8_17,
)
from graphwire.evolve.steps.extensions import resolve_extensions

LATER_STEPS = (
    schema_5_3.STEP,
    schema_7_3.STEP,
    schema_8_2.STEP,
    schema_8_7.STEP,
    schema_8_8.STEP,
    schema_8_14.STEP,
    schema_8_15.STEP,
    schema_8_17.STEP,
)
"""The steps from schema 5.3 on, oldest first."""
COMPACT_5_3 = compact_5_3.STEP
"""The step from the compact variant of schema 5.3 to schema 5.3."""
