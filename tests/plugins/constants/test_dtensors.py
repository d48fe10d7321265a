"""DTensors come back on a mesh of the same names, become whole tensors by choice, and are refused elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings, strategies as st
from nightly import by_day

import graphwire
from graphwire.errors import DecodeError, GraphwireError

distributed = pytest.importorskip("torch.distributed")
if not distributed.is_available():
    pytest.skip("this torch cannot distribute", allow_module_level=True)

from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor  # noqa: E402
from torch.testing._internal.two_tensor import TwoTensor  # noqa: E402

from graphwire_plugins.dtensors import DTensors  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def mesh() -> Iterator[Any]:
    """This process as a job of its own, with a mesh of two dimensions."""
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        yield init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))
    finally:
        distributed.destroy_process_group()


def program_with(**values: Any) -> torch.export.ExportedProgram:
    program = torch.export.export(torch.nn.ReLU(), (torch.ones(2),))
    for name, value in values.items():
        program.state_dict[name] = value
    return program


MADE: dict[str, Callable[[Any], Any]] = {
    "rows": lambda mesh: distribute_tensor(torch.arange(6.0).view(3, 2), mesh["tp"], [Shard(0)]),
    "both": lambda mesh: distribute_tensor(torch.arange(6).view(3, 2), mesh, [Replicate(), Shard(1)]),
    "columns first": lambda mesh: distribute_tensor(
        torch.arange(6.0).view(2, 3).t(), mesh, [Shard(1), Shard(0)]
    ),
    "partial": lambda mesh: DTensor.from_local(torch.ones(3), mesh["tp"], [Partial("max")]),
    "scalar": lambda mesh: distribute_tensor(torch.tensor(2.0), mesh["dp"], [Replicate()]),
    "empty": lambda mesh: distribute_tensor(torch.empty(0, 3), mesh["dp"], [Shard(0)]),
    "parameter": lambda mesh: torch.nn.Parameter(distribute_tensor(torch.ones(2), mesh["tp"], [Shard(0)])),
    "buffer": lambda mesh: torch.nn.Buffer(distribute_tensor(torch.ones(2), mesh["tp"], [Shard(0)])),
    "without names": lambda mesh: distribute_tensor(torch.ones(2), init_device_mesh("cpu", (1,)), [Shard(0)]),
    "inside of another": lambda mesh: TwoTensor(MADE["rows"](mesh), MADE["rows"](mesh)),
}


def parts_of(value: Any) -> list[Any]:
    return [value.a, value.b] if isinstance(value, TwoTensor) else [value]


@pytest.mark.parametrize("name", MADE)
def test_dtensors_come_back_with_placements_and_mesh(name: str, mesh: Any) -> None:
    value = MADE[name](mesh)
    data = graphwire.dumps(program_with(kept=value, tied=value))
    force = value.device_mesh if name == "without names" else mesh
    with force:
        loaded = graphwire.loads(data)
        again = graphwire.dumps(loaded)
    assert again == data
    made = loaded.state_dict["kept"]
    assert loaded.state_dict["tied"] is made
    assert (type(made), made.requires_grad) == (type(value), value.requires_grad)
    assert isinstance(made, torch.nn.Parameter) is isinstance(value, torch.nn.Parameter)
    for mine, theirs in zip(parts_of(made), parts_of(value), strict=True):
        assert (mine.device_mesh, mine.placements, mine._spec) == (
            theirs.device_mesh,
            theirs.placements,
            theirs._spec,
        )
        assert torch.equal(mine.to_local(), theirs.to_local())


@pytest.mark.parametrize("name", [name for name in MADE if name != "inside of another"])
def test_a_program_gets_whole_tensors_that_load_anywhere(name: str, mesh: Any) -> None:
    value = MADE[name](mesh)
    program = program_with(kept=value, tied=value)
    program.constants["constant"] = value
    program._example_inputs = ((value,), {})
    graphwire.full_tensors(program)
    made = program.state_dict["kept"]
    assert program.state_dict["tied"] is made is program.constants["constant"] is program.example_inputs[0][0]
    assert type(made) is {
        "parameter": torch.nn.Parameter,
        "buffer": type(torch.nn.Buffer(torch.ones(1))),
    }.get(name, torch.Tensor)
    assert torch.equal(made, value.full_tensor())
    assert (made.stride(), made.requires_grad) == (value.stride(), value.requires_grad)
    graphwire.loads(graphwire.dumps(program))


class Scaled(torch.nn.Module):
    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight


def test_a_program_of_dtensors_runs_and_is_described_as_before(mesh: Any, tmp_path: Path) -> None:
    x = distribute_tensor(torch.ones(2, 3), mesh["tp"], [Replicate()])
    model = Scaled(distribute_tensor(torch.arange(6.0).view(3, 2), mesh["tp"], [Shard(1)]))
    program = torch.export.export(model, (x,))
    graphwire.save(program, tmp_path / "p.pt2")
    with mesh:
        loaded, module = graphwire.load(tmp_path / "p.pt2"), graphwire.load_module(tmp_path / "p.pt2")
        assert graphwire.content_hash(loaded) == graphwire.content_hash(program)
    expected = program.module()(x)
    for result in (loaded.module()(x), module(x)):
        assert result.placements == expected.placements
        assert torch.equal(result.to_local(), expected.to_local())
    for mine, theirs in zip(loaded.graph.nodes, program.graph.nodes, strict=True):
        kinds = [type(node.meta.get("val")) for node in (mine, theirs)]
        assert kinds[0] is kinds[1] or mine.op == "output"
    graphwire.full_tensors(loaded)
    assert not any(type(node.meta.get("val")) is DTensor for node in loaded.graph.nodes)
    assert torch.equal(loaded.module()(torch.ones(2, 3)), torch.ones(2, 3) @ model.weight.full_tensor())


class Local(torch.nn.Module):
    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.weight = torch.nn.Buffer(weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight.to_local().sum()


def test_a_program_that_takes_a_local_shard_keeps_its_dtensors(mesh: Any) -> None:
    program = torch.export.export(Local(MADE["rows"](mesh)), (torch.ones(2),))
    with mesh:
        loaded = graphwire.loads(graphwire.dumps(program))
    assert torch.equal(loaded.module()(torch.ones(2)), program.module()(torch.ones(2)))
    with pytest.raises(DecodeError, match="takes the local shard of a DTensor"):
        graphwire.full_tensors(loaded)
    assert type(loaded.state_dict["weight"]) is DTensor


# ------------------------------------------------------------------------------------------------ refused


def test_without_its_mesh_a_dtensor_is_refused_by_name(mesh: Any) -> None:
    data = graphwire.dumps(program_with(kept=MADE["both"](mesh)))
    others = {
        r"no `with mesh:` is around": None,
        r"in force are \(1, 1\)": init_device_mesh("cpu", (1, 1)),
        r"in force are \(tp=1\)": mesh["tp"],
    }
    for expected, other in others.items():
        with (
            nullcontext() if other is None else other,
            pytest.raises(DecodeError, match=rf"kept: .*mesh \(dp=1, tp=1\); {expected}"),
        ):
            graphwire.loads(data)


def test_a_process_of_no_job_is_told_what_to_do(mesh: Any, tmp_path: Path) -> None:
    graphwire.save(program_with(kept=MADE["both"](mesh)), tmp_path / "p.pt2")
    code = "import graphwire, sys; assert not graphwire.verify(sys.argv[1]); graphwire.load(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "p.pt2"], capture_output=True, text=True, check=False
    )
    assert re.search(
        r"DecodeError: .*p\.pt2: .*kept: a DTensor on the device mesh \(dp=1, tp=1\) .*full_tensors",
        done.stderr,
    )


NUMBERS = st.integers(-2, 3) | st.sampled_from([2**40, 2**63, True, 1.5, None, "tp"])
TREES = st.recursive(
    NUMBERS | st.sampled_from(["shard", "replicate", "partial", "strided_shard", "sum"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["names", "sizes"]), inner, max_size=2)
    ),
    max_leaves=6,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_any_other_tree_makes_a_tensor_or_an_error_of_ours(data: st.DataObject, mesh: Any) -> None:
    value = MADE[data.draw(st.sampled_from(["rows", "both", "partial", "scalar"]))](mesh)
    tree: Any
    tree, parts = DTensors().encode(value)
    field = data.draw(st.sampled_from(sorted(tree)))
    tree[field] = data.draw(TREES)
    if data.draw(st.booleans()):
        parts = [
            data.draw(st.sampled_from([torch.ones(0), torch.ones(2, 2), torch.ones(3, 2).expand(4, 3, 2)]))
        ]
    with mesh:
        try:
            made = DTensors().decode(tree, parts)
        except GraphwireError:
            return
        assert type(made) is DTensor or isinstance(made, torch.nn.Parameter)
        graphwire.full_tensors(program_with(made=made))


# ------------------------------------------------------------------------------------------------ real processes

BESIDE = """
import sys
sys.path.insert(0, sys.argv[1])
import graphwire_dcp, torch.distributed.checkpoint as dcp

other = f"block-{(rank + 1) % size}.pt2"
dcp.save(model.state_dict(), checkpoint_id="step_1000")
with mesh:
    try:
        graphwire.load(other)
        raise AssertionError("the shard of another process is loaded")
    except graphwire.errors.DecodeError as error:
        assert "up.weight: this is the shard of the process at (" in str(error), error
assert graphwire.content_hash(other) == graphwire.content_hash(f"block-{rank}.pt2")
graphwire.full_tensors(program)
registry = graphwire.Registry.discover().extended(graphwire_dcp)
if rank == 0:
    graphwire.save(program, "stored.pt2", weights=graphwire.Checkpoint("step_1000"), registry=registry)
dist.barrier()
stored = graphwire.load("stored.pt2", registry=registry)
assert torch.equal(stored.state_dict["up.weight"], model.up.weight.full_tensor())
"""


PLACED = """
import os
import pytest
import torch, torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
import graphwire
from graphwire.errors import DecodeError, EncodeError

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
dist.init_process_group("gloo", store=dist.FileStore("job.store", size), rank=rank, world_size=size)
mesh = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("dp", "tp"))
line = init_device_mesh("cpu", (size,), mesh_dim_names=("all",))
whole = torch.arange(35.0).view(5, 7)
mine = torch.full((2,), rank + 1.0)
made = {
    "blocks": distribute_tensor(whole, mesh, [Shard(0), Shard(1)]),
    "blocks turned": distribute_tensor(whole, mesh, [Shard(1), Shard(0)]),
    "one dimension twice": distribute_tensor(whole, mesh, [Shard(0), Shard(0)]),
    "transposed": distribute_tensor(whole.t(), mesh, [Shard(0), Shard(1)]),
    "replicated": distribute_tensor(whole, mesh, [Replicate(), Replicate()]),
    "a part of the mesh": distribute_tensor(whole, mesh["tp"], [Shard(0)]),
    "columns": distribute_tensor(whole, mesh["dp"], [Shard(1)]),
    "partial": DTensor.from_local(mine, mesh, [Partial(), Replicate()]),
    "partial and shard": DTensor.from_local(mine, mesh, [Partial("max"), Shard(0)]),
    "fewer rows than processes": distribute_tensor(torch.ones(1, 3), line, [Shard(0)]),
    "parameter": torch.nn.Parameter(distribute_tensor(whole, mesh, [Replicate(), Shard(0)])),
}
program = torch.export.export(torch.nn.ReLU(), (torch.ones(2),))
program.state_dict.update(made)
for format in ("json", "msgpack", "cbor"):
    data = graphwire.dumps(program, format=format)
    with pytest.raises(DecodeError, match="no `with mesh:` is around"):
        graphwire.loads(data)
    with mesh, line:
        loaded = graphwire.loads(data)
        assert graphwire.dumps(loaded, format=format) == data
    for name, value in made.items():
        found = loaded.state_dict[name]
        assert (type(found), found._spec) == (type(value), value._spec), name
        assert torch.equal(found.to_local(), value.to_local()), name
    with open(f"{rank}.{format}", "wb") as file:
        file.write(data)
dist.barrier()
with mesh, line, pytest.raises(DecodeError, match="this is the shard of the process at"):
    graphwire.load(f"{(rank + 1) % size}.cbor")
graphwire.full_tensors(loaded)
whole_file = graphwire.dumps(loaded)
half = DeviceMesh("cpu", list(range(size // 2)), mesh_dim_names=("half",))
program.state_dict["half"] = distribute_tensor(whole, half, [Shard(0)])
if rank < size // 2:
    on_half = graphwire.dumps(program)
    with mesh, line, half:
        assert graphwire.loads(on_half).state_dict["half"].placements == (Shard(0),)
else:
    with pytest.raises(EncodeError, match="half: it is a DTensor of a mesh that this process is not on"):
        graphwire.dumps(program)
expected = {name: value.full_tensor() for name, value in made.items()}
dist.barrier()
dist.destroy_process_group()
with pytest.raises(DecodeError, match=r"the processes of a job, and this process is in none"):
    graphwire.loads(data)
anywhere = graphwire.loads(whole_file).state_dict
assert all(torch.equal(anywhere[name], value) for name, value in expected.items())
"""


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("size", by_day([4], by_night=[2, 4]))
def test_each_placement_comes_back_in_a_job_of_several_processes(size: int, tmp_path: Path) -> None:
    run_job(PLACED, size, tmp_path)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("size", by_day([2], by_night=[2, 4]))
def test_the_guide_runs_in_several_processes(size: int, tmp_path: Path) -> None:
    page = (ROOT / "docs/guides/several-processes.md").read_text(encoding="utf-8")
    blocks = re.findall(r"(?<!-->\n)^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    run_job(f"{blocks[0]}\n{BESIDE}\ndist.barrier()\n{blocks[1]}", size, tmp_path)


def run_job(code: str, size: int, folder: Path) -> None:
    """Run a script in each of some processes, which find each other by a file in `folder`."""
    (folder / "job.py").write_text(code)
    command = [sys.executable, "job.py", str(ROOT / "contrib/graphwire-dcp")]
    processes = [
        subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(size), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(size)
    ]
    try:
        told = [process.communicate(timeout=300)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * size, "\n".join(told)
