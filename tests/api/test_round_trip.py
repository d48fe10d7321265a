"""Every program comes back from every wire format as it was, and does what it did."""

from __future__ import annotations

from typing import Any

import torch
from inside.testing import assert_same_snapshot, snapshot
from programs import Example
from running import results
from torch.export import ExportedProgram

import graphwire
from graphwire.testing import assert_same_program, assert_same_values


def test_a_loaded_program_is_the_one_that_was_saved(
    example: Example, wire_format: str, loaded: ExportedProgram
) -> None:
    assert_same_program(loaded, example.program)


def test_it_computes_the_same_to_the_last_bit(
    example: Example, loaded: ExportedProgram, expected: list[Any]
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


def test_the_modules_have_as_many_parameters(example: Example, loaded: ExportedProgram) -> None:
    expected = dict(example.program.module().named_parameters())
    parameters = dict(loaded.module().named_parameters())
    assert {n: p.requires_grad for n, p in parameters.items()} == {
        n: p.requires_grad for n, p in expected.items()
    }
    assert all(type(p) is torch.nn.Parameter for p in parameters.values())
