"""The codecs in the box keep the contract that a plugin's codec does."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor

from graphwire.testing import ConstantCodecContract
from graphwire_plugins.constants import (
    JaggedTensors,
    PlainSubclasses,
    QuantizedTensors,
    SparseTensors,
    TensorSubclasses,
)

DENSE = torch.tensor([[0.0, 1.0, 0.0], [2.0, 0.0, 3.0]])


class TestSparse(ConstantCodecContract):
    codec = SparseTensors()
    examples = (lambda: DENSE.to_sparse(), lambda: torch.nn.Parameter(DENSE.to_sparse()))


class TestJagged(ConstantCodecContract):
    codec = JaggedTensors()
    examples = (
        lambda: torch.nested.nested_tensor([torch.ones(2, 3), torch.zeros(1, 3)], layout=torch.jagged),
    )


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
class TestQuantized(ConstantCodecContract):
    codec = QuantizedTensors()
    shares_memory = False
    examples = (
        lambda: torch.quantize_per_tensor(torch.arange(4.0), 0.5, 3, torch.quint8),
        lambda: torch.quantize_per_channel(
            torch.ones(2, 2), torch.ones(2, dtype=torch.float64), torch.tensor([0, 1]), 1, torch.qint8
        ),
    )


class TestSubclasses(ConstantCodecContract):
    codec = TensorSubclasses()
    examples = (
        lambda: TwoTensor(torch.arange(3.0), torch.ones(3)),
        lambda: TwoTensor(TwoTensor(torch.ones(2), torch.zeros(2)), torch.ones(2)),
    )

    def assert_same(self, actual: Any, expected: Any) -> None:
        if isinstance(expected, TwoTensor):
            self.assert_same(actual.a, expected.a)
            self.assert_same(actual.b, expected.b)
        else:
            super().assert_same(actual, expected)


class Labelled(torch.Tensor):
    """A subclass that adds nothing but its name."""


class TestPlainSubclasses(ConstantCodecContract):
    codec = PlainSubclasses()
    examples = (lambda: torch.ones(3).as_subclass(Labelled),)
