"""What does a save or a load change in its process for a while, and give back?"""

from graphwire.process.build_lock import one_build_at_a_time
from graphwire.process.gc_pause import paused_gc
from graphwire.process.interrupts import Descriptor, InterruptSafe
