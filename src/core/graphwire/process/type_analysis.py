"""A lock for msgspec's analysis of types.

msgspec analyses a type when its first decoder is made, and keeps the result with the type. Two threads that do this at the same
time crash the process (seen with 0.22). Modules make their decoders when they are imported, and threads may import at once.
"""

from __future__ import annotations

from threading import RLock

TYPE_ANALYSIS = RLock()
"""Held while a decoder is made."""
