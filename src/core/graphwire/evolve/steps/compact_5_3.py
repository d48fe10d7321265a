"""Compact 5.3: schema 5.3 with stack traces as pairs of numbers into a table of files. Published, but no release uses it.

The table is `Graph.co_fileinfo_ordered_list` of the top-level graph, and serves the graphs inside too: `[{"file_name": …,
"line_info_map": {"12": {"name": FUNCTION, "line": SOURCE}}}]`. A node's `stack_trace` is a list of `[index of the file,
number of the line]`. The step to 5.3 restores each trace in the form in which Python prints it; the step back builds the
table. A trace in another form, or with lines that the table cannot hold, stays text.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from graphwire.errors import SchemaError
from graphwire.evolve.step import COMPACT_5_3, Step
from graphwire.evolve.trees import Edits, Record, Refuse, Where, rewrite, with_module, without
from graphwire.schema import Version

TABLE = "co_fileinfo_ordered_list"
_FRAME = r'  File "(?P<file>[^\n]*)", line (?P<line>\d+), in (?P<name>[^\n]*)\n    (?P<source>[^\n]*)\n'


def up(tree: Record) -> Record:
    """Convert compact 5.3 to 5.3.

    Raises:
        SchemaError: a trace refers to an entry that the table does not have.
    """
    table = tree["graph_module"]["graph"][TABLE]
    edits = Edits(node=partial(_restored, table), graph=lambda graph, where: without(graph, TABLE))
    return rewrite(tree, edits)


def _restored(table: list[Record], node: Record, where: Where) -> Record | None:
    trace = node["metadata"].get("stack_trace")
    if not isinstance(trace, list):
        return None
    try:
        text = "".join(_frame_text(table, int(file), int(line)) for file, line in trace)
    except (LookupError, TypeError, ValueError) as error:
        place = where.at(".metadata['stack_trace']").path
        raise SchemaError(
            "a stack trace refers to an entry that the table of files does not have", place=place
        ) from error
    return {**node, "metadata": {**node["metadata"], "stack_trace": text}}


def _frame_text(table: list[Record], file: int, line: int) -> str:
    if file < 0:
        raise IndexError(file)
    row = table[file]
    info = row["line_info_map"][str(line)]
    return f'  File "{row["file_name"]}", line {line}, in {info["name"]}\n    {info["line"]}\n'


def down(tree: Record, refuse: Refuse) -> Record:
    """Convert 5.3 to compact 5.3."""
    files: dict[str, dict[str, Record]] = {}

    def compacted(node: Record, where: Where) -> Record | None:
        trace = node["metadata"].get("stack_trace")
        frames = _frames(trace) if isinstance(trace, str) else None
        if frames is None or not _fits(files, frames):
            return None
        pairs = []
        for file, line, name, source in frames:
            files.setdefault(file, {}).setdefault(line, {"name": name, "line": source})
            pairs.append([list(files).index(file), int(line)])
        return {**node, "metadata": {**node["metadata"], "stack_trace": pairs}}

    tree = rewrite(tree, Edits(node=compacted))
    table = [{"file_name": file, "line_info_map": lines} for file, lines in files.items()]
    return with_module(tree, graph={**tree["graph_module"]["graph"], TABLE: table})


def _frames(trace: str) -> list[tuple[str, str, str, str]] | None:
    frames, position = [], 0
    while position < len(trace):
        found = re.compile(_FRAME).match(trace, position)
        if found is None or str(int(found["line"])) != found["line"]:
            return None
        frames.append((found["file"], found["line"], found["name"], found["source"]))
        position = found.end()
    return frames or None


def _fits(files: dict[str, dict[str, Record]], frames: list[tuple[str, str, str, str]]) -> bool:
    """Report whether the lines of a trace conflict neither with the table nor with each other."""
    seen: dict[tuple[str, str], Any] = {}
    for file, line, name, source in frames:
        info = {"name": name, "line": source}
        known = files.get(file, {}).get(line) or seen.setdefault((file, line), info)
        if known != info:
            return False
    return True


STEP = Step(COMPACT_5_3, Version(5, 3), up, down)
