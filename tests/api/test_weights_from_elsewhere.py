"""A program that was loaded without weights is filled by safetensors and by torch, as docs/from-torch.md says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import export

import graphwire

PAGE = Path(__file__).resolve().parents[2] / "docs/from-torch.md"


class Tied(nn.Module):
    """Three layers have one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = (nn.Linear(4, 4) for _ in range(3))
        self.second.weight = self.third.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.third(self.second(self.first(x)))


class TiedBuffers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("one", torch.rand(4))
        self.register_buffer("same", self.one)
        self.register_buffer("other", torch.rand(4), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.one + self.same + self.other


class Frozen(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)
        self.linear.weight.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.linear(x))


def _tensors(module: nn.Module) -> dict[str, Tensor]:
    return {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }


@pytest.mark.parametrize("model", [Tied, TiedBuffers, Frozen])
@pytest.mark.parametrize("format", ["json", "cbor"])
def test_the_page_s_way_to_fill_a_program_keeps_ties_and_what_is_trained(
    model: type[nn.Module], format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    x, original = torch.rand(3, 4), model().eval()
    program = export(original, (x,))
    graphwire.save(program, "model.pt2", format=format)
    for block in blocks:
        if "weights=None" in block:
            names: dict[str, Any] = {"torch": torch, "graphwire": graphwire, "program": program, "x": x}
            exec(block, names)
            filled, expected = _tensors(names["bare"].module()), _tensors(original)
            assert filled.keys() == expected.keys()
            for name, value in filled.items():
                assert torch.equal(value, expected[name])
                assert value.requires_grad is expected[name].requires_grad
                assert [value is other for other in filled.values()] == [
                    expected[name] is other for other in expected.values()
                ]
