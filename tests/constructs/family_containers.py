"""Containers of inputs and outputs."""

from __future__ import annotations

import collections
import dataclasses
import enum
from typing import Any, NamedTuple

import torch
from construct import Family
from torch import Tensor
from torch.utils import _pytree as pytree

containers = Family("containers")


class Color(enum.Enum):
    """Keys that are no text."""

    RED = 1
    BLUE = 2


@dataclasses.dataclass
class TensorPair:
    """A dataclass with a serialized name, one of whose fields may be None."""

    first: Tensor
    second: Tensor
    third: Tensor | None = None


class TensorPoint(NamedTuple):
    """A namedtuple with a serialized name."""

    x: Tensor
    y: Tensor


class Unnamed(NamedTuple):
    """A namedtuple that nobody registered a name for."""

    x: Tensor


@dataclasses.dataclass
class UnnamedPair:
    """A dataclass that is registered without a serialized name."""

    first: Tensor


torch.export.register_dataclass(TensorPair, serialized_type_name="graphwire_constructs.TensorPair")
torch.export.register_dataclass(UnnamedPair)
pytree._register_namedtuple(TensorPoint, serialized_type_name="graphwire_constructs.TensorPoint")

_X = torch.ones(2)
_OUTPUTS: dict[str, Any] = {
    "tuples, lists and dicts in each other": lambda x: {"a": [x, (x + 1, {"b": x})], "c": ((), [], {})},
    "OrderedDict": lambda x: collections.OrderedDict(b=x, a=x + 1),
    "nested defaultdicts": lambda x: collections.defaultdict(
        dict, {"a": collections.defaultdict(list, {"b": x})}
    ),
    "deque": lambda x: collections.deque([x, x + 1], maxlen=3),
    "a namedtuple": lambda x: TensorPoint(x, x + 1),
    "a dataclass": lambda x: TensorPair(x, x + 1),
    "dict keys that are no text": lambda x: {1: x, (2, "a"): x + 1, None: x * 2, 2.5: x, True and "t": x},
    "enum keys": lambda x: {Color.RED: x, Color.BLUE: x + 1},
    "torch.return_types": lambda x: torch.topk(x, 1),
    "torch.Size": lambda x: (x, torch.Size([2, 3])),
}
for _name, _function in _OUTPUTS.items():
    containers.exported(f"output: {_name}", _function, _X, strict=False)
containers.exported("input: a dataclass", lambda pair: pair.first + pair.second, TensorPair(_X, _X))
containers.exported("input: a namedtuple", lambda point: point.x + point.y, TensorPoint(_X, _X))
containers.exported(
    "input: dict keys that are no text", lambda d: d[1] + d[-2], {1: _X, -2: _X}, strict=False
)
containers.exported("input: torch.Size", lambda x, size: x.expand(size), _X, torch.Size((3, 2)))
containers.exported(
    "a namedtuple without a serialized name", lambda u: u.x + 1, Unnamed(_X), refusal="has no serialized name"
)
containers.exported(
    "a dataclass without a serialized name",
    lambda u: u.first + 1,
    UnnamedPair(_X),
    refusal="has no serialized name",
)
