"""One side of a comparison: a process that measures what its input asks for, a line of JSON for a line of JSON.

    python worker.py FILE FOLDER

`{"prepare": NAME, "seconds": S}` runs the action until it is warm, and answers how often it runs in S seconds.
`{"run": NAME, "times": N}`
answers the seconds of N runs by the clock, and those of the processor, for this process and those that it started.
`{"count": NAME}` answers the calls of functions of one run, in this thread or in the process that it starts.
"""

from __future__ import annotations

import cProfile
import gc
import io
import json
import os
import pstats
import sys
import time
import warnings
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent))
sys.path.append(str(Path(__file__).resolve().parents[1]))

from measurements import MEASUREMENTS, Action, Command
from timing import processor_seconds


def main() -> None:
    """Answer until the input ends."""
    warnings.simplefilter("ignore")
    file, folder = map(Path, sys.argv[1:])
    # What libraries print must not be taken for an answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    actions: dict[str, Action] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        if name := asked.get("prepare"):
            actions[name] = MEASUREMENTS[name](file, folder)
            actions[name]()
            processor, _ = _seconds(actions[name], 1)
            answer = {"times": max(1, round(asked["seconds"] / processor))}
        elif name := asked.get("count"):
            answer = {"calls": _calls(actions[name], folder)}
        else:
            processor, clock = _seconds(actions[asked["run"]], asked["times"])
            answer = {"cpu": processor, "wall": clock}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _seconds(action: Action, times: int) -> tuple[float, float]:
    gc.collect()
    processor, clock = processor_seconds(), time.perf_counter()
    for _ in range(times):
        action()
    return processor_seconds() - processor, time.perf_counter() - clock


def _calls(action: Action, folder: Path) -> int:
    if isinstance(action, Command):
        return action.counted(folder)
    gc.collect()
    with cProfile.Profile() as profile:
        action()
    return int(pstats.Stats(profile, stream=io.StringIO()).total_calls)


if __name__ == "__main__":
    main()
