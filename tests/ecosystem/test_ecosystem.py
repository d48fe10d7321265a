"""The page of the tools says what the stored results say, and a difference is seen."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import make_page
import pytest
import run
import torch
from results import FOLDER, Results, stored
from tool import TOOLS, Lowered

NAME = "small: multiple_outputs"


def test_the_page_is_made_of_the_stored_results() -> None:
    assert make_page.DOCUMENT.read_text(encoding="utf-8") == make_page.page(stored()), (
        "run `python tests/ecosystem/make_page.py`"
    )


def test_every_tool_has_results_and_no_other_has() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.json")) == sorted(TOOLS)


def test_no_tool_treats_a_loaded_program_otherwise() -> None:
    assert [line for results in stored() for line in results.wrong()] == []


def _eager(program: Any, call: Any) -> Lowered:
    return Lowered(program.module()(*call.args, **call.kwargs), program.graph_module.code)


def _results(through: Any, reads_files: bool) -> Results:
    tool: Any = SimpleNamespace(NAME="a tool", PACKAGES=(), EVERY=1, READS_FILES=reads_files, through=through)
    results = Results("a", "a tool", {"torch": torch.__version__}, 1, 1)
    for name, found in run.outcomes(tool, [(NAME, "cbor")]):
        results.add(name, found)
    return results


def test_a_tool_that_takes_both_makes_the_same_of_both() -> None:
    results = _results(_eager, reads_files=True)
    assert (results.same, results.file_same, results.wrong()) == ([NAME], [NAME], [])


class _SecondIsOther:
    """A tool that is given the original first, and then the loaded program."""

    def __init__(self, deed: Callable[[Lowered], Lowered]) -> None:
        self.deed = deed
        self.programs = 0

    def __call__(self, program: Any, call: Any) -> Lowered:
        self.programs += 1
        lowered = _eager(program, call)
        return self.deed(lowered) if self.programs == 2 else lowered


DEEDS: dict[str, Callable[[Lowered], Any]] = {
    "other numbers": lambda lowered: lowered._replace(numbers=torch.ones(3)),
    "another text": lambda lowered: lowered._replace(text="another"),
    "ZeroDivisionError": lambda lowered: 1 / 0,
    "the process ends": lambda lowered: os.kill(os.getpid(), signal.SIGKILL),
}


@pytest.mark.parametrize("seen", DEEDS)
def test_a_tool_that_treats_a_loaded_program_otherwise_is_seen(seen: str) -> None:
    results = _results(_SecondIsOther(DEEDS[seen]), reads_files=False)
    assert results.differs[NAME].startswith(seen)
    assert len(results.wrong()) == 1


def test_a_number_of_the_process_is_no_difference() -> None:
    one, other, third = (Lowered((), f'"<eval_with_key>.{n}" at 0x{n}') for n in (1, 2, 3))
    assert run.compared(one, other) == "same"
    assert run.compared(one, third._replace(text=f"{third.text}x")).startswith("another text")
