"""How much the elements of two weights differ: as torch computes it, with NumPy and without."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from inside.analysis import ElementChange, element_change, weights as module

import graphwire
from graphwire import Payloads

FLOAT8 = [getattr(torch, name) for name in vars(torch) if name.startswith("float8_")]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool]
COMPLEX = [torch.complex64, torch.complex128]


@pytest.fixture(params=["NumPy", "Python"])
def computed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to compute."""
    monkeypatch.setattr(module, "find_spec", lambda name: name if request.param == "NumPy" else None)
    monkeypatch.setattr(module, "_CHUNK", 7)


def payloads_of(**tensors: torch.Tensor) -> Payloads:
    class Held(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, tensor in tensors.items():
                self.register_buffer(name, tensor)

        def forward(self, x: torch.Tensor) -> Any:
            return x

    return graphwire.to_schema(torch.export.export(Held(), (torch.ones(1),)))[1]


def change(one: torch.Tensor, other: torch.Tensor) -> ElementChange | None:
    payloads = payloads_of(a=one, b=other)
    a, b = payloads["a"], payloads["b"]
    assert a.record is not None
    assert b.record is not None
    return element_change(a.meta, a.record, b.meta, b.record)


def expected(one: torch.Tensor, other: torch.Tensor) -> ElementChange:
    dtype = torch.complex128 if one.is_complex() else torch.float64
    a, b = (each.to(dtype).flatten() for each in (one, other))
    reals = [torch.view_as_real(each).flatten() if one.is_complex() else each for each in (a, b)]
    cosine = (reals[0] @ reals[1] / reals[0].norm() / reals[1].norm()).item()
    norm = ((a - b).norm() / a.norm()).item()
    return ElementChange(
        pytest.approx((a - b).abs().max().item()), pytest.approx(cosine), pytest.approx(norm)
    )


@pytest.mark.usefixtures("computed")
@pytest.mark.parametrize("dtype", [*FLOATS, *FLOAT8, *INTEGERS, *COMPLEX], ids=str)
def test_every_element_type_is_measured(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    real = torch.float64 if not dtype.is_complex else dtype
    one, other = (torch.randn(5, 6, dtype=real).mul(3).abs().sub(2).relu().to(dtype) for _ in range(2))
    assert change(one, other) == expected(one.to(real), other.to(real))
    assert change(one, one.clone()) is None


@pytest.mark.usefixtures("computed")
@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_every_value_of_eight_bits_is_that_of_torch(dtype: torch.dtype) -> None:
    every = torch.arange(256, dtype=torch.uint8).view(dtype)
    finite = every[every.double().isfinite()]
    found = change(finite, finite.double())
    assert found == ElementChange(0.0, pytest.approx(1), 0.0)
    odd = every[~every.double().isfinite()]
    assert change(odd, odd.double()) == ElementChange(0.0, None)


FORMS = {
    "transposed": (torch.randn(4, 6).t(), torch.randn(6, 4)),
    "a part": (torch.randn(9, 9)[1:8:2, ::3], torch.randn(4, 3)),
    "expanded": (torch.randn(3, 1).expand(3, 40), torch.randn(3, 40)),
    "expanded alike": (torch.randn(3, 1).expand(3, 10**9), torch.randn(3, 1).expand(3, 10**9)),
    "one number": (torch.tensor(2.0), torch.tensor(3.0)),
    "another type": (torch.randn(5, 5), torch.randn(5, 5).bfloat16()),
    "integers and floats": (torch.arange(20), torch.randn(20)),
    "conjugated": (torch.randn(9, dtype=torch.complex64).conj(), torch.randn(9, dtype=torch.complex64).conj()),
}  # fmt: skip


@pytest.mark.usefixtures("computed")
@pytest.mark.parametrize("name", FORMS)
def test_every_layout_is_measured(name: str) -> None:
    one, other = FORMS[name]
    seen = [each[:, :1] if name == "expanded alike" else each for each in (one, other)]
    assert change(one, other) == expected(*seen)


INF, NAN = math.inf, math.nan
NUMBERS = [
    ([1.0, NAN, INF, -INF], [1.0, NAN, INF, -INF], None),
    ([1.0, NAN, INF], [2.0, NAN, INF], ElementChange(1.0, 1.0, 1.0)),
    ([1.0, NAN], [1.0, 1.0], ElementChange()),
    ([1.0, INF], [1.0, -INF], ElementChange()),
    ([0.0], [-0.0], ElementChange(0.0, None)),
    ([1.7e308], [-1.7e308], ElementChange()),
    ([0.0, 0.0], [1.0, 2.0], ElementChange(2.0, None)),
]


@pytest.mark.usefixtures("computed")
@pytest.mark.parametrize(("one", "other", "wanted"), NUMBERS)
def test_what_is_not_finite_equals_itself(one, other, wanted) -> None:
    found = change(*(torch.tensor(each, dtype=torch.float64) for each in (one, other)))
    assert found == wanted


@pytest.mark.usefixtures("computed")
@pytest.mark.parametrize(
    ("one", "other", "largest"),
    [
        (torch.tensor([2**53]), torch.tensor([2**53 + 1]), 1),
        (torch.tensor([-(2**63)]), torch.tensor([2**63 - 1]), 2**64),
        (torch.tensor([-128], dtype=torch.int8), torch.tensor([127], dtype=torch.int8), 255),
        (torch.tensor([255], dtype=torch.uint8), torch.tensor([-1], dtype=torch.int8), 256),
    ],
)
def test_differences_of_integers_are_exact(one, other, largest) -> None:
    found = change(one, other)
    assert found is not None
    assert found.max_abs == largest


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (torch.ones(2), torch.ones(3)),
        (torch.ones(2), torch.ones(2, dtype=torch.complex64)),
        (torch.ones(2, dtype=torch.complex64).conj(), torch.ones(2, dtype=torch.complex64)),
        (torch.ones(10**6).as_strided((10**5, 10**5), (1, 1)), torch.ones(10**6).as_strided((10**5, 10**5), (1, 1))),
    ],
    ids=["shapes", "complex and real", "conjugated on one side", "overlapping"],
)  # fmt: skip
def test_what_has_no_pairs_of_elements_is_not_measured(one, other) -> None:
    assert change(one, other) == ElementChange()
