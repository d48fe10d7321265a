"""Models of transformers: those of `tests/transformers`."""

from __future__ import annotations

from architecture import Architecture
from architectures import ARCHITECTURES as TRANSFORMERS
from architectures import build


def _row(name: str) -> Architecture:
    architecture = TRANSFORMERS[name]
    return Architecture("transformers", name, lambda: build(architecture), architecture.inputs)


ARCHITECTURES = [_row(name) for name in TRANSFORMERS]
