"""A graph: nodes that call operators, their arguments, and metadata of each value.

Only calls are nodes. Placeholders and the output are `Graph.inputs` and `Graph.outputs`. An element of a multiple
output is a value with its own name, not a `getitem` node. A subgraph is an argument of the node that calls it.

Records are never cyclic, so the garbage collector does not track them (`gc=False`, here and wherever a program has many
of a record).
"""

from __future__ import annotations

import enum
from typing import Literal

import msgspec

from graphwire.schema.scalars import Device, Layout, MemoryFormat, ScalarType
from graphwire.schema.symbols import Float, SymBool, SymFloat, SymInt
from graphwire.schema.tensor import Composition, TensorMeta


class TensorArgument(msgspec.Struct, gc=False, frozen=True):
    """A tensor, by the name of its value."""

    name: str


class TokenArgument(msgspec.Struct, gc=False, frozen=True):
    """An effect token, by the name of its value."""

    name: str


class SymIntArgument(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """An integer: a value of the graph or a literal. Exactly one arm is set."""

    as_name: str | None = None
    as_int: int | None = None


class SymFloatArgument(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """A float: a value of the graph or a literal. Exactly one arm is set."""

    as_name: str | None = None
    as_float: Float | None = None


class SymBoolArgument(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """A boolean: a value of the graph or a literal. Exactly one arm is set."""

    as_name: str | None = None
    as_bool: bool | None = None


class OptionalTensorArgument(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """A tensor or None. Exactly one arm is set."""

    as_tensor: TensorArgument | None = None
    as_none: bool | None = None


class CustomObjArgument(msgspec.Struct, gc=False, frozen=True):
    """A script object or opaque value, by the name of its value or constant."""

    name: str
    class_fqn: str


class ComplexValue(msgspec.Struct, gc=False, frozen=True):
    """A complex literal."""

    real: Float
    imag: Float


class SequenceValue(msgspec.Struct, gc=False):
    """Extension `sequences`: a list or tuple whose elements are of any kind."""

    kind: Literal["list", "tuple"]
    items: list[Argument]


class MappingEntry(msgspec.Struct, gc=False):
    """One entry of a mapping, in the mapping's order."""

    key: Argument
    value: Argument


class SliceValue(msgspec.Struct):
    """Extension `slices`: a Python slice.

    The garbage collector tracks this record: only so does Python free a deep nest without recursion. Other nests have a
    list or a dict on each level.
    """

    start: Argument
    stop: Argument
    step: Argument


class RangeValue(msgspec.Struct, gc=False, frozen=True):
    """Extension `ranges`: a Python range, by its constructor arguments."""

    start: int
    stop: int
    step: int
    """Nonzero."""

    def __post_init__(self) -> None:
        if self.step == 0:
            raise ValueError("the step of a range must not be 0")


class GraphArgument(msgspec.Struct, gc=False, omit_defaults=True):
    """A subgraph, and the attribute of its owner that holds it."""

    name: str
    graph: Graph
    node: str | None = None
    """Extension without requirement: the name of the node that reads the attribute, if it differs."""


class TreespecArgument(msgspec.Struct, gc=False, omit_defaults=True):
    """A container structure, and the attribute of its owner that holds it."""

    name: str
    spec: str
    """Text of the treespec protocol."""
    node: str | None = None
    """The name of the node that reads the attribute, if it differs."""


class ConstantArgument(msgspec.Struct, gc=False, frozen=True):
    """A tensor owned by the graph, read by a node whose name differs from the attribute path."""

    name: str
    """Its name among the constants."""
    node: str


class Argument(msgspec.Struct, gc=False, omit_defaults=True):
    """One argument or result. Exactly one arm is set. The arms after `as_float_lists` are extensions."""

    as_none: bool | None = None
    as_tensor: TensorArgument | None = None
    as_tensors: list[TensorArgument] | None = None
    as_int: int | None = None
    as_ints: list[int] | None = None
    as_float: Float | None = None
    as_floats: list[Float] | None = None
    as_string: str | None = None
    as_strings: list[str] | None = None
    as_sym_int: SymIntArgument | None = None
    as_sym_ints: list[SymIntArgument] | None = None
    as_scalar_type: ScalarType | None = None
    as_memory_format: MemoryFormat | None = None
    as_layout: Layout | None = None
    as_device: Device | None = None
    as_bool: bool | None = None
    as_bools: list[bool] | None = None
    as_sym_bool: SymBoolArgument | None = None
    as_sym_bools: list[SymBoolArgument] | None = None
    as_graph: GraphArgument | None = None
    as_optional_tensors: list[OptionalTensorArgument] | None = None
    as_custom_obj: CustomObjArgument | None = None
    as_operator: str | None = None
    as_sym_float: SymFloatArgument | None = None
    as_sym_floats: list[SymFloatArgument] | None = None
    as_optional_tensor: OptionalTensorArgument | None = None
    as_complex: ComplexValue | None = None
    as_nested_tensors: list[list[TensorArgument]] | None = None
    as_int_lists: list[list[int]] | None = None
    as_string_to_argument: dict[str, Argument] | None = None
    as_float_lists: list[list[Float]] | None = None
    as_sequence: SequenceValue | None = None
    as_mapping: list[MappingEntry] | None = None
    as_slice: SliceValue | None = None
    as_dtype_name: str | None = None
    """Extension `dtypes`: an element type without a ScalarType number."""
    as_layout_name: str | None = None
    """Extension `layouts`: a layout without a Layout number."""
    as_constant: str | ConstantArgument | None = None
    """Extension `constants`: a payload of the program, by its name among the constants, optionally with the node that
    reads it."""
    as_treespec: str | TreespecArgument | None = None
    """Extension `treespecs`: a container structure, as text of the treespec protocol, optionally with the attribute
    that holds it."""
    as_results: str | None = None
    """Extension `results`: all results of an earlier node together, by the node's name."""
    as_range: RangeValue | None = None


ARGUMENT_ARMS: tuple[str, ...] = Argument.__struct_fields__
"""Every arm of an argument."""


class ArgumentKind(enum.IntEnum):
    """How a node passes an input: by position or by keyword."""

    UNKNOWN = 0
    POSITIONAL = 1
    KEYWORD = 2


class NamedArgument(msgspec.Struct, gc=False, omit_defaults=True):
    """An input of a node."""

    name: str
    """The parameter's name in the operator's schema; empty for a positional input of an operator without a schema."""
    arg: Argument
    kind: ArgumentKind | None = None
    tuples: bool = False
    """Extension without requirement: the sequence in `arg` was a tuple, not a list."""


class Node(msgspec.Struct, gc=False, omit_defaults=True):
    """A call of an operator."""

    target: str
    """The operator's serialized name, such as `torch.ops.aten.add.Tensor`."""
    inputs: list[NamedArgument]
    outputs: list[Argument]
    metadata: dict[str, str]
    """`nn_module_stack`, `source_fn_stack`, `torch_fn`, `custom` (JSON) and others; documents by other writers also use
    `stack_trace`."""
    is_hop_single_tensor_return: bool | None = None
    """For a higher-order operator with one output: whether it returns the bare value rather than a tuple of it."""
    name: str | None = None
    stack: list[int] | None = None
    """Extension without requirement: the stack trace as indices into `GraphModule.stack_frames`, outermost first."""
    from_node: list[int] | None = None
    """Extension without requirement: provenance as indices into `GraphModule.node_sources`."""
    container: Literal["list", "tuple"] | None = None
    """Extension without requirement: the sequence type that holds several outputs, if it is not the usual one (a list
    for one `Tensor[]`, else a tuple)."""
    propagate: bool = False
    """Extension `propagate`: the graph may omit the metadata of this node's outputs. A load infers it with the fake
    kernel of an operator that an installed upgrader emits."""


class ValueMetadata(msgspec.Struct, gc=False, omit_defaults=True):
    """Extension without requirement: metadata of something that is not a node here (a placeholder, an element of an
    output, the output itself)."""

    metadata: dict[str, str] = {}
    stack: list[int] | None = None
    from_node: list[int] | None = None
    name: str | None = None
    """For an element that is itself a sequence, and so has no name of its own in `outputs`: its node's name."""
    unstated: bool = False
    """The node that reads an element or an attribute has no `val` (None), though the value it reads has one."""
    value: TensorMeta | None = None
    """The tensor metadata of the node that reads an element or an attribute, if it differs from the value it reads."""
    target: str | None = None
    """For an input whose node was renamed: the name of the argument."""
    stated: bool = False
    """The output node has a `val` of its own: the values of what it returns. Export omits it; some passes add it."""


class ElementCopy(msgspec.Struct, gc=False, omit_defaults=True):
    """A second node that reads the same element as another node."""

    of: str
    """The node that gives the element its name. Every reference uses that name."""
    uses: dict[str, list[int]] = {}
    """The references that belong to this node, by the name of the node that has them (empty: the output). Each number
    selects one of that node's references to the element, counted from 0 in the order of its arguments. The keys
    `module_call_graph[I].inputs` and `module_call_graph[I].outputs` list which of those arguments name this node."""


class Graph(msgspec.Struct, gc=False, omit_defaults=True):
    """Nodes in execution order, the graph's inputs and outputs, and metadata of each value by name."""

    inputs: list[Argument]
    outputs: list[Argument]
    nodes: list[Node]
    tensor_values: dict[str, TensorMeta]
    sym_int_values: dict[str, SymInt]
    sym_bool_values: dict[str, SymBool]
    is_single_tensor_return: bool = False
    """Whether a subgraph returns its single output bare rather than in a tuple."""
    custom_obj_values: dict[str, CustomObjArgument] = {}
    sym_float_values: dict[str, SymFloat] = {}
    input_names: list[str] | None = None
    """Extension without requirement: the names of all inputs of a subgraph that has literals among its inputs. Literals
    carry no name in `inputs`."""
    value_metadata: dict[str, ValueMetadata] = {}
    """Extension without requirement: metadata by value name, if it differs from that of the node that makes the value.
    The key of a node that reads an attribute (a subgraph) is its name; the key of element `I` of node `N` that is
    itself a sequence is `N[I]`."""
    output_metadata: ValueMetadata | None = None
    """Extension without requirement: metadata of the output node."""
    placed: dict[str, str] = {}
    """Extension without requirement: the nodes that read an element or an attribute and are not at their default
    position, each with the node that precedes it (empty: it comes first). By default, nodes that read elements follow
    the node that makes them, in order, and nodes that read attributes precede the first node that uses them."""
    copies: dict[str, ElementCopy] = {}
    """Extension without requirement: by name, the nodes that read an element that another node reads, too. By default
    they follow that node."""
    compositions: dict[str, Composition] = {}
    """Extension without requirement: by name, the values that are tensor subclasses. `tensor_values` describes their
    outer tensor."""
    held_as: dict[str, Literal["parameter", "buffer"]] = {}
    """Extension without requirement: the inputs, and nodes with a different `value`, that are known to be an
    `nn.Parameter` or an `nn.Buffer`."""
    output_list: bool = False
    """Extension without requirement: the graph returns its outputs in a list, not a tuple."""
