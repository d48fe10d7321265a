"""How much slower one side is than another, as an interval: no single number decides."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Bounds", "block_ratio", "bounds", "counted", "t_quantile"]


class Bounds(NamedTuple):
    """The ratio of two times: the best estimate, and the interval that has it with the confidence asked for."""

    ratio: float
    low: float
    high: float
    rounds: int
    rounds_needed: int
    """How many rounds as noisy as these make the interval as narrow as the allowed slow-down on either side."""

    def is_slower(self, allowed: float) -> bool:
        """Whether all of the interval is above the allowed ratio, such as 1.05."""
        return self.low > allowed

    def is_unclear(self, allowed: float) -> bool:
        """Whether the interval has ratios on both sides of what is allowed."""
        return self.low <= allowed < self.high


def block_ratio(before: Sequence[float], after: Sequence[float]) -> float:
    """The logarithm of after ÷ before in one block A B B A, in which what drifts steadily falls on both sides alike."""
    return statistics.fmean(map(math.log, after)) - statistics.fmean(map(math.log, before))


def bounds(rounds: Sequence[Sequence[float]], *, confidence: float, allowed: float) -> Bounds:
    """The interval of the ratio, by Student's t over rounds.

    A round has processes of its own, whose layout of memory and seed of hashes make all its blocks faster or slower together. So
    blocks of one round are no independent samples: their median is one sample.

    Args:
        rounds: for each round, the logarithms of the ratios of its blocks.
        confidence: how often the ratio is above the lower bound, and how often below the upper one, such as 0.99.
        allowed: the ratio for which `rounds_needed` is computed.
    """
    samples = [statistics.median(blocks) for blocks in rounds]
    if len(samples) < 2:
        raise ValueError("an interval needs at least two rounds")
    middle, deviation = statistics.fmean(samples), statistics.stdev(samples)
    half = t_quantile(confidence, len(samples) - 1) * deviation / math.sqrt(len(samples))
    return Bounds(
        math.exp(middle),
        math.exp(middle - half),
        math.exp(middle + half),
        len(samples),
        _rounds_needed(deviation, confidence, math.log(allowed)),
    )


def counted(rounds: Sequence[Sequence[float]]) -> Bounds:
    """The ratio of counts, which differ between rounds by a few for the order of sets: the least and the most are the bounds."""
    samples = [each for blocks in rounds for each in blocks]
    return Bounds(
        math.exp(statistics.fmean(samples)),
        math.exp(min(samples)),
        math.exp(max(samples)),
        len(rounds),
        len(rounds),
    )


def _rounds_needed(deviation: float, confidence: float, half: float) -> int:
    rounds = 2
    while t_quantile(confidence, rounds - 1) * deviation / math.sqrt(rounds) > half and rounds < 1000:
        rounds += 1
    return rounds


def t_quantile(probability: float, degrees: int) -> float:
    """The quantile of Student's distribution, for probabilities above one half."""
    low, high = 0.0, 1.0
    while _t_below(high, degrees) < probability:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _t_below(middle, degrees) < probability else (low, middle)
    return high


def _t_below(t: float, degrees: int) -> float:
    """The probability of a value below `t`: a finite sum in the angle of t (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(degrees))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = degrees % 2
    term = cosine if odd else 1.0
    total = term if degrees > 1 else 0.0
    for k in range(2 + odd, degrees - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    inside = (angle + sine * total) * 2 / math.pi if odd else sine * total
    return (1 + inside) / 2
