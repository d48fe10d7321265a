"""Every use of torch that is not public: one function or name each, so that a new release breaks one line here.

Each has a test in `tests/bridge/test_torch_private.py` that fails when the private thing changes.
"""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Iterable
from typing import Any, Literal

import sympy
import torch
from torch._export.verifier import Verifier
from torch._library.fake_class_registry import FakeScriptObject
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.export.graph_signature import ExportGraphSignature
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import (
    ShapeEnv,
    _free_unbacked_symbols_with_path,
    free_unbacked_symbols,
)
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.symbol import SymT, symbol_is_type
from torch.utils._sympy.value_ranges import ValueRanges
from torch.utils._traceback import CapturedTraceback

from graphwire.bridge.torch_compat import releases
from graphwire.bridge.torch_compat.verifiers import check_program
from graphwire.errors import GraphwireWarning
from graphwire.process import InterruptSafe

__all__ = [
    "FakeTensor",
    "FakeTensorMode",
    "FakeTensors",
    "HigherOrderOperator",
    "OpOverload",
    "ShapeEnv",
    "ValueRanges",
    "allow_tracing",
    "as_parameter",
    "buffer_mark",
    "constrain_for_size",
    "declare_symbol",
    "defer_assertion",
    "device_of",
    "exported_program",
    "expression_size",
    "fake_value_mode",
    "fresh_unbacked_symbols",
    "generate_code",
    "graph_module",
    "guards_of",
    "hint_symbolic_value",
    "identities",
    "int_oo",
    "is_unbacked",
    "mark_buffer",
    "mark_parameter_or_buffer",
    "negative_view",
    "new_shape_env",
    "no_torch_function",
    "operators_in",
    "parameter_or_buffer",
    "replace_symbol",
    "replacements",
    "reserve_unbacked",
    "set_guards",
    "symbolic_identity",
    "symbolic_node",
    "symbolic_parts",
    "symbolic_value",
    "unbacked_bindings",
]


class no_torch_function(InterruptSafe):  # noqa: N801 # as torch names its own
    """A context manager in which subclasses of tensors are asked for their attributes directly."""

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
    """`tensor.device`; of a fake tensor the device that it stands for, which torch hides behind two properties in Python."""
    device: torch.device = _fake_device(tensor) if type(tensor) is FakeTensor else tensor.device
    return device


symbolic_node = operator.attrgetter("node")
"""The node of a symbolic value: one object for all the `SymInt`s that stand for one size."""


def symbolic_identity(node: Any) -> tuple[int, ...]:
    """What torch's nodes of symbolic values are made of: the ids of parts that a node keeps alive. Nodes with the same parts
    have one expression and hint. torch makes a node for each tensor."""
    if type(node) is not SymNode:
        return (id(node),)
    return id(node._expr), id(node._hint)


def identities(integers: Iterable[Any]) -> tuple[Any, ...]:
    """Integers with `symbolic_identity` in the place of the symbolic ones."""
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


def new_shape_env() -> ShapeEnv:
    """A shape environment for symbols that are declared by a document rather than found by tracing."""
    return ShapeEnv(assume_static_by_default=True)


def fake_value_mode(shape_env: ShapeEnv) -> FakeTensorMode:
    """A fake tensor mode for node metadata, over `shape_env`. It runs no real kernel."""
    return FakeTensorMode(allow_fallback_kernels=False, allow_non_fake_inputs=True, shape_env=shape_env)


def allow_tracing(mode: FakeTensorMode) -> None:
    """Let the mode of a program that is complete trace as the mode of an export does: an operator of torch's without a fake
    kernel is tried with its real one, and no tensor that is made gives away an address."""
    mode.allow_fallback_kernels = True
    mode._allow_unsafe_data_ptr_access = False


class FakeTensors:
    """Makes the fake tensors of a mode.

    The constructor of a fake tensor works out attributes that are the same for all of one device, which takes four times
    as long as the tensor itself. So it is asked once for each device.
    """

    def __init__(self, mode: FakeTensorMode) -> None:
        self.mode = mode
        self._attributes: dict[torch.device, dict[str, Any]] = {}

    def make(self, meta: torch.Tensor, device: torch.device, requires_grad: bool) -> FakeTensor:
        """A fake tensor on `device` that has the sizes, strides and type of `meta`, and owns it from now on."""
        attributes = self._attributes.get(device)
        if attributes is None:
            first = FakeTensor(self.mode, torch.empty(0, device="meta"), device)
            attributes = self._attributes[device] = vars(first)
        fake: FakeTensor = torch.Tensor._make_subclass(
            FakeTensor, meta, requires_grad, dispatch_device=True, device_for_backend_keys=device
        )
        torch._C._set_throw_on_mutable_data_ptr(fake)
        vars(fake).update(attributes)
        return fake


_MARKS: dict[Literal["parameter", "buffer"], str] = {"parameter": "_is_param", "buffer": "_is_buffer"}
_MARK_NAMES = frozenset(_MARKS.values())


def parameter_or_buffer(value: Any) -> Literal["parameter", "buffer"] | None:
    """What a tensor that is no plain one passes for, an `nn.Parameter` or an `nn.Buffer`; None for any other value."""
    if type(value) is FakeTensor:
        attributes = vars(value)  # to ask the tensor for what it has not takes four times as long
        if not _MARK_NAMES.isdisjoint(attributes):
            return next((kind for kind, mark in _MARKS.items() if attributes.get(mark)), None)
    return None


def mark_parameter_or_buffer(fake: torch.Tensor, kind: Literal["parameter", "buffer"]) -> None:
    """Let a fake tensor pass for an `nn.Parameter` or `nn.Buffer`; making one of it would go through the dispatcher."""
    setattr(fake, _MARKS[kind], True)


def buffer_mark(tensor: Any) -> bool | None:
    """Of a `torch.nn.Buffer`, whether it is persistent; None of what is none."""
    marked = getattr(tensor, "_is_buffer", False)
    return bool(getattr(tensor, "persistent", True)) if marked is True else None


def mark_buffer(tensor: torch.Tensor, persistent: bool) -> None:
    """Let `tensor` be a `torch.nn.Buffer`, as one made of it would be."""
    tensor.persistent, tensor._is_buffer = persistent, True


def as_parameter(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor without gradients as a `torch.nn.Parameter`; one of a subclass keeps its class, and is marked as torch marks
    it, without a call of its operators."""
    if type(tensor) is torch.Tensor:
        return torch.nn.Parameter(tensor, requires_grad=False)
    tensor._is_param = True
    return tensor


class _GraphModuleWithoutCode(torch.fx.GraphModule):
    def recompile(self) -> Any:
        """Generate nothing."""


def graph_module(root: torch.nn.Module | dict[str, Any], graph: torch.fx.Graph) -> torch.fx.GraphModule:
    """A graph module over `root`'s attributes, whose code `generate_code` generates: each time that torch generates a graph
    module's, it generates those of all below it once more."""
    made = _GraphModuleWithoutCode(root, graph)
    type(made).__bases__ = (
        torch.fx.GraphModule,
    )  # each has a class of its own, which is to be as torch makes it
    return made


def generate_code(module: torch.fx.GraphModule) -> None:
    """Let a graph module of `graph_module`, and those below it, be as torch's constructor leaves them.

    An argument whose text is no code, such as an operator inside a dict, cannot be written into any. As in what torch loads, the
    graph is there then, and its module has the code of an empty one.
    """
    for each in module.modules():
        if isinstance(each, torch.fx.GraphModule) and "_code" not in vars(each):
            graph = each._graph
            try:
                each.recompile()  # and those below
            except SyntaxError:
                message = "a graph holds an argument that generated code cannot say: its module does nothing when it is called"
                warnings.warn(message, GraphwireWarning, stacklevel=2)
                each.graph = torch.fx.Graph()
                each._graph = graph


def symbolic_parts(value: torch.SymInt | torch.SymFloat | torch.SymBool) -> tuple[sympy.Basic, Any]:
    """The expression of a symbolic value, and the value it had on the example inputs (None when there is none)."""
    node = value.node
    return node.expr, node.hint


_SYMBOLIC: dict[type, type] = {int: torch.SymInt, float: torch.SymFloat, bool: torch.SymBool}


def expression_size(value: Any, most: int) -> int:
    """How many numbers (a long one counts for each 64 bits), symbols and operations the expression of a symbolic value has, as
    it was made, those of a power as often as it multiplies them; those beyond `most` are not counted. A symbol alone, and any
    other value, has none."""
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
            # sympy takes the derivatives of a polynomial, one by one
            times *= max(1, min(abs(args[1].p), most + 1))
        pending.extend([(each, times) for each in args])
    return count


def hint_symbolic_value(value: Any, hint: Any) -> None:
    """Let a symbolic value have had `hint` on the example inputs."""
    value.node._hint = hint


def symbolic_value(shape_env: ShapeEnv, expression: sympy.Basic, kind: type, hint: Any) -> Any:
    """The symbolic value of an expression, also of one that is a number: torch has those where a size that was unknown
    turned out to be known.

    torch computes a hint where it is given none, and nothing bounds how long that takes. So it is given one until the
    value is made, and learns afterwards what its environment is.

    Args:
        kind: `int`, `float` or `bool`.
        hint: the value on the example inputs; None where there is none, as for values that only a run knows.
    """
    node = SymNode(expression, None, kind, kind(0))
    node.shape_env = shape_env
    node._hint = None if hint is not None and free_unbacked_symbols(expression) else hint
    return _SYMBOLIC[kind](node)


def declare_symbol(
    shape_env: ShapeEnv, symbol: sympy.Symbol, ranges: ValueRanges | None, hint: int | float | None
) -> None:
    """Make `symbol` known: the values it may take, and the one it had (None for a symbol without backing)."""
    if hint is not None and symbol not in (values := releases.backed_values(shape_env)):
        values[symbol] = sympy.Integer(hint) if type(hint) is int else sympy.Float(hint)
    if ranges is not None:
        shape_env.constrain_symbol_range(symbol, compiler_min=ranges.lower, compiler_max=ranges.upper)
    shape_env.var_to_stack.setdefault(symbol, CapturedTraceback.extract(skip=1))


def replacements(shape_env: ShapeEnv, symbols: Iterable[sympy.Basic]) -> dict[sympy.Symbol, sympy.Basic]:
    """Those of `symbols` that tracing found equal to an expression of others, and that expression."""
    return {symbol: shape_env.replace(symbol) for symbol in symbols if symbol in shape_env.replacements}


def replace_symbol(shape_env: ShapeEnv, symbol: sympy.Symbol, expression: sympy.Basic) -> None:
    """Let `expression` stand for `symbol`, which no value made so far has."""
    shape_env.replacements[symbol] = expression


def reserve_unbacked(shape_env: ShapeEnv, names: Iterable[str]) -> None:
    """Keep the numbers of unbacked symbols (`u3`, `zuf0`) from being given to new ones."""
    for name in names:
        for prefix, counter in (("zuf", "unbacked_symfloat_counter"), ("u", "unbacked_symint_counter")):
            if name.startswith(prefix) and name[len(prefix) :].isdigit():
                used = int(name[len(prefix) :]) + 1
                releases.reserve_numbers(shape_env, counter, used)


def is_unbacked(symbol: sympy.Symbol) -> bool:
    """Whether `symbol` stands for a value that is only known when the program runs."""
    return symbol_is_type(symbol, (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT))


def unbacked_bindings(value: Any, shape_env: ShapeEnv, pending: set[sympy.Symbol]) -> dict[sympy.Symbol, Any]:
    """The unbacked symbols of `pending` that `value` brings, each with the path at which it stands in `value`; those
    are taken out of `pending`."""
    return _free_unbacked_symbols_with_path(value, (), shape_env=shape_env, pending=pending, simplify=True)


def fresh_unbacked_symbols(shape_env: ShapeEnv) -> set[sympy.Symbol]:
    """The unbacked symbols that an operator made since the last call, taken off the environment's list."""
    symbols = set(shape_env.pending_fresh_unbacked_symbols)
    shape_env.pending_fresh_unbacked_symbols.clear()
    return symbols


def defer_assertion(shape_env: ShapeEnv, condition: torch.SymBool, node: torch.fx.Node) -> None:
    """Let `shape_env` know a condition that `node` asserts when the program runs."""
    shape_env.guard_or_defer_runtime_assert(condition.node.expr, "", node)


def constrain_for_size(shape_env: ShapeEnv, value: torch.SymInt) -> None:
    """Let `shape_env` know that an unbacked value is used as a size."""
    shape_env._constrain_range_for_size(value.node.expr)


_OWN_SIZES = frozenset((FakeTensor, torch.Tensor, torch.nn.Parameter))
"""The types of tensors that have their sizes themselves; a subclass may ask something else for them."""


def may_have_symbolic_sizes(tensor: torch.Tensor) -> bool:
    """Whether some size, stride or the offset of `tensor` may be a symbol. It takes a sixth of asking each of them."""
    return type(tensor) not in _OWN_SIZES or tensor._has_symbolic_sizes_strides


def is_transformed(tensor: torch.Tensor) -> bool:
    """Whether `tensor` belongs to a function transform (`torch.func.grad`, `vmap`) and has no elements of its own."""
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(tensor))


def script_class(value: Any) -> str | None:
    """The class of a script object or opaque value, or of what stands for one in a trace; None for another value."""
    if isinstance(value, FakeScriptObject):
        return str(value.script_class_name)
    if isinstance(value, torch.ScriptObject):
        return str(value._type().qualified_name())
    return releases.opaque_type_name(type(value))


def guards_of(program: torch.export.ExportedProgram) -> list[str]:
    """The conditions on the inputs that `program.module()` checks, as Python expressions."""
    guards = list(getattr(program, "_guards_code", ()))
    if not all(isinstance(each, str) for each in guards):
        raise TypeError("a guard of the program is no text")
    return guards


def set_guards(program: torch.export.ExportedProgram, guards: list[str]) -> None:
    """Replace the conditions on the inputs that `program.module()` checks."""
    program._guards_code = guards


@functools.cache
def _empty_program() -> torch.export.ExportedProgram:
    """What else the constructor gives a program, beside the parts of `exported_program`."""
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
    **parts: Any,
) -> torch.export.ExportedProgram:
    """A program of its parts, checked by its verifiers.

    The constructor would ask the verifiers about each node. What it makes of an empty program gets the parts.

    Args:
        parts: what else the constructor takes.

    Raises:
        DecodeError: torch does not accept the parts as a program.
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


def operators_in(namespace: str) -> list[str]:
    """Return the qualified names of the operators that are registered in a namespace, such as `aten::relu`."""
    return [
        schema.name for schema in torch._C._jit_get_all_schemas() if schema.name.startswith(f"{namespace}::")
    ]


def negative_view(tensor: torch.Tensor) -> torch.Tensor:
    """Return a view of a tensor with the negative bit set: its elements are the negated ones of its storage."""
    view: torch.Tensor = torch._neg_view(tensor)
    return view
