"""The values of one graph: the metadata of each, by name, and the FX node that makes it.

A value is a tensor, a symbolic number, an object, or a sequence or mapping of values.
"""

from __future__ import annotations

import enum
import operator
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch.export.graph_signature import CustomObjArgument as TorchCustomObject

from graphwire import schema
from graphwire.bridge.context import GRAPH_CONSTANT, DecodeContext, EncodeContext
from graphwire.bridge.graph.arguments import Scope, encode_argument, is_owned_by_codec, name_object
from graphwire.bridge.graph.metadata import decode_metadata
from graphwire.bridge.tensors import tensor_metas
from graphwire.bridge.tensors.coded_values import decode_composition, encode_composition
from graphwire.bridge.torch_compat import private
from graphwire.bridge.torch_compat.code_text import NodeMaker
from graphwire.bridge.torch_compat.pytree import class_name as torch_compat_class_name
from graphwire.errors import DecodeError, EncodeError
from graphwire.schema import ElementCopy

NOTHING = schema.ValueMetadata()
"""The metadata of a value without any metadata."""

LITERAL_VARIANTS = frozenset(schema.ConstantValue.__struct_fields__)
"""The variants of values that are known when the program is written, and so need no name."""

_LIST_VARIANTS: dict[str, Callable[[Any], schema.Argument]] = {
    "as_tensors": lambda each: schema.Argument(as_tensor=each),
    "as_sym_ints": lambda each: schema.Argument(as_sym_int=each),
    "as_sym_floats": lambda each: schema.Argument(as_sym_float=each),
}
"""The variants that list values of one kind, with a function that makes an argument from an element."""

CONTAINER_VARIANTS = frozenset({*_LIST_VARIANTS, "as_sequence", "as_string_to_argument", "as_mapping"})
"""The variants of values that contain values."""

_NUMBERS: dict[str, tuple[Any, Any]] = {
    "as_sym_bool": ((bool, torch.SymBool), schema.SymBoolArgument),
    "as_sym_int": ((int, torch.SymInt), schema.SymIntArgument),
    "as_sym_float": ((float, torch.SymFloat), schema.SymFloatArgument),
}
"""The variants of numbers: the Python types, and the record that refers to one. A bool is an int too, so it comes first."""


# ----------------------------------------------------------------------------------------------------- encode


@dataclass
class EncodeScope:
    """The state of encoding one graph."""

    context: EncodeContext
    record: schema.Graph
    module: torch.fx.GraphModule
    nodes: dict[torch.fx.Node, schema.Argument] = field(default_factory=dict)
    """The arguments that refer to the values so far, by the node that makes each."""
    order: dict[torch.fx.Node, None] = field(default_factory=dict)
    """The nodes so far, in the order that the record implies."""
    attributes: set[torch.fx.Node] = field(default_factory=set)
    """The `get_attr` nodes so far."""
    folded: set[torch.fx.Node] = field(default_factory=set)
    """`getitem` nodes that became the name of an element."""
    copies: dict[torch.fx.Node, torch.fx.Node] = field(default_factory=dict)
    """`getitem` nodes that read the same element as an earlier node, with that node, which names the element."""
    inner_nodes: int = 0
    """The number of nodes in the subgraphs so far, counted once per use."""

    @cached_property
    def targets(self) -> Counter[str]:
        """The number of inputs for each argument name."""
        return Counter(str(node.target) for node in self.module.graph.find_nodes(op="placeholder"))

    @cached_property
    def places(self) -> dict[torch.fx.Node, int]:
        """The number of nodes before each node."""
        return {node: index for index, node in enumerate(self.module.graph.nodes)}


def encode_value(scope: EncodeScope, name: str, value: Any) -> schema.Argument:
    """Add the metadata of a value that is not a container to the record, and return the argument that refers to the value.

    Raises:
        EncodeError: the name is already in use, or a record cannot represent the value.
    """
    context, record = scope.context, scope.record
    known = context.described.get(id(value))
    if known is not None and name not in record.tensor_values:  # a fake tensor, the common case
        record.tensor_values[name] = known
        return schema.Argument(as_tensor=schema.TensorArgument(name))
    if isinstance(value, torch.Tensor):
        _define(record.tensor_values, name, tensor_metas.encode_tensor_meta(context, value))
        composed = type(value) is not private.FakeTensor
        if composed and (composition := encode_composition(context, value)) is not None:
            record.compositions[name] = composition
        return schema.Argument(as_tensor=schema.TensorArgument(name))
    for variant, (kinds, reference) in _NUMBERS.items():
        if isinstance(value, kinds) and not isinstance(value, enum.Enum):
            _define(_table(record, variant), name, tensor_metas.encode_number(context, value))
            return schema.Argument(**{variant: reference(as_name=name)})
    if (class_name := _class_of_object(value)) is not None:
        described = value.name if isinstance(value, TorchCustomObject) else name
        if described is name and is_owned_by_codec(context, value):
            described = name_object(context, value)  # the graph has the value itself, not only its class
        _define(record.custom_obj_values, name, schema.CustomObjArgument(described, class_name))
        return schema.Argument(as_custom_obj=schema.CustomObjArgument(name, class_name))
    if value is None or isinstance(value, str):
        return encode_argument(context, {}, value)
    raise EncodeError(f"a graph cannot contain a value of type {torch_compat_class_name(type(value))}")


def _table(record: schema.Graph, variant: str) -> dict[str, Any]:
    """Return the table of a graph that describes the values of a variant."""
    table: dict[str, Any] = getattr(record, schema.VALUE_TABLES[variant.removeprefix("as_")])
    return table


def _define(values: dict[str, Any], name: str, record: Any) -> None:
    if name in values:
        raise EncodeError(f"two values are named {name!r}", remedy="Rename one of the nodes")
    values[name] = record


def _class_of_object(value: Any) -> str | None:
    """Return the class of a script object or opaque value, of which a graph has only the class."""
    if isinstance(value, TorchCustomObject):
        return str(value.class_fqn)
    return private.script_class_name(value)


def elements_of(value: Any) -> list[tuple[Any, Any]] | None:
    """Return the elements of a container, each with its index or key for `getitem`; None for any other value."""
    if isinstance(value, (tuple, list)):
        return list(enumerate(value))
    return list(value.items()) if isinstance(value, dict) else None


def encode_container(context: EncodeContext, value: Any, elements: list[schema.Argument]) -> schema.Argument:
    """Encode a container of values as one argument.

    Args:
        value: the container.
        elements: its encoded elements, in order.
    """
    if isinstance(value, dict):
        if all(type(key) is str for key in value):
            return schema.Argument(as_string_to_argument=dict(zip(value, elements, strict=True)))
        context.features.add("mappings")
        keys = (encode_argument(context, {}, key) for key in value)
        return schema.Argument(
            as_mapping=[schema.MappingEntry(*entry) for entry in zip(keys, elements, strict=True)]
        )
    if isinstance(value, list) and all(element.as_tensor is not None for element in elements):
        return schema.Argument(as_tensors=[element.as_tensor for element in elements])  # type: ignore[misc]
    context.features.add("sequences")
    return schema.Argument(
        as_sequence=schema.SequenceValue("list" if isinstance(value, list) else "tuple", elements)
    )


def record_stated_value(
    scope: EncodeScope, own: schema.ValueMetadata, reader: torch.fx.Node, value: Any
) -> None:
    """Record the value in the metadata of a reading node (`getitem`, `get_attr`), if it differs from what the node reads.

    Args:
        own: the recorded metadata of the reader.
        value: the value that it reads.
    """
    stated = reader.meta.get("val")
    own.unstated = value is not None and stated is None
    if stated is value or not isinstance(stated, torch.Tensor):
        return
    meta, kind = _described(scope.context, stated), private.parameter_or_buffer(stated)
    # The common case first: checking for other kinds of tensors takes as long as the rest of this.
    is_fake = type(value) is private.FakeTensor
    if (is_fake or isinstance(value, torch.Tensor)) and (
        meta is (other := _described(scope.context, value)) or meta == other
    ):
        is_parameter = not is_fake and isinstance(value, torch.nn.Parameter)
        held = "parameter" if is_parameter else private.parameter_or_buffer(value)
        if kind == held:
            return
    own.value = meta
    if kind is not None:
        scope.record.held_as[reader.name] = kind


def _described(context: EncodeContext, tensor: torch.Tensor) -> schema.TensorMeta:
    return context.described.get(id(tensor)) or tensor_metas.encode_tensor_meta(context, tensor)


# ----------------------------------------------------------------------------------------------------- decode


class _Values(dict[str, Any]):
    """FX nodes by the name of their value. Nodes that read unused elements are made at the first lookup of their name."""

    def __init__(self) -> None:
        self.unread: dict[str, Callable[[], None]] = {}
        """The functions that create the readers of elements with default names and no recorded metadata."""

    def __missing__(self, name: str) -> Any:
        read = self.unread.pop(name, None)
        if read is None:
            raise KeyError(name)
        read()
        return self[name]


class DecodeScope(Scope):
    """The state of decoding one graph: its FX graph, and the nodes of its values so far."""

    values: _Values

    def __init__(self, context: DecodeContext, record: schema.Graph) -> None:
        super().__init__(context, _Values())
        self.record = record
        self.graph = torch.fx.Graph()
        self.maker = NodeMaker(self.graph)
        self.propagated: dict[str, Any] = {}
        """The computed metadata of the current node's values, by name (extension `propagate`)."""
        self.caller: schema.Node | None = None
        """The node whose arguments are being decoded."""
        self.notes_read: set[str] = set()
        """The keys of `value_metadata` that were used."""

    def call(
        self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str | None
    ) -> torch.fx.Node:
        """Add a node that calls `target`."""
        return self.maker.make("call_function", target, args, kwargs, name)

    def add(self, name: str, node: torch.fx.Node, value: Any, metadata: dict[str, Any]) -> None:
        """Define `name` as the value of an FX node.

        Raises:
            DecodeError: the name is already in use.
        """
        values = self.values
        if name in values:
            raise DecodeError(f"two values are named {name!r}")
        values[name] = node
        self.complete(node, name, value, metadata)

    def complete(self, node: torch.fx.Node, name: str | None, value: Any, metadata: dict[str, Any]) -> None:
        """Set the name of an FX node (None keeps its name), its value and its metadata."""
        if name is not None and node.name != name:  # FX looks up hooks and tables at each assignment
            node.name = name
            self.context.in_order = False
        meta, context = node.meta, self.context
        meta.update(metadata)
        if not context.describes:
            return
        meta["val"] = value
        kind = type(value)
        if kind is list or kind is tuple:
            context.kinds.update(map(type, value))
        else:
            context.kinds.add(kind)
        if context.pending and value is not None:
            from graphwire.bridge.torch_compat.symbolic import unbacked_bindings

            bindings = unbacked_bindings(value, context.shape_env, context.pending)
            if bindings and node.op != "placeholder":  # the caller passes an input, so it binds no symbol
                meta["unbacked_bindings"] = bindings

    def noted(self, key: str) -> schema.ValueMetadata | None:
        """What the document notes of a node, by its key in `value_metadata`."""
        found = self.record.value_metadata.get(key)
        if found is not None:
            self.notes_read.add(key)
        return found

    def metadata(self, name: str, otherwise: Mapping[str, Any]) -> dict[str, Any]:
        """What is noted of a value, as `node.meta`; `otherwise` where nothing is."""
        noted = self.noted(name)
        return dict(otherwise) if noted is None else decode_metadata(self.context, noted)


def set_stated_value(scope: DecodeScope, reader: torch.fx.Node, noted: schema.ValueMetadata | None) -> None:
    """Set the value in the metadata of a reading node, if the record has none or another than what the node reads."""
    if not scope.context.describes:
        return
    if noted is not None and noted.unstated:
        reader.meta["val"] = None
    elif noted is not None and noted.value is not None:
        reader.meta["val"] = stated = tensor_metas.decode_tensor_meta(
            scope.context, noted.value, input_value=False
        )
        if (kind := scope.record.held_as.get(reader.name)) is not None:
            private.mark_parameter_or_buffer(stated, kind)


def referenced_name(argument: schema.Argument) -> str:
    """Return the name of the value that an argument refers to.

    Raises:
        DecodeError: the argument is not a reference.
    """
    name = schema.value_name(argument)
    if name is None:
        raise DecodeError("a reference to a value is expected here")
    return name


def decode_value(scope: DecodeScope, argument: schema.Argument, *, input_value: bool = False) -> Any:
    """Decode the metadata of the value that an output or input defines: a fake tensor, a symbolic value, an object, or a
    container of these.

    Raises:
        DecodeError: the record has no metadata for it.
    """
    if argument.as_tensor is not None:
        return decode_tensor(scope, argument.as_tensor, input_value=input_value)
    variant = schema.variant_of(argument)
    if variant in LITERAL_VARIANTS:
        return literal_of(argument)
    if variant in CONTAINER_VARIANTS:
        values = [
            decode_value(scope, element, input_value=input_value)
            for _, element in element_arguments(argument)
        ]
        return decode_container(argument, values)
    if not scope.context.describes:
        return None
    try:
        return _VALUES[variant](scope.context, scope.record, argument, input_value)
    except KeyError as error:
        return _propagated(scope, error.args[0])


def decode_tensor(scope: DecodeScope, argument: schema.TensorArgument, *, input_value: bool = False) -> Any:
    """Decode the metadata of a tensor that an output or input defines, as `decode_value` does.

    Raises:
        DecodeError: the record has no metadata for it.
    """
    if not scope.context.describes:
        return None
    name, record = argument.name, scope.record
    if record.compositions and (composition := record.compositions.get(name)) is not None:
        value = decode_composition(scope.context, composition, input_value=input_value)
        if value is not None:
            return value
    described = record.tensor_values.get(name)
    if described is None:
        return _propagated(scope, name)
    return tensor_metas.decode_tensor_meta(scope.context, described, input_value=input_value)


def _propagated(scope: DecodeScope, name: str) -> Any:
    if name in scope.propagated:
        return scope.propagated[name]
    raise DecodeError(f"the graph does not describe the value {name!r}")


def literal_of(record: schema.Argument | schema.ConstantValue) -> Any:
    """Return the value of a record whose variant is a literal."""
    if record.as_float is not None:
        return schema.decode_float(record.as_float)
    return next((v for v in (record.as_int, record.as_bool, record.as_string) if v is not None), None)


def _number(
    context: DecodeContext, record: schema.Graph, argument: schema.Argument, _input_value: bool
) -> Any:
    variant = schema.variant_of(argument)
    reference = getattr(argument, variant)
    if reference.as_name is None:
        return getattr(reference, reference.__struct_fields__[1])
    return tensor_metas.decode_number(context, _table(record, variant)[reference.as_name])


def _custom_object(context: DecodeContext, record: schema.CustomObjArgument) -> Any:
    if record.name.startswith(GRAPH_CONSTANT) and record.name in context.constants:
        return context.constants[record.name]
    return TorchCustomObject(record.name, record.class_fqn)


_VALUES: dict[str, Any] = {
    **dict.fromkeys(_NUMBERS, _number),
    "as_custom_obj": lambda c, r, a, _: _custom_object(c, r.custom_obj_values[a.as_custom_obj.name]),
}
"""The decoder for each other variant that may define a value."""


def element_arguments(argument: schema.Argument) -> list[tuple[Any, schema.Argument]]:
    """Return the elements of a container argument, each with its index or key for `getitem`."""
    if argument.as_sequence is not None:  # the form of a node's results
        return list(enumerate(argument.as_sequence.items))
    variant = schema.variant_of(argument)
    if (element := _LIST_VARIANTS.get(variant)) is not None:
        return [(index, element(each)) for index, each in enumerate(getattr(argument, variant))]
    if argument.as_string_to_argument is not None:
        return list(argument.as_string_to_argument.items())
    return [(literal_of(entry.key), entry.value) for entry in argument.as_mapping or ()]


def decode_container(argument: schema.Argument, values: list[Any]) -> Any:
    """Build a container from decoded elements, or from other values in their place.

    Args:
        argument: the container.
        values: one for each element, in order.
    """
    if argument.as_string_to_argument is not None or argument.as_mapping is not None:
        return dict(zip((key for key, _ in element_arguments(argument)), values, strict=True))
    if argument.as_sequence is not None and argument.as_sequence.kind == "tuple":
        return tuple(values)
    return values


# ---- converts duplicate `getitem` nodes, which read an element that another node already reads, to and from `Graph.copies`
# A record names an element of a node's results once. The first node that reads the element gives it its name. The graph
# record lists the other readers separately (`Graph.copies`), with the references to them.


_OUTPUT = ""
"""The key of the output among the names of users."""


def encode_copies(scope: EncodeScope) -> dict[str, ElementCopy]:
    """Return the copies of a graph by name. For each user and value, references are counted from 0 in the order of the
    arguments, over all nodes that read the value."""
    if not scope.copies:
        return {}
    records = {node.name: ElementCopy(first.name) for node, first in scope.copies.items()}

    def note(user: torch.fx.Node, used: torch.fx.Node, position: int) -> torch.fx.Node:
        if used in scope.copies:
            by = _OUTPUT if user.op == "output" else user.name
            records[used.name].uses.setdefault(by, []).append(position)
        return used

    for user in {user: None for node in scope.copies for user in node.users}:
        _each_reference(user, lambda used: scope.copies.get(used, used), note)
    return records


def add_copies(scope: DecodeScope, graph: torch.fx.Graph) -> None:
    """Add the copies to a decoded graph, and restore the references to them. Skips copies of values that an upgrade removed.

    Raises:
        DecodeError: a node already has the name of a copy.
    """
    copies = scope.record.copies
    if not copies:
        return
    named = {node.name: node for node in graph.nodes}
    last: dict[torch.fx.Node, torch.fx.Node] = {}
    uses: dict[str, dict[tuple[torch.fx.Node, int], torch.fx.Node]] = {}
    for name, copy in copies.items():
        if name in named:
            raise DecodeError(f"two nodes are named {name!r}")
        first = named.get(copy.of)
        if first is None or first.target is not operator.getitem or copy.of in copies:
            continue
        with graph.inserting_after(last.get(first, first)):
            node = scope.call(operator.getitem, first.args, {}, name)
        value = element_of(first) if scope.context.describes else None
        scope.complete(node, name, value, scope.metadata(name, {}))
        set_stated_value(scope, node, scope.noted(name))
        named[name] = last[first] = node
        for by, positions in copy.uses.items():
            uses.setdefault(by, {}).update(dict.fromkeys(((first, at) for at in positions), node))

    def restored(user: torch.fx.Node, used: torch.fx.Node, position: int) -> torch.fx.Node:
        by = _OUTPUT if user.op == "output" else user.name
        return uses.get(by, {}).get((used, position), used)

    for by in uses:
        user = graph.output_node() if by == _OUTPUT else named.get(by)
        if user is not None:
            _each_reference(user, lambda used: used, restored)


def element_of(reader: torch.fx.Node) -> Any:
    """Return the metadata of the element that a `getitem` node reads, from the node that produces the results."""
    whole, key = reader.args
    assert isinstance(whole, torch.fx.Node)
    value = element_of(whole) if whole.target is operator.getitem else whole.meta["val"]
    return value[key]


def _each_reference(
    user: torch.fx.Node,
    value_of: Callable[[torch.fx.Node], torch.fx.Node],
    replace: Callable[[torch.fx.Node, torch.fx.Node, int], torch.fx.Node],
) -> None:
    """Replace each node that a user refers to by the result of `replace`.

    Args:
        value_of: maps a node to the first node that reads the same element.
        replace: (user, referenced node, number of earlier references to the same value) -> the node to refer to.
    """
    counts: dict[torch.fx.Node, int] = {}

    def visit(used: torch.fx.Node) -> torch.fx.Node:
        value = value_of(used)
        counts[value] = counts.get(value, -1) + 1
        return replace(user, used, counts[value])

    args, kwargs = torch.fx.map_arg(user.args, visit), torch.fx.map_arg(user.kwargs, visit)
    if args != user.args or kwargs != user.kwargs:
        user.args, user.kwargs = args, kwargs
