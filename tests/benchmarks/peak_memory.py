"""The memory that one save or load takes at its peak, beyond what the process had: a process of its own for each.

    python peak_memory.py {graphwire,torch.export} {save,load} PROGRAM FILE

PROGRAM is `weighty-256` (MiB of weights) or `chain-10000` (nodes of a graph).

Prints the bytes, or `null` where the kernel cannot say (it takes /proc, so Linux).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

__all__ = ["extra_bytes"]


def extra_bytes(library: str, action: str, program: str, file: Path) -> int | None:
    """What the peak of `action` adds to the resident memory of a fresh process, in bytes.

    Args:
        library: `graphwire` or `torch.export`.
        action: `save` the program to `file`, or `load` it from there.
        program: a maker of `cases` and its number, such as `weighty-256`.
    """
    command = [sys.executable, __file__, library, action, program, str(file)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: int | None = json.loads(done.stdout)
    return found


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(field)


def _measure(library: str, action: str, program_name: str, file: Path) -> int | None:
    import cases
    import torch

    import graphwire

    if library == "graphwire":
        save, load = graphwire.save, graphwire.load
    else:
        save, load = torch.export.save, torch.export.load
    with tempfile.TemporaryDirectory() as folder:  # so that what is imported on first use is not counted
        small = Path(folder) / "small.pt2"
        save(cases.weighty(16), small)
        load(small)
    maker, _, number = program_name.partition("-")
    program = getattr(cases, maker)(int(number)) if action == "save" else None
    try:
        Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
        before = _status("VmRSS")
    except (OSError, LookupError):
        return None
    # Bound to a name, so that what was loaded is alive when the peak is read.
    result = save(program, file) if action == "save" else load(file)
    peak = _status("VmHWM")
    del result
    return max(0, peak - before)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(_measure(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))))
