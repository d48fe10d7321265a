"""The interfaces of providers: one Protocol for each hook (`weight_stores` and `commands` have those of the last two).

A provider is a plain object (an instance, or a module with these names) that is stateless after creation: the registry
calls it from any thread. Its names and versions are read once, when the plugin registers.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

import msgspec

if TYPE_CHECKING:
    from graphwire.schema import Argument, NamedArgument
    from graphwire.schema.texts.treespec import TreeSpec

Tree: TypeAlias = "None | bool | int | float | str | bytes | list[Tree] | dict[str, Tree]"
"""The values that every wire format supports. Integers have any size, floats include inf and nan, dict keys are text."""


@runtime_checkable
class WireFormat(Protocol):
    """Encodes trees as bytes, and decodes them (hook `graphwire_wire_formats`)."""

    @property
    def name(self) -> str:
        """The name that callers pass as `format=`, such as `json`: lower case, a plain identifier."""
        ...

    @property
    def suffix(self) -> str:
        """The file suffix of the program's member in an archive, with its dot, such as `.json`."""
        ...

    @property
    def media_type(self) -> str:
        """The registered media type, such as `application/json`."""
        ...

    def encode(self, tree: Tree) -> bytes:
        """Encode the tree as bytes, deterministically: equal trees (with equal dict order) give equal bytes.

        Raises:
            FormatError: the format cannot represent something in the tree.
        """
        ...

    def decode(self, buffer: bytes | bytearray | memoryview) -> Tree:
        """Decode the tree that `encode` received, including dict order. The result must not refer to `buffer`.

        Raises:
            FormatError: the bytes are not a document of this format.
            LimitError: its containers are nested deeper than 400 (`graphwire.wire.plain_trees.MAX_DEPTH`).
        """
        ...

    def matches(self, head: bytes) -> bool:
        """Whether `head`, the first bytes of a document (up to 64), can only belong to this format."""
        ...


@runtime_checkable
class BoundedFormat(WireFormat, Protocol):
    """A wire format that can bound the number of lists and dicts in a document before it creates any.

    Optional. In formats where an empty list takes one byte, lists take many times the document's memory.
    """

    def decode_bounded(self, buffer: bytes | bytearray | memoryview, containers: int) -> Tree:
        """Decode like `decode`, if the document has at most `containers` lists and dicts. It may overestimate their
        number, and leave the check of the depth to its caller.

        Raises:
            FormatError: the bytes are not a document of this format.
            LimitError: the document may contain more.
        """
        ...


@runtime_checkable
class RecordFormat(WireFormat, Protocol):
    """A wire format that also encodes schema records without an intermediate tree. Optional: it is faster."""

    def encode_records(self, records: Any) -> bytes:
        """Return what `encode` returns for the tree of `records`.

        Args:
            records: a `msgspec.Struct` whose fields contain no bytes and no infinite or nan floats, nested no deeper
                than a graph without subgraphs.

        Raises:
            FormatError: the format cannot represent something in the records.
        """
        ...


@runtime_checkable
class ProgramReader(RecordFormat, Protocol):
    """A wire format that also decodes programs it wrote without an intermediate tree. Optional: it is faster."""

    def decode_program(self, buffer: bytes | bytearray | memoryview) -> Any | None:
        """Decode a `schema.program.Program`; return None for any bytes that `encode_records` does not produce.

        The caller passes such bytes to `decode`. This method raises no errors.
        """
        ...


@runtime_checkable
class CountingFormat(WireFormat, Protocol):
    """A wire format that can bound the number of values in a document without decoding it.

    Optional. Documents above 64 MiB need it to be decoded by `decode_program`: of other formats, each byte may be a value.
    """

    def most_values(self, buffer: bytes | bytearray | memoryview) -> int:
        """Return a number that the values of a document (containers and scalars, without keys) do not exceed.

        It may overestimate their number, and raises no errors, whatever the bytes are.
        """
        ...


@runtime_checkable
class OpHandler(Protocol):
    """Handles the operators of a namespace (hook `graphwire_op_handlers`)."""

    @property
    def namespace(self) -> str:
        """The opset namespace, such as `aten`: a key of a program's `opset_version`."""
        ...

    @property
    def prefixes(self) -> Sequence[str]:
        """The operator names that it owns: each is a name, or a prefix of names that ends with a dot or a colon. No
        other plugin's longer prefix takes names from it. A handler that leaves names below its prefixes to others also
        has `keeps`, a sequence of the names and prefixes that it does not leave."""
        ...

    @property
    def opset_version(self) -> int:
        """The installed version of the namespace; 0 if the namespace is not versioned. All handlers of a namespace must
        give the same version."""
        ...

    @property
    def convention(self) -> str:
        """How a node's inputs are written: `schema` (by the names of the operator's schema), `symbolic` (positional, by
        the parameter names of a function on symbols) or `generic` (positional without names, then keywords)."""
        ...

    def name_of(self, target: Any) -> str | None:
        """Return the serialized name of an FX target that this handler owns, else None."""
        ...

    def resolve(self, name: str) -> Any | None:
        """Return the FX target of a serialized name, else None. Use a table or a lookup in `torch.ops`, never an import
        or an attribute walk that the name controls."""
        ...


@runtime_checkable
class NodeCodec(OpHandler, Protocol):
    """An operator handler that encodes the inputs of its nodes itself.

    Optional: for arguments that no schema supports, such as functions. The results of a node are written as for any
    other.
    """

    def encode_node(
        self,
        target: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        encode: Callable[[Any], Argument],
    ) -> list[NamedArgument] | None:
        """Return the inputs of a node as records; None to use the handler's `convention`.

        Args:
            target: the FX target, one that `name_of` knows.
            args: the positional arguments of the FX call: nodes of the graph, and any other values.
            kwargs: the keyword arguments.
            encode: returns the record of one argument: a node of the graph, or any value that the schema supports.

        Raises:
            EncodeError: an argument cannot be encoded.
        """
        ...

    def decode_node(
        self, target: Any, inputs: Sequence[NamedArgument], decode: Callable[[Argument], Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Return the arguments that `encode_node` received; None to use the handler's `convention`.

        A file may contain any records. Look their contents up in a table; never import, evaluate or call them.

        Args:
            target: the FX target, one that `resolve` returned.
            inputs: the records.
            decode: converts one record to a node of the graph or a plain value.

        Raises:
            DecodeError: `encode_node` does not make such records.
        """
        ...


@runtime_checkable
class TreespecSerializer(Protocol):
    """Encodes one container type of pytrees, or a family of them (hook `graphwire_treespec_serializers`).

    The order of a container's leaves is the order in which its registration with `torch.utils._pytree` flattens it.
    """

    @property
    def name(self) -> str:
        """The serialized type name, such as `collections.OrderedDict`; for a family, the part of its members' names
        before the dot, such as `torch.return_types`."""
        ...

    @property
    def version(self) -> int:
        """The newest context version that it writes and reads, counted from 1. A treespec stores a context of version 1
        under the type's name, and a later one under `NAME@VERSION`, so that a reader that lacks it reports an error."""
        ...

    def container(self) -> type | Mapping[str, type]:
        """Return the container's class as `torch.utils._pytree` knows it (import it here, not at module level); for a
        family, each class by its serialized name."""
        ...

    def dump_context(self, context: Any) -> tuple[int, Tree]:
        """Return the lowest version that represents a `TreeSpec` context exactly, and the context as a tree.

        The treespec's JSON contains the tree unchanged. If torch itself can write the type, version 1 must follow
        torch's rule: the context's JSON text, unless the type is registered with a `to_dumpable_context`.

        Raises:
            EncodeError: no version can represent this context.
        """
        ...

    def load_context(self, tree: Tree, version: int) -> Any:
        """Return the context from a tree that version `version` (at most `self.version`) wrote.

        Raises:
            DecodeError: `dump_context` of that version does not make such a tree.
            UnknownTypeError: the tree names a class that this process does not have.
        """
        ...

    def arity(self, container: type, context: Any) -> int | None:
        """Return the number of children of a `container` with this context; None if any number is valid."""
        ...


@runtime_checkable
class FittingTreespecSerializer(TreespecSerializer, Protocol):
    """A treespec serializer that also considers the children.

    Optional: for a context that stores in a later version what an older version left to the structure, such as a number
    of layers.
    """

    def fit_context(self, context: Any, children: Sequence[TreeSpec]) -> Any:
        """Adapt the context from `load_context` to the container's children, which are records.

        Raises:
            DecodeError: context and children do not match.
        """
        ...


@runtime_checkable
class OpsetUpgrader(Protocol):
    """One step of a namespace's version history (hook `graphwire_opset_upgraders`).

    Every step must exist, including those that change nothing: a missing number means that nobody knows what changed.
    Several upgraders of a distribution may share a step, each with its own operators.
    """

    @property
    def namespace(self) -> str:
        """The opset namespace of an operator handler, such as `aten`."""
        ...

    @property
    def from_version(self) -> int:
        """The version of the nodes that it receives, counted from 1."""
        ...

    @property
    def to_version(self) -> int:
        """The version of the nodes that it makes, one apart from `from_version`; smaller for a downgrader."""
        ...

    @property
    def operators(self) -> Mapping[str, Callable[..., None]]:
        """For each operator whose meaning changed, by serialized name, the function that rewrites one node. The
        function receives a `graphwire.evolve.node_editor.NodeEditor`, imports no torch and keeps no state. Operators
        of other namespaces that it emits follow the installed version of their namespace. Empty if nothing changed."""
        ...


@runtime_checkable
class PropagatingUpgrader(OpsetUpgrader, Protocol):
    """A step that declares the operators whose results it leaves without metadata.

    Optional: without it, such results are inferred while the upgrader runs in a load, and cannot be written to a file.
    """

    @property
    def propagates(self) -> Collection[str]:
        """Serialized names of operators. A file may leave results of these, and of no others, to be inferred at load."""
        ...


class OpsetStep(NamedTuple):
    """A `PropagatingUpgrader` as a value."""

    namespace: str
    """The namespace whose operators it rewrites."""
    from_version: int
    """The version that it converts from."""
    to_version: int
    """The version that it converts to: the next higher or lower one."""
    operators: Mapping[str, Callable[..., None]] = MappingProxyType({})
    """The function that rewrites a node, by the operator's serialized name."""
    propagates: Collection[str] = frozenset()
    """Serialized names of operators whose results it leaves to be inferred at load."""


@runtime_checkable
class ConstantCodec(Protocol):
    """Encodes constants and weights that are not plain strided tensors (hook `graphwire_constant_codecs`)."""

    @property
    def name(self) -> str:
        """The name stored with each constant that it encoded."""
        ...

    def owns(self, value: Any) -> bool:
        """Whether this codec encodes `value`. Decide by exact type or layout, never by trying."""
        ...

    def encode(self, value: Any) -> tuple[Tree, Sequence[Any]]:
        """Return the value as a tree of plain data, and plain strided tensors.

        The value may also come from a graph: then its tensors are fake ones without elements, and sizes in the tree may
        be `torch.SymInt`. If a codec cannot encode such a value, it raises an error, and the graph stores less about
        the value.
        """
        ...

    def decode(self, tree: Tree, tensors: Sequence[Any]) -> Any:
        """Return the value. `tensors` are those that `encode` returned, in the same order.

        Raises:
            DecodeError: `encode` does not make such a tree or tensors.
        """
        ...


OWN_METADATA = frozenset(
    "val stack_trace nn_module_stack source_fn_stack torch_fn custom from_node unbacked_bindings".split()
)
"""The keys of `node.meta` that files keep without a declaration."""
TORCH_METADATA = frozenset(
    "arg_kwarg_vals autograd_backward desc dynamo_compile_id eager_input_vals example_value fwd_nn_module_stack "
    "fwd_source_fn_stack inline_constraints module_call_specs original_aten seq_nr tensor_meta".split()
)
"""Keys that torch writes into the nodes and graphs of every program, for use in the process only. Declaring one would
change everybody's files."""


class MetadataKey(msgspec.Struct, frozen=True):
    """Declares a key of `node.meta` and `graph_module.meta` whose values files keep (hook `graphwire_metadata_keys`).

    The values are numbers, text, bytes, None, enum members, and lists, tuples and dicts of them. Any number of plugins
    may declare one key. If no plugin declares a key in a file, it is dropped at load. Registration rejects a key that
    graphwire keeps in its own way, or that torch writes into every program.
    """

    name: str
    """The key in `meta`."""


# ---------------------------------------------------------------- the interface of commands (hook `graphwire_commands`)
# what `graphwire NAME` does on the command line.


OWN_COMMANDS: Final = frozenset(
    "inspect verify view diff hash targets convert upgrade strip weights blobs plugins new-plugin check-plugin doctor"
    " completion schema neutral conformance".split()
)
"""The commands of graphwire itself, whose names no plugin can claim."""


@runtime_checkable
class Command(Protocol):
    """A command (hook `graphwire_commands`)."""

    @property
    def name(self) -> str:
        """The word after `graphwire`, such as `fleet`: lower-case letters, digits and dashes, a letter first."""
        ...

    @property
    def help(self) -> str:
        """What it does, in one line, for the list of commands."""
        ...

    def add(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments, and set the default `run`: a function that is called with the parsed arguments and an
        `Output`, and returns the exit code. The options `--color`, `--quiet` and `--debug` are there already.

        It is called when the command is chosen or its help is shown; what takes long to import belongs into `run`."""
        ...
