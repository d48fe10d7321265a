"""What loaded programs are used for: each use is a function of a program and a call of it, whose results can be compared."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch
from inside.schema import ProcessNumbers
from programs import Inputs
from torch.export import ExportedProgram, export, unflatten
from torch.fx import GraphModule, Interpreter, Transformer
from torch.fx.passes.shape_prop import ShapeProp
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

import graphwire
from graphwire.testing import assert_same_values

Use = Callable[[ExportedProgram, Inputs], Any]

USES: dict[str, Use] = {}
"""Every use by its name."""


LARGE = 120
"""A program of more nodes may leave out the uses that do again, in another way, what others do."""
DROPPED_WHEN_LARGE = {
    "graph_module_is_compiled_by_aot_autograd",
    "parts_are_compiled_in_a_module",
    "is_lowered_and_decomposed_again",
}


def uses_of(program: ExportedProgram) -> list[str]:
    """The uses to try of a program, where there are many large ones."""
    large = len(program.graph.nodes) > LARGE
    return [use for use in USES if not large or use not in DROPPED_WHEN_LARGE]


def _use(function: Use) -> Use:
    USES[function.__name__.strip("_")] = function
    return function


def used(name: str, program: ExportedProgram, call: Inputs) -> tuple[Any, Exception | None]:
    """What a use of a program gives, with what becomes of the call's arguments and of the program's tensors; or how it fails.

    The program's tensors are afterwards what they were before.
    """
    kept = _held(program)
    held = [each for tensor in kept.values() for each in _parts(tensor)]
    memory = [_memory(tensor) for tensor in held if tensor.untyped_storage().device.type == "cpu"]
    before = [each.clone() for each in memory]
    args, kwargs = copy.deepcopy((call.args, call.kwargs))
    torch._dynamo.reset()
    torch.manual_seed(0)
    try:
        try:
            given = USES[name](program, Inputs(args, kwargs))
        except Exception as error:  # of whatever uses the program
            return None, error
        after = {key: tensor.detach().clone() for key, tensor in kept.items()}
        return _apart((given, args, kwargs, after)), None
    finally:
        for each, bits in zip(memory, before, strict=True):
            if not torch.equal(each, bits):  # `_version` does not tell: batch norm counts none
                each.copy_(bits)


def _parts(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The tensors with memory in a tensor: it itself, or those that a wrapper consists of, whose own storage has none."""
    if not is_traceable_wrapper_subclass(tensor):
        yield tensor
        return
    for attribute in tensor.__tensor_flatten__()[0]:
        yield from _parts(getattr(tensor, attribute))


def _memory(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of the storage of a tensor."""
    storage = tensor.untyped_storage()
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


class Outcome(NamedTuple):
    """What became of one use of a program, and of what was loaded of its file."""

    refusal: str | None
    """Why the program itself does not serve for it; nothing is asked of the loaded one then."""
    defect: str | None
    """How the loaded one fails, or what else it gives."""


def outcomes(program: ExportedProgram, call: Inputs, uses: Iterable[str] = USES) -> dict[str, Outcome]:
    """Save a program, and use it and what is loaded of its file in each way."""
    data = graphwire.dumps(program)
    tidy(program.graph_module)
    return {use: _outcome(use, program, call, data) for use in uses}


def _outcome(use: str, program: ExportedProgram, call: Inputs, data: bytes) -> Outcome:
    expected, failure = used(use, program, call)
    if failure is not None:
        return Outcome(f"{type(failure).__name__}: {failure}", None)
    actual, failure = used(use, graphwire.loads(data), call)
    if failure is not None:
        return Outcome(None, f"{type(failure).__name__}: {failure}")
    try:
        assert_same_values(actual, expected)
    except AssertionError as error:
        return Outcome(None, str(error))
    return Outcome(None, None)


def tidy(module: GraphModule) -> None:
    """Take away what no file keeps: code from before an edit, and subgraphs that no node reads any more."""
    read = {node.target for node in module.graph.find_nodes(op="get_attr")}
    for name, child in list(module.named_children()):
        if isinstance(child, GraphModule) and name not in read:
            module.delete_submodule(name)
    module.recompile()


def _apart(value: Any) -> Any:
    """A copy of all that a value holds. `copy.deepcopy` refuses what autograd computed, so that is copied without its history,
    and compressed sparse tensors."""
    copies: dict[int, Any] = {}
    for leaf in pytree.tree_leaves(value):
        if isinstance(leaf, torch.Tensor) and not (
            leaf.is_leaf and leaf.layout in {torch.strided, torch.sparse_coo}
        ):
            plain = leaf.detach()
            copied = copy.deepcopy(plain, copies) if plain.layout is torch.strided else plain.clone()
            copies[id(leaf)] = copied.requires_grad_(leaf.requires_grad)
    return copy.deepcopy(value, copies)


def _held(program: ExportedProgram) -> dict[str, torch.Tensor]:
    """The tensors that a call can change. No kernel copies integers below a byte, and none writes them."""
    held = {**program.state_dict, **program.constants}
    return {
        key: value
        for key, value in held.items()
        if isinstance(value, torch.Tensor)
        and value.layout is torch.strided
        and not value.is_quantized
        and value.dtype not in _BELOW_A_BYTE
    }


_BELOW_A_BYTE = {getattr(torch, f"{sign}int{bits}") for sign in ("", "u") for bits in range(1, 8)}


def _flat(program: ExportedProgram, call: Inputs) -> Any:
    """The arguments of a program's graph module."""
    return program._graph_module_flat_inputs(call.args, call.kwargs)


# ------------------------------------------------------------------------------------------------------- looked at


@_use
def is_looked_at(program: ExportedProgram, call: Inputs) -> Any:
    """Everything that a graph module says of itself, but for the name of its class, the tracer that it comes from and the
    counters of generated code: no file has those."""
    module = program.module()
    numbers = ProcessNumbers()
    return [
        _looks(program.graph_module, numbers),
        _looks(module, numbers),
        str(inspect.signature(module.forward)),
        str(inspect.signature(program.graph_module.forward)),
        str(program.call_spec),
    ]


def _looks(module: torch.nn.Module, numbers: ProcessNumbers) -> list[Any]:
    return [(name, *_looks_of_one(each, numbers)) for name, each in module.named_modules()]


def _looks_of_one(module: torch.nn.Module, numbers: ProcessNumbers) -> Iterator[Any]:
    yield [(each.__qualname__, sorted(vars(each))) for each in type(module).__mro__]
    yield module.training
    yield sorted(vars(module))
    yield from (
        [type(hook).__name__ for hook in vars(module)[key].values()] for key in _HOOKS if key in vars(module)
    )
    yield [(name, type(value).__name__) for name, value in module.named_parameters(recurse=False)]
    yield [(name, type(value).__name__) for name, value in module.named_buffers(recurse=False)]
    yield sorted(module._non_persistent_buffers_set)
    if isinstance(module, GraphModule):
        yield module.code
        yield module._lineno_map
        yield module._prologue_start
        yield type(type(module).forward).__name__
        yield type(module.graph).__name__, type(module.graph._codegen).__name__
        yield str(module.__dict__.get("_in_spec")), str(module.__dict__.get("_out_spec"))
        text = module.print_readable(print_output=False, include_stride=True, include_device=True)
        yield numbers.trace(re.sub(r"class .+\(torch", "class (torch", text))


_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_state_dict_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


# -------------------------------------------------------------------------------------------------------- compiled


@_use
def module_is_compiled(program: ExportedProgram, call: Inputs) -> Any:
    return _compiled(program.module(), "eager")(*call.args, **call.kwargs)


@_use
def module_is_compiled_by_aot_autograd(program: ExportedProgram, call: Inputs) -> Any:
    return _compiled(program.module(), "aot_eager")(*call.args, **call.kwargs)


@_use
def graph_module_is_compiled(program: ExportedProgram, call: Inputs) -> Any:
    return _compiled(program.graph_module, "eager")(*_flat(program, call))


@_use
def graph_module_is_compiled_by_aot_autograd(program: ExportedProgram, call: Inputs) -> Any:
    return _compiled(program.graph_module, "aot_eager")(*_flat(program, call))


@_use
def parts_are_compiled_in_a_module(program: ExportedProgram, call: Inputs) -> Any:
    """A graph module as a part of somebody's module, whose methods are called by name and by the call operator."""

    class Outer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.called = program.graph_module
            self.named = program.graph_module

        def forward(self, *args: Any) -> Any:
            return self.called(*args), self.named.forward(*args)

    return _compiled(Outer(), "eager")(*_flat(program, call))


def _compiled(module: torch.nn.Module, backend: str) -> Any:
    return torch.compile(module, backend=backend, fullgraph=True)


# -------------------------------------------------------------------------------------------------- exported again


@_use
def is_exported_again(program: ExportedProgram, call: Inputs) -> Any:
    return _ran(export(program.module(), call.args, call.kwargs, strict=False), call)


@_use
def is_exported_again_strictly(program: ExportedProgram, call: Inputs) -> Any:
    return _ran(export(program.module(), call.args, call.kwargs, strict=True), call)


@_use
def is_decomposed(program: ExportedProgram, call: Inputs) -> Any:
    return _ran(program.run_decompositions(), call)


@_use
def is_lowered_and_decomposed_again(program: ExportedProgram, call: Inputs) -> Any:
    return _ran(program.run_decompositions({}).run_decompositions(), call)


def _ran(program: ExportedProgram, call: Inputs) -> Any:
    """What a program that was made of another one computes. Names of nodes and symbols depend on what was traced before."""
    return program.module()(*call.args, **call.kwargs)


# ------------------------------------------------------------------------------------------- taken apart and copied


@_use
def is_called(program: ExportedProgram, call: Inputs) -> Any:
    return program.module()(*call.args, **call.kwargs)


@_use
def graph_module_is_called(program: ExportedProgram, call: Inputs) -> Any:
    return program.graph_module(*_flat(program, call))


@_use
def is_called_with_gradients(program: ExportedProgram, call: Inputs) -> Any:
    module = program.module()
    result = module(*call.args, **call.kwargs)
    leaves = [each for each in pytree.tree_leaves(result) if isinstance(each, torch.Tensor)]
    wanted = [each for each in module.parameters() if each.requires_grad]
    total = sum(each.float().sum() for each in leaves if each.requires_grad)
    return torch.autograd.grad(total, wanted, allow_unused=True)


@_use
def is_copied(program: ExportedProgram, call: Inputs) -> Any:
    return copy.deepcopy(program).module()(*call.args, **call.kwargs)


@_use
def module_is_copied(program: ExportedProgram, call: Inputs) -> Any:
    return copy.deepcopy(program.module())(*call.args, **call.kwargs)


@_use
def graph_module_is_copied(program: ExportedProgram, call: Inputs) -> Any:
    flat = _flat(program, call)
    deep, shallow = copy.deepcopy(program.graph_module), copy.copy(program.graph_module)
    program.graph_module.recompile()
    return deep(*copy.deepcopy(flat)), shallow(*flat)


@_use
def graph_module_is_pickled(program: ExportedProgram, call: Inputs) -> Any:
    return pickle.loads(pickle.dumps(program.graph_module))(*_flat(program, call))


@_use
def module_is_pickled(program: ExportedProgram, call: Inputs) -> Any:
    return pickle.loads(pickle.dumps(program.module()))(*call.args, **call.kwargs)


@_use
def is_interpreted(program: ExportedProgram, call: Inputs) -> Any:
    return Interpreter(program.graph_module).run(*_flat(program, call))


@_use
def module_is_interpreted(program: ExportedProgram, call: Inputs) -> Any:
    """The interpreter takes positional arguments only, or all leaves of a call."""
    interpreter = Interpreter(program.module())
    if not call.kwargs:
        return interpreter.run(*call.args)
    leaves = pytree.tree_leaves((call.args, call.kwargs))
    return interpreter.run(*leaves, enable_io_processing=False)


@_use
def is_transformed(program: ExportedProgram, call: Inputs) -> Any:
    return Transformer(program.graph_module).transform()(*_flat(program, call))


@_use
def shapes_are_propagated(program: ExportedProgram, call: Inputs) -> Any:
    module = copy.deepcopy(program.graph_module)
    result = ShapeProp(module).propagate(*_flat(program, call))
    return result, [str(node.meta.get("tensor_meta")) for node in module.graph.nodes]


@_use
def is_unflattened(program: ExportedProgram, call: Inputs) -> Any:
    """Comes last: of a program with tokens torch takes them away from the program itself."""
    module = unflatten(program)
    names = [(name, type(each).__qualname__, each.training) for name, each in module.named_modules()]
    return names, module(*call.args, **call.kwargs)
