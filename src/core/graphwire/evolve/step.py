"""What a step is, and what most steps down share: reporting the arms and element types that came with the newer version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from graphwire.evolve.rewrite import Edits, Record, Report, Where, rewrite
from graphwire.evolve.versions import Version, first_release
from graphwire.schema.scalars import DTYPE_NAMES, ScalarType

__all__ = ["Step", "arms_refused", "metas_refused", "report_new", "types_refused"]


class Step(NamedTuple):
    """One step of the schema's history: two pure functions on trees, each the other's reverse."""

    older: Version
    newer: Version
    up: Callable[[Record], Record]
    """A document of `older` as one of `newer`."""
    down: Callable[[Record, Report], Record]
    """A document of `newer` as one of `older`. What `older` cannot say is reported, and left as it is."""

    @property
    def name(self) -> str:
        """Such as `schema 8.2 ↔ 8.7`."""
        return f"schema {self.older} ↔ {self.newer}"


def arms_refused(
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


def types_refused(
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


def metas_refused(
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
    check_arms = arms_refused(arms or {}, report, newer)
    check_types = types_refused(types, report, newer)
    rewrite(
        tree,
        Edits(
            argument=lambda argument, where: check_types(check_arms(argument, where), where),
            tensor_meta=metas_refused(types, report, newer) if types else None,
            input_spec=arms_refused(inputs, report, newer) if inputs else None,
            output_spec=arms_refused(outputs, report, newer) if outputs else None,
        ),
    )
