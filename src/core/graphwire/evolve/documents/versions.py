"""The schema's versions: their order, and how documents encode them.

draft-2022      the first published design; no file of a release has it
1 · 2           a plain number (torch 2.1, 2.2)
5.1 … 8.20      major and minor (torch 2.3 and later)
compact-5.3     5.3 with stack traces as indices into a table of files; published, but no release uses it
"""

from __future__ import annotations

from typing import Any

from graphwire.errors import SchemaError
from graphwire.schema import DRAFT, SCHEMA_VERSION, Version

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
