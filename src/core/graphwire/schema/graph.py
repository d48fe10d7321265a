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

from graphwire.schema.values import (
    Composition,
    Device,
    Float,
    Layout,
    MemoryFormat,
    ScalarType,
    SymBool,
    SymFloat,
    SymInt,
    TensorMeta,
)


class TensorArgument(msgspec.Struct, gc=False, frozen=True):
    """A tensor, by the name of its value."""

    name: str
    """The name of the value: a key of `Graph.tensor_values` of the same graph."""


class TokenArgument(msgspec.Struct, gc=False, frozen=True):
    """An effect token, by the name of its value."""

    name: str
    """The name of the value: a key of `Graph.tensor_values` of the same graph."""


class SymIntArgument(msgspec.Struct, gc=False, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """An integer: a value of the graph or a literal. Exactly one variant is set."""

    as_name: str | None = None
    """The name of the value: a key of `Graph.sym_int_values` of the same graph."""
    as_int: int | None = None
    """A literal."""


class SymFloatArgument(msgspec.Struct, gc=False, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A float: a value of the graph or a literal. Exactly one variant is set."""

    as_name: str | None = None
    """The name of the value: a key of `Graph.sym_float_values` of the same graph."""
    as_float: Float | None = None
    """A literal."""


class SymBoolArgument(msgspec.Struct, gc=False, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A boolean: a value of the graph or a literal. Exactly one variant is set."""

    as_name: str | None = None
    """The name of the value: a key of `Graph.sym_bool_values` of the same graph."""
    as_bool: bool | None = None
    """A literal."""


class OptionalTensorArgument(
    msgspec.Struct, gc=False, frozen=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A tensor or None. Exactly one variant is set."""

    as_tensor: TensorArgument | None = None
    """A tensor."""
    as_none: bool | None = None
    """None. Writers write true; readers ignore the value."""


class CustomObjArgument(msgspec.Struct, gc=False, frozen=True):
    """A script object or opaque value, by the name of its value or constant."""

    name: str
    """The name of the value, a key of `Graph.custom_obj_values` of the same graph; or, in an argument of a node, the
    name of a constant."""
    class_fqn: str
    """The qualified name of the object's class. Readers never import it."""


class ComplexValue(msgspec.Struct, gc=False, frozen=True):
    """A complex literal."""

    real: Float
    """The real part."""
    imag: Float
    """The imaginary part."""


class SequenceValue(msgspec.Struct, gc=False):
    """Extension `sequences`: a list or tuple whose elements are of any kind."""

    kind: Literal["list", "tuple"]
    """The Python type of the sequence."""
    items: list[Argument]
    """The elements, in order."""


class MappingEntry(msgspec.Struct, gc=False):
    """One entry of a mapping, in the mapping's order."""

    key: Argument
    """The key: a literal."""
    value: Argument
    """The value of the key."""


class SliceValue(msgspec.Struct):
    """Extension `slices`: a Python slice.

    The garbage collector tracks this record: only so does Python free a deep nest without recursion. Other nests have a
    list or a dict on each level.
    """

    start: Argument
    """The first index; `as_none` if it is open."""
    stop: Argument
    """The index after the last; `as_none` if it is open."""
    step: Argument
    """The distance of two indices; `as_none` for 1."""


class RangeValue(msgspec.Struct, gc=False, frozen=True):
    """Extension `ranges`: a Python range, by its constructor arguments."""

    start: int
    """The first element."""
    stop: int
    """The end, which is not an element."""
    step: int
    """The difference of two elements; not 0."""

    def __post_init__(self) -> None:
        if self.step == 0:
            raise ValueError("the step of a range must not be 0")


class GraphArgument(msgspec.Struct, gc=False, omit_defaults=True):
    """A subgraph, and the attribute of its owner that holds it."""

    name: str
    """The attribute of the owning module that holds the subgraph: a plain name, unique in the owner."""
    graph: Graph
    """The subgraph. It uses only its own inputs and values."""
    node: str | None = None
    """Extension without requirement: the name of the node that reads the attribute. Absent: the attribute's name."""


class TreespecArgument(msgspec.Struct, gc=False, omit_defaults=True):
    """A container structure, and the attribute of its owner that holds it."""

    name: str
    """The attribute of the owning module that holds the structure."""
    spec: str
    """The structure, as text of the treespec protocol."""
    node: str | None = None
    """The name of the node that reads the attribute. Absent: the attribute's name."""


class ConstantArgument(msgspec.Struct, gc=False, frozen=True):
    """A tensor owned by the graph, read by a node whose name differs from the attribute path."""

    name: str
    """The name of the constant."""
    node: str
    """The name of the node that reads the constant."""


class Argument(msgspec.Struct, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """One argument or result. Exactly one variant is set. The variants after `as_float_lists` are extensions."""

    as_none: bool | None = None
    """None. Writers write true; readers ignore the value."""
    as_tensor: TensorArgument | None = None
    """A tensor, by name."""
    as_tensors: list[TensorArgument] | None = None
    """A list of tensors, by name. As a result of a node: the elements of one list, each a value of the graph."""
    as_int: int | None = None
    """An integer literal."""
    as_ints: list[int] | None = None
    """A list of integer literals."""
    as_float: Float | None = None
    """A float literal."""
    as_floats: list[Float] | None = None
    """A list of float literals."""
    as_string: str | None = None
    """A text literal."""
    as_strings: list[str] | None = None
    """A list of text literals."""
    as_sym_int: SymIntArgument | None = None
    """An integer, by name or literal."""
    as_sym_ints: list[SymIntArgument] | None = None
    """A list of integers, each by name or literal."""
    as_scalar_type: ScalarType | None = None
    """An element type, by number."""
    as_memory_format: MemoryFormat | None = None
    """A memory format, by number."""
    as_layout: Layout | None = None
    """A layout, by number."""
    as_device: Device | None = None
    """A device."""
    as_bool: bool | None = None
    """A boolean literal."""
    as_bools: list[bool] | None = None
    """A list of boolean literals."""
    as_sym_bool: SymBoolArgument | None = None
    """A boolean, by name or literal."""
    as_sym_bools: list[SymBoolArgument] | None = None
    """A list of booleans, each by name or literal."""
    as_graph: GraphArgument | None = None
    """A subgraph, and the attribute that holds it."""
    as_optional_tensors: list[OptionalTensorArgument] | None = None
    """A list whose elements are tensors or None."""
    as_custom_obj: CustomObjArgument | None = None
    """A script object or opaque value, by name."""
    as_operator: str | None = None
    """An operator, by its serialized name, as an argument of a higher-order operator."""
    as_sym_float: SymFloatArgument | None = None
    """A float, by name or literal."""
    as_sym_floats: list[SymFloatArgument] | None = None
    """A list of floats, each by name or literal."""
    as_optional_tensor: OptionalTensorArgument | None = None
    """A tensor or None. Writers use `as_tensor` and `as_none` instead."""
    as_complex: ComplexValue | None = None
    """A complex literal."""
    as_nested_tensors: list[list[TensorArgument]] | None = None
    """A list of lists of tensors, by name."""
    as_int_lists: list[list[int]] | None = None
    """A list of lists of integer literals."""
    as_string_to_argument: dict[str, Argument] | None = None
    """A dict with text keys, in its order."""
    as_float_lists: list[list[Float]] | None = None
    """A list of lists of float literals."""
    as_sequence: SequenceValue | None = None
    """Extension `sequences`: a list or tuple whose elements are of any kind."""
    as_mapping: list[MappingEntry] | None = None
    """Extension `mappings`: a dict whose keys are not all text, in its order."""
    as_slice: SliceValue | None = None
    """Extension `slices`: a Python slice."""
    as_dtype_name: str | None = None
    """Extension `dtypes`: an element type without a number, by torch's name."""
    as_layout_name: str | None = None
    """Extension `layouts`: a layout without a number, by torch's name."""
    as_constant: str | ConstantArgument | None = None
    """Extension `constants`: a payload of the program that the graph reads from its module: its name among the
    constants, or a record if the node that reads it has another name."""
    as_treespec: str | TreespecArgument | None = None
    """Extension `treespecs`: a container structure: text of the treespec protocol, or a record if an attribute of the
    module holds it."""
    as_results: str | None = None
    """Extension `results`: all results of an earlier node together, by the node's name."""
    as_range: RangeValue | None = None
    """Extension `ranges`: a Python range."""

    def __repr__(self) -> str:
        variants = [(variant, getattr(self, variant)) for variant in ARGUMENT_VARIANTS]
        return (
            f"Argument({', '.join(f'{variant}={held!r}' for variant, held in variants if held is not None)})"
        )


ARGUMENT_VARIANTS: tuple[str, ...] = Argument.__struct_fields__
"""Every variant of an argument."""


class ArgumentKind(enum.IntEnum):
    """How a node passes an input: by position or by keyword."""

    UNKNOWN = 0
    """As if `kind` were absent."""
    POSITIONAL = 1
    """By position."""
    KEYWORD = 2
    """By keyword."""


class NamedArgument(msgspec.Struct, gc=False, omit_defaults=True):
    """An input of a node."""

    name: str
    """The parameter's name in the operator's schema; empty for a positional input of an operator without a schema."""
    arg: Argument
    """The input itself."""
    kind: ArgumentKind | None = None
    """How the input is passed. Absent: by keyword if the operator's schema has a keyword-only parameter of this name,
    otherwise by position."""
    tuples: bool = False
    """Extension without requirement: the sequence in `arg` was a tuple, not a list."""


class Node(msgspec.Struct, gc=False, omit_defaults=True):
    """A call of an operator."""

    target: str
    """The operator's serialized name, such as `torch.ops.aten.add.Tensor`."""
    inputs: list[NamedArgument]
    """The inputs, in the order of the call. An omitted input has the default of the operator's schema."""
    outputs: list[Argument]
    """The results, each a value of the graph. `as_none`: the operator returns None here, or the graph does not have the
    result."""
    metadata: dict[str, str]
    """Texts by key: `nn_module_stack`, `source_fn_stack`, `torch_fn`, `custom` (JSON) and others; documents of other
    writers also have `stack_trace` and `from_node`."""
    is_hop_single_tensor_return: bool | None = None
    """For a higher-order operator with one output: true if it returns the bare value, false if a sequence that contains
    it. Absent: bare, or the node calls another operator."""
    name: str | None = None
    """The name of the FX node. Absent: the name of its first result."""
    stack: list[int] | None = None
    """Extension without requirement: the stack trace, as indices into `GraphModule.stack_frames`, outermost first.
    Absent: the node has none, or it is in `metadata`."""
    from_node: list[int] | None = None
    """Extension without requirement: provenance, as indices into `GraphModule.node_sources`. Absent: the node has none,
    or it is in `metadata`."""
    container: Literal["list", "tuple"] | None = None
    """Extension without requirement: the sequence type that holds several outputs. Absent: a list for one `Tensor[]`,
    otherwise a tuple."""
    propagate: bool = False
    """Extension `propagate`: the graph may omit the metadata of this node's outputs. A load computes it with the fake
    kernel of an operator that an installed upgrader emits."""


class ValueMetadata(msgspec.Struct, gc=False, omit_defaults=True):
    """Extension without requirement: metadata of something that is not a node here (a placeholder, an element of an
    output, the output itself)."""

    metadata: dict[str, str] = {}
    """Texts by key, as in `Node.metadata`."""
    stack: list[int] | None = None
    """The stack trace, as in `Node.stack`."""
    from_node: list[int] | None = None
    """Provenance, as in `Node.from_node`."""
    name: str | None = None
    """For an element that is itself a sequence, and so has no name of its own in `outputs`: its node's name."""
    unstated: bool = False
    """The node that reads an element or an attribute has no `val` (None), though the value it reads has one."""
    value: TensorMeta | None = None
    """The tensor metadata of the node that reads an element or an attribute. Absent: that of the value it reads."""
    target: str | None = None
    """For an input whose node was renamed: the name of the argument. Absent: the name of the node."""
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
    """The inputs, in order: of the top-level graph one for each `GraphSignature.input_specs`. Each defines a value, or
    is a literal."""
    outputs: list[Argument]
    """The outputs, in order: of the top-level graph one for each `GraphSignature.output_specs`."""
    nodes: list[Node]
    """The calls, in execution order: a node uses only inputs and results of earlier nodes."""
    tensor_values: dict[str, TensorMeta]
    """The metadata of each tensor and token that an input or node defines, by name."""
    sym_int_values: dict[str, SymInt]
    """The integers that inputs and nodes define, by name."""
    sym_bool_values: dict[str, SymBool]
    """The booleans that inputs and nodes define, by name."""
    is_single_tensor_return: bool = False
    """Whether a subgraph returns its single output bare rather than in a tuple."""
    custom_obj_values: dict[str, CustomObjArgument] = {}
    """The objects that inputs and nodes define, by name."""
    sym_float_values: dict[str, SymFloat] = {}
    """The floats that inputs and nodes define, by name."""
    input_names: list[str] | None = None
    """Extension without requirement: the names of all inputs of a subgraph that has literals among its inputs. Literals
    carry no name in `inputs`. Absent: the names in `inputs` are complete."""
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

    def __repr__(self) -> str:
        return f"<Graph: {len(self.nodes)} nodes, {len(self.inputs)} inputs, {len(self.outputs)} outputs>"


# ----------------------------------------------- the module call graph: which submodules were called, with which values
# `unflatten` needs it.


class ModuleCallSignature(msgspec.Struct, gc=False, omit_defaults=True):
    """The inputs, outputs and container structures of one module call."""

    inputs: list[Argument]
    """The flat inputs of the call, in the order of the leaves of `in_spec`: values of the graph by name, and
    literals."""
    outputs: list[Argument]
    """The flat outputs of the call, in the order of the leaves of `out_spec`."""
    in_spec: str
    """The structure of `(args, kwargs)`, as text of the treespec protocol."""
    out_spec: str
    """The structure of the result, as text of the treespec protocol."""
    forward_arg_names: list[str] | None = None
    """The names of the parameters of the module's `forward`, in order. Absent: unknown."""
    input_names: list[str | None] | None = None
    """Extension without requirement: for each input, its name if it is a literal, which carries none, else null.
    Absent: no literal has a name."""
    output_names: list[str | None] | None = None
    """Extension without requirement: for each output, its name if it is a literal, which carries none, else null.
    Absent: no literal has a name."""


class ModuleCallEntry(msgspec.Struct, gc=False):
    """One call of a module, by its qualified name (`name@1` for a second call); the first entry is the root."""

    fqn: str
    """The qualified name of the module; empty for the root."""
    signature: ModuleCallSignature | None = None
    """The interface of the call. Null or absent: the call's interface is not preserved."""


class NamedTupleDef(msgspec.Struct, gc=False):
    """The fields of a namedtuple that a treespec uses."""

    field_names: list[str]
    """The names of the fields, in order."""
