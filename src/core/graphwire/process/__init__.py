"""Which state of the process does a save or a load change temporarily and restore?"""

from typing import TYPE_CHECKING

from graphwire.lazy import door

if TYPE_CHECKING:
    from graphwire.process.build_lock import one_build_at_a_time
    from graphwire.process.byte_tally import count_bytes, counted_bytes
    from graphwire.process.gc_pause import paused_gc
    from graphwire.process.interrupts import Descriptor, InterruptSafe, file_of
    from graphwire.process.type_analysis import TYPE_ANALYSIS
else:
    __getattr__ = door(
        __name__,
        {
            ".build_lock": "one_build_at_a_time",
            ".byte_tally": "count_bytes counted_bytes",
            ".gc_pause": "paused_gc",
            ".interrupts": "Descriptor InterruptSafe file_of",
            ".type_analysis": "TYPE_ANALYSIS",
        },
    )

__all__ = [
    "TYPE_ANALYSIS",
    "Descriptor",
    "InterruptSafe",
    "count_bytes",
    "counted_bytes",
    "file_of",
    "one_build_at_a_time",
    "paused_gc",
]
