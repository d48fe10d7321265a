"""Models of transformers, some of those of `tests/transformers`, where all are saved and loaded."""

from __future__ import annotations

from architecture import Architecture
from architectures import ARCHITECTURES as TRANSFORMERS
from architectures import build


def _row(name: str) -> Architecture:
    architecture = TRANSFORMERS[name]
    return Architecture("transformers", name, lambda: build(architecture), architecture.inputs)


ARCHITECTURES = [_row(name) for name in ("bert", "gpt2", "llama", "t5")]
