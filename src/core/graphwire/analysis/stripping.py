"""What a file contains besides the program and its weights, and the program without it.

A program keeps stack traces, which name source files and quote their lines, and example inputs, which may be somebody's data.
Nothing of it changes what the program computes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from operator import is_not
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from graphwire.schema import Argument, Node, Program, Renaming, ValueMetadata, rewritten, subgraphs_in

Strippable: TypeAlias = Literal["stack_traces", "provenance", "example_inputs", "extra_files"]
STRIPPABLE: Final[tuple[Strippable, ...]] = ("stack_traces", "provenance", "example_inputs", "extra_files")
"""What can be left out of a file."""

_FIELDS: Final[dict[Strippable, tuple[str, str, str]]] = {
    "stack_traces": ("stack_frames", "stack", "stack_trace"),
    "provenance": ("node_sources", "from_node", "from_node"),
}
"""For each kind that nodes have: the table of the graph module, the field of a node, and the key of its metadata."""
_NAMES_SHOWN = 3


class Disclosure(NamedTuple):
    """Something that a file contains besides the program."""

    kind: Strippable
    number: int
    what: str
    """What it is, such as `12 stack traces, which quote 3 source files: /home/ann/model.py, …`."""


def disclosures(program: Program, *, tensors: int, extra_files: Sequence[str]) -> list[Disclosure]:
    """Return what a file contains besides a program and its weights.

    Args:
        program: the program.
        tensors: how many tensors of example inputs the file has.
        extra_files: the paths of the extra files.
    """
    found = []
    noted = list(_noted(program.graph_module.graph))
    traces = list(_texts(program, noted, "stack_traces"))
    if traces:
        files = sorted({file for text in traces for file in _files_in(text)})
        verb = "names" if len(traces) == 1 else "name"
        quoted = f", which {verb} {_some(files, 'source file')}" if files else ""
        found.append(Disclosure("stack_traces", len(traces), f"{_count(len(traces), 'stack trace')}{quoted}"))
    if origins := sum(1 for _ in _texts(program, noted, "provenance")):
        found.append(Disclosure("provenance", origins, f"the origins of {_count(origins, 'node')}"))
    if program.example_inputs is not None:
        leaves = len(program.example_inputs.leaves)
        what = f"example inputs: {_count(leaves, 'value')}, {_count(tensors, 'tensor')}"
        found.append(Disclosure("example_inputs", leaves, what))
    if extra_files:
        found.append(Disclosure("extra_files", len(extra_files), _some(list(extra_files), "extra file")))
    return found


def stripped(program: Program, kinds: Collection[Strippable]) -> Program:
    """Return a program without these kinds. It shares all other records with the given one, which stays as it is."""
    changed: Program = _stripped(program, [_FIELDS[kind] for kind in _FIELDS if kind in kinds])
    if "example_inputs" in kinds and changed.example_inputs is not None:
        changed = msgspec.structs.replace(changed, example_inputs=None)
    tables: dict[str, list[Any]] = {_FIELDS[kind][0]: [] for kind in _FIELDS if kind in kinds}
    module = msgspec.structs.replace(changed.graph_module, **tables)
    return msgspec.structs.replace(changed, graph_module=module)


def _stripped(value: Any, fields: Sequence[tuple[str, str, str]]) -> Any:
    """Return a record, list or dict without these fields of nodes; the same object if it has none."""
    if isinstance(value, list):
        items = [_stripped(item, fields) for item in value]
        return items if any(map(is_not, items, value)) else value
    if isinstance(value, dict):
        held = {key: _stripped(item, fields) for key, item in value.items()}
        return held if any(map(is_not, held.values(), value.values())) else value
    if isinstance(value, Argument):
        return rewritten(value, Renaming(str, lambda graph: _stripped(graph, fields)))
    if not _may_hold_nodes(value):
        return value
    changes = {}
    for name in value.__struct_fields__:
        own = getattr(value, name)
        new = _stripped(own, fields)
        if new is not own:
            changes[name] = new
    if isinstance(value, Node | ValueMetadata):
        for _, field, key in fields:
            if getattr(value, field) is not None:
                changes[field] = None
            if key in value.metadata:
                kept = changes.get("metadata", value.metadata)
                changes["metadata"] = {each: text for each, text in kept.items() if each != key}
    return msgspec.structs.replace(value, **changes) if changes else value


def _may_hold_nodes(value: Any) -> bool:
    """Whether a value is a record that may contain nodes. A frozen record contains none, and most records are frozen."""
    return isinstance(value, msgspec.Struct) and not value.__struct_config__.frozen


def _texts(program: Program, noted: Sequence[Node | ValueMetadata], kind: Strippable) -> Iterator[str]:
    """Yield the text of each stack trace, or the indices of each origin as text."""
    table, field, key = _FIELDS[kind]
    frames = getattr(program.graph_module, table)
    for each in noted:
        if key in each.metadata:
            yield each.metadata[key]
        elif (indices := getattr(each, field)) is not None:
            known = [frames[index] for index in indices if 0 <= index < len(frames)]
            yield "\n".join(getattr(frame, "text", "") for frame in known)


def _noted(value: Any) -> Iterator[Node | ValueMetadata]:
    """Yield every record below a value that has metadata of a node."""
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, Node | ValueMetadata):
            yield each
        if isinstance(each, Argument):
            pending.extend(subgraphs_in(each))
        elif isinstance(each, list):
            pending.extend(each)
        elif isinstance(each, dict):
            pending.extend(each.values())
        elif _may_hold_nodes(each):
            pending.extend(getattr(each, name) for name in each.__struct_fields__)


def _files_in(trace: str) -> Iterator[str]:
    for line in trace.splitlines():
        _, begin, rest = line.partition('File "')
        if begin:
            yield rest.partition('"')[0]


def _some(names: list[str], noun: str) -> str:
    more = ", …" if len(names) > _NAMES_SHOWN else ""
    return f"{_count(len(names), noun)}: {', '.join(names[:_NAMES_SHOWN])}{more}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
