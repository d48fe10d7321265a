"""Names that torch permits and no reader accepts are named at a save; on request they are renamed."""

from __future__ import annotations

import copy
import io
import re
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings, strategies as st
from inside.analysis import legal_path, path_fault
from torch.export import ExportedProgram, export

import graphwire
from graphwire.cli import main
from graphwire.errors import EncodeError, ValidationError

ILLEGAL = [
    'a"b',
    "a\\b",
    'x y.a"b',
    "\ud800",
    "é" * 4000,
    "x" * 5000,
    '"',
    "a\\",
    "__class__.a",
    "..",
    "a..b",
    "",
]


class Named(torch.nn.Module):
    """Has a weight, a buffer and a module of some names."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.register_parameter(f"{name}1", torch.nn.Parameter(torch.rand(2)))
        self.register_buffer(f"{name}2", torch.rand(2))
        self.add_module(f"{name}3", torch.nn.Linear(2, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parameter, buffer = self._parameters[f"{self.name}1"], self._buffers[f"{self.name}2"]
        assert parameter is not None
        assert buffer is not None
        buffer.add_(1)
        module = self._modules[f"{self.name}3"]
        assert module is not None
        result: torch.Tensor = module(x * parameter + buffer)
        return result


def named(name: str) -> tuple[ExportedProgram, Callable[[torch.Tensor], torch.Tensor]]:
    """Return a program, and what it computes: torch's own code of such programs is often no Python."""
    model = Named(name)
    program = export(model, (torch.ones(2),))
    return program, lambda x: copy.deepcopy(model)(x)  # type: ignore[no-any-return]


@given(st.text(st.sampled_from('ab._"\\\ud800é '), max_size=12) | st.sampled_from(ILLEGAL))
def test_a_legal_path_stays_and_another_becomes_one_of_its_own(path):
    legal = legal_path(path)
    assert path_fault(legal) is None
    assert legal_path(legal) == legal
    assert (legal == path) == (path_fault(path) is None)
    other = legal_path(path + '"')
    assert other != legal


@settings(max_examples=4, deadline=None)
@given(st.sampled_from(['a"b', "a\\b", "\ud800", "x" * 5000, "é" * 4000]))
def test_a_save_names_what_it_refuses_and_renames_it_on_request(name):
    program, computed = named(name)
    with pytest.raises(EncodeError, match='names="renamed"'):
        graphwire.dumps(program)
    saved = graphwire.dumps(program, names="renamed")
    loaded = graphwire.load(io.BytesIO(saved))
    assert [path_fault(each) for each in loaded.state_dict] == [None] * len(program.state_dict)
    assert all(map(torch.equal, loaded.state_dict.values(), program.state_dict.values()))
    given = torch.rand(2)
    assert torch.equal(loaded.module()(given), computed(given))
    assert torch.equal(torch.export.unflatten(graphwire.load(io.BytesIO(saved)))(given), computed(given))
    assert saved == graphwire.dumps(program, names="renamed")


def test_other_programs_stay_as_they_are():
    program = export(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()), (torch.ones(2),))
    assert graphwire.dumps(program, names="renamed") == graphwire.dumps(program)


@pytest.mark.parametrize("name", ['a"b', "a\\b", "é" * 3000])
def test_convert_renames_in_a_file_of_torch(name, tmp_path, capsys):
    program, computed = named(name)
    torch.export.save(program, tmp_path / "torch.pt2")
    with pytest.raises(ValidationError, match="--rename"):
        graphwire.load(tmp_path / "torch.pt2")
    assert main(["convert", "--rename", str(tmp_path / "torch.pt2"), str(tmp_path / "own.pt2")]) == 0
    loaded = graphwire.load(tmp_path / "own.pt2")
    given = torch.rand(2)
    assert torch.equal(loaded.module()(given), computed(given))
    assert not any(re.search(r'["\\]', each) for each in loaded.state_dict)
    capsys.readouterr()
    assert main(["verify", str(tmp_path / "own.pt2")]) == 0
