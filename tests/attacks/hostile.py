"""What hostile files are made with: a good file taken apart into records, changed in one place, and put together again."""

from __future__ import annotations

import copy
import io
import json
import re
import warnings
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from inside.wire import ArchiveWriter
from torch import Tensor, nn
from torch.export import Dim, export

import graphwire

DOCUMENT = "models/model.json"
WEIGHTS = "data/weights/model_weights_config.json"
CONSTANTS = "data/constants/model_constants_config.json"

Tree = Any
Change = Callable[[Tree], Any]


class Attack(NamedTuple):
    """A hostile file, and what must become of it."""

    name: str
    make: Callable[[Victim], bytes]
    error: type[Exception] | tuple[type[Exception], ...] | None
    """What loading it raises; None where it loads, and what is loaded is harmless."""
    told: str = ""
    """A pattern that the message matches: what is wrong, and where."""


class Model(nn.Module):
    """A linear layer, a branch with two subgraphs, a buffer, a constant, a keyword argument and a symbolic size."""

    b: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(3, 2)
        self.register_buffer("b", torch.ones(2))

    def forward(self, x: Tensor, *, scale: Tensor) -> Tensor:
        y = self.lin(x) * scale + self.b + torch.tensor([1.0, 2.0])
        return torch.cond(y.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (y,))


@dataclass(frozen=True)
class Victim:
    """A good file in parts."""

    data: bytes
    """The whole file."""
    records: Mapping[str, bytes] = field(repr=False)
    """Its records by name, without the root folder, without those that open every archive, and
    without the manifest."""

    @classmethod
    def of(cls, data: bytes) -> Victim:
        """A file, taken apart."""
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            records = {info.filename.partition("/")[2]: archive.read(info) for info in archive.infolist()}
        opening = ("archive_format", "archive_version", "byteorder", ".data/version", "manifest.json")
        return cls(data, {name: content for name, content in records.items() if name not in opening})

    @property
    def document(self) -> Tree:
        """The program's tree, to be changed."""
        return json.loads(self.records[DOCUMENT])

    def with_records(self, changes: Mapping[str, bytes | None], *, compress: bool = False) -> bytes:
        """The file with some records changed, added, or (None) dropped."""
        stream = io.BytesIO()
        with ArchiveWriter(stream) as archive:
            for name, data in {**self.records, **changes}.items():
                if data is not None:
                    archive.write(name, data, compress=compress)
        return stream.getvalue()

    def with_document(self, *changes: Change) -> bytes:
        """The file with its document changed."""
        tree = self.document
        for change in changes:
            change(tree)
        return self.with_records({DOCUMENT: json.dumps(tree).encode()})

    def with_text(self, old: str, new: str) -> bytes:
        """The file with every occurrence of a text in its document replaced."""
        text = self.records[DOCUMENT].decode()
        assert old in text, old
        return self.with_records({DOCUMENT: text.replace(old, new).encode()})

    def with_config(self, member: str, *changes: Change) -> bytes:
        """The file with one of its payload configs changed."""
        tree = json.loads(self.records[member])
        for change in changes:
            change(tree["config"])
        return self.with_records({member: json.dumps(tree).encode()})


def victim() -> Victim:
    """The good file that all attacks start from."""
    torch.manual_seed(0)
    shapes = {"x": {0: Dim("n", min=2, max=64)}, "scale": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, about its own tracing of the branch
        program = export(Model(), (torch.ones(4, 3),), {"scale": torch.ones(())}, dynamic_shapes=shapes)
    return Victim.of(graphwire.dumps(program))


# --------------------------------------------------------------------------------------------------- changes to trees

_STEP = re.compile(r"\[(\d+)\]|\['([^']*)'\]|([^.\[\]]+)")


def _steps(path: str) -> list[Any]:
    return [int(number) if number else key or name for number, key, name in _STEP.findall(path)]


def get(tree: Tree, path: str) -> Tree:
    """What stands at a path such as `graph.nodes[0].inputs`."""
    for step in _steps(path):
        tree = tree[step]
    return tree


def put(path: str, value: Any) -> Change:
    """A change that sets what stands at a path."""

    def change(tree: Tree) -> None:
        *steps, last = _steps(path)
        for step in steps:
            tree = tree[step]
        tree[last] = copy.deepcopy(value)

    return change


def drop(path: str) -> Change:
    """A change that takes away what stands at a path."""

    def change(tree: Tree) -> None:
        *steps, last = _steps(path)
        for step in steps:
            tree = tree[step]
        del tree[last]

    return change


def append(path: str, value: Any) -> Change:
    """A change that adds to the list at a path."""
    return lambda tree: get(tree, path).append(copy.deepcopy(value))
