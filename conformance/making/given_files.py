"""Files that torch.export.save of several releases wrote. They are in the folder `given`, and are not made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from making.files import Case

GIVEN = Path(__file__).resolve().parents[1] / "given"
MODELS = {
    "linear": "a linear layer",
    "dynamic": "dynamic sizes without an upper bound",
    "assertion": "an assertion",
    "dataclass": "a dataclass as argument",
    "cond": "a condition inside a condition, and dynamic sizes",
    "pytree": "dicts and lists as arguments and results",
}
OLDER = ("2_1", "2_2", "2_3", "2_5", "2_6", "2_7", "2_8")
"""Releases whose schema or layout is older than 8.0 and B2."""
SCHEMA_8 = ("2_9", "2_11")
"""Releases whose schema is 8.0 to 8.19, in the layout B2."""


def all_cases() -> Iterator[Case]:
    """Every file in the folder."""
    for path in sorted(GIVEN.glob("*.pt2")):
        release, _, model = path.stem.removeprefix("torch_").rpartition("_")
        part = "older" if release in OLDER else "schema-8" if release in SCHEMA_8 else ""
        about = f"{MODELS[model]}, written by torch {release.replace('_', '.')}"
        needs = ("json", part) if part else ("json",)
        yield Case(f"given/{path.stem}", about, path.read_bytes(), needs=needs)
