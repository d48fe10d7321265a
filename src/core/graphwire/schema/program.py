"""A program: a graph module, its ranges and versions, and what a reader must know to read it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from graphwire.schema.arguments import ARMS
from graphwire.schema.graph import Argument, Graph
from graphwire.schema.module_call import ModuleCallEntry, NamedTupleDef
from graphwire.schema.signature import GraphSignature
from graphwire.schema.symbols import RangeConstraint

SCHEMA_VERSION = (8, 20)
"""The version of torch's schema that these records are: torch 2.12 to 2.15."""

FEATURES: dict[str, str] = {
    "calls": "a node whose inputs its operator's handler wrote in a way of its own",
    "codecs": "a weight or constant that is no plain strided tensor, written by a constant codec",
    "containers": "a container type, or a context of one, that torch has no serialized name for",
    "lazy-bits": "a weight that is read through a pending conjugation or negation",
    "outputs": "an output that torch's reader has no place for (text, a symbolic truth value)",
    "placement": "a weight without elements (meta or fake)",
    "propagate": "values of which nothing is stated, because an upgrader made them: they are found at load",
    **{row.feature: row.says for row in ARMS.values() if row.feature},
}
"""Every extension that a reader must know to read a document that uses it, and what it is for."""


_PLAIN = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._+!-]*[A-Za-z0-9])?", re.ASCII)
"""The names and versions of distributions (packaging.python.org: name normalization, PEP 440)."""


_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", re.ASCII)
"""The names of distributions (PEP 508)."""
_VERSION = re.compile(
    r"(\d+!)?\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?(\+[a-z0-9]+([._-][a-z0-9]+)*)?", re.ASCII
)
"""Their versions (PEP 440)."""


class StackFrame(msgspec.Struct, frozen=True, omit_defaults=True):
    """One frame of a stack trace, as Python prints it."""

    file: str
    line: int
    """Counted from 1."""
    name: str
    """The function."""
    source: str = ""
    """The lines under the frame's head, with their indentation."""
    stripped: bool = False
    """Whether the head begins without its two spaces: torch strips the whole text of a trace, and so its first frame."""

    @property
    def text(self) -> str:
        """The frame as Python prints it."""
        indent = "" if self.stripped else "  "
        return f'{indent}File "{self.file}", line {self.line}, in {self.name}\n{self.source}'


class NodeSource(msgspec.Struct, omit_defaults=True):
    """Where a node came from: a node of an earlier graph, and the pass that made one of the other."""

    name: str
    target: str
    graph_id: int
    """The earlier graph, as a number that is only good for telling graphs apart."""
    pass_name: str = ""
    action: str = ""
    """`create`, `replace`, or both joined by `+`."""
    from_node: list[int] = []
    """Indices into `GraphModule.node_sources`: where that node came from; always smaller than this one's index."""

    @property
    def length(self) -> int:
        """Characters of the JSON that torch has for this one, without its own origins, or a few more."""
        return 160 + len(self.name) + len(self.target) + len(self.pass_name) + len(self.action)


class GraphModule(msgspec.Struct, omit_defaults=True):
    """The top-level graph, its signature, and the tables its metadata refers to."""

    graph: Graph
    signature: GraphSignature
    module_call_graph: list[ModuleCallEntry]
    metadata: dict[str, str] = {}
    treespec_namedtuple_fields: dict[str, NamedTupleDef] = {}
    stack_frames: list[StackFrame] = []
    """Extension without requirement: each frame that some node's `stack` refers to, once."""
    node_sources: list[NodeSource] = []
    """Extension without requirement: each provenance that some node's `from_node` refers to, once."""
    inline_constraints: dict[str, RangeConstraint] | None = None
    """Extension without requirement: the ranges of unbacked symbols that tracing found, by symbol. The program's own ranges
    are `Program.range_constraints`."""
    replacements: dict[str, str] = {}
    """Extension without requirement: symbols that have a range and that no value has, because tracing found each equal to
    an expression of others (constructor text), by symbol."""


class SchemaVersion(msgspec.Struct, frozen=True):
    """The version of torch's schema: another major is another language, another minor adds fields."""

    major: int
    minor: int


class PluginRequirement(msgspec.Struct, frozen=True, omit_defaults=True):
    """A plugin that provided something this program uses."""

    distribution: str
    version: str
    provides: list[str]
    """What it provided: `op_handler:NAME`, `treespec_serializer:NAME`, `constant_codec:NAME`."""

    @property
    def is_installable(self) -> bool:
        """Whether the names can stand in a command line: they come from a file, and messages say what to install."""
        return all(_PLAIN.fullmatch(each) is not None for each in (self.distribution, self.version))

    def __str__(self) -> str:
        if len(self.distribution) <= 100 and _NAME.fullmatch(self.distribution) and self.has_version:
            return f"{self.distribution}>={self.version}"
        return f"{self.distribution!r:.80} {self.version!r:.80}"

    @property
    def has_version(self) -> bool:
        """Whether the version has the form of PEP 440."""
        return len(self.version) <= 100 and _VERSION.fullmatch(self.version) is not None


def install_advice(wanted: Iterable[PluginRequirement]) -> str:
    """What to do where distributions are missing that a file names. That is no command to copy: whoever made the file chose
    the names, and a name in good form may be anybody's."""
    names = ", ".join(sorted({str(each) for each in wanted}))
    return f"The file says that this comes from {names}: check whose that is before you install it"


class EncodedValue(msgspec.Struct, omit_defaults=True):
    """Extension `codecs`: a value as its codec wrote it."""

    codec: str
    tree: Any
    """Plain data (None, bool, int, float, str, bytes, list, dict)."""
    tensors: list[str]
    """The payloads that the tree refers to by position."""
    buffer: bool | None = None
    """Of a `torch.nn.Buffer`: whether it is persistent."""
    is_param: bool | None = None
    """Of a tensor: whether it is a parameter. None, as of objects and in older files, where the codec alone says so."""
    requires_grad: bool | None = None
    """Of a tensor. None as for `is_param`."""
    is_weight: bool = False
    """Of a value without tensors, also in its parts: whether it stands among the weights, not the constants."""
    same_as: str | None = None
    """The earlier value that is the very same object; of a constant it may be a weight."""
    index: int | None = None
    """Of a value without tensors of its own: how many weights, or constants, stand before it. None, as in older files, where
    it comes last."""


class ExampleInputs(msgspec.Struct, omit_defaults=True):
    """Extension without requirement: the inputs that the program was exported with."""

    spec: str
    """The structure of `(args, kwargs)`, as text of the treespec protocol."""
    leaves: list[Argument]
    """A tensor leaf is `as_tensor`, named as among the sample-input payloads; the others are literals."""
    encoded_values: dict[str, EncodedValue] = {}
    """By payload name: the tensor leaves that codecs wrote."""


class Program(msgspec.Struct, omit_defaults=True):
    """An exported program without its weights."""

    graph_module: GraphModule
    opset_version: dict[str, int]
    """For each operator namespace the version that the program was written with."""
    range_constraints: dict[str, RangeConstraint]
    """By symbol or expression, in infix text."""
    schema_version: SchemaVersion
    verifiers: list[str] = []
    """The dialects that the program obeys."""
    torch_version: str = "<=2.4"
    """The torch that exported the program."""
    guards_code: list[str] = []
    """Conditions on the inputs, as Python expressions of the grammar in `schema.texts.guard`."""
    requires: list[str] = []
    """The extensions (keys of FEATURES) that a reader must know."""
    producer: str | None = None
    """Extension without requirement: what wrote the document, such as `graphwire 0.1.0`."""
    readable_from: str | None = None
    """Extension without requirement: the first reader of the file, such as `torch-2.9`, or `graphwire-0.1` where torch reads
    none of it."""
    plugins: list[PluginRequirement] = []
    """Extension without requirement: the plugins whose operators, types or codecs the program uses."""
    example_inputs: ExampleInputs | None = None
    edited_values: list[str] = []
    """Extension without requirement: the weights and constants that were given another element type, shape, layout or
    strides after the export, by qualified name. The graph says of them what they were."""
    encoded_values: dict[str, EncodedValue] = {}
    """By qualified name: the weights and constants that codecs wrote."""
