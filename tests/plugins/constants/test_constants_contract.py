"""The codecs in the box keep the contract that a plugin's codec does."""

from __future__ import annotations

import torch
from torch.testing._internal.two_tensor import TwoTensor

from graphwire.testing.constant_codec import ConstantCodecContract
from graphwire_plugins.constants import JaggedTensors, SparseTensors, TensorSubclasses

DENSE = torch.tensor([[0.0, 1.0, 0.0], [2.0, 0.0, 3.0]])


class TestSparse(ConstantCodecContract):
    codec = SparseTensors()
    examples = (lambda: DENSE.to_sparse(), lambda: torch.nn.Parameter(DENSE.to_sparse()))


class TestJagged(ConstantCodecContract):
    codec = JaggedTensors()
    examples = (
        lambda: torch.nested.nested_tensor([torch.ones(2, 3), torch.zeros(1, 3)], layout=torch.jagged),
    )


class TestSubclasses(ConstantCodecContract):
    codec = TensorSubclasses()
    examples = (lambda: TwoTensor(DENSE, DENSE * 2), lambda: TwoTensor(DENSE, TwoTensor(DENSE, DENSE)))
