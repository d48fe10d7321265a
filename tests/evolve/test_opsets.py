"""Plans between opsets: chains without a gap, up and down; what is missing is said; and the public functions use them."""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from given_plugins import registry_with
from inside.evolve import Change, apply, planner
from msgspec.structs import replace
from torch.export import ExportedProgram

import graphwire
from graphwire.cli import main
from graphwire.errors import OpsetError, UnknownOperatorError
from graphwire.hooks import (
    NodeEditor,
    OpsetStep,
    OpsetUpgrader,
    Registry,
    default_registry,
    opset_steps,
)
from graphwire.schema import (
    Graph,
    GraphModule,
    GraphSignature,
    Node,
    PluginRequirement,
    Program,
    SchemaVersion,
)

_LIBRARY = torch.library.Library("gwopsets", "DEF")
for _name in ("twice", "half"):
    _LIBRARY.define(f"{_name}(Tensor x) -> Tensor")
_LIBRARY.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
_LIBRARY.impl("half", lambda x: x / 2, "CompositeExplicitAutograd")
torch.library.register_fake("gwopsets::twice", torch.empty_like, lib=_LIBRARY)

TWICE, HALF = "torch.ops.gwopsets.twice.default", "torch.ops.gwopsets.half.default"


class Handler:
    """The operators of the library, at an opset."""

    namespace = "gwopsets"
    prefixes = ("torch.ops.gwopsets.",)
    convention = "schema"

    def __init__(self, opset_version: int) -> None:
        self.opset_version = opset_version

    def name_of(self, target: Any) -> str | None:
        return None

    def resolve(self, name: str) -> Any:
        return {TWICE: torch.ops.gwopsets.twice.default, HALF: torch.ops.gwopsets.half.default}.get(name)


def registry_at(opset_version: int, *steps: OpsetUpgrader) -> Registry:
    return registry_with(op_handlers=[Handler(opset_version)], opset_upgraders=steps)


def retarget(target: str) -> Callable[[NodeEditor], None]:
    return lambda edit: edit.retarget(target)


def step(
    start: int, end: int, namespace: str = "gwopsets", **operators: Callable[[NodeEditor], None]
) -> OpsetStep:
    return OpsetStep(
        namespace, start, end, {f"torch.ops.{namespace}.{k}.default": v for k, v in operators.items()}
    )


def program_with(*targets: str, **opsets: int) -> Program:
    """Records of calls without arguments or results, which a plan needs no more of."""
    nodes = [Node(target, [], [], {}, name=f"node_{i}") for i, target in enumerate(targets)]
    module = GraphModule(Graph([], [], nodes, {}, {}, {}), GraphSignature([], []), [])
    return Program(module, opsets, {}, SchemaVersion(8, 20), torch_version="2.13.0")


def targets_of(program: Program) -> list[str]:
    return [node.target for node in program.graph_module.graph.nodes]


# ----------------------------------------------------------------------------------------------------------- planning


@pytest.mark.parametrize(("has", "wants"), [(0, 3), (3, 0)])
def test_a_namespace_that_keeps_no_versions_needs_nothing(has: int, wants: int) -> None:
    assert planner.plan(program_with(lib=has), {"lib": wants}, []).steps == ()


def test_the_chain_is_found_in_any_order_and_through_several_upgraders_of_a_step() -> None:
    a, b, c, d = (f"torch.ops.lib.{x}.default" for x in "abcd")
    steps = [
        step(3, 4, "lib", c=retarget(d)),
        step(1, 2, "lib", a=retarget(b)),
        OpsetStep("lib", 2, 3, {b: retarget(c)}),
        OpsetStep("lib", 2, 3, {d: retarget(a)}),
        step(4, 5, "lib", d=retarget(a)),
    ]
    program = program_with(a, b, d, "torch.ops.other.x.default", lib=1)
    found = planner.plan(program, {"lib": 4}, steps)
    assert [str(each) for each in found.steps] == ["lib 1 -> 2", "lib 2 -> 3", "lib 3 -> 4"]
    assert [[node.name for node in each.nodes] for each in found.steps] == [
        ["node_0"],
        ["node_0", "node_1", "node_2"],
        ["node_0", "node_1"],
    ]
    after = apply(program, found)
    assert targets_of(after) == [d, d, a, "torch.ops.other.x.default"]
    assert after.opset_version == {"lib": 4}
    assert program.opset_version == {"lib": 1}


def test_a_step_that_changes_nothing_still_has_to_be_there() -> None:
    program = program_with("torch.ops.lib.a.default", lib=1)
    steps = [step(1, 2, "lib"), step(3, 4, "lib")]
    with pytest.raises(OpsetError, match="no upgrader from 2 to 3") as caught:
        planner.plan(program, {"lib": 4}, steps)
    assert caught.value.problems[0].place == "opset_version['lib']"
    assert planner.plan(program, {"lib": 4}, [*steps, step(2, 3, "lib")]).opset_version == {"lib": 4}


def test_the_refusal_of_a_newer_program_names_what_to_install() -> None:
    program = replace(
        program_with(TWICE, gwopsets=7),
        plugins=[PluginRequirement("gwopsets-lib", "2.5", [f"op_handler:{TWICE}"])],
    )
    with pytest.raises(OpsetError, match="no downgrader from 7 to 6") as caught:
        graphwire.from_schema(program, graphwire.to_schema(export())[1], registry=registry_at(3))
    assert "comes from 'gwopsets-lib>=2.5': check" in str(caught.value)


def test_what_is_wrong_is_told_together() -> None:
    program = program_with(aten=12, one=1, two=9, three=1)
    with pytest.raises(OpsetError) as caught:
        planner.plan(
            program, {"aten": 10, "one": 2, "two": 8}, [], remedy_of=lambda gap: f"update {gap.namespace}"
        )
    assert [problem.kind for problem in caught.value.problems] == ["missing-step"] * 3 + ["unknown-namespace"]
    assert caught.value.remedy == "update aten. update one. update two. update three"
    found = planner.plan(program, {"aten": 10, "one": 2, "two": 8}, [], unknown="opaque")
    assert found.opaque == ("aten", "one", "two", "three")
    assert found.opset_version == program.opset_version


def test_atens_steps_come_first_on_the_way_up_and_last_on_the_way_down() -> None:
    steps = [step(a, b, name) for name in ("aaa", "aten", "zzz") for a, b in ((1, 2), (2, 1))]
    up = planner.plan(program_with(aaa=1, aten=1, zzz=1), {"aaa": 2, "aten": 2, "zzz": 2}, steps)
    assert [each.namespace for each in up.steps] == ["aten", "aaa", "zzz"]
    down = planner.plan(program_with(aaa=2, aten=2, zzz=2), {"aaa": 1, "aten": 1, "zzz": 1}, steps)
    assert [each.namespace for each in down.steps] == ["aaa", "zzz", "aten"]
    mixed = planner.plan(program_with(aaa=2, aten=1), {"aaa": 1, "aten": 2}, steps)
    assert [each.namespace for each in mixed.steps] == ["aten", "aaa"]


def test_a_plan_is_data_that_can_be_printed() -> None:
    program = program_with("torch.ops.lib.a.default", lib=1)
    found = planner.plan(
        program, {"lib": 2}, [step(1, 2, "lib", a=lambda edit: edit.refuse("it has no name"))]
    )
    assert found.lines() == [
        "lib 1 -> 2: 1 node",
        "  graph_module.graph.nodes[0] node_0: torch.ops.lib.a.default",
        "  graph_module.graph.nodes[0]: torch.ops.lib.a.default: it has no name [refused]",
    ]
    assert json.loads(json.dumps(found.to_tree()))["steps"][0]["nodes"][0]["name"] == "node_0"
    assert repr(found.steps[0]) == "<PlannedStep: lib 1 -> 2, nodes: 1>"
    assert found.problems == found.steps[0].problems


def test_changes_make_every_step_of_a_namespace_up_and_back() -> None:
    up, down = retarget("torch.ops.lib.b.default"), retarget("torch.ops.lib.a.default")
    changes = [
        Change(3, "torch.ops.lib.a.default", up, down, "torch.ops.lib.b.default"),
        Change(3, "torch.ops.lib.c.default", up),
    ]
    assert opset_steps("lib", 3, changes) == (
        OpsetStep("lib", 1, 2, {}),
        OpsetStep("lib", 2, 1, {}),
        OpsetStep("lib", 2, 3, {"torch.ops.lib.a.default": up, "torch.ops.lib.c.default": up}),
        OpsetStep("lib", 3, 2, {"torch.ops.lib.b.default": down}),
    )


# ------------------------------------------------------------------------------------------------- public functions


def export() -> ExportedProgram:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.gwopsets.twice(x) + 1

    return torch.export.export(Model(), (torch.ones(3),))


@pytest.fixture(scope="module")
def old_file() -> bytes:
    """What the library wrote when it was at version 1: `twice` meant to halve."""
    return graphwire.dumps(export(), registry=registry_at(1), format="msgpack")


HALVED = step(1, 2, twice=retarget(HALF))
DOUBLED = step(2, 1, half=retarget(TWICE))


def test_an_old_file_is_upgraded_when_it_is_loaded(old_file: bytes) -> None:
    x = torch.tensor([4.0])
    assert graphwire.loads(old_file, registry=registry_at(1)).module()(torch.ones(3)).tolist() == [3.0] * 3
    loaded = graphwire.loads(old_file, registry=registry_at(2, HALVED))
    assert loaded.module()(torch.ones(3)).tolist() == [1.5] * 3
    assert graphwire.to_schema(loaded, registry=registry_at(2))[0].opset_version["gwopsets"] == 2
    assert x.item() == 4.0


def test_another_version_is_written_when_it_is_asked_for() -> None:
    registry = registry_at(2, HALVED, DOUBLED)

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.gwopsets.half(x)

    program = torch.export.export(Model(), (torch.ones(3),))
    data = graphwire.dumps(program, registry=registry, opset_version={"gwopsets": 1})
    with graphwire.open(data) as archive:
        assert archive.program.opset_version["gwopsets"] == 1
        assert targets_of(archive.program) == [TWICE]
    assert graphwire.loads(data, registry=registry).module()(torch.ones(3)).tolist() == [0.5] * 3
    with pytest.raises(OpsetError, match="no upgrader from 2 to 3"):
        graphwire.dumps(program, registry=registry, opset_version={"gwopsets": 3})


@pytest.mark.parametrize(("wanted", "message"), [({"atne": 9}, "atne"), ({"aten": 0}, "counted from 1")])
def test_a_version_that_cannot_be_is_told(wanted: dict[str, int], message: str) -> None:
    with pytest.raises(OpsetError, match=message):
        graphwire.dumps(export(), opset_version=wanted)


def test_a_namespace_that_the_program_does_not_use_may_be_asked_for() -> None:
    plain = torch.export.export(torch.nn.ReLU(), (torch.ones(2),))
    registry = registry_at(2)
    data = graphwire.dumps(plain, opset_version={"gwopsets": 1}, registry=registry)
    assert data == graphwire.dumps(plain, registry=registry)


def test_convert_keeps_the_versions_unless_it_is_asked(old_file: bytes) -> None:
    same, newer = io.BytesIO(), io.BytesIO()
    graphwire.convert(old_file, same, format="json")
    with graphwire.open(same.getvalue()) as archive:
        assert archive.program.opset_version["gwopsets"] == 1
    registry = registry_at(2, HALVED)
    graphwire.convert(old_file, newer, format="json", opset_version={"gwopsets": 2}, registry=registry)
    with graphwire.open(newer.getvalue()) as archive:
        assert targets_of(archive.program)[0] == HALF


def test_upgrade_writes_the_installed_versions_in_the_format_of_the_file(old_file: bytes) -> None:
    file = io.BytesIO()
    plans = graphwire.upgrade(old_file, file, registry=registry_at(2, HALVED))
    assert [str(each) for each in plans["model"].steps] == ["gwopsets 1 -> 2"]
    with graphwire.open(file.getvalue()) as archive:
        assert archive.format_of("model") == "msgpack"
        assert archive.program.opset_version == {"aten": 10, "gwopsets": 2}
    again = io.BytesIO()
    assert graphwire.upgrade(file.getvalue(), again, registry=registry_at(2))["model"].steps == ()
    assert again.getvalue() == file.getvalue()


def test_upgraders_that_make_an_invalid_program_are_named(old_file: bytes) -> None:
    registry = registry_at(2, step(1, 2, twice=retarget("no operator at all")))
    with pytest.raises(OpsetError, match=r"gwopsets 1 -> 2") as caught:
        graphwire.loads(old_file, registry=registry)
    assert caught.value.problems[0].kind == "target"


# --------------------------------------------------------------------------------------------------- the command line


def test_the_command_plans_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "old.pt2", tmp_path / "new.pt2"
    program = torch.export.export(torch.nn.GELU(), (torch.ones(2),))
    path.write_bytes(graphwire.dumps(program, opset_version={"aten": 9}))
    before = path.read_bytes()
    assert main(["upgrade", str(path), "--plan"]) == 0
    text = capsys.readouterr().out
    assert "aten 9 -> 10: 1 node\n" in text
    assert "graph_module.graph.nodes[0] gelu: torch.ops.aten.gelu.default" in text
    assert path.read_bytes() == before
    assert main(["upgrade", str(path)]) == 2
    assert "Pass --in-place" in capsys.readouterr().err
    assert path.read_bytes() == before
    assert main(["upgrade", str(path), "--output", str(out)]) == 0
    with graphwire.open(out) as archive:
        assert archive.program.opset_version == {"aten": 10}
    capsys.readouterr()
    assert main(["upgrade", str(path), "--json", "--in-place"]) == 0
    tree = json.loads(capsys.readouterr().out)
    assert tree["file"] == str(path)
    assert tree["programs"]["model"]["steps"][0]["to_version"] == 10
    assert path.read_bytes() == out.read_bytes()
    done = path.stat().st_mtime_ns
    assert main(["upgrade", str(path), "--in-place"]) == 0
    assert capsys.readouterr().out == f"{path}\n  nothing to do\n"
    assert path.stat().st_mtime_ns == done


# ----------------------------------------------------------------------------------------------------- missing plugins


# -------------------------------------------------------------------------------------------------------------- opaque


def test_an_opaque_operator_can_be_looked_at_but_not_run_and_is_saved_as_it_was(old_file: bytes) -> None:
    for registry, name in ((default_registry(), "unknown"), (registry_at(2), "another version")):
        loaded = graphwire.loads(old_file, registry=registry, unknown_ops="opaque")
        node = next(node for node in loaded.graph.nodes if node.op == "call_function")
        assert TWICE in str(node.target), name
        assert node.meta["val"].shape == (3,)
        with pytest.raises(UnknownOperatorError, match="gwopsets"):
            loaded.module()(torch.ones(3))
        assert graphwire.dumps(loaded, registry=registry, format="msgpack") == old_file


def test_opaque_operators_keep_every_form_of_call() -> None:
    library = torch.library.Library("gwforms", "DEF")
    library.define("many(Tensor x, int n=2, *, str mode, Tensor[] others) -> (Tensor, Tensor)")
    library.define("listed(Tensor x, SymInt[] sizes) -> Tensor[]")
    library.define("nothing(Tensor x) -> ()")
    library.impl("many", lambda x, n=2, *, mode, others: (x.clone(), x + n), "CompositeExplicitAutograd")
    library.impl("listed", lambda x, sizes: [x.clone(), x + 1], "CompositeExplicitAutograd")
    library.impl("nothing", lambda x: None, "CompositeExplicitAutograd")

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            ops = torch.ops.gwforms
            ops.nothing(x)
            a, _ = ops.many(x, 3, mode="m", others=[x, x])
            _, b = ops.many(x, mode="m", others=[])
            c = ops.listed(x, sizes=[1, x.shape[0]])
            return a + b, c[1]

    program = torch.export.export(Model(), (torch.ones(3, 2),), dynamic_shapes=({0: torch.export.Dim("n")},))
    data = graphwire.dumps(program)
    library._destroy()
    with pytest.raises(UnknownOperatorError, match="3 operators"):
        graphwire.loads(data)
    loaded = graphwire.loads(data, unknown_ops="opaque")
    assert graphwire.dumps(loaded) == data


# --------------------------------------------------------------------------------------------------------- propagation


def test_what_an_upgrader_leaves_open_is_found_at_load(old_file: bytes) -> None:
    def through_others(edit: NodeEditor) -> None:
        x = edit.value("x")
        wide = edit.emit("torch.ops.aten.unsqueeze.default", {"self": x, "dim": 0})
        low, _ = edit.emit_all("torch.ops.aten.max.dim", {"self": wide, "dim": 0}, ["tensor", "tensor"])
        parts = edit.emit_all(
            "torch.ops.aten.split.Tensor", {"self": low, "split_size": 2}, ["tensor"] * 2, listed=True
        )
        joined = edit.emit("torch.ops.aten.cat.default", {"tensors": list(parts)})
        edit.retarget(TWICE, {"x": joined})

    registry = registry_at(2, step(1, 2, twice=through_others))
    loaded = graphwire.loads(old_file, registry=registry)
    shapes = {node.name: node.meta["val"] for node in loaded.graph.nodes if node.op == "call_function"}
    assert shapes["unsqueeze"].shape == (1, 3)
    assert [tuple(each.shape) for each in shapes["max_1"]] == [(3,), (3,)]
    assert [tuple(each.shape) for each in shapes["split"]] == [(2,), (1,)]
    assert loaded.module()(torch.ones(3)).tolist() == [3.0] * 3
    data = graphwire.dumps(loaded, registry=registry)
    with graphwire.open(data) as archive:
        assert archive.program.requires == []
    assert graphwire.dumps(graphwire.loads(data, registry=registry), registry=registry) == data


def test_symbolic_sizes_and_new_symbols_are_propagated() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.gwopsets.twice(x).sum()

    program = torch.export.export(
        Model(), (torch.ones(3, 2),), dynamic_shapes=({0: torch.export.Dim("n", max=64)},)
    )

    def through_others(edit: NodeEditor) -> None:
        x = edit.value("x")
        flat = edit.emit("torch.ops.aten.cat.default", {"tensors": [x, x]})
        places = edit.emit("torch.ops.aten.nonzero.default", {"self": flat})
        edit.emit("torch.ops.aten.sum.default", {"self": places})
        edit.retarget(TWICE, {"x": x})

    old = graphwire.dumps(program, registry=registry_at(1))
    registry = registry_at(2, step(1, 2, twice=through_others))
    loaded = graphwire.loads(old, registry=registry)
    values = {node.name: node.meta["val"] for node in loaded.graph.nodes if "val" in node.meta}
    assert "2*" in str(values["cat"].shape[0])
    assert str(values["nonzero"].shape[0]).startswith("u")
    bindings = {node.name: node.meta.get("unbacked_bindings") for node in loaded.graph.nodes}
    assert bindings["nonzero"]
    assert loaded.module()(torch.ones(5, 2)).item() == 20
    again = graphwire.loads(graphwire.dumps(loaded, registry=registry), registry=registry)
    assert again.module()(torch.ones(4, 2)).item() == 16


def test_what_cannot_be_propagated_is_told_with_the_node(old_file: bytes) -> None:
    def impossible(edit: NodeEditor) -> None:
        x = edit.value("x")
        edit.emit(
            "torch.ops.aten.matmul.default",
            {"self": x, "other": edit.emit("torch.ops.aten.sum.default", {"self": x})},
        )

    with pytest.raises(
        graphwire.errors.DecodeError, match=r"results of .*matmul.default cannot be computed"
    ) as caught:
        graphwire.loads(old_file, registry=registry_at(2, step(1, 2, twice=impossible)))
    assert "matmul" in caught.value.place


def test_a_file_that_leaves_values_open_says_so_and_is_checked(old_file: bytes) -> None:
    undeclared = step(1, 2, twice=lambda edit: edit.propagate())
    file = io.BytesIO()
    with pytest.raises(OpsetError, match=r"no installed opset upgrader declares .*gwopsets.twice") as caught:
        graphwire.upgrade(old_file, file, registry=registry_at(2, undeclared))
    assert [problem.place for problem in caught.value.problems] == ["graph_module.graph.nodes[0].propagate"]
    assert file.getvalue() == b""
    registry = registry_at(2, undeclared._replace(propagates={TWICE}))
    graphwire.upgrade(old_file, file, registry=registry)
    with graphwire.open(file.getvalue()) as archive:
        program = archive.program
        assert program.requires == ["propagate"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (
            graphwire.loads(file.getvalue(), registry=registry).module()(torch.ones(3)).tolist() == [3.0] * 3
        )
    with pytest.raises(OpsetError, match="no installed opset upgrader declares"):
        graphwire.loads(file.getvalue(), registry=registry_at(2))
    # A reader of an earlier version has no upgrader that tells it what may be left open.
    down = step(2, 1, twice=lambda edit: edit.propagate())._replace(propagates={TWICE})
    with pytest.warns(
        graphwire.errors.GraphwireWarning,
        match=r"(?s)no earlier opset upgrader declares .*plugins of the earlier version.*GRAPHWIRE_DISABLE_PLUGINS",
    ):
        graphwire.convert(
            file.getvalue(), io.BytesIO(), opset_version={"gwopsets": 1}, registry=registry_at(2, down)
        )
    with pytest.raises(graphwire.errors.ValidationError, match="requires"):
        graphwire.decode(graphwire.encode(replace(program, requires=[])), "json")
