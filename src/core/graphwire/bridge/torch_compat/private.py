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
import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch._export.verifier import Verifier
from torch._higher_order_ops.effects import _get_schema, with_effects
from torch._library.fake_class_registry import FakeScriptObject
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.export.graph_signature import ExportGraphSignature
from torch.fx.experimental.sym_node import SymNode
from torch.fx.graph import _custom_builtins, _PyTreeCodeGen, _PyTreeInfo

from graphwire.bridge.torch_compat import code_text, releases
from graphwire.bridge.torch_compat.verifiers import check_program
from graphwire.errors import GraphwireWarning
from graphwire.lazy import pattern
from graphwire.process import InterruptSafe

if TYPE_CHECKING:
    import sympy

mkldnn_layout = torch._mkldnn
"""The layout of tensors in the format of oneDNN."""


class no_torch_function(InterruptSafe):  # noqa: N801 # as torch names its own
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


_fake_device = operator.attrgetter(
    "_fake_device" if isinstance(vars(FakeTensor).get("fake_device"), property) else "fake_device"
)


def device_of(tensor: torch.Tensor) -> torch.device:
    """Return `tensor.device`; for a fake tensor, the device it represents, without the two Python properties of torch."""
    device: torch.device = _fake_device(tensor) if type(tensor) is FakeTensor else tensor.device
    return device


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
_MARK_NAMES = frozenset(_MARKS.values())


def parameter_or_buffer(value: Any) -> Literal["parameter", "buffer"] | None:
    """Return whether a fake tensor acts as an `nn.Parameter` or an `nn.Buffer`; None for any other value."""
    if type(value) is FakeTensor:
        attributes = vars(value)  # asking the tensor for an absent attribute takes four times as long
        if not _MARK_NAMES.isdisjoint(attributes):
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
    parameter: torch.Tensor = torch.Tensor._make_subclass(torch.nn.Parameter, tensor, requires_grad)
    return parameter


class _GraphModuleWithoutCode(torch.fx.GraphModule):
    def recompile(self) -> Any:
        """Generate nothing."""


def graph_module(root: torch.nn.Module | dict[str, Any], graph: torch.fx.Graph) -> torch.fx.GraphModule:
    """Return a graph module over `root`'s attributes without code; `generate_code` adds it. torch would generate the code of
    all nested modules again for each module it generates."""
    made = _GraphModuleWithoutCode(root, graph)
    type(made).__bases__ = (
        torch.fx.GraphModule,
    )  # each module has its own class, whose bases must be what torch makes
    return made


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
    written = []
    for graph in (each._graph for each in modules):
        if (code := code_text.python_code(graph)) is not None:
            graph.python_code = functools.partial(_given, code)
            written.append(graph)
    try:
        _compile(modules, runs=runs)
    finally:
        for graph in written:
            del graph.python_code
    for graph in written if not runs else ():  # whose table is in order
        _sort_table(graph)


def _given(code: Any, *_args: Any, **_options: Any) -> Any:
    return code


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
                warnings.warn(message, GraphwireWarning, stacklevel=2)
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


_OWN_SIZES = frozenset((FakeTensor, torch.Tensor, torch.nn.Parameter))
"""The tensor types that hold their sizes themselves. A subclass may compute them from something else."""


def may_have_symbolic_sizes(tensor: torch.Tensor) -> bool:
    """Return whether a size, a stride or the offset of `tensor` may be symbolic. This is 6 times faster than checking
    each."""
    return type(tensor) not in _OWN_SIZES or tensor._has_symbolic_sizes_strides


def is_transformed(tensor: torch.Tensor) -> bool:
    """Return whether `tensor` belongs to a function transform (`torch.func.grad`, `vmap`) and owns no elements."""
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(tensor))


def script_class_name(value: Any) -> str | None:
    """Return the class of a script object or opaque value, or of its placeholder in a trace; None for any other value."""
    if isinstance(value, FakeScriptObject):
        return str(value.script_class_name)
    if isinstance(value, torch.ScriptObject):
        return str(value._type().qualified_name())
    return releases.opaque_type_name(type(value))


def guards_of(program: torch.export.ExportedProgram) -> list[str]:
    """Return the conditions on the inputs that `program.module()` checks, as Python expressions."""
    guards = list(getattr(program, "_guards_code", ()))
    if not all(isinstance(each, str) for each in guards):
        raise TypeError("a guard of the program is not a text")
    return guards


def set_guards(program: torch.export.ExportedProgram, guards: list[str]) -> None:
    """Replace the conditions on the inputs that `program.module()` checks."""
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
    root: torch.nn.Module, graph: torch.fx.Graph, *, verifiers: list[Any], **parts: Any
) -> torch.export.ExportedProgram:
    """Assemble a program from its parts, and check it with its verifiers.

    The constructor would run the verifiers on each node. Here the parts are set on a copy of an empty program.

    Args:
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
    check_program(program)
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
        if _PLAIN.fullmatch(name) and name not in used and name not in _TAKEN:
            used.add(name)  # torch would give the same name
        else:
            name = namespace.create_name(graph._target_to_str(path), None)
        # Not by an assignment, which would also remove the node from the graph's tables and add it again.
        object.__setattr__(node, "name", name)
        namespace._rename_object(node, name)


_PLAIN = pattern(r"[a-z_][a-z0-9_]*[a-z]")
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
