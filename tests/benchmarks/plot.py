"""Draws how time grows with the size of a graph, from the numbers that the benchmark wrote.

python tests/benchmarks/bench.py --scaling --beside --json numbers.json
python tests/benchmarks/plot.py numbers.json docs/scaling.svg
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

__all__ = ["draw"]


def draw(document: dict[str, Any], file: Path) -> None:
    """One panel for save, one for load: seconds over nodes, both logarithmic, a line for each way.

    Args:
        document: what `bench.py --json` wrote.
        file: the picture to write; its ending says the format.
    """
    import matplotlib as mpl
    from matplotlib import pyplot

    mpl.rcParams.update({"svg.hashsalt": "graphwire", "font.size": 10})
    figure, panels = pyplot.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    for panel, action in zip(panels, ("save", "load"), strict=True):
        for way, points in _lines(document, action).items():
            panel.loglog(*zip(*sorted(points), strict=True), marker="o", label=way)
        panel.set_title(action)
        panel.set_xlabel("nodes")
        panel.grid(visible=True, which="major", alpha=0.3)
    panels[0].set_ylabel("seconds")
    panels[0].legend()
    figure.savefig(file, metadata={"Date": None})


def _lines(document: dict[str, Any], action: str) -> dict[str, list[tuple[int, float]]]:
    lines: dict[str, list[tuple[int, float]]] = {}
    for row in document["scaling"]:
        way = "torch.export, unbind" if row["way"] == "torch.export" else "graphwire, unbind"
        lines.setdefault(way, []).append((row["nodes"], row[f"{action}_seconds"]))
    for row in document["beside"]:
        verb, count, *_ = row["what"].split()
        if verb == action and row["what"].endswith("nodes"):
            points = lines.setdefault("graphwire, chain", [])
            points.append((int(count.replace(",", "")), row["seconds"]))
            points.append((int(row["against"].split()[1].replace(",", "")), row["against_seconds"]))
    return lines


def main() -> int:
    """Draw what the arguments name; the exit code."""
    parser = argparse.ArgumentParser(prog="plot.py", description=__doc__.splitlines()[0])
    parser.add_argument("numbers", type=Path, help="what bench.py --json wrote")
    parser.add_argument("picture", type=Path, help="the file to write, such as docs/scaling.svg")
    options = parser.parse_args()
    draw(json.loads(options.numbers.read_text()), options.picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
