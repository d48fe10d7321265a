"""What calls of a module of `load_module` refuse is what those of torch's module refuse: for random shapes, ranges and guards."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from loaded_modules import assert_same_module
from nightly import by_day
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export

import graphwire
from graphwire.errors import InputError

Test = Callable[[list[Any]], Any]


class _Guarded(nn.Module):
    """Takes branches that depend on sizes and integers."""

    def __init__(self, tests: list[Test]) -> None:
        super().__init__()
        self.tests = tests

    def forward(self, x: Tensor, more: dict[str, Tensor], *, count: Any, flag: Any = True) -> list[Tensor]:
        sizes = [size for each in (x, *more.values()) for size in each.shape] + [count]
        added = sum(number for number, test in enumerate(self.tests) if test(sizes))
        return [each.sum() + added for each in (x, *more.values())] + ([x] if flag else [])


def _test(rng: random.Random, sizes: list[int]) -> Test:
    """A test of one or two of these numbers."""
    i, j = rng.randrange(len(sizes)), rng.randrange(len(sizes))
    m, one, other = rng.randint(2, 4), sizes[i], sizes[j]
    near = one + other + rng.randint(-2, 2)
    tests: list[Test] = [
        lambda s: s[i] > s[j],
        lambda s: s[i] + s[j] > near,
        lambda s: s[i] % m == one % m,
        lambda s: (s[i] + 1) // m == (one + 1) // m,
        lambda s: s[i] * s[j] - s[i] <= near * m,
        lambda s: min(s[i], s[j]) * 2 < max(s[i], s[j]) + m,
        lambda s: s[i] == s[j],
        lambda s: s[i] != m * s[j] + 1,
        lambda s: (s[i] / m) < near,
        lambda s: s[i] ** 2 > other,
        lambda s: s[i] >= m,
        lambda s: s[i] <= one + m,
    ]
    return rng.choice(tests)


def _made(rng: random.Random) -> tuple[ExportedProgram, tuple[Any, ...], dict[str, Any]]:
    batch = rng.choice([2, 4, 5])
    dim = Dim("batch", min=rng.choice([0, 1, 2, batch]), max=rng.choice([batch + 1, 30]))

    def size() -> tuple[int, Any]:
        # Powers of two: torch computes `2 / 3 * size` in floating point, and refuses what fits.
        factor, rest = rng.choice([(1, 0), (1, 0), (1, 2), (2, 0), (2, -1), (4, 1)])
        derived = (factor * dim if factor > 1 else dim) + rest if rest else factor * dim
        plain = rng.randint(2, 8)
        return rng.choice(
            [(plain, None), (plain, Dim.AUTO), (plain, Dim.AUTO), (1, None), (factor * batch + rest, derived)]
        )

    shapes = [[size() for _ in range(rng.randint(0, 3))] for _ in range(rng.randint(1, 3))]
    x, *others = [torch.ones([number for number, _ in shape]) for shape in shapes]
    count = rng.choice([3, batch, 2.5, True, "text", None])
    call = {"count": count, "flag": rng.choice([True, 0, 1])}
    is_number = type(count) is int
    sizes = [number for shape in shapes for number, _ in shape] + ([count] if is_number else [])
    tests = [_test(rng, sizes) for _ in range(rng.randint(0, 4))] if sizes else []
    of_x, *of_others = [{place: spec for place, (_, spec) in enumerate(shape)} for shape in shapes]
    names = [f"in {index}" for index in range(len(others))]
    args = (x, dict(zip(names, others, strict=True)))
    dynamic = {
        "x": of_x,
        "more": dict(zip(names, of_others, strict=True)),
        "count": rng.choice([Dim.AUTO, None]) if is_number else None,
        "flag": None,
    }
    return export(_Guarded(tests), args, call, dynamic_shapes=dynamic), args, call


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(by_day(6, by_night=300)))
def test_both_refuse_the_same(seed: int) -> None:
    rng, found = random.Random(seed), 0
    for _ in range(12):
        try:
            program, args, kwargs = _made(rng)
        except Exception:  # torch does not export every such program
            continue
        found += 1
        data = graphwire.dumps(program)
        for check_guards in (True, False):
            assert_same_module(
                data, args, kwargs, check_guards=check_guards, violations=by_day(10, by_night=60)
            )
        if found == by_day(2, by_night=6):
            break
    assert found


def test_fractions_of_sizes_are_exact() -> None:
    """torch's module computes them in floating point, and refuses the example inputs."""

    class Sums(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return x.sum() + y.sum()

    batch = Dim("batch", min=2, max=50)
    shapes = ({0: 3 * batch + 1}, {0: 2 * batch - 1})
    data = graphwire.dumps(export(Sums(), (torch.ones(7), torch.ones(3)), dynamic_shapes=shapes))
    module = graphwire.load_module(data)
    for number in range(3, 50):
        assert module(torch.ones(3 * number + 1), torch.ones(2 * number - 1)) == 5 * number
        with pytest.raises(InputError, match=r"y\.shape\[0\] is"):
            module(torch.ones(3 * number + 1), torch.ones(2 * number))
