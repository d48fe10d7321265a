"""Documents of the schemas where the system began, by name."""

from __future__ import annotations

import struct

import pytest
import torch

import graphwire
from graphwire.errors import EncodeError, TargetError
from graphwire.evolve.embedded import embedded_tensors
from graphwire.hooks.registry import default_registry
from graphwire.wire.document import read_document
from graphwire.wire.payloads import Payloads


@pytest.fixture(scope="module")
def linear() -> torch.export.ExportedProgram:
    layer = torch.nn.Linear(2, 1)
    layer.load_state_dict({"weight": torch.tensor([[1.0, -2.5]]), "bias": torch.tensor([0.5])})
    return torch.export.export(layer, (torch.ones(1, 2),))


@pytest.mark.parametrize("format", ["json", "msgpack", "cbor"])
def test_a_document_of_the_first_design_has_its_weights_inside(
    linear: torch.export.ExportedProgram, format: str
) -> None:
    program, payloads = graphwire.to_schema(linear)
    data = graphwire.encode(program, format, target="draft-2022", payloads=payloads)
    tree = read_document(data, default_registry().wire_format(format))
    assert tree["parameters"]["weight"]["storage"]["data"]["buffer"] == struct.pack(">2f", 1.0, -2.5)
    held = {tensor.name: tensor.data for tensor in embedded_tensors(tree)}
    assert held == {"weight": struct.pack("<2f", 1.0, -2.5), "bias": struct.pack("<f", 0.5)}
    again = graphwire.from_schema(graphwire.decode(data), payloads)
    value = torch.tensor([[3.0, 4.0]])
    assert torch.equal(again.module()(value), linear.module()(value))


@pytest.mark.parametrize("target", ["schema-1", "schema-5.3", "compact-5.3", "torch-2.6", "8.14"])
def test_a_document_of_every_named_schema_is_written_and_read(
    linear: torch.export.ExportedProgram, target: str
) -> None:
    program, payloads = graphwire.to_schema(linear)
    again = graphwire.from_schema(graphwire.decode(graphwire.encode(program, target=target)), payloads)
    value = torch.tensor([[3.0, 4.0]])
    assert torch.equal(again.module()(value), linear.module()(value))


def test_weights_without_bytes_are_refused(linear: torch.export.ExportedProgram) -> None:
    program, _ = graphwire.to_schema(linear)
    with pytest.raises(EncodeError, match="no bytes of the weight"):
        graphwire.encode(program, target="draft-2022", payloads=Payloads())


def test_what_the_first_design_cannot_say_is_refused() -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("n", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.n.add_(1)
            return x + self.n

    program, _ = graphwire.to_schema(torch.export.export(Counter(), (torch.ones(1),)))
    with pytest.raises(TargetError):
        graphwire.encode(program, target="draft-2022")
