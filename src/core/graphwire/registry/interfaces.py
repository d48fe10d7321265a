"""The eight hooks, and the interfaces of what they provide. Building a registry calls each hook, and threads that need
one plugin at once may each do so.

A provider is a plain object (an instance, or a module with these names) that is stateless after creation: the registry
calls it from any thread. Its names and versions are read once, when the plugin registers.

A weight store says where elements are that lie outside of a program's file; graphwire opens the files, maps and reads them. So a
store needs no torch, and cannot read outside of its folder. A store whose bytes are not in files as they are (a database,
compressed or encrypted) reads them itself.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

import msgspec
import pluggy

from graphwire.errors import Problem
from graphwire.schema import FileFacts

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

    @property
    def suffix(self) -> str:
        """The file suffix of the program's member in an archive, with its dot, such as `.json`."""

    @property
    def media_type(self) -> str:
        """The registered media type, such as `application/json`."""

    def encode(self, tree: Tree) -> bytes:
        """Encode the tree as bytes, deterministically: equal trees (with equal dict order) give equal bytes.

        Raises:
            FormatError: the format cannot represent something in the tree.
        """

    def decode(self, buffer: bytes | bytearray | memoryview) -> Tree:
        """Decode the tree that `encode` received, including dict order. The result must not refer to `buffer`.

        Raises:
            FormatError: the bytes are not a document of this format.
            LimitError: its containers are nested deeper than 400 (`graphwire.wire.document.MAX_DEPTH`).
        """

    def matches(self, head: bytes) -> bool:
        """Whether `head`, the first bytes of a document (up to 64), can only belong to this format."""


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


@runtime_checkable
class ProgramReader(RecordFormat, Protocol):
    """A wire format that also decodes programs it wrote without an intermediate tree. Optional: it is faster."""

    def decode_program(self, buffer: bytes | bytearray | memoryview) -> Any | None:
        """Decode a `schema.program.Program`; return None for any bytes that `encode_records` does not produce.

        The caller passes such bytes to `decode`. This method raises no errors.
        """


@runtime_checkable
class CountingFormat(WireFormat, Protocol):
    """A wire format that can bound the number of values in a document without decoding it.

    Optional. Documents above 64 MiB need it to be decoded by `decode_program`: of other formats, each byte may be a value.
    """

    def most_values(self, buffer: bytes | bytearray | memoryview) -> int:
        """Return a number that the values of a document (containers and scalars, without keys) do not exceed.

        It may overestimate their number, and raises no errors, whatever the bytes are.
        """


@runtime_checkable
class OpHandler(Protocol):
    """Handles the operators of a namespace (hook `graphwire_op_handlers`)."""

    @property
    def namespace(self) -> str:
        """The opset namespace, such as `aten`: a key of a program's `opset_version`."""

    @property
    def prefixes(self) -> Sequence[str]:
        """The operator names that it owns: each is a name, or a prefix of names that ends with a dot or a colon. No
        other plugin's longer prefix takes names from it. A handler that leaves names below its prefixes to others also
        has `keeps`, a sequence of the names and prefixes that it does not leave."""

    @property
    def opset_version(self) -> int:
        """The installed version of the namespace; 0 if the namespace is not versioned. All handlers of a namespace must
        give the same version."""

    @property
    def convention(self) -> str:
        """How a node's inputs are written: `schema` (by the names of the operator's schema), `symbolic` (positional, by
        the parameter names of a function on symbols) or `generic` (positional without names, then keywords)."""

    def name_of(self, target: Any) -> str | None:
        """Return the serialized name of an FX target that this handler owns, else None."""

    def resolve(self, name: str) -> Any | None:
        """Return the FX target of a serialized name, else None. Use a table or a lookup in `torch.ops`, never an import
        or an attribute walk that the name controls."""


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


@runtime_checkable
class TreespecSerializer(Protocol):
    """Encodes one container type of pytrees, or a family of them (hook `graphwire_treespec_serializers`).

    The order of a container's leaves is the order in which its registration with `torch.utils._pytree` flattens it.
    """

    @property
    def name(self) -> str:
        """The serialized type name, such as `collections.OrderedDict`; for a family, the part of its members' names
        before the dot, such as `torch.return_types`."""

    @property
    def version(self) -> int:
        """The newest context version that it writes and reads, counted from 1. A treespec stores a context of version 1
        under the type's name, and a later one under `NAME@VERSION`, so that a reader that lacks it reports an error."""

    def container(self) -> type | Mapping[str, type]:
        """Return the container's class as `torch.utils._pytree` knows it (import it here, not at module level); for a
        family, each class by its serialized name."""

    def dump_context(self, context: Any) -> tuple[int, Tree]:
        """Return the lowest version that represents a `TreeSpec` context exactly, and the context as a tree.

        The treespec's JSON contains the tree unchanged. If torch itself can write the type, version 1 must follow
        torch's rule: the context's JSON text, unless the type is registered with a `to_dumpable_context`.

        Raises:
            EncodeError: no version can represent this context.
        """

    def load_context(self, tree: Tree, version: int) -> Any:
        """Return the context from a tree that version `version` (at most `self.version`) wrote.

        Raises:
            DecodeError: `dump_context` of that version does not make such a tree.
            UnknownTypeError: the tree names a class that this process does not have.
        """

    def arity(self, container: type, context: Any) -> int | None:
        """Return the number of children of a `container` with this context; None if any number is valid."""


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


@runtime_checkable
class OpsetUpgrader(Protocol):
    """One step of a namespace's version history (hook `graphwire_opset_upgraders`).

    Every step must exist, including those that change nothing: a missing number means that nobody knows what changed.
    Several upgraders of a distribution may share a step, each with its own operators.
    """

    @property
    def namespace(self) -> str:
        """The opset namespace of an operator handler, such as `aten`."""

    @property
    def from_version(self) -> int:
        """The version of the nodes that it receives, counted from 1."""

    @property
    def to_version(self) -> int:
        """The version of the nodes that it makes, one apart from `from_version`; smaller for a downgrader."""

    @property
    def operators(self) -> Mapping[str, Callable[..., None]]:
        """For each operator whose meaning changed, by serialized name, the function that rewrites one node. The
        function receives a `graphwire.evolve.node_editor.NodeEditor`, imports no torch and keeps no state. Operators
        of other namespaces that it emits follow the installed version of their namespace. Empty if nothing changed."""


@runtime_checkable
class PropagatingUpgrader(OpsetUpgrader, Protocol):
    """A step that declares the operators whose results it leaves without metadata.

    Optional: without it, such results are inferred while the upgrader runs in a load, and cannot be written to a file.
    """

    @property
    def propagates(self) -> Collection[str]:
        """Serialized names of operators. A file may leave results of these, and of no others, to be inferred at load."""


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

    def owns(self, value: Any) -> bool:
        """Whether this codec encodes `value`. Decide by exact type or layout, never by trying."""

    def encode(self, value: Any) -> tuple[Tree, Sequence[Any]]:
        """Return the value as a tree of plain data, and plain strided tensors.

        The value may also come from a graph: then its tensors are fake ones without elements, and sizes in the tree may
        be `torch.SymInt`. If a codec cannot encode such a value, it raises an error, and the graph stores less about
        the value.
        """

    def decode(self, tree: Tree, tensors: Sequence[Any]) -> Any:
        """Return the value. `tensors` are those that `encode` returned, in the same order.

        Raises:
            DecodeError: `encode` does not make such a tree or tensors.
        """


OWN_METADATA = frozenset(
    "val stack_trace nn_module_stack source_fn_stack torch_fn custom from_node unbacked_bindings".split()
)
"""The keys of `node.meta` that files keep without a declaration."""
TORCH_METADATA = frozenset(
    "arg_kwarg_vals autograd_backward desc dynamo_compile_id eager_input_vals example_value fwd_nn_module_stack "
    "fwd_source_fn_stack has_with_effects inline_constraints module_call_specs original_aten partition_names seq_nr "
    "tensor_meta".split()
)
"""Keys that torch writes into the nodes and graphs of every program, for use in the process only. Declaring one would
change everybody's files."""


class MetadataKey(msgspec.Struct, frozen=True):
    """Declares a key of `node.meta` and `graph_module.meta` whose values files keep (hook `graphwire_metadata_keys`).

    The values are numbers, text, bytes, None, enum members, and lists, tuples and dicts of them. Any number of plugins
    may declare one key. If no plugin declares a key in a file, a load keeps its text, and warns. Registration rejects a key that
    graphwire keeps in its own way, or that torch writes into every program.
    """

    name: str
    """The key in `meta`."""
    section: Callable[[Mapping[str, Any]], Iterable[tuple[str, str]]] | None = None
    """Returns rows of two texts that `graphwire inspect` shows of the key. Its argument has the values by the names of the nodes,
    in a subgraph below its name (`true_graph_0/add`); that of the program itself is under the empty name. At most 10,000 rows."""


# ---------------------------------------------------------------- the interface of commands (hook `graphwire_commands`)
# what `graphwire NAME` does on the command line.


OWN_COMMANDS: Final = frozenset(
    "inspect verify view diff hash targets convert upgrade strip weights blobs plugins new-plugin check-plugin doctor"
    " completion schema neutral conformance".split()
)
"""The commands of graphwire itself, whose names no plugin can register."""


@runtime_checkable
class Command(Protocol):
    """A command (hook `graphwire_commands`)."""

    @property
    def name(self) -> str:
        """The word after `graphwire`, such as `fleet`: lower-case letters, digits and dashes, a letter first."""

    @property
    def help(self) -> str:
        """What it does, in one line, for the list of commands."""

    def add(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments, and set the default `run`: a function that is called with the parsed arguments and an
        `Output`, and returns the exit code. The options `--color`, `--quiet` and `--debug` are there already.

        It is called when the command is chosen or its help is shown; what takes long to import belongs into `run`."""


@runtime_checkable
class StoredBytes(Protocol):
    """Bytes that a store reads by itself. Any number of threads may read at once.

    graphwire reads them in parts, never maps them, and compares them with the digest that the program's file has.
    """

    @property
    def size(self) -> int:
        """In bytes."""

    def read_into(self, offset: int, view: memoryview) -> int:
        """Fill a view, or its beginning, with the bytes from an offset within `size`, and return how many they are: at least 1.

        The view belongs to the caller again when this returns.

        Args:
            view: writable memory of at least one byte, which ends within `size`.

        Raises:
            ArchiveError: the bytes are damaged or missing.
        """


class Chunk(NamedTuple):
    """A box of a stored tensor whose elements lie together, little-endian and without gaps."""

    file: str | StoredBytes
    """Where they are: a file's location, relative to the folder of the store, with `/` between names; or the bytes of a store
    that reads them itself."""
    offset: int
    """Where the first element is, in bytes from the start of the file or of the store's bytes."""
    start: tuple[int, ...]
    """The index of the first element in each dimension of the tensor."""
    sizes: tuple[int, ...]
    """The sizes of the box."""
    strides: tuple[int, ...] | None = None
    """From one element to the next in each dimension, in elements; None if the box is row-major."""


class StoredTensor(NamedTuple):
    """A tensor of a store. Its chunks cover each element once."""

    dtype: str
    """torch's name of the element type, such as `float32`."""
    shape: tuple[int, ...]
    """Its sizes."""
    chunks: tuple[Chunk, ...]
    """Where its elements are."""

    @classmethod
    def whole(
        cls, dtype: str, shape: tuple[int, ...], file: str | StoredBytes, offset: int = 0
    ) -> StoredTensor:
        """Return a tensor whose elements lie together in row-major order.

        Args:
            file: as in `Chunk`.
            offset: of the first element, in bytes.
        """
        return cls(dtype, shape, (Chunk(file, offset, (0,) * len(shape), shape),))


class StoreIndex(NamedTuple):
    """What an opened store contains."""

    tensors: Mapping[str, StoredTensor]
    """Each stored tensor, by name."""
    files: Mapping[str, FileFacts]
    """Each file that chunks refer to, or that the store reads by itself, by location."""


class NewTensor(NamedTuple):
    """A tensor to write: contiguous, row-major, little-endian."""

    dtype: str
    """torch's name of the element type, such as `float32`."""
    shape: tuple[int, ...]
    """Its sizes."""
    nbytes: int
    """The size of its elements in bytes."""
    view: Callable[[], memoryview]
    """Returns the elements as bytes, each time it is called; a view of the program's memory where that is possible."""


class StoreFile(Protocol):
    """An open file of a store. Whoever opens it closes it."""

    size: int
    """In bytes."""

    def read_at(self, offset: int, size: int) -> bytes:
        """Return exactly the bytes of a range within `size`."""

    def close(self) -> None:
        """Close the file. Nothing happens if it is closed already."""


class StoreFolder(Protocol):
    """The folder of a store. Locations are relative, with `/` between names; nothing outside of the folder can be reached."""

    def names(self, location: str = "") -> Sequence[str]:
        """Return the names in the folder or in one below it, sorted; folders end with `/`. Empty if it does not exist.

        Raises:
            ArchiveError: the location leaves the folder.
        """

    def open(self, location: str) -> StoreFile:
        """Open a file.

        Raises:
            MissingRecordError: there is no such file.
            ArchiveError: the location leaves the folder, or is not a regular file.
        """

    def local_path(self, location: str) -> str:
        """Return the path of a file, for a library that opens files by itself.

        Unlike `open`, this cannot keep others from exchanging the file before the library opens it.

        Raises:
            MissingRecordError: there is no such file.
            ArchiveError: the location leaves the folder, or is not a regular file, or the folder is not on a disk.
        """

    def create(self, location: str) -> AbstractContextManager[BinaryIO]:
        """Return a context manager for a new file, which appears whole, and synced, when the `with` block ends.

        Folders are made as needed. A file that exists is never replaced.

        Raises:
            FileExistsError: there is such a file already.
            ArchiveError: the location leaves the folder.
        """


@runtime_checkable
class WeightStore(Protocol):
    """Finds and writes tensors in a folder (hook `graphwire_weight_stores`)."""

    @property
    def name(self) -> str:
        """The name that references contain, such as `safetensors`: lower case, a plain identifier."""

    @property
    def takes_storages(self) -> bool:
        """Whether `write` receives whole storages as tensors of `uint8`, named by their digest. Otherwise it receives each
        tensor under its name in the program; whatever it cannot keep stays in the program's file."""

    def find(self, folder: StoreFolder, location: str) -> str | None:
        """Return the location that `open` takes, if `location` (a file, or empty for the folder) is of this store's kind;
        None otherwise. Decide by names, and by the first bytes where names do not tell. The file need not exist: a location
        of a file to be written is found by its name alone."""

    def open(self, folder: StoreFolder, location: str) -> StoreIndex:
        """Read the index of a store, not its elements.

        Raises:
            ArchiveError: the index is damaged, or a file that it names is missing; the error lists all missing files.
        """

    def keeps(self, dtype: str) -> bool:
        """Whether `write` can store elements of this type, by torch's name for it."""

    def write(
        self, folder: StoreFolder, location: str, tensors: Mapping[str, NewTensor]
    ) -> tuple[str, Mapping[str, str]]:
        """Write tensors to new files, and return the location that `open` takes, and each tensor's name in the store.

        A file that exists is never replaced: a file with equal content is used as it is, and otherwise the store picks
        another name (see `StoreFolder.create`).

        Args:
            location: what the caller asked for, as `find` returned it.
            tensors: the tensors by name.

        Raises:
            EncodeError: the store cannot hold one of them, though `keeps` is true for its type.
        """


@runtime_checkable
class PrunableFolder(StoreFolder, Protocol):
    """The folder of a store from which unused files can be removed."""

    def age(self, location: str) -> float:
        """Return the seconds since a file was written or refreshed.

        Raises:
            FileNotFoundError: there is no such file.
        """

    def refresh(self, location: str) -> None:
        """Make the age of a file 0, because a new program is about to refer to it.

        Raises:
            MissingRecordError: there is no such file.
        """

    def remove(self, location: str) -> None:
        """Delete a file; nothing happens if there is none."""


class UnusedFile(NamedTuple):
    """A file of a store that no program refers to."""

    location: str
    """Its path in the folder of the store."""
    nbytes: int
    """Its size in bytes."""


@runtime_checkable
class PrunableStore(WeightStore, Protocol):
    """A store whose files are named by their content and shared by many programs (`graphwire blobs`). Optional."""

    def damaged(self, folder: StoreFolder) -> Iterator[Problem]:
        """Read all files, and yield a problem for each whose content does not have the digest that its name states."""

    def unused(self, folder: PrunableFolder, used: Container[str], older_than: float) -> Iterator[UnusedFile]:
        """Yield the files that may be removed.

        Args:
            folder: the folder of the store.
            used: the names of the stored tensors that programs refer to.
            older_than: in seconds. Younger files are kept: a writer may be about to refer to them.
        """


PROJECT = "graphwire"
"""The pluggy project name, and the entry-point group that plugins register under."""

API_VERSION = 1
"""The version of the plugin interface: the hooks, and the Protocols of what they return. It increases with each change
that breaks older plugins, and with each hook or method that newer plugins may rely on."""
API_ATTRIBUTE = "GRAPHWIRE_API"
"""The attribute in which a plugin declares the interface version that it is written for; 1 if absent."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def graphwire_wire_formats() -> Iterable[WireFormat]:  # type: ignore[empty-body]
    """Return wire formats: ways to write a program as bytes."""


@hookspec
def graphwire_op_handlers() -> Iterable[OpHandler]:  # type: ignore[empty-body]
    """Return operator handlers: namespaces of operator names, and how their nodes are written."""


@hookspec
def graphwire_treespec_serializers() -> Iterable[TreespecSerializer]:  # type: ignore[empty-body]
    """Return treespec serializers: container types of inputs and outputs."""


@hookspec
def graphwire_opset_upgraders() -> Iterable[OpsetUpgrader]:  # type: ignore[empty-body]
    """Return opset upgraders: steps between versions of an operator namespace."""


@hookspec
def graphwire_constant_codecs() -> Iterable[ConstantCodec]:  # type: ignore[empty-body]
    """Return constant codecs: for weights and constants that are not plain strided tensors."""


@hookspec
def graphwire_metadata_keys() -> Iterable[MetadataKey]:  # type: ignore[empty-body]
    """Return metadata keys: entries of `node.meta` and `graph_module.meta` that files keep."""


@hookspec
def graphwire_weight_stores() -> Iterable[WeightStore]:  # type: ignore[empty-body]
    """Return weight stores: where the weights of programs are, if not in the program's file."""


@hookspec
def graphwire_commands() -> Iterable[Command]:  # type: ignore[empty-body]
    """Return commands of the command line."""
