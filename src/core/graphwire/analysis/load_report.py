"""Reports about loading and writing a file: its producer, the upgrade steps, what is missing, and what a write for an older
reader omits; and what a file contains besides the program and its weights, and the program without it.

A program keeps stack traces, which name source files and quote their lines, and example inputs, which may be somebody's data.
Nothing of it changes what the program computes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import is_
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from graphwire import schema
from graphwire.errors import DecodeError, count_text, escaped


class StepReport(msgspec.Struct, frozen=True):
    """One upgrade step from the file's versions to the versions that this installation runs."""

    step: str
    """Such as `schema 2 → 5.1`, `operator higher_order.scan in the form of 8.7` or `opset aten 9 → 10`."""
    nodes: list[str] = []
    """The nodes that it rewrites, by name (by target if they have no name yet); empty for a step of the schema, which
    rewrites the document as a whole."""


class Omission(msgspec.Struct, frozen=True):
    """Something that a load or a write drops: in the file but not in the program, or in the program but not in the file."""

    what: str
    """Such as `example inputs`, or the qualified name of a value."""
    reason: str
    method: str = ""
    """The program's name, if a write leaves it out."""

    @property
    def as_loaded(self) -> str:
        """The text of a load's warning."""
        return f"the {self.what} are not loaded: {self.reason}"

    @property
    def as_written(self) -> str:
        """The text of a write's warning."""
        return f"the {self.what} of {self.method!r:.80} are not all written: {self.reason}"


class LoadReport(msgspec.Struct, frozen=True):
    """What `load` does with one program of a file. `str` of it is readable text."""

    method: str
    """The program's name."""
    producer: str
    """The tool that wrote the file, such as `torch 2.3`, `graphwire 0.1.0`, or `graphwire, for torch 2.6`."""
    schema_version: str
    """The schema version of the document in the file, before any upgrade."""
    layout: str
    """The layout of the archive's records, such as `A3 (torch 2.3)`; empty for a document alone."""
    format: str
    """The wire format of the document."""
    readable_from: str
    """The oldest reader of the unchanged file, such as `torch-2.9`, or `graphwire-0.1` if no release of torch reads it."""
    steps: list[StepReport] = []
    """All steps in the order in which they run: of the schema, of operators' forms, of opsets."""
    derived: list[str] = []
    """Facts that the file does not store and that are derived from its other content."""
    absent: list[str] = []
    """Facts that the file does not store; the program lacks them, or has the default described here."""
    dropped: list[Omission] = []
    """Facts that the file stores and the program lacks."""

    def __repr__(self) -> str:
        return f"<LoadReport of {self.method!r:.80}: {len(self.steps)} steps, {len(self.dropped)} dropped; str() lists them>"

    def with_dropped(self, omissions: Sequence[Omission]) -> LoadReport:
        """Return the report with more omissions."""
        return msgspec.structs.replace(self, dropped=[*self.dropped, *omissions])

    def with_steps(self, steps: Iterable[StepReport]) -> LoadReport:
        """Return the report with more steps at the end."""
        return msgspec.structs.replace(self, steps=[*self.steps, *steps])

    def lines(self) -> Iterator[str]:
        """Yield the report as readable text, one fact per line."""
        yield f"{self.method}: written by {self.producer}, schema {self.schema_version}, {self.format}"
        yield f"readable from {self.readable_from} on"
        if self.layout:
            yield f"layout {self.layout}"
        for each in self.steps:
            yield each.step
            yield from (f"  {node}" for node in each.nodes)
        yield from (f"derived: {text}" for text in self.derived)
        yield from (f"absent: {text}" for text in self.absent)
        yield from (f"dropped: {each.what} ({each.reason})" for each in self.dropped)

    def __str__(self) -> str:
        return "\n".join(map(escaped, self.lines()))


class NarrowedRange(msgspec.Struct, frozen=True):
    """The range of a size that is written narrower than in the program, because the target reader rejects the original."""

    method: str
    """The program's name."""
    symbol: str
    given: int
    """The minimum in the program."""
    written: int
    """The minimum in the file."""


class WriteReport(msgspec.Struct, frozen=True):
    """What `save` and `convert` change in a file that is written for a target. `str` of it is readable text."""

    target: str
    """The intended reader, such as `torch-2.3`; empty if the file has graphwire's default form."""
    narrowed: list[NarrowedRange] = []
    """With `ranges="narrowed"`, each range that is narrower than the program's."""
    dropped: list[Omission] = []
    """Parts of a program that the file lacks. They do not affect what it computes. A warning reports them too."""
    not_for_torch: list[Omission] = []
    """Parts of the file that graphwire reads and torch's reader, which reads the rest, ignores."""

    def with_unpacked(self, examples: Sequence[tuple[str, str]]) -> WriteReport:
        """Return the report with the programs whose example inputs torch's readers cannot read, each with the reason.

        A file for a target stores example inputs only in torch's form, so it lacks them."""
        found = [Omission("example inputs", why, method) for method, why in examples]
        if not found:
            return self
        if self.target:
            return msgspec.structs.replace(self, dropped=[*self.dropped, *found])
        return msgspec.structs.replace(self, not_for_torch=[*self.not_for_torch, *found])

    def lines(self) -> Iterator[str]:
        """Yield the report as readable text, one fact per line."""
        yield f"written for {self.target}" if self.target else "written as it is"
        for each in self.narrowed:
            yield f"narrowed: {each.method}: {each.symbol} begins at {each.written}, in the program at {each.given}"
        yield from (f"dropped: {each.method}: {each.what} ({each.reason})" for each in self.dropped)
        yield from (
            f"not for torch: {each.method}: {each.what} ({each.reason})" for each in self.not_for_torch
        )

    def __str__(self) -> str:
        return "\n".join(self.lines())


# -------------------------------------------------- which process groups do a program's collectives name? Without torch
# from the names and types of arguments.
#
# A collective of torch has the parameter `group_name`, a text, and some have `group_size` beside it. torch itself gives the
# names ("0" for all processes), so another job may have other names for the same groups.


_NAME, _SIZE = "group_name", "group_size"


class ProcessGroup(msgspec.Struct, frozen=True):
    """A process group that operators of a program name."""

    name: str
    sizes: list[int]
    """The numbers of processes that its operators state: none or one. A program that states several cannot run."""
    operators: dict[str, int]
    """The number of calls of each operator that names the group, by the operator's serialized name."""
    nodes: list[str]
    """The nodes that name it, by name (by target if they have no name)."""
    saved_size: int | None = None
    """How many processes it had where the program was saved; None if that was outside of a job."""


def named_groups(
    graphs: Iterable[schema.Graph],
    saved_sizes: Mapping[str, int] = MappingProxyType({}),
    includes: Callable[[str], bool] = lambda operator: True,
) -> list[ProcessGroup]:
    """Return the process groups that graphs name, in the order of their first use.

    Args:
        graphs: a graph and all graphs inside it.
        saved_sizes: `Program.group_sizes`.
        includes: whether to include an operator, by its serialized name.
    """
    found: dict[str, ProcessGroup] = {}
    for node in (node for graph in graphs for node in graph.nodes):
        for named in node.inputs:
            if named.name != _NAME or (name := named.arg.as_string) is None:
                continue
            operator = _operator_of(node)
            if not includes(operator):
                continue
            group = found.setdefault(name, ProcessGroup(name, [], {}, [], saved_sizes.get(name)))
            group.operators[operator] = group.operators.get(operator, 0) + 1
            group.nodes.append(_name_of(node))
            size = next((each.arg.as_int for each in node.inputs if each.name == _SIZE), None)
            if size is not None and size not in group.sizes:
                group.sizes.append(size)
    return list(found.values())


def _operator_of(node: schema.Node) -> str:
    """Return the operator that a node calls: for a higher-order one (`auto_functionalized`), the operator given to it."""
    given = (each.arg.as_operator for each in node.inputs)
    return next((name for name in given if name is not None), node.target)


def _name_of(node: schema.Node) -> str:
    return node.name or node.target


def with_group_names(
    program: schema.Program, names: Mapping[str, str], steps: list[StepReport] | None = None
) -> schema.Program:
    """Return a program whose collectives name other process groups; the same object if nothing changes.

    All names are replaced at once, so two may be exchanged.

    Args:
        names: the new names, by the names in the program.
        steps: receives each replaced name and its nodes.

    Raises:
        DecodeError: the program does not name one of these groups.
    """
    if not names:
        return program
    module = program.graph_module
    users: dict[str, list[str]] = {}

    def renamed(owner: schema.Node | schema.ValueMetadata) -> schema.Node | schema.ValueMetadata:
        if not isinstance(owner, schema.Node):
            return owner
        inputs = list(owner.inputs)
        for index, named in enumerate(inputs):
            if named.name == _NAME and (name := named.arg.as_string) is not None:
                users.setdefault(name, []).append(_name_of(owner))
                new = schema.Argument(as_string=names.get(name, name))
                inputs[index] = named if new == named.arg else replace(named, arg=new)
        return owner if all(map(is_, inputs, owner.inputs)) else replace(owner, inputs=inputs)

    graph = schema.edited_graph(module.graph, renamed)
    if unknown := [name for name in names if name not in users]:
        listed = ", ".join(map(repr, users))
        raise DecodeError(
            f"groups= has {', '.join(map(repr, unknown))}, which the program does not name",
            remedy=f"It names {listed}" if users else "It names no process group",
        )
    if steps is not None:
        steps += [
            StepReport(f"process group {old!r} → {new!r}", users[old])
            for old, new in names.items()
            if new != old
        ]
    if graph is module.graph:
        return program
    sizes = {names.get(name, name): size for name, size in program.group_sizes.items()}
    return replace(program, graph_module=replace(module, graph=graph), group_sizes=sizes)


Strippable: TypeAlias = Literal["stack_traces", "provenance", "example_inputs", "extra_files"]
STRIPPABLE: Final[tuple[Strippable, ...]] = ("stack_traces", "provenance", "example_inputs", "extra_files")
"""What can be dropped from a file."""

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


def disclosures(program: schema.Program, *, tensors: int, extra_files: Sequence[str]) -> list[Disclosure]:
    """Return what a file contains besides a program and its weights.

    Args:
        program: the program.
        tensors: how many tensors of example inputs the file has.
        extra_files: the paths of the extra files.
    """
    found = []
    noted = list(_noted(program))
    traces = list(_texts(program, noted, "stack_traces"))
    if traces:
        files = sorted({file for text in traces for file in _files_in(text)})
        verb = "names" if len(traces) == 1 else "name"
        quoted = f", which {verb} {_some(files, 'source file')}" if files else ""
        found.append(
            Disclosure("stack_traces", len(traces), f"{count_text(len(traces), 'stack trace')}{quoted}")
        )
    if origins := sum(1 for _ in _texts(program, noted, "provenance")):
        found.append(Disclosure("provenance", origins, f"the origins of {count_text(origins, 'node')}"))
    if program.example_inputs is not None:
        leaves = len(program.example_inputs.leaves)
        what = f"example inputs: {count_text(leaves, 'value')}, {count_text(tensors, 'tensor')}"
        found.append(Disclosure("example_inputs", leaves, what))
    if extra_files:
        found.append(Disclosure("extra_files", len(extra_files), _some(list(extra_files), "extra file")))
    return found


def stripped(program: schema.Program, kinds: Collection[Strippable]) -> schema.Program:
    """Return a program without these kinds. It shares all other records with the given one, which stays as it is."""
    fields = [row for kind, row in _FIELDS.items() if kind in kinds]
    tables: dict[str, list[Any]] = {table: [] for table, _, _ in fields}
    module = program.graph_module
    graph = schema.edited_graph(module.graph, partial(_without, fields)) if fields else module.graph
    examples = None if "example_inputs" in kinds else program.example_inputs
    return replace(program, graph_module=replace(module, graph=graph, **tables), example_inputs=examples)


def _without(
    fields: Sequence[tuple[str, str, str]], owner: schema.Node | schema.ValueMetadata
) -> schema.Node | schema.ValueMetadata:
    """Return a record without these fields and keys of metadata; the same object if it has none."""
    changes: dict[str, Any] = {field: None for _, field, _ in fields if getattr(owner, field) is not None}
    keys = {key for _, _, key in fields}
    if not keys.isdisjoint(owner.metadata):
        changes["metadata"] = {key: text for key, text in owner.metadata.items() if key not in keys}
    return replace(owner, **changes) if changes else owner


def _noted(program: schema.Program) -> Iterator[schema.Node | schema.ValueMetadata]:
    """Yield every record of a program that has metadata of a node."""
    for graph in schema.graphs_in(program.graph_module.graph):
        yield from graph.nodes
        yield from graph.value_metadata.values()
        if graph.output_metadata is not None:
            yield graph.output_metadata


def _texts(
    program: schema.Program, noted: Sequence[schema.Node | schema.ValueMetadata], kind: Strippable
) -> Iterator[str]:
    """Yield the text of each stack trace, or the indices of each origin as text."""
    table, field, key = _FIELDS[kind]
    frames = getattr(program.graph_module, table)
    for each in noted:
        if key in each.metadata:
            yield each.metadata[key]
        elif (indices := getattr(each, field)) is not None:
            known = [frames[index] for index in indices if 0 <= index < len(frames)]
            yield "\n".join(getattr(frame, "text", "") for frame in known)


def _files_in(trace: str) -> Iterator[str]:
    for line in trace.splitlines():
        _, begin, rest = line.partition('File "')
        if begin:
            yield rest.partition('"')[0]


def _some(names: list[str], noun: str) -> str:
    more = ", …" if len(names) > _NAMES_SHOWN else ""
    return f"{count_text(len(names), noun)}: {', '.join(names[:_NAMES_SHOWN])}{more}"
