"""The values and subgraphs that an argument refers to: found, and given other names.

One table says for each arm where its references stand; finding them is renaming them with a function that remembers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from graphwire.schema.graph import (
    ARGUMENT_ARMS,
    Argument,
    CustomObjArgument,
    Graph,
    GraphArgument,
    MappingEntry,
    OptionalTensorArgument,
    SequenceValue,
    SliceValue,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)

__all__ = [
    "Renaming",
    "arm_of",
    "named_subgraphs_in",
    "names_in",
    "results_of",
    "rewritten",
    "subgraphs_in",
]


class Renaming(NamedTuple):
    """What becomes of each reference."""

    value: Callable[[str], str]
    """The new name of a value of the graph; of an object, also the name of a constant."""
    graph: Callable[[GraphArgument], GraphArgument]
    """What stands in place of a subgraph."""
    results: Callable[[str], str] = str
    """The new name of a node, all of whose results are meant."""


Rewrite = Callable[[Renaming, Any], Any]


def _tensor(renaming: Renaming, argument: TensorArgument) -> TensorArgument:
    return TensorArgument(renaming.value(argument.name))


def _tensors(renaming: Renaming, arguments: list[TensorArgument]) -> list[TensorArgument]:
    return [_tensor(renaming, argument) for argument in arguments]


def _optional_tensor(renaming: Renaming, argument: OptionalTensorArgument) -> OptionalTensorArgument:
    if argument.as_tensor is None:
        return argument
    return OptionalTensorArgument(as_tensor=_tensor(renaming, argument.as_tensor))


def _sym_int(renaming: Renaming, argument: SymIntArgument) -> SymIntArgument:
    return argument if argument.as_name is None else SymIntArgument(as_name=renaming.value(argument.as_name))


def _sym_float(renaming: Renaming, argument: SymFloatArgument) -> SymFloatArgument:
    return (
        argument if argument.as_name is None else SymFloatArgument(as_name=renaming.value(argument.as_name))
    )


def _sym_bool(renaming: Renaming, argument: SymBoolArgument) -> SymBoolArgument:
    return argument if argument.as_name is None else SymBoolArgument(as_name=renaming.value(argument.as_name))


def _custom_obj(renaming: Renaming, argument: CustomObjArgument) -> CustomObjArgument:
    return CustomObjArgument(renaming.value(argument.name), argument.class_fqn)


def _each(rewrite: Rewrite) -> Rewrite:
    return lambda renaming, items: [rewrite(renaming, item) for item in items]


def _sequence(renaming: Renaming, sequence: SequenceValue) -> SequenceValue:
    return SequenceValue(sequence.kind, [rewritten(item, renaming) for item in sequence.items])


def _mapping(renaming: Renaming, entries: list[MappingEntry]) -> list[MappingEntry]:
    return [
        MappingEntry(rewritten(entry.key, renaming), rewritten(entry.value, renaming)) for entry in entries
    ]


def _text_mapping(renaming: Renaming, entries: Mapping[str, Argument]) -> dict[str, Argument]:
    return {key: rewritten(value, renaming) for key, value in entries.items()}


def _slice(renaming: Renaming, value: SliceValue) -> SliceValue:
    return SliceValue(*(rewritten(part, renaming) for part in (value.start, value.stop, value.step)))


def _results(renaming: Renaming, node: str) -> str:
    return renaming.results(node)


def _graph(renaming: Renaming, argument: GraphArgument) -> GraphArgument:
    return renaming.graph(argument)


_REWRITES: Final[dict[str, Rewrite]] = {
    "as_tensors": _tensors,
    "as_sym_int": _sym_int,
    "as_sym_ints": _each(_sym_int),
    "as_sym_float": _sym_float,
    "as_sym_floats": _each(_sym_float),
    "as_sym_bool": _sym_bool,
    "as_sym_bools": _each(_sym_bool),
    "as_optional_tensors": _each(_optional_tensor),
    "as_optional_tensor": _optional_tensor,
    "as_custom_obj": _custom_obj,
    "as_nested_tensors": _each(_tensors),
    "as_graph": _graph,
    "as_results": _results,
    "as_sequence": _sequence,
    "as_mapping": _mapping,
    "as_slice": _slice,
    "as_string_to_argument": _text_mapping,
}


def arm_of(argument: Argument) -> str:
    """The arm that is set; empty when none is."""
    if argument.as_tensor is not None:
        return "as_tensor"
    return next((arm for arm in ARGUMENT_ARMS if getattr(argument, arm) is not None), "")


def rewritten(argument: Argument, renaming: Renaming) -> Argument:
    """The argument with every reference renamed. Literals are shared with the argument that was given."""
    if argument.as_tensor is not None:
        return Argument(as_tensor=TensorArgument(renaming.value(argument.as_tensor.name)))
    for arm, rewrite in _REWRITES.items():
        held = getattr(argument, arm)
        if held is not None:
            return Argument(**{arm: rewrite(renaming, held)})
    return argument


def results_of(node: str) -> str:
    """What stands for all results of a node among the names of values: no value has such a name."""
    return f"results of {node}"


def names_in(argument: Argument) -> list[str]:
    """The names of the values that an argument refers to, in the order in which they stand; for all results of a node
    what `results_of` gives. Subgraphs have names of their own."""
    if argument.as_tensor is not None:
        return [argument.as_tensor.name]
    found: list[str] = []

    def note(name: str) -> str:
        found.append(name)
        return name

    rewritten(argument, Renaming(note, _same, lambda node: note(results_of(node))))
    return found


def subgraphs_in(argument: Argument) -> list[Graph]:
    """The subgraphs that stand in an argument, not those inside them."""
    return [held.graph for held in named_subgraphs_in(argument)]


def named_subgraphs_in(argument: Argument) -> list[GraphArgument]:
    """The subgraphs that stand in an argument, with their attribute names, in the order in which they stand."""
    if argument.as_tensor is not None:
        return []
    found: list[GraphArgument] = []

    def note(held: GraphArgument) -> GraphArgument:
        found.append(held)
        return held

    rewritten(argument, Renaming(str, note))
    return found


def _same(argument: GraphArgument) -> GraphArgument:
    return argument
