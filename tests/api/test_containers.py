"""Inputs and outputs of container types that nobody registered a serialized name for: an error, or plain containers."""

from __future__ import annotations

import collections
import dataclasses
import enum
import io
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from this_torch import written_for_this_torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

import graphwire
from graphwire.errors import EncodeError
from graphwire.testing import assert_same_values


class Nameless(NamedTuple):
    mean: Any
    rest: Any


@dataclasses.dataclass
class Settings:
    scale: Any
    shift: Any = None
    inner: Any = None


class Bag:
    def __init__(self, items: list[Any]) -> None:
        self.items = items


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor, pair: Nameless, *, settings: Settings) -> Any:
        y = x * settings.scale + settings.inner["k"] + pair.mean
        return Nameless(y.mean(), [Settings(y, None, Nameless(y + 1, pair.rest))]), (y,)


@pytest.fixture(scope="module", autouse=True)
def _flattened() -> None:
    if Settings not in pytree.SUPPORTED_NODES:
        pytree.register_dataclass(Settings)
        pytree.register_pytree_node(Bag, lambda bag: (bag.items, None), lambda items, _: Bag(list(items)))


@pytest.fixture
def program() -> ExportedProgram:
    x = torch.ones(3)
    settings = Settings(x, inner={"k": x})
    return torch.export.export(Model(), (x, Nameless(x, x + 1)), {"settings": settings})


def plain(value: Any) -> Any:
    """What `containers="plain"` makes of a value."""
    if isinstance(value, Nameless):
        return tuple(map(plain, value))
    if isinstance(value, Settings):
        return {name: plain(held) for name, held in vars(value).items() if held is not None}
    if isinstance(value, (tuple, list)):
        return type(value)(map(plain, value))
    return {k: plain(v) for k, v in value.items()} if isinstance(value, dict) else value


def test_by_default_the_error_has_the_line_to_add_and_the_other_way(program: ExportedProgram) -> None:
    with pytest.raises(EncodeError) as caught:
        graphwire.dumps(program)
    name = f"{__name__}.Nameless"
    line = f"torch.utils._pytree._register_namedtuple(Nameless, serialized_type_name={name!r})"
    assert line in caught.value.remedy
    assert 'containers="plain"' in caught.value.remedy
    assert caught.value.place.startswith("module_call_graph['']")

    class Other(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Settings:
            return Settings(x + 1)

    with pytest.raises(EncodeError) as caught:
        graphwire.dumps(torch.export.export(Other(), (torch.ones(2),)))
    line = f"torch.export.register_dataclass(Settings, serialized_type_name='{__name__}.Settings')"
    assert line in caught.value.remedy
    assert 'containers="plain"' in caught.value.remedy


@pytest.mark.parametrize("format", ["json", "msgpack", "cbor"])
def test_plain_ones_are_tuples_and_dicts_wherever_they_are_loaded(
    program: ExportedProgram, format: str
) -> None:
    data = graphwire.dumps(program, format=format, containers="plain")
    loaded = graphwire.loads(data)
    args, kwargs = program.example_inputs
    plain_args, plain_kwargs = plain(args), plain(kwargs)
    assert_same_values(loaded.example_inputs, (plain_args, plain_kwargs))
    assert_same_values(loaded.module()(*plain_args, **plain_kwargs), plain(program.module()(*args, **kwargs)))
    assert graphwire.verify(data) == []
    for again in ("named", "plain"):
        assert graphwire.dumps(loaded, format=format, containers=again) == data


def test_a_stranger_loads_the_file(program: ExportedProgram, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.pt2", tmp_path / "theirs.pt2"
    graphwire.save(program, ours, containers="plain")
    theirs.write_bytes(written_for_this_torch(program, containers="plain"))
    code = """
        import sys, torch, graphwire
        x = torch.ones(3)
        arguments = (x, (x, x + 1)), {"settings": {"scale": x, "inner": {"k": x}}}
        for load, path in zip((graphwire.load, torch.export.load), sys.argv[1:]):
            module = load(path).module()
            (mean, [settings]), _ = module(*arguments[0], **arguments[1])
            assert sorted(settings) == ["inner", "scale"] and type(settings["inner"]) is tuple
    """
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code), str(ours), str(theirs)], check=True
    )


def test_types_that_have_a_name_keep_it() -> None:
    class Ordered(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return collections.OrderedDict(a=x + 1, b=x.topk(1))

    program = torch.export.export(Ordered(), (torch.ones(3),))
    assert graphwire.dumps(program, containers="plain") == graphwire.dumps(program)


def test_records_are_plain_too(program: ExportedProgram) -> None:
    record, payloads = graphwire.to_schema(program, containers="plain")
    stream = io.BytesIO()
    graphwire.save(graphwire.from_schema(record, payloads), stream)
    assert stream.getvalue() == graphwire.dumps(program, containers="plain")


def test_another_type_without_a_name_stays_an_error() -> None:
    """Only of namedtuples and dataclasses it is known what their plain form says."""

    class Bagged(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Bag:
            return Bag([x + 1])

    program = torch.export.export(Bagged(), (torch.ones(2),))
    with pytest.raises(EncodeError, match=r"Bag has no serialized name.*register_pytree_node\(Bag"):
        graphwire.dumps(program, containers="plain")


class Color(enum.Enum):
    RED = 1


@pytest.mark.parametrize("format", ["json", "msgpack", "cbor"])
def test_keys_of_every_kind_and_nested_defaultdicts_come_back(format: str) -> None:
    class Keyed(torch.nn.Module):
        def forward(self, x: dict[Any, torch.Tensor]) -> Any:
            made: Any = collections.defaultdict(
                dict, {Color.RED: collections.defaultdict(list, {(1, "a"): x[1] + 1})}
            )
            made[None] = {b"k": {2.5: x[2, "b"] * 2}, True: ()}
            return made

    given = {1: torch.ones(2), (2, "b"): torch.ones(1)}
    program = torch.export.export(Keyed(), (given,))
    data = graphwire.dumps(program, format=format)
    loaded = graphwire.loads(data)
    result, expected = loaded.module()(given), program.module()(given)
    assert_same_values(result, expected)
    assert (result.default_factory, result[Color.RED].default_factory) == (dict, list)
    assert graphwire.dumps(loaded, format=format) == data


class Defaulting(torch.nn.Module):
    def forward(self, x: dict[str, torch.Tensor]) -> Any:
        made: Any = collections.defaultdict(lambda: x, {"sum": collections.defaultdict(list, b=x["a"] + 1)})
        return made


def test_a_defaultdict_whose_factory_cannot_be_written_is_a_plain_dict() -> None:
    given = collections.defaultdict(lambda: torch.zeros(1), a=torch.ones(2))
    program = torch.export.export(Defaulting(), (given,))
    with pytest.raises(
        EncodeError, match=r'default factory .*lambda.* cannot be written.*containers="plain"'
    ):
        graphwire.dumps(program)
    data = graphwire.dumps(program, containers="plain")
    loaded = graphwire.loads(data)
    result = loaded.module()({"a": torch.ones(2)})
    assert type(result) is dict
    assert result["sum"].default_factory is list
    assert_same_values(result["sum"]["b"], torch.full((2,), 2.0))
    assert type(loaded.example_inputs[0][0]) is dict
    assert graphwire.dumps(loaded) == data
