"""Which documents can be read, and for which readers can a program be written?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Final, Literal

import msgspec
from msgspec.structs import astuple, replace

from graphwire import schema
from graphwire.errors import Obstacle, SchemaVersionError
from graphwire.evolve import step
from graphwire.evolve.availability import is_nameless, newest_release, release_with
from graphwire.evolve.trees import OURS, Record
from graphwire.evolve.vocabulary import FIELDS, TYPES
from graphwire.schema.trees import WHY_OMITTED, TraceTexts, to_tree

# --------------------------------- targets: the readers that a program can be written for, and the check whether it can
# A target is a release of torch (`torch-2.6`), the installed one (`torch`), or a version of the schema (`8.14`, `1`,
# `draft-2022`, `compact-5.3`), which represents the first release that has it. A release may be named without `torch-`.


class Target(msgspec.Struct, frozen=True):
    """A reader that a program is written for."""

    name: str
    """The name, such as `torch-2.6`."""
    version: schema.Version
    """The schema version that it reads."""
    release: str
    """The release of torch, such as `2.6`; for a version, the first release that has it."""
    layout: str | None
    """The archive layout; None for a target that has only documents."""
    none: Literal["[]", "true"]
    """The JSON encoding of None."""
    nonfinite: Literal["token", "text"]
    """The JSON encoding of a float that is not finite: a bare token (`Infinity`), or text (`"Infinity"`)."""

    @property
    def group(self) -> Literal["release", "schema", "draft"]:
        """What it is: a release of torch, a version of the schema, or a draft that no release had."""
        if self.name.startswith(INSTALLED):
            return "release"
        return "draft" if self.version == schema.DRAFT or self.version.variant else "schema"


_NEW_LAYOUTS: Final = {"2.1": "A1", "2.2": "A2", "2.3": "A3", "2.4": "A4", "2.8": "B1", "2.9": "B2"}
"""The archive layouts (keys of `wire.package_reader.LAYOUTS`) by the release that brought each; later releases keep it."""


def _target(name: str, version: schema.Version, layout: str | None) -> Target:
    return Target(
        name,
        version,
        (name if name.startswith("torch-") else step.first_release(version)).removeprefix("torch-"),
        layout,
        "true" if version >= schema.Version(8, 2) or version == schema.DRAFT else "[]",
        "text" if version >= schema.Version(8, 7) else "token",
    )


def _targets() -> dict[str, Target]:
    rows: dict[str, tuple[schema.Version, str | None]] = {}
    versions: dict[schema.Version, str | None] = {}
    layout = ""
    for release, version in step.RELEASES.items():
        layout = _NEW_LAYOUTS.get(release, layout)
        rows[f"torch-{release}"] = version, layout
        versions.setdefault(version, layout)
    versions |= {step.COMPACT_5_3: versions[schema.Version(5, 3)], schema.DRAFT: None}
    rows |= {str(version): (version, layout) for version, layout in versions.items()}
    return {name: _target(name, *row) for name, row in rows.items()}


TARGETS: Final = _targets()
"""Every target by name: the releases, oldest first, then the versions."""

INSTALLED: Final = "torch"
"""The target that represents the installed release of torch; also the name of its distribution."""

_RELEASE = r"(?a)(?:torch-)?(\d+\.\d+)(?:\.\d+)?(?:\+[\w.]+)?"
_MOST_NEAR = 3


def target_named(name: str) -> Target:
    """Return the target of a name.

    A release may lack `torch-`, and have its patch number (`2.6.0`). A version may have the prefix `schema-`. `torch` is the
    installed release.

    Raises:
        SchemaVersionError: there is no such target, or torch is not installed.
    """
    if not isinstance(name, str):
        raise SchemaVersionError(f"a target is given by its name, not by {name!r:.80}", remedy=_KNOWN).about(
            "target"
        )
    if name == INSTALLED:
        name = _installed()
    release = re.fullmatch(_RELEASE, name)
    target = TARGETS.get(name.removeprefix("schema-")) or TARGETS.get(
        f"torch-{release[1]}" if release else ""
    )
    if target is None:
        near = ", ".join(map(repr, _nearest(name, release[1] if release else "")))
        remedy = f"Did you mean {near}? {_KNOWN}" if near else _KNOWN
        raise SchemaVersionError(f"there is no target {name!r:.80}", remedy=remedy).about("target")
    return target


def _nearest(name: str, release: str) -> list[str]:
    """Return the targets that somebody may have meant: the nearest release for a number, and names that are alike."""
    import difflib

    found = difflib.get_close_matches(name, TARGETS, n=_MOST_NEAR)
    if release:
        wanted = _order(release)
        found.insert(0, f"torch-{min(step.RELEASES, key=lambda each: abs(_order(each) - wanted))}")
    return list(dict.fromkeys(found))[:_MOST_NEAR]


def _order(release: str) -> float:
    """Return a number that grows with releases. The caller may write thousands of digits, which no `int` takes."""
    major, minor = map(float, release.split("."))
    return 1000 * major + minor


_KNOWN: Final = (
    f"Targets are {INSTALLED} (the installed release), the releases {next(iter(step.RELEASES))} to"
    f" {next(reversed(step.RELEASES))}, and the schemas and drafts that `graphwire targets FILE` lists"
)


def _installed() -> str:
    """Return the target of the installed torch, found without importing it.

    Raises:
        SchemaVersionError: torch is not installed.
    """
    from importlib import metadata  # here: it takes long to import

    try:
        return "-".join((INSTALLED, ".".join(metadata.version(INSTALLED).split(".")[:2])))
    except metadata.PackageNotFoundError:
        raise SchemaVersionError(
            "the target 'torch' is the installed release, but torch is not installed",
            remedy=f"Name a release, such as torch-{next(reversed(step.RELEASES))}",
        ).about("target") from None


def supports(tree: Record, target: Target | str) -> list[Obstacle]:
    """Return everything in a document of the current version that `target` cannot express; empty if it can be written.

    Raises:
        SchemaVersionError: there is no such target.
    """
    from graphwire.evolve.chain import obstacles_to

    if isinstance(target, str):
        target = target_named(target)
    return obstacles_to(tree, target.version, target.release)[1]


def obstacles_by_target(tree: Record) -> dict[str, list[Obstacle]]:
    """Return the result of `supports` for every target, by name."""
    from graphwire.evolve.chain import Descent

    descent, found = Descent(tree), {}
    for name, target in sorted(TARGETS.items(), key=lambda row: row[1].version, reverse=True):
        found[name] = descent.to(target.version, target.release)[1]
        descent.forget_above(target.version)  # what a large program has in all versions takes gigabytes
    return {name: found[name] for name in TARGETS}


# -------------------------------------------------------------------------------- determines the first reader of a file
# the oldest release of torch whose own loader reads it, or graphwire.
#
# A document of the current schema in JSON that requires no extension of graphwire, in the archive layout of torch 2.9, is
# readable by torch 2.9 and later, which ignore unknown fields and minor versions. A release that predates its operators,
# argument variants or element types cannot read it. Every other document that graphwire writes is readable by graphwire alone.


OURS_FIRST: Final = f"{OURS}-0.1"
"""The first graphwire that supports every extension (`schema.program.FEATURES`)."""

_ARCHIVE = schema.Version(8, 14)
_OLD: Final = schema.ARGUMENT_VARIANTS.index("as_optional_tensor")
"""The number of variants that every reader of the archive supports in an argument; they come first."""
_NO_NEW: Final = (None,) * (len(schema.ARGUMENT_VARIANTS) - _OLD)
_NEW_TYPES: Final = {kind: since for kind, since in TYPES.items() if since > _ARCHIVE}
_NEW_FIELDS: Final = {
    (kind, name): row.since
    for kind in step.REFUSING
    for name, row in FIELDS[kind].items()
    if row.says and row.since is not None and row.since > _ARCHIVE
}
"""The fields that readers must not ignore and that are newer than the archive, with their versions."""


def first_reader(program: schema.Program, *, is_json: bool) -> str:
    """Return the first reader of a program of the current schema in graphwire's archive, such as `torch-2.9` or `graphwire-0.1`.

    Args:
        is_json: whether its document is JSON, the only wire format that torch supports.
    """
    if program.requires or not is_json:
        return OURS_FIRST
    newest, targets = max([_ARCHIVE, *_fields_since(program)]), set()
    graphs = [program.graph_module.graph]
    for graph in graphs:  # grows while it is walked
        metas = graph.tensor_values.values()
        for meta in dict(zip(map(id, metas), metas, strict=True)).values():  # most are shared
            if meta.dtype in _NEW_TYPES:
                newest = max(newest, _NEW_TYPES[meta.dtype])
        targets |= {node.target for node in graph.nodes}
        for since in _needed(graph, graphs):
            if since is None:
                return OURS_FIRST
            newest = max(newest, since)
    for entry in program.graph_module.module_call_graph:
        if entry.signature is not None:
            for argument in (*entry.signature.inputs, *entry.signature.outputs):
                if (since := _since(argument, "call")) is None:
                    return OURS_FIRST
                newest = max(newest, since)
    releases = {step.first_release(newest).removeprefix("torch-")}
    for target in targets:
        release = release_with(target)
        if release is None:
            return OURS_FIRST
        releases.add(release)
    return f"torch-{newest_release(releases)}"


def _fields_since(program: schema.Program) -> Iterator[schema.Version]:
    """Return the first schema of each field of `_NEW_FIELDS` that a program has."""
    if not _NEW_FIELDS:
        return
    module = program.graph_module
    records: list[object] = [*module.signature.input_specs, *module.signature.output_specs]
    records += [entry.signature for entry in module.module_call_graph]
    for graph in schema.graphs_in(module.graph):
        records += [graph, *graph.nodes, *graph.tensor_values.values()]
    for (kind, name), since in _NEW_FIELDS.items():
        values = [getattr(record, name) for record in records if type(record) is kind]
        if any(value is not None and value is not False for value in values):
            yield since


def _needed(graph: schema.Graph, graphs: list[schema.Graph]) -> Iterator[schema.Version | None]:
    """Return the first schema whose reader reads each argument of a graph beyond the oldest ones; None if no reader does.

    Args:
        graphs: the graphs of the program so far, of which the first is the outermost; receives those inside this one.
    """
    top = graph is graphs[0]
    for node in graph.nodes:
        nameless = False
        for named in node.inputs:
            nameless = nameless or not named.name
            argument = named.arg
            if (
                argument.as_tensor is None
                and argument.as_int is None
                and argument.as_ints is None
                and argument.as_float is None
                and (
                    argument.as_graph is not None
                    or astuple(argument)[_OLD:] != _NO_NEW
                    or argument.as_scalar_type in _NEW_TYPES
                )
            ):
                graphs += schema.subgraphs_in(argument)
                yield _since(argument, "argument")
        if nameless and is_nameless(node.target, ("",)):
            yield None
        outputs = node.outputs
        if len(outputs) == 1 and outputs[0].as_tensor is not None:
            continue
        if len(outputs) == 1 and outputs[0].as_tensors and node.is_hop_single_tensor_return is None:
            continue
        if any(output.as_tensor is None for output in outputs):
            place = _place_of(node)
            for output in outputs:
                yield _since(output, place)
    for argument in graph.inputs:
        if argument.as_tensor is None:
            yield _since(argument, "input" if top else "inner_input")
    for argument in graph.outputs:
        if argument.as_tensor is None:
            yield _since(argument, "output" if top else "inner_output")


def _place_of(node: schema.Node) -> schema.Place:
    stub: Record = {"target": node.target, "outputs": node.outputs}
    return step.result_place({**stub, "is_hop_single_tensor_return": node.is_hop_single_tensor_return})


def _since(argument: schema.Argument, place: schema.Place) -> schema.Version | None:
    """Return the first schema whose reader reads an argument in a place; None if no reader does."""
    for variant, content in zip(schema.ARGUMENT_VARIANTS, astuple(argument), strict=True):
        if content is not None:
            if (
                place not in ("argument", "call")
                and step.literal_as_value(variant, to_tree(content), place) is not None
            ):
                return None
            if variant == "as_scalar_type" and content in _NEW_TYPES:
                return _NEW_TYPES[content]
            found = [
                schema.VARIANTS[variant].since(place),
                *(_since(item, "argument") for _, item in schema.arguments_in(argument)),
            ]
            return None if None in found else max(filter(None, found))
    return None


def first_reader_of(version: schema.Version, program: schema.Program) -> str:
    """Return the first reader of a file by its own note or, without one, by its schema version."""
    if program.readable_from is not None:
        return program.readable_from
    return OURS_FIRST if version == schema.DRAFT or version.variant else step.first_release(version)


# -------- converts stack traces from rows of a table, as in files of the first graphwire versions, to text on each node


def with_trace_texts(program: schema.Program, dropped: list[str]) -> schema.Program:
    """Replace the table of stack frames of a program by texts; return the very same program if it has no table.

    Args:
        dropped: receives the reason when stack traces are dropped.
    """
    module = program.graph_module
    if not module.stack_frames:
        return program
    traces = TraceTexts(module.stack_frames)
    graph = schema.edited_graph(module.graph, partial(_texted, traces))
    if traces.omitted:
        dropped.append(WHY_OMITTED.format(traces.omitted))
    return replace(program, graph_module=replace(module, graph=graph, stack_frames=[]))


def _texted(
    traces: TraceTexts, owner: schema.Node | schema.ValueMetadata
) -> schema.Node | schema.ValueMetadata:
    """Replace the trace of a node, or of a value's description, by text. A text that is already there wins, as in a load."""
    if owner.stack is None:
        return owner
    text = None if "stack_trace" in owner.metadata else traces.of(owner.stack)
    metadata = {**owner.metadata, "stack_trace": text} if text else owner.metadata
    return replace(owner, metadata=metadata, stack=None)
