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
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing import assert_close

import graphwire
import graphwire.bridge
from graphwire.bridge.torch_compat import private as torch_private
from graphwire.bridge.torch_compat.fake_tensors import DecodedMode, FakeTensors, allow_tracing
from graphwire.bridge.torch_compat.private import FakeTensor
from graphwire.bridge.torch_compat.symbolic import (
    ValueRanges,
    declare_symbol,
    fresh_unbacked_symbols,
    is_unbacked,
    replace_symbol,
    replacements,
    reserve_unbacked,
)
from graphwire.errors import DecodeError


class Doubled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def exported() -> torch.export.ExportedProgram:
    batch = torch.export.Dim("batch", min=2, max=64)
    return torch.export.export(Doubled(), (torch.ones(4, 3),), dynamic_shapes={"x": {0: batch}})


def first_value(program: torch.export.ExportedProgram) -> torch.Tensor:
    return next(iter(program.graph.nodes)).meta["val"]


def test_a_declared_symbol_has_its_range_and_its_hint() -> None:
    shape_env = DecodedMode().shape_env
    symbol = sympy.Symbol("s7", positive=True, integer=True)
    declare_symbol(shape_env, symbol, ValueRanges(2, 64), 4)
    size = shape_env.create_symintnode(symbol, hint=4)
    assert torch_private.symbolic_parts(size) == (symbol, 4)
    assert shape_env.var_to_range[symbol] == ValueRanges(2, 64)
    assert bool(size < 65)


def test_symbolic_sizes_of_one_value_share_their_node() -> None:
    size = first_value(exported()).shape[0]
    again = first_value(exported()).shape[0]
    assert torch_private.symbolic_node(size) is torch_private.symbolic_node(size)
    assert torch_private.symbolic_node(size) is not torch_private.symbolic_node(again)


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
        made = [torch.empty(size, 3), torch.empty(6).as_strided((2,), (size,)), torch.empty(6)[size:]]
    for tensor in made:
        numbers = (*tensor.shape, *tensor.stride(), tensor.storage_offset())
        assert torch.SymInt in map(type, numbers)
        assert torch_private.may_have_symbolic_sizes(tensor)
    for tensor in (plain, torch.empty(2), torch.nn.Parameter(torch.empty(2, 2))):
        assert not torch_private.may_have_symbolic_sizes(tensor)
    assert torch_private.may_have_symbolic_sizes(torch.nn.Buffer(torch.empty(2)).as_subclass(_Subclass))


class _Subclass(torch.Tensor):
    """A tensor that may ask something else for its sizes."""


def test_a_fake_tensor_is_on_the_device_it_stands_for_and_takes_no_memory() -> None:
    fakes = FakeTensors(DecodedMode())
    meta = torch.empty_strided((3, 2), (1, 3), device="meta")
    fake = fakes.make(meta, torch.device("cpu"), True)
    assert isinstance(fake, FakeTensor)
    assert fake.device == torch.device("cpu")
    assert fake.stride() == (1, 3)
    assert fake.requires_grad


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


def test_a_symbol_in_whose_place_another_is_put_is_known_as_replaced() -> None:
    shape_env = DecodedMode().shape_env
    one, other = (sympy.Symbol(name, integer=True) for name in ("u0", "u1"))
    replace_symbol(shape_env, other, one + 1)
    assert replacements(shape_env, [one, other]) == {other: one + 1}
    assert shape_env.replace(other * 2) == (one + 1) * 2


def test_an_unbacked_symbol_is_told_from_a_backed_one() -> None:
    assert is_unbacked(sympy.Symbol("u0", integer=True))
    assert not is_unbacked(sympy.Symbol("s0", positive=True, integer=True))


def test_guards_of_a_program_are_read_and_set() -> None:
    program = exported()
    torch_private.set_guards(program, ["L['x'].size()[1] == 3"])
    assert torch_private.guards_of(program) == ["L['x'].size()[1] == 3"]


def test_parts_that_are_no_program_are_refused_with_torchs_reason() -> None:
    program = exported()
    signature = torch.export.ExportGraphSignature([], program.graph_signature.output_specs)
    with pytest.raises(DecodeError, match="torch does not accept the program"):
        torch_private.exported_program(
            root=program.graph_module,
            graph=program.graph,
            graph_signature=signature,
            state_dict={},
            range_constraints={},
            module_call_graph=program.module_call_graph,
            verifiers=program.verifiers,
        )


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
        assert isinstance(inspect.getattr_static(one, "forward"), types.FunctionType)
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


def test_symbols_that_an_operator_made_are_told_once() -> None:
    mode = DecodedMode()
    shape_env = mode.shape_env
    with mode:
        places = torch.ops.aten.nonzero.default(torch.empty(3))
    symbols = fresh_unbacked_symbols(shape_env)
    assert {str(symbol) for symbol in symbols} == {str(places.shape[0])}
    assert fresh_unbacked_symbols(shape_env) == set()


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
    assert [torch_private.device_of(each) for each in fakes + plain] == [
        each.device for each in fakes + plain
    ]
    assert [torch_private.device_of(each).type for each in fakes] == ["cpu", "meta"]


def test_two_loaded_programs_share_nothing_that_can_change() -> None:
    one, other = (vars(graphwire.loads(graphwire.dumps(exported()))) for _ in range(2))
    assert one.keys() == other.keys() == vars(exported()).keys()
    shared = {name for name in one if one[name] is other[name]}
    assert all(isinstance(one[name], (tuple, str, type(None))) for name in shared), shared


def test_the_operators_of_a_namespace_are_listed() -> None:
    assert "aten::relu" in torch_private.operators_in("aten")
    assert torch_private.operators_in("nobody") == []


def test_a_negative_view_counts_as_negated_and_shares_its_storage() -> None:
    tensor = torch.tensor([1.0, -2.0])
    view = torch_private.negative_view(tensor)
    assert view.tolist() == [-1.0, 2.0]
    assert view.data_ptr() == tensor.data_ptr()


def test_an_overload_states_its_parameters() -> None:
    schema = torch_private.schema_of(torch.ops.aten.add.Tensor)
    assert [each.name for each in schema.arguments] == ["self", "other", "alpha"]


def test_a_node_moves_before_all_others() -> None:
    graph = torch.fx.Graph()
    graph.placeholder("x")
    last = graph.placeholder("y")
    torch_private.move_to_start(graph, last)
    assert [node.name for node in graph.nodes] == ["y", "x"]


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
