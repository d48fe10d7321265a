"""Determines the first reader of a file: the oldest release of torch whose own loader reads it, or graphwire.

A document of the current schema in JSON that requires no extension of graphwire, in the archive layout of torch 2.9, is
readable by torch 2.9 and later, which ignore unknown fields and minor versions. A release that predates its operators,
argument arms or element types cannot read it. Every other document that graphwire writes is readable by graphwire alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import astuple

from graphwire.evolve.documents import (
    DRAFT,
    OURS,
    TYPES,
    Record,
    Version,
    first_release,
    literal_as_value,
    result_place,
)
from graphwire.evolve.operators import is_nameless, newest_release, release_with
from graphwire.evolve.opsets import graphs_in
from graphwire.schema import ARGUMENT_ARMS, ARMS, Argument, Graph, Node, Place, Program, arguments_in
from graphwire.schema.trees import to_tree

OURS_FIRST: Final = f"{OURS}-0.1"
"""The first graphwire that supports every extension (`schema.program.FEATURES`)."""

_ARCHIVE = Version(8, 14)
_OLD: Final = ARGUMENT_ARMS.index("as_optional_tensor")
"""The number of arms that every reader of the archive supports in an argument; they come first."""
_NO_NEW: Final = (None,) * (len(ARGUMENT_ARMS) - _OLD)
_NEW_TYPES: Final = {kind: since for kind, since in TYPES.items() if since > _ARCHIVE}


def first_reader(program: Program, *, is_json: bool) -> str:
    """Return the first reader of a program of the current schema in graphwire's archive, such as `torch-2.9` or `graphwire-0.1`.

    Args:
        is_json: whether its document is JSON, the only wire format that torch supports.
    """
    if program.requires or not is_json:
        return OURS_FIRST
    newest, targets = _ARCHIVE, set()
    for graph in graphs_in(program.graph_module.graph):
        top = graph is program.graph_module.graph
        for meta in {id(meta): meta for meta in graph.tensor_values.values()}.values():  # most are shared
            if meta.dtype in _NEW_TYPES:
                newest = max(newest, _NEW_TYPES[meta.dtype])
        for node in graph.nodes:
            targets.add(node.target)
        for since in _needed(graph, top):
            if since is None:
                return OURS_FIRST
            newest = max(newest, since)
    for entry in program.graph_module.module_call_graph:
        if entry.signature is not None:
            for argument in (*entry.signature.inputs, *entry.signature.outputs):
                if (since := _since(argument, "call")) is None:
                    return OURS_FIRST
                newest = max(newest, since)
    releases = {first_release(newest).removeprefix("torch-")}
    for target in targets:
        release = release_with(target)
        if release is None:
            return OURS_FIRST
        releases.add(release)
    return f"torch-{newest_release(releases)}"


def _needed(graph: Graph, top: bool) -> Iterator[Version | None]:
    """Return the first schema whose reader reads each argument of a graph beyond the oldest ones; None if no reader does."""
    for node in graph.nodes:
        nameless = False
        for named in node.inputs:
            nameless = nameless or not named.name
            argument = named.arg
            if (
                argument.as_tensor is None
                and argument.as_int is None
                and (astuple(argument)[_OLD:] != _NO_NEW or argument.as_scalar_type in _NEW_TYPES)
            ):
                yield _since(argument, "argument")
        if nameless and is_nameless(node.target, ("",)):
            yield None
        outputs = node.outputs
        if len(outputs) == 1 and outputs[0].as_tensor is not None:
            continue
        if len(outputs) == 1 and outputs[0].as_tensors and node.is_hop_single_tensor_return is None:
            continue
        if any(output.as_tensor is None for output in outputs):
            place = _place_of(node)
            for output in outputs:
                yield _since(output, place)
    for argument in graph.inputs:
        if argument.as_tensor is None:
            yield _since(argument, "input" if top else "inner_input")
    for argument in graph.outputs:
        if argument.as_tensor is None:
            yield _since(argument, "output" if top else "inner_output")


def _place_of(node: Node) -> Place:
    stub: Record = {"target": node.target, "outputs": node.outputs}
    return result_place({**stub, "is_hop_single_tensor_return": node.is_hop_single_tensor_return})


def _since(argument: Argument, place: Place) -> Version | None:
    """Return the first schema whose reader reads an argument in a place; None if no reader does."""
    for arm, content in zip(ARGUMENT_ARMS, astuple(argument), strict=True):
        if content is not None:
            if (
                place not in ("argument", "call")
                and literal_as_value(arm, to_tree(content), place) is not None
            ):
                return None
            if arm == "as_scalar_type" and content in _NEW_TYPES:
                return _NEW_TYPES[content]
            found = [
                ARMS[arm].since(place),
                *(_since(item, "argument") for _, item in arguments_in(argument)),
            ]
            return None if None in found else max(filter(None, found))
    return None


def first_reader_of(version: Version, program: Program) -> str:
    """Return the first reader of a file by its own note or, without one, by its schema version."""
    if program.readable_from is not None:
        return program.readable_from
    return OURS_FIRST if version == DRAFT or version.variant else first_release(version)
