"""Runs programs of Python as `python …` does, in copies of a process that has imported torch and exported once.

It reads a request a line, as JSON: arguments, folder and a file for the output. It answers with the exit code. Each program runs
in a process of its own, which finds what is installed by then.
"""

from __future__ import annotations

import json
import os
import runpy
import site
import sys
import sysconfig
import traceback
from pathlib import Path


def warm_up() -> None:
    import pytest  # noqa: F401 imported for the programs
    import torch

    torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))


def run(arguments: list[str]) -> None:
    """Run a program as the command line of Python does: `-m MODULE …`, or `FILE …`."""
    site.addsitedir(sysconfig.get_path("purelib"))
    if arguments[0] == "-m":
        sys.path[0] = str(Path.cwd())
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(arguments[0]).resolve().parent)
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")


def code_of(arguments: list[str]) -> int:
    try:
        run(arguments)
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def serve() -> None:
    warm_up()
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            os.chdir(request["folder"])
            output = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for stream in (1, 2):
                os.dup2(output, stream)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            code = code_of(request["arguments"])
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    serve()
