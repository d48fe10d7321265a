"""Which state of the process does a save or a load change temporarily and restore?"""

from graphwire.process.build_lock import one_build_at_a_time
from graphwire.process.byte_tally import count_bytes, counted_bytes
from graphwire.process.gc_pause import paused_gc
from graphwire.process.interrupts import Descriptor, InterruptSafe

__all__ = ["Descriptor", "InterruptSafe", "count_bytes", "counted_bytes", "one_build_at_a_time", "paused_gc"]
