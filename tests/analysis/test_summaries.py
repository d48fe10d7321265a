"""What `inspect` says of programs is what it said: of the golden archive, and of files that torch wrote.

python tests/analysis/test_summaries.py     write `summaries.json` again, to be read where it differs
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

import graphwire

ROOT = Path(__file__).resolve().parents[2]
KEPT = Path(__file__).with_name("summaries.json")
GIVEN = ("2_1_dataclass", "2_3_linear", "2_6_dynamic", "2_13_cond", "2_13_pytree")
FILES = [
    ROOT / "tests/golden/archives/json.pt2",
    *(ROOT / f"conformance/given/torch_{name}.pt2" for name in GIVEN),
]


def summaries(file: Path) -> dict[str, Any]:
    """The summary of each program of a file, by name, without the schema version, which moves on."""
    found = {each.name: msgspec.to_builtins(each.summary) for each in graphwire.inspect(file).methods}
    return {name: {**summary, "schema_version": ""} for name, summary in found.items()}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_summary_says_what_it_said(file: Path) -> None:
    assert summaries(file) == json.loads(KEPT.read_text("utf-8"))[file.stem]


if __name__ == "__main__":
    KEPT.write_text(
        json.dumps({file.stem: summaries(file) for file in FILES}, indent=1) + "\n", encoding="utf-8"
    )
