"""The codec passes the contract tests of constant codecs: round trips, and untrusted files."""

from __future__ import annotations

from typing import Any

import torch
from graphwire_slabs.codec import SlabsCodec, tensor_class

import graphwire
from graphwire.testing import ConstantCodecContract


class TestSlabs(ConstantCodecContract):
    codec = SlabsCodec()
    examples = (lambda: tensor_class()(torch.arange(3.0), 4), lambda: tensor_class()(torch.ones(2, 2), 0))

    def assert_same(self, actual: Any, expected: Any) -> None:
        assert actual.shape == expected.shape
        assert torch.equal(actual.row, expected.row)


def test_a_file_of_the_installed_plugin_is_loaded_by_anybody() -> None:
    program = torch.export.export(torch.nn.ReLU(), (torch.ones(2),))
    program.constants["stripes"] = tensor_class()(torch.arange(3.0), 4)
    stripes = graphwire.loads(graphwire.dumps(program)).constants["stripes"]
    assert (stripes + 0).tolist() == [[0.0, 1.0, 2.0]] * 4
