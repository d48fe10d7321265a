"""The entry points of plugins: which objects do installed distributions register, and what do they state of them?"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from graphwire.errors import PluginError, unless_interrupted
from graphwire.registry.interfaces import PROJECT
from graphwire.registry.provisions import HOOKS, error_text

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint


def normal_name(name: str) -> str:
    """Normalize a name as packaging does: lower case, runs of `-`, `_` and `.` as one dash."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


# ---- finds installed plugins in the files of `sys.path`, without `importlib.metadata`, whose import takes longer than the search
# Only the plain case is read here: folders `*.dist-info` and `*.egg-info` with well-formed files. Whatever is not plain, such
# as a zip archive on the path, another finder of distributions, or a malformed file, is left to `importlib.metadata`.


_METADATA = {".dist-info": "METADATA", ".egg-info": "PKG-INFO"}


class EntryPointLine(msgspec.Struct, frozen=True):
    """An entry point, and the distribution that has it."""

    distribution: str
    version: str
    name: str
    module: str
    attributes: str
    """The dotted name of an object in the module; empty for the module itself."""
    group: str = PROJECT
    """The group that has it: `graphwire`, or one whose name begins with `graphwire.`."""


class _UnusualError(Exception):
    """Something that `importlib.metadata` has to read."""


def entry_points_in_files(group: str) -> list[EntryPointLine] | None:
    """Return the entry points of a group, and of those below it; None if something on the path is not plain."""
    if any(
        hasattr(finder, "find_distributions") and getattr(finder, "__module__", "") != _FINDERS
        for finder in sys.meta_path
    ):
        return None
    try:
        return list(_lines_by_distribution(group))
    except unless_interrupted(_UnusualError, OSError, ValueError):
        return None


_FINDERS = "_frozen_importlib_external"
"""The module of Python's own `PathFinder`, which finds distributions in the folders of the path."""


def _lines_by_distribution(group: str) -> Iterator[EntryPointLine]:
    seen: dict[str, int] = {}
    found: list[tuple[str, list[EntryPointLine]]] = []
    for folder in dict.fromkeys(each or "." for each in sys.path):
        if folder.endswith(".egg"):
            raise _UnusualError  # a distribution of its own
        try:
            entries = os.listdir(folder)  # noqa: PTH208 `pathlib` takes as long to import as all folders to be read
        except FileNotFoundError:
            continue
        for entry in entries:
            if not entry.endswith((*_METADATA, ".egg", ".egg-link")):
                continue
            stem, _, kind = entry.rpartition(".")
            project = normal_name(stem.partition("-")[0])
            seen[project] = seen.get(project, 0) + 1
            if f".{kind}" not in _METADATA:
                raise _UnusualError
            lines = _lines_of(f"{folder}/{entry}/", _METADATA[f".{kind}"], group)
            if lines:
                found.append((project, lines))
    for project, lines in found:
        if seen[project] > 1:
            raise _UnusualError  # Which copy counts depends on the order of the path.
        yield from lines


def _lines_of(folder: str, metadata: str, group: str) -> list[EntryPointLine]:
    try:
        data = _bytes_of(f"{folder}entry_points.txt")
    except (FileNotFoundError, NotADirectoryError):
        return []
    entries = list(_entries(data.decode(), group)) if group.encode() in data else []
    if not entries:
        return []
    header = _bytes_of(f"{folder}{metadata}").decode().replace("\r\n", "\n").partition("\n\n")[0]
    lines = [line.partition(":") for line in header.split("\n")]
    fields = {name: value.strip() for name, _, value in reversed(lines)}
    if not fields.get("Name") or not fields.get("Version"):
        raise _UnusualError
    return [EntryPointLine(fields["Name"], fields["Version"], *entry) for entry in entries]


def _bytes_of(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123 as above
        return file.read()


def _entries(text: str, group: str) -> Iterator[tuple[str, str, str, str]]:
    section = ""
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped or stripped.startswith(("#", ";")):
            continue
        if stripped[0] == "[" and stripped[-1] == "]":
            section = stripped[1:-1].strip()
        elif section == group or section.startswith(f"{group}."):
            name, _, value = (part.strip() for part in stripped.partition("="))
            module, colon, attributes = value.partition(":")
            identifiers = [*module.split("."), *(attributes.split(".") if colon else ())]
            plain = name.replace("-", "a").replace(".", "a").replace("_", "a")
            if not (plain.isalnum() and all(map(str.isidentifier, identifiers))) or line[:1].isspace():
                raise _UnusualError
            yield name, module, attributes, section


class FoundPlugin(msgspec.Struct, frozen=True):
    """One entry point of the group `graphwire`."""

    name: str
    distribution: str
    version: str
    load: Callable[[], Any]
    module: str = ""
    """The module that has it."""
    unreadable: str = ""
    """Why the distribution's entry points cannot be read; empty if they can."""
    stated: Mapping[str, tuple[str, ...]] = {}
    """The names that further entry points of the same object state, by kind."""
    ignored: str = ""
    """What further entry points state in vain, one sentence without a full stop; empty if nothing."""


def entry_points() -> list[FoundPlugin]:
    """Return the entry points of the group `graphwire`, sorted by distribution and name."""
    lines = entry_points_in_files(PROJECT)
    rows = (
        _found_by_metadata()
        if lines is None
        else _of_lines((line, partial(_imported, line.module, line.attributes)) for line in lines)
    )
    return sorted(rows, key=lambda row: (normal_name(row.distribution), row.name))


_KINDS = {f"{PROJECT}.{hook.kind}": hook.kind for hook in HOOKS}
"""The groups of entry points that state names, each with its kind."""


def _of_lines(lines: Iterable[tuple[EntryPointLine, Callable[[], Any]]]) -> list[FoundPlugin]:
    """Return the plugins that entry points register, with what others state of them. What nothing comes of is told."""
    stated: dict[tuple[str, str, str], dict[str, tuple[str, ...]]] = defaultdict(dict)
    ignored: dict[str, list[str]] = defaultdict(list)
    plugins = []
    for line, load in lines:
        key = line.distribution, line.module, line.attributes
        if line.group == PROJECT:
            plugins.append((line, load, key))
        elif kind := _KINDS.get(line.group):
            stated[key][kind] = (*stated[key].get(kind, ()), line.name)
        else:
            ignored[line.distribution].append(_unknown_group(line))
    known = {key for *_, key in plugins}
    for key, kinds in stated.items():
        if key not in known:
            value = ":".join(filter(None, key[1:]))
            groups = ", ".join(f"`{PROJECT}.{kind}`" for kind in kinds)
            ignored[key[0]].append(
                f"its entry points {groups} name {value}, which is no entry point of `{PROJECT}`"
            )
    found = [
        FoundPlugin(
            line.name,
            line.distribution,
            line.version,
            load,
            line.module.partition(":")[0],
            stated=stated.get(key, {}),
            ignored="; ".join(dict.fromkeys(ignored.get(line.distribution, ()))),
        )
        for line, load, key in plugins
    ]
    alone = ignored.keys() - {each.distribution for each in found}
    return found + [FoundPlugin(name, name, "", str, unreadable="; ".join(ignored[name])) for name in alone]


def _unknown_group(line: EntryPointLine) -> str:
    from difflib import get_close_matches  # here: only an author's mistake needs it

    meant = get_close_matches(line.group.removeprefix(f"{PROJECT}."), _KINDS.values(), 1)
    hint = f"; did you mean `{PROJECT}.{meant[0]}`?" if meant else f", which has {', '.join(_KINDS)}"
    return f"the group `{line.group}` of its entry points is none of graphwire's{hint}"


def modules_in_import() -> set[str]:
    """Return the modules whose code this thread runs, which calls graphwire while somebody imports them."""
    names, frame = set[str](), sys._getframe().f_back
    while frame is not None:
        if frame.f_code.co_name == "<module>":
            names.add(str(frame.f_globals.get("__name__")))
        frame = frame.f_back
    return names - {"__main__"}


def _imported(module: str, attributes: str) -> Any:
    found = importlib.import_module(module)  # noqa: TID251 an installed distribution names it, and no file
    return attrgetter(attributes)(found) if attributes else found


def _found_by_metadata() -> list[FoundPlugin]:
    from importlib.metadata import PackageNotFoundError, distribution as distribution_named, distributions

    # Reading each distribution's text first, rather than `entry_points()`, keeps a malformed foreign file from ending
    # the search, and parses only the metadata of distributions that have plugins.
    rows: list[FoundPlugin] = []
    seen: set[str] = set()
    for found in distributions():
        name, version = "", ""
        try:
            if not _has_our_group(found):
                continue
            name = _field(found, "Name")
            if not name or normal_name(name) in seen:
                continue
            seen.add(normal_name(name))
            # Look it up by name again: of two copies on `sys.path`, Python imports the first. The lookup finds nothing
            # if the folder's name differs from the metadata.
            with contextlib.suppress(PackageNotFoundError):
                found = distribution_named(name)  # noqa: PLW2901
            version = _field(found, "Version")
            rows += _of_lines(
                (
                    EntryPointLine(name, version, str(each.name), each.value, "", each.group),
                    partial(_loaded, each),
                )
                for each in found.entry_points
                if each.group == PROJECT or each.group.startswith(f"{PROJECT}.")
            )
        except unless_interrupted(Exception) as error:  # foreign files may be malformed in any way
            folder = str(getattr(getattr(found, "_path", None), "name", "")) or "a distribution"
            reason = f"its metadata, or its list of entry points, is malformed ({error_text(error)})"
            rows.append(FoundPlugin(name or folder, name or folder, version, str, unreadable=reason))
    return rows


def _field(distribution: Distribution, name: str) -> str:
    """Return a field of the metadata; "" if it is absent, for which `Distribution.name` and `version` warn since Python 3.12."""
    return str((distribution.metadata.get_all(name) or [""])[0])


def _has_our_group(distribution: Distribution) -> bool:
    try:
        text = distribution.read_text("entry_points.txt")
    except UnicodeDecodeError as error:
        if PROJECT.encode() in error.object:
            raise
        return False
    except unless_interrupted(Exception):  # no readable file of that name
        return False
    return bool(text) and re.search(rf"^\s*\[\s*{PROJECT}\s*[].]", text or "", re.MULTILINE) is not None


def _loaded(entry_point: EntryPoint) -> Any:
    if entry_point.pattern.match(entry_point.value) is None:
        raise PluginError(
            f"its entry point is {entry_point.value!r:.80}, neither `module` nor `module:object`"
        )
    return entry_point.load()
