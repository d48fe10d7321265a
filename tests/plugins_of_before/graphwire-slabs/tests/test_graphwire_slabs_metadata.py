"""Files keep the notes of nodes, and a process without the plugin drops them with a warning."""

from __future__ import annotations

import pytest
import torch
from graphwire_slabs.metadata import mark, marked

import graphwire
from graphwire.errors import GraphwireWarning


def program() -> torch.export.ExportedProgram:
    return torch.export.export(torch.nn.ReLU(), (torch.ones(2),))


def test_a_loaded_program_has_its_notes() -> None:
    exported = program()
    mark(exported, "aten.relu.default", "on the device")
    assert marked(exported) == {"relu": "on the device"}
    assert marked(graphwire.loads(graphwire.dumps(exported))) == {"relu": "on the device"}


def test_without_the_plugin_notes_are_dropped_with_a_warning() -> None:
    exported = program()
    mark(exported, "aten.relu.default", "on the device")
    data = graphwire.dumps(exported)
    with pytest.warns(GraphwireWarning, match="slabs"):
        loaded = graphwire.loads(data, registry=graphwire.Registry.without("slabs"))
    assert marked(loaded) == {}
