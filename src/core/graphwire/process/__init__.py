"""What does a save or a load change in its process for a while, and give back?"""

from graphwire.process.build_lock import taking_turns
from graphwire.process.gc_pause import paused_collector
from graphwire.process.interrupts import Descriptor, InterruptSafe
