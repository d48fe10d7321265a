"""Makes torchvision importable where its compiled operators cannot be loaded.

PyPI's wheel of torchvision is built against torch with CUDA. Beside a torch without, its library does not load, and its Python
part then registers fakes of two operators that nobody declared. No architecture of the zoo calls an operator of torchvision.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import torch

DECLARED: list[torch.library.Library] = []
"""Keeps what is declared here declared."""


def declare() -> None:
    """Declare the two operators, unless torchvision's own library loads. Import this before anything that imports
    torchvision: transformers, timm and diffusers do."""
    found = importlib.util.find_spec("torchvision")
    if found is None or found.origin is None or DECLARED:
        return
    for library in Path(found.origin).parent.glob("_C*.so"):
        try:
            torch.ops.load_library(library)
        except OSError:
            continue
        return
    namespace = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        namespace.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    DECLARED.append(namespace)


declare()
