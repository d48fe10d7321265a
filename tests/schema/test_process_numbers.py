"""Numbers that mean something in one process become positions, and positions stay what they are."""

from __future__ import annotations

from inside.schema import ProcessNumbers

KEYS = ["L__self__", "140389040678288", "140389040679312", "140389040678288@1", "0", "layers.0"]
PLACES = ["L__self__", "#0", "#1", "#0@1", "0", "layers.0"]
TARGETS = [
    "aten.add.Tensor",
    "<function relu at 0x7faee5b3b380>",
    "<method select at 0x7faf>",
    "<f at 0x7faf>",
]
TRACE = 'File "<eval_with_key>.78", line 9\n  File "<eval_with_key>.100", line 1\n  File "a.py", line 2'


def test_addresses_of_graphs_and_modules_become_positions_and_equal_ones_stay_equal() -> None:
    numbers = ProcessNumbers()
    assert [numbers.graph(each) for each in (94, 17, 94, -1)] == [0, 1, 0, -1]
    assert list(map(numbers.module, KEYS)) == PLACES


def test_addresses_and_counters_in_texts_become_positions() -> None:
    numbers = ProcessNumbers()
    assert list(map(numbers.target, TARGETS)) == [
        "aten.add.Tensor",
        "<function relu at 0x0>",
        "<method select at 0x1>",
        "<f at 0x1>",
    ]
    assert numbers.trace(TRACE) == TRACE.replace(".78", ".0").replace(".100", ".1")


def test_positions_stay_when_a_loaded_program_is_saved_again() -> None:
    first, again = ProcessNumbers(), ProcessNumbers()
    for kind, texts in (("module", KEYS), ("target", TARGETS), ("trace", [TRACE])):
        once = [getattr(first, kind)(each) for each in texts]
        assert [getattr(again, kind)(each) for each in once] == once


def test_a_module_that_another_trace_adds_to_a_loaded_program_has_a_key_of_its_own() -> None:
    numbers = ProcessNumbers()
    assert list(map(numbers.module, ["#1", "140389040678288", "#0"])) == ["#0", "#1", "#2"]
