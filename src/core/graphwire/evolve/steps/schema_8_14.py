"""Schema 8.14 (torch 2.9). It has complex literals, mutated parameters and guards.

The step to 8.15 (torch 2.10) added the arms `as_int_lists` and `as_string_to_argument`.
"""

from graphwire.evolve.documents import Step, Version

STEP = Step(Version(8, 14), Version(8, 15))
