"""The program record: a graph module, its ranges and versions, and the features that a reader must support."""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from operator import is_
from typing import Any

import msgspec
from msgspec.structs import replace

from graphwire.schema.graph import (
    VARIANTS,
    Argument,
    Graph,
    GraphArgument,
    ModuleCallEntry,
    NamedTupleDef,
    Node,
    Renaming,
    rewritten,
)
from graphwire.schema.signature import GraphSignature
from graphwire.schema.values import RangeConstraint

SCHEMA_VERSION = (8, 20)
"""The version of torch's schema that these records implement: torch 2.12 to 2.15."""

FEATURES: dict[str, str] = {
    "calls": "a node whose inputs its operator's handler wrote in a way of its own",
    "codecs": "a weight or constant that is no plain strided tensor, written by a constant codec",
    "containers": "a container type, or a context of one, that torch has no serialized name for",
    "external-weights": "weights that are not in the file: it refers to them, or whoever loads it gives them",
    "lazy-bits": "a weight that is read through a pending conjugation or negation",
    "outputs": "an output that torch's reader has no place for (text, a symbolic truth value)",
    "placement": "a weight without elements (meta or fake)",
    "propagate": "values of which nothing is stated, because an upgrader made them: they are found at load",
    **{row.feature: row.says for row in VARIANTS.values() if row.feature},
}
"""Every extension that a reader must support to read a document that uses it, with its purpose."""


_PLAIN = r"(?a)[A-Za-z0-9]([A-Za-z0-9._+!-]*[A-Za-z0-9])?"
"""Names and versions of distributions (packaging.python.org: name normalization, PEP 440)."""


_NAME = r"(?a)[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"
"""Names of distributions (PEP 508)."""
_VERSION = r"(?a)(\d+!)?\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?(\+[a-z0-9]+([._-][a-z0-9]+)*)?"
"""Versions of distributions (PEP 440)."""


class StackFrame(msgspec.Struct, frozen=True, omit_defaults=True):
    """One frame of a stack trace, as Python prints it."""

    file: str
    """The path of the source file, as Python printed it."""
    line: int
    """The line in the file, counted from 1."""
    name: str
    """The function's name."""
    source: str = ""
    """The lines below the frame's header, with their indentation."""
    stripped: bool = False
    """Whether the header lacks its two leading spaces. torch strips the whole text of a trace, and so its first frame."""

    @property
    def text(self) -> str:
        """The frame as Python prints it."""
        indent = "" if self.stripped else "  "
        return f'{indent}File "{self.file}", line {self.line}, in {self.name}\n{self.source}'


class NodeSource(msgspec.Struct, omit_defaults=True):
    """The origin of a node: a node of an earlier graph, and the pass that made one from the other."""

    name: str
    """The name of the earlier node; empty if the source names none."""
    target: str
    """The target of the earlier node, as text; empty if the source names none. Addresses in it are numbers in the order
    of appearance."""
    graph_id: int
    """The number of the earlier graph, counted from 0 in the order of the rows. Equal numbers are one graph. -1 if the
    source names no node. Older files have arbitrary numbers."""
    pass_name: str = ""
    """The name of the pass; empty if unknown."""
    action: str = ""
    """What the pass did: `create`, `replace`, or both joined by `+`; empty if unknown."""
    from_node: list[int] = []
    """Indices into `GraphModule.node_sources`: the origins of that node; always smaller than this record's index."""

    @property
    def length(self) -> int:
        """The approximate length in characters of torch's JSON for this row, without its own origins. It is never too
        small."""
        return 160 + len(self.name) + len(self.target) + len(self.pass_name) + len(self.action)


class GraphModule(msgspec.Struct, omit_defaults=True):
    """The top-level graph, its signature, and the tables that its metadata refers to."""

    graph: Graph
    """The top-level graph."""
    signature: GraphSignature
    """The role of each input and output of the graph."""
    module_call_graph: list[ModuleCallEntry]
    """The calls of submodules whose interface the program preserves. The first entry is the program's own call: it
    holds the container structures of the program's inputs and outputs."""
    metadata: dict[str, str] = {}
    """Texts by key about the whole module; `custom` is JSON."""
    treespec_namedtuple_fields: dict[str, NamedTupleDef] = {}
    """The fields of each namedtuple in the treespecs, by its serialized name."""
    stack_frames: list[StackFrame] = []
    """Extension without requirement: each frame that a node's `stack` refers to, once."""
    node_sources: list[NodeSource] = []
    """Extension without requirement: each origin that a node's `from_node` refers to, once."""
    inline_constraints: dict[str, RangeConstraint] | None = None
    """Extension without requirement: the ranges of unbacked symbols that tracing found, by symbol.
    `Program.range_constraints` holds the program's own ranges. Absent: those of the unbacked symbols in
    `Program.range_constraints`."""
    replacements: dict[str, str] = {}
    """Extension without requirement: by symbol, the expression (constructor text) that tracing found the symbol to be
    equal to. Such symbols have a range, but no value uses them."""

    def __repr__(self) -> str:
        return f"<GraphModule: {self.graph!r}>"


class SchemaVersion(msgspec.Struct, frozen=True):
    """The version of torch's schema. A new major version is incompatible; a new minor version adds fields."""

    major: int
    """Readers reject another one."""
    minor: int
    """Counts additions. A reader of an older one reads a document that uses none of them."""


class PluginRequirement(msgspec.Struct, frozen=True, omit_defaults=True):
    """A plugin that provided something this program uses."""

    distribution: str
    """The name of the Python distribution."""
    version: str
    """The version that wrote the document."""
    provides: list[str]
    """The providers that the program uses: `op_handler:NAME`, `treespec_serializer:NAME`, `constant_codec:NAME`, and, needed only
    to read metadata, `metadata_key:NAME`."""

    @property
    def is_installable(self) -> bool:
        """Whether the name and version are safe in a command line. They come from a file, and messages name them as
        what to install."""
        return all(re.fullmatch(_PLAIN, each) is not None for each in (self.distribution, self.version))

    def __str__(self) -> str:
        if len(self.distribution) <= 100 and re.fullmatch(_NAME, self.distribution) and self.has_version:
            return f"'{self.distribution}>={self.version}'"  # without quotes a shell would write to a file
        return f"{self.distribution[:80]!r} {self.version[:80]!r}"

    @property
    def has_version(self) -> bool:
        """Whether the version conforms to PEP 440."""
        return len(self.version) <= 100 and re.fullmatch(_VERSION, self.version) is not None


def install_advice(wanted: Iterable[PluginRequirement]) -> str:
    """Return what to do if distributions that a file names are missing.

    The text is deliberately not a command to copy. The file's author chose the names, and anyone may own a well-formed
    name.
    """
    names = sorted({str(each) for each in wanted})
    if len(names) == 1:
        return f"The file says that this comes from {names[0]}: check whose that is before you install it"
    return (
        f"The file says that these come from {', '.join(names)}: check whose they are before you install them"
    )


class EncodedValue(msgspec.Struct, omit_defaults=True):
    """Extension `codecs`: a value as its codec encoded it."""

    codec: str
    """The name of the codec."""
    tree: Any
    """What the codec returned: any tree. Its meaning is the codec's."""
    tensors: list[str]
    """The names of the payloads that the tree refers to, by position."""
    buffer: bool | None = None
    """For a `torch.nn.Buffer`: whether it is persistent. Absent: it is none."""
    is_param: bool | None = None
    """For a tensor: whether it is a parameter. Absent for objects and in older files, where only the codec knows."""
    requires_grad: bool | None = None
    """For a tensor: whether it requires a gradient. Absent as for `is_param`."""
    is_weight: bool = False
    """For a value without tensors, its parts included: whether it belongs to the weights rather than the constants."""
    same_as: str | None = None
    """The earlier value that is the same object; for a constant it may be a weight. Absent: it is a value of its
    own."""
    index: int | None = None
    """For a value without tensors of its own: how many weights, or constants, precede it. Absent, as in older files: it
    comes last."""


class ExampleInputs(msgspec.Struct, omit_defaults=True):
    """Extension without requirement: the example inputs of the export."""

    spec: str
    """The structure of `(args, kwargs)`, as text of the treespec protocol."""
    leaves: list[Argument]
    """The flat inputs. A tensor is `as_tensor`, named like its sample-input payload; other leaves are literals."""
    encoded_values: dict[str, EncodedValue] = {}
    """By payload name: the tensor leaves that codecs encoded."""


class Program(msgspec.Struct, omit_defaults=True):
    """An exported program without its weights."""

    graph_module: GraphModule
    """The graph, and what belongs to it."""
    opset_version: dict[str, int]
    """For each operator namespace, the version that the program was written with."""
    range_constraints: dict[str, RangeConstraint]
    """The inclusive range of each symbol, and of expressions of dynamic dimensions, by symbol or expression as infix
    text."""
    schema_version: SchemaVersion
    """The version of the schema that the document conforms to."""
    verifiers: list[str] = []
    """The dialects that the program conforms to, such as `ATEN` or `TRAINING`."""
    torch_version: str = "<=2.4"
    """The torch release that exported the program. The default represents a release up to 2.4, which did not record
    it."""
    guards_code: list[str] = []
    """Conditions on the inputs, as texts of the guard grammar."""
    requires: list[str] = []
    """Extension without requirement: the extensions that a reader must support. A reader rejects a document with an
    extension that it does not know."""
    producer: str | None = None
    """Extension without requirement: what wrote the document, such as `graphwire 0.1.0`. Absent: unknown."""
    readable_from: str | None = None
    """Extension without requirement: the oldest reader of the file, such as `torch-2.9`, or `graphwire-0.1` if no
    release of torch reads it. Absent: unknown."""
    plugins: list[PluginRequirement] = []
    """Extension without requirement: the plugins whose operators, types or codecs the program uses."""
    example_inputs: ExampleInputs | None = None
    """Extension without requirement: the example inputs of the export. Absent: the document has none; torch's files
    store them beside the document."""
    edited_values: list[str] = []
    """Extension without requirement: by qualified name, the weights and constants whose element type, shape, layout or
    strides changed after the export. The graph still describes them as they were."""
    group_sizes: dict[str, int] = {}
    """Extension without requirement: by name, how many processes each process group had where the program was saved.
    Most collectives do not state it."""
    encoded_values: dict[str, EncodedValue] = {}
    """Extension `codecs`: by qualified name, the weights and constants that codecs encoded."""

    def __repr__(self) -> str:
        graph, version = self.graph_module.graph, self.schema_version
        interface = f"{len(graph.nodes)} nodes, {len(graph.inputs)} inputs, {len(graph.outputs)} outputs"
        return f"<Program: {interface}, schema {version.major!r:.20}.{version.minor!r:.20}, torch {self.torch_version:.40}>"

    def _repr_html_(self) -> str:
        from graphwire.display import Section, sections_html  # only notebooks need it

        graph = self.graph_module.graph
        nodes = [(node.name or "", node.target) for node in graph.nodes]
        ranges = [(text, f"{each.min_val} … {each.max_val}") for text, each in self.range_constraints.items()]
        calls = Counter(node.target for node in graph.nodes).most_common()
        sections = [
            Section("Operators", ("operator", "calls"), [(name, f"{count:,}") for name, count in calls]),
            Section("Nodes", ("name", "operator"), nodes),
            Section("Ranges", ("size", "range"), ranges),
            Section("Guards", ("guard",), [(text,) for text in self.guards_code]),
        ]
        return sections_html(repr(self)[1:-1], sections)


# --------------------------------------- where a file keeps the bytes of its weights if they are not in the file itself


class FileFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What identifies a file of a weight store, without its elements."""

    nbytes: int
    """The size of the file in bytes."""
    index_sha256: str = ""
    """The SHA-256, in hexadecimal, of the bytes that describe the tensors of the file; empty if it has none."""


class StoreReference(msgspec.Struct, frozen=True, omit_defaults=True):
    """A weight store that a file refers to."""

    kind: str
    """The name of the store, such as `safetensors`."""
    location: str
    """What the store opens, relative to its folder, such as `model.safetensors.index.json`; empty for the folder."""
    folder: str | None = ""
    """The folder of the store, relative to the folder of the file. Null: whoever loads the file gives it."""
    files: dict[str, FileFacts] = {}
    """The files that contain the weights, by location relative to the folder of the store."""


class Region(msgspec.Struct, frozen=True, omit_defaults=True):
    """A box of a stored tensor, and where its elements go in a record."""

    tensor: str
    """The name of the stored tensor."""
    dtype: str
    """torch's name of its element type, such as `float32`."""
    shape: list[int]
    """The sizes of the stored tensor, outermost dimension first."""
    store: int = 0
    """The index of the store in `WeightReferences.stores`."""
    box: list[list[int]] | None = None
    """For each dimension of the stored tensor the first index, the count, and the step. Absent: the whole tensor."""
    offset: int = 0
    """Where the first element goes, in elements from the start of the record."""
    strides: list[int] | None = None
    """In elements of the record, one for each dimension of the stored tensor. Absent: the box is contiguous there."""


class RecordReference(msgspec.Struct, frozen=True, omit_defaults=True):
    """The regions that make one record. Together they cover each of its bytes."""

    nbytes: int
    """The size of the record in bytes."""
    regions: list[Region] = []
    """Empty if the weights are in no store, and whoever loads the file gives them."""
    sha256: str = ""
    """The digest of the record in hexadecimal; empty if nobody read the bytes."""


class WeightReferences(msgspec.Struct, frozen=True, omit_defaults=True):
    """The records of a file that are not in it."""

    stores: list[StoreReference] = []
    """The stores that regions refer to by index."""
    records: dict[str, RecordReference] = {}
    """By the name that the record would have in the archive, such as `data/weights/weight_0`."""
    ranks: list[dict[str, RecordReference]] = []
    """For a program that runs on several ranks: the records that differ between ranks, for each rank."""
    providers: dict[str, PluginRequirement] = {}
    """The distributions that provide stores which graphwire does not include, by the store's kind."""


def edited_graph(graph: Graph, edit: Callable[[Any], Any]) -> Graph:
    """Return a graph with other nodes and descriptions of values, in the graphs inside it too; the same object if all stay.

    Args:
        edit: receives each `Node`, with its subgraphs edited, and each `ValueMetadata`; returns the record to put there.
    """
    done: dict[int, tuple[Graph, Graph]] = {}

    def inside(held: GraphArgument) -> GraphArgument:
        below = whole(held.graph)
        return held if below is held.graph else replace(held, graph=below)

    renaming = Renaming(str, inside)

    def node(old: Node) -> Any:
        inputs = []
        for named in old.inputs:
            argument = rewritten(named.arg, renaming)
            inputs.append(named if argument is named.arg else replace(named, arg=argument))
        return edit(old if all(map(is_, inputs, old.inputs)) else replace(old, inputs=inputs))

    def whole(old: Graph) -> Graph:
        if id(old) not in done:  # several nodes may share a graph
            nodes = list(map(node, old.nodes))
            values = {name: edit(each) for name, each in old.value_metadata.items()}
            output = None if old.output_metadata is None else edit(old.output_metadata)
            given = (*old.nodes, *old.value_metadata.values(), old.output_metadata)
            if all(map(is_, (*nodes, *values.values(), output), given)):
                done[id(old)] = old, old
            else:
                new = replace(old, nodes=nodes, value_metadata=values, output_metadata=output)
                done[id(old)] = old, new
        return done[id(old)][1]

    return whole(graph)
