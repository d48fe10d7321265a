"""One process of a world of gloo: tensor-parallel programs, saved by rank 0, loaded and run by each rank.

`python world_process.py RANK SIZE FOLDER` writes what it saw to `FOLDER/RANK.json`.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

import graphwire
from graphwire.errors import GraphwireError

WIDTH, HIDDEN, BATCH = 8, 16, 4


class Whole(torch.nn.Module):
    """The unsharded program. Weights are small whole numbers, so that sums are exact in any order."""

    def __init__(self) -> None:
        super().__init__()
        numbers = torch.Generator().manual_seed(0)
        self.up = torch.nn.Parameter(torch.randint(-3, 4, (HIDDEN, WIDTH), generator=numbers).float())
        self.down = torch.nn.Parameter(torch.randint(-3, 4, (WIDTH, HIDDEN), generator=numbers).float())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ self.up.T) @ self.down.T


def slices(part: int, parts: int) -> dict[str, torch.Tensor]:
    """The rows of `up` and the columns of `down` that a rank holds."""
    whole = Whole()
    return {"up": whole.up.chunk(parts, 0)[part].detach(), "down": whole.down.chunk(parts, 1)[part].detach()}


class Sharded(torch.nn.Module):
    """The same with the slices of one rank, joined by collectives."""

    def __init__(self, join: Callable[[Sharded, torch.Tensor], torch.Tensor], group: Any) -> None:
        super().__init__()
        self.size, self.group = dist.get_world_size(group), group
        for name, each in slices(dist.get_rank(group), self.size).items():
            setattr(self, name, torch.nn.Parameter(each.clone()))
        self.join = join

    def hidden(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ self.up.T)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.join(self, x)


def reduced(self: Sharded, x: torch.Tensor) -> torch.Tensor:
    return functional.all_reduce(self.hidden(x) @ self.down.T, "sum", self.group) + 0


def reduced_in_place(self: Sharded, x: torch.Tensor) -> torch.Tensor:
    y = self.hidden(x) @ self.down.T
    dist.all_reduce(y, group=self.group)
    return y


def gathered(self: Sharded, x: torch.Tensor) -> torch.Tensor:
    hidden = functional.all_gather_tensor(self.hidden(x), 1, self.group)
    down = functional.all_gather_tensor(self.down, 1, self.group)
    return hidden @ down.T


def gathered_in_place(self: Sharded, x: torch.Tensor) -> torch.Tensor:
    hidden, down = self.hidden(x).T.contiguous(), self.down.T.contiguous()
    whole = [torch.empty(each.shape[0] * self.size, each.shape[1]) for each in (hidden, down)]
    dist.all_gather_into_tensor(whole[0], hidden, group=self.group)
    dist.all_gather_into_tensor(whole[1], down, group=self.group)
    return whole[0].T @ whole[1]


def scattered(self: Sharded, x: torch.Tensor) -> torch.Tensor:
    rows = functional.reduce_scatter_tensor(self.hidden(x) @ self.down.T, "sum", 0, self.group)
    return functional.all_gather_tensor(rows, 0, self.group) + 0


def scattered_in_place(self: Sharded, x: torch.Tensor) -> torch.Tensor:
    rows = torch.empty(BATCH // self.size, WIDTH)
    dist.reduce_scatter_tensor(rows, self.hidden(x) @ self.down.T, group=self.group)
    y = torch.empty(BATCH, WIDTH)
    dist.all_gather_into_tensor(y, rows, group=self.group)
    return y


WAYS = (reduced, reduced_in_place, gathered, gathered_in_place, scattered, scattered_in_place)
X = torch.arange(BATCH * WIDTH).reshape(BATCH, WIDTH).float() % 5 - 2


def export(way: Callable[..., torch.Tensor], group: Any, file: Path) -> None:
    with torch.no_grad():
        graphwire.save(torch.export.export(Sharded(way, group), (X,)), file)


def equals_the_whole(program: Any, group: Any) -> bool:
    """Whether the program computes the same as the unsharded one, with this rank's slices in place of those in the file."""
    for name, each in slices(dist.get_rank(group), dist.get_world_size(group)).items():
        program.state_dict[name] = torch.nn.Parameter(each)
    with torch.no_grad():
        return torch.equal(program.module()(X), Whole()(X))


def error_of(call: Callable[..., Any], *args: Any, **options: Any) -> str:
    try:
        call(*args, **options)
    except GraphwireError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def observe(rank: int, size: int, folder: Path) -> dict[str, Any]:
    everyone = dist.group.WORLD
    # Pairs of ranks, as for tensor parallelism inside data parallelism. Each pair has a name of its own.
    pairs = [dist.new_group([first, first + 1], group_desc="pair") for first in range(0, size, 2)]
    alone = [dist.new_group([each]) for each in range(size)]
    pair = pairs[rank // 2]
    if rank == 0:
        for way in WAYS:
            export(way, everyone, folder / f"{way.__name__}.pt2")
        export(scattered, pair, folder / "of_a_pair.pt2")
    dist.barrier()

    seen: dict[str, Any] = {"equal": {}}
    for way in WAYS:
        program = graphwire.load(folder / f"{way.__name__}.pt2")
        seen["equal"][way.__name__] = equals_the_whole(program, everyone)

    file = folder / "of_a_pair.pt2"
    (group,) = graphwire.inspect(file).methods[0].summary.process_groups
    seen["group of the pair"] = [group.name, group.sizes]
    seen["names here"] = {"pair": pair.group_name, "alone": alone[rank].group_name}
    seen["unmapped"] = error_of(graphwire.load, file)
    mapped = graphwire.load(file, groups={group.name: pair})
    seen["mapped equals"] = equals_the_whole(mapped, pair)
    by_name = graphwire.load(file, groups={group.name: pair.group_name})
    seen["mapped by name"] = [str(node) for node in by_name.graph.nodes] == [
        str(n) for n in mapped.graph.nodes
    ]
    graphwire.save(mapped, folder / f"again_{rank}.pt2")
    again = graphwire.load(folder / f"again_{rank}.pt2")
    seen["again"] = [
        each.name
        for each in graphwire.inspect(folder / f"again_{rank}.pt2").methods[0].summary.process_groups
    ]
    seen["again equals"] = equals_the_whole(again, pair)
    seen["of another size"] = error_of(graphwire.load, file, groups={group.name: alone[rank]})
    seen["not here"] = error_of(graphwire.load, file, groups={group.name: "nowhere"})
    seen["unknown"] = error_of(graphwire.load, file, groups={"7": pair})
    seen["size not stated"] = error_of(graphwire.load, folder / "reduced.pt2", groups={"0": alone[rank]})
    dist.barrier()
    return seen


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rank, size, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    dist.init_process_group(
        "gloo", store=dist.FileStore(str(folder / "store"), size), rank=rank, world_size=size
    )
    try:
        seen = observe(rank, size, folder)
    finally:
        dist.destroy_process_group()
    (folder / f"{rank}.json").write_text(json.dumps(seen))


if __name__ == "__main__":
    main()
