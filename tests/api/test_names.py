"""Names that torch permits and no reader accepts are named at a save; on request they are renamed."""

from __future__ import annotations

import copy
import dataclasses
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st
from inside.analysis import legal_path, path_fault
from nightly import by_day, one_in
from torch.export import ExportedProgram, export

import graphwire
from graphwire.cli import main
from graphwire.errors import EncodeError, ValidationError
from graphwire.testing import assert_same_values

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
@given(st.sampled_from(['a"b', "a\\b", "\ud800", "x" * 5000, "é" * 4000, "a\nb", "a\rb", "a\0b"]))
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


@pytest.mark.filterwarnings("ignore:weights or constants differ")
def test_coded_and_edited_weights_are_renamed_with_their_parts():
    class Holds(torch.nn.Module):
        def __init__(self):
            super().__init__()
            for name in ("w\n", 'z"'):
                self.register_buffer(name, torch.ones(2, 2))

        def forward(self, x):
            return x + self._buffers["w\n"] + self._buffers['z"']

    program = export(Holds(), (torch.ones(2, 2),))
    program.state_dict["w\n"] = program.state_dict['z"'] = torch.eye(2).to_sparse()
    first, second = graphwire.loads(graphwire.dumps(program, names="renamed")).state_dict.values()
    assert first is second
    assert torch.equal(first.to_dense(), torch.eye(2))


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


TEXTS = {
    "an apostrophe": "a'b",
    "a tab": "a\tb",
    "a line break": "a\nb",
    "an emoji": "\N{PARTY POPPER}",
    "underscores": "__x__",
    "from right to left": "\u05d0\u202eb",
    "a letter": "é",
    "a backslash and quotes": "'\"\\",
    "4,096 bytes": "é" * 2048,
    "4,097 bytes": "é" * 2048 + "x",
    "5,000 letters": "x" * 5000,
}


def _has(add: Callable[[torch.nn.Module, str], None], get: Callable[[torch.nn.Module, str], Any]) -> Any:
    def made(name: str) -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
        model = Function(lambda model, x: x * get(model, name))
        add(model, name)
        return model, (torch.ones(2),), {}

    return made


class Function(torch.nn.Module):
    """Calls a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any, **others: Any) -> Any:
        return self.function(self, x, **others)


def _field(name: str) -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
    made = dataclasses.make_dataclass(f"Named{len(name)}", [(name, torch.Tensor)])
    torch.export.register_dataclass(made, serialized_type_name=f"test.{name[:9]}{len(name)}")
    return Function(lambda _, x: getattr(x, name) + 1), (made(torch.ones(2)),), {}


ROLES: dict[str, Callable[[str], tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]]] = {
    "a parameter": _has(
        lambda model, name: model.register_parameter(name, torch.nn.Parameter(torch.ones(2) * 3)),
        lambda model, name: model._parameters[name],
    ),
    "a buffer": _has(
        lambda model, name: model.register_buffer(name, torch.ones(2) * 3),
        lambda model, name: model._buffers[name],
    ),
    "a constant": _has(lambda model, name: setattr(model, name, torch.ones(2) * 3), getattr),
    "a module": _has(
        lambda model, name: model.add_module(name, torch.nn.Linear(2, 2)),
        lambda model, name: model._modules[name](torch.ones(2)),  # type: ignore[misc]
    ),
    "a keyword": lambda name: (
        Function(lambda _, x, **others: x + others[name]),
        (torch.ones(2),),
        {name: torch.ones(2)},
    ),
    "a key of an input": lambda name: (
        Function(lambda _, x: x[name] + 1),
        ({name: torch.ones(2)},),
        {},
    ),
    "a key of an output": lambda name: (Function(lambda _, x: {name: x + 1}), (torch.ones(2),), {}),
    "a field": _field,
}
_CASES = [(role, text) for role in ROLES for text in TEXTS]


@pytest.mark.parametrize("number", one_in(3, range(len(_CASES))), ids=[": ".join(each) for each in _CASES])
def test_a_name_in_any_role_is_kept_or_its_refusal_has_a_remedy(number: int, tmp_path: Path) -> None:
    role, text = _CASES[number]
    try:
        model, args, kwargs = ROLES[role](TEXTS[text])
        program = export(model, args, kwargs)
        expected = program.module()(*args, **kwargs)
    except (SyntaxError, UnicodeError, AttributeError, TypeError, ValueError):
        expected = None  # torch permits no such name
    if "program" not in locals():
        return
    for format in by_day([("json", "msgpack", "cbor")[number % 3]], by_night=["json", "msgpack", "cbor"]):
        remedy = ""
        try:
            data = graphwire.dumps(program, format=format)
        except EncodeError as error:
            remedy = error.remedy
        if remedy and 'names="renamed"' not in remedy:
            assert remedy.startswith("Rename")
            continue
        if remedy:
            data = graphwire.dumps(program, format=format, names="renamed")
        module = graphwire.load_module(data)
        result = module(*args, **kwargs)
        assert graphwire.verify(data) == []
        assert graphwire.diff(data, data).same
        assert graphwire.inspect(data).methods
        if expected is not None:
            assert_same_values(result, expected)
            loaded = graphwire.loads(data)
            assert_same_values(loaded.module()(*args, **kwargs), expected)
            assert graphwire.dumps(loaded, format=format) == data
        if not number % 9:
            graphwire.view(data).save(tmp_path / "page.html")
