"""Old files whose weights have names that no attribute can have load, with other names."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest
import torch
from inside.wire import sanitized_name

import graphwire
from graphwire import LoadReport
from graphwire.errors import GraphwireError

VALUE = torch.tensor([[3.0, 4.0]])


def renamed(linear: torch.export.ExportedProgram, names: dict[str, str]) -> bytes:
    """A file in the form of torch 2.1 whose weights have other names, in the document and the state dict."""
    source = zipfile.ZipFile(io.BytesIO(graphwire.dumps(linear, target="torch-2.1")))
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for member in source.namelist():
            data = source.read(member)
            if member == "serialized_exported_program.json":
                tree = json.loads(data)
                weights = tree["graph_module"]["signature"]["inputs_to_parameters"]
                weights.update({key: names.get(name, name) for key, name in weights.items()})
                data = json.dumps(tree).encode()
            elif member == "serialized_state_dict.json":
                state = torch.load(io.BytesIO(data))
                stream = io.BytesIO()
                torch.save({names.get(name, name): value for name, value in state.items()}, stream)
                data = stream.getvalue()
            archive.writestr(member, data)
    return made.getvalue()


@pytest.fixture(scope="module")
def linear() -> torch.export.ExportedProgram:
    return torch.export.export(torch.nn.Linear(2, 1), (VALUE,))


def test_a_name_that_no_attribute_can_have_is_made_plain(
    linear: torch.export.ExportedProgram, tmp_path: Path
) -> None:
    data = renamed(linear, {"weight": 'L["self"][0]_scale_0'})
    told: list[LoadReport] = []
    loaded = graphwire.load(data, report=told.append)
    assert set(loaded.state_dict) == {"L__self___0__scale_0", "bias"}
    assert torch.equal(loaded.module()(VALUE), linear.module()(VALUE))
    assert "the name 'L__self___0__scale_0' of the weight 'L[\"self\"][0]_scale_0'" in told[0].derived
    assert graphwire.verify(data) == []
    graphwire.convert(data, tmp_path / "new.pt2", format="msgpack")
    assert torch.equal(graphwire.load(tmp_path / "new.pt2").module()(VALUE), linear.module()(VALUE))


def test_names_that_would_become_one_are_refused(linear: torch.export.ExportedProgram) -> None:
    data = renamed(linear, {"weight": 'a"b', "bias": "a_b"})
    with pytest.raises(GraphwireError, match="not an attribute path"):
        graphwire.load(data)
    assert graphwire.verify(data)


def test_a_name_that_an_attribute_can_have_stays() -> None:
    assert sanitized_name("layers.0.some-weight") == "layers.0.some-weight"
