"""The first reader of a file: which release of torch its own loader reads it from, or which graphwire.

A document of the current schema in JSON that requires none of our extensions, in the archive layout of torch 2.9, is read by
torch 2.9 and later, which ignore the fields and the minor version that they do not know; and by no release before the ones that
brought its operators, argument arms and element types. Every other document of ours is read by graphwire alone.
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
    place_of_results,
)
from graphwire.evolve.operators import is_nameless, newest_release, release_with
from graphwire.evolve.opsets import graphs_in
from graphwire.schema import ARGUMENT_ARMS, ARMS, Argument, Graph, Node, Place, Program, arguments_in
from graphwire.schema.trees import to_tree

OURS_FIRST: Final = f"{OURS}-0.1"
"""The first graphwire that knows every extension there is (`schema.program.FEATURES`)."""

_ARCHIVE = Version(8, 14)
_OLD: Final = ARGUMENT_ARMS.index("as_optional_tensor")
"""How many arms every reader of the archive reads in an argument; they come first."""
_NO_NEW: Final = (None,) * (len(ARGUMENT_ARMS) - _OLD)
_NEW_TYPES: Final = {kind: since for kind, since in TYPES.items() if since > _ARCHIVE}


def first_reader(program: Program, *, is_json: bool) -> str:
    """The first reader of a program of the current schema in an archive of ours, such as `torch-2.9` or `graphwire-0.1`.

    Args:
        is_json: whether its document is JSON, the only wire format that torch has.
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
    """The first schema whose reader reads each argument of a graph that is not among the oldest; None for one that none reads."""
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
        if (
            outputs
            and outputs[0].as_tensors
            and len(outputs) == 1
            and node.is_hop_single_tensor_return is None
        ):
            continue
        if len(outputs) == 1 and outputs[0].as_tensor is not None:
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
    return place_of_results({**stub, "is_hop_single_tensor_return": node.is_hop_single_tensor_return})


def _since(argument: Argument, place: Place) -> Version | None:
    """The first schema whose reader reads an argument in a place; None where none does."""
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
    """The first reader of a file as it says itself: by its note, or by the version of its schema where it has none."""
    if program.readable_from is not None:
        return program.readable_from
    return OURS_FIRST if version == DRAFT or version.variant else first_release(version)
