"""Converts graphs between `torch.fx` and the schema.

This module handles placeholders, the output and attributes of the graph's module; `calls` handles the inputs of nodes, and
`results` their outputs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from graphwire import schema
from graphwire.analysis.validation.value_rules import is_value_name
from graphwire.bridge.context import GRAPH_CONSTANT, DecodeContext, EncodeContext
from graphwire.bridge.graph.arguments import decode_argument, encode_argument, encode_exactly
from graphwire.bridge.graph.calls import decode_inputs, encode_inputs
from graphwire.bridge.graph.metadata import (
    NO_NODE,
    append_in_default_order,
    decode_metadata,
    encode_metadata,
    has_saved_metadata,
    move_nodes,
    nondefault_positions,
    note_unread,
)
from graphwire.bridge.graph.operators import decode_operator, encode_operator
from graphwire.bridge.graph.results import decode_results, encode_results, propagated_values
from graphwire.bridge.graph.treespec import decode_treespec, encode_treespec
from graphwire.bridge.graph.values import (
    CONTAINER_VARIANTS,
    LITERAL_VARIANTS,
    NOTHING,
    DecodeScope,
    EncodeScope,
    add_copies,
    decode_tensor,
    decode_value,
    encode_copies,
    encode_value,
    record_stated_value,
    referenced_name,
    set_stated_value,
)
from graphwire.bridge.tensors.tensor_metas import encode_tensor_meta, is_cheap_to_compute
from graphwire.bridge.torch_compat import private
from graphwire.bridge.torch_compat.code_text import choose_targets, taken_attributes
from graphwire.bridge.torch_compat.pytree import class_name, is_treespec
from graphwire.errors import DecodeError, EncodeError, located, shown, warn

_LITERALS = frozenset((int, float, bool, str, type(None)))
_ABSENT = object()
_MAKERS = frozenset(("placeholder", "call_function"))
"""The kinds of nodes whose values a record describes."""


# ----------------------------------------------------------------------------------------------------- encode


_MOST_NODES = 1 << 20
"""The most nodes in the subgraphs of a document. A reader accepts no more: each has half a dozen or more lists and dicts."""


def encode_graph(
    context: EncodeContext, module: torch.fx.GraphModule, *, top_level: bool = False
) -> schema.Graph:
    """Encode the graph of a module. Graphs of its submodules are inside the nodes that call them.

    Args:
        top_level: whether it is the main graph of a program, whose signature describes the specialised inputs.

    Raises:
        EncodeError: the schema cannot represent a node; `place` names it.
    """
    record = schema.Graph(
        [], [], [], {}, {}, {}, custom_obj_values={}, sym_float_values={}, value_metadata={}
    )
    scope = EncodeScope(context, record, module)
    names = [node.name for node in module.graph.nodes]
    if not {*map(type, names)} <= {str}:
        raise TypeError("the name of a node is not a text")
    from graphwire.bridge.graph.unsaved import drop_targets, note_unsaved

    note_unsaved(context, module, top_level=top_level)
    _describe_values(context, module.graph)
    with located(lambda: f"graph.{node.name}"):
        for node in module.graph.nodes:
            _encode_node(scope, node, top_level)
    if len(set(names)) < len(names):
        raise EncodeError("two nodes have one name", place="graph", remedy="Rename one of the nodes")
    record.placed = nondefault_positions(module.graph.nodes, scope.order)
    if record.placed:
        _check_order(module.graph)
    record.copies = encode_copies(scope)
    if not top_level:  # The main graph's module holds weights, too, whose names are not known yet.
        drop_targets(context, module.graph, record)
    context.graph_sizes[id(record)] = scope.inner_nodes + len(record.nodes)
    return record


def _check_order(graph: torch.fx.Graph) -> None:
    """Check that each node reads nodes before it. Encoding sees no reader of an element that stands before the node that takes it
    out of its tuple or list, which are one record."""
    seen: set[torch.fx.Node] = set()
    for node in graph.nodes:
        for read in node.all_input_nodes:
            if read not in seen:
                raise EncodeError(
                    f"it reads {read.name!r}, which comes after it",
                    place=f"graph.{node.name}",
                    remedy="Move it behind; `graph.lint()` finds such nodes",
                )
        seen.add(node)


def _measure(scope: EncodeScope, graph: schema.Graph, reader: torch.fx.Node) -> None:
    """Add the size of a subgraph to its parent. The document contains it at each use of the node that reads it."""
    uses: list[torch.fx.Node] = []
    for user in reader.users:
        torch.fx.map_arg((user.args, user.kwargs), lambda each: uses.append(each) if each is reader else None)
    scope.inner_nodes += len(uses) * scope.context.graph_sizes.get(id(graph), 0)
    if scope.inner_nodes > _MOST_NODES:
        raise EncodeError(
            f"the subgraphs have more than {_MOST_NODES:,} nodes, if each shared subgraph counts once per use",
            remedy="Share fewer subgraphs inside each other",
        )


def _describe_values(context: EncodeContext, graph: torch.fx.Graph) -> None:
    """Encode the metadata of all node values at once: attributes of fake tensors are 2 times faster to read inside the
    block."""
    described, fake = context.described, private.FakeTensor
    with private.no_torch_function(), located(lambda: f"graph.{node.name}"):
        for node in graph.nodes:
            value = node.meta.get("val")
            if type(value) is fake:
                if node.op in _MAKERS:
                    described[id(value)] = encode_tensor_meta(context, value)
            elif (type(value) is tuple or type(value) is list) and node.op in _MAKERS:
                for each in value:
                    if type(each) is fake:
                        described[id(each)] = encode_tensor_meta(context, each)


def _encode_node(scope: EncodeScope, node: torch.fx.Node, top_level: bool) -> None:
    op = node.op
    if op == "get_attr":
        _encode_attribute(scope, node)
        return
    if node in scope.folded:
        return
    if scope.attributes:
        append_in_default_order(scope.order, node, scope.attributes)
    else:
        scope.order[node] = None
    if op == "placeholder":
        scope.record.inputs.append(_encode_placeholder(scope, node, top_level))
    elif op == "call_function":
        scope.record.nodes.append(_encode_call(scope, node))
    elif op == "output":
        _encode_output(scope, node)
    else:
        raise EncodeError(f"an exported graph has no {op!r} nodes", remedy="Export the program again")


def _encode_placeholder(scope: EncodeScope, node: torch.fx.Node, top_level: bool) -> schema.Argument:
    if has_saved_metadata(scope.context, node.meta):
        metadata = encode_metadata(scope.context, node.meta)
        if metadata != NOTHING:
            scope.record.value_metadata[node.name] = metadata
    if node.target != node.name:
        _note_target(scope, node)
    value = node.meta.get("val", NOTHING)
    # A record of a subgraph has such values in place of the input, and its users would read them.
    if value is NOTHING or (not top_level and (value is None or type(value) is str)):
        if node.users:
            raise EncodeError(
                f"an input that is used has {'no value' if value is NOTHING else shown(value)} in its metadata",
                remedy="Set its `meta['val']` to the value that it takes",
            )
        value = None if value is NOTHING else value
    if type(value) in _LITERALS and (top_level or value is None or type(value) is str):
        argument = encode_argument(scope.context, {}, value)
        if not top_level and scope.record.input_names is None:
            scope.record.input_names = [p.name for p in node.graph.find_nodes(op="placeholder")]
    else:
        argument = encode_value(scope, node.name, value)
        if (held_as := private.parameter_or_buffer(value)) is not None:
            scope.record.held_as[node.name] = held_as
    scope.nodes[node] = argument
    return argument


def _note_target(scope: EncodeScope, node: torch.fx.Node) -> None:
    """Record the argument name of an input, unless it would be invalid in generated code."""
    target = _text(node.target)
    if is_value_name(target) and scope.targets[target] == 1:
        noted = scope.record.value_metadata.setdefault(node.name, schema.ValueMetadata())
        noted.target = target
    else:
        scope.context.unsaved.setdefault(f"the target {target!r:.80}", node.name)


def _text(target: Any) -> str:
    if not isinstance(target, str):
        raise TypeError("the target of a node that reads an attribute or an input is not a text")
    return target


def _encode_attribute(scope: EncodeScope, node: torch.fx.Node) -> None:
    path = _text(node.target)
    if not node.users:  # a record stores attributes only as arguments of nodes
        warn(f"the node {node.name!r} reads the attribute {path!r}, which nothing uses: it is not saved")
        return
    value = scope.module
    for part in path.split("."):
        value = getattr(value, part, _ABSENT)
    if value is _ABSENT:
        raise EncodeError(
            f"the graph's module has no attribute {path!r:.80}",
            remedy="Restore it, or erase the nodes that read it",
        )
    named = None if node.name == path else node.name
    if isinstance(value, torch.fx.GraphModule):
        if not is_value_name(path):
            raise EncodeError(
                f"a subgraph is read from {path!r}, which is not an attribute of the graph's own module",
                remedy="Make the subgraph an attribute of the graph's own module",
            )
        graph = scope.context.subgraphs.get(id(value))
        if graph is None:
            graph = scope.context.subgraphs[id(value)] = encode_graph(scope.context, value)
        _measure(scope, graph, node)
        argument = schema.Argument(as_graph=schema.GraphArgument(path, graph, named))
    elif isinstance(value, torch.Tensor):
        scope.context.features.add("constants")
        key = scope.context.name_constant(value, path)
        usual = node.name == path.replace(".", "_")
        argument = schema.Argument(as_constant=key if usual else schema.ConstantArgument(key, node.name))
    elif is_treespec(value):
        scope.context.features.add("treespecs")
        argument = schema.Argument(
            as_treespec=schema.TreespecArgument(path, encode_treespec(value, scope.context.registry), named)
        )
    else:
        kind = class_name(type(value))
        raise EncodeError(f"attribute {path!r} is a {kind}, which cannot be encoded")
    scope.nodes[node] = argument
    scope.attributes.add(node)
    noted = scope.record.value_metadata[node.name] = encode_metadata(scope.context, node.meta)
    if isinstance(value, torch.Tensor):
        record_stated_value(scope, noted, node, value)
    elif node.meta.get("val") is not None:
        scope.context.unsaved.setdefault("meta['val']", node.name)


def _encode_output(scope: EncodeScope, node: torch.fx.Node) -> None:
    record, value = scope.record, node.args[0]
    metadata = encode_metadata(scope.context, node.meta)
    metadata.stated = node.meta.get("val") is not None
    if metadata != NOTHING:
        record.output_metadata = metadata
    if isinstance(value, (tuple, list)):
        record.outputs = [encode_exactly(scope.context, scope.nodes, v) for v in value]
        record.output_list = isinstance(value, list)
    else:
        record.is_single_tensor_return = True
        record.outputs = [encode_argument(scope.context, scope.nodes, value)]


def _encode_call(scope: EncodeScope, node: torch.fx.Node) -> schema.Node:
    called = encode_operator(scope.context, node.target)
    metadata = encode_metadata(scope.context, node.meta)
    record = schema.Node(
        target=called.name,
        inputs=encode_inputs(scope, called, node),
        outputs=[],
        metadata=metadata.metadata,
        name=node.name,
        stack=metadata.stack,
        from_node=metadata.from_node,
    )
    encode_results(scope, called, node, record, metadata)
    return record


# ----------------------------------------------------------------------------------------------------- decode


_SPENT = schema.Node("", [], [], {})
"""Stands for a record that was freed."""


class _GraphScope(DecodeScope):
    """The scope of the graph that is being decoded, with the attributes of its module."""

    def __init__(self, context: DecodeContext, record: schema.Graph, held: Mapping[str, str]) -> None:
        super().__init__(context, record)
        self.module = torch.nn.Module()
        self.held = held
        """The attribute that holds an input, by the name of the input: it is read, and not passed."""
        self._attributes: dict[str, torch.fx.Node] = {}
        self._subgraphs: dict[str, schema.Graph] = {}
        self._treespecs: dict[str, str] = {}
        self._constants: dict[str, str] = {}

    def subgraph(self, argument: schema.GraphArgument) -> torch.fx.Node:
        """Return the node that reads a subgraph; add the subgraph to this graph's module."""
        name = argument.node or argument.name
        known = self._subgraphs.get(argument.name)
        if known is None:
            _check_free(self.module, argument.name)
            graph, module = decode_graph(self.context, argument.graph)
            self.module.register_module(argument.name, private.graph_module(module, graph))
            self._subgraphs[argument.name] = argument.graph
        elif known != argument.graph:
            raise DecodeError(f"two different subgraphs are named {argument.name!r}")
        return self._attribute(name, argument.name)

    def treespec(self, argument: str | schema.TreespecArgument) -> torch.fx.Node:
        """Return the node that reads a container structure; add the structure to this graph's module."""
        if isinstance(argument, str):
            argument = schema.TreespecArgument(f"_spec_{len(self._attributes)}", argument)
        known = self._treespecs.get(argument.name)
        if known is None:
            _check_free(self.module, argument.name)
            setattr(self.module, argument.name, decode_treespec(argument.spec, self.context.registry))
            self._treespecs[argument.name] = argument.spec
        elif known != argument.spec:
            raise DecodeError(f"two different attributes are named {argument.name!r}")
        return self._attribute(argument.node or argument.name, argument.name)

    def constant(self, argument: str | schema.ConstantArgument) -> torch.fx.Node:
        """Return the node that reads a constant tensor; add the tensor to this graph's module."""
        key = argument if isinstance(argument, str) else argument.name
        target = key.removeprefix(GRAPH_CONSTANT).partition(".")[2]
        name = target.replace(".", "_") if isinstance(argument, str) else argument.node
        if name in self._attributes and self._constants.get(target) == key:
            return self._attribute(name, target)
        try:
            tensor = self.context.constants[key]
        except KeyError:
            raise DecodeError(f"the constant {key!r} is missing") from None
        if self._constants.setdefault(target, key) != key:
            raise DecodeError(f"two different constants are named {target!r}")
        self._hold(target, tensor)
        node = self._attribute(name, target)
        noted = self.noted(name)
        described = self.context.describes
        if described and (noted is None or not (noted.unstated or noted.value is not None)):
            node.meta["val"] = self.context.fakes.mode.from_tensor(tensor, static_shapes=True)
        set_stated_value(self, node, noted)
        return node

    def _hold(self, target: str, tensor: torch.Tensor) -> None:
        """Make a tensor the attribute at a path."""
        *path, attribute = target.split(".")
        owner = self.module
        for part in path:
            if part not in owner._modules:
                _check_free(owner, part)
                owner.add_module(part, torch.nn.Module())
            owner = owner.get_submodule(part)
        if getattr(owner, attribute, None) is tensor:
            return
        _check_free(owner, attribute)
        if isinstance(tensor, torch.nn.Parameter):
            owner.register_parameter(attribute, tensor)
        else:
            owner.register_buffer(attribute, tensor)

    def _attribute(self, name: str, target: str) -> torch.fx.Node:
        node = self._attributes.get(name)
        if node is None:
            node = self.maker.make("get_attr", target, (), {}, name)
            if node.name != name:
                node.name = name
            noted = self.noted(name) or self.caller
            if noted is not None:
                node.meta.update(decode_metadata(self.context, noted))
            self._attributes[name] = node
        elif node.target != target:
            raise DecodeError(f"the node {name!r} reads two attributes, {node.target!r} and {target!r}")
        return node


def _check_free(module: torch.nn.Module, name: str) -> None:
    if name in taken_attributes() or hasattr(module, name):
        raise DecodeError(
            f"{name!r} cannot be an attribute of the graph's module, which already has one of that name"
        )


def decode_graph(
    context: DecodeContext,
    record: schema.Graph,
    *,
    literal_names: Sequence[str | None] = (),
    held: Mapping[str, str] = MappingProxyType({}),
    paths: Collection[str] = (),
    spends: bool = False,
) -> tuple[torch.fx.Graph, torch.nn.Module]:
    """Decode a graph to an FX graph, and the module whose attributes it reads.

    Args:
        literal_names: the name of each input in the signature, for inputs that have no name themselves.
        held: the attributes to read inputs from, by the name of the input. Other inputs are placeholders.
        paths: the weights and constants of the program.
        spends: whether each node's record is freed once it is decoded, since nothing reads it any more. It is in the processor's
            cache then, and what is made next takes its memory.

    Raises:
        DecodeError: the record does not match this installation; `place` names the part.
    """
    scope = _GraphScope(context, record, held)
    with located(lambda: f"graph.inputs[{index}]"):
        for index, argument in enumerate(record.inputs):
            _decode_placeholder(scope, index, argument, record.input_names or literal_names)
    with located(lambda: f"graph.nodes[{index}] ({node.name or node.target})"):
        for index, node in enumerate(record.nodes):
            _decode_call(scope, node)
            if spends:
                record.nodes[index] = _SPENT
    _decode_output(scope)
    if scope._attributes or held or record.copies or record.placed:
        context.in_order = False
    add_copies(scope, scope.graph)
    # The position of an input is that of the signature, also of one that is read as an attribute.
    move_nodes(scope.graph, {name: at for name, at in record.placed.items() if name not in held})
    choose_targets(scope.graph, paths)
    for key in record.value_metadata.keys() - scope.notes_read - record.copies.keys():
        note_unread(context, f"value_metadata.{key}", NO_NODE)
    return scope.graph, scope.module


def _decode_placeholder(
    scope: _GraphScope, index: int, argument: schema.Argument, names: Sequence[str | None]
) -> None:
    if (tensor := argument.as_tensor) is not None:
        name, value = tensor.name, decode_tensor(scope, tensor, input_value=True)
    else:
        variant = schema.variant_of(argument)
        if variant in LITERAL_VARIANTS:
            name = (names[index] if index < len(names) else None) or f"arg{index}"
        else:
            name = referenced_name(argument)
        value = decode_value(scope, argument, input_value=True)
    held_as = scope.record.held_as.get(name)
    if held_as is not None and isinstance(value, torch.Tensor):
        private.mark_parameter_or_buffer(value, held_as)
    if (path := scope.held.get(name)) is not None:
        node = scope.maker.make("get_attr", path, (), {}, name)
        scope.add(name, node, value, scope.metadata(name, {}))
        return
    node = scope.maker.make("placeholder", name, (), {}, name)
    noted = scope.noted(name)
    if noted is not None and noted.target is not None and node.target != noted.target:
        node.target = noted.target
    scope.add(name, node, value, {} if noted is None else decode_metadata(scope.context, noted))


def _decode_call(scope: _GraphScope, record: schema.Node) -> None:
    context = scope.context
    target = record.target
    called = context.operators.get(target) or decode_operator(context, target, record)
    scope.caller = record
    args, kwargs = decode_inputs(scope, called, record)
    metadata = decode_metadata(context, record)
    metadata.setdefault("nn_module_stack", {})
    name = record.name or _value_name(record)
    node = scope.maker.make("call_function", called.target, args, kwargs, name)
    scope.propagated = (
        propagated_values(scope, record, node) if record.propagate and context.describes else {}
    )
    decode_results(scope, called, record, node, metadata)
    if target in _ASSERTIONS and context.describes:
        _note_assertion(context, target, node)


def _value_name(record: schema.Node) -> str | None:
    """Return the name of the only value of a node in an older document; None lets FX choose a name."""
    if (
        len(record.outputs) != 1
        or schema.variant_of(record.outputs[0]) in CONTAINER_VARIANTS | LITERAL_VARIANTS
    ):
        return None
    return referenced_name(record.outputs[0]) if record.is_hop_single_tensor_return is not False else None


def _decode_output(scope: _GraphScope) -> None:
    record = scope.record
    scope.caller = None
    with located(lambda: "graph.outputs"):
        values = [decode_argument(scope, argument) for argument in record.outputs]
    result: Any = values if record.output_list else tuple(values)
    if record.is_single_tensor_return:
        (result,) = values
    node = scope.maker.make("output", "output", (result,), {}, "output")
    if record.output_metadata is not None:
        node.meta.update(decode_metadata(scope.context, record.output_metadata))
        if record.output_metadata.stated and scope.context.describes:
            node.meta["val"] = torch.fx.node.map_arg(result, lambda each: each.meta.get("val"))


_ASSERT = "torch.ops.aten._assert_scalar.default"
_ASSERTIONS = frozenset((_ASSERT, "torch.ops.aten.sym_constrain_range_for_size.default"))
"""The operators that state something of symbols."""


def _note_assertion(context: DecodeContext, target: str, node: torch.fx.Node) -> None:
    """Tell the shape environment about the condition that a node asserts of symbols."""
    if target == _ASSERT:
        condition = _first_value(node)
        if isinstance(condition, torch.SymBool) and is_cheap_to_compute(context, (condition,)):
            from graphwire.bridge.torch_compat.symbolic import defer_assertion

            defer_assertion(context.shape_env, condition, node)
    else:
        size = _first_value(node)
        if isinstance(size, torch.SymInt):
            from graphwire.bridge.torch_compat.symbolic import constrain_for_size

            constrain_for_size(context.shape_env, size)


def _first_value(node: torch.fx.Node) -> Any:
    """Return the value that a node states for the first argument of another, passed by position or by keyword."""
    first = next(iter((*node.args, *node.kwargs.values())), None)
    return first.meta.get("val") if isinstance(first, torch.fx.Node) else None
