"""The registry: what is installed, found in isolation, by name."""

from __future__ import annotations

import importlib
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import EntryPoint, distribution
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from given_plugins import Plugin, put_distribution
from inside.registry import API_VERSION, GraphwirePluginWarning, load_plugin, registry as registry_module

from graphwire.errors import PluginConflictError, PluginError, UnknownFormatError
from graphwire.hooks import PluginInfo, Registry, default_registry
from graphwire_plugins import treespecs

FORMAT = """
from graphwire.registry.interfaces import hookimpl

class Format:
    name, suffix, media_type = {name!r}, {suffix!r}, "application/x"
    def encode(self, tree): return b""
    def decode(self, buffer): return None
    def matches(self, head): return False

@hookimpl
def graphwire_wire_formats():
    return [Format()]
"""

Install = Callable[..., None]


class Format:
    media_type = "application/x-test"

    def __init__(self, name: str = "test", suffix: str | None = None) -> None:
        self.name = name
        self.suffix = f".{name}" if suffix is None else suffix

    def encode(self, tree: Any) -> bytes:
        return b""

    def decode(self, buffer: Any) -> Any:
        return None

    def matches(self, head: bytes) -> bool:
        return False


class Handler:
    namespace, opset_version, convention = "test", 1, "schema"

    def __init__(self, *prefixes: str) -> None:
        self.prefixes = prefixes

    def name_of(self, target: Any) -> str | None:
        return None

    def resolve(self, name: str) -> Any:
        return None


class Serializer(treespecs.Tuple):
    def __init__(self, name: str, container: Any) -> None:
        self.name = name
        self._container = container
        self.calls = 0

    def container(self) -> Any:
        self.calls += 1
        if isinstance(self._container, Exception):
            raise self._container
        return self._container


class Codec:
    def __init__(self, name: str) -> None:
        self.name = name

    def owns(self, value: Any) -> bool:
        return False

    def decode(self, tree: Any, tensors: Any) -> Any:
        return None

    encode = owns


def upgrader(from_version: int, to_version: int, *operators: str, namespace: str = "test") -> Any:
    functions: dict[str, Any] = {operator: print for operator in operators}
    return SimpleNamespace(
        namespace=namespace, from_version=from_version, to_version=to_version, operators=functions
    )


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a distribution in a folder on `sys.path`: `install("dist", "1.0", {"entry": "module"}, module=source)`."""
    before = set(sys.modules)
    for variable in ("GRAPHWIRE_PLUGINS", "GRAPHWIRE_DISABLE_PLUGINS"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(registry_module, "_defaults", {})
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(name: str, version: str, entry_points: dict[str, str] | str, **modules: str) -> None:
        if isinstance(entry_points, dict):
            lines = "\n".join(f"{entry} = {target}" for entry, target in entry_points.items())
            entry_points = f"[console_scripts]\nx = y:z\n\n[graphwire]\n{lines}\n"
        sources = {module: textwrap.dedent(source) for module, source in modules.items()}
        put_distribution(tmp_path, name, version, entry_points, **sources)
        importlib.invalidate_caches()

    yield install
    for name in set(sys.modules) - before:
        if name.startswith("gw_"):
            del sys.modules[name]


def of_distribution(registry: Registry, name: str) -> PluginInfo:
    return next(plugin for plugin in registry.plugins if plugin.distribution == name)


# ------------------------------------------------------------------------------------------------------- discovery


@pytest.mark.parametrize(
    "entry", [*distribution("graphwire").entry_points.select(group="graphwire")], ids=lambda entry: entry.name
)
def test_what_ships_in_the_box_keeps_the_contract_of_foreign_plugins(entry: EntryPoint) -> None:
    # A registry does not check the methods of its own plugins: that takes time in every command.
    loaded = load_plugin(PluginInfo(entry.name, "another-distribution"), entry.load)
    assert (loaded.info.status, loaded.info.reason) == ("active", "")


def test_a_plugin_is_found_through_its_entry_point(install: Install) -> None:
    install("gw-good", "1.2", {"good": "gw_good"}, gw_good=FORMAT.format(name="good", suffix=".good"))
    registry = Registry.only("good")
    assert (
        registry.wire_format("good")
        is registry.wire_formats["good"]
        is registry.wire_format_of_suffix(".good")
    )
    info = registry.owner_of("wire_format", "good")
    assert info == of_distribution(registry, "gw-good")
    assert info is not None
    assert (info.name, info.distribution, info.version, info.status, info.reason) == (
        "good",
        "gw-good",
        "1.2",
        "active",
        "",
    )
    assert info.hooks == ("graphwire_wire_formats",)
    assert info.names == {"wire_format": ("good", ".good")}
    assert info.load_seconds > 0
    assert str(info) == "plugin `good` of gw-good==1.2"


def test_plugins_are_sorted_by_distribution_and_name(install: Install) -> None:
    source = "from graphwire.registry.interfaces import hookimpl\n@hookimpl\ndef graphwire_wire_formats(): return []"
    install("gw-zeta", "1", {"a": "gw_z", "C": "gw_z"}, gw_z=source)
    install("Gw.Alpha", "1", {"z": "gw_a", "b": "gw_a"}, gw_a=source)
    found = [(p.distribution, p.name) for p in Registry.only("gw-zeta", "gw-alpha").plugins]
    ours = [each for each in found if each[0] in ("gw-zeta", "Gw.Alpha")]
    assert ours == [("Gw.Alpha", "b"), ("Gw.Alpha", "z"), ("gw-zeta", "C"), ("gw-zeta", "a")]


def test_an_entry_point_may_name_an_object_and_a_missing_one_is_broken(install: Install) -> None:
    source = (
        FORMAT.format(name="inner", suffix=".inner")
        + "\nclass Hooks:\n    graphwire_wire_formats = staticmethod(graphwire_wire_formats)\n"
    )
    install("gw-object", "1", {"here": "gw_object:Hooks", "gone": "gw_object:Gone"}, gw_object=source)
    with pytest.warns(GraphwirePluginWarning, match="plugin `gone` of gw-object==1"):
        registry = Registry.only("gw-object")
    assert list(registry.wire_formats) == ["inner"]


# ------------------------------------------------------------------------------------------ the version of the interface


def test_the_version_that_a_plugin_is_written_for_is_known() -> None:
    class Versioned(Plugin):
        GRAPHWIRE_API = API_VERSION

    assert Registry.of(Versioned(commands=[])).plugins[0].api_version == API_VERSION
    assert Registry.of(Plugin(commands=[])).plugins[0].api_version == 1


@pytest.mark.parametrize("version", [0, -1, "1", 1.0, True, None])
def test_a_version_that_is_none_is_refused(version: object) -> None:
    class Versioned(Plugin):
        GRAPHWIRE_API = version

    with pytest.raises(PluginError, match="GRAPHWIRE_API"):
        Registry.of(Versioned(commands=[]))


def test_a_plugin_that_imports_what_graphwire_has_not_may_be_for_another_version(install: Install) -> None:
    install(
        "gw-later",
        "1",
        {"later": "gw_later"},
        gw_later="from graphwire.registry.interfaces import later_hook",
    )
    with pytest.warns(GraphwirePluginWarning, match="written for another version than graphwire"):
        Registry.only("later")


def test_plugins_are_chosen_by_entry_point_or_distribution(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        source = FORMAT.format(name=name, suffix=f".{name}")
        install(f"gw-{name}", "1", {name: f"gw_{name}"}, **{f"gw_{name}": source})

    def formats(choose: Callable[..., Registry], *names: str) -> list[str]:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = choose(*names).wire_formats
        return [name for name in found if name in ("one", "two")]

    assert formats(Registry.discover) == ["one", "two"]
    assert formats(Registry.only, "GW_One") == ["one"]
    assert formats(Registry.only, "one", "gw-two") == ["one", "two"]
    assert formats(Registry.only) == []
    assert formats(Registry.without, "gw-two", "not_installed") == ["one"]
    assert formats(Registry.without) == ["one", "two"]
    monkeypatch.setenv("GRAPHWIRE_PLUGINS", "two, ")
    assert formats(Registry.discover) == ["two"]
    assert formats(Registry.only, "one") == []
    assert formats(Registry.without, "one") == ["two"]
    monkeypatch.setenv("GRAPHWIRE_DISABLE_PLUGINS", "gw.two")
    assert formats(Registry.discover) == []
    assert formats(Registry.only, "two") == []
    registry = Registry.without("two")
    assert of_distribution(registry, "gw-two").reason == "it is named in GRAPHWIRE_DISABLE_PLUGINS"
    assert of_distribution(registry, "gw-one").reason == "it is not named in GRAPHWIRE_PLUGINS"
    assert {of_distribution(registry, each).status for each in ("gw-one", "gw-two")} == {"blocked"}
    monkeypatch.setenv("GRAPHWIRE_PLUGINS", " ,")
    monkeypatch.setenv("GRAPHWIRE_DISABLE_PLUGINS", "")
    assert formats(Registry.discover) == ["one", "two"]


@pytest.mark.parametrize(
    "text",
    [
        "gw-one,gw-two",
        "GW.One==1, gw_two==1",
        "gw-one;gw-two",
        "gw-one gw-two\n",
        "'gw-one', \"gw-two\"",
        "one,two",
    ],
)
def test_plugins_are_blocked_as_messages_and_shells_write_them(
    text: str, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        install(f"gw-{name}", "1", {name: f"gw_{name}"})
    monkeypatch.setenv("GRAPHWIRE_DISABLE_PLUGINS", text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        registry = Registry.discover()
    assert {of_distribution(registry, each).status for each in ("gw-one", "gw-two")} == {"blocked"}


def test_the_remedy_for_a_broken_plugin_costs_no_other_one_that_has_its_name(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("gw-json", "1", {"json": "gw_json"}, gw_json="raise RuntimeError")
    with pytest.warns(GraphwirePluginWarning, match="or name gw-json in GRAPHWIRE_DISABLE_PLUGINS"):
        Registry.discover()
    monkeypatch.setenv("GRAPHWIRE_DISABLE_PLUGINS", "gw-json")
    assert "json" in Registry.discover().wire_formats


def test_a_blocked_plugin_is_not_imported(install: Install) -> None:
    install("gw-blocked", "1", {"blocked": "gw_blocked"}, gw_blocked="raise RuntimeError")
    Registry.only()
    assert "gw_blocked" not in sys.modules


def test_what_the_environment_names_and_is_not_installed_is_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GRAPHWIRE_PLUGINS", "no_such_plugin")
    with pytest.warns(GraphwirePluginWarning, match="GRAPHWIRE_PLUGINS names no-such-plugin, and"):
        Registry.discover()


def test_an_unknown_format_says_what_is_there_and_why_one_is_not(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("gw-one", "1", {"one": "gw_one"}, gw_one=FORMAT.format(name="one", suffix=".one"))
    install("gw-two", "1", {"two": "gw_two"}, gw_two=FORMAT.format(name="two", suffix=".two"))
    install("gw-bad", "1", {"bad": "gw_bad"}, gw_bad="import no_such_module")
    monkeypatch.setenv("GRAPHWIRE_PLUGINS", "one,two,bad")
    with pytest.warns(GraphwirePluginWarning):
        registry = Registry.without("two")
    with pytest.raises(
        UnknownFormatError, match=r"'two'.*Installed: one.*`two` of gw-two==1 is blocked.*`Registry.without`"
    ):
        registry.wire_format("two")
    with pytest.raises(UnknownFormatError, match="no_such_module"):
        registry.wire_format("bad")
    with pytest.raises(
        UnknownFormatError, match=r"Installed: one.*gw-bad==1 is broken.*Install a distribution"
    ):
        registry.wire_format("three")
    with pytest.raises(UnknownFormatError, match=r"suffix '\.two'.*is blocked"):
        registry.wire_format_of_suffix(".two")


# --------------------------------------------------------------------------------------------------- plugin objects


def test_a_registry_of_objects_holds_just_these() -> None:
    handler, codec, steps = Handler("test."), Codec("sparse"), upgrader(1, 2, "test::a", "test::b")
    plugin = Plugin(
        wire_formats=[Format()],
        op_handlers=[handler],
        constant_codecs=[codec],
        opset_upgraders=[steps],
        treespec_serializers=[Serializer("test.Box", Format)],
    )
    registry = Registry.of(plugin)
    assert list(registry.wire_formats) == ["test"]
    assert registry.op_handlers == (handler,)
    assert registry.opset_upgraders == (steps,)
    assert registry.constant_codecs == {"sparse": codec}
    assert list(registry.container_types.serializers) == ["test.Box"]
    (info,) = registry.plugins
    assert (info.name, info.distribution, str(info)) == ("Plugin", "", "plugin `Plugin`")
    assert len(info.hooks) == 5
    assert info.names["opset_upgrader"] == ("test 1->2 test::a", "test 1->2 test::b")


def test_a_broken_object_is_an_error() -> None:
    with pytest.raises(PluginError, match="implements none"):
        Registry.of(object())
    with pytest.raises(PluginError, match="no method `matches`"):
        Registry.of(
            Plugin(
                wire_formats=[
                    SimpleNamespace(name="x", suffix=".x", media_type="x", encode=print, decode=print)
                ]
            )
        )


CONFLICTS = {
    "format": lambda: Plugin(wire_formats=[Format("a")]),
    "suffix": lambda: Plugin(wire_formats=[Format(f"f{id(object())}", ".a")]),
    "prefix": lambda: Plugin(op_handlers=[Handler("a.")]),
    "treespec": lambda: Plugin(treespec_serializers=[Serializer("a", int)]),
    "upgrader": lambda: Plugin(opset_upgraders=[upgrader(1, 2, "test::a")]),
    "upgrader of nothing": lambda: Plugin(opset_upgraders=[upgrader(1, 2)]),
    "codec": lambda: Plugin(constant_codecs=[Codec("a")]),
}


@pytest.mark.parametrize("plugin", CONFLICTS.values(), ids=CONFLICTS)
def test_every_kind_of_name_has_one_owner(plugin: Callable[[], Plugin]) -> None:
    registry = Registry.of(plugin())
    with pytest.raises(PluginConflictError, match="by plugin `Plugin` and by plugin `Plugin`"):
        registry.extended(plugin())


def test_steps_of_one_namespace_that_touch_other_operators_do_not_meet() -> None:
    registry = Registry.of(
        Plugin(opset_upgraders=[upgrader(1, 2, "test::a")]),
        Plugin(
            opset_upgraders=[upgrader(1, 2, "test::b"), upgrader(2, 1, "test::a"), upgrader(2, 3, "test::a")]
        ),
        Plugin(opset_upgraders=[upgrader(1, 2, "test::a", namespace="other")]),
    )
    assert len(registry.opset_steps) == 5


def test_extending_makes_another_registry() -> None:
    registry = Registry.of(Plugin(wire_formats=[Format("a")]))
    more = registry.extended(Plugin(wire_formats=[Format("b")]))
    assert (list(registry.wire_formats), list(more.wire_formats)) == (["a"], ["a", "b"])
    assert more.wire_formats["a"] is registry.wire_formats["a"]
    assert len(more.plugins) == 2


def test_a_registry_never_changes() -> None:
    registry = Registry.of(Plugin(wire_formats=[Format("a")]))
    with pytest.raises(AttributeError, match="never changes"):
        registry.wire_formats = {}
    with pytest.raises(AttributeError, match="never changes"):
        del registry.plugins
    for mapping in (registry.wire_formats, registry.container_types.serializers, registry.constant_codecs):
        with pytest.raises(TypeError, match="does not support item assignment"):
            mapping["a"] = None  # type: ignore[index]
    with pytest.raises(AttributeError):
        registry.plugins[0].status = "broken"  # type: ignore[misc]


# ------------------------------------------------------------------------------------------------------- look-ups


def test_the_longest_prefix_owns_an_operator() -> None:
    wide, narrow, exact, colon = (
        Handler("torch.ops."),
        Handler("torch.ops.aten."),
        Handler("_operator.add"),
        Handler("lib::"),
    )
    registry = Registry.of(Plugin(op_handlers=[wide, narrow, exact, colon]))
    owners = {
        "torch.ops.aten.add.Tensor": narrow,
        "torch.ops.aten.": narrow,
        "torch.ops.atenx.add": wide,
        "torch.ops.x": wide,
        "torch.op": None,
        "_operator.add": exact,
        "_operator.add.x": None,
        "_operator.addx": None,
        "lib::op.out": colon,
        "lib:op": None,
        "": None,
        ".": None,
    }
    for name, handler in owners.items():
        assert registry.op_handler(name) == handler, name
        assert registry.owner_of("op_handler", name) == (registry.plugins[0] if handler else None)


def test_a_long_operator_name_costs_little() -> None:
    registry = Registry.of(Plugin(op_handlers=[Handler("torch.ops.")]))
    assert registry.op_handler("." * 10_000_000) is None


def test_containers_are_asked_for_once_and_by_any_thread() -> None:
    serializer = Serializer("a.Box", Format)
    family = Serializer("family", {"family.one": Handler, "family.two": Codec})
    registry = Registry.of(Plugin(treespec_serializers=[serializer, family]))
    assert serializer.calls == 0
    barrier = threading.Barrier(8)

    def look(_: int) -> Any:
        barrier.wait()
        return registry.container_types.of(Format).serializer.__wrapped__

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(look, range(8))) == {serializer}
    assert (serializer.calls, family.calls) == (1, 1)
    assert registry.container_types.of(Codec).serializer == family
    assert registry.container_types.of(Plugin) is None
    assert registry.container_types.all.by_name["family.two"].container is Codec
    assert registry.owner_of("treespec_serializer", "family.two") == registry.plugins[0]
    assert registry.owner_of("treespec_serializer", "other.two") is None
    assert registry.owner_of("constant_codec", "a.Box") is None


@pytest.mark.parametrize(
    ("container", "reason"),
    [
        (ImportError("no box"), "ImportError: no box"),
        ("text", "'text', not a class"),
        ({"other.name": int}, "'other.name', whose name does not start"),
        ({"bad.a": int, "bad.b": int}, "two names in its family"),
    ],
)
def test_a_serializer_without_its_container_is_a_warning(container: Any, reason: str) -> None:
    registry = Registry.of(
        Plugin(treespec_serializers=[Serializer("bad", container), Serializer("good", Format)])
    )
    with pytest.warns(GraphwirePluginWarning, match="'bad'"):
        assert registry.container_types.of(Format) is not None
    assert reason in registry.container_types.all.failures["bad"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(registry.container_types.all.by_name) == ["good"]


def test_two_serializers_of_one_class_are_a_conflict() -> None:
    registry = Registry.of(
        Plugin(treespec_serializers=[Serializer("a", Format)]),
        Plugin(treespec_serializers=[Serializer("b", Format)]),
    )
    with pytest.raises(PluginConflictError, match="container type 'b'"):
        registry.container_types.of(Format)


# ---------------------------------------------------------------------------------------------- the default registry


def test_the_default_registry_is_discovered_once_per_filter(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(
        "gw-default",
        "1",
        {"gw-default": "gw_default"},
        gw_default=FORMAT.format(name="gwdefault", suffix=".gwdefault"),
    )
    monkeypatch.setenv("GRAPHWIRE_PLUGINS", "gw-default")
    with ThreadPoolExecutor(8) as pool:
        registries = set(pool.map(lambda _: default_registry(), range(32)))
    assert len(registries) == 1
    assert list(registries.pop().wire_formats) == ["gwdefault"]
    first = default_registry()
    monkeypatch.setenv("GRAPHWIRE_DISABLE_PLUGINS", "gw-default")
    assert not default_registry().wire_formats
    monkeypatch.delenv("GRAPHWIRE_DISABLE_PLUGINS")
    assert default_registry() is first
    monkeypatch.delenv("GRAPHWIRE_PLUGINS")
    assert Registry.only("gw-default") is Registry.only("gw_default", "GW-Default")
    assert Registry.without("graphwire") is Registry.without("graphwire") is not Registry.only("graphwire")
    assert Registry.discover() is not Registry.discover()
