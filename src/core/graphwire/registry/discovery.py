"""Discovery and loading of plugins, each in isolation: a broken plugin disables only itself; and which plugin owns which names.

Two plugins that want one name: nobody has it until one of them is disabled; everything else of both works. Built-in plugins
keep their names. A namespace, with its operators and its history, is one name, and belongs to one distribution.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from graphwire.errors import GraphwireError, PluginConflictError, PluginError
from graphwire.registry import interfaces
from graphwire.registry.calls import BLOCK_VARIABLE, REMEDY_OF_BROKEN, isolated
from graphwire.registry.provisions import Provision, error_text, provisions_of

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

    from graphwire.registry.registry import Registry


# ---- finds installed plugins in the files of `sys.path`, without `importlib.metadata`, whose import takes longer than the search
# Only the plain case is read here: folders `*.dist-info` and `*.egg-info` with well-formed files. Whatever is not plain, such
# as a zip archive on the path, another finder of distributions, or a malformed file, is left to `importlib.metadata`.


_METADATA = {".dist-info": "METADATA", ".egg-info": "PKG-INFO"}
_SECTION = r"\[([^\[\]]+)\]"
_ENTRY = r"([\w.-]+) *= *([A-Za-z_][\w.]*)(?::([A-Za-z_][\w.]*))?"


class EntryPointLine(NamedTuple):
    """An entry point, and the distribution that has it."""

    distribution: str
    version: str
    name: str
    module: str
    attributes: str
    """The dotted name of an object in the module; empty for the module itself."""


class _UnusualError(Exception):
    """Something that `importlib.metadata` has to read."""


def entry_points_in_files(group: str) -> list[EntryPointLine] | None:
    """Return the entry points of a group; None if something on the path is not plain."""
    if any(
        hasattr(finder, "find_distributions") and getattr(finder, "__module__", "") != _FINDERS
        for finder in sys.meta_path
    ):
        return None
    try:
        return list(_lines_by_distribution(group))
    except (_UnusualError, OSError, UnicodeDecodeError):
        return None


_FINDERS = "_frozen_importlib_external"
"""The module of Python's own `PathFinder`, which finds distributions in the folders of the path."""


def _lines_by_distribution(group: str) -> Iterator[EntryPointLine]:
    seen: dict[str, int] = {}
    found: list[tuple[str, list[EntryPointLine]]] = []
    for folder in map(Path, dict.fromkeys(sys.path)):
        if folder.is_file() or folder.suffix == ".egg":
            raise _UnusualError  # a zip archive, or a distribution of its own
        if not folder.is_dir():
            continue
        for entry in os.listdir(folder):  # noqa: PTH208 a path for each entry takes long
            stem, _, kind = entry.rpartition(".")
            suffix = f".{kind}"
            if suffix not in _METADATA and suffix not in (".egg", ".egg-link"):
                continue
            project = re.sub(r"[-_.]+", "-", stem.partition("-")[0]).lower()
            seen[project] = seen.get(project, 0) + 1
            if suffix not in _METADATA:
                raise _UnusualError
            lines = _lines_of(folder / entry, _METADATA[suffix], group)
            if lines:
                found.append((project, lines))
    for project, lines in found:
        if seen[project] > 1:
            raise _UnusualError  # Which copy counts depends on the order of the path.
        yield from lines


def _lines_of(folder: Path, metadata: str, group: str) -> list[EntryPointLine]:
    path = folder / "entry_points.txt"
    if not path.is_file():
        return []
    text = path.read_text("utf-8")
    if group not in text:
        return []
    entries = list(_entries(text, group))
    if not entries:
        return []
    header = (folder / metadata).read_text("utf-8").partition("\n\n")[0]
    name = re.search(r"^Name: *([A-Za-z0-9][\w.-]*)$", header, re.MULTILINE)
    version = re.search(r"^Version: *([\w.+!-]+)$", header, re.MULTILINE)
    if name is None or version is None:
        raise _UnusualError
    return [EntryPointLine(name[1], version[1], *entry) for entry in entries]


def _entries(text: str, group: str) -> Iterator[tuple[str, str, str]]:
    section = ""
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped or stripped.startswith(("#", ";")):
            continue
        if match := re.fullmatch(_SECTION, stripped):
            section = match[1].strip()
        elif section == group:
            match = re.fullmatch(_ENTRY, stripped)
            if match is None or line[:1].isspace():
                raise _UnusualError
            yield match[1], match[2], match[3] or ""


ALLOW_VARIABLE = "GRAPHWIRE_PLUGINS"
"""Environment variable: the only plugins to load, in the form of `BLOCK_VARIABLE`, which takes precedence."""
SLOW_SECONDS = 2.0
"""Loading a plugin for longer causes a warning: every start of graphwire waits for it."""


REMEDY_OF_CONFLICT = f"Uninstall one, or name it in {BLOCK_VARIABLE}"


class Refusal(NamedTuple):
    """Names that a plugin claims and does not have."""

    kind: str
    """The kind of provider, such as `wire_format`."""
    names: tuple[str, ...]
    reason: str
    """One sentence without a full stop."""
    is_conflict: bool = False
    """Whether another plugin claims them, too, so that one of the two has to be disabled."""


class GraphwirePluginWarning(UserWarning):
    """An installed plugin, or something that it provides, cannot be used; everything else works without it."""


class PluginInfo(msgspec.Struct, frozen=True):
    """A plugin's name, origin, status and provided names."""

    name: str
    """The entry point's name; for a plugin passed as an object, the object's name."""
    distribution: str = ""
    """The distribution that contains it; empty for a plugin passed as an object."""
    version: str = ""
    """The distribution's version."""
    hooks: tuple[str, ...] = ()
    """The hooks that it implements, such as `graphwire_wire_formats`."""
    names: Mapping[str, tuple[str, ...]] = {}
    """The names that it owns, by kind of provider (`wire_format`, `op_handler`, …)."""
    api_version: int = 1
    """The version of the plugin interface that it is written for (`interfaces.API_VERSION` is the current one)."""
    load_seconds: float = 0.0
    """The time that its import and its hooks took."""
    status: Literal["active", "partial", "blocked", "broken"] = "active"
    """`broken` if it breaks the contract, or has none of its names; `partial` if other plugins claim some of its names."""
    reason: str = ""
    """Why it is not active, or not completely, one sentence without a full stop."""
    refused: tuple[Refusal, ...] = ()
    """The names that it claims and does not have, with the reasons."""

    def __hash__(self) -> int:
        return hash((self.distribution, self.version, self.name))

    def __str__(self) -> str:
        origin = f" of {self.distribution}=={self.version}" if self.distribution else ""
        return f"plugin `{self.name}`{origin}"


class LoadedPlugin(msgspec.Struct, frozen=True):
    """A plugin and its provisions, before conflicts between plugins are resolved."""

    info: PluginInfo
    provisions: tuple[Provision, ...]


def discover_plugins(
    only: frozenset[str] | None = None, without: frozenset[str] = frozenset()
) -> tuple[LoadedPlugin, ...]:
    """Load every plugin that an installed distribution registers in the entry-point group `graphwire`.

    `GRAPHWIRE_PLUGINS` lists the only ones to load, and `GRAPHWIRE_DISABLE_PLUGINS` those not to load, which takes
    precedence. The arguments select among the plugins that these variables allow.

    Args:
        only: names of the only plugins to load, from `plugin_names`; None loads all.
        without: names of plugins not to load, in the same form.

    Returns:
        The plugins ordered by distribution and entry-point name, including those that are blocked or broken.

    Raises:
        PluginError: `only` names a plugin that is not installed.
    """
    blocked = {BLOCK_VARIABLE: _names_in(BLOCK_VARIABLE), "`Registry.without`": without}
    allowed = {}
    if listed := _names_in(ALLOW_VARIABLE):
        allowed[ALLOW_VARIABLE] = listed
    if only is not None:
        allowed["`Registry.only`"] = only
    seen: set[str] = set()
    plugins = []
    for info, load, unreadable in _entry_points():
        names = {normal_name(info.name), normal_name(info.distribution)}
        seen |= names
        if source := next((each for each in blocked if names & blocked[each]), None):
            plugins.append(_inactive(info, "blocked", f"it is named in {source}"))
        elif unreadable:
            plugins.append(_inactive(info, "broken", unreadable))
        elif source := next((each for each in allowed if not names & allowed[each]), None):
            plugins.append(_inactive(info, "blocked", f"it is not named in {source}"))
        else:
            plugins.append(load_plugin(info, load))
    for source, listed in (*allowed.items(), (BLOCK_VARIABLE, blocked[BLOCK_VARIABLE])):
        if unknown := ", ".join(sorted(listed - seen)):
            problem = f"{source} names {unknown}, and no plugin or distribution of that name is installed"
            if source not in (ALLOW_VARIABLE, BLOCK_VARIABLE):
                raise PluginError(problem, remedy="`graphwire plugins` lists the installed plugins")
            _warn(problem)
    return tuple(plugins)


def warn_of(info: PluginInfo) -> None:
    """Warn of a plugin that is broken, partly unusable, or slow to load."""
    remedy = REMEDY_OF_CONFLICT if any(each.is_conflict for each in info.refused) else REMEDY_OF_BROKEN
    if info.status == "broken":
        _warn(f"{info} is dropped: {info.reason}. {remedy}")
    elif info.status == "partial":
        _warn(f"{info} is partly unusable: {info.reason}. {remedy}")
    if info.load_seconds > SLOW_SECONDS:
        _warn(
            f"{info} takes {info.load_seconds:.1f} s to load; import slow modules inside the functions that need them"
        )


def load_plugin(info: PluginInfo, load: Callable[[], Any]) -> LoadedPlugin:
    """Load one plugin and call its hooks. A plugin that breaks the contract is broken as a whole, and the reasons are kept.

    Args:
        info: what is known before loading: name, distribution, version.
        load: returns the module or object that has the hook implementations.
    """
    start = time.perf_counter()
    try:
        plugin = load()
        info = replace(info, api_version=_api_version(plugin))
        provided = provisions_of(plugin)
    except KeyboardInterrupt:
        raise
    # A plugin is foreign code: even one that exits the interpreter on import must not affect the others.
    except BaseException as error:  # noqa: BLE001
        return _inactive(info, "broken", _reason(error), time.perf_counter() - start)
    seconds = time.perf_counter() - start
    if not provided.problems:
        return LoadedPlugin(
            replace(info, hooks=tuple(dict.fromkeys(provided.hooks)), load_seconds=seconds),
            tuple(each if is_in_box(info) else isolated(each, info) for each in provided.accepted),
        )
    reason = "; ".join(dict.fromkeys(provided.problems))
    refused = tuple(Refusal(kind, names, reason) for kind, names in provided.claimed.items())
    return _inactive(replace(info, refused=refused), "broken", reason, seconds)


def _reason(error: BaseException) -> str:
    reason = error_text(error)
    if isinstance(error, ImportError) and str(error.name or "").partition(".")[0] == interfaces.PROJECT:
        from graphwire.version import PRODUCER

        reason += f"; it may be written for another version than {PRODUCER}"
    return reason


def _api_version(plugin: Any) -> int:
    """Return the interface version that a plugin is written for.

    Raises:
        PluginError: the version is invalid, or newer than this interface.
    """
    version = getattr(plugin, interfaces.API_ATTRIBUTE, 1)
    if type(version) is not int or version < 1:
        raise PluginError(f"its {interfaces.API_ATTRIBUTE} is {version!r:.80}, not a number from 1")
    if version > interfaces.API_VERSION:
        from graphwire.version import PRODUCER

        raise PluginError(
            f"it is written for version {version} of the plugin interface, and {PRODUCER} has version "
            f"{interfaces.API_VERSION}: update graphwire"
        )
    return version


class _Found(NamedTuple):
    """One entry point of the group `graphwire`."""

    info: PluginInfo
    load: Callable[[], Any]
    unreadable: str = ""
    """Why the distribution's entry points cannot be read; empty if they can."""


def _entry_points() -> list[_Found]:
    """Return the entry points of the group `graphwire`, sorted by distribution and name."""
    lines = entry_points_in_files(interfaces.PROJECT)
    rows = _found_by_metadata() if lines is None else [_of_line(line) for line in lines]
    return sorted(rows, key=lambda row: (normal_name(row.info.distribution), row.info.name))


def _of_line(line: EntryPointLine) -> _Found:
    info = PluginInfo(line.name, line.distribution, line.version)
    return _Found(info, partial(_imported, line.module, line.attributes))


def _imported(module: str, attributes: str) -> Any:
    found = importlib.import_module(module)  # noqa: TID251 an installed distribution names it, and no file
    return attrgetter(attributes)(found) if attributes else found


def _found_by_metadata() -> list[_Found]:
    from importlib.metadata import PackageNotFoundError, distributions
    from importlib.metadata import distribution as distribution_named

    # Reading each distribution's text first, rather than `entry_points()`, keeps a malformed foreign file from ending
    # the search, and parses only the metadata of distributions that have plugins.
    rows: list[_Found] = []
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
            for entry_point in found.entry_points.select(group=interfaces.PROJECT):
                rows.append(
                    _Found(PluginInfo(str(entry_point.name), name, version), partial(_loaded, entry_point))
                )
        except Exception as error:  # noqa: BLE001 foreign files may be malformed in any way
            folder = str(getattr(getattr(found, "_path", None), "name", "")) or "a distribution"
            reason = f"its metadata, or its list of entry points, is malformed ({error_text(error)})"
            rows.append(_Found(PluginInfo(name or folder, name or folder, version), str, reason))
    return rows


def _field(distribution: Distribution, name: str) -> str:
    """Return a field of the metadata; "" if it is absent, for which `Distribution.name` and `version` warn since Python 3.12."""
    return str((distribution.metadata.get_all(name) or [""])[0])


def _has_our_group(distribution: Distribution) -> bool:
    try:
        text = distribution.read_text("entry_points.txt")
    except UnicodeDecodeError as error:
        if interfaces.PROJECT.encode() in error.object:
            raise
        return False
    except Exception:  # noqa: BLE001 no readable file of that name
        return False
    return (
        bool(text) and re.search(rf"^\s*\[\s*{interfaces.PROJECT}\s*\]", text or "", re.MULTILINE) is not None
    )


def _loaded(entry_point: EntryPoint) -> Any:
    if entry_point.pattern.match(entry_point.value) is None:
        raise PluginError(
            f"its entry point is {entry_point.value!r:.80}, neither `module` nor `module:object`"
        )
    return entry_point.load()


def _names_in(variable: str) -> frozenset[str]:
    return plugin_names(os.environ.get(variable, "").split(","))


def plugin_names(names: Iterable[Any]) -> frozenset[str]:
    """Return names of plugins or distributions in the normal form for comparison.

    Raises:
        PluginError: a name is not text.
    """
    listed = list(names)
    if strange := [name for name in listed if not isinstance(name, str)]:
        raise PluginError(f"a plugin is selected by its name, not by {strange[0]!r:.80}")
    return frozenset(normal_name(name) for name in listed if name.strip())


def is_in_box(info: PluginInfo) -> bool:
    """Whether a plugin ships with graphwire."""
    return normal_name(info.distribution) == interfaces.PROJECT


def _inactive(
    info: PluginInfo, status: Literal["blocked", "broken"], reason: str, load_seconds: float = 0.0
) -> LoadedPlugin:
    return LoadedPlugin(replace(info, load_seconds=load_seconds, status=status, reason=reason), ())


def normal_name(name: str) -> str:
    """Normalize a name as packaging does: lower case, runs of `-`, `_` and `.` as one dash."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def _warn(message: str) -> None:
    warnings.warn(message, GraphwirePluginWarning, stacklevel=2)


class UnavailableName(NamedTuple):
    """Why a name that a plugin claims is unavailable."""

    plugin: PluginInfo
    refusal: Refusal


class OwnedNames(NamedTuple):
    """Which plugin owns which names."""

    infos: tuple[PluginInfo, ...]
    """The plugins, each with the names that it owns and those that it lost."""
    provisions: tuple[tuple[PluginInfo, Provision], ...]
    """The usable provisions with the names that they own, built-in ones first."""
    faults: Mapping[tuple[str, str], UnavailableName]
    """Names that some plugin claims and no plugin owns, by kind and name."""


_Key = tuple[str, str]
"""A kind and a name; further kinds are `namespace`, its `history`, and `operator`, which an upgrader rewrites."""


def settle_conflicts(plugins: Sequence[LoadedPlugin]) -> OwnedNames:
    """Decide which names each plugin owns."""
    disputes = _disputes(plugins)
    infos, provisions = [], []
    for plugin in plugins:
        refused, kept = list(plugin.info.refused), []
        if is_in_box(plugin.info):
            disputed: Mapping[_Key, str] = {}
        else:
            # Without one of its operators or steps, a history would be another one.
            disputed = disputes | {
                ("history", each.facts["namespace"]): disputes[key]
                for each in plugin.provisions
                for key in _keys(each)
                if each.kind == "opset_upgrader" and key in disputes
            }
        for each in plugin.provisions:
            lost = {key: disputed[key] for key in _keys(each) if key in disputed}
            apart = each.kind == "op_handler" and all(kind == "op_handler" for kind, _ in lost)
            names = (
                tuple(name for name in each.names if (each.kind, name) not in lost)
                if apart or not lost
                else ()
            )
            if lost:
                gone = tuple(name for name in each.names if name not in names)
                refused.append(Refusal(each.kind, gone, next(iter(lost.values())), is_conflict=True))
            if names:
                kept.append(replace(each, names=names))
        info = _info(plugin.info, kept, refused)
        infos.append(info)
        provisions += [(info, each) for each in kept]
    provisions.sort(key=lambda row: not is_in_box(row[0]))
    return OwnedNames(tuple(infos), tuple(provisions), _faults(infos, provisions))


def _keys(provision: Provision) -> Iterator[_Key]:
    """Yield what a provision needs for itself. Any number of plugins may declare a metadata key."""
    if provision.kind != "metadata_key":
        yield from ((provision.kind, name) for name in provision.names)
    if "namespace" in provision.facts:
        yield "namespace", provision.facts["namespace"]
    if provision.kind == "opset_upgrader":
        yield from (("operator", name) for name in provision.facts["operators"])
        yield "history", provision.facts["namespace"]


def _disputes(plugins: Sequence[LoadedPlugin]) -> dict[_Key, str]:
    """Return what plugins lose, because a built-in plugin has it or another plugin wants it, with the description."""
    box = [(plugin.info, each) for plugin in plugins if is_in_box(plugin.info) for each in plugin.provisions]
    kept = {key: info for info, each in box for key in _keys(each)}
    in_box = {name: row for row in box if row[1].kind == "op_handler" for name in row[1].names}
    found: dict[_Key, str] = {}
    wanted: dict[_Key, dict[object, PluginInfo]] = defaultdict(dict)
    handlers: dict[str, list[PluginInfo]] = defaultdict(list)
    for index, plugin in enumerate(plugins):
        for each in () if is_in_box(plugin.info) else plugin.provisions:
            for key in _keys(each):
                owner, handler = in_box.get(_prefix_in(in_box, key), (None, None))
                if key in kept or (owner is not None and handler is not None and _keeps(handler, key[1])):
                    found.setdefault(key, _claimed(key, kept.get(key) or owner, plugin.info))
                    continue
                # Plugins of one distribution share their namespaces; so do plugins that are given as objects.
                shared = key[0] in ("namespace", "operator", "history")
                wanted[key].setdefault(plugin.info.distribution if shared else index, plugin.info)
                if key[0] == "op_handler":
                    handlers[key[1]].append(plugin.info)
    for key, owners in wanted.items():
        # An operator below the prefix of another distribution is wanted by both.
        distributions = {each.distribution for each in owners.values()}
        around = [
            info
            for info in handlers.get(_prefix_in(handlers, key), ())
            if info.distribution not in distributions
        ]
        if len(rivals := [*around, *owners.values()]) > 1:
            found[key] = _claimed(key, *rivals[:2])
    return found


def _claimed(key: _Key, first: PluginInfo | None, second: PluginInfo) -> str:
    return f"the {key[0].replace('_', ' ')} {key[1]!r} is claimed by {first} and by {second}"


def _prefix_in(handlers: Mapping[str, object], key: _Key) -> str:
    """Return the longest prefix in a table that covers an operator or a prefix; empty if none does."""
    kind, name = key
    if kind == "operator" and name in handlers:
        return name
    around = _prefixes_of(name) if kind in ("op_handler", "operator") else ()
    return next((each for each in around if each in handlers), "")


def _prefixes_of(name: str) -> Iterator[str]:
    """Yield the prefixes of a name or prefix that may belong to operator handlers, the longest first."""
    end = len(name) - 1
    while (end := max(name.rfind(".", 0, end), name.rfind(":", 0, end))) >= 0:
        yield name[: end + 1]


def _keeps(handler: Provision, name: str) -> bool:
    """Whether a handler keeps a name, or a prefix of names, below its prefixes, and does not leave it to others."""
    kept = handler.facts.get("keeps")
    return kept is None or any(_covers(each, name) or _covers(name, each) for each in kept)


def _covers(start: str, name: str) -> bool:
    return name == start or (start[-1] in ".:" and name.startswith(start))


def _faults(
    infos: Iterable[PluginInfo], provisions: Iterable[tuple[PluginInfo, Provision]]
) -> dict[tuple[str, str], UnavailableName]:
    owned = {(each.kind, name): (info, each) for info, each in provisions for name in each.names}
    prefixes = {name: None for kind, name in owned if kind == "op_handler"}
    faults: dict[tuple[str, str], UnavailableName] = {}
    for info in infos:
        for refusal in info.refused:
            for name in refusal.names:
                taken = (refusal.kind, name) in owned
                if refusal.kind == "op_handler" and not taken:
                    owner, handler = owned.get(
                        ("op_handler", _prefix_in(prefixes, ("op_handler", name))), (None, None)
                    )
                    # A refused plugin takes no operators from one that is in force, and nobody takes them from a built-in one.
                    taken = owner is not None and (is_in_box(owner) or not refusal.is_conflict)
                    taken = taken and handler is not None and _keeps(handler, name)
                if not taken:
                    faults.setdefault((refusal.kind, name), UnavailableName(info, refusal))
    return faults


def _info(info: PluginInfo, kept: Sequence[Provision], refused: Sequence[Refusal]) -> PluginInfo:
    names: dict[str, tuple[str, ...]] = {}
    for each in kept:
        names[each.kind] = (*names.get(each.kind, ()), *each.names)
    if info.status != "active" or not refused:
        return replace(info, names=names)
    reason = "; ".join(dict.fromkeys(refusal.reason for refusal in refused))
    hooks = info.hooks if names else ()
    status = "partial" if names else "broken"
    return replace(info, status=status, reason=reason, refused=tuple(refused), hooks=hooks, names=names)


def conflict_error(problem: str) -> PluginConflictError:
    """Return the error for using a name that two plugins claim."""
    return PluginConflictError(problem, remedy=REMEDY_OF_CONFLICT)


# ------------------------------------------------ advice in error messages: what to do about each problem with a plugin


def remedy_for_plugin(plugin: PluginInfo, refusal: Refusal | None = None) -> str:
    """Describe why an installed plugin is not in force, and what to do.

    Args:
        plugin: the plugin.
        refusal: the part of it that is needed; all that it lacks if None.
    """
    reason = refusal.reason if refusal else plugin.reason
    if plugin.status == "blocked":
        return f"The {plugin} is blocked: {reason}. Allow it there"
    if any(each.is_conflict for each in ([refusal] if refusal else plugin.refused)):
        return f"The {plugin} is not in force: {reason}. {REMEDY_OF_CONFLICT}"
    return f"The {plugin} is broken: {reason}" + (
        "" if "update graphwire" in reason else f". {REMEDY_OF_BROKEN}"
    )


_OF_BOX = {
    "op_handler": "ops",
    "treespec_serializer": "treespecs",
    "opset_upgrader": "opsets",
    "constant_codec": "constants",
    "weight_store": "stores",
}
"""The plugins that ship with graphwire, by the kind of what they provide."""


def remedy_for_name(registry: Registry, kind: str, name: str, otherwise: str) -> str:
    """Return what to do if no plugin provides a name.

    The advice concerns a plugin that claims the name, or a built-in plugin that is disabled.

    Args:
        otherwise: the advice if neither applies.
    """
    if fault := registry.fault_of(kind, name):
        return remedy_for_unavailable_name(fault)
    box = next((each for each in registry.plugins if is_in_box(each) and each.name == _OF_BOX[kind]), None)
    if box is None:
        return f"The registry lacks the plugin `{_OF_BOX[kind]}` of graphwire: `Registry.discover()` has it"
    return otherwise if box.status == "active" else remedy_for_plugin(box)


def remedy_for_unavailable_name(fault: UnavailableName) -> str:
    """Describe why a name that a plugin claims is unavailable, and what to do."""
    return remedy_for_plugin(fault.plugin, fault.refusal)


def unavailable_error(fault: UnavailableName, what: str, kind: type[GraphwireError]) -> GraphwireError:
    """Return the error for using a name that a plugin claims and no plugin owns.

    Args:
        fault: why no plugin owns it.
        what: what needs it, such as `the operator torch.ops.acme.scale.default`.
        kind: the class of the error if the plugin is broken; a conflict is a `PluginConflictError`.
    """
    if fault.refusal.is_conflict:
        return conflict_error(f"{what} is not in force: {fault.refusal.reason}")
    return kind(f"{what} is not in force", remedy=remedy_for_unavailable_name(fault))
