"""Names are texts: whatever names a parameter, a buffer, a constant or a module in torch comes back, and is never code."""

from __future__ import annotations

import builtins
import io

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import graphwire
from graphwire.errors import EncodeError

FORMATS = ("json", "msgpack", "cbor")
NOT_RUN = set("\n\r\0")
"""What torch's generated code cannot contain: a program with such a name is saved and loaded, and runs by `load_module` alone."""

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters='"\\.'), min_size=1, max_size=12)


class _Named(torch.nn.Module):
    def __init__(self, kind: str, name: str) -> None:
        super().__init__()
        self.kind, self.called = kind, name
        value = torch.tensor([2.0, 3.0])
        match kind:
            case "parameter":
                self.register_parameter(name, torch.nn.Parameter(value))
            case "buffer":
                self.register_buffer(name, value)
            case "volatile":
                self.register_buffer(name, value, persistent=False)
            case "constant":
                setattr(self, name, value)
            case _:
                self.add_module(name, torch.nn.Linear(2, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        held = getattr(self, self.called)
        return held(x) if self.kind == "module" else x + held


KINDS = ("parameter", "buffer", "volatile", "constant", "module")


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=6, deadline=None)
@example("it's")
@example("a\tb")
@example("line\nbreak")
@example("🙂")
@example("__x__")
@example("שלום\u202e")
@example("x" * 4080)
@example("x, breakpoint()")
@example("'], breakpoint(), x['")
@given(texts)
def test_a_name_that_torch_takes_comes_back(kind: str, name: str) -> None:
    if hasattr(torch.nn.Module(), name) or hasattr(torch.fx.GraphModule, name):
        return
    program = torch.export.export(_Named(kind, name), (torch.ones(2),))
    try:
        expected = program.module()(torch.ones(2))
    except (
        SyntaxError,
        AttributeError,
    ):  # in torch, too: a keyword, a letter that Python normalizes, a line break
        expected = None
    for wire_format in FORMATS:
        data = graphwire.dumps(program, format=wire_format)
        loaded = graphwire.load(data)
        assert list(loaded.state_dict) == list(program.state_dict)
        assert list(loaded.constants) == list(program.constants)
        assert loaded.graph_signature == program.graph_signature
        if expected is not None:
            assert torch.equal(loaded.module()(torch.ones(2)), expected)
            assert torch.equal(graphwire.load_module(data)(torch.ones(2)), expected)
    shown = str(graphwire.inspect(data)) + graphwire.inspect(data)._repr_html_()
    assert all(line.isprintable() for line in shown.split("\n"))


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("x" * 5000, "5,000 bytes of UTF-8: names have at most 4,096"),
        ("🙂" * 1025, "4,100 bytes of UTF-8"),
        ('a"b', "double quotes"),
        ("a\\b", "backslash"),
        ("\ud800", "lone surrogate"),
    ],
)
@pytest.mark.parametrize("kind", ["parameter", "constant", "module"])
def test_a_name_that_no_file_can_have_is_told_with_its_reason(kind: str, name: str, told: str) -> None:
    program = torch.export.export(_Named(kind, name), (torch.ones(2),))
    with pytest.raises(EncodeError, match=told):
        graphwire.dumps(program)


def test_a_value_of_a_long_name_is_told_its_length() -> None:
    program = torch.export.export(_Named("parameter", "x" * 4096), (torch.ones(2),))
    with pytest.raises(EncodeError, match="longer than 4,096 characters"):
        graphwire.dumps(program)


@pytest.mark.parametrize(
    "name",
    [
        '"), breakpoint(), ("',
        "\\",
        '\n"+breakpoint()+"',
        "__class__",
        "x\n    breakpoint()\n",
        "x\r    breakpoint()\r",
        "x'; breakpoint(); '",
        "x`breakpoint()`",
        "{breakpoint()}",
        "%s\x0c\nbreakpoint()#",
        "\u2028breakpoint()",
    ],
)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore")
def test_what_a_name_says_is_never_run(kind: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run: list[str] = []
    monkeypatch.setattr(builtins, "breakpoint", lambda *_: run.append(name))
    plain = graphwire.dumps(torch.export.export(_Named(kind, "PLACE"), (torch.ones(2),)), format="json")
    data = _renamed(plain, name)
    for load in (lambda: graphwire.load(data).module(), lambda: graphwire.load_module(data)):
        try:
            module = load()
            module(torch.ones(2))
            torch.compile(module, backend="eager")(torch.ones(2))
            torch.export.export(module, (torch.ones(2),)).module()(torch.ones(2))
        except Exception:  # refused by the load, by Python's compiler, or by torch's
            pass
    assert run == []


def _renamed(data: bytes, name: str) -> bytes:
    """The file with `name` instead of PLACE in the names of weights and modules."""
    import json
    import zipfile

    text = json.dumps(name)[1:-1].encode()
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(made, "w") as new:
        for member in old.namelist():
            if not member.endswith("manifest.json"):
                new.writestr(member, old.read(member).replace(b"PLACE", text))
    return made.getvalue()
