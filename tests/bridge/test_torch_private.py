"""What we use of torch that is not public does what we use it for."""

from __future__ import annotations

import ast
import copy
import inspect
import types
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import audit
import pytest
import sympy
import torch
from inside.bridge import (
    WAITS,
    DecodedMode,
    FakeTensors,
    WaitingForward,
    allow_tracing,
    private as torch_private,
    reserve_unbacked,
)
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.testing import assert_close

import graphwire
import graphwire.bridge


class Doubled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def exported() -> torch.export.ExportedProgram:
    batch = torch.export.Dim("batch", min=2, max=64)
    return torch.export.export(Doubled(), (torch.ones(4, 3),), dynamic_shapes={"x": {0: batch}})


def test_nodes_made_of_the_same_have_one_identity() -> None:
    shape_env = DecodedMode().shape_env
    symbols = [sympy.Symbol(name, positive=True, integer=True) for name in ("s7", "s8")]
    one, other = (shape_env.create_symintnode(symbols[0], hint=4) for _ in range(2))
    rest = [
        shape_env.create_symintnode(symbols[1], hint=4),
        shape_env.create_symintnode(symbols[0], hint=5),
    ]
    identities = [torch_private.symbolic_identity(each.node) for each in (one, other, *rest)]
    assert one.node is not other.node
    assert identities[0] == identities[1]
    assert len(set(identities)) == 3
    assert torch_private.symbolic_identities((one, 7, *rest)) == (identities[0], 7, *identities[2:])


def test_a_tensor_knows_whether_a_size_a_stride_or_its_offset_is_a_symbol() -> None:
    mode = DecodedMode()
    shape_env = mode.shape_env
    size = shape_env.create_unbacked_symint()
    with mode:
        plain = torch.empty(3, 4).t()[1:]
        made = [
            torch.empty(size, 3),
            torch.empty(6).as_strided((2,), (size,)),
            torch.empty(6).as_strided((2,), (1,), size),
        ]
    for tensor in made:
        numbers = (*tensor.shape, *tensor.stride(), tensor.storage_offset())
        assert torch.SymInt in map(type, numbers)
        assert torch_private.facts_of(tensor)[4]
    for tensor in (plain, torch.empty(2), torch.nn.Parameter(torch.empty(2, 2))):
        assert not torch_private.facts_of(tensor)[4]
    assert torch_private.facts_of(torch.nn.Buffer(torch.empty(2)).as_subclass(_Subclass))[4]


class _Subclass(torch.Tensor):
    """A tensor that may ask something else for its sizes."""


@pytest.mark.parametrize("device", ["cpu", "meta", "cuda:0"])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_fake_tensor_is_what_its_constructor_makes(device: str, requires_grad: bool) -> None:
    fakes = FakeTensors(DecodedMode())
    place = torch.device(device)
    for dtype in (torch.float32, torch.int64):
        meta = torch.empty(2, 3, dtype=dtype, device="meta")
        fake = fakes.make(meta, place, requires_grad and dtype.is_floating_point)
        made = FakeTensor(fakes.mode, torch.empty_like(meta), place)
        made.requires_grad_(fake.requires_grad)
        assert vars(fake) == vars(made)
        assert (fake.is_leaf, fake.dtype, fake.device) == (True, dtype, made.device)
        assert torch._C._dispatch_keys(fake) == torch._C._dispatch_keys(made)
        with pytest.raises(RuntimeError, match="data pointer"):
            fake.data_ptr()


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
    fake = FakeTensors(mode).make(torch.empty(3, device="meta"), torch.device("cpu"), False)
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
    one, other = (fakes.make(torch.empty(3, device="meta"), torch.device("cpu"), False) for _ in range(2))
    with fakes.mode:
        places = one.nonzero()
        assert str(one.nonzero().shape[0]) == str(places.shape[0])
        assert str(other.nonzero().shape[0]) != str(places.shape[0])
    assert one.untyped_storage()._cdata != other.untyped_storage()._cdata


def test_numbers_of_unbacked_symbols_in_use_are_not_given_again() -> None:
    shape_env = DecodedMode().shape_env
    reserve_unbacked(shape_env, ["u0", "u5", "zuf2", "s3", "unit"])
    assert str(shape_env.create_unbacked_symint().node.expr) == "u6"
    assert str(shape_env.create_unbacked_symfloat().node.expr) == "zuf3"


def test_a_program_of_parts_has_all_that_torchs_own_have() -> None:
    program = exported()
    made = torch_private.exported_program(
        root=program.graph_module,
        graph=program.graph,
        graph_signature=program.graph_signature,
        state_dict=program.state_dict,
        range_constraints=program.range_constraints,
        module_call_graph=program.module_call_graph,
        example_inputs=program.example_inputs,
        constants=program.constants,
        verifiers=program.verifiers,
    )
    assert set(vars(made)) == set(vars(program))
    assert made.graph_module.code == program.graph_module.code
    assert made.constants is program.constants
    inputs, _ = program.example_inputs
    assert_close(made.module()(*inputs), program.module()(*inputs))


def test_graph_modules_are_those_of_the_constructor_once_their_code_is_generated() -> None:
    class Branches(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            def inner(y: torch.Tensor) -> torch.Tensor:
                return torch.cond(y.max() > 5, lambda z: z.sin(), lambda z: z.cos(), (y,))

            return torch.cond(x.sum() > 0, inner, lambda y: y - 1, (x,))

    x = torch.ones(3)
    expected = torch.export.export(Branches(), (x,)).graph_module

    def made(original: torch.fx.GraphModule) -> torch.fx.GraphModule:
        root = torch.nn.Module()
        for name, child in original.named_children():
            root.add_module(name, made(child))
        return torch_private.graph_module(root, copy.deepcopy(original.graph))

    actual = made(expected)
    torch_private.generate_code(actual)
    pairs = list(zip(actual.modules(), expected.modules(), strict=True))
    assert len(pairs) == 5
    for one, other in pairs:
        assert vars(one).keys() == vars(other).keys()
        assert vars(type(one)).keys() == vars(type(other)).keys()
        assert type(one).__mro__[1:] == type(other).__mro__[1:]
        assert (one.code, one._lineno_map) == (other.code, other._lineno_map)
        assert isinstance(type(one).forward, types.FunctionType)
        waits = WAITS and one is actual
        assert isinstance(
            inspect.getattr_static(one, "forward"), WaitingForward if waits else types.FunctionType
        )
    assert_close(actual(x), expected(x))


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
    with torch_private.no_torch_function():
        assert tensor.dtype is torch.float32
        assert tensor.stride() == (1,)
    with pytest.raises(AssertionError, match="asked"):
        tensor.stride()


def test_the_device_of_a_fake_tensor_is_where_it_stands_for() -> None:
    with FakeTensorMode() as mode:
        fakes = [torch.empty(2), torch.empty(2, device="meta")]
    plain = [torch.ones(2), torch.ones(2, device="meta"), torch.nn.Parameter(torch.ones(2))]
    assert mode is fakes[0].fake_mode
    assert [torch_private.facts_of(each)[5] for each in fakes + plain] == [
        each.device for each in fakes + plain
    ]
    assert [torch_private.facts_of(each)[5].type for each in fakes] == ["cpu", "meta"]


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
