"""The chain of schema steps: which a document needs, and taking them.

    upgrade    any version → the current one, with the operators' forms of today
    downgrade  the current version → an older one, or every reason why it cannot be said there

Both are functions from tree to tree; the tree that is given stays as it is, and shares what did not change with the one
that is returned.
"""

from __future__ import annotations

from typing import Any

from graphwire.errors import Obstacle, SchemaError, SchemaVersionError, TargetError, UnsupportedFeatureError
from graphwire.evolve.documents import (
    DRAFT,
    MALFORMED,
    AppliedStep,
    Record,
    Step,
    Version,
    first_release,
    report_new,
    version_of,
)
from graphwire.evolve.early_steps import EARLY_STEPS
from graphwire.evolve.operators import operators_down, operators_up, report_newer_operators
from graphwire.evolve.steps import COMPACT_5_3, LATER_STEPS, resolve_extensions
from graphwire.evolve.targets.loader_bugs import report_loader_bugs
from graphwire.schema import FEATURES, SCHEMA_VERSION

__all__ = ["CURRENT", "STEPS", "VARIANTS", "downgrade", "obstacles_to", "plan", "upgrade", "version_of"]

CURRENT = Version(*SCHEMA_VERSION)

STEPS: tuple[Step, ...] = (*EARLY_STEPS, *LATER_STEPS)
"""The chain, oldest first: each step begins where the one before ends."""

VARIANTS: tuple[Step, ...] = (COMPACT_5_3,)
"""Steps from a published variant of a version to the version."""

_VERSIONS = [step.older for step in STEPS] + [CURRENT]


def plan(start: Version, end: Version) -> list[Step]:
    """The steps from one version to another, in the order in which they are taken (upward or downward).

    Raises:
        SchemaVersionError: a version is not in the chain.
    """
    up = start <= end
    older, newer = (start, end) if up else (end, start)
    spurs = [step for step in VARIANTS if step.older in (older, newer)]
    base = next((step.newer for step in spurs if step.older == older), older)
    top = next((step.newer for step in spurs if step.older == newer), newer)
    first, last = _index(base), _index(top)
    steps = list(STEPS[first:last])
    if base != older and start != end:
        steps.insert(0, next(step for step in spurs if step.older == older))
    if top != newer and start != end:
        raise SchemaVersionError(f"schema {newer} is not between other versions", place="schema_version")
    return steps if up else steps[::-1]


def _index(version: Version) -> int:
    if version in _VERSIONS:
        return _VERSIONS.index(version)
    known = ", ".join(map(str, _VERSIONS))
    raise SchemaVersionError(
        f"schema version {version} is none that is known",
        place="schema_version",
        remedy=f"The known ones are {known}; a newer graphwire may know more",
    )


def upgrade(tree: Any) -> tuple[Record, list[AppliedStep]]:
    """A document of any version as one of the current version.

    A document of a newer minor version is taken as it is: what it has beyond the current one is ignored, unless its
    `requires` names something unknown.

    Args:
        tree: as a wire format decodes it.

    Returns:
        The document, and each step that was taken, in order.

    Raises:
        SchemaVersionError: the version is not one that is known.
        UnsupportedFeatureError: the document requires an extension that is not known.
        SchemaError: the document is not what its version says it is.
    """
    version = version_of(tree)
    if version.major == CURRENT.major and version >= CURRENT:
        _check_requires(tree)
        return tree, []
    taken: list[AppliedStep] = []
    for step in plan(_nearest(version), CURRENT):
        try:
            tree = step.up(tree)
            taken.append(AppliedStep(f"schema {step.older} → {step.newer}", schema=step))
            tree, rewritten = operators_up(tree, step.newer)
        except MALFORMED as error:
            raise SchemaError(
                f"the document is not what schema {step.older} says ({type(error).__name__}: {error})",
                remedy="The document is damaged, or of another kind",
            ) from error
        taken += rewritten
    return tree, taken


def _nearest(version: Version) -> Version:
    """The newest known version of the same major that is no newer: what a build between two releases wrote is read as that,
    since minors only add."""
    known = [each for each in _VERSIONS if each.major == version.major and each <= version]
    return version if version.variant or not known else known[-1]


def _check_requires(tree: Record) -> None:
    required = tree.get("requires", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise SchemaError("a list of feature names is expected", place="requires")
    unknown = [name for name in required if name not in FEATURES]
    if unknown:
        raise UnsupportedFeatureError(
            f"the document requires {', '.join(unknown)}, which this version does not know",
            place="requires",
            remedy="Install a newer graphwire",
        )


def downgrade(
    tree: Record, to: Version, release: str | None = None, left_out: list[str] | None = None
) -> Record:
    """A document of the current version as one of an older version, without extensions of ours.

    Args:
        release: the release of torch that reads it, such as `2.12`; the first that has the version by default.
        left_out: is given the reason why stack traces and origins are left out, if some are.

    What an extension says is written as the older version says it (stack traces and provenance as text), or left out where
    it only informs (`evolve.steps.extensions` has the rules).

    Raises:
        TargetError: the older version cannot say it; the error holds every obstacle.
        SchemaVersionError: a version is not in the chain.
    """
    result, obstacles = obstacles_to(tree, to, release, left_out)
    if obstacles:
        raise TargetError(f"schema {to}", obstacles)
    return result


def obstacles_to(
    tree: Record, to: Version, release: str | None = None, left_out: list[str] | None = None
) -> tuple[Record, list[Obstacle]]:
    """A document of the current version stepped down to `to`, and everything that `to`, or the release that reads it,
    cannot say. `release` and `left_out` as in `downgrade`."""
    obstacles: dict[tuple[str, str], Obstacle] = {}

    def report(obstacle: Obstacle) -> None:
        obstacles.setdefault((obstacle.node, obstacle.construct), obstacle)

    steps = plan(CURRENT, to)
    tree = resolve_extensions(tree, report, left_out)
    report_new(tree, report, None)
    report_newer_operators(tree, release or first_release(to).removeprefix("torch-"), report)
    for step in steps:
        if step.older.variant == "":
            tree = operators_down(tree, step.newer, report)
            if step.older != DRAFT:
                report_new(tree, report, step.newer)
        tree = step.down(tree, report)
    report_loader_bugs(tree, to, report)
    return tree, list(obstacles.values())
