"""Tensor-parallel programs name process groups, which are listed, mapped to those of another job, and checked there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from inside.bridge import is_in_job, world_group, world_groups
from nightly import by_day

import graphwire
from graphwire import LoadReport
from graphwire.cli import main
from graphwire.errors import DecodeError, EncodeError

distributed = pytest.importorskip("torch.distributed")
if not distributed.is_available():
    pytest.skip("this torch cannot distribute", allow_module_level=True)

import torch.distributed._functional_collectives as functional  # noqa: E402

SCRIPT = Path(__file__).with_name("world_process.py")
ALL_REDUCE = "torch.ops._c10d_functional.all_reduce.default"
ALL_GATHER = "torch.ops._c10d_functional.all_gather_into_tensor.default"
SETTINGS: Any = (
    torch.compiler.config
    if hasattr(torch.compiler.config, "compile_on_one_rank")
    else getattr(distributed, "config", None)
)
"""Where torch has its setting `compile_on_one_rank`: 2.13 has it in `torch.distributed.config`."""

# ------------------------------------------------------------------------------------------------------ real worlds

WORLDS = [
    pytest.param(size, marks=[pytest.mark.nightly, pytest.mark.slow]) for size in by_day([4], by_night=[2, 4])
]
"""How many ranks there are. With two, none is outside of the group."""


@pytest.fixture(scope="module", params=WORLDS)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each rank of a world saw."""
    folder = tmp_path_factory.mktemp("world")
    ranks = range(request.param)
    command = [sys.executable, str(SCRIPT)]
    processes = [
        subprocess.Popen(
            [*command, str(rank), str(request.param), str(folder)],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in ranks
    ]
    try:
        told = [process.communicate(timeout=300)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0 for _ in ranks], "\n".join(told)
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in ranks]


def test_each_rank_computes_what_the_unsharded_program_computes(world: list[dict[str, Any]]) -> None:
    ways = ["reduced", "gathered", "scattered"]
    wanted = {name: True for way in ways for name in (way, f"{way}_in_place")}
    assert [seen["equal"] for seen in world] == [wanted for _ in world]


def test_each_rank_reads_its_own_slices_of_the_unsharded_weights(world: list[dict[str, Any]]) -> None:
    for seen in (each["weights"] for each in world):
        assert seen["equal"]
        assert seen["size"] < 16_000
        assert seen["mapped"] == [], "a mapping would read ahead what other ranks need"
        assert seen["read beyond the graph and the index"] <= seen["own"] + 1024 + seen["size"], (
            "rows are read with short gaps; the program's own file, which is small, is read at once"
        )
        assert seen["problems"] == []
        assert (seen["own file"], seen["converted"]) == (True, True)
    assert len({each["weights"]["hash"] for each in world}) == 1


def test_a_divided_program_needs_its_rank(world: list[dict[str, Any]]) -> None:
    for seen in (each["weights"] for each in world):
        assert f"divided between {len(world)} ranks" in seen["no rank"]
        assert "Pass rank=" in seen["no rank"]
        assert f"there is no rank {len(world)}" in seen["no such rank"]
        assert "o.weight: its shape is" in seen["undivided"]


def test_a_group_of_the_file_is_mapped_to_that_of_the_rank(world: list[dict[str, Any]]) -> None:
    assert all(seen["mapped equals"] and seen["mapped by name"] for seen in world)


def test_a_mapped_program_is_saved_and_loaded_with_its_new_names(world: list[dict[str, Any]]) -> None:
    assert [seen["again"] for seen in world] == [[seen["names here"]["pair"]] for seen in world]
    assert all(seen["again equals"] for seen in world)


def test_a_rank_outside_of_the_group_is_told_which_groups_it_is_in(world: list[dict[str, Any]]) -> None:
    for rank, seen in enumerate(world):
        if rank < 2:
            assert seen["unmapped"] == ""
            continue
        assert (
            "in no process group '1', which reduce_scatter_tensor, all_gather_into_tensor name"
            in seen["unmapped"]
        )
        assert "groups={'1': …}" in seen["unmapped"]
        assert f"'{seen['names here']['pair']}' of 2 (pair)" in seen["unmapped"]


def test_a_group_of_another_size_is_refused_with_both_sizes(world: list[dict[str, Any]]) -> None:
    for seen in world:
        assert seen["group of the pair"] == ["1", [2]]
        told = seen["of another size"]
        name = seen["names here"]["alone"]
        assert told.startswith("DecodeError: ")
        assert f"'{name}' has size 1 here, and reduce_scatter_tensor, all_gather_into_tensor state 2" in told
        assert "Pass groups={'1': …}" in told


def test_a_size_that_no_collective_states_is_that_of_the_job_that_saved(world: list[dict[str, Any]]) -> None:
    for seen in world:
        name = seen["names here"]["alone"]
        told = (
            f"'{name}', which all_reduce names, has size 1 here, and {len(world)} where the program was saved"
        )
        assert told in seen["size not stated"]
        assert told in seen["from records"]
        assert seen["from records equals"]


def test_a_group_that_is_not_there_is_refused(world: list[dict[str, Any]]) -> None:
    assert all("in no process group 'nowhere'" in seen["not here"] for seen in world)


def test_a_group_that_the_program_does_not_name_is_refused(world: list[dict[str, Any]]) -> None:
    assert all("groups= has '7'" in seen["unknown"] and "It names '1'" in seen["unknown"] for seen in world)


# ------------------------------------------------------------------------------------------- a process without one


class Collectives(torch.nn.Module):
    """Two groups, one of which is named in a branch as well, and never with a size there."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.ops._c10d_functional.all_reduce(x, "sum", "0")
        x = torch.ops._c10d_functional.wait_tensor(x)
        y = torch.ops._c10d_functional.all_gather_into_tensor(x, 2, "5")
        y = torch.ops._c10d_functional.wait_tensor(y)

        def reduced(y: torch.Tensor) -> torch.Tensor:
            return torch.ops._c10d_functional.wait_tensor(
                torch.ops._c10d_functional.all_reduce(y, "max", "5")
            )

        return torch.cond(y.sum() > 0, reduced, lambda y: y + 1, (y,))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("groups") / "collectives.pt2"
    with torch.no_grad():
        graphwire.save(torch.export.export(Collectives(), (torch.ones(4, 3),)), path)
    return path


def groups_of(file: Path) -> dict[str, tuple[list[int], dict[str, int]]]:
    (method,) = graphwire.inspect(file).methods
    return {each.name: (each.sizes, each.operators) for each in method.summary.process_groups}


def test_the_groups_of_a_program_are_listed_with_sizes_and_operators(file: Path) -> None:
    assert groups_of(file) == {"0": ([], {ALL_REDUCE: 1}), "5": ([2], {ALL_GATHER: 1, ALL_REDUCE: 1})}


def test_the_command_line_lists_the_groups(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(file)]) == 0
    _, _, section = capsys.readouterr().out.partition("\nProcess groups\n")
    assert [line.split() for line in section.splitlines()[:3]] == [
        ["name", "size", "operators", "and", "calls"],
        ["0", ALL_REDUCE, "1"],
        ["5", "2", f"{ALL_GATHER}", "1,", ALL_REDUCE, "1"],
    ]
    assert main(["inspect", str(file), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)["methods"][0]["summary"]
    assert [(each["name"], each["sizes"]) for each in summary["process_groups"]] == [("0", []), ("5", [2])]


def test_names_are_exchanged_at_once_in_all_graphs(file: Path, tmp_path: Path) -> None:
    told: list[LoadReport] = []
    program = graphwire.load(file, groups={"0": "5", "5": "0"}, report=told.append)
    graphwire.save(program, tmp_path / "mapped.pt2")
    assert groups_of(tmp_path / "mapped.pt2") == {
        "5": ([], {ALL_REDUCE: 1}),
        "0": ([2], {ALL_GATHER: 1, ALL_REDUCE: 1}),
    }
    assert [(each.step, each.nodes) for each in told[0].steps if "group" in each.step] == [
        ("process group '0' → '5'", ["all_reduce"]),
        ("process group '5' → '0'", ["all_gather_into_tensor", "all_reduce"]),
    ]
    back = graphwire.load(tmp_path / "mapped.pt2", groups={"0": "5", "5": "0"})
    assert graphwire.content_hash(back) == graphwire.content_hash(file)


def test_without_groups_a_program_loads_and_a_call_says_what_it_misses(file: Path) -> None:
    program = graphwire.load(file, groups={"0": "tp"})
    with pytest.raises(RuntimeError, match="tp"):
        program.module()(torch.ones(4, 3))


def test_all_unknown_names_are_listed_with_the_known_ones(file: Path) -> None:
    with pytest.raises(DecodeError, match=r"groups= has '1', 'x', which .* It names '0', '5'"):
        graphwire.load(file, groups={"0": "0", "1": "0", "x": "0"})


def test_a_program_without_collectives_names_none(tmp_path: Path) -> None:
    graphwire.save(torch.export.export(torch.nn.Identity(), (torch.ones(2),)), tmp_path / "plain.pt2")
    with pytest.raises(DecodeError, match="It names no process group"):
        graphwire.load(tmp_path / "plain.pt2", groups={"0": "tp"})
    assert groups_of(tmp_path / "plain.pt2") == {}


@pytest.mark.parametrize(
    "groups", ["0", ["0"], {"0": 3}, {0: "tp"}, {"0": None}, {"0": distributed.GroupMember.NON_GROUP_MEMBER}]
)
def test_what_is_no_mapping_of_names_to_groups_is_refused(file: Path, groups: Any) -> None:
    with pytest.raises(DecodeError, match="groups"):
        graphwire.load(file, groups=groups)


# -------------------------------------------------------------------------------------- other libraries' operators


def add_size(x: torch.Tensor, *, group_name: str, group_size: int) -> None:
    x.add_(group_size)


@pytest.fixture(scope="module")
def library() -> Iterator[None]:
    with torch.library._scoped_library("gw_groups", "FRAGMENT") as made:
        made.define("reduce(Tensor x, str group_name) -> Tensor")
        made.define("reduce_(Tensor(a!) x, *, str group_name, int group_size) -> ()")
        made.impl("reduce", lambda x, group_name: x + len(group_name), "CompositeExplicitAutograd")
        made.impl("reduce_", add_size, "CompositeExplicitAutograd")
        yield


class Foreign(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.ops.gw_groups.reduce(x, "tp:0")
        torch.ops.gw_groups.reduce_(y, group_name="ep", group_size=3)
        return y * 2


@pytest.fixture
def job() -> Iterator[Any]:
    """This process as a world of its own."""
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        yield distributed.group.WORLD
    finally:
        distributed.destroy_process_group()


def test_operators_of_other_libraries_are_listed_and_mapped_but_not_checked(
    library: None, job: Any, tmp_path: Path
) -> None:
    path = tmp_path / "foreign.pt2"
    program = torch.export.export(Foreign(), (torch.ones(2),))
    graphwire.save(program.run_decompositions({}), path)
    assert groups_of(path) == {
        "tp:0": ([], {"torch.ops.gw_groups.reduce.default": 1}),
        "ep": ([3], {"torch.ops.gw_groups.reduce_.default": 1}),
    }
    loaded = graphwire.load(path, groups={"tp:0": "longer", "ep": "x"})
    assert torch.equal(loaded.module()(torch.zeros(2)), torch.full((2,), 2.0 * (len("longer") + 3)))


# ---------------------------------------------------------------------------------------- what a file cannot hold


@pytest.fixture
def program() -> torch.export.ExportedProgram:
    return torch.export.export(torch.nn.Linear(4, 4), (torch.ones(2, 4),))


def mesh() -> Any:
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cpu", (1,), mesh_dim_names=("tp",))


class Bare(torch.Tensor):
    """A subclass with a mesh among its attributes."""


def of_a_mesh() -> torch.Tensor:
    tensor = torch.ones(2).as_subclass(Bare)
    tensor.mesh = mesh()
    return tensor


GROUPS = r"`groups=` of load"
OF_A_JOB = {
    "a mesh": (mesh, "a device mesh", GROUPS),
    "a tensor with a mesh": (of_a_mesh, "a device mesh", GROUPS),
    "a process group": (lambda: distributed.group.WORLD, "a process group", GROUPS),
}


@pytest.mark.parametrize("name", OF_A_JOB)
@pytest.mark.parametrize("home", ["state_dict", "constants"])
def test_what_belongs_to_the_processes_of_a_job_is_refused(
    name: str, home: str, job: Any, program: Any, tmp_path: Path
) -> None:
    make, kind, remedy = OF_A_JOB[name]
    getattr(program, home)["kept"] = made = make()
    getattr(program, home)["tied"] = made
    with pytest.raises(EncodeError, match=rf"kept.* {kind}, .*{remedy}"):
        graphwire.save(program, tmp_path / "refused.pt2")
    assert list(tmp_path.iterdir()) == []


class Barrier(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        distributed.barrier()
        return x + 1


class Passed(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.all_reduce(x, "sum", distributed.group.WORLD) + 1


def test_a_graph_that_holds_objects_of_a_job_is_refused(job: Any, tmp_path: Path) -> None:
    program = torch.export.export(Barrier(), (torch.ones(2),))
    with pytest.raises(EncodeError, match=f"an object of torch.distributed .*{GROUPS}"):
        graphwire.save(program, tmp_path / "refused.pt2")
    assert list(tmp_path.iterdir()) == []


def test_a_process_group_in_a_functional_collective_is_written_by_its_name(job: Any, tmp_path: Path) -> None:
    graphwire.save(torch.export.export(Passed(), (torch.ones(2),)), tmp_path / "passed.pt2")
    assert groups_of(tmp_path / "passed.pt2") == {job.group_name: ([], {ALL_REDUCE: 1})}
    (method,) = graphwire.inspect(tmp_path / "passed.pt2").methods
    assert method.summary.process_groups[0].saved_size == 1
    program = graphwire.load(tmp_path / "passed.pt2", groups={job.group_name: job})
    assert torch.equal(program.module()(torch.ones(2)), torch.full((2,), 2.0))


@pytest.mark.skipif(not hasattr(SETTINGS, "compile_on_one_rank"), reason="this torch exports names only")
def test_a_graph_that_finds_its_group_by_a_mesh_is_refused(job: Any, tmp_path: Path) -> None:
    of_ranks = mesh()

    class OfMesh(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return functional.all_reduce(x, "sum", (of_ranks, 0)) + 1

    with SETTINGS.patch(compile_on_one_rank=True):
        program = torch.export.export(OfMesh(), (torch.ones(2),))
    with pytest.raises(EncodeError, match="without torch's setting `compile_on_one_rank`"):
        graphwire.save(program, tmp_path / "refused.pt2")
    assert list(tmp_path.iterdir()) == []


def test_the_groups_of_this_process_are_those_that_torch_finds(job: Any) -> None:
    made = distributed.new_group([0], group_desc="mine")
    assert is_in_job()
    assert world_groups() == [("0", 1, "default_pg"), (made.group_name, 1, "mine")]
    assert [world_group(each.name) for each in world_groups()] == world_groups()
    assert world_group("nowhere") is None


def test_a_process_without_groups_is_in_no_job() -> None:
    assert not is_in_job()
