"""A plugin costs only itself: dozens that are broken or want what is another's are installed, one by one and all at once, and
a plain program is saved, loaded, converted, upgraded, looked into and hashed as if none of them were there."""

from __future__ import annotations

import importlib
import io
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from inside.evolve import planner
from inside.registry import GraphwirePluginWarning
from tests.hooks.rivals import RIVALS, codecs, formats, handlers, install, keys, steps

import graphwire
from graphwire.errors import OpsetError, PluginConflictError, UnknownFormatError
from graphwire.hooks import Registry

FORMATS = ("json", "msgpack", "cbor")


class Plain(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return {"y": [torch.nn.functional.relu(x), 3]}


@pytest.fixture(scope="module")
def program() -> Any:
    return torch.export.export(Plain(), (torch.ones(2, 3),), dynamic_shapes=({0: torch.export.Dim("n")},))


def everything(program: Any, registry: Registry, formats: Sequence[str] = FORMATS) -> dict[str, Any]:
    """What is made of a plain program, and of files of it."""
    made: dict[str, Any] = {}
    for format in formats:
        data = made[format] = graphwire.dumps(program, format=format, registry=registry)
        loaded = graphwire.loads(data, registry=registry)
        assert torch.equal(loaded.module()(-torch.ones(2, 3))["y"][0], torch.zeros(2, 3))
        made[f"{format} again"] = graphwire.dumps(loaded, format=format, registry=registry)
        with graphwire.open(data, registry=registry) as archive:
            made[f"{format} inspected"] = str(msgspec.to_builtins(archive.inspect("file")))
            document = graphwire.encode(archive.program, format, registry=registry)
        made[f"{format} decoded"] = str(msgspec.to_builtins(graphwire.decode(document, registry=registry)))
        made[f"{format} verified"] = graphwire.verify(data, registry=registry)
        converted, upgraded = io.BytesIO(), io.BytesIO()
        graphwire.convert(data, converted, format="msgpack", registry=registry)
        made[f"{format} converted"] = converted.getvalue()
        old = graphwire.dumps(program, format=format, opset_version={"aten": 9}, registry=registry)
        made[f"{format} planned"] = str(
            [plan.to_tree() for plan in graphwire.plan_upgrade(old, registry=registry).values()]
        )
        graphwire.upgrade(old, upgraded, registry=registry)
        made[f"{format} upgraded"] = upgraded.getvalue()
    made["target"] = graphwire.dumps(program, target="torch-2.6", registry=registry)
    made["hash"] = graphwire.content_hash(program, registry=registry)
    return made


@pytest.fixture(scope="module")
def expected(program: Any) -> dict[str, Any]:
    return everything(program, Registry.only("graphwire"))


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    before = set(sys.modules)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("gw_rival"):
            del sys.modules[name]


def discovered(folder: Path, *names: str) -> Registry:
    install(folder, *names)
    importlib.invalidate_caches()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphwirePluginWarning)
        return Registry.discover()


def check_listing(registry: Registry, reasons: dict[str, str]) -> None:
    infos = {info.name: info for info in registry.plugins if info.distribution.startswith("gw-rival-")}
    assert infos.keys() == reasons.keys()
    for name, reason in reasons.items():
        info = infos[name]
        assert reason.replace("NAME", name) in info.reason, f"{name}: {info.reason}"
        assert (info.status in ("broken", "partial")) is bool(reason), f"{name}: {info.status}"
        assert bool(info.refused or not info.names) is bool(reason), name
    assert {info.status for info in registry.plugins if info.distribution == "graphwire"} == {"active"}


@pytest.mark.parametrize("name", RIVALS)
def test_one_costs_only_itself(name: str, path: Path, program: Any, expected: dict[str, Any]) -> None:
    registry = discovered(path, name)
    check_listing(registry, {name: RIVALS[name].reason})
    format = FORMATS[list(RIVALS).index(name) % len(FORMATS)]  # each in turn: all of them take their time
    made = everything(program, registry, [format])
    assert made == {key: expected[key] for key in made}


def test_all_together_cost_only_themselves(path: Path, program: Any, expected: dict[str, Any]) -> None:
    registry = discovered(path, *RIVALS)
    check_listing(registry, {name: rival.together or rival.reason for name, rival in RIVALS.items()})
    assert everything(program, registry) == expected


def test_a_process_with_all_of_them_prints_what_one_without_does(tmp_path: Path, program: Any) -> None:
    folder, file = tmp_path / "path", tmp_path / "plain.pt2"
    folder.mkdir()
    install(folder, *RIVALS)
    graphwire.save(program, file)

    def typed(*arguments: str, **variables: str) -> str:
        clean = {
            key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "GRAPHWIRE"))
        }
        done = subprocess.run(
            [sys.executable, "-m", "graphwire", *arguments],
            env=clean | variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert typed("inspect", "--json", str(file), PYTHONPATH=str(folder)) == typed(
        "inspect", "--json", str(file)
    )
    listed = {each["name"]: each for each in json.loads(typed("plugins", "--json", PYTHONPATH=str(folder)))}
    for name, rival in RIVALS.items():
        reason = (rival.together or rival.reason).replace("NAME", name)
        mine = [
            each for each in listed.values() if each["distribution"] == f"gw-rival-{name.replace('_', '-')}"
        ]
        assert name in listed
        if mine:
            assert reason in mine[0]["reason"], name


# ------------------------------------------------------------------------------------------- what a dispute costs


def test_a_disputed_history_costs_that_history_alone(path: Path, program: Any) -> None:
    registry = discovered(path, "step_one", "step_two")
    assert [step for step in registry.opset_steps if step.namespace == "shared"] == []
    record, _ = graphwire.to_schema(program, registry=registry)
    record.opset_version["shared"] = 1
    with pytest.raises(OpsetError, match="no upgrader from 1 to 2"):
        planner.plan(record, {**record.opset_version, "shared": 2}, registry.opset_steps)
    fault = registry.fault_of("opset_upgrader", "shared 1->2")
    assert fault is not None
    assert "gw-rival-step-one==1.5" in fault.refusal.reason
    assert "gw-rival-step-two==1.5" in fault.refusal.reason


def test_a_namespace_of_two_versions_is_an_error_for_its_own_operators_alone(path: Path) -> None:
    library = torch.library.Library("version_one", "DEF")
    library.define("f(Tensor x) -> Tensor")
    library.impl("f", lambda x: x + 1, "CompositeExplicitAutograd")

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return torch.ops.version_one.f(x)

    exported = torch.export.export(Model(), (torch.ones(2),))
    data = graphwire.dumps(exported)
    registry = discovered(path, "version_one", "version_two")
    for needs in (
        lambda: graphwire.dumps(exported, registry=registry),
        lambda: graphwire.loads(data, registry=registry),
    ):
        with pytest.raises(PluginConflictError) as caught:
            needs()
        for owner in ("gw-rival-version-one==1.5", "gw-rival-version-two==1.5"):
            assert owner in str(caught.value)


GOOD = """
class Other(Format): name, suffix = "good_NAME", ".goodNAME"
class Wrong(Format): decode = None
@hookimpl
def graphwire_wire_formats(): return [Other(), BAD]
"""


@pytest.mark.parametrize("bad", ["Format", "None", "Wrong()", "Format(), Format()"])
def test_a_plugin_that_breaks_its_contract_is_refused_whole_in_one_message(
    bad: str, path: Path, monkeypatch: pytest.MonkeyPatch, program: Any
) -> None:
    monkeypatch.setitem(RIVALS, "rest", RIVALS["json"]._replace(source=GOOD.replace("BAD", bad)))
    install(path, "rest")
    importlib.invalidate_caches()
    with pytest.warns(GraphwirePluginWarning) as warned:
        registry = Registry.discover()
    (message,) = (str(each.message) for each in warned)
    assert message.startswith(
        "plugin `rest` of gw-rival-rest==1.5 is dropped: graphwire_wire_formats provides"
    )
    assert message.endswith("Update or uninstall it, or name gw-rival-rest in GRAPHWIRE_DISABLE_PLUGINS")
    (info,) = (info for info in registry.plugins if info.name == "rest")
    assert (info.status, info.hooks, info.names) == ("broken", (), {})
    # What it would provide is known, so that whoever needs it learns why it is not there.
    with pytest.raises(UnknownFormatError, match=r"`rest` of gw-rival-rest==1\.5 is broken"):
        graphwire.dumps(program, format="good_rest", registry=registry)


@pytest.mark.parametrize(
    ("one", "two", "left"),
    [
        (formats("name = 'same'"), formats("name = 'same'"), {"wire_format": set()}),
        (
            handlers("prefixes = ('torch.ops.same.', 'torch.ops.NAME.')"),
            handlers("prefixes = ('torch.ops.same.', 'torch.ops.NAME.')"),
            {"op_handler": {"torch.ops.one.", "torch.ops.two."}},
        ),
        (
            handlers("prefixes = ('torch.ops.one.',)"),
            handlers("prefixes = ('torch.ops.one.deep.', 'torch.ops.two.')"),
            {"op_handler": {"torch.ops.one.", "torch.ops.two."}},
        ),
        (handlers("namespace = 'same'"), steps('OpsetStep("same", 1, 2)'), {"op_handler": set()}),
        (
            handlers("prefixes = ('torch.ops.one.',)"),
            steps('OpsetStep("NAME", 1, 2, {"torch.ops.one.f": print})', 'OpsetStep("NAME", 2, 3)'),
            {"op_handler": {"torch.ops.one."}, "opset_upgrader": set()},
        ),
        (handlers("prefixes = ('torch.ops.',)"), handlers("pass"), {"op_handler": {"torch.ops.two."}}),
        (codecs("name = 'same'"), codecs("name = 'same'"), {"constant_codec": set()}),
        (keys('MetadataKey("same")'), keys('MetadataKey("same")'), {"metadata_key": {"same"}}),
    ],
)
def test_what_two_want_is_nobodys_and_all_else_works(
    one: str, two: str, left: dict[str, set[str]], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`left` is what the two have; besides, each has a format of its own. With one of them disabled, the other has all."""
    own = "\nclass Mine(Format): name, suffix = 'own_NAME', '.ownNAME'\n"
    for name, source in (("one", one), ("two", two)):
        more = own + "@hookimpl(specname='graphwire_wire_formats')\ndef more(): return [Mine()]\n"
        monkeypatch.setitem(RIVALS, name, RIVALS["json"]._replace(source=source + more))
    registry = discovered(path, "one", "two")
    ours = [info for info in registry.plugins if info.name in ("one", "two")]
    for kind, names in left.items():
        found = {each for info in ours for each in info.names.get(kind, ())}
        assert found - {"own_one", "own_two", ".ownone", ".owntwo"} == names
    assert {"own_one", "own_two"} <= registry.wire_formats.keys()
    for alone in ("one", "two") if "'torch.ops.'" not in one else ("two",):
        (info,) = (info for info in Registry.only("graphwire", alone).plugins if info.name == alone)
        assert (info.status, info.refused) == ("active", ())


# ----------------------------------------------------------------------------------------- distributions in disorder


@pytest.mark.parametrize(
    ("files", "listed"),
    [
        (
            {"METADATA": b"Name: x-one\nVersion: 1\n", "entry_points.txt": b"[graphwire]\nno equals sign\n"},
            "x-one",
        ),
        ({"METADATA": b"Name: x-other\nVersion: 1\n", "entry_points.txt": b"[graphwire]\na = ???\n"}, "a"),
        ({"entry_points.txt": b"[graphwire]\na = json\n"}, ""),
        (
            {"METADATA": b"Name: x-bytes\nVersion: 1\n", "entry_points.txt": b"[graphwire]\n\xff = json\n"},
            "x-1.dist-info",
        ),
        ({"METADATA": b"\xff\xfe", "entry_points.txt": b"[graphwire]\na = json\n"}, ""),
        ({"METADATA": b"Name: x-plain\n", "entry_points.txt": b"[graphwire]\na = json\n"}, "a"),
        ({"METADATA": b"Name: x-dir\nVersion: 1\n"}, ""),
    ],
)
def test_a_distribution_in_disorder_costs_only_itself(
    files: dict[str, bytes], listed: str, path: Path
) -> None:
    (path / "x-1.dist-info").mkdir()
    for name, content in files.items():
        (path / "x-1.dist-info" / name).write_bytes(content)
    importlib.invalidate_caches()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphwirePluginWarning)
        registry = Registry.discover()
    assert {"json", "msgpack", "cbor"} <= registry.wire_formats.keys()
    if listed:
        (info,) = (info for info in registry.plugins if info.name == listed)
        assert info.status == "broken"
        assert info.reason


# --------------------------------------------------------------------------------------------------- what is torch's


def test_the_box_keeps_every_operator_that_torch_has_itself() -> None:
    from torch._ops import _higher_order_ops

    from graphwire_plugins.ops import TORCH_LIBRARIES, TORCH_OPERATORS

    own = {name for name, each in _higher_order_ops.items() if type(each).__module__.startswith("torch.")}
    named = {name for name in own if type(_higher_order_ops[name]) is not torch._ops.HigherOrderOperator}
    assert named <= set(TORCH_OPERATORS), named - set(TORCH_OPERATORS)
    assert {"aten", "prim", "prims", "quantized", "_c10d_functional"} <= set(TORCH_LIBRARIES)
