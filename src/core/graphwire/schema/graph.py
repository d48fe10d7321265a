"""A graph: nodes that call operators, their arguments, and metadata of each value; and the table of argument variants.

Only calls are nodes. Placeholders and the output are `Graph.inputs` and `Graph.outputs`. An element of a multiple
output is a value with its own name, not a `getitem` node. A subgraph is an argument of the node that calls it.

Records are never cyclic, so the garbage collector does not track them (`gc=False`, here and wherever a program has many
of a record).

A row of `VARIANTS` defines a variant's description, the oldest schema that supports it in each place, its extension, what it
refers to, and how to extract and replace the arguments inside it. Validation, the content hash, comparison, opset upgrades and
downgrades use this table. A new variant therefore needs a field, a row here and a row in `bridge.graph.arguments`.

A version in a row is the first whose **reader** supports the construct, not the first whose writer writes it. It was
measured with the readers of torch 2.1.0, 2.2.2, 2.3.1, 2.6.0, 2.9.1 and 2.13.0, with a document for each variant in each
place. If a construct became readable between two of these and nothing tells when, the row has the later version.
"""

import enum
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from operator import attrgetter, getitem, is_
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

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
    Version,
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
    items: "list[Argument]"
    """The elements, in order."""


class MappingEntry(msgspec.Struct, gc=False):
    """One entry of a mapping, in the mapping's order."""

    key: "Argument"
    """The key: a literal."""
    value: "Argument"
    """The value of the key."""


class SliceValue(msgspec.Struct):
    """Extension `slices`: a Python slice.

    The garbage collector tracks this record: only so does Python free a deep nest without recursion. Other nests have a
    list or a dict on each level.
    """

    start: "Argument"
    """The first index; `as_none` if it is open."""
    stop: "Argument"
    """The index after the last; `as_none` if it is open."""
    step: "Argument"
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
    graph: "Graph"
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
    as_string_to_argument: "dict[str, Argument] | None" = None
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


# ---------------------------------------------------------------------------------------------------- columns of a row

Place = Literal[
    "argument", "call", "input", "inner_input", "output", "inner_output", "result", "results", "wrapped"
]
"""The place of an argument: `argument` of a node, or nested in one; `call`, of a module call; an `input` or `output` of
the program, or of a subgraph (`inner_…`); the single `result` of a node, one of several `results`, or a single one in a
tuple (`wrapped`)."""

PLACES: Final[dict[Place, str]] = {
    "argument": "",
    "call": " of a module call",
    "input": " as input",
    "inner_input": " as input of a subgraph",
    "output": " as output",
    "inner_output": " as output of a subgraph",
    "result": " as result of a node",
    "results": " among the results of a node",
    "wrapped": " as the only one of a tuple of results",
}
"""The places, and how messages name each."""

ValueKind = Literal["tensor", "sym_int", "sym_float", "sym_bool", "custom_obj"]

VALUE_TABLES: Final[dict[str, str]] = {
    "tensor": "tensor_values",
    "sym_int": "sym_int_values",
    "sym_float": "sym_float_values",
    "sym_bool": "sym_bool_values",
    "custom_obj": "custom_obj_values",
}
"""The kinds of values, and the field of `Graph` that describes the values of each kind."""

VALUE_VARIANTS: Final = tuple(f"as_{kind}" for kind in VALUE_TABLES)
"""The variants that refer to one value by name."""

Reference = Literal["", ValueKind, "graph", "results", "constant", "operator", "treespec"]
"""What a variant refers to: a value (a key of `VALUE_TABLES`; an object may also be a constant), a subgraph, all results
of a node, a constant, an operator, or an attribute that holds a container structure. Empty for a literal."""

PathStep: TypeAlias = tuple[str] | tuple[str, int | str]
"""A step to a nested argument: text, followed by an optional index or key."""


def step_text(step: PathStep) -> str:
    """Return a step as text, such as `.items[3]`."""
    return step[0] if len(step) == 1 else f"{step[0]}[{step[1]!r}]"


class Access(msgspec.Struct, frozen=True):
    """Functions that read and replace the fields of a record."""

    read: Callable[[Any, str], Any]
    put: Callable[..., Any]
    """Takes a record and new fields by name, and returns a new record."""


RECORDS: Final = Access(getattr, replace)
"""Access to typed records."""
TREES: Final = Access(getitem, lambda record, **fields: {**record, **fields})
"""Access to plain trees, in which a record is a dict."""


class Inside(msgspec.Struct, frozen=True):
    """Functions that extract the arguments inside a variant, and put replacements back in the same order."""

    taken: Callable[[Access, Any], list[tuple[PathStep, Any]]]
    put: Callable[[Access, Any, list[Any]], Any]


class Variant(msgspec.Struct, frozen=True):
    """A row of the table: for each place, the first schema whose reader supports the variant, or None if no schema does."""

    says: str
    argument: Version | None = None
    call: Version | None = None
    input: Version | None = None
    inner_input: Version | None = None
    output: Version | None = None
    inner_output: Version | None = None
    result: Version | None = None
    results: Version | None = None
    wrapped: Version | None = None
    items: str = ""
    """For a variant that is a list: the variant of a single item."""
    refers: Reference = ""
    inside: Inside | None = None
    """Set if the variant contains arguments."""
    feature: str = ""
    """The extension that the variant belongs to; empty if torch's schema has the variant."""
    record: type[msgspec.Struct] | None = None
    """The record type of an extension. torch's schema does not have it either."""
    collects: bool = False
    """Whether the variant can hold results of a node, of any kinds."""
    resolved: bool = False
    """Whether `evolve.steps.extensions` replaces the variant by another one before torch's readers see it."""
    kind: str = ""
    """The content hash's name for a literal (`analysis.canonical.graph_content`); empty for None, bool, int, float and
    text."""

    def since(self, place: Place) -> Version | None:
        """Return the first schema whose reader supports the variant in a place."""
        found: Version | None = getattr(self, place)
        return found

    @property
    def defines(self) -> bool:
        """Whether the variant can be a node's output: a value, a literal, or a container of them."""
        if self.refers and self.refers not in VALUE_TABLES:
            return False
        return self.collects or any((self.input, self.result, self.results))

    @property
    def is_container(self) -> bool:
        """Whether the variant holds several arguments."""
        return bool(self.collects or self.items)


# ---------------------------------------------------------------------------------------------------- nested arguments


def _items(access: Access, held: Any) -> list[tuple[PathStep, Any]]:
    return [((".items", index), item) for index, item in enumerate(access.read(held, "items"))]


def _put_items(access: Access, held: Any, items: list[Any]) -> Any:
    return access.put(held, items=items)


_PAIR = ("key", "value")


def _pairs(access: Access, held: Any) -> list[tuple[PathStep, Any]]:
    return [
        ((f"[{index}].{part}",), access.read(entry, part))
        for index, entry in enumerate(held)
        for part in _PAIR
    ]


def _put_pairs(access: Access, held: Any, items: list[Any]) -> Any:
    parts = iter(items)
    return [access.put(entry, key=next(parts), value=next(parts)) for entry in held]


_BOUNDS = ("start", "stop", "step")


def _bounds(access: Access, held: Any) -> list[tuple[PathStep, Any]]:
    return [((f".{part}",), access.read(held, part)) for part in _BOUNDS]


def _put_bounds(access: Access, held: Any, items: list[Any]) -> Any:
    return access.put(held, **dict(zip(_BOUNDS, items, strict=True)))


def _entries(access: Access, held: Any) -> list[tuple[PathStep, Any]]:
    return [(("", key), item) for key, item in held.items()]


def _put_entries(access: Access, held: Any, items: list[Any]) -> Any:
    return dict(zip(held, items, strict=True))


# ----------------------------------------------------------------------------------------------------------- the table

V1, V2, V5_1, V5_3 = Version(1), Version(2), Version(5, 1), Version(5, 3)
V8_2, V8_7, V8_8, V8_14 = Version(8, 2), Version(8, 7), Version(8, 8), Version(8, 14)
V8_15, V8_17, V8_20 = Version(8, 15), Version(8, 17), Version(8, 20)


def _argument(says: str, since: Version, items: str = "", **row: Any) -> Variant:
    """Return a row for a variant that only occurs in calls."""
    return Variant(says, since, since, items=items, **row)


def _extension(feature: str, says: str, record: type[msgspec.Struct] | None = None, **row: Any) -> Variant:
    """Return a row for a variant that torch's schema does not have."""
    return Variant(says, feature=feature, record=record, **row)


VARIANTS: Final[dict[str, Variant]] = {
    "as_none": Variant("None", V1, V1, V5_1, V5_1, V5_3, V5_3, V8_14, V2, V8_7),
    "as_tensor": Variant("a tensor", V1, V1, V1, V1, V1, V1, V1, V1, V1, refers="tensor"),
    "as_tensors": Variant(
        "a list of tensors", V1, V1, result=V1, results=V2, items="as_tensor", refers="tensor"
    ),
    "as_int": Variant("an integer", V1, V1, V5_1, V5_1, V5_3, V5_3),
    "as_ints": _argument("a list of integers", V1, "as_int"),
    "as_float": Variant("a float", V1, V1, V5_1, V5_1, V8_2, V8_2),
    "as_floats": _argument("a list of floats", V1, "as_float"),
    "as_string": Variant("a text", V1, V1, V5_1, V5_1),
    "as_strings": _argument("a list of texts", V5_1, "as_string"),
    "as_sym_int": Variant("a symbolic integer", V1, V1, V8_8, V8_8, V1, V1, V1, V5_1, V8_7, refers="sym_int"),
    "as_sym_ints": Variant(
        "a list of symbolic integers", V1, V1, results=V5_1, items="as_sym_int", refers="sym_int"
    ),
    "as_scalar_type": _argument("an element type", V1, kind="dtype"),
    "as_memory_format": _argument("a memory format", V1, kind="memory format"),
    "as_layout": _argument("a layout", V1, kind="layout"),
    "as_device": _argument("a device", V1, kind="device"),
    "as_bool": Variant("a truth value", V1, V1, V5_1, V5_1, V8_8, V8_8),
    "as_bools": _argument("a list of truth values", V1, "as_bool"),
    "as_sym_bool": Variant("a symbolic truth value", V1, V1, inner_output=V1, result=V1, refers="sym_bool"),
    "as_sym_bools": _argument("a list of symbolic truth values", V5_1, "as_sym_bool", refers="sym_bool"),
    "as_graph": Variant("a subgraph", V1, refers="graph"),
    "as_optional_tensors": _argument("a list of tensors and None", V1, "as_optional_tensor", refers="tensor"),
    "as_custom_obj": Variant("a script object", V1, V1, V5_1, V5_1, refers="custom_obj"),
    "as_operator": _argument("an operator as an argument", V5_1, refers="operator", kind="operator"),
    "as_sym_float": Variant(
        "a symbolic float", V8_2, V8_2, None, None, V8_2, V8_2, V8_2, V8_2, V8_7, refers="sym_float"
    ),
    "as_sym_floats": Variant(
        "symbolic floats", V8_2, V8_2, results=V8_2, items="as_sym_float", refers="sym_float"
    ),
    "as_optional_tensor": Variant("a tensor or None", resolved=True, refers="tensor"),
    "as_complex": _argument("a complex number", V8_14, kind="complex"),
    "as_nested_tensors": _argument("a list of lists of tensors", V8_17, "as_tensors", refers="tensor"),
    "as_int_lists": _argument("a list of lists of integers", V8_15, "as_ints"),
    "as_string_to_argument": _argument(
        "a dict as an argument", V8_15, inside=Inside(_entries, _put_entries), collects=True
    ),
    "as_float_lists": _argument("a list of lists of floats", V8_20, "as_floats"),
    "as_sequence": _extension(
        "sequences",
        "a list or tuple argument whose elements are of several kinds",
        SequenceValue,
        inside=Inside(_items, _put_items),
        collects=True,
    ),
    "as_mapping": _extension(
        "mappings",
        "a dict argument whose keys are not all text",
        MappingEntry,
        inside=Inside(_pairs, _put_pairs),
        collects=True,
    ),
    "as_slice": _extension(
        "slices", "a Python slice as an argument", SliceValue, inside=Inside(_bounds, _put_bounds)
    ),
    "as_dtype_name": _extension(
        "dtypes", "an element type that torch's schema has no number for", kind="dtype"
    ),
    "as_layout_name": _extension("layouts", "a layout that torch's schema has no number for", kind="layout"),
    "as_constant": _extension(
        "constants",
        "a tensor or object that a node refers to without a graph input",
        ConstantArgument,
        refers="constant",
    ),
    "as_treespec": _extension(
        "treespecs", "a container structure as an argument", TreespecArgument, refers="treespec"
    ),
    "as_results": _extension(
        "results",
        "all results of a node together as an argument, or a result of another kind than its operator's",
        refers="results",
    ),
    "as_range": _extension("ranges", "a Python range as an argument", RangeValue, kind="range"),
}
"""Every variant of `Argument`, in the order of its fields."""

INSIDE: Final = {variant: row.inside for variant, row in VARIANTS.items() if row.inside is not None}
"""The variants that contain arguments."""

_FREQUENT = (
    "as_tensor as_int as_ints as_sym_ints as_sym_int as_none as_bool as_float as_tensors as_scalar_type as_device as_string"
    " as_memory_format as_layout"
).split()
FREQUENT_FIRST: Final = tuple(dict.fromkeys((*_FREQUENT, *VARIANTS)))
"""Every variant, the most frequent first: the order in which code looks for the variant that is set."""


def by_variant(of_variants: dict[str, Any], listed: Callable[[Any], Any]) -> dict[str, Any]:
    """Return `of_variants` in the order of frequency, extended to lists: `listed` converts an item's entry to that of a
    list."""

    def found(variant: str) -> Any:
        if variant in of_variants or not VARIANTS[variant].items:
            return of_variants.get(variant)
        below = found(VARIANTS[variant].items)
        return None if below is None else listed(below)

    return {variant: row for variant in FREQUENT_FIRST if (row := found(variant)) is not None}


# ------------------------------------------------------------------------------------------------------------ renaming


class Renaming(msgspec.Struct, frozen=True):
    """Functions that map each reference of an argument to its replacement."""

    value: Callable[[str], str]
    """The new name of a value of the graph; for an object, also the name of a constant."""
    graph: Callable[[GraphArgument], GraphArgument] = lambda held: held
    """The replacement of a subgraph; by default the subgraph itself."""
    results: Callable[[str], str] = str
    """The new name of a node, where an argument refers to all its results."""


Rewrite: TypeAlias = Callable[[Renaming, Any], Any]


def _tensor(renaming: Renaming, held: TensorArgument) -> TensorArgument:
    name = renaming.value(held.name)
    return held if name == held.name else TensorArgument(name)


def _symbol(renaming: Renaming, held: Any) -> Any:
    if (old := held.as_name) is None:
        return held
    name = renaming.value(old)
    return held if name == old else type(held)(as_name=name)


def _optional_tensor(renaming: Renaming, held: OptionalTensorArgument) -> OptionalTensorArgument:
    if held.as_tensor is None:
        return held
    tensor = _tensor(renaming, held.as_tensor)
    return held if tensor is held.as_tensor else OptionalTensorArgument(as_tensor=tensor)


def _object(renaming: Renaming, held: CustomObjArgument) -> CustomObjArgument:
    name = renaming.value(held.name)
    return held if name == held.name else CustomObjArgument(name, held.class_fqn)


def _each(rewrite: Rewrite) -> Rewrite:
    def rewrite_each(renaming: Renaming, held: list[Any]) -> list[Any]:
        items = [rewrite(renaming, item) for item in held]
        return held if all(map(is_, items, held)) else items

    return rewrite_each


def _inside(inside: Inside) -> Rewrite:
    def rewrite(renaming: Renaming, held: Any) -> Any:
        old = [item for _, item in inside.taken(RECORDS, held)]
        items = [rewritten(item, renaming) for item in old]
        return held if all(map(is_, items, old)) else inside.put(RECORDS, held, items)

    return rewrite


_REWRITES: Final = tuple(
    by_variant(
        {
            "as_tensor": _tensor,
            **dict.fromkeys(("as_sym_int", "as_sym_float", "as_sym_bool"), _symbol),
            "as_optional_tensor": _optional_tensor,
            "as_custom_obj": _object,
            "as_graph": lambda renaming, held: renaming.graph(held),
            "as_results": lambda renaming, held: renaming.results(held),
            **{variant: _inside(inside) for variant, inside in INSIDE.items()},
        },
        _each,
    ).items()
)
"""The function that renames the references of each variant; variants without references have none."""


def variant_of(argument: Argument) -> str:
    """Return the variant that is set; empty if none is."""
    if argument.as_tensor is not None:
        return "as_tensor"
    for variant in FREQUENT_FIRST:
        if getattr(argument, variant) is not None:
            return variant
    return ""


def rewritten(argument: Argument, renaming: Renaming) -> Argument:
    """Return the argument with every reference renamed; the same object if nothing changes."""
    if (tensor := argument.as_tensor) is not None:
        name = renaming.value(tensor.name)
        return argument if name == tensor.name else Argument(as_tensor=TensorArgument(name))
    for variant, rewrite in _REWRITES:
        held = getattr(argument, variant)
        if held is not None:
            made = rewrite(renaming, held)
            return argument if made is held else Argument(**{variant: made})
    return argument


# ------------------------------------------------------------------------------------------------------------- walking


def arguments_in(argument: Argument) -> Sequence[tuple[PathStep, Argument]]:
    """Return the arguments directly inside an argument, each with the step to it from the variant."""
    if argument.as_tensor is None and _held(argument) != _NOTHING:
        for variant, inside in INSIDE.items():
            held = getattr(argument, variant)
            if held is not None:
                return inside.taken(RECORDS, held)
    return ()


_held = attrgetter(*INSIDE)
_NOTHING = (None,) * len(INSIDE)


def features_of(argument: Argument) -> Iterator[str]:
    """Yield the extensions that an argument and the arguments inside it require."""
    if argument.as_tensor is None:
        if (variant := variant_of(argument)) and VARIANTS[variant].feature:
            yield VARIANTS[variant].feature
        yield from chain.from_iterable(features_of(item) for _, item in arguments_in(argument))


def results_of(node: str) -> str:
    """Return the pseudo-name for all results of a node. No value has such a name."""
    return f"results of {node}"


def variant_and_content(union: Any) -> tuple[str, Any]:
    """Return the variant of a union that is set, and its content; an empty text and None if there is none."""
    held = ((variant, getattr(union, variant)) for variant in union.__struct_fields__)
    return next((each for each in held if each[1] is not None), ("", None))


def value_name(argument: Argument) -> str | None:
    """Return the name of the value that an argument refers to; None for a literal or a list."""
    for variant in VALUE_VARIANTS:
        held = getattr(argument, variant)
        if held is not None:
            name: str | None = held.as_name if variant.startswith("as_sym") else held.name
            return name
    return None


def names_in(argument: Argument) -> list[str]:
    """Return the names of the values that an argument refers to, in order; `results_of(node)` for all results of a
    node.

    Names inside subgraphs are not included.
    """
    if argument.as_tensor is not None:
        return [argument.as_tensor.name]
    found: list[str] = []

    def note(name: str) -> str:
        found.append(name)
        return name

    rewritten(argument, Renaming(note, results=lambda node: note(results_of(node))))
    return found


def graphs_in(graph: Graph) -> Iterator[Graph]:
    """Return a graph and every graph inside it."""
    graphs = [graph]
    for each in graphs:  # grows while it is walked
        yield each
        others = [
            argument
            for node in each.nodes
            for named in node.inputs
            if (argument := named.arg).as_tensor is None
            and (argument.as_graph is not None or _held(argument) != _NOTHING)
        ]
        graphs += chain.from_iterable(map(subgraphs_in, others))


def calls_in(graph: Graph) -> dict[str, Node]:
    """Return the operators that a graph and the graphs inside it call, each with one of its nodes."""
    return {node.target: node for each in graphs_in(graph) for node in each.nodes}


def subgraphs_in(argument: Argument) -> list[Graph]:
    """Return the subgraphs in an argument, but not those nested inside them."""
    return [held.graph for held in named_subgraphs_in(argument)]


def named_subgraphs_in(argument: Argument) -> list[GraphArgument]:
    """Return the subgraphs in an argument with their attribute names, in order."""
    if argument.as_tensor is not None:
        return []
    if argument.as_graph is not None:
        return [argument.as_graph]
    return [held for _, item in arguments_in(argument) for held in named_subgraphs_in(item)]
