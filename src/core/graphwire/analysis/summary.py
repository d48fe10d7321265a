"""What does a file contain, and what does loading it involve? Summaries and load reports."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING

import msgspec

from graphwire import schema
from graphwire.analysis.diff.facts import UNKNOWN, Labels, argument_text, range_text, value_facts
from graphwire.analysis.interface import Interface
from graphwire.analysis.load_report import LoadReport, ProcessGroup, named_groups
from graphwire.analysis.validation.value_rules import number_text
from graphwire.errors import GraphwireError, exception_text, unless_interrupted
from graphwire.schema.texts.metadata import DECLARED, parse_json

if TYPE_CHECKING:
    from graphwire.registry.registry import Registry

# ------------------------------------- sizes of the tensors that a program holds: its parameters, buffers and constants


class TensorSizes(msgspec.Struct, frozen=True):
    """The number and total size of a program's tensors of one kind."""

    count: int
    elements: int
    """The number of elements of all tensors. If payload records list which share a storage, its elements count once."""
    bytes: int
    """The size of their storages. If payload records list which are shared, each storage counts once."""


class HeldTensor(msgspec.Struct, frozen=True):
    """The qualified name, storage and size of one tensor that the program holds."""

    name: str
    storage: str
    elements: int
    reach: int
    """How many elements the storage has at least, for this tensor to be in it."""
    bytes: int


def _held(name: str, storage: str, meta: schema.TensorMeta | None) -> HeldTensor:
    if meta is None:
        return HeldTensor(name, storage, 0, 0, 0)
    elements, last = 1, meta.storage_offset.as_int or 0
    for size, stride in zip(meta.sizes, meta.strides, strict=False):
        elements *= size.as_int or 0
        last += max(0, (size.as_int or 0) - 1) * (stride.as_int or 0)
    reach = last + 1 if elements else 0
    return HeldTensor(name, storage, elements, reach, reach * schema.ITEM_SIZES.get(meta.dtype_text, 0))


def tensors_of_graph(program: schema.Program) -> dict[str, list[HeldTensor]]:
    """Return the tensors that the signature lists, by kind, with sizes from the graph's metadata."""
    found: dict[str, list[HeldTensor]] = {"parameter": [], "buffer": [], "constant": []}
    metas = program.graph_module.graph.tensor_values
    for held in schema.held_in(program.graph_module.signature):
        found[held.kind].append(_held(held.name, held.name, metas.get(held.value)))
    return found


def tensors_of_payloads(
    program: schema.Program,
    weights: Mapping[str, schema.PayloadMeta],
    constants: Mapping[str, schema.PayloadMeta],
) -> dict[str, list[HeldTensor]]:
    """Return the tensors that the payload records list, by kind (`parameter`, `buffer`, `constant`)."""
    needed = schema.held_in(program.graph_module.signature)
    buffers = {each.name for each in needed if each.kind == "buffer"}
    found: dict[str, list[HeldTensor]] = {"parameter": [], "buffer": [], "constant": []}
    for name, payload in weights.items():
        kind = "parameter" if payload.is_param else "buffer"
        found[kind].append(_held(name, f"weights/{payload.path_name}", payload.tensor_meta))
    for name, payload in constants.items():
        kind = "buffer" if name in buffers else "constant"
        found[kind].append(_held(name, f"constants/{payload.path_name}", payload.tensor_meta))
    return found


def sum_sizes(tensors: Sequence[HeldTensor]) -> TensorSizes:
    """Return the number and total size of the tensors."""
    storages: dict[str, list[HeldTensor]] = {}
    for tensor in tensors:
        storages.setdefault(tensor.storage, []).append(tensor)
    groups = storages.values()
    elements = sum(
        min(sum(each.elements for each in held), max(each.reach for each in held)) for held in groups
    )
    return TensorSizes(len(tensors), elements, sum(max(each.bytes for each in held) for held in groups))


# -------------------------------- the summary of a program: its versions, interface, size, and requirements for loading
# Every program has a summary, even one that does not pass validation: `?` replaces facts that cannot be determined.


class ValueSummary(msgspec.Struct, frozen=True):
    """An input that the caller passes, or an output of the program."""

    name: str
    role: str
    """The variant of its spec, such as `user_input`, `constant_input` or `buffer_mutation`."""
    kind: str
    """The variant of its argument without `as_`, such as `tensor`, `sym_int` or `string`."""
    dtype: str = ""
    """For a tensor: torch's name of the element type, such as `float32`."""
    shape: str = ""
    """For a tensor: the sizes as text, such as `[s77, 128]`."""
    device: str = ""
    """For a tensor: its device, such as `cuda:0`."""
    value: str = ""
    """For a literal or symbol: its value. For a mutation or gradient: the name of the tensor that is changed, or that the
    gradient refers to."""


class SymbolSummary(msgspec.Struct, frozen=True):
    """A symbol, such as a dynamic dimension, or an expression, with its range."""

    name: str
    min_val: int | None
    max_val: int | None
    range: str
    """The range as text, such as `[2, 512]` or `[0, ∞)`."""
    label: str = ""
    """Its readable name: the size of an argument, such as `tokens.shape[0]`, or an expression in such sizes."""


class ModuleSummary(msgspec.Struct, frozen=True):
    """A direct submodule of the root module."""

    name: str
    type: str
    """The class's qualified name; empty if the document does not contain it."""
    nodes: int
    """The number of operator calls in it and in its submodules."""
    elements: int
    """The number of elements of its parameters."""


class MetadataSummary(msgspec.Struct, frozen=True):
    """What a program keeps under one key of metadata that a plugin declares."""

    key: str
    values: int
    """The number of nodes that have it, in all graphs; the program's own value counts too."""
    plugin: str
    """The distribution and version that declare it, as the file names them; empty if it does not."""
    rows: list[tuple[str, str]] = []
    """What the plugin tells of it (`MetadataKey.section`)."""


class Summary(msgspec.Struct, frozen=True):
    """The summary of one program."""

    name: str
    interface: Interface
    """The arguments and the result, as the program's author wrote them."""
    torch_version: str
    schema_version: str
    opset_versions: dict[str, int]
    dialects: list[str]
    nodes: int
    """The number of nodes in all graphs."""
    operators: dict[str, int]
    """The number of calls of each operator in all graphs, the most frequent first."""
    subgraphs: int
    values: int
    """The number of named values in all graphs."""
    inputs: list[ValueSummary]
    """The inputs that the caller passes; parameters, buffers and constants are counted below."""
    outputs: list[ValueSummary]
    symbols: list[SymbolSummary]
    guards: list[str]
    parameters: TensorSizes
    buffers: TensorSizes
    constants: TensorSizes
    features: list[str]
    """The extensions that a reader must support."""
    plugins: list[schema.PluginRequirement]
    modules: list[ModuleSummary]
    """The root's submodules, in the order of their first call."""
    process_groups: list[ProcessGroup]
    """The process groups that collectives name, in the order of their first use."""
    metadata: list[MetadataSummary] = []
    """The metadata of plugins, by key."""


class MethodInspection(msgspec.Struct, frozen=True):
    """One program of an archive: its size, its summary and its load report."""

    name: str
    format: str
    program_bytes: int
    """The size of the document, uncompressed."""
    stored_bytes: int
    """The size of the document in the file, where it may be compressed."""
    summary: Summary
    report: LoadReport
    """Its producer, and what `load` does with it."""


class Inspection(msgspec.Struct, frozen=True):
    """The summary of an archive and its programs."""

    file: str
    """The file's path, or a name for another source; empty for a program of this process."""
    size: int
    """The size of the file in bytes."""
    layout: str
    """The layout of the archive's records, such as `pt2`."""
    producer: str
    """The tool that wrote it, such as `torch 2.13.0`; empty if the file does not name it."""
    methods: list[MethodInspection]
    """The programs of the file."""
    payload_bytes: int
    """The size of all weights, constants and sample inputs in the file."""
    records: list[str]
    """The names of all records in the archive."""

    def __repr__(self) -> str:
        if not self.layout:  # a program of this process
            return f"<Inspection of a program: {self.methods[0].summary.nodes:,} nodes>"
        names = ", ".join(repr(each.name) for each in self.methods[:8])
        file = f" of {self.file!r:.200}" if self.file else ""
        return f"<Inspection{file}: {self.size:,} bytes, {self.layout}, programs {names:.400}>"

    def _repr_html_(self) -> str:
        from graphwire.analysis.inspection_text import inspection_sections  # only notebooks need it
        from graphwire.display import sections_html

        return sections_html(repr(self)[1:-1], inspection_sections(self))


def summarize(
    program: schema.Program,
    *,
    name: str = "model",
    weights: Mapping[str, schema.PayloadMeta] | None = None,
    constants: Mapping[str, schema.PayloadMeta] | None = None,
    registry: Registry | None = None,
) -> Summary:
    """Return the summary of a program.

    Args:
        program: the program's records.
        name: its name in the archive.
        weights: the payload records of its weights, by qualified name. Without any payload records, sizes come from
            the graph's metadata of its inputs.
        constants: the payload records of its constants.
        registry: the plugins that tell of their metadata; None for none.
    """
    from graphwire.analysis.interface import interface_of  # what it needs takes long to import

    module = program.graph_module
    graphs = list(schema.graphs_in(module.graph))
    operators = Counter(node.target for graph in graphs for node in graph.nodes)
    plain = Labels(program, {}, ())
    if weights is None and constants is None:
        tensors = tensors_of_graph(program)
    else:
        tensors = tensors_of_payloads(program, weights or {}, constants or {})
    version = program.schema_version
    interface, labels = interface_of(program)
    return Summary(
        name=name,
        interface=interface,
        torch_version=program.torch_version,
        schema_version=f"{number_text(version.major)}.{number_text(version.minor)}",
        opset_versions=program.opset_version,
        dialects=program.verifiers,
        nodes=sum(operators.values()),
        operators=dict(sorted(operators.items(), key=lambda each: (-each[1], each[0]))),
        subgraphs=len(graphs) - 1,
        values=sum(len(getattr(graph, table)) for graph in graphs for table in schema.VALUE_TABLES.values()),
        inputs=_inputs(program, plain),
        outputs=_outputs(program, plain),
        symbols=[
            _symbol(text, limits, labels.range(text)) for text, limits in program.range_constraints.items()
        ],
        guards=program.guards_code,
        parameters=sum_sizes(tensors["parameter"]),
        buffers=sum_sizes(tensors["buffer"]),
        constants=sum_sizes(tensors["constant"]),
        features=program.requires,
        plugins=program.plugins,
        modules=_modules(graphs, tensors["parameter"]),
        process_groups=named_groups(graphs, program.group_sizes),
        metadata=_metadata(program, registry),
    )


def _metadata(program: schema.Program, registry: Registry | None) -> list[MetadataSummary]:
    texts: dict[str, dict[str, str]] = {}

    def note(place: str, metadata: Mapping[str, str]) -> None:
        for key, text in metadata.items():
            if key.startswith(DECLARED):
                texts.setdefault(key.removeprefix(DECLARED), {})[place] = text

    note("", program.graph_module.metadata)
    rest = deque([("", program.graph_module.graph)])
    while rest:
        inside, graph = rest.popleft()
        for node in graph.nodes:
            results = (name for output in node.outputs for name in schema.names_in(output))
            note(inside + (node.name or next(results, node.target)), node.metadata)
            subgraphs = chain.from_iterable(schema.named_subgraphs_in(each.arg) for each in node.inputs)
            rest += [(f"{inside}{held.name}/", held.graph) for held in subgraphs]
        for name, noted in graph.value_metadata.items():
            note(inside + name, noted.metadata)
        if graph.output_metadata is not None:
            note(f"{inside}output", graph.output_metadata.metadata)
    by = {name: f"{each.distribution} {each.version}" for each in program.plugins for name in each.provides}
    return [
        MetadataSummary(key, len(held), by.get(f"metadata_key:{key}", ""), _told(key, held, registry))
        for key, held in sorted(texts.items())
    ]


def _told(key: str, texts: Mapping[str, str], registry: Registry | None) -> list[tuple[str, str]]:
    """Return what the plugin that declares a key tells of the values. What fails is told in their place."""
    declared = None if registry is None else registry.metadata_keys.get(key)
    if registry is None or declared is None or declared.section is None:
        return []
    from graphwire.schema.texts.treespec import decode_value

    try:
        values = {name: decode_value(parse_json(text)) for name, text in texts.items()}
        return [*declared.section(values)]
    except unless_interrupted(
        Exception
    ) as error:  # a plugin's code: the rest of the summary does not depend on it
        return [("", str(error) if isinstance(error, GraphwireError) else exception_text(error))]


# ------------------------------------------------------------------------------------------------ inputs and outputs


def _value(
    plain: Labels,
    graph: schema.Graph,
    role: str,
    argument: schema.Argument | schema.ConstantValue,
    name: str,
) -> ValueSummary:
    variant, held = schema.variant_and_content(argument)
    kind = variant.removeprefix("as_") or UNKNOWN
    named = schema.value_name(argument) if isinstance(argument, schema.Argument) else None
    if named is None:
        return ValueSummary(name, role, kind, value=argument_text(argument))
    if kind == "tensor":
        return _tensor_value(plain, graph, role, named)
    if kind == "custom_obj":
        return ValueSummary(named, role, kind, value=held.class_fqn)
    return ValueSummary(named, role, kind, value=value_facts(graph, named, plain).get("value", UNKNOWN))


def _tensor_value(plain: Labels, graph: schema.Graph, role: str, name: str, value: str = "") -> ValueSummary:
    facts = value_facts(graph, name, plain)
    dtype, shape, device = (facts.get(each, UNKNOWN) for each in ("dtype", "shape", "device"))
    return ValueSummary(name, role, "tensor", dtype, shape, device, value)


_HELD = ("parameter", "buffer", "tensor_constant", "custom_obj")
"""The variants of inputs that the program itself holds, so that the caller does not pass them."""


def _inputs(program: schema.Program, plain: Labels) -> list[ValueSummary]:
    graph = program.graph_module.graph
    found: list[ValueSummary] = []
    for index, spec in enumerate(program.graph_module.signature.input_specs):
        role, held = schema.variant_and_content(spec)
        if held is None or role in _HELD:
            continue
        if role == "token":
            found.append(ValueSummary(held.arg.name, role, "token"))
        elif role == "constant_input":
            found.append(_value(plain, graph, role, held.value, held.name))
        else:
            listed = graph.input_names or []
            name = held.name or (listed[index] if index < len(listed) else None) or ""
            found.append(_value(plain, graph, role, held.arg, name))
    return found


def _outputs(program: schema.Program, plain: Labels) -> list[ValueSummary]:
    graph = program.graph_module.graph
    found: list[ValueSummary] = []
    for spec in program.graph_module.signature.output_specs:
        role, held = schema.variant_and_content(spec)
        if held is None:
            continue
        if role == "user_output":
            found.append(_value(plain, graph, role, held.arg, held.name or ""))
        else:
            fields = [field for field in held.__struct_fields__ if field.endswith("_name")]
            target = getattr(held, fields[0]) if fields else ""
            found.append(_tensor_value(plain, graph, role, held.arg.name, target))
    return found


def _symbol(text: str, limits: schema.RangeConstraint, label: str) -> SymbolSummary:
    return SymbolSummary(text, limits.min_val, limits.max_val, range_text(limits), label)


# ------------------------------------------------------------------------------------------------------ module tree


def nested_modules(program: schema.Program, weights: Mapping[str, schema.PayloadMeta]) -> list[ModuleSummary]:
    """Return the submodules at every depth, in the order of their first call. Each counts its submodules too.

    Args:
        program: the program's records.
        weights: the payload records of its weights, by qualified name.
    """
    parameters = tensors_of_payloads(program, weights, {})["parameter"]
    return _modules(schema.graphs_in(program.graph_module.graph), parameters, nested=True)


def _modules(
    graphs: Iterable[schema.Graph], parameters: Iterable[HeldTensor], *, nested: bool = False
) -> list[ModuleSummary]:
    """Return the submodules of the root, or those at every depth."""
    nodes: Counter[str] = Counter()
    types: dict[str, str] = {}
    elements: Counter[str] = Counter()
    for node in (node for graph in graphs for node in graph.nodes):
        levels = _levels(node.metadata.get("nn_module_stack", ""))
        for path, kind in dict(levels if nested else map(_top, islice(levels, 1))).items():
            nodes[path] += 1
            types.setdefault(path, kind)
    for tensor in parameters:
        holders = list(_holders(tensor.name))
        for path in holders if nested else holders[-1:]:
            elements[path] += tensor.elements
    paths = dict.fromkeys([*nodes, *elements])
    return [ModuleSummary(path, types.get(path, ""), nodes[path], elements[path]) for path in paths]


def _levels(stack: str) -> Iterator[tuple[str, str]]:
    """Yield the path and class of each submodule that a module stack names, from the root inwards.

    torch writes a stack as `KEY,PATH,CLASS` from the root inwards, joined by semicolons. A path may contain commas.
    """
    for level in stack.split(";")[1:]:
        _, comma, rest = level.partition(",")
        path, _, kind = rest.rpartition(",")
        if comma and path.partition("@")[0]:
            yield path.partition("@")[0], kind


def _top(level: tuple[str, str]) -> tuple[str, str]:
    """Return the root's submodule that a level is in, and its class if it is the level itself."""
    top, dot, _ = level[0].partition(".")
    return top, "" if dot else level[1]


def _holders(name: str) -> Iterator[str]:
    """Yield the submodules that hold a parameter, from the innermost outwards."""
    while name := name.rpartition(".")[0]:
        yield name


# ----------------------------- the nodes of a program by name, and the bytes that each call of a node takes and returns


def named_nodes(program: schema.Program) -> Iterator[tuple[str, schema.Node, schema.Graph]]:
    """Yield the nodes of all graphs of a program, with their names in it and their graphs. A subgraph that several nodes share
    under one name comes once.

    A name is the node's own, or that of its first result; inside a subgraph `SUBGRAPH/NODE`, as deep as needed.
    """
    pending = [("", program.graph_module.graph)]
    begun: set[tuple[str, int]] = set()
    for path, graph in pending:  # grows while it is walked
        for node in graph.nodes:
            name = node.name or next((each for out in node.outputs for each in schema.names_in(out)), "")
            yield path + name, node, graph
            for named in node.inputs:
                if named.arg.as_tensor is not None:
                    continue
                for held in schema.named_subgraphs_in(named.arg):
                    inside = (f"{path}{held.name}/", id(held.graph))
                    if inside not in begun:
                        begun.add(inside)
                        pending.append((inside[0], held.graph))
