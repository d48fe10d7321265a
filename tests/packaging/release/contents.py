"""What the distributions contain, to the file: each function returns what is wrong."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Final

from release.building import ROOT, Distributions, tracked_files

WHEEL_SOURCES: Final = {
    "src/core/graphwire/": "graphwire/",
    "src/plugins/graphwire_plugins/": "graphwire_plugins/",
}
"""Where the packages of the wheel are in the sdist."""
WHEEL_SUFFIXES: Final = {
    ".py": "modules",
    ".typed": "the marks of typed packages",
    ".txt": "the templates of `graphwire new-plugin`",
    ".html": "the page of `graphwire view`",
}
"""The kinds of files in the wheel's packages."""
WHEEL_METADATA: Final = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
SDIST_PATHS: Final = (
    "src/", "tests/", "docs/", "contrib/", "conformance/", ".gitignore", "pyproject.toml", "constraints.txt", "Makefile",
    "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE", "mkdocs.yml",
)  # fmt: skip
"""The tracked files and folders that the sdist contains, so that it can be tested and read by itself."""
LARGEST: Final = {".whl": 4 << 20, ".gz": 16 << 20}
"""The sizes in bytes above which something is in a distribution that does not belong there."""


def faults_of(distributions: Distributions, root: Path = ROOT) -> list[str]:
    """Everything that is missing in the distributions, that does not belong there, or that is too large."""
    tracked = tracked_files(root)
    faults = [
        f"{file.name} has {file.stat().st_size:,} bytes, more than {LARGEST[file.suffix]:,}"
        for file in distributions
        if file.stat().st_size > LARGEST[file.suffix]
    ]
    return faults + wheel_faults(distributions.wheel, tracked) + _sdist_faults(distributions.sdist, tracked)


def wheel_faults(wheel: Path, tracked: Iterable[str]) -> list[str]:
    """Everything that is missing in a wheel, or that does not belong there."""
    packaged = {
        place + name.removeprefix(source)
        for name in tracked
        for source, place in WHEEL_SOURCES.items()
        if name.startswith(source)
    }
    metadata = "-".join(wheel.name.split("-")[:2]) + ".dist-info/"
    with zipfile.ZipFile(wheel) as opened:
        found = [entry.filename for entry in opened.infolist()]
        times = {entry.date_time for entry in opened.infolist()}
    faults = _differences(wheel, found, packaged | {metadata + name for name in WHEEL_METADATA})
    faults += [
        f"{wheel.name}: {name} is of no kind that a wheel contains"
        for name in sorted(packaged)
        if PurePosixPath(name).suffix not in WHEEL_SUFFIXES
    ]
    return faults + [f"{wheel.name}: its files have {len(times)} times"] * (len(times) > 1)


def _sdist_faults(sdist: Path, tracked: Iterable[str]) -> list[str]:
    expected = {name for name in tracked if name.startswith(SDIST_PATHS)}
    with tarfile.open(sdist) as opened:
        members = opened.getmembers()
    found = [member.name.partition("/")[2] for member in members if not member.isdir()]
    faults = _differences(sdist, found, expected | {"PKG-INFO"})
    faults += [f"{sdist.name}: {one.name} is not a regular file" for one in members if not one.isreg()]
    owners = {(one.uid, one.gid, one.uname, one.gname) for one in members}
    return faults + [f"{sdist.name}: names an owner: {owners}"] * (owners != {(0, 0, "", "")})


def _differences(file: Path, found: list[str], expected: set[str]) -> list[str]:
    faults = [f"{file.name}: lacks {name}" for name in sorted(expected - set(found))]
    faults += [f"{file.name}: contains {name}" for name in sorted(set(found) - expected)]
    return faults + [f"{file.name}: contains files twice"] * (len(found) != len(set(found)))
