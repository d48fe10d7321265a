"""The memory that one save or load takes at its peak, beyond what the process had: a process of its own for each.

    python peak_memory.py {graphwire,torch} {save,load} MEBIBYTES FILE

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


def extra_bytes(library: str, action: str, mebibytes: int, file: Path) -> int | None:
    """What the peak of `action` adds to the resident memory of a fresh process, in bytes.

    Args:
        library: `graphwire` or `torch`.
        action: `save` a program of `mebibytes` MiB of weights to `file`, or `load` it from there.
    """
    command = [sys.executable, __file__, library, action, str(mebibytes), str(file)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: int | None = json.loads(done.stdout)
    return found


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(field)


def _measure(library: str, action: str, mebibytes: int, file: Path) -> int | None:
    import torch
    from cases import weighty

    import graphwire

    if library == "graphwire":
        save, load = graphwire.save, graphwire.load
    else:
        save, load = torch.export.save, torch.export.load
    with tempfile.TemporaryDirectory() as folder:  # so that what is imported on first use is not counted
        small = Path(folder) / "small.pt2"
        save(weighty(16), small)
        load(small)
    program = weighty(mebibytes) if action == "save" else None
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
    print(json.dumps(_measure(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))))
