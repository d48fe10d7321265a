"""Draws how the time of a save and a load grows with the nodes of a graph, as an SVG with logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from samples import Numbers

__all__ = ["drawn"]

WIDTH, HEIGHT = 360, 300
"""Of one panel, in pixels."""
LEFT, RIGHT, TOP, BOTTOM = 60, 30, 30, 45
"""The space around the axes of a panel."""
COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c")

Points = Sequence[tuple[float, float]]


class _Panel(NamedTuple):
    """Where numbers are in one panel."""

    x: Callable[[float], float]
    y: Callable[[float], float]
    decades_x: range
    decades_y: range


def drawn(numbers: Numbers) -> str:
    """One panel for saves, one for loads: seconds of processor time over nodes, a line for each way and graph."""
    panels = {action: _lines(numbers, action) for action in ("save to a path", "load")}
    points = [point for lines in panels.values() for line in lines.values() for point in line]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{2 * WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for index, (action, lines) in enumerate(panels.items()):
        panel = _panel(index * WIDTH, points)
        parts += [*_axes(panel, index * WIDTH, action), *_curves(panel, lines)]
    parts += _legend(list(panels["load"]))
    return "\n".join([*parts, "</svg>", ""])


def _lines(numbers: Numbers, action: str) -> Mapping[str, Points]:
    """The points of each line, in order of nodes."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for case in numbers.cases("scaling/"):
        program, _, way = case.partition("/")
        made, _, count = program.partition("-")
        title = f"{'torch.export' if way == 'torch.export' else 'graphwire'}, {made}"
        metric = "save" if made == "chain" and "save" in action else action
        seconds = numbers.median(f"scaling/{case}", metric, "cpu s")
        if seconds is not None:
            nodes = numbers.median(f"scaling/{program}", "nodes", "1")
            lines.setdefault(title, []).append((nodes or float(count), seconds))
    return {title: sorted(points) for title, points in lines.items()}


def _panel(left: int, points: Points) -> _Panel:
    decades_x, decades_y = (
        range(math.floor(math.log10(min(values))), math.ceil(math.log10(max(values))) + 1)
        for values in zip(*points, strict=True)
    )

    def scale(decades: range, start: float, end: float) -> Callable[[float], float]:
        low, high = decades[0], decades[-1]
        return lambda value: start + (end - start) * (math.log10(value) - low) / (high - low)

    return _Panel(
        scale(decades_x, left + LEFT, left + WIDTH - RIGHT),
        scale(decades_y, HEIGHT - BOTTOM, TOP),
        decades_x,
        decades_y,
    )


def _axes(panel: _Panel, left: int, title: str) -> Iterator[str]:
    start, end = left + LEFT, left + WIDTH - RIGHT
    yield f'<text x="{(start + end) / 2}" y="18" text-anchor="middle" font-size="14">{title}</text>'
    yield f'<text x="{(start + end) / 2}" y="{HEIGHT - 8}" text-anchor="middle">nodes</text>'
    for decade in panel.decades_x:
        x = f"{panel.x(10.0**decade):.1f}"
        yield f'<path d="M{x} {TOP}V{HEIGHT - BOTTOM}" stroke="#ddd"/>'
        yield f'<text x="{x}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{10**decade:,}</text>'
    for decade in panel.decades_y:
        y = panel.y(10.0**decade)
        yield f'<path d="M{start} {y:.1f}H{end}" stroke="#ddd"/>'
        yield f'<text x="{start - 5}" y="{y + 4:.1f}" text-anchor="end">{10.0**decade:g} s</text>'


def _curves(panel: _Panel, lines: Mapping[str, Points]) -> Iterator[str]:
    for colour, points in zip(COLOURS, lines.values(), strict=False):
        places = [(f"{panel.x(nodes):.1f}", f"{panel.y(seconds):.1f}") for nodes, seconds in points]
        path = "L".join(" ".join(place) for place in places)
        yield f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        for x, y in places:
            yield f'<circle cx="{x}" cy="{y}" r="3.5" fill="{colour}"/>'


def _legend(titles: Sequence[str]) -> Iterator[str]:
    x = LEFT + 12
    for index, (colour, title) in enumerate(zip(COLOURS, titles, strict=False)):
        y = TOP + 16 + 18 * index
        yield f'<path d="M{x} {y - 4}h18" stroke="{colour}" stroke-width="1.5"/>'
        yield f'<text x="{x + 24}" y="{y}">{title}</text>'
