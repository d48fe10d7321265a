"""What this machine has: CPUs and memory, within what the process may use of them."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import psutil

_CGROUP_MEMORY = Path("/sys/fs/cgroup/memory.max")
_LEFT = 5
"""One part of so many is left to others."""


def cpu_count() -> int:
    """Return the CPUs that the process may use."""
    with contextlib.suppress(AttributeError):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_for(workers: int) -> int:
    """Return the bytes of memory for each of some workers."""
    total = psutil.virtual_memory().total
    with contextlib.suppress(OSError, ValueError):
        total = min(total, int(_CGROUP_MEMORY.read_text(encoding="ascii")))
    return total * (_LEFT - 1) // _LEFT // workers
