"""Which documents can be read, and for which readers can a program be written?"""

from typing import TYPE_CHECKING

from graphwire.lazy import door

if TYPE_CHECKING:
    from graphwire.evolve.targets.chain import downgrade, upgrade
    from graphwire.evolve.targets.oldest_reader import OURS_FIRST, first_reader, first_reader_of
    from graphwire.evolve.targets.targets import Target, obstacles_by_target, supports, target_named
    from graphwire.evolve.targets.trace_texts import with_trace_texts
else:
    __getattr__ = door(
        __name__,
        {
            ".chain": "downgrade upgrade",
            ".oldest_reader": "OURS_FIRST first_reader first_reader_of",
            ".targets": "Target obstacles_by_target supports target_named",
            ".trace_texts": "with_trace_texts",
        },
    )

__all__ = [
    "OURS_FIRST",
    "Target",
    "downgrade",
    "first_reader",
    "first_reader_of",
    "obstacles_by_target",
    "supports",
    "target_named",
    "upgrade",
    "with_trace_texts",
]
