"""Gives programs to a tool, and writes what it made of them beside what it made of the loaded ones.

    python tests/ecosystem/run.py TOOL          every program of the tool's share; writes results/TOOL.json and docs/ecosystem.md
    python tests/ecosystem/run.py TOOL WORDS    those with WORDS in their name; prints what differs, writes nothing

All is done in a forked process. Where a tool ends it, or takes too long, another one goes on with the next program.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import importlib.metadata
import io
import itertools
import json
import logging
import os
import re
import select
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import folders  # noqa: F401  (puts the programs where they are imported from)
import make_page
import torch
from gate_programs import CASES, Case
from results import Results, written
from tool import TOOLS, Lowered, Tool, tool
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import free_symbols
from torch.utils import _pytree as pytree
from uses import tidy

import graphwire
from graphwire.schema.texts.metadata import ProcessNumbers
from graphwire.testing import assert_same_values

SECONDS = 400
"""How long one step with a program may take."""
FORMATS = ("json", "msgpack", "cbor")
"""The loaded program comes from a file of one of these, in turn."""

Asked = tuple[str, str]
"""The name of a program, and the format of the file that it is loaded from."""
STEPS = ("original", "loaded", "file")

Steps = dict[str, str]
"""What became of the steps with a program; of all of them, an error of torch before the first."""


class Failure(NamedTuple):
    """An error of a tool."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


# ----------------------------------------------------------------------------------------------- in a process of its own


def steps(tool: Tool, name: str, format: str) -> Iterator[tuple[str, str]]:
    """Try a program as it was exported, as graphwire loads it, and as torch reads graphwire's default file."""
    case = CASES[name]()
    if case is None:
        yield "original", "cannot be run"
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.pt2"
        yield from _steps(tool, name, case, format, path)


def _steps(tool: Tool, name: str, case: Case, format: str, path: Path) -> Iterator[tuple[str, str]]:
    saved = graphwire.dumps(case.program, format=format)
    graphwire.save(case.program, path)
    buffer = io.BytesIO()
    own_save = _tried(lambda: torch.export.save(case.program, buffer))
    torch_can_say_it = not isinstance(_tried(lambda: graphwire.dumps(case.program, target="torch")), Failure)
    tidy(case.program.graph_module)

    original = _lowered(tool, lambda: case.program, case)
    yield "original", str(original) if isinstance(original, Failure) else "taken"
    loaded = _lowered(tool, lambda: graphwire.loads(saved), case)
    outcome = compared(loaded, original)
    if outcome not in ("same", "not taken") and not isinstance(original, Failure):
        again = _lowered(tool, lambda: _made(name).program, case)
        if compared(again, original) != "same":
            outcome = "unsteady" if isinstance(loaded, Lowered) and isinstance(again, Lowered) else outcome

    def own() -> Lowered | Failure:
        return own_save or _lowered(tool, lambda: torch.export.load(io.BytesIO(buffer.getvalue())), case)

    if outcome.startswith("another text"):
        expected = own()
        if isinstance(expected, Failure):  # torch does not read what it wrote
            expected = _lowered(tool, lambda: _without_leftovers(_made(name).program), case)
        if compared(loaded, expected) == "same":
            outcome = "as torch's own"
    yield "loaded", outcome
    if isinstance(original, Failure) or not tool.READS_FILES or not torch_can_say_it:
        return
    read = _lowered(tool, lambda: torch.export.load(path), case)
    outcome = compared(read, original)
    if outcome != "same":
        expected = own()
        if isinstance(expected, Failure) or compared(read, expected) == "same":
            outcome = "as torch's own"
    yield "file", outcome


def _made(name: str) -> Case:
    case = CASES[name]()
    assert case is not None
    return case


def _without_leftovers(program: ExportedProgram) -> ExportedProgram:
    """The program without the symbols that tracing left in its environment, though no value has them."""
    values = [node.meta.get("val") for node in program.graph.nodes]
    fakes = [value for value in pytree.tree_leaves(values) if isinstance(value, FakeTensor)]
    for environment in {id(fake.fake_mode.shape_env): fake.fake_mode.shape_env for fake in fakes}.values():
        for symbol in environment.var_to_range.keys() - free_symbols(values):
            del environment.var_to_range[symbol]
    return program


def _tried(action: Callable[[], Any]) -> Any:
    try:
        return action()
    except Exception as error:
        return _failure(error)


def _failure(error: BaseException) -> Failure:
    """An error by its own class, and the text of the first one that it comes from."""
    root = error
    while root.__cause__ is not None:
        root = root.__cause__
    text = re.sub(r" at 0x[0-9a-f]+|\x1b\[\d*m", "", str(root)).strip()
    text = re.sub(r"[\w.-]*/[\w./-]*/", "", text)
    return Failure(type(error).__name__, (text.splitlines() or [""])[0][:120])


def _lowered(tool: Tool, make: Callable[[], Any], case: Case) -> Lowered | Failure:
    torch._dynamo.reset()
    torch.manual_seed(0)
    call = copy.deepcopy(case.call)
    lowered: Lowered | Failure = _tried(lambda: tool.through(make(), call))
    return lowered


def compared(actual: Lowered | Failure, expected: Lowered | Failure) -> str:
    """What is different, in one line; "same" or "not taken" where nothing is."""
    if isinstance(expected, Failure):
        if isinstance(actual, Failure):
            return "not taken" if actual.kind == expected.kind else f"another error: {actual}"
        return "taken"
    if isinstance(actual, Failure):
        return str(actual)
    return _numbers(actual, expected) or _text(actual.text, expected.text) or "same"


def _numbers(actual: Lowered, expected: Lowered) -> str | None:
    try:
        assert_same_values(actual.numbers, expected.numbers)
    except AssertionError as error:
        return f"other numbers: {str(error).splitlines()[1].strip()[:160]}"
    return None


def _text(actual: str | bytes, expected: str | bytes) -> str | None:
    if actual == expected:
        return None
    if isinstance(actual, str) and isinstance(expected, str):
        actual, expected = _without_process_numbers(actual), _without_process_numbers(expected)
        if actual == expected:
            return None
    if isinstance(actual, bytes) or isinstance(expected, bytes):
        return f"another text: {len(actual)} bytes for {len(expected)}"
    if "-v" in sys.argv:
        import difflib

        print("\n".join(difflib.unified_diff(expected.splitlines(), actual.splitlines(), lineterm="", n=1)))
    pairs = zip(actual.splitlines(), expected.splitlines(), strict=False)
    one, other = next(((a.strip(), e.strip()) for a, e in pairs if a != e), ("", ""))
    return f"another text: {one[:100]} for {other[:100]}"


def _without_process_numbers(text: str) -> str:
    """A text with other addresses and numbers of generated functions: a loaded program has not those of the process that
    exported it."""
    numbers = ProcessNumbers()
    return numbers.target(numbers.trace(text))


# ------------------------------------------------------------------------------------------------- processes in a row


def outcomes(tool: Tool, programs: list[Asked]) -> Iterator[tuple[str, Steps]]:
    """What became of the steps with each program. A forked process goes on where the last one ended."""
    while programs:
        done = 0
        with contextlib.closing(_of_one_process(tool, programs)) as found_of_each:
            for name, found in found_of_each:
                if "torch" in found and done:
                    break  # perhaps for what earlier programs left in the process
                done += 1
                yield name, found
        programs = programs[done:]


def _of_one_process(tool: Tool, programs: list[Asked]) -> Iterator[tuple[str, Steps]]:
    receiver, sender = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # that threads of somebody else do not go on in it
        child = os.fork()
    if child == 0:
        try:
            os.close(receiver)
            _say_all(tool, programs, sender)
        finally:
            os._exit(0)
    os.close(sender)
    try:
        lines = _lines(receiver)
        for name, _ in programs:
            found: Steps = {}
            for step in map(json.loads, lines):
                if step == "leaves":
                    return
                if step == "next":
                    break
                found.update([step])
            else:
                missing = next((step for step in STEPS if step not in found), None)
                if missing:
                    found[missing] = "the process ends, or takes too long"
                yield name, found
                return
            yield name, found
    finally:
        os.close(receiver)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _say_all(tool: Tool, programs: list[Asked], sender: int) -> None:
    """Say each step as a line of JSON, and when the next program comes; leave when one left a transform of torch in force."""
    _quieten()
    torch.set_num_threads(1)  # the threads of the parent's pool are not in this process
    with os.fdopen(sender, "w", buffering=1) as stream:
        for name, format in programs:
            if torch._C._functorch.maybe_current_level() is not None:
                stream.write('"leaves"\n')
                return
            for step in _steps_or_error(tool, name, format):
                stream.write(json.dumps(step) + "\n")
            stream.write('"next"\n')


def _steps_or_error(tool: Tool, name: str, format: str) -> Iterator[tuple[str, str]]:
    try:
        yield from steps(tool, name, format)
    except Exception as error:
        yield "torch", f"{type(error).__name__}: {error}"[:200]


def _lines(receiver: int) -> Iterator[str]:
    """What a process says, line by line, until it ends or says nothing for too long."""
    text = b""
    while select.select([receiver], [], [], SECONDS)[0]:
        part = os.read(receiver, 1 << 16)
        if not part:
            return
        *lines, text = (text + part).split(b"\n")
        yield from (line.decode() for line in lines)


def _quieten() -> None:
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    if "-v" not in sys.argv:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)


# ----------------------------------------------------------------------------------------------------------- the whole


def main(name: str, words: str, every: int | None) -> int:
    """Run a tool on its programs, and say what it treats differently."""
    chosen = tool(name)
    every = every or chosen.EVERY
    names = [key for key in CASES if words in key] if words else list(CASES)[::every]
    start = began = time.monotonic()
    results = Results(name, chosen.NAME, _versions(chosen), every, len(CASES))
    for key, found in outcomes(chosen, list(zip(names, itertools.cycle(FORMATS), strict=False))):
        results.add(key, found)
        print(f"{time.monotonic() - began:6.1f} s  {key}  {found}", flush=True)
        began = time.monotonic()
    print(*results.wrong(), f"{(time.monotonic() - start) / 60:.1f} minutes", sep="\n")
    if not words:
        written(results)
        make_page.main()
    return 1 if results.wrong() else 0


def _versions(tool: Tool) -> dict[str, str]:
    return {each: importlib.metadata.version(each).partition("+")[0] for each in ("torch", *tool.PACKAGES)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tool", choices=TOOLS)
    parser.add_argument("words", nargs="?", default="", help="only programs with these words in their name")
    parser.add_argument("--every", type=int, help="try one of so many programs")
    parser.add_argument("-v", action="store_true", help="show what the tool prints, and how texts differ")
    arguments = parser.parse_args()
    sys.exit(main(arguments.tool, arguments.words, arguments.every))
