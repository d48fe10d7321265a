"""The probes record exactly the statements that run, and change nothing else in a module."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from line_probes import marks_of
from line_report import Module, modules
from line_statements import statements, with_probes

SOURCE = '''\
"""A docstring."""
from __future__ import annotations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import nowhere

def sign(n):
    """A docstring."""
    global last
    try:
        if n < 0:
            return "negative"
        elif n == 0:
            raise ValueError
        else:
            last = n
    except ValueError:
        return "zero"
    finally:
        calls.append(n)
    match n:
        case 1:
            return "one"
        case _:
            return "many"

class Box:
    """A docstring."""
    size: int = 1

    @property
    def double(self):
        return 2 * self.size

calls = []
'''


def imported() -> tuple[dict[str, Any], dict[int, int]]:
    """The names of the module, and the marks of its probes."""
    marks = marks_of("a module")
    marks.clear()
    names: dict[str, Any] = {"__file__": "a module", "__name__": "a module"}
    exec(compile(with_probes(SOURCE.encode()), "a module", "exec", dont_inherit=True), names)
    return names, marks


def lines_run(*calls: str) -> list[int]:
    names, ran = imported()
    for call in calls:
        eval(call, names)
    every = statements(ast.parse(SOURCE))
    return sorted(every[number].lineno for number in ran)


IMPORTED = [3, 5, 8, 28, 30, 33, 36]


@pytest.mark.parametrize(
    ("calls", "lines"),
    [
        ((), []),
        (("sign(-1)",), [10, 11, 12, 13, 21]),
        (("sign(0)",), [10, 11, 12, 14, 15, 19, 21]),
        (("sign(1)",), [10, 11, 12, 14, 17, 21, 22, 24]),
        (("sign(2)", "Box().double"), [10, 11, 12, 14, 17, 21, 22, 26, 34]),
    ],
)
def test_what_ran_is_recorded(calls: tuple[str, ...], lines: list[int]) -> None:
    assert lines_run(*calls) == sorted([*IMPORTED, *lines])


def test_a_module_is_the_same_but_for_the_probes() -> None:
    names, _ = imported()
    assert [names["sign"](n) for n in (-1, 0, 1, 2)] == ["negative", "zero", "one", "many"]
    assert [names[each].__doc__ for each in ("sign", "Box")] == ["A docstring."] * 2
    assert names["__doc__"] == "A docstring."
    assert (names["last"], names["Box"]().double) == (2, 2)
    assert names["Box"].__annotations__ == {"size": "int"}
    assert [names[each].__code__.co_firstlineno for each in ("sign",)] == [8]


def test_modules_that_nothing_imports_count_as_missed(tmp_path: Path) -> None:
    found = modules(tmp_path)
    assert all(each.percent == 0 for each in found if each.missed)
    assert "core/graphwire/errors.py" in {each.name for each in found}


def test_the_report_lists_ranges_of_lines() -> None:
    missed = statements(ast.parse("a = 1\nb = [\n 1,\n]\n\n\nc = 1"))
    assert str(Module("m.py", 1, missed)) == " 25.0 %  m.py: 1-4, 7"
