"""What a step is, and what all steps down share: reporting what came with the newer version, as `vocabulary` has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from graphwire.evolve.documents.trees import OURS, Edit, Edits, Record, Report, Where, arm_of, rewrite
from graphwire.evolve.documents.versions import RELEASES, Version, first_release, with_version
from graphwire.evolve.documents.vocabulary import FIELDS, TYPES
from graphwire.schema import ARMS, DTYPE_NAMES, PLACES, InputSpec, OutputSpec, Place, ScalarType


class Step(NamedTuple):
    """One step of the schema's history: two pure functions on trees, each the other's reverse."""

    older: Version
    newer: Version
    to_newer: Callable[[Record], Record] | None = None
    """Makes a document of `newer` of one of `older`, but for its version; None where nothing else changes."""
    to_older: Callable[[Record, Report], Record] | None = None
    """The reverse. It reports what `older` cannot express, and leaves that as it is."""
    derived: tuple[str, ...] = ()
    """What `newer` says and `older` does not, and the step up finds from the rest."""
    absent: tuple[str, ...] = ()
    """What `newer` says and `older` does not, and stays unsaid."""
    dropped: tuple[tuple[str, str], ...] = ()
    """What `older` says and the step up leaves behind, each with its reason."""

    @property
    def name(self) -> str:
        """Such as `schema 8.2 ↔ 8.7`."""
        return f"schema {self.older} ↔ {self.newer}"

    def up(self, tree: Record) -> Record:
        """A document of `older` as one of `newer`."""
        return with_version(tree if self.to_newer is None else self.to_newer(tree), self.newer)

    def down(self, tree: Record, report: Report) -> Record:
        """A document of `newer` as one of `older`. What `older` cannot express is reported, and left as it is."""
        return with_version(tree if self.to_older is None else self.to_older(tree, report), self.older)


class AppliedStep(NamedTuple):
    """One step that was taken upward."""

    what: str
    """Such as `schema 8.2 → 8.7`, or `operator higher_order.scan in the form of 8.7`."""
    nodes: tuple[str, ...] = ()
    """The nodes that were rewritten, by name or target."""
    schema: Step | None = None
    """The step of the schema that it is; None for one of operators."""

    def __str__(self) -> str:
        return self.what


# --------------------------------------------------------------------------------------------- what a version brought


class _New(NamedTuple):
    """What a version brought that older ones cannot say: for each arm what a message calls it."""

    arguments: dict[str, str]
    """Of arguments, wherever they stand."""
    places: dict[Place, dict[str, str]]
    """Of arguments in a place that the version first reads them in, though it has the arm."""
    types: frozenset[ScalarType]
    inputs: dict[str, str]
    outputs: dict[str, str]


def _new_with(version: Version | None) -> _New:
    """What came with a version; with None, what no release of torch reads."""
    arguments = {
        arm: row.says
        for arm, row in ARMS.items()
        if row.argument == version and not (row.resolved or row.feature)
    }
    places: dict[Place, dict[str, str]] = {}
    for place, suffix in PLACES.items():
        rows = ((arm, row) for arm, row in ARMS.items() if arm not in arguments and not row.feature)
        found = {
            arm: f"{row.says}{suffix}"
            for arm, row in rows
            if row.since(place) == version and not row.resolved
        }
        if found:
            places[place] = found
    return _New(
        arguments,
        places,
        frozenset(kind for kind, since in TYPES.items() if since == version),
        _new_specs(InputSpec, version),
        _new_specs(OutputSpec, version),
    )


def _new_specs(kind: type[InputSpec | OutputSpec], version: Version | None) -> dict[str, str]:
    return {
        arm: row.says for arm, row in FIELDS[kind].items() if row.fate == "refused" and row.since == version
    }


_NEW: Final = {version: _new_with(version) for version in (None, *RELEASES.values())}


def report_new(tree: Record, report: Report, version: Version | None) -> None:
    """Report every argument, element type and spec of a document that came with a version of the schema.

    Args:
        tree: the document, as that version says it.
        version: None for what no release of torch reads.
    """
    new, first = _NEW[version], OURS if version is None else first_release(version)

    def of_argument(argument: Record, where: Where) -> Record:
        arm = arm_of(argument)
        if arm in new.arguments:
            report(where.obstacle(new.arguments[arm], first))
        elif arm == "as_scalar_type" and argument[arm] in new.types:
            report(where.obstacle(_type_name(argument[arm]), first))
        return argument

    def of_meta(meta: Record, where: Where) -> Record:
        if meta["dtype"] in new.types:
            report(where.obstacle(_type_name(meta["dtype"]), first))
        return meta

    def in_place(arguments: list[Record], place: Place, where: Where, field: str) -> None:
        said = new.places.get(place)
        for index, argument in enumerate(arguments):
            arm = arm_of(argument)
            construct = None if said is None else said.get(arm)
            if construct is None and version is None:
                construct = literal_as_value(arm, argument.get(arm), place)
            if construct is not None:
                report(where.at(f"{field}[{index}]").obstacle(construct, first))

    def of_node(node: Record, where: Where) -> Record:
        in_place(node["outputs"], place_of_results(node), where, ".outputs")
        return node

    def of_graph(graph: Record, where: Where) -> Record:
        inner = where.path != "graph_module.graph"
        in_place(graph["inputs"], "inner_input" if inner else "input", where, ".inputs")
        in_place(graph["outputs"], "inner_output" if inner else "output", where, ".outputs")
        return graph

    def of_call(call: Record, where: Where) -> Record:
        in_place(call["inputs"], "call", where, ".inputs")
        in_place(call["outputs"], "call", where, ".outputs")
        return call

    rewrite(
        tree,
        Edits(
            argument=of_argument if new.arguments or new.types else None,
            tensor_meta=of_meta if new.types else None,
            node=of_node,
            graph=of_graph,
            call=of_call if "call" in new.places else None,
            input_spec=_refused(new.inputs, report, first) if new.inputs else None,
            output_spec=_refused(new.outputs, report, first) if new.outputs else None,
        ),
    )


def place_of_results(node: Record) -> Place:
    """Where the results of a node stand."""
    if len(node["outputs"]) != 1:
        return "results"
    higher_order = node["target"].startswith("torch.ops.higher_order.")
    return "wrapped" if higher_order and node.get("is_hop_single_tensor_return") is False else "result"


_VALUES = ("as_sym_int", "as_sym_float", "as_sym_bool")


def literal_as_value(arm: str, content: Any, place: Place) -> str | None:
    """What a message calls an input, output or result that torch's reader takes for a value, and that is none; else None."""
    if place == "call":
        return None
    if arm in _VALUES and content.get("as_name") is None:
        return f"a literal in place of {ARMS[arm].says}{PLACES[place]}"
    if arm == "as_tensors" and place == "result" and not content:
        return f"an empty list{PLACES[place]}"
    if arm in ("as_sym_ints", "as_sym_floats") and any(item.get("as_name") is None for item in content):
        return f"a literal in {ARMS[arm].says}{PLACES[place]}"
    return None


def _type_name(kind: int) -> str:
    return f"the element type {DTYPE_NAMES[ScalarType(kind)]}"


def _refused(arms: Mapping[str, str], report: Report, first: str) -> Edit:
    """An edit of specs that reports the given arms, and changes nothing."""

    def check(spec: Record, where: Where) -> Record:
        for arm, construct in arms.items():
            if spec.get(arm) is not None:
                report(where.obstacle(construct, first))
        return spec

    return check
