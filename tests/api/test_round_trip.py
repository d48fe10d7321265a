"""Every program comes back from every wire format as it was, and does what it did."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from nightly import by_day
from programs import Example
from running import results
from small_programs import ALL_PROGRAMS
from torch.export import ExportedProgram, export, unflatten

import graphwire
from graphwire.testing import assert_same_program, assert_same_values
from graphwire.testing.programs import assert_same_snapshot
from graphwire.testing.snapshots import snapshot


def third(number: int) -> pytest.MarkDecorator:
    """By day, a third of the programs: each of them is decomposed, unflattened or exported again. By night, all of them."""
    names = list(ALL_PROGRAMS)
    return pytest.mark.parametrize("example", by_day(names[number::3], by_night=names), indirect=True)


def test_a_loaded_program_is_the_one_that_was_saved(
    example: Example, wire_format: str, loaded: ExportedProgram
) -> None:
    assert_same_program(loaded, example.program)


def test_it_computes_the_same_to_the_last_bit(
    example: Example, wire_format: str, loaded: ExportedProgram, expected: list[Any]
) -> None:
    assert_same_values(results(loaded.module(), example.calls), expected)


def test_saving_it_again_gives_the_same_bytes(
    example: Example, wire_format: str, saved: bytes, loaded: ExportedProgram
) -> None:
    assert graphwire.dumps(loaded, format=wire_format) == saved


def test_saving_changes_nothing_in_the_program(example: Example, wire_format: str) -> None:
    before = snapshot(example.program)
    graphwire.dumps(example.program, format=wire_format)
    assert_same_snapshot(snapshot(example.program), before)


def test_records_alone_make_the_program_too(example: Example, wire_format: str) -> None:
    record, payloads = graphwire.to_schema(example.program)
    again = graphwire.decode(graphwire.encode(record, wire_format))
    assert again == record
    assert_same_program(graphwire.from_schema(again, payloads), example.program)


def test_converting_a_file_gives_the_bytes_of_saving_it_in_that_format(
    example: Example, wire_format: str, saved: bytes, tmp_path: Any
) -> None:
    graphwire.save(example.program, tmp_path / "one.pt2", format="json")
    graphwire.convert(tmp_path / "one.pt2", tmp_path / "other.pt2", format=wire_format)
    assert (tmp_path / "other.pt2").read_bytes() == saved


def test_nothing_is_wrong_with_the_file(example: Example, wire_format: str, saved: bytes) -> None:
    assert graphwire.verify(saved) == []


def test_torch_finds_a_loaded_program_valid(example: Example, loaded: ExportedProgram) -> None:
    loaded.validate()


@pytest.mark.slow
@pytest.mark.nightly
@third(0)
def test_a_loaded_program_can_be_decomposed(fresh: Example, loaded: ExportedProgram) -> None:
    expected, decomposed = fresh.program.run_decompositions(), loaded.run_decompositions()
    assert str(decomposed.graph_signature) == str(expected.graph_signature)
    assert decomposed.range_constraints == expected.range_constraints
    computed = results(expected.module(), fresh.calls)
    assert_same_values(results(decomposed.module(), fresh.calls), computed)


@pytest.mark.nightly
@third(1)
@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node:UserWarning")  # torch's, of itself
def test_a_loaded_program_can_be_unflattened(fresh: Example, loaded: ExportedProgram) -> None:
    if fresh.name in ("joint_graph", "mutated_parameter_decomposed"):
        pytest.skip("torch does not unflatten it")
    module, expected = unflatten(loaded), unflatten(fresh.program)
    assert [name for name, _ in module.named_modules()] == [name for name, _ in expected.named_modules()]
    assert [name for name, _ in module.named_parameters()] == [
        name for name, _ in expected.named_parameters()
    ]
    assert_same_values(results(module, fresh.calls), results(expected, fresh.calls))


@pytest.mark.slow
@pytest.mark.nightly
@third(2)
def test_the_module_of_a_loaded_program_can_be_exported_again(
    fresh: Example, loaded: ExportedProgram
) -> None:
    if not fresh.calls:
        pytest.skip("torch does not call a joint graph")
    call = fresh.calls[0]
    again, expected = (export(p.module(), call.args, call.kwargs) for p in (loaded, fresh.program))
    assert again.graph_module.code == expected.graph_module.code
    assert_same_values(results(again.module(), [call]), results(expected.module(), [call]))


def test_the_modules_have_as_many_parameters(example: Example, loaded: ExportedProgram) -> None:
    expected = dict(example.program.module().named_parameters())
    parameters = dict(loaded.module().named_parameters())
    assert {n: p.requires_grad for n, p in parameters.items()} == {
        n: p.requires_grad for n, p in expected.items()
    }
    assert all(type(p) is torch.nn.Parameter for p in parameters.values())
