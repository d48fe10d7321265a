"""The schema step, and the report of constructs that a version added (`vocabulary`), which all steps down share."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from graphwire.errors import SchemaError
from graphwire.evolve import trees
from graphwire.evolve.vocabulary import FIELDS, TYPES
from graphwire.schema import (
    DRAFT,
    DTYPE_NAMES,
    PLACES,
    SCHEMA_VERSION,
    VARIANTS,
    Graph,
    InputSpec,
    ModuleCallSignature,
    Node,
    OutputSpec,
    Place,
    ScalarType,
    TensorMeta,
    Version,
)

# ---------------------------------------------------- the schema's versions: their order, and how documents encode them
# draft-2022      the first published design; no file of a release has it
# 1 · 2           a plain number (torch 2.1, 2.2)
# 5.1 … 8.20      major and minor (torch 2.3 and later)
# compact-5.3     5.3 with stack traces as indices into a table of files; published, but no release uses it


COMPACT_5_3 = Version(5, 3, "compact")

RELEASES: dict[str, Version] = {
    "2.1": Version(1),
    "2.2": Version(2),
    "2.3": Version(5, 1),
    "2.4": Version(5, 3),
    "2.5": Version(7, 3),
    "2.6": Version(8, 2),
    "2.7": Version(8, 7),
    "2.8": Version(8, 8),
    "2.9": Version(8, 14),
    "2.10": Version(8, 15),
    "2.11": Version(8, 17),
    "2.12": Version(8, 20),
    "2.13": Version(8, 20),
    "2.14": Version(8, 20),
    "2.15": Version(8, 20),
}
"""The version that each release of torch writes, oldest first."""


def first_release(version: Version) -> str:
    """Return the first target with a version, such as `torch-2.9` for 8.14; the version's own name if no release has it."""
    return next((f"torch-{name}" for name, known in RELEASES.items() if known == version), str(version))


def releases_with(version: Version) -> list[str]:
    """Return the releases of torch that write a version, oldest first."""
    return [name for name, known in RELEASES.items() if known == version]


def release_of(version: Version) -> str:
    """Return the release of torch that wrote a document of a version that does not record it, such as `2.3` for 5.1; else ''."""
    return next((name for name, known in RELEASES.items() if known == version < Version(7)), "")


def version_with(release: str) -> Version | None:
    """Return the schema version that a release of torch introduced; None if an older release has the same one."""
    version = RELEASES[release]
    return version if first_release(version) == f"torch-{release}" else None


def is_current(version: Version) -> bool:
    """Whether documents of a version are read as they are: that of `graphwire.schema`, or a newer minor version."""
    return version.major == SCHEMA_VERSION[0] and version >= Version(*SCHEMA_VERSION)


def version_of(tree: Any) -> Version:
    """Return the version that a document declares.

    Raises:
        SchemaError: the tree is not a program, or declares no version.
    """
    if not isinstance(tree, dict):
        raise SchemaError(f"a program is a mapping, not {type(tree).__name__}")
    match tree.get("schema_version"):
        case bool():
            pass
        case int(major):
            return Version(major)
        case {"major": int(major), "minor": int(minor)}:
            version = Version(major, minor)
            return COMPACT_5_3 if version == Version(5, 3) and _has_file_table(tree) else version
        case None if "graph" in tree and "parameters" in tree and "buffers" in tree:
            return DRAFT
    raise SchemaError("the document does not declare the version of its schema", place="schema_version")


def _has_file_table(tree: dict[str, Any]) -> bool:
    module = tree.get("graph_module")
    graph = module.get("graph") if isinstance(module, dict) else None
    return isinstance(graph, dict) and graph.get("co_fileinfo_ordered_list") is not None


def with_version(tree: dict[str, Any], version: Version) -> dict[str, Any]:
    """Return the document with its new version; the draft declares none."""
    if version == DRAFT:
        return tree
    stamp = version.major if version.major < 3 else {"major": version.major, "minor": version.minor}
    return {**tree, "schema_version": stamp}


class Step(msgspec.Struct, frozen=True):
    """One step between adjacent schema versions: two pure functions on trees, each the reverse of the other."""

    older: Version
    newer: Version
    to_newer: Callable[[trees.Record], trees.Record] | None = None
    """Converts a document of `older` to `newer`, except for its version; None where nothing else changes."""
    to_older: Callable[[trees.Record, trees.Refuse], trees.Record] | None = None
    """The reverse. It reports what `older` cannot express and leaves that unchanged."""
    derived: tuple[str, ...] = ()
    """The facts that only `newer` states and the step up derives from the rest."""
    absent: tuple[str, ...] = ()
    """The facts that only `newer` states and the step up leaves unstated."""
    dropped: tuple[tuple[str, str], ...] = ()
    """The facts that `older` states and the step up discards, each with its reason."""

    @property
    def name(self) -> str:
        """The step's name, such as `schema 8.2 ↔ 8.7`."""
        return f"schema {self.older} ↔ {self.newer}"

    def up(self, tree: trees.Record) -> trees.Record:
        """Convert a document of `older` to `newer`."""
        return with_version(tree if self.to_newer is None else self.to_newer(tree), self.newer)

    def down(self, tree: trees.Record, report: trees.Report) -> trees.Record:
        """Convert a document of `newer` to `older`. Report what `older` cannot express, and leave it unchanged."""
        if self.to_older is not None:
            first = str(self.newer) if self.older == DRAFT else first_release(self.newer)
            tree = self.to_older(tree, trees.refusing(report, first))
        return with_version(tree, self.older)


class AppliedStep(msgspec.Struct, frozen=True):
    """One step that was applied upward."""

    what: str
    """The step's label, such as `schema 8.2 → 8.7` or `operator higher_order.scan in the form of 8.7`."""
    nodes: tuple[str, ...] = ()
    """The rewritten nodes, by name or target."""
    schema: Step | None = None
    """The schema step; None for a step of operators."""

    def __str__(self) -> str:
        return self.what


# ----------------------------------------------------------------------------------------- constructs that a version added


REFUSING = (InputSpec, OutputSpec, Node, TensorMeta, Graph, ModuleCallSignature)
"""The records whose rows in the vocabulary may refuse a field to older versions."""


class _New(msgspec.Struct, frozen=True):
    """The constructs that a version added, which older ones cannot express: for each variant its name in messages."""

    arguments: dict[str, str]
    """Variants of arguments in any place."""
    places: dict[Place, dict[str, str]]
    """Variants that older versions have, in places where this version first reads them."""
    types: frozenset[ScalarType]
    fields: dict[type[msgspec.Struct], dict[str, str]]
    """Fields that readers must not ignore, by record; those of a spec are its variants."""


@cache
def _new_with(version: Version | None) -> _New:
    """Return the constructs that a version added; with None, those that no release of torch reads."""
    rows = {variant: row for variant, row in VARIANTS.items() if not (row.resolved or row.feature)}
    arguments = {variant: row.says for variant, row in rows.items() if row.argument == version}
    places = {
        place: {
            variant: f"{row.says}{suffix}"
            for variant, row in rows.items()
            if variant not in arguments and row.since(place) == version
        }
        for place, suffix in PLACES.items()
    }
    types = frozenset(kind for kind, since in TYPES.items() if since == version)
    fields = {
        kind: {name: row.says for name, row in FIELDS[kind].items() if row.says and row.since == version}
        for kind in REFUSING
    }
    return _New(arguments, places, types, {kind: names for kind, names in fields.items() if names})


def report_new_constructs(tree: trees.Record, report: trees.Report, version: Version | None) -> None:
    """Report every argument, element type, spec and field of a document that a schema version added, and readers must not ignore.

    Args:
        tree: the document, in that version.
        version: None for the constructs that no release of torch reads.
    """
    new = _new_with(version)
    refuse = trees.refusing(report, trees.OURS if version is None else first_release(version))

    def of_argument(argument: trees.Record, where: trees.Where) -> None:
        variant = trees.variant_of(argument)
        if variant in new.arguments:
            refuse(where, new.arguments[variant])
        elif variant == "as_scalar_type":
            of_type(argument[variant], where)

    def of_type(kind: int, where: trees.Where) -> None:
        if kind in new.types:
            refuse(where, f"the element type {DTYPE_NAMES[ScalarType(kind)]}")

    def in_place(arguments: list[trees.Record], place: Place, where: trees.Where, field: str) -> None:
        constructs = new.places[place]
        for index, argument in enumerate(arguments):
            variant = trees.variant_of(argument)
            construct = constructs.get(variant)
            if construct is None and version is None:
                construct = literal_as_value(variant, argument.get(variant), place)
            if construct is not None:
                refuse(where.at(f"{field}[{index}]"), construct)

    def of_graph(graph: trees.Record, where: trees.Where) -> None:
        inner = where.path != "graph_module.graph"
        in_place(graph["inputs"], "inner_input" if inner else "input", where, ".inputs")
        in_place(graph["outputs"], "inner_output" if inner else "output", where, ".outputs")

    def of_call(call: trees.Record, where: trees.Where) -> None:
        in_place(call["inputs"], "call", where, ".inputs")
        in_place(call["outputs"], "call", where, ".outputs")

    def of_fields(kind: type[msgspec.Struct], then: trees.Edit | None = None) -> trees.Edit | None:
        """Return an edit that reports the fields of a record, and then does something else; None if there is neither."""
        if kind not in new.fields:
            return then

        def of_record(record: trees.Record, where: trees.Where) -> None:
            for name, construct in new.fields[kind].items():
                if record.get(name) is not None and record[name] is not False:
                    refuse(where, construct)
            if then is not None:
                then(record, where)

        return of_record

    def of_node(node: trees.Record, where: trees.Where) -> None:
        in_place(node["outputs"], result_place(node), where, ".outputs")

    trees.rewrite(
        tree,
        trees.Edits(
            argument=of_argument if new.arguments or new.types else None,
            tensor_meta=of_fields(
                TensorMeta, (lambda meta, where: of_type(meta["dtype"], where)) if new.types else None
            ),
            node=of_fields(Node, of_node),
            graph=of_fields(Graph, of_graph),
            call=of_fields(ModuleCallSignature, of_call if new.places["call"] else None),
            input_spec=of_fields(InputSpec),
            output_spec=of_fields(OutputSpec),
        ),
    )


def result_place(node: trees.Record) -> Place:
    """Return the place of a node's results, as `schema.graph` names it."""
    if len(node["outputs"]) != 1:
        return "results"
    higher_order = node["target"].startswith("torch.ops.higher_order.")
    return "wrapped" if higher_order and node.get("is_hop_single_tensor_return") is False else "result"


_VALUES = ("as_sym_int", "as_sym_float", "as_sym_bool")


def literal_as_value(variant: str, content: Any, place: Place) -> str | None:
    """Return the name in messages of a literal where torch's reader expects a value (an input, output or result); else None."""
    if place == "call":
        return None
    if variant in _VALUES and content.get("as_name") is None:
        return f"a literal in place of {VARIANTS[variant].says}{PLACES[place]}"
    if variant == "as_tensors" and place == "result" and not content:
        return f"an empty list{PLACES[place]}"
    if variant in ("as_sym_ints", "as_sym_floats") and any(item.get("as_name") is None for item in content):
        return f"a literal in {VARIANTS[variant].says}{PLACES[place]}"
    return None
