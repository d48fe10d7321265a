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
from safetensors.torch import save_file

import graphwire
from graphwire.errors import GraphwireError
from graphwire.wire.archive.source import FileSource

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
    with graphwire.open(folder / "reduced.pt2") as archive:
        records = archive.program, archive.payloads
        seen["from records"] = error_of(graphwire.from_schema, *records, groups={"0": alone[rank]})
        program = graphwire.from_schema(*records, groups={"0": everyone.group_name})
    seen["from records equals"] = equals_the_whole(program, everyone)
    dist.barrier()
    seen["weights"] = observe_weights(rank, size, folder)
    dist.barrier()
    return seen


class Attention(torch.nn.Module):
    """Causal attention without softmax, so that sums stay whole numbers, and a norm after it, which all ranks compute alike.

    Queries, keys and values are divided by rows, with their biases; the projection of what the heads found is divided by
    columns, and its bias is added once, after the sum over ranks.

    Args:
        rank: whose heads it has; None has all.
    """

    def __init__(self, rank: int | None, group: Any) -> None:
        super().__init__()
        numbers = torch.Generator().manual_seed(1)
        self.group, size = group, 1 if rank is None else dist.get_world_size(group)
        self.heads = HEADS // size
        for name in ("q", "k", "v", "o"):
            weight = torch.randint(-2, 3, (WIDTH, WIDTH), generator=numbers).float()
            bias = torch.randint(-2, 3, (WIDTH,), generator=numbers).float()
            if rank is not None:
                weight = weight.chunk(size, 1 if name == "o" else 0)[rank].clone()
                bias = bias if name == "o" else bias.chunk(size)[rank].clone()
            layer = torch.nn.Linear(weight.shape[1], weight.shape[0])
            layer.weight, layer.bias = torch.nn.Parameter(weight), torch.nn.Parameter(bias)
            self.add_module(name, layer)
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.norm.weight = torch.nn.Parameter(torch.rand(WIDTH, generator=numbers))
        self.register_buffer("mask", torch.ones(BATCH, BATCH).tril())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            each(x).unflatten(1, (self.heads, -1)).transpose(0, 1) for each in (self.q, self.k, self.v)
        )
        found = ((torch.relu(q @ k.mT) * self.mask) @ v).transpose(0, 1).flatten(1)
        y = found @ self.o.weight.T
        if self.group is not None:
            y = functional.all_reduce(y, "sum", self.group)
        return self.norm(x + y + self.o.bias)


HEADS = 4
DIVIDED = {**{f"layer.{each}.*": 0 for each in "qkv"}, "layer.o.weight": 1}


class Reads:
    """Counts what this process reads of files of weights, and which it maps."""

    def __init__(self) -> None:
        self.nbytes = 0
        self.mapped: list[str] = []

    def __enter__(self) -> Reads:
        self.usual = FileSource.read_at, FileSource.read_into, FileSource.map
        read_at, read_into, map_ = self.usual

        def counted(source: Any, offset: int, size: int) -> bytes:
            self.nbytes += size
            return read_at(source, offset, size)

        def counted_into(source: Any, offset: int, memory: memoryview) -> None:
            self.nbytes += memory.nbytes
            read_into(source, offset, memory)

        def noted(source: Any, offset: int, size: int) -> memoryview:
            name = source._open_descriptor().name
            self.mapped.append(name if isinstance(name, str) else "a store")
            return map_(source, offset, size)

        FileSource.read_at, FileSource.read_into, FileSource.map = counted, counted_into, noted  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        FileSource.read_at, FileSource.read_into, FileSource.map = self.usual  # type: ignore[method-assign]


def observe_weights(rank: int, size: int, folder: Path) -> dict[str, Any]:
    """One program for all ranks, whose weights are slices of the unsharded checkpoint."""
    file, saver = folder / "divided.pt2", size - 1
    stored = folder / "hub" / "model.safetensors.index.json"
    whole = Attention(None, None)
    if rank == 0:
        save_shards(whole.state_dict(), stored)
    dist.barrier()
    with torch.no_grad():
        own_program = torch.export.export(Attention(rank, dist.group.WORLD), (X,))
        expected = whole(X)
    if rank == saver:
        chosen = graphwire.Checkpoint(stored, ranks=size, rank=rank, shard=DIVIDED, names="layer.{}".format)
        graphwire.save(own_program, file, weights=chosen)
    dist.barrier()
    seen: dict[str, Any] = {"size": file.stat().st_size}
    with Reads() as reads:
        program = graphwire.load(file, rank=rank)
    with torch.no_grad():
        seen["equal"] = torch.equal(program.module()(X), expected)
    shards = list(stored.parent.glob("*.safetensors"))
    described = stored.stat().st_size
    described += sum(8 + int.from_bytes(shard.read_bytes()[:8], "little") for shard in shards)
    own = sum(each.nbytes for each in program.state_dict.values())
    with Reads() as graph:
        graphwire.load(file, weights=None)
    seen["read beyond the graph and the index"] = reads.nbytes - graph.nbytes - described
    seen["own"] = own
    seen["mapped"] = [name for name in reads.mapped if not name.endswith("divided.pt2")]
    seen["problems"] = [str(each) for each in graphwire.verify(file, rank=rank)]
    graphwire.load(file, rank=rank, verify=True)
    seen["no rank"] = error_of(graphwire.load, file)
    seen["no such rank"] = error_of(graphwire.load, file, rank=size)
    seen["hash"] = graphwire.content_hash(file)
    graphwire.convert(file, folder / f"own_{rank}.pt2", weights=graphwire.IN_FILE, rank=rank)
    with torch.no_grad():
        seen["own file"] = torch.equal(graphwire.load(folder / f"own_{rank}.pt2").module()(X), expected)
    graphwire.convert(file, folder / f"again_{rank}.pt2", format="cbor")
    with torch.no_grad():
        again = graphwire.load(folder / f"again_{rank}.pt2", rank=rank)
        seen["converted"] = torch.equal(again.module()(X), expected)
    shards_by_columns = {name: dim for name, dim in DIVIDED.items() if dim == 0}
    chosen = graphwire.Checkpoint(
        stored, ranks=size, rank=rank, shard=shards_by_columns, names="layer.{}".format
    )
    seen["undivided"] = error_of(graphwire.save, own_program, folder / f"wrong_{rank}.pt2", weights=chosen)
    return seen


def save_shards(state: dict[str, torch.Tensor], index: Path) -> None:
    """Write tensors to two files, as a hub has them."""
    index.parent.mkdir()
    where = {f"layer.{name}": f"model-{number % 2}.safetensors" for number, name in enumerate(state)}
    for file in set(where.values()):
        save_file(
            {f"layer.{name}": each for name, each in state.items() if where[f"layer.{name}"] == file},
            index.parent / file,
        )
    index.write_text(json.dumps({"metadata": {}, "weight_map": where}))


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
