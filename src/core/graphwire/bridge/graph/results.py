"""Converts the results of a node, and the `getitem` nodes that read its elements, to and from outputs.

A node with several results is one node in a record; FX has a `getitem` node for each result that is used. Encoding folds
those nodes into the names of the outputs; decoding creates them again.

Results that a document does not describe (extension `propagate`) get their metadata by running nodes on metadata. A file never
chooses what runs: only operators that an installed upgrader emits run (`DecodeContext.propagates`), and of these only those that
`torch_compat.why_not_run` accepts, with arguments that match the operator's schema. The process state stays unchanged.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from graphwire.bridge.context import EncodeContext, Operator
from graphwire.bridge.graph.metadata import decode_metadata, encode_metadata
from graphwire.bridge.graph.values import (
    CONTAINER_VARIANTS,
    LITERAL_VARIANTS,
    NOTHING,
    DecodeScope,
    EncodeScope,
    decode_container,
    decode_tensor,
    decode_value,
    element_arguments,
    elements_of,
    encode_container,
    encode_value,
    record_stated_value,
    referenced_name,
    set_stated_value,
)
from graphwire.bridge.tensors.tensor_metas import encode_tensor_meta
from graphwire.bridge.torch_compat import fake_tensors, private
from graphwire.errors import DecodeError, GraphwireError, unless_interrupted, warn
from graphwire.schema import Argument, Node, SequenceValue, ValueMetadata, variant_of
from graphwire.wire.document import check_expanded_size

# ----------------------------------------------------------------------------------------------------- encode


def encode_results(
    scope: EncodeScope, called: Operator, node: torch.fx.Node, record: Node, metadata: ValueMetadata
) -> None:
    """Add the results of an FX node to its record.

    Args:
        record: the node's record, which gets its outputs and their form.
        metadata: the node's metadata, which an element shares unless its own is recorded.

    Raises:
        EncodeError: a record cannot represent a result.
    """
    value = node.meta.get("val")
    elements = None if isinstance(value, torch.Tensor) else elements_of(value)
    if called.handler.convention == "generic":
        # A schema tells whether an operator returns a tuple; for other operators this flag does, as in torch.
        record.is_hop_single_tensor_return = elements is None or isinstance(value, dict)
    if elements is None:
        if value is None and called.returns is not None and len(called.returns) == 0 and not node.users:
            return
        argument = encode_value(scope, node.name, value)
        record.outputs = [argument]
        if called.only_result == ("Tensor" if argument.as_tensor is None else "number"):
            scope.context.features.add("results")  # torch looks for the name of a value of that type
        # Users refer to the node's result, not to the literal.
        if argument.as_tensor is None and variant_of(argument) in LITERAL_VARIANTS and node.users:
            scope.context.features.add("results")
            argument = Argument(as_results=node.name)
        scope.nodes[node] = argument
        return
    if called.only_result == "Tensor":
        scope.context.features.add("results")
    check_expanded_size(value, "the description of the results")
    arguments = _encode_elements(scope, [node], elements, f"{node.name}_unused", node.name, metadata)
    if isinstance(value, dict):
        scope.context.features.add("outputs")
        record.outputs = [encode_container(scope.context, value, arguments)]
        return
    listed = _is_listed(called)
    if isinstance(value, list) is not listed or not arguments:
        record.container = "list" if isinstance(value, list) else "tuple"
    record.outputs = [encode_container(scope.context, value, arguments)] if listed else arguments
    if not listed and len(arguments) == 1:  # otherwise the only element would be the node's result
        record.is_hop_single_tensor_return = False


def _is_listed(called: Operator) -> bool:
    """Return whether the operator has one result that is a list (`Tensor[]`), rather than several results."""
    return called.returns is not None and len(called.returns) == 1


def _encode_elements(
    scope: EncodeScope,
    nodes: Sequence[torch.fx.Node],
    elements: list[tuple[Any, Any]],
    stem: str,
    path: str,
    metadata: ValueMetadata,
) -> list[Argument]:
    """Encode the elements of a container; the `getitem` node that reads an element names it.

    Args:
        nodes: the nodes whose value is the container; empty if nothing reads it.
        elements: the elements, each with the index or key that reads it.
        stem: the name prefix of elements that nothing reads.
        path: the container's key in `value_metadata`.
        metadata: the node's metadata, which an element shares unless its own is recorded.
    """
    readers = _readers(scope, nodes, elements)
    arguments = []
    for index, (key, value) in enumerate(elements):
        reading = readers.get(key, ())
        unused, place = f"{stem}_{index}", f"{path}[{index}]"
        first, own = None, NOTHING
        if reading:
            first = reading[0]
            own = encode_metadata(scope.context, first.meta)
            record_stated_value(scope, own, first, value)
            scope.order.setdefault(first)
            for copy in reading[1:]:
                _encode_copy(scope, copy, first, value)
        inner = elements_of(value)
        name = unused if first is None else first.name
        if inner is not None:
            below = unused if first is None else f"{name}_unused"
            argument = encode_container(
                scope.context, value, _encode_elements(scope, reading, inner, below, place, metadata)
            )
        else:
            argument = encode_value(scope, name, value)
            for reader in reading:
                scope.nodes[reader] = argument
        is_tensor = argument.as_tensor is not None  # the common case
        if (
            first is not None
            and not is_tensor
            and (inner is not None or variant_of(argument) in LITERAL_VARIANTS)
        ):
            own.name = name
            scope.record.value_metadata[place] = own
        elif first is not None and (name == unused or own != metadata):
            scope.record.value_metadata[name] = own
        arguments.append(argument)
    return arguments


def _encode_copy(scope: EncodeScope, copy: torch.fx.Node, first: torch.fx.Node, value: Any) -> None:
    """Record another node that reads the same element as `first`."""
    own = encode_metadata(scope.context, copy.meta)
    record_stated_value(scope, own, copy, value)
    scope.record.value_metadata[copy.name] = own
    scope.copies[copy] = first
    scope.order.setdefault(copy)


def _readers(
    scope: EncodeScope, nodes: Sequence[torch.fx.Node], elements: list[tuple[Any, Any]]
) -> dict[Any, list[torch.fx.Node]]:
    """Return the `getitem` nodes of each element of a container, in graph order. The first names the element; the others are
    its copies. All other users refer to the container as a whole, and so does a reader that cannot name the element."""
    readers: dict[Any, list[torch.fx.Node]] = {}
    known = {(type(key), key): value for key, value in elements}
    for node in nodes:
        scope.nodes[node] = Argument(as_results=nodes[0].name)
        for user in node.users:
            key = None
            # Python calls it with two arguments, none of them by keyword.
            if user.target is operator.getitem and not user.kwargs and len(args := user.args) == 2:
                key = args[1] if args[0] is node else None
            if (
                type(key) in (int, str, float, bool)
                and (type(key), key) in known
                and _is_name_of(scope.context, user, known[type(key), key])
            ):
                scope.folded.add(user)
                readers.setdefault(key, []).append(user)
            else:
                scope.context.features.add("results")
    for reading in readers.values():
        if len(reading) > 1:
            reading.sort(key=scope.places.__getitem__)
    return readers


def _is_name_of(context: EncodeContext, reader: torch.fx.Node, value: Any) -> bool:
    """Return whether a node that reads an element can name it. A literal has no name to refer to. Metadata of the node that
    differs from the element's can be recorded for tensors only."""
    stated = reader.meta.get("val")
    if (value is None or isinstance(value, str)) and reader.users:
        return stated == value and all(user.op == "output" for user in reader.users)
    if stated is value or stated is None or _represents(context, stated, value):
        return True
    if not any(user.op == "output" for user in reader.users):
        return False
    warn(  # a separate node would give an output the metadata of this node
        f"the metadata of the node {reader.name!r} is not saved: it differs from the element that the node reads"
    )
    return True


def _represents(context: EncodeContext, stated: Any, value: Any) -> bool:
    """Return whether the record of the element's value also represents the value in a reader's metadata."""
    if type(stated) is private.FakeTensor:  # the common case
        return True
    if isinstance(stated, torch.Tensor):
        return not private.is_traceable_wrapper_subclass(stated)
    if type(stated) is not type(value):
        return False
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return private.symbolic_parts(stated) == private.symbolic_parts(value)
    parts, others = elements_of(value), elements_of(stated)
    if parts is None or others is None:
        return stated == value or stated != stated  # noqa: PLR0124 # true only for nan
    return len(parts) == len(others) and all(
        type(key) is type(other) and key == other and _are_same(context, a, b)
        for (key, a), (other, b) in zip(parts, others, strict=True)
    )


def _are_same(context: EncodeContext, stated: Any, value: Any) -> bool:
    if isinstance(stated, torch.Tensor) and isinstance(value, torch.Tensor) and stated is not value:
        alike = private.parameter_or_buffer(stated) == private.parameter_or_buffer(value)
        return alike and encode_tensor_meta(context, stated) == encode_tensor_meta(context, value)
    return stated is value or (not isinstance(stated, torch.Tensor) and _represents(context, stated, value))


# ----------------------------------------------------------------------------------------------------- decode


def decode_results(
    scope: DecodeScope, called: Operator, record: Node, node: torch.fx.Node, metadata: dict[str, Any]
) -> None:
    """Set the value of an FX node from the outputs of its record, and add a `getitem` node for each element that may be read.

    Args:
        metadata: the node's metadata, without `val`.

    Raises:
        DecodeError: a result has no description, or a name occurs twice.
    """
    outputs = record.outputs
    if (
        not scope.context.describes
        and len(outputs) == 1
        and (tensor := outputs[0].as_tensor) is not None
        and record.is_hop_single_tensor_return is not False
    ):
        scope.add(
            tensor.name, node, None, metadata
        )  # the common case, of which the rest would be the description
        return
    if not outputs and called.handler.convention == "schema" and record.container is None:
        scope.complete(node, record.name, None, metadata)
        return
    single = outputs[0] if len(outputs) == 1 and record.is_hop_single_tensor_return is not False else None
    if single is not None and (tensor := single.as_tensor) is not None:
        scope.add(tensor.name, node, decode_tensor(scope, tensor), metadata)
        return
    if single is not None and variant_of(single) not in CONTAINER_VARIANTS:
        value = decode_value(scope, single)
        if variant_of(single) in LITERAL_VARIANTS:
            scope.complete(node, record.name, value, metadata)
            scope.results[node.name] = node
        else:
            scope.add(referenced_name(single), node, value, metadata)
        return
    whole = single or Argument(as_sequence=SequenceValue("tuple", outputs))
    elements = element_arguments(whole)
    tensors = whole.as_tensors
    if tensors is None:
        values = [decode_value(scope, element) for _, element in elements]
    else:
        values = [decode_tensor(scope, tensor) for tensor in tensors]
    value = decode_container(whole, values)
    if record.container is not None or (isinstance(value, list) and not _is_listed(called)):
        value = list(values) if record.container == "list" else tuple(values)
    scope.complete(node, record.name, value, metadata)
    scope.results[node.name] = node
    _read_elements(scope, node, elements, values, node.name, metadata)


def _read_elements(
    scope: DecodeScope,
    node: torch.fx.Node,
    elements: list[tuple[Any, Argument]],
    values: list[Any],
    path: str,
    metadata: dict[str, Any],
) -> None:
    """Add the nodes that read the elements of a node's value.

    Args:
        path: the value's key in `value_metadata`.
        metadata: the metadata of an element that has none of its own.
    """
    for index, ((key, element), value) in enumerate(zip(elements, values, strict=True)):
        variant, unused, place = variant_of(element), f"{node.name}_unused_{index}", f"{path}[{index}]"
        if (tensor := element.as_tensor) is not None and tensor.name != unused:
            _read_element(scope, node, key, tensor.name, value, metadata)
        elif variant in CONTAINER_VARIANTS:
            read = functools.partial(_read_container, scope, node, key, element, value, place, metadata)
            if place in scope.record.value_metadata or _is_read(element, unused):
                read()
            else:
                _read_when_used(scope, _names_in(element), read)
        elif variant in LITERAL_VARIANTS:
            noted = scope.noted(place)
            if noted is not None and noted.name is not None:
                reader = scope.call(operator.getitem, (node, key), {}, noted.name)
                scope.complete(reader, noted.name, value, decode_metadata(scope.context, noted))
                set_stated_value(scope, reader, noted)
        else:
            name = referenced_name(element)
            read = functools.partial(_read_element, scope, node, key, name, value, metadata)
            if name != unused or name in scope.record.value_metadata:
                read()
            else:
                _read_when_used(scope, [name], read)


def _read_element(
    scope: DecodeScope, node: torch.fx.Node, key: Any, name: str, value: Any, metadata: dict[str, Any]
) -> None:
    reader = scope.call(operator.getitem, (node, key), {}, name)
    noted = scope.noted(name)
    scope.add(name, reader, value, dict(metadata) if noted is None else decode_metadata(scope.context, noted))
    set_stated_value(scope, reader, noted)


def _read_when_used(scope: DecodeScope, names: Iterable[str], read: Callable[[], None]) -> None:
    """Let an edited graph use values that nothing reads: their reader then is where the default one would be."""
    last = next(iter(reversed(scope.graph.nodes)))  # torch 2.8: no iterator yet

    def read_late() -> None:
        with scope.graph.inserting_after(last):
            read()

    scope.values.unread.update(dict.fromkeys(names, read_late))


def _read_container(
    scope: DecodeScope,
    node: torch.fx.Node,
    key: Any,
    element: Argument,
    value: Any,
    place: str,
    metadata: dict[str, Any],
) -> None:
    noted = scope.noted(place)
    own = dict(metadata) if noted is None else decode_metadata(scope.context, noted)
    name = None if noted is None else noted.name
    reader = scope.call(operator.getitem, (node, key), {}, name)
    scope.complete(reader, name, value, own)
    set_stated_value(scope, reader, noted)
    scope.results[reader.name] = reader
    values = list(value.values() if isinstance(value, dict) else value)
    _read_elements(scope, reader, element_arguments(element), values, place, metadata)


def _names_in(element: Argument) -> Iterator[str]:
    """Yield the names of the values in a container."""
    for _, item in element_arguments(element):
        if variant_of(item) in CONTAINER_VARIANTS:
            yield from _names_in(item)
        elif variant_of(item) not in LITERAL_VARIANTS:
            yield referenced_name(item)


def _is_read(element: Argument, unused: str) -> bool:
    """Return whether a value in a container has the name of a reader."""
    variant = variant_of(element)
    if variant in CONTAINER_VARIANTS:
        inner = element_arguments(element)
        return any(_is_read(item, f"{unused}_{index}") for index, (_, item) in enumerate(inner))
    return variant not in LITERAL_VARIANTS and referenced_name(element) != unused


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
    reason = fake_tensors.why_not_run(operator)
    if record.target not in scope.context.propagates:
        reason = "no opset upgrader that is installed here emits it"
    if reason is not None:
        raise DecodeError(
            f"the results of {record.target} cannot be computed at load: {reason}",
            remedy="The upgrader that wrote the node must describe its results (`like=`, `known=`)",
        )
    # For a graph or container structure it is the node itself, which matches no type of a schema.
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda each: each.meta.get("val", each))
    check_arguments(record, operator, args, kwargs)
    inputs = [value for value in _leaves((*args, *kwargs.values())) if isinstance(value, torch.Tensor)]
    if not inputs and not fake_tensors.is_constructor(operator):
        raise DecodeError(
            f"{record.target} has no tensor among its inputs, from whose metadata it could compute",
            place="inputs",
        )
    try:
        with private.preserved_process_state(record.target):
            result = fake_tensors.run_on_metadata(scope.context.fakes.mode, operator, args, kwargs)
    except GraphwireError:
        raise
    except unless_interrupted(Exception) as error:
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
    if type(value) is not private.FakeTensor or value.layout is not torch.strided:
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

    expression, _ = private.symbolic_parts(value)
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
    schema = private.schema_of(operator)
    named = dict(zip((each.name for each in schema.arguments), args, strict=False)) | kwargs
    if len(args) + len(kwargs) != len(named) or not named.keys() <= {each.name for each in schema.arguments}:
        raise DecodeError(f"{record.target} has no such arguments", place="inputs")
    for parameter in schema.arguments:
        if parameter.name not in named:
            if not parameter.has_default_value():
                raise DecodeError(f"{record.target} lacks a value for {parameter.name}", place="inputs")
        elif (
            str(parameter.type) == "Tensor"
            and fake_tensors.accepts_numbers(operator)
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


def literal_fits(value: Any, parameter: Any, operator: Any) -> bool:
    """Return whether a literal of a record can be an argument; True for what is not known here, such as values of the graph."""
    items = value if type(value) in (list, tuple) else [value]
    if any(type(each) not in _LITERALS for each in items) or len(items) > _MOST_ELEMENTS:
        return True
    kind = str(parameter.real_type)
    if kind.replace("Optional[", "").replace("List[", "").rstrip("]") not in _OF_LITERALS:
        return True
    takes_numbers = str(parameter.type) == "Tensor" and fake_tensors.accepts_numbers(operator)
    return (takes_numbers and _TYPES["number"](value)) or _fits(value, kind, parameter.N)


_LITERALS = (int, float, str, dict, type(None))
_OF_LITERALS = ("Tensor", "int", "SymInt", "float", "bool", "SymBool", "number", "str")
"""The types of parameters that a literal of a record can only fit if it is one of them. Others take texts or numbers, too."""

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
    if type(value) is not private.FakeTensor:
        raise DecodeError(f"a fake kernel returns a {type(value).__name__}, which is not a fake tensor")
    if grad and (value.is_floating_point() or value.is_complex()):
        return value.detach().requires_grad_()
    return value
