"""The plugin passes the contract suites, and a file of each version still computes the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from graphwire_linops import operators, plugin
from graphwire_linops.history import STEPS
from torch.export import ExportedProgram

import graphwire
from graphwire.errors import DecodeError, EncodeError, OpsetError
from graphwire.hooks import Registry, default_registry
from graphwire.testing import OpHandlerContract, OpsetContract

DOCUMENTS = Path(__file__).parent / "documents"
VERSIONS = range(1, plugin.OPSET + 1)


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ops = torch.ops.linops
        h = ops.project(ops.unit(x, 1e-3), x.T, transposed=False)
        turned = ops.project(x, x, True)
        soft = ops.smooth(h) + ops.smooth(turned, 0.25)
        return soft, operators.apply(h, operators.Pointwise.SQUARE)


class Smooth(torch.nn.Module):
    """A model that every version can represent."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.linops.smooth(torch.ops.linops.project(x, x, True))


def model() -> ExportedProgram:
    return torch.export.export(Model(), (torch.arange(12.0).view(3, 4),))


class TestOverloads(OpHandlerContract):
    handler = plugin.LinopsOverloads()
    plugin = plugin
    programs = (model,)
    unknown = ("torch.ops.linops.soften.default", "torch.ops.linops.project")
    steps = STEPS


class TestApply(OpHandlerContract):
    handler = plugin.LinopsApply()
    plugin = plugin
    programs = (model,)
    steps = STEPS


class TestHistory(OpsetContract):
    steps = STEPS
    newest = plugin.OPSET
    programs = (model, lambda: torch.export.export(Smooth(), (torch.ones(3, 4),)))
    documents = tuple(DOCUMENTS / f"opset_{version}.pt2" for version in VERSIONS)
    plugin = plugin


@pytest.fixture(scope="module")
def registry() -> Registry:
    """Return the installed plugins, with this one added if it is not installed."""
    installed = default_registry()
    return installed if "linops" in {each.name for each in installed.plugins} else installed.extended(plugin)


def expected(x: torch.Tensor) -> Iterator[torch.Tensor]:
    """Return what the model of the documents computed, written out with the operators of version 1."""
    weight = torch.linspace(-1, 1, 16).view(4, 4)
    h = x @ weight
    h = h / ((h * h).sum(-1, keepdim=True).sqrt() + 1e-3) @ weight
    yield torch.tanh(h)
    yield torch.tanh(h * 4) / 4
    yield torch.tanh(h) if x.sum() > 0 else torch.tanh(h * 8) / 8
    yield torch.log1p(torch.exp(h))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_file_of_every_version_computes_what_it_did(version: int, sign: int, registry: Registry) -> None:
    x = sign * torch.linspace(0.5, 2, 20).view(5, 4)
    loaded = graphwire.load(DOCUMENTS / f"opset_{version}.pt2", registry=registry)
    torch.testing.assert_close(loaded.module()(x), tuple(expected(x)))
    again = graphwire.loads(graphwire.dumps(loaded, registry=registry), registry=registry)
    torch.testing.assert_close(again.module()(x), tuple(expected(x)))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_file_says_its_version_and_what_wrote_it(version: int) -> None:
    with graphwire.open(DOCUMENTS / f"opset_{version}.pt2") as archive:
        assert archive.program.opset_version == {"aten": 10, "linops": version}
        (requirement,) = archive.program.plugins
        assert (requirement.distribution, requirement.version) == ("graphwire-linops", f"1.{version}.0")


def test_the_plan_of_the_oldest_file_reaches_into_its_branches(registry: Registry) -> None:
    plan = graphwire.plan_upgrade(DOCUMENTS / "opset_1.pt2", registry=registry)["model"]
    assert [str(step) for step in plan.steps] == ["linops 1 -> 2", "linops 2 -> 3", "linops 3 -> 4"]
    assert [len(step.nodes) for step in plan.steps] == [1, 1, 4]
    assert sum(".as_graph.graph.nodes[" in node.place for node in plan.steps[2].nodes) == 2


def test_an_upgraded_file_needs_the_plugin_of_now(tmp_path: Path, registry: Registry) -> None:
    path = tmp_path / "upgraded.pt2"
    graphwire.upgrade(DOCUMENTS / "opset_1.pt2", path, registry=registry)
    with graphwire.open(path) as archive:
        program = archive.program
    assert program.opset_version == {"aten": 10, "linops": 4}
    assert program.requires == ["propagate"]
    names = {name for requirement in program.plugins for name in requirement.provides}
    assert "op_handler:torch.ops.linops.norm_project.default" not in names
    x = torch.ones(2, 4)
    torch.testing.assert_close(graphwire.load(path, registry=registry).module()(x), tuple(expected(x)))


def test_it_goes_down_where_that_can_be_said(registry: Registry) -> None:
    program = torch.export.export(Smooth(), (torch.ones(3, 4),))
    x = torch.linspace(-1, 1, 12).view(3, 4)
    for version in (3, 2, 1):
        data = graphwire.dumps(program, opset_version={"linops": version}, registry=registry)
        with graphwire.open(data) as archive:
            nodes = archive.program.graph_module.graph.nodes
            assert nodes[-1].target == "torch.ops.linops.soften.default"
            assert ("torch.ops.aten.t.default" in [node.target for node in nodes]) is (version == 1)
        assert torch.equal(graphwire.loads(data, registry=registry).module()(x), program.module()(x))


def test_what_an_old_version_cannot_say_is_refused_with_its_place(registry: Registry) -> None:
    with pytest.raises(OpsetError, match="unit rows") as caught:
        graphwire.dumps(model(), opset_version={"linops": 2}, registry=registry)
    assert [problem.place for problem in caught.value.problems] == ["graph_module.graph.nodes[0]"]


def test_a_function_that_nobody_knows_is_refused(registry: Registry) -> None:
    handler = plugin.LinopsApply()
    with pytest.raises(EncodeError, match="does not support the function"):
        handler.encode_node(operators.apply, (torch.ones(1), torch.relu), {}, lambda value: value)
    record, payloads = graphwire.to_schema(model(), registry=registry)
    node = record.graph_module.graph.nodes[-1]
    node.inputs[1].arg.as_string = "system"
    with pytest.raises(DecodeError, match="square, softplus") as caught:
        graphwire.from_schema(record, payloads, registry=registry)
    assert node.name is not None
    assert node.name in caught.value.place
