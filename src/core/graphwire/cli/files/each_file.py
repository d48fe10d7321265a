"""Run a command on each of its files, report the errors of each, and return the worst exit code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeAlias

from graphwire.cli.files.inputs import Input
from graphwire.cli.terminal import Output, failure_tree

__all__ = ["FAILED", "FOUND", "OK", "Task", "for_each_file"]

OK, FOUND, FAILED = 0, 1, 2
"""Exit codes, as those of `diff`. FOUND: the command found a problem or a difference. FAILED: it failed. The worst of all files
counts."""

Task: TypeAlias = Callable[[Input], int]
"""Reads one file, prints what it finds, and returns an exit code."""


def for_each_file(
    inputs: Sequence[Input], output: Output, task: Task, *, doing: str, as_json: bool = False
) -> Counter[int]:
    """Run a task on each file. An error ends the task of its file only.

    Args:
        inputs: the files.
        output: where errors are printed.
        task: called with each file.
        doing: what is done, for the progress, such as `Verifying`.
        as_json: whether an error is printed as a JSON object too, as the results are.

    Returns:
        How many files ended with each exit code. The exit code of the command is the largest.
    """
    codes: Counter[int] = Counter()
    with output.progress(doing, sum(each.nbytes for each in inputs)) as shown:
        for each in inputs:
            shown.item = output.file = each.name
            try:
                if each.error is not None:
                    raise each.error
                code = task(each)
            except BrokenPipeError:
                raise
            except Exception as error:
                # The other files are read all the same.
                if getattr(error, "argument", ""):
                    raise  # an option is wrong, for all files
                code = FAILED
                output.failure(error, each.name)
                if as_json:
                    tree = {"file": each.name, "error": failure_tree(error, each.name)}
                    output.json(tree, problem=True, indent=None)
            codes[code] += 1
            shown.finish_file(each.nbytes)
    output.file = ""
    return codes
