"""An upgrader that misuses the editor of nodes: the error names its plugin and what to do, whatever it passes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from inside.evolve import Value
from inside.registry import find_plugins, load_plugin
from nightly import by_day

import graphwire
from graphwire.errors import GraphwireError, OpsetError
from graphwire.hooks import NodeEditor, OpsetStep, PluginInfo, Registry
from graphwire.schema import Argument, SymInt

SCALE = "torch.ops.gw_misuse.scale.default"
BOX = find_plugins(frozenset({"graphwire"}))


def registry(version: int, function: Callable[[Any], object]) -> Registry:
    class Handler:
        namespace, prefixes, opset_version = "gw_misuse", ("torch.ops.gw_misuse.",), version
        convention = "schema"

        def name_of(self, target: Any) -> str | None:
            return None

        def resolve(self, name: str) -> Any:
            return torch.ops.gw_misuse.scale.default if name == SCALE else None

    class Plugin:
        @graphwire.hookimpl
        def graphwire_op_handlers(self) -> list[Any]:
            return [Handler()]

        @graphwire.hookimpl
        def graphwire_opset_upgraders(self) -> list[Any]:
            return [OpsetStep("gw_misuse", 1, 2, {SCALE: function})]

    return Registry([*BOX, load_plugin(PluginInfo("misuse", "gw-misuse", "1.5"), Plugin)])


@pytest.fixture(scope="module")
def old() -> Any:
    """A file of version 1."""
    library = torch.library.Library("gw_misuse", "DEF")
    library.define("scale(Tensor x, float y=1.0) -> Tensor")
    library.impl("scale", lambda x, y=1.0: x * y, "CompositeExplicitAutograd")

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return torch.ops.gw_misuse.scale(x) + 1

    program = torch.export.export(Model(), (torch.ones(2),))
    yield graphwire.dumps(program, registry=registry(1, lambda edit: None))
    library._destroy()


def failure_of(data: bytes, function: Callable[[Any], object]) -> str:
    try:
        graphwire.loads(data, registry=registry(2, function))
    except GraphwireError as error:
        return str(error)
    return ""


ITSELF: list[Any] = []
ITSELF.append(ITSELF)
JUNK = [3, -7, True, 1.5, None, "", "zz", b"x", object(), [], {1: 2}, ITSELF, Value("nothing"), Value("add"), Value(3),  # type: ignore[arg-type]
        Value("x", "none"), Argument(), Argument(as_int="x"), SymInt(as_int=3), str, 10**30]  # fmt: skip


def output(edit: NodeEditor) -> Any:
    return edit.outputs[0]


WORKING: dict[str, Callable[[NodeEditor], list[Any]]] = {
    "has": lambda edit: ["y"],
    "argument": lambda edit: ["x"],
    "value": lambda edit: ["y", 1.0],
    "known": lambda edit: [output(edit)],
    "tensor": lambda edit: [output(edit)],
    "dtype": lambda edit: [output(edit)],
    "sizes": lambda edit: [output(edit)],
    "device": lambda edit: [output(edit)],
    "set": lambda edit: ["y", 2.0],
    "default": lambda edit: ["y", 2.0],
    "rename": lambda edit: ["x", "x"],
    "drop": lambda edit: ["y"],
    "retarget": lambda edit: [SCALE, {"x": edit.value("x")}],
    "emit": lambda edit: [SCALE, {"x": edit.value("x")}],
    "emit_all": lambda edit: [SCALE, {"x": edit.value("x")}, [edit.known(output(edit))]],
    "set_outputs": lambda edit: [[output(edit)]],
    "replace": lambda edit: [output(edit), edit.value("x")],
    "remove": lambda edit: [],
    "declare": lambda edit: [output(edit), edit.known(output(edit))],
    "propagate": lambda edit: [output(edit)],
    "refuse": lambda edit: ["a reason"],
    "finished": lambda edit: [],
}
"""Arguments that each method takes."""


def test_every_method_of_the_editor_has_its_row() -> None:
    members = inspect.getmembers(NodeEditor, inspect.isfunction)
    assert set(WORKING) == {name for name, _ in members if not name.startswith("_")}


@pytest.mark.nightly
@pytest.mark.parametrize("name", WORKING)
def test_what_is_passed_to_a_method_is_no_defect_of_graphwire_or_of_the_file(name: str, old: bytes) -> None:
    passed: list[int] = []
    failure_of(old, lambda edit: passed.append(len(WORKING[name](edit))))
    misuses = [(position, junk) for junk in JUNK for position in range(passed[0])]
    for position, junk in misuses[:: by_day(5, by_night=1)]:

        def misuse(edit: NodeEditor, position: int = position, junk: Any = junk) -> None:
            given = WORKING[name](edit)
            given[position] = junk
            getattr(edit, name)(*given)

        told = failure_of(old, misuse)
        if told:
            assert "gw-misuse==1.5" in told, (position, junk, told)
            assert "GRAPHWIRE_DISABLE_PLUGINS" in told or "[refused]" in told, (position, junk, told)
            assert "defect of graphwire" not in told


MISTAKES: list[tuple[Callable[[Any], object], str]] = [
    (lambda edit: edit.set(3, 1.0), "no argument at position 3 here"),
    (lambda edit: edit.set("y", object()), "no argument can represent a object"),
    (lambda edit: edit.set("x", 3), "takes a Tensor as x, and gets 3 .wrong-type"),
    (lambda edit: edit.set("yy", 1.0), "has no parameter yy; it has x, y"),
    (lambda edit: edit.set("x", Value("nothing")), "no value of this graph is named 'nothing'"),
    (lambda edit: edit.retarget("torch.ops.gw_misuse.other.default"), "no operator torch.ops.gw_misuse.other"),
    (lambda edit: edit.retarget("os.system"), "no operator os.system"),
    (lambda edit: edit.remove(), "which an upgrader removed"),
    (lambda edit: edit, "returns a NodeEditor, not None"),
    (lambda edit: 3, "returns 3, not None"),
]  # fmt: skip


@pytest.mark.parametrize(("mistake", "match"), MISTAKES, ids=[match for _, match in MISTAKES])
def test_each_mistake_is_told_with_the_plugin_and_what_to_do(mistake: Any, match: str, old: bytes) -> None:
    with pytest.raises(OpsetError, match=match) as caught:
        graphwire.loads(old, registry=registry(2, mistake))
    told = str(caught.value)
    assert "gw_misuse 1 -> 2 of plugin `misuse` of gw-misuse==1.5" in told
    assert "pdate or uninstall it, or name gw-misuse in GRAPHWIRE_DISABLE_PLUGINS" in told


def test_a_number_may_stand_for_a_tensor_where_torch_takes_one(old: bytes) -> None:
    def halves(edit: NodeEditor) -> None:
        half = edit.emit("torch.ops.aten.mul.Tensor", {"self": edit.value("x"), "other": 0.5})
        edit.retarget("torch.ops.aten.add.Tensor", {"self": half, "other": 1})

    loaded = graphwire.loads(old, registry=registry(2, halves))
    assert loaded.module()(torch.ones(2)).tolist() == [2.5, 2.5]


def test_a_refusal_names_the_plugin_and_blames_nobody(old: bytes) -> None:
    told = failure_of(old, lambda edit: edit.refuse("there is no such thing"))
    assert "there is no such thing (gw_misuse 1 -> 2 of plugin `misuse` of gw-misuse==1.5) [refused]" in told
    assert "GRAPHWIRE_DISABLE_PLUGINS" not in told
