"""Remedies: for each situation that a plugin can be in, what is advised fits it, and fits who is told."""

from __future__ import annotations

import ast
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from given_plugins import Plugin
from inside.cli import as_command
from inside.registry import GraphwirePluginWarning, LoadedPlugin, find_plugins, is_older, load_plugin

import graphwire
from graphwire.errors import EncodeError, MissingPluginError, OpsetError, PluginConflictError
from graphwire.hooks import OpsetStep, PluginInfo, Registry
from graphwire.testing import assert_same_program

BOX = find_plugins(frozenset({"graphwire"}))
SOURCES = Path(graphwire.__file__).parent
PYTHON_ONLY = re.compile(
    r"\bPass \w+=|\bpass \w+=|unknown_ops=|opset_version=|format=\"|method=|Raise Limits"
)


class Handler:
    namespace, prefixes, opset_version, convention = "gw_remedy", ("torch.ops.gw_remedy.",), 3, "schema"

    def name_of(self, target: Any) -> str | None:
        return None

    def resolve(self, name: str) -> Any:
        return torch.ops.gw_remedy.f.default if name == "torch.ops.gw_remedy.f.default" else None


def plugin_with(*steps: OpsetStep, **members: Any) -> Plugin:
    handler = type("Other", (Handler,), members)()
    return Plugin(op_handlers=[handler], opset_upgraders=steps)


STEPS = (OpsetStep("gw_remedy", 1, 2), OpsetStep("gw_remedy", 2, 3))


def registry(version: str | None, plugin: Any = None, *others: Any) -> Registry:
    """The box, and a distribution `acme` of a version, if it is there."""
    named = (
        []
        if version is None
        else [load_plugin(PluginInfo("acme", "acme", version), lambda: plugin or plugin_with(*STEPS))]
    )
    more = [
        load_plugin(PluginInfo(f"rival{i}", "rival", "7"), lambda each=each: each)
        for i, each in enumerate(others)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphwirePluginWarning)
        return Registry._found([*BOX, *named, *more])


@pytest.fixture(scope="module")
def exported() -> Any:
    library = torch.library.Library("gw_remedy", "DEF")
    library.define("f(Tensor x, float y=1.0) -> Tensor")
    library.impl("f", lambda x, y=1.0: x + y, "CompositeExplicitAutograd")

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return torch.ops.gw_remedy.f(x)

    yield torch.export.export(Model(), (torch.ones(2),))
    library._destroy()


@pytest.fixture(scope="module")
def data(exported: Any) -> bytes:
    return graphwire.dumps(exported, registry=registry("2.0"))


def told(data: bytes, registry: Registry) -> str:
    with pytest.raises((MissingPluginError, OpsetError, PluginConflictError)) as caught:
        graphwire.loads(data, registry=registry)
    return str(caught.value)


def test_it_loads_with_its_plugin(exported: Any, data: bytes) -> None:
    assert_same_program(graphwire.loads(data, registry=registry("2.0")), exported)


def test_one_that_is_missing_is_to_be_installed(data: bytes) -> None:
    assert "acme>=2.0" in told(data, registry(None))


def test_one_that_is_too_old_is_to_be_updated(data: bytes) -> None:
    text = told(data, registry("1.9", plugin_with(prefixes=("torch.ops.gw_other.",))))
    assert "Update acme (1.9 is installed): the file says that it was written with 2.0" in text


@pytest.mark.parametrize("version", ["2.0", "2.1", "10.0", "2.0.post1"])
def test_nobody_is_told_to_install_what_is_older_than_what_is_there(version: str, data: bytes) -> None:
    text = told(data, registry(version, plugin_with(prefixes=("torch.ops.gw_other.",))))
    assert "pip install" not in text
    assert f"acme {version} is installed, which no longer has torch.ops.gw_remedy.f.default" in text


def test_one_that_is_dropped_is_to_be_let_in(data: bytes) -> None:
    blocked = PluginInfo("acme", "acme", "2.0", status="blocked", reason="it is not named in `Registry.only`")
    text = told(data, Registry([*BOX, LoadedPlugin(blocked, ())]))
    assert "`acme` of acme==2.0 is blocked: it is not named in `Registry.only`. Allow it" in text
    assert "pip install" not in text


def test_one_that_is_broken_is_to_be_repaired(data: bytes) -> None:
    text = told(data, registry("2.0", plugin_with(opset_version="3")))
    assert "`acme` of acme==2.0 is broken" in text
    assert (
        "`opset_version` is '3', not an int. Update or uninstall it, or name acme in GRAPHWIRE_DISABLE_PLUGINS"
        in text
    )
    assert "pip install" not in text


def test_one_of_two_that_conflict_is_to_go(data: bytes, exported: Any) -> None:
    both = registry("2.0", None, plugin_with(opset_version=4))
    with pytest.raises(PluginConflictError) as saving:
        graphwire.dumps(exported, registry=both)
    for text in (told(data, both), str(saving.value)):
        assert "acme==2.0" in text
        assert "rival==7" in text
        assert "Uninstall one, or name it in GRAPHWIRE_DISABLE_PLUGINS" in text
        assert "Update or uninstall it" not in text


def test_one_for_a_newer_interface_asks_for_a_newer_graphwire(data: bytes) -> None:
    plugin = plugin_with()
    plugin.GRAPHWIRE_API = 99  # type: ignore[attr-defined]
    text = told(data, registry("2.0", plugin))
    assert "update graphwire" in text
    assert "Update or uninstall it" not in text


def test_without_the_box_the_box_is_to_be_let_in_and_no_torch_installed(data: bytes) -> None:
    plain = graphwire.dumps(torch.export.export(torch.nn.ReLU(), (torch.ones(2),)))
    text = told(plain, Registry.only("json"))
    assert "`ops` of graphwire" in text
    assert "Allow it" in text
    assert "pip install" not in text
    assert "lacks the plugin `ops` of graphwire" in told(plain, Registry.of(*_formats()))


def _formats() -> list[Any]:
    from graphwire_plugins import json_format as json

    return [json]


def test_a_step_that_is_missing_is_asked_for_where_the_plugin_comes_from(data: bytes) -> None:
    old = graphwire.dumps(
        graphwire.loads(data, registry=registry("2.0")),
        registry=registry("0.9", plugin_with(opset_version=1)),
    )
    text = told(old, registry("2.0", plugin_with(STEPS[1])))
    assert "no upgrader from 1 to 2" in text
    assert "Ask the maintainers of plugin `acme` of acme==2.0 for the step" in text
    assert "pip install" not in text


def test_a_step_that_is_broken_is_named_with_its_fault(data: bytes) -> None:
    old = graphwire.dumps(
        graphwire.loads(data, registry=registry("2.0")),
        registry=registry("0.9", plugin_with(opset_version=1)),
    )
    broken = OpsetStep("gw_remedy", 1, 2, {"torch.ops.gw_remedy.f.default": lambda: None})
    text = told(old, registry("2.0", plugin_with(broken, STEPS[1])))
    assert "that of torch.ops.gw_remedy.f.default takes ()" in text
    assert "Update or uninstall it" in text


def test_a_typo_in_an_upgrader_is_the_upgraders(data: bytes) -> None:
    old = graphwire.dumps(
        graphwire.loads(data, registry=registry("2.0")),
        registry=registry("0.9", plugin_with(opset_version=1)),
    )
    typo = OpsetStep("gw_remedy", 1, 2, {"torch.ops.gw_remedy.f.default": lambda edit: edit.set("yy", 2.0)})
    text = told(old, registry("2.0", plugin_with(typo, STEPS[1])))
    assert "gw_remedy 1 -> 2" in text
    assert "has no parameter yy" in text
    assert "an opset upgrader is needed" not in text


def test_a_codec_of_the_box_that_is_dropped_is_to_be_let_in() -> None:
    program = torch.export.export(torch.nn.ReLU(), (torch.ones(2),))
    program.constants["kept"] = torch.ones(2, 2).to_sparse()
    with pytest.raises(EncodeError, match=r"`constants` of graphwire==.* is blocked.*Allow it"):
        graphwire.dumps(program, registry=Registry.without("constants"))


@pytest.mark.parametrize(
    ("version", "than", "older"),
    [
        ("1.0", "1.1", True),
        ("1.10", "1.9", False),
        ("1.0", "1.0", False),
        ("1.0", "1.0.0", False),
        ("2.0rc1", "2.0", True),
        ("2.0", "2.0rc1", False),
        ("2.0+cpu", "2.0", False),
        ("", "1", None),
        ("dev", "1", None),
    ],
)
def test_versions_are_compared_as_numbers(version: str, than: str, older: bool | None) -> None:
    assert is_older(version, than) is older


# ------------------------------------------------------------------------------------------------- the command line


def texts() -> list[str]:
    """Every text of a remedy in the source."""
    found = []
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                found += [each.value for each in node.keywords if each.arg == "remedy"]
            elif isinstance(node, ast.Assign) and any("REMEDY" in ast.unparse(each) for each in node.targets):
                found.append(node.value)
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("remedies.append"):
                found += node.args
    pieces = [each for value in found for each in ast.walk(value)]
    return [each.value for each in pieces if isinstance(each, ast.Constant) and isinstance(each.value, str)]


# Advice of functions that no command calls: they save torch's own program, or make a module of it.
_NEVER = re.compile(r"device=|from_schema\(|Registry|registry=|Such as \w+=\w+\(|def_pickle|example_inputs")


def test_a_command_line_is_offered_no_argument_of_python() -> None:
    remedies = [text for text in texts() if PYTHON_ONLY.search(text)]
    assert len(remedies) > 5
    for text in remedies:
        assert not PYTHON_ONLY.search(as_command(text)) or _NEVER.search(text), text
