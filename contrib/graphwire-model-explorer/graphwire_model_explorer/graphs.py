"""Convert programs to graphs of Model Explorer.

One node of a graph, an input or a call, makes each value. An edge leads from that node to each node that uses the value, and
has the number of the output.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from os import PathLike

from model_explorer import graph_builder as gb

import graphwire
from graphwire.analysis.diff.facts import argument_text
from graphwire.analysis.validation.value_rules import number_text
from graphwire.hooks import format_infix, parse_expression
from graphwire.schema import (
    VALUE_TABLES,
    Argument,
    Graph,
    GraphArgument,
    InputSpec,
    Node,
    Program,
    TensorMeta,
    ValueMetadata,
    held_by,
    named_subgraphs_in,
    names_in,
    results_of,
    variant_of,
)
from graphwire.schema.texts.metadata import EXACT_STACK, parse_modules, split_modules
from graphwire.schema.trees import TraceTexts

MAX_TEXT = 500
"""The maximum number of characters of custom metadata to show."""

_OUTPUT = "output"
_NOTHING = ValueMetadata()


def graphs_of(file: str | PathLike[str]) -> list[gb.Graph]:
    """Return the graph of every program of a file, each followed by its subgraphs.

    The id of a program's graph is the name of the program. The id of a subgraph is the id of the calling graph, the name of the
    calling node, and the name of the attribute, separated by slashes. Ids are unique: a duplicate gets a number.

    Raises:
        graphwire.errors.GraphwireError: the file is not an archive, is damaged, or contains an invalid program.
    """
    with graphwire.open(file) as archive:
        ids = _Ids(archive.methods)
        return [graph for name in archive.methods for graph in _program(name, archive.program_of(name), ids)]


def _program(name: str, program: Program, ids: _Ids) -> Iterator[gb.Graph]:
    """Yield the graphs of a program; each subgraph gets an unused id."""
    facts = {
        "torch": program.torch_version,
        "opsets": ", ".join(f"{namespace} {version}" for namespace, version in program.opset_version.items()),
        "producer": program.producer or "",
    }
    traces = _Traces(program)
    pending = deque([(name, program.graph_module.graph, program.graph_module.signature.input_specs)])
    while pending:
        graph_id, graph, specs = pending.popleft()
        below: list[list[str]] = []
        """The ids of the subgraphs of each node."""
        for index, node in enumerate(graph.nodes):
            held = list(_subgraphs(node))
            below.append([ids.unused(f"{graph_id}/{_name(node, index)}/{each.name}") for each in held])
            pending += [(each_id, each.graph, []) for each_id, each in zip(below[-1], held, strict=True)]
        shown = _graph(graph_id, graph, below, specs, traces)
        if graph is program.graph_module.graph:
            shown.groupNodeAttributes = {"": {key: value for key, value in facts.items() if value}}
        yield shown


class _Ids:
    """The ids of the graphs of a file."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._next = dict.fromkeys(taken, 2)
        """The next number to append to each id."""

    def unused(self, graph_id: str) -> str:
        """Return an unused id that starts with `graph_id`, and mark it as used."""
        found = graph_id
        while found in self._next:
            number = self._next[graph_id]
            self._next[graph_id] += 1
            found = f"{graph_id} ({number})"
        self._next[found] = 2
        return found


def _name(node: Node, index: int) -> str:
    return node.name or f"{_label(node.target)}[{index}]"


class _Traces:
    """The stack traces of a program, stored as text on each node or as rows of a table."""

    def __init__(self, program: Program) -> None:
        self._texts = TraceTexts(program.graph_module.stack_frames)

    def of(self, record: Node | ValueMetadata) -> str:
        """Return the stack trace of a node; empty if it has none."""
        if text := record.metadata.get("stack_trace"):
            return text
        return (record.stack and self._texts.of(record.stack)) or ""

    def attributes(self, record: Node | ValueMetadata, but: str = "") -> list[gb.KeyValue]:
        """Return the metadata of a node to show, without the stack trace `but`, which is shown elsewhere."""
        trace, custom = self.of(record).rstrip("\n"), record.metadata.get("custom", "")
        found = [("stack_trace", trace if trace != but else ""), ("custom", _shortened(custom))]
        return [gb.KeyValue(key, text) for key, text in found if text]


class _Makers:
    """The node and output that make each value of a graph, by the name of the value."""

    def __init__(self) -> None:
        self._values: dict[str, list[tuple[str, str]]] = {}

    def add(self, name: str, node_id: str, output: str) -> None:
        """Add an output of a node; a name may refer to several outputs."""
        self._values.setdefault(name, []).append((node_id, output))

    def of(self, name: str) -> list[tuple[str, str]]:
        """Return the nodes and outputs that a name refers to; none for a constant."""
        return self._values.get(name, [])


def _graph(
    graph_id: str, graph: Graph, below: list[list[str]], specs: list[InputSpec], traces: _Traces
) -> gb.Graph:
    makers = _Makers()
    nodes: list[gb.GraphNode] = []

    def add(shown: gb.GraphNode, outputs: list[Argument], node_name: str, trace: str) -> None:
        names = [name for output in outputs for name in names_in(output)]
        for number, name in enumerate(names):
            makers.add(name, shown.id, str(number))
            if node_name:
                makers.add(results_of(node_name), shown.id, str(number))
            attributes = [gb.KeyValue("name", name), *_known(graph, name)]
            if node_name:
                attributes += traces.attributes(graph.value_metadata.get(name, _NOTHING), trace)
            shown.outputsMetadata.append(gb.MetadataItem(str(number), attributes))
        nodes.append(shown)

    for index, argument in enumerate(graph.inputs):
        name, role, namespace = _input(graph, index, specs[index] if index < len(specs) else InputSpec())
        shown = gb.GraphNode(f"input:{index}", name, namespace, attrs=[gb.KeyValue("role", role)])
        if not (names := names_in(argument)):
            shown.attrs.append(gb.KeyValue("value", argument_text(argument)))
        metadata = graph.value_metadata.get(names[0] if names else name, _NOTHING)
        shown.attrs += traces.attributes(metadata)
        add(shown, [argument], "", "")
    for index, node in enumerate(graph.nodes):
        shown = gb.GraphNode(f"node:{index}", _label(node.target), _namespace(node.metadata))
        shown.attrs.append(gb.KeyValue("target", node.target))
        for position, named in enumerate(node.inputs):
            _connect(shown, named.name or str(position), named.arg, makers)
        shown.attrs += traces.attributes(node)
        shown.subgraphIds += below[index]
        add(shown, node.outputs, node.name or "", traces.of(node).rstrip("\n"))
    result = gb.GraphNode(_OUTPUT, _OUTPUT, config=gb.GraphNodeConfig(pinToGroupTop=False))
    for position, argument in enumerate(graph.outputs):
        _connect(result, str(position), argument, makers)
    result.attrs += traces.attributes(graph.output_metadata or _NOTHING)
    return gb.Graph(id=graph_id, nodes=[*nodes, result])


def _input(graph: Graph, index: int, spec: InputSpec) -> tuple[str, str, str]:
    """Return the label of an input, its role, and the path of its module."""
    held = held_by(spec)
    if held is not None:
        return held.name, held.kind, "/".join(held.name.split(".")[:-1])
    stated = spec.user_input or spec.constant_input
    names = [
        *names_in(graph.inputs[index]),
        (stated.name if stated is not None else None) or "",
        graph.input_names[index] if index < len(graph.input_names or ()) else "",  # type: ignore[index]
        f"input {index}",
    ]
    return next(filter(None, names)), "token" if spec.token is not None else "input", "inputs"


def _connect(node: gb.GraphNode, name: str, argument: Argument, makers: _Makers) -> None:
    """Add an argument: an edge for each value in it, and an attribute with its text if it contains more than values."""
    for value in names_in(argument):
        for maker, number in makers.of(value):
            target = str(len(node.incomingEdges))
            node.incomingEdges.append(gb.IncomingEdge(maker, number, target))
            node.inputsMetadata.append(gb.MetadataItem(target, [gb.KeyValue("__tensor_tag", name)]))
    if not _is_values(argument, makers):
        node.attrs.append(gb.KeyValue(name, argument_text(argument)))


_VALUES = frozenset({"as_tensor", "as_tensors", "as_graph", "as_results"})
_VALUES_OR_LITERALS = frozenset({"as_sym_int", "as_sym_float", "as_sym_bool", "as_custom_obj"})


def _is_values(argument: Argument, makers: _Makers) -> bool:
    """Return whether edges and subgraphs represent an argument completely."""
    variant = variant_of(argument)
    return variant in _VALUES or (variant in _VALUES_OR_LITERALS and any(map(makers.of, names_in(argument))))


def _subgraphs(node: Node) -> Iterator[GraphArgument]:
    for named in node.inputs:
        yield from named_subgraphs_in(named.arg)


def _namespace(metadata: Mapping[str, str]) -> str:
    """Return the modules that a node was traced from, outermost first."""
    if EXACT_STACK in metadata:
        rows = parse_modules(metadata[EXACT_STACK])
    else:
        rows = split_modules(metadata.get("nn_module_stack", "")) or []
    innermost = rows[-1][1] if rows else ""
    return "/".join(part for part in innermost.split(".") if part not in ("L['self']", ""))


def _label(target: str) -> str:
    return target.removeprefix("torch.ops.").removesuffix(".default")


def _known(graph: Graph, name: str) -> list[gb.KeyValue]:
    """Return the type and device of a value as attributes."""
    kind = next((kind for kind, table in VALUE_TABLES.items() if name in getattr(graph, table)), "token")
    meta = graph.tensor_values.get(name)
    if not isinstance(meta, TensorMeta):
        return [gb.KeyValue("kind", kind.replace("_", " "))]
    sizes = [
        format_infix(parse_expression(size.as_expr.expr_str))
        if size.as_expr is not None
        else number_text(size.as_int or 0)
        for size in meta.sizes
    ]
    return [
        gb.KeyValue("tensor_shape", f"{meta.dtype_text}[{', '.join(sizes)}]"),
        gb.KeyValue("device", meta.device.type),
    ]


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
