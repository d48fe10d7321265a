"""Values of which a document says nothing: found for operators of upgraders alone, by fake kernels alone."""

from __future__ import annotations

import copy
import logging
import multiprocessing
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from given_plugins import registry_with
from inside.bridge import process_state
from torch._C import DispatchKey

import graphwire
from graphwire import Payloads
from graphwire.errors import DecodeError, GraphwireError, OpsetError, PluginError, ValidationError
from graphwire.hooks import OpsetStep, Registry, default_registry
from graphwire.schema import Argument, ArgumentKind, NamedArgument, Node, Program, TensorArgument


class _Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sin()


@pytest.fixture(scope="module")
def good() -> tuple[Program, Payloads]:
    return graphwire.to_schema(torch.export.export(_Model(), (torch.ones(4, 3),)))


def tensor(name: str) -> Argument:
    return Argument(as_tensor=TensorArgument(name))


def marked(program: Program, operator: str, /, outputs: int = 1, **inputs: Argument) -> Program:
    """The program with a first node that leaves its results to be found."""
    named = [NamedArgument(name, argument, ArgumentKind.POSITIONAL) for name, argument in inputs.items()]
    made = [tensor(f"evil_{index}") for index in range(outputs)]
    changed = copy.deepcopy(program)
    changed.requires = ["propagate"]
    changed.graph_module.graph.nodes.insert(
        0, Node(operator, named, made, {}, name="evil_0" if outputs == 1 else "evil", propagate=True)
    )
    return changed


def declaring(*operators: str) -> Registry:
    """The installed plugins, and an upgrader that leaves results of some operators to be found."""
    return registry_with(opset_upgraders=[OpsetStep("acme", 1, 2, propagates=operators)])


def loaded(program: Program, payloads: Payloads, *operators: str) -> Any:
    value = graphwire.from_schema(program, payloads, registry=declaring(*operators))
    return next(node.meta["val"] for node in value.graph.nodes if node.op == "call_function")


# -------------------------------------------------------------------------------------------- what a file chooses


def test_no_operator_of_torch_runs_because_a_file_marks_it(good: tuple[Program, Payloads]) -> None:
    program, payloads = good
    registry = default_registry()
    before = process_state()
    operators = sorted({name.partition(".")[0] for name in torch._C._dispatch_get_all_op_names()})
    for name in operators[::4]:
        namespace, _, operator = name.partition("::")
        changed = marked(program, f"torch.ops.{namespace}.{operator}.default", self=tensor("x"))
        with pytest.raises((OpsetError, ValidationError)) as caught:
            graphwire.from_schema(changed, payloads, registry=registry)
        assert caught.value.problems[0].place == "graph_module.graph.nodes[0].propagate"
    assert process_state() == before


@pytest.mark.parametrize(
    "target",
    [
        "_operator.pow",
        "torch.amp.autocast_mode._enter_autocast",
        "torch._functorch.predispatch._vmap_increment_nesting",
        "torch.ops.higher_order.cond",
        "torch.ops.prim.rpc_async.default",
    ],
)
def test_only_an_overload_of_a_library_can_be_marked(target: str, good: tuple[Program, Payloads]) -> None:
    changed = marked(good[0], target, x=tensor("x"))
    with pytest.raises(ValidationError, match=r"nodes\[0\]\.propagate: .*not an operator overload"):
        graphwire.encode(changed) and graphwire.decode(graphwire.encode(changed))  # torch is not asked


# ----------------------------------------------------------------------------------------- what runs of the others

_KEYS = (
    "CompositeImplicitAutograd CompositeExplicitAutograd Autograd AutogradCPU AutocastCPU ADInplaceOrView CPU BackendSelect"
).split()


@pytest.fixture
def ran() -> Iterator[list[str]]:
    """What ran of a library whose operators have a kernel of Python under one key each, with and without a fake one."""
    calls: list[str] = []
    library = torch.library.Library("gwruns", "DEF")

    def kernel(name: str) -> Callable[..., Any]:
        def run(x: torch.Tensor) -> torch.Tensor:
            calls.append(name)
            return x

        return run

    for key in _KEYS:
        library.define(f"bare_{key}(Tensor x) -> Tensor")
        library.impl(f"bare_{key}", kernel(key), key)
        if key != "CompositeImplicitAutograd":  # torch takes no fake kernel beside that one
            library.define(f"faked_{key}(Tensor x) -> Tensor")
            library.impl(f"faked_{key}", kernel(key), key)
            torch.library.register_fake(f"gwruns::faked_{key}", lambda x: x.new_empty(7), lib=library)
    library.define("python(Tensor x) -> Tensor")
    library.impl("python", kernel("python"), "Python")
    library.define("into(Tensor(a!) x) -> Tensor")
    library.impl("into", kernel("into"), "Meta")
    library.define("seeded(Tensor x) -> Tensor")
    library.define("several(Tensor x) -> Tensor[]")
    library.define("none(Tensor x) -> ()")
    library.define("made(int n) -> Tensor")
    for name, fake in (
        ("seeded", _seeded),
        ("several", lambda x: [x, x]),
        ("made", lambda n: torch.empty(n)),
    ):
        torch.library.register_fake(f"gwruns::{name}", fake, lib=library)
    yield calls
    library._destroy()


def _seeded(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(7)
    torch.set_grad_enabled(True)
    torch.set_autocast_enabled("cpu", True)
    torch._C._functorch._vmap_increment_nesting(3, "error")
    return torch.empty_like(x)


@pytest.mark.parametrize("key", _KEYS)
def test_only_a_fake_kernel_runs(key: str, ran: list[str], good: tuple[Program, Payloads]) -> None:
    bare = f"torch.ops.gwruns.bare_{key}.default"
    with pytest.raises(DecodeError, match="cannot be computed at load: its library") as caught:
        loaded(marked(good[0], bare, x=tensor("x")), good[1], bare)
    assert "nodes[0]" in caught.value.place
    if key != "CompositeImplicitAutograd":
        faked = f"torch.ops.gwruns.faked_{key}.default"
        with torch.autocast("cpu"):
            assert loaded(marked(good[0], faked, x=tensor("x")), good[1], faked).shape == (7,)
    assert ran == []


def test_a_kernel_under_the_key_of_python_does_not_run(
    ran: list[str], good: tuple[Program, Payloads]
) -> None:
    for name, reason in (
        ("python", "its own code"),
        ("into", "changes its arguments"),
        ("none", "no result"),
        ("made", "takes no tensor"),
    ):
        target = f"torch.ops.gwruns.{name}.default"
        given = {"n": Argument(as_int=3)} if name == "made" else {"x": tensor("x")}
        with pytest.raises(DecodeError, match=reason):
            loaded(marked(good[0], target, outputs=name != "none", **given), good[1], target)
    assert ran == []


def test_an_operator_of_torch_that_somebody_defines_anew_does_not_run(good: tuple[Program, Payloads]) -> None:
    calls: list[str] = []
    operator = torch.ops.aten.fliplr.default

    def body(x: torch.Tensor) -> torch.Tensor:
        calls.append("ran")
        return x

    operator.py_impl(DispatchKey.CompositeImplicitAutograd)(body)
    try:
        target = "torch.ops.aten.fliplr.default"
        with pytest.raises(DecodeError, match="registered by another library"):
            loaded(marked(good[0], target, self=tensor("x")), good[1], target)
    finally:
        del operator.py_kernels[DispatchKey.CompositeImplicitAutograd]
        operator._dispatch_cache.clear()
    assert calls == []
    assert loaded(marked(good[0], target, self=tensor("x")), good[1], target).shape == (4, 3)


def test_a_fake_kernel_that_changes_the_process_is_refused_and_undone(
    ran: list[str], good: tuple[Program, Payloads]
) -> None:
    target = "torch.ops.gwruns.seeded.default"
    before = process_state()
    with pytest.raises(DecodeError, match=r"changes the state of the process \(.*transforms.*generator"):
        loaded(marked(good[0], target, x=tensor("x")), good[1], target)
    assert process_state() == before


# ------------------------------------------------------------------------------------------------------ arguments


@pytest.mark.parametrize(
    ("target", "given", "told"),
    [
        ("unsqueeze", {"self": Argument(as_int=1), "dim": Argument(as_int=0)}, "takes a Tensor as self"),
        ("unsqueeze", {"self": tensor("x"), "dim": Argument(as_int=2**70)}, "as dim"),
        ("unsqueeze", {"self": tensor("x"), "dim": Argument(as_string="a")}, "as dim"),
        ("unsqueeze", {"self": tensor("x"), "dim": Argument(as_int=9)}, "IndexError"),
        (
            "full",
            {"size": Argument(as_ints=[2**62] * 4), "fill_value": Argument(as_int=1)},
            "cannot be computed",
        ),
        ("add_", {"self": tensor("x"), "other": tensor("x")}, "cannot be computed|no parameter|changes"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_before_a_kernel_sees_them(
    target: str, given: dict[str, Argument], told: str, good: tuple[Program, Payloads]
) -> None:
    name = f"torch.ops.aten.{target}.{'Tensor' if target == 'add_' else 'default'}"
    with pytest.raises(DecodeError, match=told):
        loaded(marked(good[0], name, **given), good[1], name)


def test_a_tensor_is_not_cut_into_more_parts_than_anybody_names(good: tuple[Program, Payloads]) -> None:
    program = copy.deepcopy(good[0])
    target = "torch.ops.aten.split.Tensor"
    pieces = marked(program, target, self=tensor("wide"), split_size=Argument(as_int=1))
    sizes = Argument(as_ints=[10**12])
    pieces.graph_module.graph.nodes.insert(
        0,
        Node(
            "torch.ops.aten.full.default",
            [
                NamedArgument("size", sizes, ArgumentKind.POSITIONAL),
                NamedArgument("fill_value", Argument(as_int=0), ArgumentKind.POSITIONAL),
            ],
            [tensor("wide")],
            {},
            name="wide",
            propagate=True,
        ),
    )
    pieces.graph_module.graph.nodes[1].outputs = [Argument(as_tensors=[TensorArgument("evil_0")])]
    with pytest.raises(DecodeError, match="more than 10,000 tensors"):
        loaded(pieces, good[1], target, "torch.ops.aten.full.default")


def _everything(start: int, step: int) -> None:
    """Marks every operator of torch's own, all of them declared. In a process of its own, which one may end."""
    logging.disable(logging.CRITICAL)  # torch tells of each kernel that refuses its arguments
    program, payloads = graphwire.to_schema(torch.export.export(_Model(), (torch.ones(4, 3),)))
    names = sorted({name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")})
    targets = {
        name: f"torch.ops.aten.{name[6:].partition('.')[0]}.{name.partition('.')[2] or 'default'}"
        for name in names[start::step]
    }
    registry = declaring(*targets.values())
    values = {
        "Tensor": tensor("x"),
        "int": Argument(as_int=10**15),
        "float": Argument(as_float=0.5),
        "bool": Argument(as_bool=True),
        "number": Argument(as_int=-1),
        "List[int]": Argument(as_ints=[1, 10**15]),
        "List[Tensor]": Argument(as_tensors=[TensorArgument("x")] * 2),
    }
    before = process_state()
    for name, target in targets.items():
        schema = torch._C._get_schema(name.partition(".")[0], name.partition(".")[2])
        given = {
            each.name: values[str(each.real_type)]
            for each in schema.arguments
            if str(each.real_type) in values and not each.kwarg_only
        }
        try:
            graphwire.from_schema(marked(program, target, **given), payloads, registry=registry)
        except GraphwireError:
            continue
        finally:
            assert process_state() == before, name


@pytest.mark.slow
def test_every_operator_of_torch_leaves_the_process_as_it_was() -> None:
    child = multiprocessing.get_context("spawn").Process(target=_everything, args=(0, 24))
    child.start()
    child.join(120)
    assert child.exitcode == 0


@pytest.mark.parametrize("declared", ["torch.ops.acme.x.default", 3, [1], ["no name"]])
def test_a_wrong_declaration_is_refused_when_the_plugin_registers(declared: Any) -> None:
    with pytest.raises(PluginError, match="`propagates`"):
        registry_with(opset_upgraders=[OpsetStep("acme", 1, 2, propagates=declared)])
