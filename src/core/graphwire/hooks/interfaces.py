"""What a plugin provides: one Protocol for each of the six hooks.

A provider is a plain object (an instance, or a module with these names) that is stateless after it was made: the
registry calls it from any thread. What it claims and in which versions is read once, when the plugin registers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from graphwire.schema import Argument, NamedArgument
from graphwire.schema.texts import TreeSpec

Tree: TypeAlias = "None | bool | int | float | str | bytes | list[Tree] | dict[str, Tree]"
"""What every wire format can say. Integers have any size, floats include inf and nan, dict keys are text."""


@runtime_checkable
class WireFormat(Protocol):
    """Trees to bytes and back (hook `graphwire_wire_formats`)."""

    @property
    def name(self) -> str:
        """What a caller passes as `format=`, such as `json`: lower case, a plain identifier."""
        ...

    @property
    def suffix(self) -> str:
        """The ending of the program's member in an archive, with its dot, such as `.json`."""
        ...

    @property
    def media_type(self) -> str:
        """The registered media type, such as `application/json`."""
        ...

    def encode(self, tree: Tree) -> bytes:
        """The tree as bytes, deterministic: equal trees (dicts in equal order) give equal bytes.

        Raises:
            FormatError: the format cannot say something in the tree.
        """
        ...

    def decode(self, buffer: bytes | bytearray | memoryview) -> Tree:
        """The tree that `encode` was given, dict order included. Nothing of `buffer` is kept.

        Raises:
            FormatError: the bytes are no document of this format.
        """
        ...

    def matches(self, head: bytes) -> bool:
        """Whether `head`, the first bytes of a document (up to 64), can only be this format's."""
        ...


@runtime_checkable
class BoundedFormat(WireFormat, Protocol):
    """A wire format that knows of how many lists and dicts a document is before it makes any. Optional: in formats where an
    empty one is a byte, they take many times the document's memory."""

    def decode_bounded(self, buffer: bytes | bytearray | memoryview, containers: int) -> Tree:
        """What `decode` does, for a document of at most `containers` lists and dicts. It may take some for such that are none.

        Raises:
            FormatError: the bytes are no document of this format.
            LimitError: it may hold more.
        """
        ...


@runtime_checkable
class RecordFormat(WireFormat, Protocol):
    """A wire format that also writes records of the schema without a tree in between. Optional: it is faster."""

    def encode_records(self, records: Any) -> bytes:
        """What `encode` makes of the tree of `records` (a `msgspec.Struct` whose fields hold no bytes and no float that
        is not finite, nested no deeper than a graph without subgraphs is).

        Raises:
            FormatError: the format cannot say something in the records.
        """
        ...


@runtime_checkable
class ProgramReader(RecordFormat, Protocol):
    """A wire format that also reads what it wrote of a program without a tree in between. Optional: it is faster."""

    def decode_program(self, buffer: bytes | bytearray | memoryview) -> Any | None:
        """The `schema.program.Program` that a document says and says nothing beyond, as one of `encode_records` does; None
        for any other bytes, which are left to `decode`. Nothing is an error."""
        ...


@runtime_checkable
class OpHandler(Protocol):
    """A namespace of operators (hook `graphwire_op_handlers`)."""

    @property
    def namespace(self) -> str:
        """The opset namespace, such as `aten`: a key of a program's `opset_version`."""
        ...

    @property
    def prefixes(self) -> Sequence[str]:
        """The operator names it owns: each a name, or a start of names that ends with a dot or a colon. Nobody else's
        longer prefix takes names from it. A handler that leaves names below its prefixes to others also has `keeps`, a
        sequence of those that it does not leave: names and starts of names."""
        ...

    @property
    def opset_version(self) -> int:
        """The version of the namespace that is installed; 0 when the namespace keeps no versions. All handlers of a
        namespace give the same."""
        ...

    @property
    def convention(self) -> str:
        """How a node's inputs are written: `schema` (by the names of the operator's schema), `symbolic` (positional,
        by the parameter names of a function on symbols) or `generic` (positional without names, then keywords)."""
        ...

    def name_of(self, target: Any) -> str | None:
        """The serialized name of an FX target that this handler owns, else None."""
        ...

    def resolve(self, name: str) -> Any | None:
        """The FX target of a serialized name, else None. A table or a lookup in `torch.ops`; never an import or an
        attribute walk that the name controls."""
        ...


@runtime_checkable
class NodeCodec(OpHandler, Protocol):
    """An operator handler that writes the inputs of its nodes itself. Optional: for arguments that no schema says, such as
    a function. What a node computes is written as for any other."""

    def encode_node(
        self,
        target: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        encode: Callable[[Any], Argument],
    ) -> list[NamedArgument] | None:
        """The inputs of a node as records; None to have them written by the handler's `convention`.

        Args:
            target: the FX target, one that `name_of` knows.
            args: the positional arguments of the FX call: nodes of the graph, and anything that a call can be given.
            kwargs: the keyword arguments.
            encode: makes the record of one argument: a node of the graph, or whatever the schema can say.

        Raises:
            EncodeError: an argument cannot be written.
        """
        ...

    def decode_node(
        self, target: Any, inputs: Sequence[NamedArgument], decode: Callable[[Argument], Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """The arguments that `encode_node` was given; None to have them read by the handler's `convention`.

        A file may hold any records: what they say is looked up in a table, never imported, evaluated or called.

        Args:
            target: the FX target, one that `resolve` gave.
            inputs: the records.
            decode: makes a node of the graph, or a plain value, of one record.

        Raises:
            DecodeError: the records are none that `encode_node` makes.
        """
        ...


@runtime_checkable
class TreespecSerializer(Protocol):
    """One container type of pytrees, or one family of them (hook `graphwire_treespec_serializers`).

    The order of a container's leaves is the order in which its registration with `torch.utils._pytree` flattens it.
    """

    @property
    def name(self) -> str:
        """The serialized type name, such as `collections.OrderedDict`; of a family, what the names of its members start
        with before a dot, such as `torch.return_types`."""
        ...

    @property
    def version(self) -> int:
        """The newest version of the context that it writes and reads, counted from 1. A context of version 1 stands in a
        treespec under the type's name, a later one under `NAME@VERSION`, so that a reader without it refuses cleanly."""
        ...

    def container(self) -> type | Mapping[str, type]:
        """The container's class as `torch.utils._pytree` knows it (imported here, not at module level); of a family,
        each class by its serialized name."""
        ...

    def dump_context(self, context: Any) -> tuple[int, Tree]:
        """The lowest version that says the context of a `TreeSpec` of this type exactly, and the context as a tree.

        The tree stands in the treespec's JSON as it is. A type that torch's own rule writes must follow it in version
        1: the context's JSON text, unless the type is registered with a `to_dumpable_context`.

        Raises:
            EncodeError: no version can say this context.
        """
        ...

    def load_context(self, tree: Tree, version: int) -> Any:
        """The context back from a tree that version `version` (at most `self.version`) wrote.

        Raises:
            DecodeError: the tree is none that `dump_context` of that version makes.
            UnknownTypeError: the tree names a class that this process does not know.
        """
        ...

    def arity(self, container: type, context: Any) -> int | None:
        """How many children a `container` with this context has; None where any number is right."""
        ...


@runtime_checkable
class FittingTreespecSerializer(TreespecSerializer, Protocol):
    """A treespec serializer that looks at the children, too. Optional: for a context that says, in a later version, what an
    older one left to be seen in the structure, such as a number of layers."""

    def fit_context(self, context: Any, children: Sequence[TreeSpec]) -> Any:
        """The context that `load_context` gave, made to fit the container's children, which are records.

        Raises:
            DecodeError: they do not fit.
        """
        ...


@runtime_checkable
class OpsetUpgrader(Protocol):
    """One step of a namespace's history (hook `graphwire_opset_upgraders`).

    Every step must be there, those that change nothing too: that a number of the chain is missing means that nobody knows
    what changed. Several upgraders may share a step, each with operators of its own.
    """

    @property
    def namespace(self) -> str:
        """The opset namespace, such as `aten`: that of an operator handler."""
        ...

    @property
    def from_version(self) -> int:
        """The version of the nodes that it is given, counted from 1."""
        ...

    @property
    def to_version(self) -> int:
        """The version of the nodes that it makes, one apart from `from_version`; smaller for a downgrader."""
        ...

    @property
    def operators(self) -> Mapping[str, Callable[..., None]]:
        """For each operator whose meaning changed, by serialized name, the function that rewrites one node of it: it is
        given a `graphwire.evolve.opsets.editor.NodeEditor`, and neither imports torch nor keeps anything. Operators of other
        namespaces that it writes are as the installed version of theirs has them. Empty where nothing changed."""
        ...


@runtime_checkable
class PropagatingUpgrader(OpsetUpgrader, Protocol):
    """A step that declares the operators of which it leaves results unstated. Optional: without it such results are found
    while the upgrader runs in a load, and are not written to a file."""

    @property
    def propagates(self) -> Collection[str]:
        """Serialized names of operators. A file may leave results of these to be found at load, and of no others."""
        ...


class OpsetStep(NamedTuple):
    """A `PropagatingUpgrader` as a value."""

    namespace: str
    from_version: int
    to_version: int
    operators: Mapping[str, Callable[..., None]] = MappingProxyType({})
    propagates: Collection[str] = frozenset()


@runtime_checkable
class ConstantCodec(Protocol):
    """Constants and weights that are no plain strided tensors (hook `graphwire_constant_codecs`)."""

    @property
    def name(self) -> str:
        """The name written beside each constant that it encoded."""
        ...

    def owns(self, value: Any) -> bool:
        """Whether this codec encodes `value` (decided by exact type or layout, never by trying)."""
        ...

    def encode(self, value: Any) -> tuple[Tree, Sequence[Any]]:
        """The value as a tree and plain strided tensors; the tree is data alone.

        A value in a graph may be given too: its tensors are fake ones, without elements, and sizes in the tree may be
        `torch.SymInt`. A codec that cannot say such a value raises an error, and the graph says less of it.
        """
        ...

    def decode(self, tree: Tree, tensors: Sequence[Any]) -> Any:
        """The value back. The tensors are the ones `encode` gave, in order.

        Raises:
            DecodeError: the tree or the tensors are none that `encode` makes.
        """
        ...


OWN_METADATA = frozenset(
    "val stack_trace nn_module_stack source_fn_stack torch_fn custom from_node unbacked_bindings".split()
)
"""The keys of `node.meta` that are kept without being declared."""
TORCH_METADATA = frozenset(
    "arg_kwarg_vals autograd_backward desc dynamo_compile_id eager_input_vals example_value fwd_nn_module_stack "
    "fwd_source_fn_stack inline_constraints module_call_specs original_aten seq_nr tensor_meta".split()
)
"""Keys that torch itself writes into the nodes and graphs of any program, for the process alone. A plugin that declared one
would change everybody's files."""


@dataclass(frozen=True)
class MetadataKey:
    """A key of `node.meta`, and of `graph_module.meta`, whose values are kept (hook `graphwire_metadata_keys`): numbers, text,
    bytes, None, enum members, and lists, tuples and dicts of them.

    Any number of plugins may declare one key. A file that has a key which nobody declares is loaded without it. A key that is
    kept in a way of its own, or that torch writes into every program, is refused when it registers.
    """

    name: str
