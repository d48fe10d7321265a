"""What we use of torch that is not public does what we use it for."""

from __future__ import annotations

import ast
import copy
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import audit
import pytest
import torch
from inside.bridge import (
    DecodedMode,
    FakeTensors,
    WaitingForward,
    allow_tracing,
    given_to,
    no_torch_function,
    reserve_unbacked,
)
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing import assert_close

import graphwire
import graphwire.bridge


class Doubled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def exported() -> torch.export.ExportedProgram:
    batch = torch.export.Dim("batch", min=2, max=64)
    return torch.export.export(Doubled(), (torch.ones(4, 3),), dynamic_shapes={"x": {0: batch}})


@pytest.mark.parametrize("strict", [False, True])
def test_the_mode_of_a_loaded_program_traces_as_the_mode_of_its_export_does(strict: bool) -> None:
    class Sparse(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + x.to_sparse().to_dense()

    call = (torch.eye(3),)
    program = torch.export.export(torch.nn.ReLU() if strict else Sparse(), call, strict=strict)
    loaded = graphwire.loads(graphwire.dumps(program))
    expected, actual = (
        {k: v for k, v in vars(_mode(each)).items() if isinstance(v, bool)} for each in (program, loaded)
    )
    assert actual == expected
    assert torch.equal(loaded.run_decompositions().module()(*call), program.module()(*call))


@pytest.mark.parametrize("use", [copy.deepcopy, copy.copy, lambda mode: mode])
def test_a_mode_becomes_torchs_own_at_its_first_use(use: Callable[[Any], Any]) -> None:
    mode = DecodedMode()
    fake = FakeTensors(mode).maker(torch.device("cpu"), False)(torch.empty(3, device="meta"))
    allow_tracing(mode)
    assert type(mode) is DecodedMode
    mode.allow_scalar_outputs = True
    used = use(mode)
    with ThreadPoolExecutor(8) as pool:
        environments = {id(each) for each in pool.map(lambda _: used.shape_env, range(64))}
    made = FakeTensorMode(shape_env=used.shape_env, allow_non_fake_inputs=True)
    assert type(used) is type(made)
    assert vars(used).keys() == vars(made).keys()
    assert len(environments) == 1
    assert used.allow_scalar_outputs
    assert used.allow_fallback_kernels
    with mode:
        assert (fake + 1).fake_mode is mode


def _mode(program: torch.export.ExportedProgram) -> Any:
    (placeholder,) = program.graph.find_nodes(op="placeholder")
    mode = placeholder.meta["val"].fake_mode
    assert mode.shape_env is not None  # the use that sets it up
    return mode


def test_what_is_remembered_of_one_fake_tensor_is_not_of_another() -> None:
    fakes = FakeTensors(DecodedMode())
    make = fakes.maker(torch.device("cpu"), False)
    one, other = (make(torch.empty(3, device="meta")) for _ in range(2))
    with fakes.mode:
        places = one.nonzero()
        assert str(one.nonzero().shape[0]) == str(places.shape[0])
        assert str(other.nonzero().shape[0]) != str(places.shape[0])
    assert one.untyped_storage()._cdata != other.untyped_storage()._cdata


def test_the_attributes_of_a_fake_tensor_take_no_more_memory_than_those_of_torchs() -> None:
    make = FakeTensors(DecodedMode()).maker(torch.device("cpu"), False)
    with FakeTensorMode():
        made = torch.empty(3)
    ours = make(torch.empty(3, device="meta"))
    assert vars(ours).keys() == vars(made).keys()
    assert sys.getsizeof(vars(ours)) <= sys.getsizeof(vars(made))


def test_what_is_given_to_a_node_is_what_its_properties_return() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    node = graph.call_function(torch.ops.aten.add.Tensor, (x, [1, x]), {"alpha": 2})
    assert given_to(node) == (node.args, node.kwargs)


def test_numbers_of_unbacked_symbols_in_use_are_not_given_again() -> None:
    shape_env = DecodedMode().shape_env
    reserve_unbacked(shape_env, ["u0", "u5", "zuf2", "s3", "unit"])
    assert str(shape_env.create_unbacked_symint().node.expr) == "u6"
    assert str(shape_env.create_unbacked_symfloat().node.expr) == "zuf3"


@pytest.mark.parametrize(
    "code",
    [
        "def forward(self, x: print()): ...",
        "def forward(self, x=print()): ...",
        "def forward(self) -> print(): ...",
        "wrap('forward')\ndef forward(self): ...",
        "import os\ndef forward(self): ...",
        "@print\ndef forward(self): ...",
    ],
)
def test_the_audit_of_loads_takes_generated_code_that_defines_a_function_and_no_other(code: str) -> None:
    assert audit.only_defines(compile(exported().graph_module.code, "generated", "exec"))
    assert not audit.only_defines(compile(code, "generated", "exec"))


def test_subclasses_are_not_asked_in_python_where_nobody_wants_it() -> None:
    class Asked(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise AssertionError("asked")

    tensor = torch.ones(2).as_subclass(Asked)
    with no_torch_function():
        assert tensor.dtype is torch.float32
        assert tensor.stride() == (1,)
    with pytest.raises(AssertionError, match="asked"):
        tensor.stride()


class Alike(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for shift in range(3):
            x = (x.transpose(0, 1) + shift).transpose(0, 1)[1:] * 2
        return x


def test_values_of_equal_symbolic_sizes_share_no_storage_and_no_version() -> None:
    sizes = {"x": {0: torch.export.Dim("rows", min=8, max=64), 1: torch.export.Dim("columns", min=2, max=64)}}
    program = torch.export.export(Alike(), (torch.ones(9, 5),), dynamic_shapes=sizes)
    given, made = (
        [node.meta["val"] for node in each.graph.nodes if node.op == "call_function"]
        for each in (program, graphwire.loads(graphwire.dumps(program)))
    )
    for one, other in zip(given, made, strict=True):
        assert repr((one.shape, one.stride(), one.storage_offset(), one.dtype)) == repr(
            (other.shape, other.stride(), other.storage_offset(), other.dtype)
        )
    assert len({each.untyped_storage()._cdata for each in made}) == len(made)
    with made[0].fake_mode:
        made[0].add_(1)
    assert [each._version for each in made] == [1] + [0] * (len(made) - 1)


def test_two_loaded_programs_share_nothing_that_can_change() -> None:
    one, other = (vars(graphwire.loads(graphwire.dumps(exported()))) for _ in range(2))
    # torch 2.8 has no guards; those of a file are kept for the next save.
    assert one.keys() == other.keys() == vars(exported()).keys() | {"_guards_code"}
    shared = {name for name in one if one[name] is other[name]}
    assert all(isinstance(one[name], (tuple, str, type(None))) for name in shared), shared


def _private_names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            found = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        else:
            found = [ast.unparse(node)] if isinstance(node, ast.Attribute) else []
        for name in found:
            parts = name.split(".")
            if parts[0] == "torch" and any(part[:1] == "_" and part[:2] != "__" for part in parts):
                yield name


def test_only_torch_compat_uses_private_names_of_torch() -> None:
    bridge = Path(graphwire.bridge.__file__).parent
    files = [file for file in bridge.rglob("*.py") if file.parent.name != "torch_compat"]
    assert len(files) > 20
    for file in files:
        assert [*_private_names(ast.parse(file.read_text("utf-8")))] == [], file.relative_to(bridge)


def test_the_code_of_a_loaded_graph_is_compiled_at_the_first_look(tmp_path: Path) -> None:
    graphwire.save(exported(), tmp_path / "a.pt2")
    module = graphwire.load(tmp_path / "a.pt2").graph_module
    waiting = inspect.getattr_static(module, "forward")
    assert isinstance(waiting, WaitingForward)
    assert module.code.startswith("\n\n\ndef forward(self, x):")
    assert waiting._forward is None  # the text is there before
    with ThreadPoolExecutor(4) as threads:
        functions = list(threads.map(lambda _: type(module).forward, range(8)))
    assert all(isinstance(each, types.FunctionType) for each in functions)
    assert module.forward.__func__ is type(module).forward
    assert_close(module(torch.ones(2, 3))[0], torch.full((2, 3), 2.0))
