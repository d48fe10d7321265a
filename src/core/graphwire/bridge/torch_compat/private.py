"""Every use of torch's private interfaces: one function each, so that a new release breaks one line here. The package exports
the private names that are used as they are.

Each has a test in `tests/bridge/test_torch_private.py` that fails when the private interface changes.
"""

from __future__ import annotations

import builtins
import functools
import itertools
import keyword
import operator
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from torch._C._dynamo.eval_frame import set_eval_frame
from torch._export.verifier import Verifier
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch._higher_order_ops.effects import _get_schema, with_effects
from torch._library.fake_class_registry import FakeScriptObject
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import custom_ops
from torch.export.graph_signature import ExportGraphSignature, OutputKind
from torch.fx.experimental.sym_node import SymNode
from torch.fx.graph import PythonCode, _custom_builtins, _PyTreeCodeGen, _PyTreeInfo
from torch.fx.graph_module import _WrappedCall
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import (
    _get_current_dispatch_mode_stack,
    is_traceable_wrapper_subclass,
)
from torch.utils._pytree import TreeSpec

from graphwire.bridge.torch_compat.code_text import WAITS, WaitingForward, python_code
from graphwire.bridge.torch_compat.verifiers import check_program
from graphwire.errors import DecodeError, unless_interrupted, warn
from graphwire.process import Resource

if TYPE_CHECKING:
    import sympy
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

__all__ = ["FakeTensor", "HigherOrderOperator", "OpOverload", "TreeSpec", "is_traceable_wrapper_subclass"]
"""Classes of torch that its private modules have. The rest of the bridge imports them from here."""

# --------------- saves, compares and restores the process-wide and thread-wide state of torch, which no load may change


_AUTOCAST_DEVICES = ("cpu", "cuda")


class ProcessState(NamedTuple):
    """The global settings of torch that operators, or contexts left open, can change."""

    gradients: bool
    inference: bool
    autocast: tuple[tuple[bool, torch.dtype], ...]
    autocast_cache: bool
    transforms: int
    """The number of open function transforms (vmap, grad)."""
    dispatch_modes: int
    function_modes: int
    dtype: torch.dtype
    """The default element type."""
    deterministic: bool
    deterministic_warns: bool
    generator: bytes
    """The state of the CPU's random number generator."""


def process_state() -> ProcessState:
    """Return the current state."""
    return ProcessState(
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        tuple(
            (torch.is_autocast_enabled(each), torch.get_autocast_dtype(each)) for each in _AUTOCAST_DEVICES
        ),
        torch.is_autocast_cache_enabled(),
        torch._C._functorch.get_dynamic_layer_stack_depth(),
        len(_get_current_dispatch_mode_stack()),
        len(_get_current_function_mode_stack()),  # a default device is one
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        bytes(torch.default_generator.get_state().untyped_storage()),
    )


def _put_back(state: ProcessState, now: ProcessState) -> None:
    if now.transforms > state.transforms:
        # Up to torch 2.10 this fails after it has emptied the stack: it reads the top once more.
        try:
            torch._C._functorch.pop_dynamic_layer_stack_and_undo_to_depth(state.transforms)
        except RuntimeError:
            if torch._C._functorch.get_dynamic_layer_stack_depth() != state.transforms:
                raise
    for _ in range(now.dispatch_modes - state.dispatch_modes):
        torch._C._pop_torch_dispatch_stack()
    for _ in range(now.function_modes - state.function_modes):
        torch._C._pop_torch_function_stack()
    torch.set_grad_enabled(state.gradients)
    for device, (enabled, dtype) in zip(_AUTOCAST_DEVICES, state.autocast, strict=True):
        torch.set_autocast_enabled(device, enabled)
        torch.set_autocast_dtype(device, dtype)
    torch.set_autocast_cache_enabled(state.autocast_cache)
    torch.set_default_dtype(state.dtype)
    torch.use_deterministic_algorithms(state.deterministic, warn_only=state.deterministic_warns)
    generator: Any = torch.frombuffer(bytearray(state.generator), dtype=torch.uint8)
    torch.default_generator.set_state(generator)


@contextmanager
def preserved_process_state(what: str) -> Iterator[None]:
    """A context that restores the state at its end, also on an exception.

    Args:
        what: the name of what runs inside, as the subject of a sentence.

    Raises:
        DecodeError: the block changed the state, which is restored.
    """
    before = process_state()
    try:
        yield
    finally:
        now = process_state()
        if now != before:
            _put_back(before, now)
    if now != before:
        names = [name for name, old, new in zip(before._fields, before, now, strict=True) if old != new]
        raise DecodeError(
            f"{what} changes the state of the process ({', '.join(names)})",
            remedy="Report it to the authors of the operator's library",
        )


# --------------------------- process groups of this process, and the values that exist only in the processes of one job


_SCRIPT_CLASSES = "__torch__.torch.classes.c10d."


class WorldGroup(NamedTuple):
    """A process group that this process is in."""

    name: str
    size: int
    """The number of its processes."""
    description: str
    """What its maker says of it, such as `mesh_tp`; `undefined` if nothing."""


def is_in_job() -> bool:
    """Return whether this process has initialized process groups."""
    distributed = torch.distributed
    return distributed.is_available() and distributed.is_initialized()


def world_group(name: str) -> WorldGroup | None:
    """Return the process group that a collective finds under a name; None if this process has none."""
    from torch._C._distributed_c10d import _resolve_process_group

    try:
        group = _resolve_process_group(name)
    except unless_interrupted(RuntimeError, ValueError):
        return None
    return WorldGroup(name, group.size(), group.group_desc)


def world_groups() -> list[WorldGroup]:
    """Return the process groups that this process is in, in the order in which it entered them."""
    from torch.distributed.distributed_c10d import _world

    return [WorldGroup(name, group.size(), group.group_desc) for group, name in _world.pg_names.items()]


_OF_A_JOB = {
    ("torch.distributed.device_mesh", "DeviceMesh"): "a device mesh",
    ("torch.distributed", "ProcessGroup"): "a process group",
}
"""The classes whose instances refer to the processes of a job, by module and name."""


def kind_of_job_value(value: Any) -> str:
    """Return what a value is if it refers to the processes of the job that made it, such as `a device mesh`; else an empty
    text."""
    for (module, name), kind in _OF_A_JOB.items():
        # Nothing is imported: without its module, there is no instance.
        found = getattr(sys.modules.get(module), name, None)
        if found is not None and isinstance(value, found):
            return kind
    if type(value) is torch.ScriptObject:
        name = str(value._type().qualified_name())
        if name.startswith(_SCRIPT_CLASSES):
            return f"an object of torch.distributed ({name.removeprefix(_SCRIPT_CLASSES)})"
    return ""


# ------------------------------------------------------------------ differences between the supported releases of torch
# one function for each, with one interface for all releases.
#
# Each checks what torch has, not its version number, so that nightly builds work too.


try:
    from torch._library import opaque_object
except ImportError:  # before 2.10
    opaque_object = None
try:
    from torch._functorch import predispatch
except ImportError:  # before 2.9
    predispatch = None


def opaque_types() -> Iterable[type]:
    """Return the classes that are registered with torch as opaque, in this process; empty before torch 2.10."""
    return () if opaque_object is None else tuple(opaque_object._OPAQUE_TYPES)


def opaque_type_name(kind: type) -> str | None:
    """Return the name that a class is registered under as opaque; None if it is not registered."""
    if opaque_object is None or not opaque_object.is_opaque_type(kind):
        return None
    return str(opaque_object.get_opaque_type_name(kind))


def backed_values(shape_env: ShapeEnv) -> dict[sympy.Symbol, sympy.Integer]:
    """Return the sizes on the example inputs, by symbol: the environment's own table, not a copy."""
    # `backed_var_to_val` since 2.11; before that `var_to_val`, which warns in newer releases.
    found: dict[sympy.Symbol, sympy.Integer] = (
        shape_env.backed_var_to_val if hasattr(shape_env, "backed_var_to_val") else shape_env.var_to_val
    )
    return found


def reserve_numbers(shape_env: ShapeEnv, counter: str, first: int) -> None:
    """Make the environment number new symbols from `first` on, unless it is past that already."""
    numbers = getattr(shape_env, counter)
    if isinstance(numbers, itertools.count):  # before 2.10; a count shows its position only by advancing
        setattr(shape_env, counter, itertools.count(max(next(numbers), first)))
    else:
        setattr(shape_env, counter, max(numbers, first))


def shape_function(name: str) -> Any:
    """Return the class that represents an operation of torch or sympy in size expressions; None if neither has it.

    `BitwiseFn_bitwise_xor` exists since 2.10.
    """
    import sympy
    from torch.utils._sympy import functions as shape_functions

    return getattr(shape_functions, name, None) or getattr(sympy, name, None)


def output_kind(name: str) -> OutputKind:
    """Return torch's output kind of this name. `PARAMETER_MUTATION` exists since 2.9.

    Raises:
        DecodeError: the installed torch does not have it.
    """
    kind = OutputKind.__members__.get(name)
    if kind is None:
        raise DecodeError(f"this torch has no output of kind {name}", remedy="Install a newer torch")
    return kind


def parameters_of(target: str) -> tuple[str, ...]:
    """Return the parameter names of an ATen operator in the installed torch, by its serialized name; empty if the operator is
    absent. Release 2.14 removed `aten.cholesky` and renamed a parameter of `aten._cdist_backward`."""
    _, _, _, name, overload = target.split(".")
    found = getattr(getattr(torch.ops.aten, name, None), overload, None)
    return () if found is None else tuple(argument.name for argument in found._schema.arguments)


def predispatch_functions() -> list[Callable[..., Any]]:
    """Return the functions that `torch.export` leaves before dispatch for vmap and custom autograd; empty before 2.9."""
    own = vars(predispatch).values() if predispatch is not None else ()
    functions = [f for f in own if getattr(f, "__module__", "") == predispatch.__name__]
    call = getattr(custom_ops, "_call_custom_autograd_function_in_pre_dispatch", None)
    return functions if call is None else [*functions, call]


class no_torch_function(Resource):  # noqa: N801 # as torch names its own
    """A context manager that reads attributes of tensor subclasses directly, without `__torch_function__`."""

    def __init__(self) -> None:
        self._was_enabled = torch._C._is_torch_function_enabled()
        self._guard = torch._C.DisableTorchFunctionSubclass()

    def begin(self) -> None:
        if torch._C._is_torch_function_enabled():
            self._guard.__enter__()

    def end(self, error: BaseException | None) -> None:
        if self._was_enabled:
            self._guard.__exit__(None, None, None)


given_to = operator.attrgetter("_args", "_kwargs")
"""Returns the positional arguments of a node and those by keyword. torch's properties call Python for each."""

_FACTS = ("layout", "shape", "dtype", "requires_grad", "_has_symbolic_sizes_strides")
_facts = operator.attrgetter(*_FACTS, "device")
facts_of_fake = operator.attrgetter(
    *_FACTS, "_fake_device" if isinstance(vars(FakeTensor).get("fake_device"), property) else "fake_device"
)
"""Returns `facts_of` of a fake tensor."""
_OWN_SIZES = frozenset((torch.Tensor, torch.nn.Parameter))
"""The tensor types that hold their sizes themselves, as fake tensors do. A subclass may compute them from something else."""


ReadFacts = tuple[torch.layout, Sequence[Any], torch.dtype, bool, bool, torch.device]
"""The layout, sizes and element type of a tensor, whether it requires a gradient, whether a size, a stride or the offset may be
symbolic, and the device."""


def facts_of(tensor: torch.Tensor) -> ReadFacts:
    """Return facts of a tensor. One call reads them, and bypasses the two Python properties of a fake tensor's device."""
    kind = type(tensor)
    facts: Any = (facts_of_fake if kind is FakeTensor else _facts)(tensor)
    return facts if kind is FakeTensor or kind in _OWN_SIZES else (*facts[:4], True, facts[5])


ReadTensor = tuple[ReadFacts, Sequence[Any], Any]
"""Facts of a strided tensor, its strides, and its storage offset."""


def read_if_plain(tensor: Any) -> ReadTensor | None:
    """Return what describes a tensor that its storage, sizes and strides describe completely; None for any other value."""
    if type(tensor) not in _OWN_SIZES:
        return None
    facts: Any = _facts(tensor)
    if facts[0] is not torch.strided or tensor.is_quantized or is_transformed(tensor):
        return None
    return facts, tensor.stride(), tensor.storage_offset()


symbolic_node = operator.attrgetter("node")
"""Returns the node of a symbolic value: one object for all `SymInt`s that represent one size."""


def symbolic_identity(node: Any) -> tuple[int, ...]:
    """Return the ids of the parts of a `SymNode`, which the node keeps alive. Nodes with the same parts have one expression
    and hint. torch makes a new node for each tensor."""
    if type(node) is not SymNode:
        return (id(node),)
    return id(node._expr), id(node._hint)


def symbolic_identities(integers: Iterable[Any]) -> tuple[Any, ...]:
    """Return the integers as a key, with `symbolic_identity` in place of each symbolic one."""
    return tuple(
        [
            n
            if type(n) is int
            else (id(node._expr), id(node._hint))
            if type(node := n.node) is SymNode
            else (id(node),)
            for n in integers
        ]
    )


_MARKS: dict[Literal["parameter", "buffer"], str] = {"parameter": "_is_param", "buffer": "_is_buffer"}


def parameter_or_buffer(value: Any) -> Literal["parameter", "buffer"] | None:
    """Return whether a fake tensor acts as an `nn.Parameter` or an `nn.Buffer`; None for any other value."""
    if type(value) is FakeTensor:
        attributes = vars(value)  # asking the tensor for an absent attribute takes four times as long
        if "_is_param" in attributes or "_is_buffer" in attributes:
            return next((kind for kind, mark in _MARKS.items() if attributes.get(mark)), None)
    return None


def mark_parameter_or_buffer(fake: torch.Tensor, kind: Literal["parameter", "buffer"]) -> None:
    """Make a fake tensor act as an `nn.Parameter` or `nn.Buffer`. Constructing one would go through the dispatcher."""
    setattr(fake, _MARKS[kind], True)


def buffer_mark(tensor: Any) -> bool | None:
    """Return whether a `torch.nn.Buffer` is persistent; None for any other value."""
    marked = getattr(tensor, "_is_buffer", False)
    return bool(getattr(tensor, "persistent", True)) if marked is True else None


def mark_buffer(tensor: torch.Tensor, persistent: bool) -> None:
    """Make `tensor` act as a `torch.nn.Buffer`, with the marks that its constructor sets."""
    tensor.persistent, tensor._is_buffer = persistent, True


def as_parameter(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor without gradients as a `torch.nn.Parameter`. A tensor of a subclass keeps its class and gets torch's
    mark, without a call of its operators."""
    if type(tensor) is torch.Tensor:
        return torch.nn.Parameter(tensor, requires_grad=False)
    tensor._is_param = True
    return tensor


def parameter_of(tensor: torch.Tensor, requires_grad: bool) -> torch.Tensor:
    """Return `torch.nn.Parameter(tensor, requires_grad)`, without the constructor's checks of the type, which take as long."""
    if type(tensor) is not torch.Tensor:
        return torch.nn.Parameter(tensor, requires_grad)
    parameter: torch.Tensor = _make_subclass(_Parameter, tensor, requires_grad)
    return parameter


_make_subclass, _Parameter = torch.Tensor._make_subclass, torch.nn.Parameter


class _GraphModuleWithoutCode(torch.fx.GraphModule):
    def recompile(self) -> Any:
        """Generate nothing."""


def graph_module(root: torch.nn.Module | dict[str, Any], graph: torch.fx.Graph) -> torch.fx.GraphModule:
    """Return a graph module over `root`'s attributes without code; `generate_code` adds it. torch would generate the code of
    all nested modules again for each module it generates."""
    if not graph.find_nodes(op="get_attr"):  # nothing of `root` is read
        plain = torch.fx.GraphModule.__new__(torch.fx.GraphModule)
        type(plain).__name__ = "GraphModule"
        parts, copied = _parts()
        vars(plain).update(parts, **{name: part.copy() for name, part in copied.items()}, _graph=graph)
        graph.owning_module = plain
        return plain
    made = _GraphModuleWithoutCode(root, graph)
    type(made).__bases__ = (
        torch.fx.GraphModule,
    )  # each module has its own class, whose bases must be what torch makes
    return made


@functools.cache
def _parts() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what torch's constructor sets on a module that has no attributes and no code, and which of it to copy."""
    parts = _GraphModuleWithoutCode({}, torch.fx.Graph()).__dict__
    return parts, {name: part for name, part in parts.items() if hasattr(part, "copy")}


def generate_code(module: torch.fx.GraphModule, *, runs: bool = False) -> None:
    """Generate the code of a module from `graph_module` and of all nested modules, so that they equal what torch constructs.

    An argument without a Python literal, such as an operator inside a dict, cannot be part of generated code. As in programs
    that torch loads, such a module keeps its graph and has the code of an empty one.

    Args:
        runs: whether the module must run.

    Raises:
        SyntaxError: the module must run, and generated code cannot express an argument.
    """
    modules = [each for each in module.modules() if isinstance(each, torch.fx.GraphModule)]
    codes = {each._graph: code for each in modules if (code := python_code(each._graph)) is not None}
    waits = codes.get(module._graph) if WAITS and not runs else None
    if waits is not None:
        del codes[module._graph]
        _wait(module, waits)
    for graph, code in codes.items():
        graph.python_code = lambda *_, code=code, **_options: code
    try:
        _compile(modules, runs=runs)
    finally:
        for graph in codes:
            del graph.python_code
    if waits is not None:
        _sort_table(module._graph)
    for graph in codes if not runs else ():  # whose table is in order
        _sort_table(graph)


def _wait(module: torch.fx.GraphModule, code: PythonCode) -> None:
    """Set what `recompile` sets, with a `forward` that is compiled when somebody looks at it."""
    kind = type(module)
    call = vars(type(_empty_program().graph_module))["__call__"]
    for name, part in {
        "forward": WaitingForward(code),
        "_wrapped_call": _WrappedCall(kind, None),
        "__call__": call,
    }.items():
        setattr(kind, name, part)
    vars(module).update(_code=code.src, _lineno_map=code._lineno_map, _prologue_start=code._prologue_start)


def _sort_table(graph: torch.fx.Graph) -> None:
    """Sort the rows of a graph's table of nodes. torch does so while it writes code: it sets an attribute of each node, which
    moves the node to the end of its row."""
    for row in graph._find_nodes_lookup_table.table.values():
        in_order = sorted(row)
        if in_order != list(row):
            row.clear()
            row.update(dict.fromkeys(in_order))


def _compile(modules: Iterable[torch.fx.GraphModule], *, runs: bool) -> None:
    for each in modules:
        if "_code" not in vars(each):
            graph = each._graph
            try:
                each.recompile()  # and those below
            except SyntaxError:
                if runs:
                    raise
                message = "a graph has an argument that generated code cannot express: its module does nothing when called"
                warn(message)
                each.graph = torch.fx.Graph()
                each._graph = graph


def symbolic_parts(value: torch.SymInt | torch.SymFloat | torch.SymBool) -> tuple[sympy.Basic, Any]:
    """Return the expression of a symbolic value, and its value on the example inputs (None if it has none)."""
    node = value.node
    return node.expr, node.hint


def expression_size(value: Any, most: int) -> int:
    """Return the number of numbers, symbols and operations in a symbolic value's expression, as built. A long number counts
    once for each 64 bits; the base of a power counts once for each multiplication. Counting stops beyond `most`. A single
    symbol, and any other value, counts 0."""
    if not isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return 0
    expression = value.node._expr
    if expression.is_Symbol:
        return 0
    count, pending = 0, [(expression, 1)]
    while pending and count <= most:
        part, times = pending.pop()
        count += times * (1 + (part.p.bit_length() + part.q.bit_length()) // 64 if part.is_Rational else 1)
        args = part.args
        if len(args) == 2 and args[1].is_Integer and "Pow" in type(part).__name__:
            # sympy takes the derivatives of a polynomial one by one.
            times *= max(1, min(abs(args[1].p), most + 1))
        pending.extend([(each, times) for each in args])
    return count


def hint_symbolic_value(value: Any, hint: Any) -> None:
    """Set the value that a symbolic value had on the example inputs."""
    value.node._hint = hint


is_transformed: Callable[[torch.Tensor], bool] = torch._C._functorch.is_functorch_wrapped_tensor
"""Returns whether a tensor belongs to a function transform (`torch.func.grad`, `vmap`) and owns no elements."""


def script_class_name(value: Any) -> str | None:
    """Return the class of a script object or opaque value, or of its placeholder in a trace; None for any other value."""
    if isinstance(value, FakeScriptObject):
        return str(value.script_class_name)
    if isinstance(value, torch.ScriptObject):
        return str(value._type().qualified_name())
    return opaque_type_name(type(value))


HAS_GUARDS: bool = "_guards_code" in torch.export.ExportedProgram.__annotations__
"""Whether programs of this torch have guards, and their modules a function of them: from 2.9 on. A hook checks others' inputs."""


def guards_of(program: torch.export.ExportedProgram) -> list[str]:
    """Return the conditions on the inputs that `program.module()` checks, as Python expressions."""
    guards = list(getattr(program, "_guards_code", ()))
    if not all(isinstance(each, str) for each in guards):
        raise TypeError("a guard of the program is not a text")
    return guards


def set_guards(program: torch.export.ExportedProgram, guards: list[str]) -> None:
    """Replace the conditions on the inputs that `program.module()` checks."""
    if guards or HAS_GUARDS:
        program._guards_code = guards


@functools.cache
def _empty_program() -> torch.export.ExportedProgram:
    """Return an empty program. It has everything that the constructor sets beside the parts of `exported_program`."""
    empty = torch.fx.Graph()
    empty.output(())
    return torch.export.ExportedProgram(
        torch.nn.Module(), empty, ExportGraphSignature([], []), {}, {}, [], verifiers=[Verifier]
    )


def exported_program(
    root: torch.nn.Module,
    graph: torch.fx.Graph,
    *,
    verifiers: list[Any],
    targets: set[Any] | None = None,
    **parts: Any,
) -> torch.export.ExportedProgram:
    """Assemble a program from its parts, and check it with its verifiers.

    The constructor would run the verifiers on each node. Here the parts are set on a copy of an empty program.

    Args:
        targets: as in `check_program`.
        parts: the other arguments of the constructor.

    Raises:
        DecodeError: torch rejects the parts as a program.
    """
    program = object.__new__(torch.export.ExportedProgram)
    vars(program).update(vars(_empty_program()))
    program._graph_module = graph_module(root, graph)
    program._verifiers = verifiers
    for name, part in parts.items():
        setattr(program, f"_{name}", part)
    check_program(program, targets)
    generate_code(program._graph_module)
    return program


def schema_of(operator: OpOverload) -> torch.FunctionSchema:
    """Return the schema of an overload: its parameters and results."""
    return operator._schema


def move_to_start(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """Move a node before all others of its graph."""
    graph._root.append(node)


def operators_in(namespace: str) -> list[str]:
    """Return the qualified names of the operators that are registered in a namespace, such as `aten::relu`."""
    return [
        schema.name for schema in torch._C._jit_get_all_schemas() if schema.name.startswith(f"{namespace}::")
    ]


def negative_view(tensor: torch.Tensor) -> torch.Tensor:
    """Return a view of a tensor with the negative bit set: its elements are the negated ones of its storage."""
    view: torch.Tensor = torch._neg_view(tensor)
    return view


def pytree_code(names: Sequence[str], in_spec: Any, out_spec: Any) -> Any:
    """Return what generates the code of a graph whose arguments and results are nested.

    Args:
        names: the names of the parameters.
        in_spec: the structure of the arguments.
        out_spec: the structure of the result.
    """
    return _PyTreeCodeGen(_PyTreeInfo(list(names), in_spec, out_spec))


_TAKEN = frozenset((*keyword.kwlist, *dir(builtins), *_custom_builtins))
"""Names that torch gives no node: those of Python, and of what generated code uses."""


def name_by_attributes(graph: torch.fx.Graph, nodes: Iterable[torch.fx.Node]) -> None:
    """Give the nodes that read attributes the names that torch derives from the paths."""
    namespace = graph._graph_namespace
    used = namespace._used_names
    for node in nodes:
        path = str(node.target)
        name = path.replace(".", "_")
        if re.fullmatch(_PLAIN, name) and name not in used and name not in _TAKEN:
            used.add(name)  # torch would give the same name
        else:
            name = namespace.create_name(graph._target_to_str(path), None)
        # Not by an assignment, which would also remove the node from the graph's tables and add it again.
        object.__setattr__(node, "name", name)
        namespace._rename_object(node, name)


_PLAIN = r"[a-z_][a-z0-9_]*[a-z]"
"""Names that torch takes as they are: in small letters, without a number at the end, which torch would count on."""


def rename_builtins(graph: torch.fx.Graph) -> None:
    """Rename the nodes whose names are Python's own, as torch does when it copies a graph."""
    names = {node.name for node in graph.nodes}
    for node in graph.nodes if not _TAKEN.isdisjoint(names) else ():
        if node.op != "output" and node.name in _TAKEN:
            numbered = (f"{node.name}_{number}" for number in itertools.count(1))
            node.name = next(name for name in numbered if name not in names)
            names.add(node.name)


assert_in_graph = torch._assert
"""Asserts a condition with a message, also in a symbolic trace."""


def is_effect(target: Any) -> bool:
    """Return whether a node calls an operator with an effect token, which orders it among others."""
    return target is with_effects


def number_of_results(function: Any, args: Sequence[Any]) -> int:
    """Return how many results the schema of an operator declares.

    Args:
        args: the arguments of the call. An object among them, whose method is called, is first.
    """
    return len(_get_schema(function, args).returns)


# ------------------------------------------------------------------------------------------------ DTensors, and tracing


def is_dtensor(value: Any) -> bool:
    """Return whether a value is a DTensor, not of a subclass. Nothing is imported: without its module, there is none."""
    return type(value) is getattr(sys.modules.get("torch.distributed.tensor"), "DTensor", None)


def mesh_of(value: Any) -> AbstractContextManager[Any]:
    """Return a context in which the mesh of a DTensor is in force; of any other value, one that changes nothing."""
    return value.device_mesh if is_dtensor(value) else nullcontext()


@contextmanager
def without_tracing() -> Iterator[None]:
    """A context in which torch's compiler, `torch.jit.trace` and `torch.func` trace nothing."""
    before, traced = set_eval_frame(None), torch._C._get_tracing_state()
    if traced is not None:
        torch._C._set_tracing_state(None)
    try:
        if torch._C._functorch.peek_interpreter_stack() is None:
            yield
        else:
            with temporarily_clear_interpreter_stack():
                yield
    finally:
        set_eval_frame(before)
        if traced is not None:
            torch._C._set_tracing_state(traced)
