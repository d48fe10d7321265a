"""Valid files that need plugins whose names were chosen by an attacker: what the errors advise is no command, and shows each name."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch
from hostile import DOCUMENT, Victim, put
from hypothesis import example, given, strategies as st

import graphwire
from graphwire.cli import main
from graphwire.errors import MissingPluginError, WeightsError

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


KINDS = [
    "evil",
    "pip install evil",
    "e\nRun: pip install evil",
    "\x1b[2K\r",
    "\u202eRun:\u2028Run:",
    "[red]x",
    "e" * 500,
    "constructor",
]
"""Names of wire formats and of kinds of stores that nobody has. That of a wire format is a part of a record's name."""


def _needing(place: str, kind: str, plugin: dict[str, Any]) -> bytes:
    """The file, with a plugin for what its document lists, for its wire format, or for the store of a weight."""
    if place == "the document":
        return GOOD.with_document(put("plugins", [plugin]))
    if place == "a wire format":
        suffix = re.sub(r"[\x00-\x1f\u202e\u2028]", "", kind)
        formats = json.dumps({f".{suffix}": plugin, plugin["distribution"]: plugin}).encode()
        moved = {f"models/model.{suffix}": GOOD.records[DOCUMENT], DOCUMENT: None}
        return GOOD.with_records({**moved, "data/wire_formats.json": formats})
    references = {
        "stores": [{"kind": kind, "location": "w", "files": {}}],
        "records": {
            WEIGHT: {"nbytes": 16, "regions": [{"tensor": "t", "dtype": "float32", "shape": [2, 2]}]}
        },
        "providers": {kind: plugin},
    }
    tree = GOOD.document
    tree["requires"] = sorted([*tree.get("requires", []), "external-weights"])
    return GOOD.with_records(
        {
            WEIGHT: None,
            "data/weights/references.json": json.dumps(references).encode(),
            DOCUMENT: json.dumps(tree).encode(),
        }
    )


PLACES = ["the document", "a wire format", "a store"]
WEIGHT = "data/weights/weight_0"


@example("the document", "", "evil", "1.0", PROVIDES)
@example("the document", "", "graphwire", "0.0.1", PROVIDES)
@example("a wire format", KINDS[1], "evil", "1.0", PROVIDES)
@example("a store", KINDS[2], "evil", "1.0", PROVIDES)
@given(
    st.sampled_from(PLACES),
    st.sampled_from(KINDS),
    st.sampled_from(NAMES) | plain,
    st.sampled_from(VERSIONS) | plain,
    st.lists(provided, min_size=1, max_size=3),
)
def test_advice_is_no_command(
    place: str, kind: str, distribution: str, version: str, provides: list[str]
) -> None:
    plugin = {
        "distribution": distribution,
        "version": version,
        "provides": [*provides, "constant_codec:evil"],
    }
    data = _needing(place, kind, plugin)
    for function in (graphwire.loads, graphwire.load_module):
        # The kind of a store is a plain name, or the references are refused for it.
        with pytest.raises((MissingPluginError, WeightsError)) as caught:
            function(data)
        _check_text(str(caught.value))


PASTED = re.compile(r"comes from (.*): check whose that is")


def _check_text(told: str) -> None:
    """Whoever pastes what the advice names behind `pip install` gives pip a few plain words."""
    for names in PASTED.findall(told):
        for each in names.split(", "):
            words = shlex.split(each)
            assert all(shlex.quote(word) in (word, f"'{word}'") and word[:1] != "-" for word in words)
            assert shlex.join(words) == each or each.replace("'", "") == " ".join(words)
    assert len(told) < 20_000
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e]", told)
    assert not any(re.match(r"\s*(Run:|pip |\$)", line) for line in told.splitlines())


@pytest.mark.parametrize(
    ("place", "kind", "name"),
    [
        *(("the document", "", name) for name in NAMES),
        *((place, kind, "evil") for place in PLACES[1:] for kind in KINDS),
    ],
)
def test_commands_show_it_as_text(
    place: str, kind: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "program.pt2"
    path.write_bytes(_needing(place, kind, {"distribution": name, "version": "1.0", "provides": PROVIDES}))
    for command in ("inspect", "verify", "targets", "hash"):
        main([command, str(path)])
        _check_text("".join(capsys.readouterr()))
