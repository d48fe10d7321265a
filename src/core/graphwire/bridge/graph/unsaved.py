"""Notes what a program has and no file keeps, and warns of it by name."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Collection, Iterator
from typing import Any

import torch

from graphwire.bridge.context import EncodeContext
from graphwire.bridge.torch_compat.code_text import ambiguous_inputs, has_own_code
from graphwire.bridge.torch_compat.private import given_to
from graphwire.errors import shown, warn
from graphwire.registry.interfaces import OWN_METADATA, TORCH_METADATA
from graphwire.schema import Graph, ValueMetadata
from graphwire.schema.texts.metadata import DECLARED

_LISTED = 30


def note_unsaved(context: EncodeContext, module: torch.fx.GraphModule, *, top_level: bool) -> None:
    """Note what a graph has that a record does not: keys of metadata that nobody declares, types, arguments of nodes that take
    none, and attributes, hooks and submodules of somebody's own."""
    nodes = module.graph.nodes
    metas: list[dict[Any, Any]] = [each.meta for each in nodes if type(each.meta) is dict]
    found: set[Any] = set().union(*metas)  # Whatever else stands in place of a dict may take forever to hash.
    unknown = found - OWN_METADATA - TORCH_METADATA - context.declared_keys
    kept = {key for key in unknown if isinstance(key, str) and key.startswith(DECLARED)}
    context.declared_keys |= kept
    if not context.declared_keys.isdisjoint(found) or len(metas) < len(nodes):
        context.has_declared = True
    for key in sorted(map(shown, unknown - kept)):  # A repr of shared tuples would have no end.
        context.unsaved.setdefault(
            f"meta[{key:.80}]",
            next((n.name for n in nodes if type(n.meta) is dict and key in map(shown, n.meta)), ""),
        )
    for key in _unkept_keys(context, module.meta, top_level):
        whose = "the graph's module" if top_level else "a subgraph's module, of which files keep none"
        context.unsaved.setdefault(f"meta[{key:.80}] of {whose}", "")
    for op in _WITHOUT_ARGUMENTS:
        for node in module.graph.find_nodes(op=op):
            if op == "output" or any(given_to(node)) or "unbacked_bindings" in node.meta:
                _note_arguments(context, node)
    for node in nodes:
        if node.type is not None:
            context.unsaved.setdefault("the type", node.name)
    if not set[Any]().union(*map(vars, nodes)) <= _usual_attributes():
        for node in nodes:
            note_attributes(context, node, node.name)
    note_attributes(context, module.graph, "the graph")
    if has_own_code(module.graph):
        context.unsaved.setdefault("the code generator of the graph", "")
    read = {str(node.target) for node in module.graph.find_nodes(op="get_attr")}
    for what in _unread_attributes(module, read, ""):
        context.unsaved.setdefault(what, "")


def _unkept_keys(context: EncodeContext, meta: Any, top_level: bool) -> list[str]:
    """Return the keys of the metadata of a graph module that a record does not keep, but for private ones. Of subgraphs it keeps
    none."""
    if not isinstance(meta, dict):
        raise TypeError("the metadata of a graph module is no dict")
    unknown: set[Any] = set(meta) - TORCH_METADATA
    if top_level:
        kept = {key for key in unknown if isinstance(key, str) and key.startswith(DECLARED)}
        context.declared_keys |= kept
        unknown -= context.declared_keys | {"custom"}
    # torchao notes of each quantized graph what nobody else reads.
    return sorted(map(shown, [key for key in unknown if not (isinstance(key, str) and key[:1] == "_")]))


_WITHOUT_ARGUMENTS = ("placeholder", "get_attr", "output")
"""The kinds of nodes that take nothing but what the output returns."""


def _note_arguments(context: EncodeContext, node: torch.fx.Node) -> None:
    if not (isinstance(node.args, tuple) and isinstance(node.kwargs, dict)):
        raise TypeError("the arguments of a node are no tuple and dict")
    found = []
    if node.kwargs or len(node.args) > (node.op == "output"):
        found.append("the arguments" if node.op != "placeholder" or node.kwargs else "the default value")
    if node.meta.get("unbacked_bindings"):
        found.append("meta['unbacked_bindings']")
    if node.op == "output":
        if type(node.target) is not str or node.target != "output":
            found.append("the target")
        if node.name != "output" and node.name != _name_of_output(node.graph):
            found.append("the name")
    for what in found:
        context.unsaved.setdefault(f"{what} of {node.name:.80}", "")


def drop_targets(
    context: EncodeContext, graph: torch.fx.Graph, record: Graph, paths: Collection[str] = ()
) -> None:
    """Note the inputs of a graph that a load gives other targets, and take those from its record.

    Args:
        paths: the weights and constants that the graph's module holds.
    """
    for node in ambiguous_inputs(graph, paths):
        noted = record.value_metadata.get(node.name)
        if noted is not None and noted.target is not None:  # otherwise it is noted
            context.unsaved.setdefault(f"the target {node.target!r:.80} of {node.name:.80}", "")
            noted.target = None
            if noted == ValueMetadata():
                del record.value_metadata[node.name]


def _name_of_output(graph: torch.fx.Graph) -> str:
    """Return the name that FX gives the output of a graph of such nodes."""
    taken, name = {node.name for node in graph.nodes if node.op != "output"}, "output"
    numbers = itertools.count(1)
    while name in taken:
        name = f"output_{next(numbers)}"
    return name


@functools.cache
def _usual_attributes() -> frozenset[str]:
    """What torch sets on each graph module, graph and node, whatever the release."""
    graph = torch.fx.Graph()
    made = torch.fx.GraphModule({}, graph), graph, graph.placeholder("x")
    return frozenset().union(*map(vars, made))


@functools.cache
def _hooks() -> list[str]:
    return [name for name in _usual_attributes() if name.endswith("_hooks")]


def note_attributes(context: EncodeContext, holder: object, name: str) -> None:
    """Note the attributes of somebody's own."""
    for key in _own_attributes(holder):
        context.unsaved.setdefault(f"the attribute {key!r:.80}", name)


def _own_attributes(holder: object) -> list[str]:
    """Names that begin with an underscore are the private notes of torch and of tools."""
    own: set[Any] = vars(holder).keys() - _usual_attributes()
    return sorted([key for key in own if isinstance(key, str) and key[:1] != "_"]) if own else []


def _unread_attributes(module: torch.nn.Module, read: Collection[str], path: str) -> Iterator[str]:
    """Yield what a module has that no node of its graph reads, but for subgraphs: export leaves those of calls that it removed.

    Args:
        read: the paths that nodes read.
        path: that of the module, with a dot behind it.
    """
    held = vars(module)
    if not (path or module.training):  # an export in evaluation sets it, too
        yield "the attribute 'training'"
    for key in (*_own_attributes(module), *module._parameters, *module._buffers, *module._modules):
        here, value = f"{path}{key}", module._modules.get(key, held.get(key))
        if here in read or isinstance(value, torch.fx.GraphModule):
            continue
        inside = isinstance(value, torch.nn.Module) and any(each.startswith(f"{here}.") for each in read)
        if isinstance(value, torch.nn.Module) and inside:
            yield from _unread_attributes(value, read, f"{here}.")
        else:
            yield f"the {'submodule' if isinstance(value, torch.nn.Module) else 'attribute'} {here!r:.80}"
    for key in [key for key in _hooks() if held.get(key)]:
        yield f"hooks of {path.removesuffix('.') or 'the graph module'} ({key.strip('_')})"


def tell_unsaved(context: EncodeContext) -> None:
    """Tell what `note_unsaved` found."""
    if not context.unsaved:
        return
    named = [what + (f" of {node:.80}" if node else "") for what, node in context.unsaved.items()]
    more = f" and {len(named) - _LISTED:,} more" if len(named) > _LISTED else ""
    warn(
        f"not saved: {', '.join(named[:_LISTED])}{more}. Files keep data in meta['custom'], and under keys "
        "that a plugin declares (hook graphwire_metadata_keys)"
    )
