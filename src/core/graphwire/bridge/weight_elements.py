"""How the elements of weights are distributed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch

from graphwire.bridge.tensors.storages import StorageTable, view_of
from graphwire.bridge.tensors.tensor_metas import decode_dtype
from graphwire.schema import Layout, PayloadMeta
from graphwire.wire.payloads import WEIGHTS, Payloads, known_integers

_CPU = torch.device("cpu")
_BINS = 32
_CHUNK = 1 << 22
"""The number of elements that are converted to doubles at once."""


class ElementFacts(NamedTuple):
    """The distribution of a weight's finite elements."""

    low: float
    high: float
    counts: list[int]
    """The number of elements in intervals of equal length between `low` and `high`."""
    mean: float
    std: float
    finite: int
    """The number of finite elements; if it is 0, the other facts are 0."""
    not_finite: int


def element_facts(payloads: Payloads) -> dict[str, ElementFacts]:
    """Return the distribution of the elements of each weight, by name. Reads all elements.

    Weights that are complex numbers or no plain tensors are dropped."""
    table = StorageTable(payloads.records, lambda _device: _CPU, False)
    tensors = {name: _tensor(meta, table) for name, meta in payloads.weights.items()}
    return {name: _facts(tensor) for name, tensor in tensors.items() if tensor is not None}


def _tensor(meta: PayloadMeta, table: StorageTable) -> torch.Tensor | None:
    """Return a weight on the CPU, mapped where the file is; None if it is no plain tensor of real numbers with elements."""
    described = meta.tensor_meta
    if (
        described is None
        or meta.use_pickle
        or meta.placement is not None
        or described.layout is not Layout.Strided
    ):
        return None
    dtype = decode_dtype(described)
    sizes, strides = known_integers(described.sizes), known_integers(described.strides)
    offset = described.storage_offset.as_int
    if dtype.is_complex or sizes is None or strides is None or offset is None:
        return None
    storage = table.storage(meta.shared or WEIGHTS + meta.path_name, _CPU)
    tensor = view_of(storage, dtype, _CPU, offset, sizes, strides)
    return -tensor if meta.neg else tensor


def _finite_chunks(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield the finite elements chunk by chunk, as doubles."""
    flat = tensor.reshape(-1)
    for start in range(0, flat.numel(), _CHUNK):
        chunk = flat[start : start + _CHUNK].double()
        yield chunk[chunk.isfinite()]


def _facts(tensor: torch.Tensor) -> ElementFacts:
    low, high, total, squares, finite = math.inf, -math.inf, 0.0, 0.0, 0
    for chunk in _finite_chunks(tensor):
        if chunk.numel():
            low, high = min(low, chunk.min().item()), max(high, chunk.max().item())
            total += chunk.sum().item()
            finite += chunk.numel()
    if not finite:
        return ElementFacts(0.0, 0.0, [], 0.0, 0.0, 0, tensor.numel())
    mean = total / finite
    counts = torch.zeros(_BINS, dtype=torch.int64)
    for chunk in _finite_chunks(tensor):
        squares += (chunk - mean).square().sum().item()
        counts += _histogram(chunk, low, high)
    return ElementFacts(
        low, high, counts.tolist(), mean, math.sqrt(squares / finite), finite, tensor.numel() - finite
    )


def _histogram(chunk: torch.Tensor, low: float, high: float) -> torch.Tensor:
    """Return the number of elements in each interval."""
    span = high / 2 - low / 2  # half of it, so that it does not overflow
    if span == 0:
        index = torch.zeros(chunk.numel(), dtype=torch.int64)
    else:
        index = ((chunk / 2 - low / 2) / span * _BINS).long().clamp_(0, _BINS - 1)
    return torch.bincount(index, minlength=_BINS)
