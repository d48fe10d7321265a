"""What the steps of one save, or one load, share: tables and caches, made fresh for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import sympy
import torch

from graphwire import schema
from graphwire.bridge import torch_compat
from graphwire.hooks import NodeCodec, OpHandler, Registry
from graphwire.schema import NodeSource, PluginRequirement, SymInt, TensorMeta
from graphwire.schema.trees import Unfolding, provenance_of, traces_of

GRAPH_CONSTANT = "graph::"
"""The start of the payload names of tensors and objects that nodes refer to without a graph input."""


@dataclass(slots=True)
class Operator:
    """How the nodes of one FX target are written: resolved once, used for each of its nodes."""

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
    """How many parameters there are up to the last one without a default: for convention `schema`, and functions of Python."""
    codec: NodeCodec | None = None
    """The handler, where it writes the inputs of its nodes itself."""
    is_own_form: bool = True
    """Whether what a codec writes is a form of its own, which only it reads."""
    returns: Any = None
    """For convention `schema`: the returns of the operator's schema."""


class SymbolicInteger(NamedTuple):
    """A symbolic integer that was taken apart."""

    node: Any
    """torch's node of it."""
    key: str
    """Its expression and hint: equal for equal ones."""
    record: SymInt


class EncodedStack(NamedTuple):
    """A module stack as metadata."""

    stack: dict[Any, Any]
    key: str
    text: str


@dataclass(slots=True)
class EncodeContext:
    """Shared by the steps of one save."""

    registry: Registry
    constants: dict[str, Any]
    """Values that nodes refer to by name, found while the graph was walked; they become payloads."""
    constant_names: dict[tuple[int, str], str] = field(default_factory=dict)
    """Their names, by the id of each and what it is read from."""
    plain_containers: bool = False
    """Whether inputs and outputs of types without a serialized name are written as tuples and dicts."""
    features: set[str] = field(default_factory=set)
    provided: set[tuple[str, str]] = field(default_factory=set)
    """`(kind, name)` of what plugins provided: `op`, `treespec`, `codec`."""
    operators: dict[int, Operator] = field(default_factory=dict)
    """By the id of the FX target, whose own hash torch computes in Python."""
    expressions: dict[Any, str] = field(default_factory=dict)
    integers: dict[tuple[int, ...], SymbolicInteger] = field(default_factory=dict)
    """By the identity of torch's node, the first of which is kept alive meanwhile."""
    tensor_metas: dict[Any, TensorMeta] = field(default_factory=dict)
    described: dict[int, TensorMeta] = field(default_factory=dict)
    """What is known of fake tensors, by the id of each, which its node keeps alive meanwhile."""
    traces: dict[str, str] = field(default_factory=dict)
    """Stack traces as they are written."""
    sources: dict[Any, int] = field(default_factory=dict)
    seen_sources: dict[int, tuple[Any, int]] = field(default_factory=dict)
    """The index of each of torch's objects that was met, by its id, with the object, which is kept alive."""
    source_records: list[NodeSource] = field(default_factory=list)
    module_stacks: dict[tuple[Any, ...], EncodedStack] = field(default_factory=dict)
    """The last module stack of each row of keys: its values are compared, which takes less than hashing them."""
    module_rows: dict[tuple[Any, Any], str] = field(default_factory=dict)
    """The text of each entry of module stacks that the text splits into again."""
    subgraphs: dict[int, schema.Graph] = field(default_factory=dict)
    """Encoded subgraphs by the id of their graph module, which the program keeps alive meanwhile."""
    graph_sizes: dict[int, int] = field(default_factory=dict)
    """How many nodes each of them has, by the id of its record, those of subgraphs as often as they are used."""

    def name_constant(self, value: Any, path: str) -> str:
        """The name of the payload that a value becomes which a node is given.

        Args:
            path: that of the attribute which it is read from, or what it is.
        """
        name = self.constant_names.get((id(value), path))
        if name is None:
            name = self.constant_names[id(value), path] = f"{GRAPH_CONSTANT}{len(self.constants)}.{path}"
            self.constants[name] = value
        return name


@dataclass(frozen=True, slots=True)
class OpaqueOrigin:
    """Where operators come from that cannot be had on this installation: what a program says of them as a whole."""

    opset_version: Mapping[str, int]
    """The versions of the namespaces that nobody here has."""
    plugins: tuple[PluginRequirement, ...]
    """The plugins that would have them."""
    own_forms: bool = False
    """Whether inputs of nodes may be written in a form of their handlers' own (extension `calls`)."""

    def keeps(self, name: str, namespace: str) -> bool:
        """Whether an operator is kept as it is, though a handler here may find one of that name: in another version, or
        without the plugin that knows how it is written.

        Args:
            name: its serialized name.
            namespace: that of the handler.
        """
        library = name.removeprefix("torch.ops.").partition(".")[0]
        provided = f"op_handler:{name}"
        return (
            namespace in self.opset_version
            or (library in self.opset_version and name.startswith("torch.ops."))
            or any(provided in requirement.provides for requirement in self.plugins)
        )


class DescribedTensor(NamedTuple):
    """What a record says of a tensor, in torch's terms."""

    record: TensorMeta
    """Kept alive here: it is looked up by its id."""
    dtype: torch.dtype
    layout: torch.layout
    device: torch.device
    sizes: list[Any]
    strides: list[Any]
    offset: Any
    known: bool
    """Whether no size, stride or offset is symbolic."""


@dataclass(slots=True)
class DecodeContext:
    """Shared by the steps of one load."""

    registry: Registry
    shape_env: torch_compat.ShapeEnv
    fakes: torch_compat.FakeTensors
    constants: dict[str, Any]
    place_device: Callable[[torch.device], torch.device]
    """Where a device that the document names is, on this machine (the `device=` of load)."""
    frames: list[str]
    """The frames of stack traces, as Python prints them."""
    sources: list[Any]
    """The table of provenance, as torch's objects."""
    traces: Unfolding = field(default_factory=lambda: traces_of(()))
    """Which stack traces are made."""
    provenance: Unfolding = field(default_factory=lambda: provenance_of(()))
    """Which nodes get their provenance."""
    ranges: dict[str, Any] = field(default_factory=dict)
    symbols: dict[str, sympy.Symbol] = field(default_factory=dict)
    expressions: dict[str, sympy.Basic] = field(default_factory=dict)
    exponents: set[str] = field(default_factory=set)
    """The names of symbols that stand in an exponent: torch is not let to reason where there are any."""
    reasoned: int = 0
    """Parts of expressions that torch was let to reason about."""
    values: dict[Any, Any] = field(default_factory=dict)
    """Symbolic values by expression text and hint."""
    pending: set[sympy.Symbol] = field(default_factory=set)
    """Unbacked symbols that no node has brought yet."""
    operators: dict[str, Operator] = field(default_factory=dict)
    origin: OpaqueOrigin | None = None
    """What operators that cannot be had here are kept with; None where they are an error."""
    propagates: frozenset[str] = frozenset()
    """The operators whose results may be found by running them on metadata: those that upgraders here emit."""
    texts: dict[tuple[str, str], Any] = field(default_factory=dict)
    """Decoded metadata by its key and text."""
    stacks: dict[tuple[int, ...], str] = field(default_factory=dict)
    module_rows: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    """The rows of module stacks, by their text."""
    unread_metadata: dict[str, set[str]] = field(default_factory=dict)
    """Keys of metadata that the document has and the program has not, by the reason."""
    devices: dict[tuple[str, int | None], torch.device] = field(default_factory=dict)
    described: dict[int, DescribedTensor] = field(default_factory=dict)
    """By the id of the record, which equal tensors mostly share."""
