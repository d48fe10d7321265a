"""How the elements of weights are distributed, for every kind of tensor."""

from __future__ import annotations

import math

import pytest
import torch
from inside.bridge import element_facts

import graphwire
from graphwire import Payloads


def payloads_of(**tensors: torch.Tensor) -> Payloads:
    class Held(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, tensor in tensors.items():
                self.register_buffer(name, tensor)

        def forward(self, x):
            return x, *self.buffers()

    return graphwire.to_schema(torch.export.export(Held(), (torch.ones(1),)))[1]


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(100.0),
        torch.arange(-50, 50),
        torch.tensor([True, False, True]),
        torch.randn(3, 4, dtype=torch.bfloat16).t(),
        torch.full((5,), 3.0),
        torch.tensor([math.inf, -math.inf, math.nan, 1.0, 2.0]),
        torch.tensor([1.7e308, -1.7e308], dtype=torch.float64),
        torch.ones(1).expand(7),
    ],
    ids=range(8),
)
def test_a_histogram_counts_every_finite_element(tensor):
    found = element_facts(payloads_of(w=tensor))["w"]
    finite = tensor.double()[tensor.double().isfinite()]
    assert (found.low, found.high) == (finite.min().item(), finite.max().item())
    assert sum(found.counts) == found.finite == finite.numel()
    assert found.not_finite == tensor.numel() - finite.numel()
    assert found.mean == pytest.approx(finite.mean().item(), abs=1e-9)
    assert all(count >= 0 for count in found.counts)


@pytest.mark.parametrize("tensor", [torch.empty(0), torch.full((3,), math.nan)], ids=["empty", "nan"])
def test_a_weight_without_finite_elements_has_no_histogram(tensor):
    found = element_facts(payloads_of(w=tensor))["w"]
    assert (found.finite, found.counts, found.not_finite) == (0, [], tensor.numel())


def test_complex_weights_are_dropped():
    payloads = payloads_of(z=torch.ones(2, dtype=torch.complex64), w=torch.ones(2))
    assert list(element_facts(payloads)) == ["w"]
