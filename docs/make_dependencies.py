"""Write docs/dependencies.md: what graphwire installs, under which licences, how large, and why.

    python docs/make_dependencies.py

Licences and sizes come from the metadata of what is installed (constraints.txt), reasons from the table below.
"""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PAGE = Path(__file__).resolve().parent / "dependencies.md"

WHY = {
    "": {
        "pluggy": "registry: how plugins are found and called",
        "msgspec": "records, and JSON for them, without a line of code for each",
        "msgpack": "the wire format MessagePack",
        "cbor2": "the wire format CBOR",
        "zlib-ng": "deflate at twice, CRC-32 at ten times the speed of the interpreter's zlib",
    },
    "torch": {
        "torch": "`ExportedProgram`: to save, load and export programs",
        "sympy": "expressions of symbolic sizes, which torch has as objects of sympy",
    },
    "remote": {
        "fsspec": "files at URLs; each protocol has a package of its own",
        "aiohttp": "files at http and https; its client drops credentials that a redirect would send to another server",
    },
    "completion": {"argcomplete": "completion of commands and files in bash, zsh and fish"},
}
"""Why each direct dependency is there, by extra; the base first."""

TITLES = {
    "": ("The base", "All of the command line, and all functions that need no `ExportedProgram`."),
    "torch": ("The extra `torch`", "`save`, `load` and the other functions for an `ExportedProgram`."),
    "remote": ("The extra `remote`", "Files at URLs."),
    "completion": ("The extra `completion`", "Completion in shells."),
}
HEAD = """# Dependencies

What `pip` installs with graphwire, under which licences, how large, and why. The sizes are those of the versions in
`constraints.txt`, installed on Linux on x86-64, without compiled bytecode.
[`make_dependencies.py`](make_dependencies.py) writes this page; a test compares it with the metadata of the packages.

graphwire itself is under BSD-3-Clause. The page of `graphwire view` contains JavaScript of others, with its licences:
@noble/hashes (MIT), and cborg, which decodes CBOR (Apache-2.0).
"""
TAIL = """
The extras `test`, `dev`, `site`, `bench` and others are for the development of graphwire. No user needs them, except
`test` for the contract suites of plugins.
"""


def page() -> str:
    """The page."""
    sections = [HEAD]
    above: set[str] = set()
    for extra, why in WHY.items():
        title, text = TITLES[extra]
        rows = [
            f"| {_name(each)} | {licence(each)} | {size_text(each)} | {reason} |"
            for each, reason in why.items()
        ]
        names = closure(extra) - above - {canonicalize_name(each) for each in why}
        rows += [
            f"| {_name(each)} | {licence(each)} | {size_text(each)} | {_needed_by(each, extra)} |"
            for each in sorted(names)
        ]
        above |= closure(extra)
        sections.append(
            f"\n## {title}\n\n{text}\n\n| | licence | size | why |\n|---|---|---|---|\n"
            + "\n".join(rows)
            + "\n"
        )
    return "".join([*sections, TAIL])


def direct(extra: str) -> set[str]:
    """The names of what graphwire requires itself, with an extra alone."""
    found = set()
    for line in metadata.requires("graphwire") or ():
        needed = Requirement(line)
        of_extra = "extra ==" in str(needed.marker)
        if of_extra is bool(extra) and (needed.marker is None or needed.marker.evaluate({"extra": extra})):
            found.add(canonicalize_name(needed.name))
    return found - {"graphwire"}


def closure(extra: str) -> set[str]:
    """The names of all that an extra brings, directly or through others, as far as it is installed here."""
    found: set[str] = set()
    waiting = [
        (each, frozenset({"http"} if each == "fsspec" and extra == "remote" else ()))
        for each in direct(extra)
    ]
    while waiting:
        name, extras = waiting.pop()
        if name in found:
            continue
        try:
            lines = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue  # what torch names for a GPU
        found.add(name)
        for line in lines:
            needed = Requirement(line)
            if needed.marker is None or any(
                needed.marker.evaluate({"extra": each}) for each in ("", *extras)
            ):
                waiting.append((canonicalize_name(needed.name), frozenset(needed.extras)))
    return found


def licence(name: str) -> str:
    """The licence that a distribution's metadata names."""
    facts = metadata.metadata(name)
    classifiers = [
        each.rpartition(" :: ")[2]
        for each in facts.get_all("Classifier") or []
        if each.startswith("License ::")
    ]
    short = facts.get("License") or ""
    return facts.get("License-Expression") or next(iter(classifiers), "") or short.partition("\n")[0]


def size(name: str) -> int:
    """The bytes of a distribution's files."""
    files = [each for each in metadata.files(name) or () if each.suffix != ".pyc"]
    return sum(path.stat().st_size for each in files if (path := Path(str(each.locate()))).is_file())


def size_text(name: str) -> str:
    """The size of a distribution, to two digits."""
    number = size(name) / 1e6
    return f"{number:.0f} MB" if number >= 10 else f"{number:.1f} MB"


def _needed_by(name: str, extra: str) -> str:
    by = [
        each
        for each in sorted(closure(extra))
        for line in metadata.requires(each) or ()
        if canonicalize_name(Requirement(line).name) == name and "extra ==" not in line
    ]
    return "needed by " + ", ".join(by) if by else "needed by fsspec for HTTP"


def _name(name: str) -> str:
    facts = metadata.metadata(name)
    urls = dict(line.split(", ", 1) for line in facts.get_all("Project-URL") or () if ", " in line)
    found = {re.sub(r"[^a-z]", "", key.lower()): url for key, url in urls.items()}
    url = next(
        (found[key] for key in ("homepage", "source", "repository", "sourcecode", "github") if key in found),
        None,
    )
    return (
        f"[{facts['Name']}]({url or facts.get('Home-page')})"
        if url or facts.get("Home-page")
        else facts["Name"]
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
