"""Random programs: their signatures say what torch's say; they have one hash however often they are exported, and another
one after any change of what they compute."""

from __future__ import annotations

import copy
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from inside.analysis import content_hash
from inside.schema import from_tree, program_from_tree, to_tree
from nightly import by_day
from random_programs import ExportableProgram, exportable_programs
from spellings import respelled
from torch.export import ExportedProgram, ExportGraphSignature

import graphwire
from graphwire.schema import Program, SignatureNames

slow = settings(
    max_examples=by_day(3, by_night=200),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """What torch has to say of a random program is not what is tested."""
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        yield


OTHER: dict[str, Callable[[Any], Any]] = {
    "as_int": lambda value: value + 1,
    "as_float": lambda value: 0.25 if value != 0.25 else 0.75,
    "as_bool": lambda value: not value,
    "as_string": lambda value: f"{value}x",
    "as_ints": lambda value: [*value, 1],
    "as_floats": lambda value: [*value, 1.0],
    "as_scalar_type": lambda value: 1 + value % 7,
    "as_expr": lambda value: {**value, "expr_str": f"Add({value['expr_str']}, Integer(1))"},
}
"""For each kind of literal in a program another one."""


def changes(tree: Any) -> Iterator[tuple[str, Callable[[], None]]]:
    """Everything small that can be changed in a program's tree: what it is, and what changes it."""
    module = tree["graph_module"]
    yield from _in_graph(module["graph"], "graph")
    outputs = [each for each in module["signature"]["output_specs"] if "user_output" in each]
    if len(outputs) > 1 and outputs[0] != outputs[-1]:
        yield "the order of outputs", lambda: _swap_outputs(module)
    for name, held in tree["range_constraints"].items():
        yield f"the range of {name}", lambda held=held: held.update(max_val=(held["max_val"] or 500) + 1)
    for index, spec in enumerate(module["signature"]["input_specs"]):
        for variant, field in (("parameter", "parameter_name"), ("buffer", "buffer_name")):
            if variant in spec and not _is_mutated(module, spec[variant][field]):
                yield (
                    f"inputs[{index}]",
                    lambda held=spec[variant], field=field: held.update({field: "other"}),
                )


def _is_mutated(module: Any, name: str) -> bool:
    return any(name in str(spec) for spec in module["signature"]["output_specs"] if "user_output" not in spec)


def _swap_outputs(module: Any) -> None:
    for held in (module["graph"]["outputs"], module["signature"]["output_specs"]):
        first = len(held) - sum("user_output" in each for each in module["signature"]["output_specs"])
        held[first], held[-1] = held[-1], held[first]


def _in_graph(graph: Any, place: str) -> Iterator[tuple[str, Callable[[], None]]]:
    for index, node in enumerate(graph["nodes"]):
        here = f"{place}.nodes[{index}]"
        yield f"{here}.target", lambda node=node: node.update(target=f"{node['target']}x")
        for number, named in enumerate(node["inputs"]):
            yield from _in_argument(named["arg"], f"{here}.inputs[{number}]")


def _in_argument(argument: Any, place: str) -> Iterator[tuple[str, Callable[[], None]]]:
    if isinstance(argument, list):
        for index, each in enumerate(argument):
            yield from _in_argument(each, f"{place}[{index}]")
    elif isinstance(argument, dict):
        for variant, value in argument.items():
            if variant == "as_graph":
                yield from _in_graph(value["graph"], f"{place}.graph")
            elif variant in OTHER:
                yield (
                    f"{place}.{variant}",
                    lambda variant=variant, value=value: argument.update({variant: OTHER[variant](value)}),
                )
            else:
                yield from _in_argument(value, place)


PROPERTIES = [name for name, value in vars(ExportGraphSignature).items() if isinstance(value, property)]


@slow
@given(made=exportable_programs(), data=st.data())
def test_any_program(made: ExportableProgram, data: st.DataObject) -> None:
    """One test, since what takes long is the export."""
    record, _ = graphwire.to_schema(made.program)
    signature_says_what_torchs_says(made.program, record)
    second_export_has_the_same_hash(made)
    another_spelling_has_the_same_hash(record, data.draw(st.randoms(use_true_random=False)))
    count = sum(1 for _ in changes(to_tree(record)))
    numbers = st.lists(st.integers(0, count - 1), max_size=5, unique=True) if count else st.just([])
    for number in data.draw(numbers):
        change_has_another_hash_and_is_found(record, number)


def signature_says_what_torchs_says(program: ExportedProgram, record: Program) -> None:
    theirs, ours = program.graph_signature, SignatureNames(record.graph_module.signature)
    for name in PROPERTIES:
        expected = getattr(theirs, name)
        assert getattr(ours, name) == (dict(expected) if hasattr(expected, "items") else expected), name


def second_export_has_the_same_hash(made: ExportableProgram) -> None:
    again = made.again()
    assert graphwire.content_hash(again, weights=True) == graphwire.content_hash(made.program, weights=True)
    assert graphwire.diff(again, made.program, weights=True).same


def another_spelling_has_the_same_hash(record: Program, salt: random.Random) -> None:
    other = from_tree(respelled(to_tree(record), salt), Program)
    assert content_hash(other) == graphwire.content_hash(record)


def change_has_another_hash_and_is_found(record: Program, number: int) -> None:
    what, other = changed(record, number)
    assert graphwire.content_hash(other) != graphwire.content_hash(record), f"the hash does not see {what}"
    assert not graphwire.diff(record, other).same, f"diff does not see {what}"


def changed(record: Program, number: int) -> tuple[str, Program]:
    """A program with one of its `changes`."""
    tree = copy.deepcopy(to_tree(record))
    for index, (what, change) in enumerate(changes(tree)):
        if index == number:
            change()
            return what, program_from_tree(tree)
    raise AssertionError(number)
