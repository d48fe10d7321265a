"""Graphs: `torch.fx` ⇄ the schema.

A node with several outputs is one node here; FX has a `getitem` node for each output that is used. Encoding folds those
into the names of the outputs, decoding makes them again.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export.graph_signature import CustomObjArgument as TorchCustomObject
from torch.utils import _pytree as pytree

from graphwire.bridge import torch_private
from graphwire.bridge.arguments import arm_of, decode_argument, encode_argument, exact_element
from graphwire.bridge.context import DecodeContext, EncodeContext, Operator
from graphwire.bridge.metadata import decode_metadata, encode_metadata
from graphwire.bridge.operators import decode_operator, encode_operator
from graphwire.bridge.symbols import (
    decode_int,
    decode_sym_bool,
    decode_sym_float,
    encode_int,
    encode_sym_bool,
    encode_sym_float,
)
from graphwire.bridge.tensors import decode_tensor_meta, encode_tensor_meta
from graphwire.bridge.treespec import decode_treespec, encode_treespec
from graphwire.errors import DecodeError, EncodeError, GraphwireError
from graphwire.schema.graph import (
    Argument,
    ArgumentKind,
    CustomObjArgument,
    Graph,
    GraphArgument,
    NamedArgument,
    Node,
    SequenceValue,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
    ValueMetadata,
)

GRAPH_CONSTANT = "graph::"
"""The start of the payload names of tensors that a subgraph reads as its own attributes."""

_NOTHING = ValueMetadata()
_LITERALS = (int, float, bool, str, type(None))


# ----------------------------------------------------------------------------------------------------- encode


@dataclass(slots=True)
class _EncodeScope:
    """The graph that is being encoded."""

    record: Graph
    module: torch.fx.GraphModule
    nodes: dict[torch.fx.Node, Argument] = field(default_factory=dict)
    folded: set[torch.fx.Node] = field(default_factory=set)
    """`getitem` nodes that became the name of an output."""


def encode_graph(context: EncodeContext, module: torch.fx.GraphModule, *, top_level: bool = False) -> Graph:
    """The graph of a module as a record, with the graphs of its submodules inside the nodes that call them.

    Args:
        top_level: whether the graph is a program's own, whose specialised inputs are described by the signature.

    Raises:
        EncodeError: a node holds what the schema cannot say; `place` says which.
    """
    record = Graph([], [], [], {}, {}, {}, custom_obj_values={}, sym_float_values={}, value_metadata={})
    scope = _EncodeScope(record, module)
    try:
        for node in module.graph.nodes:
            if node.op == "placeholder":
                record.inputs.append(_encode_placeholder(context, scope, node, top_level))
            elif node.op == "call_function":
                if node not in scope.folded:
                    record.nodes.append(_encode_call(context, scope, node))
            elif node.op == "get_attr":
                _encode_attribute(context, scope, node)
            elif node.op == "output":
                _encode_output(context, scope, node)
            else:
                raise EncodeError(f"an exported graph has no {node.op!r} nodes", remedy="Export the program again")
    except GraphwireError as error:
        raise error.within(f"graph.{node.name}") from None
    return record


def _define(context: EncodeContext, scope: _EncodeScope, name: str, value: Any) -> Argument:
    """State what is known of a value, and return the argument that refers to it."""
    record = scope.record
    if isinstance(value, torch.Tensor):
        _undefined(record.tensor_values, name)
        record.tensor_values[name] = encode_tensor_meta(context, value)
        return Argument(as_tensor=TensorArgument(name))
    if isinstance(value, (bool, torch.SymBool)):
        _undefined(record.sym_bool_values, name)
        record.sym_bool_values[name] = encode_sym_bool(context, value)
        return Argument(as_sym_bool=SymBoolArgument(as_name=name))
    if isinstance(value, (int, torch.SymInt)):
        _undefined(record.sym_int_values, name)
        record.sym_int_values[name] = encode_int(context, value)
        return Argument(as_sym_int=SymIntArgument(as_name=name))
    if isinstance(value, (float, torch.SymFloat)):
        _undefined(record.sym_float_values, name)
        record.sym_float_values[name] = encode_sym_float(context, value)
        return Argument(as_sym_float=SymFloatArgument(as_name=name))
    if isinstance(value, TorchCustomObject):
        _undefined(record.custom_obj_values, name)
        described = CustomObjArgument(value.name, value.class_fqn)
        record.custom_obj_values[name] = described
        return Argument(as_custom_obj=CustomObjArgument(name, value.class_fqn))
    if value is None or isinstance(value, str):
        return encode_argument(context, {}, value)
    kind = type(value)
    raise EncodeError(f"a value of type {kind.__module__}.{kind.__qualname__} cannot stand in a graph")


def _undefined(values: dict[str, Any], name: str) -> None:
    if name in values:
        raise EncodeError(f"two values are named {name!r}", remedy="Rename one of the nodes")


def _encode_placeholder(
    context: EncodeContext, scope: _EncodeScope, node: torch.fx.Node, top_level: bool
) -> Argument:
    _note_metadata(context, scope, node.name, node)
    value = node.meta.get("val")
    if isinstance(value, _LITERALS) and (top_level or value is None or isinstance(value, str)):
        argument = encode_argument(context, {}, value)
        if not top_level:
            scope.record.input_names = [p.name for p in node.graph.find_nodes(op="placeholder")]
    else:
        argument = _define(context, scope, node.name, value)
    scope.nodes[node] = argument
    return argument


def _note_metadata(
    context: EncodeContext, scope: _EncodeScope, name: str, node: torch.fx.Node, *, always: bool = False
) -> None:
    metadata = encode_metadata(context, node.meta)
    if always or metadata != _NOTHING:
        scope.record.value_metadata[name] = metadata


def _encode_attribute(context: EncodeContext, scope: _EncodeScope, node: torch.fx.Node) -> None:
    path = str(node.target)
    value = scope.module
    for part in path.split("."):
        value = getattr(value, part)
    if isinstance(value, torch.fx.GraphModule):
        graph = context.subgraphs.get(id(value))
        if graph is None:
            graph = context.subgraphs[id(value)] = encode_graph(context, value)
        named = None if node.name == path else node.name
        argument = Argument(as_graph=GraphArgument(path, graph, named))
    elif isinstance(value, torch.Tensor):
        context.features.add("constants")
        key = next((k for k, v in context.constants.items() if v is value), None)
        if key is None:
            key = f"{GRAPH_CONSTANT}{len(context.constants)}.{path}"
            context.constants[key] = value
        argument = Argument(as_constant=key)
    elif isinstance(value, pytree.TreeSpec):
        context.features.add("treespecs")
        argument = Argument(as_treespec=encode_treespec(value, context.registry))
    else:
        kind = type(value)
        raise EncodeError(f"attribute {path!r} is a {kind.__module__}.{kind.__qualname__}, which cannot be written")
    scope.nodes[node] = argument
    _note_metadata(context, scope, node.name, node, always=True)


def _encode_output(context: EncodeContext, scope: _EncodeScope, node: torch.fx.Node) -> None:
    record, value = scope.record, node.args[0]
    metadata = encode_metadata(context, node.meta)
    if metadata != _NOTHING:
        record.output_metadata = metadata
    if isinstance(value, (tuple, list)):
        record.outputs = [exact_element(v, encode_argument(context, scope.nodes, v)) for v in value]
        record.output_list = isinstance(value, list)
    else:
        record.is_single_tensor_return = True
        record.outputs = [encode_argument(context, scope.nodes, value)]


def _encode_call(context: EncodeContext, scope: _EncodeScope, node: torch.fx.Node) -> Node:
    called = encode_operator(context, node.target)
    metadata = encode_metadata(context, node.meta)
    value = node.meta.get("val")
    convention = called.handler.convention
    record = Node(
        target=called.name,
        inputs=_INPUTS[convention](context, scope, called, node),
        outputs=[],
        metadata=metadata.metadata,
        name=node.name,
        stack=metadata.stack,
        from_node=metadata.from_node,
    )
    record.outputs = _encode_results(context, scope, called, node, value, record, metadata)
    if called.handler.namespace == "higher_order":
        record.is_hop_single_tensor_return = isinstance(value, torch.Tensor) or (
            value is not None and not isinstance(value, (tuple, list, dict))
        )
    return record


def _named_argument(
    context: EncodeContext, scope: _EncodeScope, name: str, value: Any, kind: ArgumentKind
) -> NamedArgument:
    argument = encode_argument(context, scope.nodes, value)
    if not isinstance(value, tuple):
        return NamedArgument(name, argument, kind)
    if argument.as_sequence is not None:
        argument.as_sequence.kind = "tuple"
        return NamedArgument(name, argument, kind)
    return NamedArgument(name, argument, kind, tuples=True)


def _schema_inputs(
    context: EncodeContext, scope: _EncodeScope, called: Operator, node: torch.fx.Node
) -> list[NamedArgument]:
    args, kwargs, inputs = node.args, node.kwargs, []
    if len(args) > len(called.parameters):
        raise EncodeError(f"{called.name} takes {len(called.parameters)} arguments, not {len(args)}")
    given = 0
    for position, (name, keyword_only) in enumerate(called.parameters):
        if name in kwargs:
            inputs.append(_named_argument(context, scope, name, kwargs[name], ArgumentKind.KEYWORD))
            given += 1
        elif position < len(args) and not keyword_only:
            inputs.append(_named_argument(context, scope, name, args[position], ArgumentKind.POSITIONAL))
    if given != len(kwargs):
        unknown = sorted(set(kwargs) - {name for name, _ in called.parameters})
        raise EncodeError(f"{called.name} has no parameter {', '.join(unknown)}")
    return inputs


def _symbolic_inputs(
    context: EncodeContext, scope: _EncodeScope, called: Operator, node: torch.fx.Node
) -> list[NamedArgument]:
    names = [name for name, _ in called.parameters]
    names += [""] * (len(node.args) - len(names))
    positional = [
        _named_argument(context, scope, name, value, ArgumentKind.POSITIONAL)
        for name, value in zip(names, node.args, strict=False)
    ]
    return positional + _keyword_inputs(context, scope, node)


def _generic_inputs(
    context: EncodeContext, scope: _EncodeScope, _called: Operator, node: torch.fx.Node
) -> list[NamedArgument]:
    positional = [_named_argument(context, scope, "", value, ArgumentKind.POSITIONAL) for value in node.args]
    return positional + _keyword_inputs(context, scope, node)


def _keyword_inputs(context: EncodeContext, scope: _EncodeScope, node: torch.fx.Node) -> list[NamedArgument]:
    return [_named_argument(context, scope, k, v, ArgumentKind.KEYWORD) for k, v in node.kwargs.items()]


_INPUTS = {"schema": _schema_inputs, "symbolic": _symbolic_inputs, "generic": _generic_inputs}


def _encode_results(
    context: EncodeContext,
    scope: _EncodeScope,
    called: Operator,
    node: torch.fx.Node,
    value: Any,
    record: Node,
    metadata: ValueMetadata,
) -> list[Argument]:
    if not isinstance(value, (tuple, list)):
        if value is None and called.returns is not None and len(called.returns) == 0:
            return []
        argument = _define(context, scope, node.name, value)
        scope.nodes[node] = argument
        return [argument]
    elements = _encode_elements(context, scope, node, value, f"{node.name}_unused", node.name, metadata)
    listed = called.returns is not None and len(called.returns) == 1
    if isinstance(value, list) is not listed:
        record.container = "list" if isinstance(value, list) else "tuple"
    return [_list_argument(context, value, elements)] if listed else elements


def _list_argument(context: EncodeContext, value: Sequence[Any], elements: list[Argument]) -> Argument:
    if isinstance(value, list) and all(element.as_tensor is not None for element in elements):
        return Argument(as_tensors=[element.as_tensor for element in elements])  # type: ignore[misc]
    context.features.add("sequences")
    return Argument(as_sequence=SequenceValue("list" if isinstance(value, list) else "tuple", elements))


def _encode_elements(
    context: EncodeContext,
    scope: _EncodeScope,
    node: torch.fx.Node | None,
    values: Sequence[Any],
    stem: str,
    path: str,
    metadata: ValueMetadata,
) -> list[Argument]:
    """The elements of a sequence-valued node as arguments, each named by the `getitem` node that reads it.

    Args:
        stem: what the names of elements that nothing reads begin with.
        path: the sequence's key in `value_metadata`.
        metadata: that of the node, which an element shares unless its own is noted.
    """
    readers = {} if node is None else _readers(scope, node, len(values))
    arguments = []
    for index, value in enumerate(values):
        reader, *others = readers.get(index, [None])
        unused = f"{stem}_{index}"
        own = _NOTHING if reader is None else encode_metadata(context, reader.meta)
        if isinstance(value, (tuple, list)):
            below = unused if reader is None else f"{reader.name}_unused"
            key = f"{path}[{index}]"
            argument = _list_argument(
                context, value, _encode_elements(context, scope, reader, value, below, key, metadata)
            )
            if reader is not None:
                own.name = reader.name
                scope.record.value_metadata[key] = own
        else:
            name = unused if reader is None else reader.name
            argument = _define(context, scope, name, value)
            if reader is not None and (name == unused or own != metadata):
                scope.record.value_metadata[name] = own
            scope.nodes.update((each, argument) for each in (reader, *others) if each is not None)
        arguments.append(argument)
    return arguments


def _readers(scope: _EncodeScope, node: torch.fx.Node, length: int) -> dict[int, list[Any]]:
    """The `getitem` nodes of each element of a sequence-valued node. The first gives the element its name, the others
    are folded into it, as `ExportedProgram` does itself."""
    readers: dict[int, list[Any]] = {}
    for user in node.users:
        index = user.args[1] if user.target is operator.getitem and user.args[0] is node else None
        if not isinstance(index, int) or not 0 <= index < length:
            raise EncodeError(
                f"{user.name!r} uses the sequence {node.name!r} as a whole",
                remedy="Take its elements one by one",
            )
        scope.folded.add(user)
        readers.setdefault(index, []).append(user)
    return readers


# ----------------------------------------------------------------------------------------------------- decode


class _DecodeScope:
    """The graph that is being decoded: its FX graph and what its values are so far."""

    def __init__(self, context: DecodeContext, record: Graph) -> None:
        self.context = context
        self.record = record
        self.graph = torch.fx.Graph()
        self.module = torch.nn.Module()
        self.values: dict[str, Any] = {}
        self._attributes: dict[str, torch.fx.Node] = {}
        self._subgraphs: dict[str, Graph] = {}
        self.caller: Node | None = None
        """The node whose arguments are being decoded."""

    def add(self, name: str, node: torch.fx.Node, value: Any, metadata: dict[str, Any]) -> None:
        """Let `name` be the value of an FX node."""
        if name in self.values:
            raise DecodeError(f"two values are named {name!r}")
        node.name = name
        node.meta.update(metadata)
        node.meta["val"] = value
        self.values[name] = node

    def subgraph(self, argument: GraphArgument) -> torch.fx.Node:
        """The node that reads a subgraph, which becomes an attribute of this graph's module."""
        name = argument.node or argument.name
        known = self._subgraphs.get(argument.name)
        if known is None:
            graph, module = decode_graph(self.context, argument.graph)
            self.module.register_module(argument.name, torch_private.graph_module(module, graph))
            self._subgraphs[argument.name] = argument.graph
        elif known != argument.graph:
            raise DecodeError(f"two different subgraphs are named {argument.name!r}")
        return self._attribute(name, argument.name)

    def treespec(self, text: str) -> torch.fx.Node:
        """The node that reads a container structure, which becomes an attribute of this graph's module."""
        target = f"_spec_{len(self._attributes)}"
        setattr(self.module, target, decode_treespec(text, self.context.registry))
        return self._attribute(target, target)

    def constant(self, name: str) -> torch.fx.Node:
        """The node that reads a tensor of the graph's own, which becomes a buffer of this graph's module."""
        target = name.removeprefix(GRAPH_CONSTANT).partition(".")[2]
        if target not in self._attributes:
            try:
                tensor = self.context.constants[name]
            except KeyError:
                raise DecodeError(f"there is no constant {name!r}") from None
            if isinstance(tensor, torch.nn.Parameter):
                self.module.register_parameter(target, tensor)
            else:
                self.module.register_buffer(target, tensor)
        return self._attribute(target, target)

    def _attribute(self, name: str, target: str) -> torch.fx.Node:
        node = self._attributes.get(name)
        if node is None:
            node = self.graph.create_node("get_attr", target, name=name)
            node.name = name
            noted = self.record.value_metadata.get(name) or self.caller
            if noted is not None:
                node.meta.update(decode_metadata(self.context, noted))
            self._attributes[name] = node
        return node


def decode_graph(
    context: DecodeContext, record: Graph, *, literal_names: Sequence[str | None] = ()
) -> tuple[torch.fx.Graph, torch.nn.Module]:
    """The FX graph of a record, and the module whose attributes it reads.

    Args:
        literal_names: for each input the name that the signature has for it, where the input itself carries none.

    Raises:
        DecodeError: the record does not fit this installation; `place` says where.
    """
    scope = _DecodeScope(context, record)
    for index, argument in enumerate(record.inputs):
        try:
            _decode_placeholder(scope, index, argument, record.input_names or literal_names)
        except GraphwireError as error:
            raise error.within(f"graph.inputs[{index}]") from None
    for index, node in enumerate(record.nodes):
        try:
            _decode_call(scope, node)
        except GraphwireError as error:
            raise error.within(f"graph.nodes[{index}] ({node.name or node.target})") from None
    _decode_output(scope)
    return scope.graph, scope.module


def _decode_placeholder(scope: _DecodeScope, index: int, argument: Argument, names: Sequence[str | None]) -> None:
    arm = arm_of(argument)
    if arm in _LITERAL_ARMS:
        name = (names[index] if index < len(names) else None) or f"arg{index}"
        value = decode_argument(scope.context, scope, argument)
    else:
        name = name_of(argument)
        value = decode_value(scope.context, scope.record, argument, input_value=True)
    node = scope.graph.placeholder(name)
    node.target = name
    scope.add(name, node, value, _metadata_of(scope, name, {}))
    _bind(scope.context, node)


_LITERAL_ARMS = {"as_none", "as_int", "as_float", "as_bool", "as_string"}


def name_of(argument: Argument) -> str:
    """The name of the value that an argument refers to.

    Raises:
        DecodeError: it refers to none.
    """
    content = getattr(argument, arm_of(argument))
    name = getattr(content, "name", None) or getattr(content, "as_name", None)
    if not isinstance(name, str):
        raise DecodeError("a reference to a value is expected here")
    return name


def _metadata_of(scope: _DecodeScope, name: str, otherwise: dict[str, Any]) -> dict[str, Any]:
    noted = scope.record.value_metadata.get(name)
    return dict(otherwise) if noted is None else decode_metadata(scope.context, noted)


def decode_value(context: DecodeContext, record: Graph, argument: Argument, *, input_value: bool = False) -> Any:
    """What is known of the value that an output or input defines: a fake tensor, a symbolic value, an object."""
    decoder = _VALUES.get(arm_of(argument))
    if decoder is None:
        raise DecodeError(f"no value of a graph is {arm_of(argument)}")
    try:
        return decoder(context, record, argument, input_value)
    except KeyError as error:
        raise DecodeError(f"nothing is known of the value {error.args[0]!r}") from None


def _decode_sequence_value(context: DecodeContext, record: Graph, argument: Argument, input_value: bool) -> Any:
    elements = _element_arguments(argument)
    values = [decode_value(context, record, element, input_value=input_value) for element in elements]
    kind = argument.as_sequence.kind if argument.as_sequence is not None else "list"
    return tuple(values) if kind == "tuple" else values


def _literal_or(values: dict[str, Any], argument: Any, decode: Any, context: DecodeContext) -> Any:
    if argument.as_name is None:
        return getattr(argument, argument.__struct_fields__[1])
    return decode(context, values[argument.as_name])


_VALUES: dict[str, Any] = {
    "as_tensor": lambda c, r, a, i: decode_tensor_meta(c, r.tensor_values[a.as_tensor.name], input_value=i),
    "as_sym_int": lambda c, r, a, _: _literal_or(r.sym_int_values, a.as_sym_int, decode_int, c),
    "as_sym_float": lambda c, r, a, _: _literal_or(r.sym_float_values, a.as_sym_float, decode_sym_float, c),
    "as_sym_bool": lambda c, r, a, _: _literal_or(r.sym_bool_values, a.as_sym_bool, decode_sym_bool, c),
    "as_custom_obj": lambda _c, r, a, _i: _custom_object(r.custom_obj_values[a.as_custom_obj.name]),
    "as_none": lambda _c, _r, _a, _i: None,
    "as_string": lambda _c, _r, a, _i: a.as_string,
    "as_tensors": _decode_sequence_value,
    "as_sequence": _decode_sequence_value,
}
"""What is known of the value of each kind of argument that may define one."""


def _custom_object(record: CustomObjArgument) -> TorchCustomObject:
    return TorchCustomObject(record.name, record.class_fqn)


def _element_arguments(argument: Argument) -> list[Argument]:
    if argument.as_sequence is not None:
        return argument.as_sequence.items
    return [Argument(as_tensor=tensor) for tensor in argument.as_tensors or ()]


def _decode_call(scope: _DecodeScope, record: Node) -> None:
    context = scope.context
    called = decode_operator(context, record.target)
    scope.caller = record
    args, kwargs = _ARGUMENTS[called.handler.convention](scope, called, record)
    metadata = decode_metadata(context, record)
    metadata.setdefault("nn_module_stack", {})
    node = scope.graph.create_node("call_function", called.target, args, kwargs, record.name or _value_name(record))
    _decode_results(scope, called, record, node, metadata)
    _note_assertion(context, record.target, node)


def _value_name(record: Node) -> str | None:
    """The name of the one value that a node of an older document makes; None for FX to choose a name."""
    if len(record.outputs) != 1 or arm_of(record.outputs[0]) in ("as_tensors", "as_sequence", *_LITERAL_ARMS):
        return None
    return name_of(record.outputs[0]) if record.is_hop_single_tensor_return is not False else None


def _decode_inputs(scope: _DecodeScope, inputs: list[NamedArgument]) -> list[Any]:
    values = []
    for index, named in enumerate(inputs):
        try:
            value = decode_argument(scope.context, scope, named.arg)
        except GraphwireError as error:
            raise error.within(f"inputs[{index}]") from None
        values.append(tuple(value) if named.tuples and isinstance(value, list) else value)
    return values


def _schema_arguments(scope: _DecodeScope, called: Operator, record: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
    values = dict(zip((named.name for named in record.inputs), _decode_inputs(scope, record.inputs), strict=True))
    kinds = {named.name: named.kind for named in record.inputs}
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    gap = False
    for name, keyword_only in called.parameters:
        if name not in values:
            gap = True
            continue
        kind = kinds[name] or ArgumentKind.UNKNOWN
        if keyword_only or gap or kind is ArgumentKind.KEYWORD:
            kwargs[name] = values.pop(name)
            gap = True
        else:
            args.append(values.pop(name))
    if values:
        raise DecodeError(
            f"{record.target} has no parameter {', '.join(sorted(values))} on this installation",
            remedy="The operator's signature has changed since the program was written; an opset upgrader is needed",
        )
    return tuple(args), kwargs


def _generic_arguments(scope: _DecodeScope, _called: Operator, record: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for named, value in zip(record.inputs, _decode_inputs(scope, record.inputs), strict=True):
        if named.kind is ArgumentKind.KEYWORD and named.name:
            kwargs[named.name] = value
        else:
            args.append(value)
    return tuple(args), kwargs


_ARGUMENTS = {"schema": _schema_arguments, "symbolic": _generic_arguments, "generic": _generic_arguments}


def _decode_results(
    scope: _DecodeScope, called: Operator, record: Node, node: torch.fx.Node, metadata: dict[str, Any]
) -> None:
    outputs = record.outputs
    returns_nothing = not outputs and called.handler.convention == "schema"
    bare = (
        len(outputs) == 1
        and record.is_hop_single_tensor_return is not False
        and arm_of(outputs[0]) not in ("as_tensors", "as_sequence")
    )
    if returns_nothing:
        _finish(scope, record, node, None, metadata)
        return
    if bare:
        name = None if arm_of(outputs[0]) in _LITERAL_ARMS else name_of(outputs[0])
        value = decode_value(scope.context, scope.record, outputs[0])
        if name is None:
            _finish(scope, record, node, value, metadata)
        else:
            scope.add(name, node, value, metadata)
            _bind(scope.context, node)
        return
    listed = len(outputs) == 1 and arm_of(outputs[0]) in ("as_tensors", "as_sequence")
    elements = _element_arguments(outputs[0]) if listed else outputs
    values = [decode_value(scope.context, scope.record, element) for element in elements]
    kind = record.container or ("list" if listed and called.handler.convention == "schema" else "tuple")
    _finish(scope, record, node, values if kind == "list" else tuple(values), metadata)
    _read_elements(scope, node, elements, values, f"{node.name}_unused", node.name, metadata)


def _finish(scope: _DecodeScope, record: Node, node: torch.fx.Node, value: Any, metadata: dict[str, Any]) -> None:
    """Complete a node that is no value of its own name."""
    if record.name is not None:
        node.name = record.name
    node.meta.update(metadata)
    node.meta["val"] = value
    _bind(scope.context, node)


def _read_elements(
    scope: _DecodeScope,
    node: torch.fx.Node,
    elements: Sequence[Argument],
    values: Sequence[Any],
    stem: str,
    path: str,
    metadata: dict[str, Any],
) -> None:
    """Make a `getitem` node for each element that something may read."""
    for index, (element, value) in enumerate(zip(elements, values, strict=True)):
        if element.as_none is not None or element.as_string is not None:
            continue
        nested = element.as_tensors is not None or element.as_sequence is not None
        key = f"{path}[{index}]" if nested else name_of(element)
        noted = scope.record.value_metadata.get(key)
        unused = f"{stem}_{index}"
        inner = _element_arguments(element)
        if noted is None and (
            all(_is_named(item, f"{unused}_{i}") for i, item in enumerate(inner)) if nested else key == unused
        ):
            continue
        own = dict(metadata) if noted is None else decode_metadata(scope.context, noted)
        name = (noted.name if noted is not None else None) if nested else key
        reader = scope.graph.create_node("call_function", operator.getitem, (node, index), {}, name)
        if nested:
            if name is not None:
                reader.name = name
            reader.meta.update(own, val=value)
            _read_elements(scope, reader, inner, value, f"{reader.name}_unused", key, metadata)
        else:
            scope.add(key, reader, value, own)


def _is_named(element: Argument, name: str) -> bool:
    return element.as_none is not None or name_of(element) == name


def _decode_output(scope: _DecodeScope) -> None:
    record = scope.record
    scope.caller = None
    try:
        values = [decode_argument(scope.context, scope, argument) for argument in record.outputs]
    except GraphwireError as error:
        raise error.within("graph.outputs") from None
    result: Any = values if record.output_list else tuple(values)
    if record.is_single_tensor_return:
        if len(values) != 1:
            raise DecodeError(f"a graph that returns one bare value has {len(values)} outputs", place="graph.outputs")
        result = values[0]
    node = scope.graph.output(result)
    if record.output_metadata is not None:
        node.meta.update(decode_metadata(scope.context, record.output_metadata))


def _bind(context: DecodeContext, node: torch.fx.Node) -> None:
    """Note on a node which unbacked symbols it is the first to bring."""
    if context.pending and (value := node.meta["val"]) is not None:
        bindings = torch_private.unbacked_bindings(value, context.shape_env, context.pending)
        if bindings:
            node.meta["unbacked_bindings"] = bindings


def _note_assertion(context: DecodeContext, target: str, node: torch.fx.Node) -> None:
    """Let the shape environment know what a node asserts of symbols."""
    if target == "torch.ops.aten._assert_scalar.default":
        condition = node.args[0].meta.get("val") if isinstance(node.args[0], torch.fx.Node) else None
        if isinstance(condition, torch.SymBool):
            torch_private.defer_assertion(context.shape_env, condition, node)
    elif target == "torch.ops.aten.sym_constrain_range_for_size.default":
        size = node.args[0].meta.get("val") if isinstance(node.args[0], torch.fx.Node) else None
        if isinstance(size, torch.SymInt):
            torch_private.constrain_for_size(context.shape_env, size)
