"""What `graphwire` shows: its names, what they import, how values print, and what is logged."""

from __future__ import annotations

import ast
import enum
import importlib
import inspect
import json
import logging
import mmap
import pkgutil
import subprocess
import sys
import typing
import warnings
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import pytest
import torch

import graphwire
import graphwire_plugins
from graphwire.schema import SCHEMA_VERSION, Version

SOURCE = Path(graphwire.__file__)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)
        self.register_buffer("half_", torch.arange(6.0, dtype=torch.bfloat16))
        self.register_buffer("turned", torch.arange(12).reshape(3, 4).t()[1:])

    def forward(self, x):
        for _ in range(40):
            x = x + x
        return self.linear(x) + self.half_.sum() + self.turned.sum()


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("names") / "net.pt2"
    graphwire.save(torch.export.export(Net(), (torch.ones(3, 4),)), path)
    return path


def test_type_checkers_see_the_names_that_are_imported_on_first_access() -> None:
    tree = ast.parse(SOURCE.read_text("utf-8"))
    (block,) = (each for each in tree.body if isinstance(each, ast.If))
    imported = {
        (each.module, alias.name)
        for each in block.body
        if isinstance(each, ast.ImportFrom)
        for alias in each.names
    }
    listed = {(module, name) for module, names in graphwire._NAMES.items() for name in names.split()}
    assert imported == listed | {("graphwire", "errors")}
    assert sorted(name for _, name in imported) == sorted(graphwire.__all__)
    assert all(hasattr(graphwire, name) for name in graphwire.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        graphwire.nonsense  # noqa: B018


def test_dir_shows_the_public_names_alone_whatever_was_imported() -> None:
    for package in pkgutil.iter_modules(graphwire.__path__, "graphwire."):
        if package.name != "graphwire.__main__":
            importlib.import_module(package.name)
    assert {name for name in dir(graphwire) if not name.startswith("__")} == set(graphwire.__all__) - {
        "__version__"
    }
    assert set(graphwire.__all__) <= set(dir(graphwire))


def test_each_public_name_has_a_signature_that_tools_can_read() -> None:
    for name in set(graphwire.__all__) - {"AS_SAVED", "IN_FILE", "__version__", "errors"}:
        value = getattr(graphwire, name)
        if not typing.is_typeddict(value):
            inspect.signature(value)
        if isinstance(value, type) and issubclass(value, msgspec.Struct):
            assert typing.get_type_hints(value).keys() >= set(value.__struct_fields__)


LOADED = """
import json, sys
from graphwire.cli import main
before = set(sys.modules)
code = main(sys.argv[1:])
print(json.dumps(sorted(set(sys.modules))), file=sys.stderr)
sys.exit(code)
"""


def modules_of(*arguments: str) -> set[str]:
    command = [sys.executable, "-c", LOADED, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return set(json.loads(done.stderr))


def test_a_command_imports_what_it_uses(file) -> None:
    loaded = modules_of("--version")
    assert {"graphwire.hooks", "graphwire.schema", "msgspec", "importlib.metadata"}.isdisjoint(loaded)
    assert len([name for name in loaded if name.startswith("graphwire")]) < 12
    loaded = modules_of("inspect", str(file), "--json")
    assert "graphwire.api.archive" in loaded
    assert {"importlib.metadata", "email", "zipfile", "rich", "torch"}.isdisjoint(loaded)
    for unused in (
        "api.programs",
        "api.files",
        "bridge",
        "specification",
        "cli.writing",
        "cli.plugins",
        "analysis.neutral",
    ):
        assert f"graphwire.{unused}" not in loaded


def test_values_print_in_a_line(file) -> None:
    with graphwire.open(file) as archive:
        node = archive.program.graph_module.graph.nodes[0]
        values = [
            archive,
            archive.program,
            archive.program.graph_module,
            archive.program.graph_module.signature,
            archive.report("model"),
            graphwire.inspect(archive.program),
            archive.payloads,
            archive.inspect(str(file)),
        ]
        assert repr(archive.program).startswith("<Program: 4")
        assert repr(node.inputs[0].arg) == "Argument(as_tensor=TensorArgument(name='x'))"
    values += [graphwire.diff(file, file), *graphwire.plan_upgrade(file).values()]
    assert all(len(repr(value)) < 500 and "\n" not in repr(value) for value in values)
    assert "are the same" in str(values[-2])
    assert repr(graphwire.Limits()) == "Limits()"
    pickle = graphwire.PickleLimits(steps=2)
    assert (
        repr(graphwire.Limits(records=1, pickle=pickle)) == "Limits(records=1, pickle=PickleLimits(steps=2))"
    )


def test_a_weight_is_taken_by_name(file) -> None:
    program = graphwire.load(file)
    with graphwire.open(file) as archive:
        payloads = archive.payloads
        weight = payloads["linear.weight"]
        assert (weight.dtype, weight.shape, weight.strides, weight.nbytes) == ("float32", (2, 4), (4, 1), 32)
        for name in ("linear.weight", "linear.bias", "turned"):
            assert np.array_equal(np.asarray(payloads[name]), program.state_dict[name].detach().numpy())
        with pytest.raises(AttributeError, match="NumPy has no array like"):
            payloads["half_"].__array_interface__  # noqa: B018
        assert payloads["half_"].view().nbytes == 12
        assert "turned" in payloads
        assert sorted(payloads) == sorted(program.state_dict)
        with pytest.raises(KeyError, match=r"did you mean 'linear.weight'"):
            payloads["linear.weigth"]


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("expected_opset_version", "installed versions"),
        ("map_location", "device="),
        ("extra_fils", "did you mean 'extra_files'"),
        ("strict", "it takes file, method, device, weights"),
    ],
)
def test_arguments_of_torch_and_typing_errors_get_a_hint(option, hint, file) -> None:
    with pytest.raises(TypeError, match=rf"unexpected keyword argument '{option}'; .*{hint}"):
        graphwire.load(file, **{option: None})


@pytest.mark.parametrize(
    ("name", "meant"), [("hash", "content_hash"), ("schemas", ""), ("module", "load_module")]
)
def test_a_name_that_is_a_word_of_others_gets_a_hint(name: str, meant: str) -> None:
    with pytest.raises(
        AttributeError,
        match=f"has no attribute '{name}'" + (f"; there is graphwire.{meant}" if meant else "$"),
    ):
        getattr(graphwire, name)


def test_what_is_read_is_logged(file, caplog, capsys) -> None:
    graphwire.load(file)
    assert capsys.readouterr() == ("", "")
    with caplog.at_level(logging.INFO, "graphwire"):
        graphwire.load(file)
    messages = [each.getMessage() for each in caplog.records]
    assert f"{file}: read program 'model' of schema {Version(*SCHEMA_VERSION)}" in messages
    assert messages[-1].startswith(f"load: {file}, ")
    with caplog.at_level(logging.INFO, "graphwire"):
        graphwire.save(graphwire.load(file), f"{file}.copy")
    assert caplog.records[-1].getMessage().startswith(f"save: {file}.copy, ")


def test_payloads_are_a_mapping_that_reads_no_elements(file) -> None:
    program = graphwire.load(file)
    with graphwire.open(file) as archive:
        payloads = archive.payloads
        records = payloads.records
        payloads.records = {name: _Unreadable(each.nbytes) for name, each in records.items()}
        assert isinstance(payloads, Mapping)
        assert list(payloads) == list(payloads.keys())
        assert sorted(payloads) == sorted(program.state_dict)
        assert len(payloads) == len(program.state_dict)
        shapes = {name: list(weight.shape) for name, weight in payloads.items()}
        assert shapes == {name: list(each.shape) for name, each in program.state_dict.items()}
        assert [each.name for each in payloads.values()] == list(payloads)
        assert payloads.get("linear.weight").nbytes == 32
        assert payloads.get("nothing") is None
        with pytest.raises(AssertionError, match="elements are read"):
            payloads["linear.weight"].view()
        payloads.records = records
        assert dict(payloads)["linear.weight"].view().nbytes == 32
        assert payloads == dict(payloads)
        assert payloads != {}


class _Unreadable(NamedTuple):
    """A record whose elements nobody may read."""

    nbytes: int

    def view(self) -> memoryview:
        raise AssertionError("elements are read")


def test_what_has_items_by_key_is_a_mapping_or_a_sequence() -> None:
    packages = (graphwire, graphwire_plugins)
    names = [
        each.name
        for package in packages
        for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        if not each.name.endswith("__main__")
    ]
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # former places of names
        modules = [*map(importlib.import_module, names)]
    found = {
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__.startswith(("graphwire.", "graphwire_plugins."))
    }
    indexed = {each for each in found if hasattr(each, "__getitem__") and not issubclass(each, enum.Enum)}
    assert graphwire.Payloads in indexed
    assert [each for each in indexed if not issubclass(each, (Mapping, Sequence, mmap.mmap))] == []
    sized = {each for each in found if hasattr(each, "__len__") or hasattr(each, "__iter__")} - indexed
    assert [each for each in sized if not issubclass(each, (Set, Iterator, enum.Enum))] == []
