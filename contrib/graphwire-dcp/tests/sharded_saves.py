"""Saves checkpoints from several processes: `python sharded_saves.py FOLDER PROCESSES…`. Each layout has a folder of its own.

Processes are forked after the imports, and meet at a file. They hold parts of one model with known weights.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

LAYOUTS = {
    "rows": ((2,), [Shard(0)]),
    "columns": ((2,), [Shard(1)]),
    "few_rows": ((4,), [Shard(0)]),
    "grid": ((2, 2), [Shard(0), Shard(1)]),
    "twice_rows": ((2, 2), [Shard(0), Shard(0)]),
    "copies": ((2, 2), [Replicate(), Shard(0)]),
}
"""The mesh and the placements of matrices. Vectors are divided along their only dimension where matrices are divided along 0."""


def make_model() -> torch.nn.Module:
    """Return a model with matrices that two and four processes cannot divide equally."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.ReLU(), torch.nn.Linear(7, 3))
    model.register_buffer("scale", torch.tensor(0.5))
    return model.double()


def _work(rank: int, folder: Path, processes: int) -> None:
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/meet{processes}", rank=rank, world_size=processes
    )
    for name, (shape, placements) in LAYOUTS.items():
        mesh = init_device_mesh("cpu", shape) if torch.Size(shape).numel() == processes else None
        if mesh is None:
            continue
        state = {}
        for key, value in make_model().state_dict().items():
            own = [each if getattr(each, "dim", 0) < value.dim() else Replicate() for each in placements]
            state[key] = distribute_tensor(value, mesh, own)
        dcp.save(state, checkpoint_id=folder / name)
    model = make_model()
    fully_shard(model, mesh=init_device_mesh("cpu", (processes,)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0)
    model(torch.ones(2, 5, dtype=torch.float64)).sum().backward()
    optimizer.step()
    weights, state = get_state_dict(model, optimizer)
    training = {"model": weights, "optimizer": state, "step": 7, "notes": {"seen": [1, 2]}}
    dcp.save(training, checkpoint_id=folder / f"training{processes}")
    dcp.async_save(training, checkpoint_id=folder / f"async{processes}").result()
    dist.destroy_process_group()


def main(folder: Path, processes: int) -> int:
    """Save from so many processes, and return the number of those that failed."""
    children = []
    for rank in range(processes):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                _work(rank, folder, processes)
                status = 0
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        children.append(child)
    return sum(os.waitpid(child, 0)[1] != 0 for child in children)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(sum(main(Path(sys.argv[1]), int(each)) for each in sys.argv[2:]))
