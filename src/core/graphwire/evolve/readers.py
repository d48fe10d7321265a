"""The first reader of a file: which release of torch its own loader reads it from, or which graphwire.

A document of the current schema in JSON that requires none of our extensions, in the archive layout of torch 2.9, is read by
torch 2.9 and later, which ignore the fields and the minor version that they do not know; and by no release before the ones that
brought its operators, argument arms and element types. Every other document of ours is read by graphwire alone.
"""

from __future__ import annotations

from typing import Final

from graphwire.evolve.availability import newest_release, release_with
from graphwire.evolve.extensions import OURS
from graphwire.evolve.versions import DRAFT, Version, first_release
from graphwire.schema.graph import Graph
from graphwire.schema.program import Program
from graphwire.schema.scalars import ScalarType

__all__ = ["first_reader", "first_reader_of"]

OURS_FIRST: Final = f"{OURS}-0.1"
"""The first graphwire that knows every extension there is (`schema.program.FEATURES`)."""

_ARCHIVE = Version(8, 14)
_INT_LISTS, _NESTED_TENSORS, _FLOAT_LISTS = Version(8, 15), Version(8, 17), Version(8, 20)
_NEW_TYPES: Final = frozenset({ScalarType.FLOAT8E8M0FNU, ScalarType.UINT32, ScalarType.UINT64})


def first_reader(program: Program, *, is_json: bool) -> str:
    """The first reader of a program of the current schema in an archive of ours, such as `torch-2.9` or `graphwire-0.1`.

    Args:
        is_json: whether its document is JSON, the only wire format that torch has.
    """
    if program.requires or not is_json:
        return OURS_FIRST
    if any(
        each.as_string is not None or each.as_sym_bool is not None
        for each in program.graph_module.graph.outputs
    ):
        return OURS_FIRST  # torch writes these, and no release of it reads them
    newest = _ARCHIVE
    targets: set[str] = set()
    graphs: list[Graph] = [program.graph_module.graph]
    for graph in graphs:  # grows while it is walked
        for meta in graph.tensor_values.values():
            if meta.dtype in _NEW_TYPES:
                newest = _FLOAT_LISTS
        for node in graph.nodes:
            targets.add(node.target)
            for named in node.inputs:
                argument = named.arg
                if argument.as_tensor is not None or argument.as_int is not None:
                    continue
                if argument.as_graph is not None:
                    graphs.append(argument.as_graph.graph)
                elif argument.as_int_lists is not None or argument.as_string_to_argument is not None:
                    newest = max(newest, _INT_LISTS)
                elif argument.as_nested_tensors is not None:
                    newest = max(newest, _NESTED_TENSORS)
                elif argument.as_float_lists is not None or argument.as_scalar_type in _NEW_TYPES:
                    newest = _FLOAT_LISTS
    release = first_release(newest).removeprefix("torch-")
    return f"torch-{newest_release({release, *map(release_with, targets)})}"


def first_reader_of(version: Version, program: Program) -> str:
    """The first reader of a file as it says itself: by its note, or by the version of its schema where it has none."""
    if program.readable_from is not None:
        return program.readable_from
    return OURS_FIRST if version == DRAFT or version.variant else first_release(version)
