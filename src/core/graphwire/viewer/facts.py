"""The facts that a page shows beside the programs that it contains: what only Python can determine. Each part is optional."""

from __future__ import annotations

from typing import Any

import msgspec

from graphwire.viewer.overlays import Overlay


class ProblemFact(msgspec.Struct, frozen=True):
    """A problem that `verify` finds."""

    kind: str
    place: str
    problem: str
    remedy: str = ""


class TargetFact(msgspec.Struct, frozen=True):
    """A release of torch that a program can or cannot be written for."""

    target: str
    readable: bool
    why_not: str = ""


class NodeCost(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one call of a node costs."""

    bytes: int | None = None
    """The size of its tensor inputs and results; None if a size is unknown before the program runs."""
    flops: int | None = None
    """The floating-point operations that torch's flop counter counts; None if it was not asked, or cannot tell."""


class MethodCosts(msgspec.Struct, frozen=True):
    """The costs of a program's nodes."""

    source: str
    """Who computed them, and at which sizes."""
    nodes: dict[str, NodeCost]
    """By the name of the node; inside a subgraph by `SUBGRAPH/NODE`."""


class MethodFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The facts about one program."""

    costs: MethodCosts | None = None
    operators: dict[str, str] | None = None
    """The schema of each operator, by the operator's serialized name."""


class Histogram(msgspec.Struct, frozen=True):
    """The number of finite elements in intervals of equal length."""

    min: float
    max: float
    counts: list[int]


class WeightFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """Facts about a weight that the page's own file, which has no elements, does not have."""

    where: str = ""
    """Where its elements are, as `graphwire weights` has it; empty for a program in memory."""
    histogram: Histogram | None = None
    """None if no elements were read, or none is finite."""
    mean: float | None = None
    std: float | None = None
    not_finite: int = 0
    """The number of elements that are infinite or not a number."""


class WeightChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the elements of a weight differ between two programs."""

    equal: bool
    max_abs: float | None = None
    """The largest absolute difference; None if elements were not read, or differ by no finite number."""
    cosine: float | None = None
    """The cosine of the angle between both; None in these cases, too, and if one is zero."""


class FileFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The facts about one file."""

    name: str
    inspection: dict[str, Any] | None = None
    """The inspection of the original file, without records and summaries: the page contains a smaller archive."""
    problems: list[ProblemFact] | None = None
    targets: list[TargetFact] | None = None
    methods: dict[str, MethodFacts] = {}
    weights: dict[str, WeightFacts] | None = None


class Facts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The facts of one page."""

    files: list[FileFacts]
    version: int = msgspec.field(default=1)
    weight_changes: dict[str, dict[str, WeightChange]] | None = None
    """By program of the second file, and by the weight's name: those that are known to differ."""
    compared: dict[str, str] = {}
    """What was compared of weights and constants, in words, by program of the second file."""
    overlays: list[Overlay] = []
