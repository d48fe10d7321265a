"""State of one save or one load: the tables and caches that its steps share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from graphwire import schema
from graphwire.analysis.load_report import Omission
from graphwire.bridge.tensors.storages import StorageTable, StridedTensor
from graphwire.bridge.torch_compat.fake_tensors import FakeTensors
from graphwire.registry.interfaces import NodeCodec, OpHandler
from graphwire.registry.registry import Registry
from graphwire.schema import Held, NodeSource, PluginRequirement, SymInt, TensorMeta
from graphwire.schema.texts.metadata import ProcessNumbers
from graphwire.schema.trees import Unfolding, provenance_of, traces_of
from graphwire.wire.payloads import Payloads

if TYPE_CHECKING:
    import sympy

    from graphwire.bridge.torch_compat.symbolic import ShapeEnv

GRAPH_CONSTANT = "graph::"
"""The prefix of payload names for tensors and objects that nodes use without a graph input."""


@dataclass(slots=True, eq=False, repr=False)
class Operator:
    """How to encode the nodes of one FX target: resolved once, used for each of its nodes."""

    target: Any
    name: str
    handler: OpHandler
    parameters: list[tuple[str, bool]] = field(default_factory=list)
    """For convention `schema`: each parameter's name, and whether it is keyword-only. For `symbolic`: the names."""
    required: frozenset[str] = frozenset()
    """For convention `schema`: the names of the parameters without a default."""
    positional: tuple[str, ...] = ()
    """For convention `schema`: the names of the parameters that are not keyword-only, if those come first."""
    needed: int = 0
    """The number of parameters up to the last one without a default: for convention `schema`, and Python functions."""
    codec: NodeCodec | None = None
    """The handler, if it encodes the inputs of its nodes itself."""
    is_own_form: bool = True
    """Whether the codec writes its own form, which only it can read."""
    returns: Any = None
    """For convention `schema`: the returns in the operator's schema."""
    only_result: str = ""
    """The type of the result, if there is one: `Tensor`, or `number`, also of a function of symbolic numbers."""
    is_legal: bool = False
    """For convention `schema`: whether the names of its parameters can name the inputs of a node."""


class PlainIntegers(dict[int, SymInt]):
    """The records of plain integers, made when they are first looked up: equal ones share a record."""

    def __missing__(self, number: int) -> SymInt:
        made = self[number] = SymInt(as_int=int(number))
        return made


class PlainExtents(dict[Any, list[SymInt]]):
    """The records of sizes and strides that are plain integers, by these. Metas share the list of equal ones, as nobody edits
    it."""

    def __init__(self) -> None:
        self.integers = PlainIntegers()

    def __missing__(self, numbers: Any) -> list[SymInt]:
        integers = self.integers
        made = self[numbers] = [integers[each] for each in numbers]
        return made


class SymbolicInteger(NamedTuple):
    """The parts of a symbolic integer."""

    node: Any
    """torch's `SymNode` of the integer."""
    key: str
    """The expression and the hint: equal for equal integers."""
    record: SymInt


@dataclass(slots=True, eq=False, repr=False)
class EncodeContext:
    """State that the steps of one save share."""

    registry: Registry
    constants: dict[str, Any]
    """Values that nodes refer to by name, found during the walk over the graph. They become payloads."""
    constant_names: dict[tuple[int, str], str] = field(default_factory=dict)
    """The names of `constants`, by the id of the value and the path it is read from."""
    plain_containers: bool = False
    """Whether to write inputs and outputs of types without a serialized name as tuples and dicts."""
    features: set[str] = field(default_factory=set)
    containers: set[str] = field(default_factory=set)
    """The names of the container types of the calls, with the versions of their contexts."""
    provided: set[tuple[str, str]] = field(default_factory=set)
    """`(kind, name)` of everything that plugins provided: `op`, `treespec`, `codec`."""
    operators: dict[int, Operator] = field(default_factory=dict)
    """By the id of the FX target: torch computes the target's own hash in Python."""
    expressions: dict[Any, str] = field(default_factory=dict)
    plain: PlainExtents = field(default_factory=PlainExtents)
    devices: dict[torch.device, schema.Device] = field(default_factory=dict)
    integers: dict[tuple[int, ...], SymbolicInteger] = field(default_factory=dict)
    """By the identity of torch's node. `SymbolicInteger` keeps the first such node alive."""
    tensor_metas: dict[Any, TensorMeta] = field(default_factory=dict)
    described: dict[int, TensorMeta] = field(default_factory=dict)
    """The records of fake tensors, by the tensor's id. The node keeps the tensor alive."""
    traces: dict[str, str] = field(default_factory=dict)
    """Stack traces as the document stores them, by their original text."""
    numbers: ProcessNumbers = field(default_factory=ProcessNumbers)
    """The addresses and counters of this process in the metadata, which the document replaces."""
    sources: dict[Any, int] = field(default_factory=dict)
    seen_sources: dict[int, tuple[Any, int]] = field(default_factory=dict)
    """The index of each `NodeSource` object of torch, by its id, with the object to keep it alive."""
    source_records: list[NodeSource] = field(default_factory=list)
    module_stacks: dict[tuple[Any, ...], tuple[dict[Any, Any], str, str]] = field(default_factory=dict)
    """The last module stack for each tuple of keys, with the key and the text of its metadata. Comparing its values is faster
    than hashing them."""
    module_rows: dict[tuple[Any, Any], str] = field(default_factory=dict)
    """The text of each module stack entry, if the text can be split back into that entry."""
    subgraphs: dict[int, schema.Graph] = field(default_factory=dict)
    """Encoded subgraphs, by the id of their graph module. The program keeps the module alive."""
    unsaved: dict[str, str] = field(default_factory=dict)
    """What of the graphs is not saved, with a node that has it; empty for the module."""
    declared_keys: frozenset[str] = frozenset()
    """The keys of metadata that plugins declare or, as `KeptMetadata`, declared."""
    has_declared: bool = False
    """Whether a node of the graphs so far may have metadata under such a key."""
    kept_plugins: dict[str, tuple[str, str]] = field(default_factory=dict)
    """The distributions and versions that declare the keys of `KeptMetadata`."""
    sound: dict[int, list[schema.NamedArgument]] = field(default_factory=dict)
    """The inputs of nodes that need no check, by id: `validate` would find nothing wrong with them."""
    graph_sizes: dict[int, int] = field(default_factory=dict)
    """The number of nodes of each subgraph, by the id of its record. Nested subgraphs count once per use."""

    def name_constant(self, value: Any, path: str) -> str:
        """Return the payload name of a value that a node uses; add the value to `constants` at the first call.

        Args:
            path: the path of the attribute that holds the value, or a description of the value.
        """
        name = self.constant_names.get((id(value), path))
        if name is None:
            name = self.constant_names[id(value), path] = f"{GRAPH_CONSTANT}{len(self.constants)}.{path}"
            self.constants[name] = value
        return name


class KeptMetadata(NamedTuple):
    """Metadata whose plugin is not in force: its text, which a save writes again, and the plugin that the file names."""

    text: str
    distribution: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class OpaqueOrigin:
    """The opsets and plugins a program declares for operators that are unavailable on this installation."""

    opset_version: Mapping[str, int]
    """The versions of the unavailable namespaces."""
    plugins: tuple[PluginRequirement, ...]
    """The plugins that provide the unavailable operators."""
    own_forms: bool = False
    """Whether handlers may have encoded node inputs in a form of their own (extension `calls`)."""

    def keeps(self, name: str, namespace: str) -> bool:
        """Return whether an operator stays opaque although a handler of its name is installed: the program needs another
        version of it, or the plugin that encoded it is missing.

        Args:
            name: the serialized name of the operator.
            namespace: the namespace of the handler.
        """
        library = name.removeprefix("torch.ops.").partition(".")[0]
        provided = f"op_handler:{name}"
        return (
            namespace in self.opset_version
            or (library in self.opset_version and name.startswith("torch.ops."))
            or any(provided in requirement.provides for requirement in self.plugins)
        )


class DescribedTensor(NamedTuple):
    """The contents of a tensor record as torch's types."""

    record: TensorMeta
    """Kept alive here because lookups use its id."""
    dtype: torch.dtype
    layout: torch.layout
    sizes: list[Any]
    strides: list[Any]
    offset: Any
    known: bool
    """Whether all sizes, strides and the offset are plain numbers."""
    empty: Callable[[], torch.Tensor] | None
    """Makes a meta tensor of this description, if it is strided, begins its storage, and all is known."""
    make: Callable[[torch.Tensor], torch.Tensor]
    """Makes a fake tensor of a meta tensor."""


class DecodeRequest(NamedTuple):
    """A validated record with its payloads, and how to build a program or a module of it."""

    record: schema.Program
    payloads: Payloads
    registry: Registry
    device: torch.device | None = None
    """The device to use on this machine; None for that of the document."""
    graph_only: bool = False
    """Whether to make the weights without elements (on the meta device) and to read no payload."""
    given: Mapping[str, torch.Tensor] | None = None
    """The weights by name, if they are not those of the payloads. The program shares them."""
    origin: OpaqueOrigin | None = None
    """The origin of unavailable operators, which then become opaque; None makes them an error."""
    propagates: frozenset[str] = frozenset()
    """The operators whose results may be computed on metadata."""
    dropped: list[Omission] | None = None
    """Receives what is omitted without changing what the program computes; if None, warnings are issued."""
    calls: Mapping[str, schema.Node] | None = None
    """`schema.calls_in` of the graph, if it is known."""


@dataclass(slots=True, eq=False, repr=False)
class DecodeContext:
    """State that the steps of one load share."""

    registry: Registry
    fakes: FakeTensors
    constants: dict[str, Any]
    """The graph's own tensors and objects, and those of the program, by payload name."""
    table: StorageTable
    """The storages of the payloads."""
    frames: list[str]
    """The frames of stack traces, as Python prints them."""
    sources: list[Any]
    """The provenance table, as torch's objects."""
    held: list[Held] = field(default_factory=list)
    """What the signature refers to."""
    traces: Unfolding = field(default_factory=partial(traces_of, ()))
    """Selects the stack traces to build."""
    provenance: Unfolding = field(default_factory=partial(provenance_of, ()))
    """Selects the nodes that get their provenance."""
    describes: bool = True
    """Whether nodes get a `val`, the fake tensors and symbols that describe their values, and their origins. A module that only
    runs needs neither."""
    ranges: dict[str, Any] = field(default_factory=dict)
    symbols: dict[str, sympy.Symbol] = field(default_factory=dict)
    expressions: dict[str, sympy.Basic] = field(default_factory=dict)
    exponents: set[str] = field(default_factory=set)
    """The names of symbols that occur in an exponent. torch does not reason about expressions with these."""
    reasoned: int = 0
    """The total size of the expressions that torch reasoned about."""
    values: dict[Any, Any] = field(default_factory=dict)
    """Symbolic values, by expression text and hint."""
    pending: set[sympy.Symbol] = field(default_factory=set)
    """Unbacked symbols that no node has bound yet."""
    operators: dict[str, Operator] = field(default_factory=dict)
    origin: OpaqueOrigin | None = None
    """The origin of unavailable operators, which load keeps opaque; None makes them an error."""
    propagates: frozenset[str] = frozenset()
    """The operators whose results may be computed on metadata: those that the installed upgraders emit."""
    texts: dict[tuple[str, str], tuple[str, Any]] = field(default_factory=dict)
    """Decoded metadata, by key and text: its name in `node.meta`, and the value."""
    stacks: dict[tuple[int, ...], str] = field(default_factory=dict)
    module_rows: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    """Decoded module stack entries, by their text."""
    declarers: Mapping[str, PluginRequirement] = field(default_factory=dict)
    """The plugins that declare keys of metadata, by key, as the document names them."""
    unread_metadata: dict[str, set[str]] = field(default_factory=dict)
    """Metadata keys that the document has but the program lacks, by reason."""
    devices: dict[tuple[str, int | None], torch.device] = field(default_factory=dict)
    kinds: set[type] = field(default_factory=set)
    """The types of the nodes' values, and of the elements of values that are lists and tuples."""
    in_order: bool = True
    """Whether all nodes so far are of the main graph, read no attributes, and have the place and the name that they were made
    with: then each follows those that it reads, and no two have one name."""
    described: dict[int, DescribedTensor] = field(default_factory=dict)
    """By the id of the record. Equal tensors mostly share a record."""
    drawn: dict[int, torch.Tensor] = field(default_factory=dict)
    """A meta tensor without elements for each of the same records whose numbers are symbolic, once there is one."""
    strided: dict[int, StridedTensor] = field(default_factory=dict)
    """The same for tensors with elements."""

    @property
    def shape_env(self) -> ShapeEnv:
        """The environment of the program's symbols. The first use makes it, which takes long: see `DecodedMode`."""
        return self.fakes.mode.shape_env
