"""Outputs that programs read are read back as they were meant, whatever names the files have."""

from __future__ import annotations

import importlib.util
import io
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from hypothesis import given, strategies as st
from inside.analysis import program_lines

import graphwire
from graphwire.cli import main
from graphwire.hooks import Output

HOSTILE = [
    "a\n::error file=x::forged",
    "::stop-commands::x",
    "  ##[error]x",
    "`",
    "```",
    "a`b``c",
    "</details>",
    "<img src=x onerror=alert(1)>",
    "x\r# heading",
    "| a | b |",
    "\x1b[31m",
    "\u2028",
    "\u202e",
    "\x85",
    "[a](javascript:x)",
    "@everyone",
    "\\",
    " ",
    '"',
    "a,b",
    "{}",
]
names = st.sampled_from(HOSTILE) | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


def _action() -> ModuleType:
    path = Path(__file__).resolve().parents[2] / "contrib/graphwire-action/compare.py"
    spec = importlib.util.spec_from_file_location("graphwire_action", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ACTION = _action()


def _is_code(text: str) -> bool:
    """Whether a text is one span of code in Markdown: nothing inside ends it."""
    fence = re.match("`+", text)
    assert fence is not None
    inner = text[fence.end() : -fence.end()]
    runs = {len(each) for each in re.findall("`+", inner)}
    return text.endswith(fence[0]) and fence.end() not in runs and len(text.splitlines()) == 1


@given(names)
def test_a_name_in_a_comment_is_one_span_of_code(name: str) -> None:
    assert _is_code(ACTION.code(name))
    stream = io.StringIO()
    output = Output(stdout=stream, color="never")
    for line in program_lines([name], [], a=name, b="b", markdown=True):
        output.line(line)
    first, empty, row, end = stream.getvalue().split("\n")
    assert (empty, end) == ("", "")
    assert _is_code(first.removeprefix("**").partition(" → ")[0]) or " → " in name
    assert _is_code(row.removeprefix("- ").removesuffix(" is removed"))


@given(st.lists(names, min_size=1).map("\n".join))
def test_a_block_of_a_comment_ends_where_it_should(text: str) -> None:
    block = ACTION.details("Error", text)
    fence = re.search("(`+)text", block)
    assert fence is not None
    ends = [line for line in re.split("[\r\n]+", block) if re.fullmatch(f" *{fence[1]}`* *", line)]
    assert ends == [fence[1]]


@given(st.lists(names, min_size=1).map("\n".join))
def test_no_line_of_a_log_is_a_command_of_the_runner(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GITHUB_ACTIONS", "true")
        first, *inner, last = ACTION.as_text(text).split("\n")
        token = first.removeprefix("::stop-commands::")
        assert last == f"::{token}::"
        assert len(token) == 32
        assert token not in "\n".join(inner)
        patch.delenv("GITHUB_ACTIONS")
        assert ACTION.as_text(text) == text


# -------------------------------------------------------------------------------------------------------------------- JSON


@pytest.fixture(scope="module")
def data() -> bytes:
    return graphwire.dumps(torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),)))


def _texts(tree: Any) -> list[str]:
    if isinstance(tree, dict):
        return [*tree, *(text for each in tree.values() for text in _texts(each))]
    if isinstance(tree, list):
        return [text for each in tree for text in _texts(each)]
    return [tree] if isinstance(tree, str) else []


@pytest.mark.parametrize("name", [name for name in HOSTILE if "/" not in name])
@pytest.mark.parametrize("command", ["inspect", "hash", "diff", "verify", "targets"])
def test_json_has_the_name_of_the_file(
    command: str, name: str, data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"{name}.pt2"
    path.write_bytes(data)
    files = [str(path)] * (2 if command == "diff" else 1)
    assert main([command, "--json", *files]) in (0, 1)
    printed = capsys.readouterr().out
    assert printed.isascii()
    assert not any(line.lstrip().startswith(("::", "##[")) for line in printed.splitlines())
    assert str(path) in _texts(json.loads(printed))
