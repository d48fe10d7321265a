"""Plans and applies the chain of schema steps that a document needs.

    upgrade    any version → the current one, with the operators' current forms
    downgrade  the current version → an older one, or every reason why the older one cannot express the document

Both are functions from tree to tree. The given tree is not changed and shares its unchanged parts with the returned one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

from graphwire.errors import Obstacle, SchemaError, SchemaVersionError, TargetError
from graphwire.evolve import trees
from graphwire.evolve.availability import report_newer_operators, uncertain_calls
from graphwire.evolve.expressions import report_unmet_symbols
from graphwire.evolve.operators import operators_down, operators_up
from graphwire.evolve.step import (
    AppliedStep,
    Step,
    first_release,
    is_current,
    report_new_constructs,
    version_of,
)
from graphwire.evolve.steps.extensions import resolve_extensions
from graphwire.evolve.steps.order import COMPACT_5_3, EARLY_STEPS, LATER_STEPS
from graphwire.evolve.trees import Record, Where
from graphwire.schema import DRAFT, SCHEMA_VERSION, Version

# ---- reports constructs on which the loader of a single release fails, although its schema and its neighbours support them


_Check: TypeAlias = Callable[[trees.Refuse, Record, Where], None]


def report_loader_bugs(tree: Record, version: Version, report: trees.Report) -> None:
    """Report the constructs in a document of `version` on which that version's loader fails."""
    if version in _FAULTS:
        first, checks = _FAULTS[version]
        refuse = trees.refusing(report, first)
        trees.rewrite(tree, trees.Edits(**{kind: partial(check, refuse) for kind, check in checks.items()}))


def _unbacked_beside_subgraph(refuse: trees.Refuse, graph: Record, where: Where) -> None:
    """Report a subgraph beside unbacked symbols: 2.7 asserts at its beginning that no such symbol waits for its node."""
    values = [*graph["sym_int_values"].values(), *graph["sym_bool_values"].values()]
    texts = [value["as_expr"]["expr_str"] for value in values if value.get("as_expr") is not None]
    if any("Symbol('u" in text for text in texts):
        for index, node in enumerate(graph["nodes"]):
            if any(trees.variant_of(named["arg"]) == "as_graph" for named in node["inputs"]):
                place = where.at(f".nodes[{index}]")
                refuse(place, "a subgraph in a graph with unbacked symbols, on which 2.7 alone fails")
                break


def _constant_of_submodule(refuse: trees.Refuse, spec: Record, where: Where) -> None:
    """Report a constant of a submodule: 2.2 registers a constant as an attribute of the module, and such names have no dots."""
    name = (spec.get("tensor_constant") or {}).get("tensor_constant_name", "")
    if "." in name:
        refuse(where, f"a constant of a submodule ({name}), on which 2.2 alone fails")


_FAULTS: Final[dict[Version, tuple[str, dict[str, _Check]]]] = {
    Version(1): ("torch-2.3", {"graph": report_unmet_symbols}),
    Version(2): ("torch-2.3", {"graph": report_unmet_symbols, "input_spec": _constant_of_submodule}),
    Version(8, 7): ("torch-2.8", {"graph": _unbacked_beside_subgraph}),
}
"""The first target without the fault, and the check of each kind of record, by the version whose loader has the fault."""


CURRENT = Version(*SCHEMA_VERSION)

STEPS: tuple[Step, ...] = (*EARLY_STEPS, *LATER_STEPS)
"""The chain, oldest first: each step begins with the version with which the one before ends."""

VARIANTS: tuple[Step, ...] = (COMPACT_5_3,)
"""Steps from a published variant of a version to that version."""

_VERSIONS = [step.older for step in STEPS] + [CURRENT]


def plan(start: Version, end: Version) -> list[Step]:
    """Return the steps from one version to another, in the order in which they apply (upward or downward).

    Raises:
        SchemaVersionError: a version is not in the chain.
    """
    up = start <= end
    older, newer = (start, end) if up else (end, start)
    variants = {step.older: step for step in VARIANTS}
    base, top = (variants[each].newer if each in variants else each for each in (older, newer))
    steps = list(STEPS[_index(base) : _index(top)])
    if older in variants and start != end:
        steps.insert(0, variants[older])
    if newer in variants and start != end:
        raise SchemaVersionError(f"schema {newer} is not between other versions", place="schema_version")
    return steps if up else steps[::-1]


def _index(version: Version) -> int:
    if version in _VERSIONS:
        return _VERSIONS.index(version)
    known = ", ".join(map(str, _VERSIONS))
    raise SchemaVersionError(
        f"schema version {version} is not supported",
        place="schema_version",
        remedy=f"Supported versions: {known}. A newer graphwire may support more",
    )


def upgrade(tree: Any) -> tuple[Record, list[AppliedStep]]:
    """Convert a document of any version to the current version.

    A document with a newer minor version is returned unchanged: what it has beyond the current one is ignored later
    (`schema.trees.program_from_tree`), unless its `requires` lists something unknown.

    Args:
        tree: the document as a wire format decodes it.

    Returns:
        The document, and each applied step, in order.

    Raises:
        SchemaVersionError: the version is not supported.
        SchemaError: the document does not match the schema of its version.
    """
    version = version_of(tree)
    if is_current(version):
        return tree, []
    taken: list[AppliedStep] = []
    for step in plan(_nearest(version), CURRENT):
        try:
            tree = step.up(tree)
            taken.append(AppliedStep(f"schema {step.older} → {step.newer}", schema=step))
            tree, rewritten = operators_up(tree, step.newer)
        except trees.MALFORMED as error:
            raise SchemaError(
                f"the document does not match schema {step.older} ({type(error).__name__}: {error})",
                remedy="The document is damaged, or is not a program",
            ) from error
        taken += rewritten
    return tree, taken


def _nearest(version: Version) -> Version:
    """Return the newest supported version of the same major that is not newer than `version`.

    A build between two releases writes versions between theirs; its documents are read as the older release's, since minor
    versions only add.
    """
    known = [each for each in _VERSIONS if each.major == version.major and each <= version]
    return version if version.variant or not known else known[-1]


def downgrade(
    tree: Record, to: Version, release: str | None = None, dropped: list[str] | None = None
) -> Record:
    """Convert a document of the current version to an older one, without graphwire's extensions.

    The content of an extension is written in the older version's terms (stack traces and provenance as text), or dropped
    where it is only informative (`evolve.steps.extensions` has the rules).

    Args:
        release: the release of torch that reads it, such as `2.12`; by default the first with the version.
        dropped: receives the reason when stack traces and origins are dropped.

    Raises:
        TargetError: the older version cannot express the document; the error lists every obstacle.
        SchemaVersionError: a version is not in the chain.
    """
    result, obstacles = obstacles_to(tree, to, release, dropped)
    if obstacles:
        raise TargetError(f"schema {to}", obstacles)
    return result


def obstacles_to(
    tree: Record, to: Version, release: str | None = None, dropped: list[str] | None = None
) -> tuple[Record, list[Obstacle]]:
    """Convert a document of the current version to `to`, and list every obstacle.

    An obstacle is what `to`, or the release that reads it, cannot express. `release` and `dropped` are as in `downgrade`.
    """
    return Descent(tree, dropped).to(to, release)


class Descent:
    """A document of the current version on its way down the chain. Each version is reached from the one above it, once.

    Args:
        tree: the document.
        dropped: as in `downgrade`.
    """

    def __init__(self, tree: Record, dropped: list[str] | None = None) -> None:
        self._own: list[Obstacle] = []
        """What neither an older version nor torch at all can express."""
        plain = resolve_extensions(tree, self._own.append, dropped)
        report_new_constructs(plain, self._own.append, None)
        self._uncertain = uncertain_calls(plain)
        self._reached: dict[Version, tuple[Record, list[Obstacle]]] = {CURRENT: (plain, [])}
        """The document in each version, and the obstacles on the way there."""

    def to(self, version: Version, release: str | None = None) -> tuple[Record, list[Obstacle]]:
        """Return the document in an older version, and every obstacle. Arguments are those of `obstacles_to`."""
        tree, on_the_way = self._reached[CURRENT]
        for step in plan(CURRENT, version):
            if step.older not in self._reached:
                found = [*on_the_way]
                self._reached[step.older] = (_down(tree, step, found.append), found)
            tree, on_the_way = self._reached[step.older]
        all_found = [*self._own]
        release = release or first_release(version).removeprefix("torch-")
        report_newer_operators(self._uncertain, release, all_found.append)
        all_found += on_the_way
        report_loader_bugs(tree, version, all_found.append)
        distinct: dict[tuple[str, str], Obstacle] = {}
        for each in all_found:
            distinct.setdefault((each.node, each.construct), each)
        return tree, list(distinct.values())

    def forget_above(self, version: Version) -> None:
        """Release the documents of versions above this one, which was reached. Their obstacles stay known."""
        for each, (_, found) in self._reached.items():
            if (each.major, each.minor) > (version.major, version.minor):
                self._reached[each] = ({}, found)


def _down(tree: Record, step: Step, report: Callable[[Obstacle], None]) -> Record:
    if step.older.variant == "":
        tree = operators_down(tree, step.newer, report)
        if step.older != DRAFT:
            report_new_constructs(tree, report, step.newer)
    return step.down(tree, report)
