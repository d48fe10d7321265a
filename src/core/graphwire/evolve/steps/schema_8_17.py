"""Schema 8.17 (torch 2.11). It has all of torch's argument arms but one, and a name for each node.

The step to 8.20 (torch 2.12) added the arm `as_float_lists` and the element types float8_e8m0fnu, uint32 and uint64.
"""

from graphwire.evolve.documents import Step, Version

STEP = Step(Version(8, 17), Version(8, 20))
