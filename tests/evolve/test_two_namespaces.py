"""Steps that write operators of another plugin's namespace: the file states its version, and the one that was asked for."""

from __future__ import annotations

import functools
import io
from typing import Any

import pytest
import torch
from given_plugins import Plugin

import graphwire
from graphwire.errors import OpsetError
from graphwire.hooks import OpHandler, OpsetStep
from graphwire.schema import graphs_in


@functools.cache
def operators(namespace: str) -> dict[str, Any]:
    made = {}
    for name in ("old", "new"):

        @torch.library.custom_op(f"{namespace}::{name}", mutates_args=(), schema="(Tensor x) -> Tensor")
        def double(x: Any) -> Any:
            return x * 2

        double.register_fake(torch.empty_like)
        made[f"torch.ops.{namespace}.{name}.default"] = double._opoverload
    return made


class Handler:
    opset_version, convention = 2, "schema"

    def __init__(self, namespace: str) -> None:
        self.namespace, self.prefixes = namespace, (f"torch.ops.{namespace}.",)

    def name_of(self, target: object) -> None:
        return None

    def resolve(self, name: str) -> Any:
        return operators(self.namespace).get(name)


def history(namespace: str, other: str = "") -> list[OpsetStep]:
    """A namespace whose `new` is `old` in version 1, or `old` of the double of another namespace's `new`."""
    new, old = (f"torch.ops.{namespace}.{name}.default" for name in ("new", "old"))

    def down(edit: Any) -> None:
        value = edit.value("x")
        if other:
            value = edit.emit(f"torch.ops.{other}.new.default", {"x": value}, like=value)
        edit.retarget(old, {"x": value})

    return [OpsetStep(namespace, 1, 2, {}), OpsetStep(namespace, 2, 1, {new: down})]


def registry_of(user: str, used: str) -> graphwire.Registry:
    handlers: list[OpHandler] = [Handler(user), Handler(used)]
    steps = [*history(user, used), *history(used)]
    return graphwire.Registry.discover().extended(Plugin(op_handlers=handlers, opset_upgraders=steps))


class _Model(torch.nn.Module):
    def __init__(self, *namespaces: str, nested: bool) -> None:
        super().__init__()
        self.namespaces, self.nested = namespaces, nested

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.nested:
            return torch.cond(x.sum() > 0, self._calls, torch.neg, (x,))
        return self._calls(x)

    def _calls(self, x: torch.Tensor) -> torch.Tensor:
        for namespace in self.namespaces:
            x = getattr(torch.ops, namespace).new(x)
        return x + 0


def _targets(record: Any) -> list[str]:
    return [node.target for graph in graphs_in(record.graph_module.graph) for node in graph.nodes]


@pytest.fixture(params=[False, True], ids=["plain", "nested"])
def nested(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.mark.parametrize(
    ("wanted", "version", "form"), [({}, 2, "new"), ({"gw_used": 2}, 2, "new"), ({"gw_used": 1}, 1, "old")]
)
def test_what_a_step_writes_of_another_namespace_has_the_version_that_was_asked_for(
    wanted: dict[str, int], version: int, form: str, nested: bool
) -> None:
    operators("gw_user"), operators("gw_used")
    registry = registry_of("gw_user", "gw_used")
    program = torch.export.export(_Model("gw_user", nested=nested), (torch.ones(2),))
    given = {"gw_user": 1, **wanted}
    data = graphwire.dumps(program, registry=registry, opset_version=given)
    with graphwire.open(data, registry=registry) as archive:
        record = archive.program
    assert record.opset_version.items() >= {"gw_user": 1, "gw_used": version}.items()
    assert _targets(record).count(f"torch.ops.gw_used.{form}.default") == 1
    loaded = graphwire.loads(data, registry=registry)
    assert loaded.module()(torch.ones(2)).tolist() == [4.0, 4.0]
    assert graphwire.plan_upgrade(
        graphwire.dumps(program, registry=registry), opset_version=given, registry=registry
    )["model"].lines()[0] == ("gw_user 2 -> 1: 1 node")


def test_a_version_of_a_namespace_that_is_not_used_is_not_stated(nested: bool) -> None:
    operators("gw_user"), operators("gw_used")
    registry = registry_of("gw_user", "gw_used")
    program = torch.export.export(_Model("gw_used", nested=nested), (torch.ones(2),))
    data = graphwire.dumps(program, registry=registry, opset_version={"gw_user": 1})
    assert data == graphwire.dumps(program, registry=registry)
    with graphwire.open(data, registry=registry) as archive:
        assert "gw_user" not in archive.program.opset_version


def test_what_comes_too_late_for_its_own_step_is_refused_and_can_be_written_in_two(nested: bool) -> None:
    """The steps of `gw_early` ran before those of `gw_late` write its operators."""
    operators("gw_early"), operators("gw_late")
    registry = registry_of("gw_late", "gw_early")
    program = torch.export.export(_Model("gw_late", "gw_early", nested=nested), (torch.ones(2),))
    with pytest.raises(OpsetError, match="cannot be written in the requested opset") as refused:
        graphwire.dumps(program, registry=registry, opset_version={"gw_early": 1, "gw_late": 1})
    (problem,) = refused.value.problems
    assert problem.kind == "late-operator"
    assert "after the step gw_early 2 -> 1. Write version 1 of gw_late to a file first" in problem.message
    first = graphwire.dumps(program, registry=registry, opset_version={"gw_late": 1})
    second = io.BytesIO()
    graphwire.convert(first, second, registry=registry, opset_version={"gw_early": 1})
    with graphwire.open(second, registry=registry) as archive:
        record = archive.program
    assert _targets(record).count("torch.ops.gw_early.old.default") == 2
    assert record.opset_version.items() >= {"gw_early": 1, "gw_late": 1}.items()
    loaded = graphwire.loads(second.getvalue(), registry=registry)
    assert loaded.module()(torch.ones(2)).tolist() == [8.0, 8.0]
