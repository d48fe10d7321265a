"""Targets: the readers that a program can be written for, and the check whether it can.

A target is a release of torch (`torch-2.6`), the installed one (`torch`), or a version of the schema (`8.14`, `1`,
`draft-2022`, `compact-5.3`), which represents the first release that has it. A release may be named without `torch-`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from graphwire.errors import Obstacle, SchemaVersionError
from graphwire.evolve.documents import COMPACT_5_3, DRAFT, RELEASES, Record, Version, first_release
from graphwire.lazy import difflib, later, pattern

if TYPE_CHECKING:
    from graphwire.evolve.targets import chain
else:
    chain = later("graphwire.evolve.targets.chain")


class Target(NamedTuple):
    """A reader that a program is written for."""

    name: str
    """The name, such as `torch-2.6`."""
    version: Version
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
        return "draft" if self.version == DRAFT or self.version.variant else "schema"


_NEW_LAYOUTS: Final = {"2.1": "A1", "2.2": "A2", "2.3": "A3", "2.4": "A4", "2.8": "B1", "2.9": "B2"}
"""The archive layouts (keys of `wire.package.layouts.LAYOUTS`) by the release that brought each; later releases keep it."""


def _target(name: str, version: Version, layout: str | None) -> Target:
    return Target(
        name,
        version,
        (name if name.startswith("torch-") else first_release(version)).removeprefix("torch-"),
        layout,
        "true" if version >= Version(8, 2) or version == DRAFT else "[]",
        "text" if version >= Version(8, 7) else "token",
    )


def _targets() -> dict[str, Target]:
    rows: dict[str, tuple[Version, str | None]] = {}
    versions: dict[Version, str | None] = {}
    layout = ""
    for release, version in RELEASES.items():
        layout = _NEW_LAYOUTS.get(release, layout)
        rows[f"torch-{release}"] = version, layout
        versions.setdefault(version, layout)
    versions |= {COMPACT_5_3: versions[Version(5, 3)], DRAFT: None}
    rows |= {str(version): (version, layout) for version, layout in versions.items()}
    return {name: _target(name, *row) for name, row in rows.items()}


TARGETS: Final = _targets()
"""Every target by name: the releases, oldest first, then the versions."""

INSTALLED: Final = "torch"
"""The target that represents the installed release of torch; also the name of its distribution."""

_RELEASE = pattern(r"(?:torch-)?(\d+\.\d+)(?:\.\d+)?(?:\+[\w.]+)?", re.ASCII)
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
    release = _RELEASE.fullmatch(name)
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
    found = difflib.get_close_matches(name, TARGETS, n=_MOST_NEAR)
    if release:
        wanted = _order(release)
        found.insert(0, f"torch-{min(RELEASES, key=lambda each: abs(_order(each) - wanted))}")
    return list(dict.fromkeys(found))[:_MOST_NEAR]


def _order(release: str) -> float:
    """Return a number that grows with releases. The caller may write thousands of digits, which no `int` takes."""
    major, minor = map(float, release.split("."))
    return 1000 * major + minor


_KNOWN: Final = (
    f"Targets are {INSTALLED} (the installed release), the releases {next(iter(RELEASES))} to {next(reversed(RELEASES))},"
    " and the schemas and drafts that `graphwire targets FILE` lists"
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
            remedy=f"Name a release, such as torch-{next(reversed(RELEASES))}",
        ).about("target") from None


def supports(tree: Record, target: Target | str) -> list[Obstacle]:
    """Return everything in a document of the current version that `target` cannot express; empty if it can be written.

    Raises:
        SchemaVersionError: there is no such target.
    """
    if isinstance(target, str):
        target = target_named(target)
    return chain.obstacles_to(tree, target.version, target.release)[1]


def obstacles_by_target(tree: Record) -> dict[str, list[Obstacle]]:
    """Return the result of `supports` for every target, by name."""
    descent, found = chain.Descent(tree), {}
    for name, target in sorted(TARGETS.items(), key=lambda row: row[1].version, reverse=True):
        found[name] = descent.to(target.version, target.release)[1]
        descent.forget_above(target.version)  # what a large program has in all versions takes gigabytes
    return {name: found[name] for name in TARGETS}
