"""What a step is, and what most steps down share: reporting the arms and element types that came with the newer version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from graphwire.evolve.trees import ROOT, Edits, Record, Report, Where, arm_of, rewrite
from graphwire.evolve.versions import Version, first_release
from graphwire.schema.scalars import DTYPE_NAMES, ScalarType

__all__ = ["Step", "Taken", "report_interface", "report_new"]


class Step(NamedTuple):
    """One step of the schema's history: two pure functions on trees, each the other's reverse."""

    older: Version
    newer: Version
    up: Callable[[Record], Record]
    """A document of `older` as one of `newer`."""
    down: Callable[[Record, Report], Record]
    """A document of `newer` as one of `older`. What `older` cannot say is reported, and left as it is."""
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


class Taken(NamedTuple):
    """One step that was taken upward."""

    what: str
    """Such as `schema 8.2 → 8.7`, or `operator higher_order.scan in the form of 8.7`."""
    nodes: tuple[str, ...] = ()
    """The nodes that were rewritten, by name or target."""
    schema: Step | None = None
    """The step of the schema that it is; None for one of operators."""

    def __str__(self) -> str:
        return self.what


def _arms_refused(
    arms: Mapping[str, str], report: Report, newer: Version
) -> Callable[[Record, Where], Record]:
    """An edit of arguments that reports the given arms (with what each says) and changes nothing."""
    first = first_release(newer)

    def check(argument: Record, where: Where) -> Record:
        for arm, construct in arms.items():
            if argument.get(arm) is not None:
                report(where.obstacle(construct, first))
        return argument

    return check


def _types_refused(
    types: tuple[ScalarType, ...], report: Report, newer: Version
) -> Callable[[Record, Where], Record]:
    """An edit of arguments that reports element types without a number in the older version."""
    first = first_release(newer)

    def check(argument: Record, where: Where) -> Record:
        kind = argument.get("as_scalar_type")
        if kind in types:
            report(where.obstacle(f"the element type {DTYPE_NAMES[ScalarType(kind)]}", first))
        return argument

    return check


def _metas_refused(
    types: tuple[ScalarType, ...], report: Report, newer: Version
) -> Callable[[Record, Where], Record]:
    """An edit of tensor metas that does the same."""
    first = first_release(newer)

    def check(meta: Record, where: Where) -> Record:
        if meta["dtype"] in types:
            report(where.obstacle(f"the element type {DTYPE_NAMES[ScalarType(meta['dtype'])]}", first))
        return meta

    return check


def report_new(
    tree: Record,
    report: Report,
    newer: Version,
    *,
    arms: Mapping[str, str] | None = None,
    types: tuple[ScalarType, ...] = (),
    inputs: Mapping[str, str] | None = None,
    outputs: Mapping[str, str] | None = None,
) -> None:
    """Report every argument arm, element type and spec of a document that came with version `newer`.

    Args:
        arms: new arms of arguments, and what each says.
        types: new element types.
        inputs: new arms of input specs, and what each says.
        outputs: new arms of output specs, and what each says.
    """
    check_arms = _arms_refused(arms or {}, report, newer)
    check_types = _types_refused(types, report, newer)
    rewrite(
        tree,
        Edits(
            argument=lambda argument, where: check_types(check_arms(argument, where), where),
            tensor_meta=_metas_refused(types, report, newer) if types else None,
            input_spec=_arms_refused(inputs, report, newer) if inputs else None,
            output_spec=_arms_refused(outputs, report, newer) if outputs else None,
        ),
    )


def report_interface(
    tree: Record,
    report: Report,
    first: str,
    *,
    inputs: Mapping[str, str] | None = None,
    outputs: Mapping[str, str] | None = None,
) -> None:
    """Report inputs of the program, and outputs of any graph, that the loader of the older version does not read.

    Args:
        first: the first target that reads them.
        inputs: arms of the program's inputs, and what each says.
        outputs: arms of outputs, and what each says.
    """
    for arm, construct in (inputs or {}).items():
        for index, argument in enumerate(tree["graph_module"]["graph"]["inputs"]):
            if argument.get(arm) is not None:
                place = ROOT.at(f".graph_module.graph.inputs[{index}]")
                report(place.obstacle(construct, first))
    if not outputs:
        return

    def check(graph: Record, where: Where) -> Record:
        for index, argument in enumerate(graph["outputs"]):
            construct = outputs.get(arm_of(argument))
            if construct is not None:
                report(where.at(f".outputs[{index}]").obstacle(construct, first))
        return graph

    rewrite(tree, Edits(graph=check))
