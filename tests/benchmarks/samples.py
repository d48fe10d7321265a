"""What the benchmarks measured, as one JSON document: the machine, the versions, and a row of samples for each number."""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

__all__ = ["UNITS", "Numbers", "Row", "machine_facts", "versions"]

SCHEMA = 1
"""The version of the document. Another meaning of what is there is another number."""
UNITS = {
    "s": "seconds that passed",
    "cpu s": "seconds of processor time of the process and those that it started, threads included",
    "B": "bytes",
    "1": "a count",
}
"""The units of a row."""
_LIBRARIES = ("graphwire", "torch", "msgspec", "zlib-ng", "safetensors", "onnx", "onnxscript")


@dataclass(frozen=True)
class Row:
    """One number of one case: each sample is a measurement of its own."""

    name: str
    """The case, as a path whose first part is the set of measurements: `programs/convnet/json`."""
    metric: str
    """What was measured, such as `save to a path`."""
    unit: str
    """A key of `UNITS`."""
    samples: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.samples)


@dataclass(frozen=True)
class Numbers:
    """A whole run, or the joined sets of several."""

    machine: dict[str, Any]
    versions: dict[str, str]
    rows: list[Row] = field(default_factory=list)

    def median(self, name: str, metric: str, unit: str = "s") -> float | None:
        """The median of a row; None where it was not measured."""
        return next(
            (row.median for row in self.rows if (row.name, row.metric, row.unit) == (name, metric, unit)),
            None,
        )

    def cases(self, prefix: str) -> list[str]:
        """The names below `prefix`, without it, in the order of measurement."""
        found = (row.name.removeprefix(prefix) for row in self.rows if row.name.startswith(prefix))
        return list(dict.fromkeys(found))

    def metrics(self, name: str, unit: str) -> list[str]:
        """The metrics of a case that have this unit, in the order of measurement."""
        return [row.metric for row in self.rows if row.name == name and row.unit == unit]

    def updated(self, newer: Numbers) -> Numbers:
        """These numbers, with each set that `newer` has in place of the same set here, and the facts of `newer`."""
        sets = {_set(row) for row in newer.rows}
        kept = [row for row in self.rows if _set(row) not in sets]
        return Numbers(newer.machine, newer.versions, kept + newer.rows)

    def to_json(self) -> str:
        """The document, with one line for each row."""
        facts = {"schema": SCHEMA, "machine": self.machine, "versions": self.versions}
        lines = [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in facts.items()]
        rows = ",\n".join(f"    {json.dumps(_written(row))}" for row in self.rows)
        return "\n".join(["{", *lines, '  "rows": [', *([rows] if rows else []), "  ]", "}", ""])

    def write(self, file: Path) -> None:
        """Write the document."""
        file.write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def read(cls, file: Path) -> Numbers:
        """The numbers of a document.

        Raises:
            ValueError: the document has another version, or a unit that is not in `UNITS`.
        """
        found = json.loads(file.read_text(encoding="utf-8"))
        if found["schema"] != SCHEMA:
            raise ValueError(f"{file}: schema {found['schema']}, where this reader knows {SCHEMA}")
        rows = [Row(**row) for row in found["rows"]]
        if unknown := {row.unit for row in rows} - UNITS.keys():
            raise ValueError(f"{file}: unknown units {sorted(unknown)}")
        return cls(found["machine"], found["versions"], rows)


def _set(row: Row) -> str:
    return row.name.partition("/")[0]


def _written(row: Row) -> dict[str, Any]:
    """The row with six digits of each sample."""
    samples = [int(each) if float(each).is_integer() else float(f"{each:.6g}") for each in row.samples]
    return {"name": row.name, "metric": row.metric, "unit": row.unit, "samples": samples}


def machine_facts() -> dict[str, Any]:
    """What the numbers depend on, and nothing that identifies the machine."""
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "processor": _processor(),
        "processors": os.cpu_count(),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }


def versions() -> dict[str, str]:
    """The versions of Python and of each library that is compared."""
    found = {"python": platform.python_version()}
    for library in _LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    try:
        facts = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    model = re.search(r"^model name\s*:\s*(.+)$", facts, re.MULTILINE)
    return model[1] if model else platform.processor()
