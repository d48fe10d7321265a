"""Programs as graphs of Model Explorer.

Each value of a graph is made by one of its nodes: by an input, or by a call. An edge goes from the node that makes a value to
each that uses it, and has the number of the output.
"""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from typing import Any

from model_explorer import graph_builder as gb

import graphwire
from graphwire.evolve.values import Value, decode_value, defined_values, subgraphs
from graphwire.schema.expression import parse_expression
from graphwire.schema.graph import Argument, Graph, Node
from graphwire.schema.infix import format_infix
from graphwire.schema.program import Program
from graphwire.schema.tensor import TensorMeta

__all__ = ["graphs_of"]

MAX_TEXT = 500
"""Characters of an attribute that are shown."""

_OUTPUT = "output"


def graphs_of(file: str | PathLike[str]) -> list[gb.Graph]:
    """Every program of a file, and behind each its subgraphs.

    Raises:
        graphwire.errors.GraphwireError: the file is no archive, is damaged, or holds no valid program.
    """
    with graphwire.open(file) as archive:
        return [graph for name in archive.methods for graph in _program(name, archive.program_of(name))]


def _program(name: str, program: Program) -> Iterator[gb.Graph]:
    facts = {
        "torch": program.torch_version,
        "opsets": ", ".join(f"{namespace} {version}" for namespace, version in program.opset_version.items()),
        "producer": program.producer or "",
    }
    roles = dict(_roles(program))
    pending = [(name, program.graph_module.graph)]
    while pending:
        graph_id, graph = pending.pop(0)
        below = {
            (index, place): f"{graph_id}/{node.name or node.target}{place.removesuffix('.graph')}"
            for index, node in enumerate(graph.nodes)
            for place, _ in _subgraphs(node)
        }
        pending += [
            (below[index, place], inner)
            for index, node in enumerate(graph.nodes)
            for place, inner in _subgraphs(node)
        ]
        shown = _graph(graph_id, graph, below, roles if graph_id == name else {})
        if graph_id == name:
            shown.groupNodeAttributes = {"": {key: value for key, value in facts.items() if value}}
        yield shown


def _roles(program: Program) -> Iterator[tuple[str, tuple[str, str]]]:
    """The inputs that are no argument of the caller's: what each is, and its qualified name."""
    for spec in program.graph_module.signature.input_specs:
        for role, field in (
            ("parameter", "parameter_name"),
            ("buffer", "buffer_name"),
            ("tensor_constant", "tensor_constant_name"),
        ):
            found = getattr(spec, role, None)
            if found is not None:
                yield found.arg.name, (role.replace("_", " "), getattr(found, field))


def _graph(
    graph_id: str, graph: Graph, below: dict[tuple[int, str], str], roles: dict[str, tuple[str, str]]
) -> gb.Graph:
    makers: dict[str, tuple[str, int]] = {}
    nodes: list[gb.GraphNode] = []

    def add(node: gb.GraphNode, outputs: list[Argument]) -> None:
        values = [value for output in outputs for value in defined_values(output)]
        for number, value in enumerate(values):
            makers[value.name] = node.id, number
            attributes = [gb.KeyValue("name", value.name), *_known(graph, value)]
            node.outputsMetadata.append(gb.MetadataItem(str(number), attributes))
        nodes.append(node)

    for index, argument in enumerate(graph.inputs):
        names = [value.name for value in defined_values(argument)]
        name = names[0] if names else f"input {index}"
        role, qualified = roles.get(name, ("input", ""))
        namespace = "/".join(qualified.split(".")[:-1]) if role != "input" else "inputs"
        shown = gb.GraphNode(
            f"input:{index}", qualified or name, namespace, attrs=[gb.KeyValue("role", role)]
        )
        add(shown, [argument])
    for index, node in enumerate(graph.nodes):
        shown = gb.GraphNode(f"node:{index}", _label(node.target), _namespace(node))
        shown.attrs.append(gb.KeyValue("target", node.target))
        for position, named in enumerate(node.inputs):
            _connect(shown, named.name or str(position), named.arg, makers)
        shown.attrs += [
            gb.KeyValue(key, _shortened(text))
            for key, text in node.metadata.items()
            if key in ("stack_trace", "custom") and text
        ]
        shown.subgraphIds += [below[index, place] for place, _ in _subgraphs(node)]
        add(shown, node.outputs)
    result = gb.GraphNode(_OUTPUT, _OUTPUT, config=gb.GraphNodeConfig(pinToGroupTop=False))
    for position, argument in enumerate(graph.outputs):
        _connect(result, str(position), argument, makers)
    return gb.Graph(id=graph_id, nodes=[*nodes, result])


def _connect(node: gb.GraphNode, name: str, argument: Argument, makers: dict[str, tuple[str, int]]) -> None:
    """Add an argument: an edge for each value in it; and where it is a literal, an attribute."""
    used = list(_used(argument))
    for value in used:
        maker, number = makers[value.name]
        target = str(len(node.incomingEdges))
        node.incomingEdges.append(gb.IncomingEdge(maker, str(number), target))
        node.inputsMetadata.append(gb.MetadataItem(target, [gb.KeyValue("__tensor_tag", name)]))
    if not used and argument.as_graph is None:
        node.attrs.append(gb.KeyValue(name, _shortened(_text(decode_value(argument)))))


def _used(argument: Argument) -> Iterator[Value]:
    def walk(plain: Any) -> Iterator[Value]:
        if isinstance(plain, Value):
            yield plain
        elif isinstance(plain, (list, tuple)):
            for item in plain:
                yield from walk(item)
        elif isinstance(plain, dict):
            yield from walk(list(plain.values()))

    plain = decode_value(argument)
    if isinstance(plain, Argument):
        yield from defined_values(plain)
    else:
        yield from walk(plain)


def _subgraphs(node: Node) -> Iterator[tuple[str, Graph]]:
    for named in node.inputs:
        for place, graph in subgraphs(named.arg):
            yield f".{named.name or 'input'}{place}", graph


def _namespace(node: Node) -> str:
    """The modules that a node was traced from, outermost first."""
    rows = [
        row.split(",")[1]
        for row in node.metadata.get("nn_module_stack", "").split(";")
        if row.count(",") >= 2
    ]
    innermost = rows[-1] if rows else ""
    return "/".join(part for part in innermost.split(".") if part not in ("L['self']", ""))


def _label(target: str) -> str:
    return target.removeprefix("torch.ops.").removesuffix(".default")


def _known(graph: Graph, value: Value) -> list[gb.KeyValue]:
    meta = graph.tensor_values.get(value.name) if value.kind == "tensor" else None
    if not isinstance(meta, TensorMeta):
        return [gb.KeyValue("kind", value.kind)]
    sizes = [
        format_infix(parse_expression(size.as_expr.expr_str))
        if size.as_expr is not None
        else str(size.as_int)
        for size in meta.sizes
    ]
    return [
        gb.KeyValue("tensor_shape", f"{meta.dtype_text}[{', '.join(sizes)}]"),
        gb.KeyValue("device", meta.device.type),
    ]


def _text(plain: Any) -> str:
    if isinstance(plain, (list, tuple)):
        return f"[{', '.join(map(_text, plain[:64]))}{', …' if len(plain) > 64 else ''}]"
    name = getattr(plain, "name", None)
    return name if isinstance(name, str) else str(plain)


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
