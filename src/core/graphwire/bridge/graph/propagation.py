"""Extension `propagate`: computes the metadata of values that a document does not describe, by running nodes on metadata.

A file never chooses what runs. Only operators that an installed upgrader emits run (`DecodeContext.propagates`), and of
these only those that `torch_compat.why_not_run` accepts, with arguments that match the operator's schema. The process
state stays unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from graphwire.bridge.graph.values import (
    CONTAINER_VARIANTS,
    LITERAL_VARIANTS,
    DecodeScope,
    element_arguments,
    referenced_name,
)
from graphwire.bridge.torch_compat.fake_tensors import (
    accepts_numbers,
    is_constructor,
    run_on_metadata,
    why_not_run,
)
from graphwire.bridge.torch_compat.names import FakeTensor
from graphwire.bridge.torch_compat.private import preserved_process_state, schema_of, symbolic_parts
from graphwire.errors import DecodeError, GraphwireError
from graphwire.schema import Argument, Node, SequenceValue, variant_of

_KINDS: dict[str, tuple[type, ...]] = {
    "as_tensor": (torch.Tensor,),
    "as_sym_int": (int, torch.SymInt),
    "as_sym_float": (float, torch.SymFloat),
    "as_sym_bool": (bool, torch.SymBool),
}


def propagated_values(scope: DecodeScope, record: Node, node: torch.fx.Node) -> dict[str, Any]:
    """Compute the metadata of a node's values, by name, by calling its operator with the metadata of its inputs.

    Args:
        scope: the graph so far.
        record: the node, whose extension `propagate` leaves its results open.
        node: the FX node made from the record.

    Raises:
        DecodeError: the operator may not run on metadata, fails, or returns something else than the record declares.
    """
    operator: Any = node.target
    reason = why_not_run(operator)
    if record.target not in scope.context.propagates:
        reason = "no opset upgrader that is installed here emits it"
    if reason is not None:
        raise DecodeError(
            f"the results of {record.target} cannot be computed at load: {reason}",
            remedy="The upgrader that wrote the node must describe its results (`like=`, `known=`)",
        )
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), _known)
    check_arguments(record, operator, args, kwargs)
    inputs = [value for value in _leaves((*args, *kwargs.values())) if isinstance(value, torch.Tensor)]
    if not inputs and not is_constructor(operator):
        raise DecodeError(
            f"{record.target} has no tensor among its inputs, from whose metadata it could compute",
            place="inputs",
        )
    try:
        with preserved_process_state(record.target):
            result = run_on_metadata(scope.context.fakes.mode, operator, args, kwargs)
    except GraphwireError:
        raise
    except Exception as error:
        raise DecodeError(
            f"the results of {record.target} cannot be computed on metadata ({type(error).__name__}: {error})",
            remedy="Its library must register a fake implementation, or the upgrader must describe its results",
        ) from error
    from graphwire.bridge.torch_compat.symbolic import fresh_unbacked_symbols

    scope.context.pending |= fresh_unbacked_symbols(scope.context.shape_env)
    single = record.outputs[0] if len(record.outputs) == 1 else None
    if (
        single is not None
        and record.is_hop_single_tensor_return is False
        and variant_of(single) not in CONTAINER_VARIANTS
    ):
        single = None
    whole = single or Argument(as_sequence=SequenceValue("tuple", record.outputs))
    grad = any(value.requires_grad for value in inputs)
    return {name: _settled(value, grad) for name, value in _named(record, whole, result)}


def _known(node: torch.fx.Node) -> Any:
    """Return the metadata of a value; for a graph or container structure the node itself, which matches no schema type."""
    return node.meta.get("val", node)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from _leaves(each)
    else:
        yield value


# ---------------------------------------------------------------------------------------------------- arguments


def _is_int(value: Any) -> bool:
    if isinstance(value, torch.SymInt):
        return _is_simple(value)
    return type(value) is int and -(2**63) <= value < 2**63


def _is_float(value: Any) -> bool:
    return type(value) is float or _is_int(value) or (isinstance(value, torch.SymFloat) and _is_simple(value))


def _is_bool(value: Any) -> bool:
    return type(value) is bool or (isinstance(value, torch.SymBool) and _is_simple(value))


def _is_tensor(value: Any) -> bool:
    if type(value) is not FakeTensor or value.layout is not torch.strided:
        return False
    return all(map(_is_int, (*value.shape, *value.stride(), value.storage_offset())))


_TYPES: dict[str, Callable[[Any], bool]] = {
    "Tensor": _is_tensor,
    "int": _is_int,
    "SymInt": _is_int,
    "float": _is_float,
    "bool": _is_bool,
    "SymBool": _is_bool,
    "number": lambda value: _is_float(value) or _is_bool(value) or type(value) is complex,
    "complex": lambda value: _is_float(value) or type(value) is complex,
    "str": lambda value: type(value) is str,
    "ScalarType": lambda value: isinstance(value, torch.dtype),
    "Layout": lambda value: isinstance(value, torch.layout),
    "Device": lambda value: isinstance(value, torch.device),
    "MemoryFormat": lambda value: isinstance(value, torch.memory_format),
    "Generator": lambda value: False,
}
"""For each schema type with metadata values, whether a value is of that type. A generator can only be omitted."""

_SIMPLE = "Symbol", "Integer", "Rational", "Float", "Add", "Mul"
"""The classes of sympy, with their subclasses, that a simple value may have."""
_SIMPLE_NAMES = frozenset(
    "FloorDiv CleanDiv PythonMod Mod Max Min ToFloat Eq Ne Lt Le Gt Ge Equality Unequality StrictLessThan "
    "StrictGreaterThan LessThan GreaterThan ModularIndexing CeilToInt FloorToInt IntTrueDiv".split()
)
_MOST_PARTS = 200
"""The most parts of a symbolic value that a kernel may compute with: each comparison walks all of them."""


def _is_simple(value: Any) -> bool:
    """Return whether a symbolic value is small and has no powers."""
    import sympy

    expression, _ = symbolic_parts(value)
    simple = tuple(getattr(sympy, name) for name in _SIMPLE)
    for count, part in enumerate(sympy.preorder_traversal(expression)):
        if count >= _MOST_PARTS:
            return False
        if isinstance(part, sympy.Integer):
            if abs(int(part)) >= 2**63:
                return False
        elif not isinstance(part, simple) and type(part).__name__ not in _SIMPLE_NAMES:
            return False
    return True


def check_arguments(record: Node, operator: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Raise if arguments do not match an operator's schema. Runs before its kernel gets them."""
    schema = schema_of(operator)
    named = dict(zip((each.name for each in schema.arguments), args, strict=False)) | kwargs
    if len(args) + len(kwargs) != len(named) or not named.keys() <= {each.name for each in schema.arguments}:
        raise DecodeError(f"{record.target} has no such arguments", place="inputs")
    for parameter in schema.arguments:
        if parameter.name not in named:
            if not parameter.has_default_value():
                raise DecodeError(f"{record.target} lacks a value for {parameter.name}", place="inputs")
        elif (
            str(parameter.type) == "Tensor"
            and accepts_numbers(operator)
            and _TYPES["number"](named[parameter.name])
        ):
            continue
        elif not _fits(named[parameter.name], str(parameter.real_type), parameter.N):
            raise DecodeError(
                f"{record.target} takes a {parameter.real_type} as {parameter.name}, small enough to compute with, and "
                f"gets {named[parameter.name]!r:.80}",
                place="inputs",
            )


def _fits(value: Any, kind: str, length: int | None) -> bool:
    if kind.startswith("Optional["):
        return value is None or _fits(value, kind[9:-1], length)
    if kind.startswith("List["):
        inner = kind[5:-1]
        if isinstance(value, (list, tuple)):
            return len(value) <= _MOST_ELEMENTS and all(_fits(each, inner, None) for each in value)
        return bool(length) and _fits(value, inner, None)  # torch repeats one number
    return kind in _TYPES and _TYPES[kind](value)


_MOST_ELEMENTS = 10_000
"""The most elements of a list that a kernel may get."""

# ------------------------------------------------------------------------------------------------------ results


def _named(record: Node, argument: Argument, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the values of an output, by name."""
    variant = variant_of(argument)
    if variant in CONTAINER_VARIANTS:
        elements = element_arguments(argument)
        if not isinstance(value, (tuple, list, dict)) or len(value) != len(elements):
            raise DecodeError(f"{record.target} does not return {len(elements)} results here")
        for key, element in elements:
            if isinstance(value, dict) and key not in value:
                raise DecodeError(f"{record.target} does not return the result {key!r:.80} here")
            yield from _named(record, element, value[key])
    elif variant not in LITERAL_VARIANTS:
        if not isinstance(value, _KINDS.get(variant, ())):
            raise DecodeError(
                f"{record.target} returns a {type(value).__name__}, where the record has {variant}"
            )
        yield referenced_name(argument), value


def _settled(value: Any, grad: bool) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    if type(value) is not FakeTensor:
        raise DecodeError(f"a fake kernel returns a {type(value).__name__}, which is not a fake tensor")
    if grad and (value.is_floating_point() or value.is_complex()):
        return value.detach().requires_grad_()
    return value
