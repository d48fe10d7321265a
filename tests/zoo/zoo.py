"""Every architecture of the zoo, by its key."""

from __future__ import annotations

import importlib
import warnings

import torchvision_operators  # noqa: F401 (transformers, timm and others import torchvision)
from architecture import Architecture

MODULES = (
    "diffusers",
    "e3nn",
    "monai",
    "neuraloperator",
    "open_clip",
    "others",
    "segmentation_models",
    "timm",
    "torch_geometric",
    "torchvision",
    "transformers",
    "vit_pytorch",
    "x_transformers",
)


def _architectures() -> dict[str, Architecture]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what libraries say while they are imported
        rows = [row for name in MODULES for row in importlib.import_module(f"of_{name}").ARCHITECTURES]
    named = {row.key: row for row in rows}
    assert len(named) == len(rows), "two architectures have one name"
    return named


ZOO = _architectures()
