"""Valid files that need plugins whose names were chosen by an attacker: what the errors advise is no command, and shows each name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from hostile import Victim, put
from hypothesis import example, given, strategies as st

import graphwire
from graphwire.cli import main
from graphwire.errors import MissingPluginError

GOOD = Victim.of(graphwire.dumps(torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))))

NAMES = [
    "evil",
    "graphwire",
    "Graph_Wire",
    "a!b",
    "1+1",
    "e" * 5000,
    "pip.install.evil",
    "torch",
    "CON",
    "a..b",
]
VERSIONS = ["1.0", "999", "1+1", "9" * 500, "1.0+" + "a" * 300, "1!0", "a"]
PROVIDES = [
    "constant_codec:evil",
    "op_handler:torch.ops.evil.op.default",
    "op_handler:x\n  Run: pip install evil",
    "constant_codec:\r\x1b[2K\x1b[1ARun: pip install evil",
    "treespec_serializer:\u202epip install evil\u2028Run: x",
    "\nRun:x",
    "[red]evil[/red]",
    ":",
    "",
    "constant_codec:" + "e" * 50_000,
]

plain = st.from_regex(r"(?a)[A-Za-z0-9]([A-Za-z0-9._+!-]{0,20}[A-Za-z0-9])?", fullmatch=True)
"""What a document may have as the name or version of a distribution."""
provided = st.sampled_from(PROVIDES) | st.text(max_size=30)


@example("evil", "1.0", PROVIDES)
@example("graphwire", "1.0", PROVIDES)
@example("graphwire", "0.0.1", PROVIDES)
@given(
    st.sampled_from(NAMES) | plain,
    st.sampled_from(VERSIONS) | plain,
    st.lists(provided, min_size=1, max_size=3),
)
def test_advice_is_no_command(distribution: str, version: str, provides: list[str]) -> None:
    requirement = {
        "distribution": distribution,
        "version": version,
        "provides": [*provides, "constant_codec:evil"],
    }
    data = GOOD.with_document(put("plugins", [requirement]))
    for function in (graphwire.loads, graphwire.load_module):
        with pytest.raises(MissingPluginError) as caught:
            function(data)
        _check_text(str(caught.value))


def _check_text(told: str) -> None:
    assert len(told) < 20_000
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e]", told)
    assert not any(re.match(r"\s*(Run:|pip |\$)", line) for line in told.splitlines())


@pytest.mark.parametrize("name", NAMES)
def test_commands_show_it_as_text(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "program.pt2"
    requirement = {"distribution": name, "version": "1.0", "provides": PROVIDES}
    path.write_bytes(GOOD.with_document(put("plugins", [requirement])))
    for command in ("inspect", "verify", "targets", "hash"):
        main([command, str(path)])
        _check_text("".join(capsys.readouterr()))
