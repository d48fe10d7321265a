"""The index file of a model that is stored in several safetensors files (shards), as model hubs have it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import closing

from graphwire.hooks import NewTensor, StoreFolder
from graphwire.lazy import pattern
from graphwire_plugins.stores.safetensors_header import MAX_HEADER_BYTES, problems_error, read_json

SUFFIX = ".safetensors"
INDEX_SUFFIX = ".safetensors.index.json"
_SHARD = pattern(r"(.+)-([0-9]{5})-of-([0-9]{5})\.safetensors", re.DOTALL)


def read_index(folder: StoreFolder, location: str) -> dict[str, str]:
    """Return the location of the shard of each tensor, as an index file lists them.

    Raises:
        ArchiveError: there is no such file, or it is damaged.
    """
    with closing(folder.open(location)) as file:
        if file.size > MAX_HEADER_BYTES:
            raise problems_error(
                [f"the index has {file.size:,} bytes, more than {MAX_HEADER_BYTES:,}"], location
            )
        shards = read_json(file.read_at(0, file.size), location).get("weight_map")
    if type(shards) is not dict:
        raise problems_error(["the index has no object `weight_map`"], location)
    if problems := [
        f"the shard of {name!r:.200} is no text" for name, shard in shards.items() if type(shard) is not str
    ]:
        raise problems_error(problems, location)
    base = location.rpartition("/")[0]
    return {name: f"{base}/{shard}" if base else shard for name, shard in shards.items()}


def index_bytes(shards: Mapping[str, str], nbytes: int) -> bytes:
    """Return an index file.

    Args:
        shards: the name of the file of each tensor; both are in one folder.
        nbytes: the size of all tensors, in bytes.
    """
    tree = {"metadata": {"total_size": nbytes}, "weight_map": shards}
    return f"{json.dumps(tree, indent=2, sort_keys=True)}\n".encode()


def shard_location(stem: str, index: int, count: int) -> str:
    """Return the location of a shard, whose index begins at 0."""
    return f"{stem}-{index + 1:05}-of-{count:05}{SUFFIX}"


def split_into_shards(tensors: Mapping[str, NewTensor], most_bytes: int) -> list[dict[str, NewTensor]]:
    """Divide tensors, in their order, into shards of at most so many bytes. A larger tensor has a shard of its own.

    Returns:
        The shards; one if there is no tensor.
    """
    shards: list[dict[str, NewTensor]] = []
    current: dict[str, NewTensor] = {}
    size = 0
    for name, tensor in tensors.items():
        if tensor.nbytes > most_bytes:
            shards.append({name: tensor})
            continue
        if size + tensor.nbytes > most_bytes:
            shards.append(current)
            current, size = {}, 0
        current[name] = tensor
        size += tensor.nbytes
    return [*shards, current] if current or not shards else shards


def shards_of_one_model(names: Iterable[str]) -> list[str]:
    """Return the names of all shards of the model whose shards these names are, whether or not they are among them; empty if
    the names are not shards of one model."""
    found = [_SHARD.fullmatch(name) for name in names]
    models = {(each[1], int(each[3])) if each else None for each in found}
    model = models.pop() if len(models) == 1 else None
    return [] if model is None else [shard_location(model[0], index, model[1]) for index in range(model[1])]
