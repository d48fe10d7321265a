"""Schema 5.1 (torch 2.3). Its version is a pair of numbers, unions have one key, script objects and operators are arguments.

The step to 5.3 (torch 2.4) added tokens (inputs and outputs that order effects), a separate spec for an input that was
specialised to a literal, and a record for the tensor of an optional tensor.

Loaders before 2.4 read no literal as output, no namedtuple by its name, and no backed symbol that may be 0; the loader of 2.1
also reads none that may be 1.

Upward an input that is a literal gets an unused name, `arg` and its position. Downward that name is dropped, and values with
the name of a Python builtin are renamed (`evolve.reserved_names`); paths of modules lose their commas, on which 2.3
fails.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from graphwire.evolve import trees
from graphwire.evolve.expressions import (
    greatest_integer_from_infinity,
    infinity_from_greatest_integer,
    report_small_sizes,
)
from graphwire.evolve.reserved_names import rename_builtin_names
from graphwire.evolve.step import Step
from graphwire.evolve.steps.early_records import stack_with_commas, stack_without_commas
from graphwire.evolve.trees import Record, Where
from graphwire.schema import ConstantValue, Version
from graphwire.schema.texts.treespec import parse_treespec, treespec_nodes

LEAST_SIZE = 1
"""The lower bound of inputs' sizes in 2.2 and 2.3: they fail on 0."""

LITERALS = frozenset(ConstantValue.__struct_fields__)


def up(tree: Record) -> Record:
    """Convert 5.1 to 5.3."""
    edits = trees.Edits(argument=_OPTIONAL_UP, node=_with_stack(stack_with_commas))
    tree = greatest_integer_from_infinity(trees.rewrite(tree, edits))
    graph, signature = tree["graph_module"]["graph"], tree["graph_module"]["signature"]
    names = {trees.name_of(argument) for argument in graph["inputs"]} | set(graph["tensor_values"])
    specs = []
    for index, spec in enumerate(signature["input_specs"]):
        user = spec.get("user_input")
        if user is not None and trees.variant_of(user["arg"]) in LITERALS:
            name = next(n for n in (f"arg{i}" for i in itertools.count(index)) if n not in names)
            names.add(name)
            spec = {"constant_input": {"name": name, "value": user["arg"]}}  # noqa: PLW2901
        specs.append(spec)
    return trees.with_module(tree, signature={**signature, "input_specs": specs})


def down(tree: Record, refuse: trees.Refuse) -> Record:
    """Convert 5.3 to 5.1."""
    report_small_sizes(tree, refuse, LEAST_SIZE)
    _report_namedtuples(tree, refuse)
    tree = trees.rewrite(
        rename_builtin_names(tree),
        trees.Edits(
            argument=_OPTIONAL_DOWN, input_spec=_LITERAL_DOWN, node=_with_stack(stack_without_commas)
        ),
    )
    return infinity_from_greatest_integer(tree)


def _report_namedtuples(tree: Record, refuse: trees.Refuse) -> None:
    """Report namedtuples: 2.3 does not look up their classes by name but makes a new class for each, which is not the user's."""
    for where, text in trees.treespecs(tree):
        for _, node, _ in treespec_nodes(parse_treespec(text)):
            if node.type == "collections.namedtuple" and isinstance(node.context, str):
                refuse(where, f"the container type {node.context}, a namedtuple")


def _optional(convert: Callable[[Any], Any]) -> trees.SureEdit:
    """Return an edit of lists of optional tensors that converts each tensor."""

    def of_item(item: Record) -> Record:
        return {"as_tensor": convert(item["as_tensor"])} if trees.variant_of(item) == "as_tensor" else item

    return trees.variant_edit(
        "as_optional_tensors", lambda items: {"as_optional_tensors": list(map(of_item, items))}
    )


_OPTIONAL_UP = _optional(lambda name: {"name": name})
_OPTIONAL_DOWN = _optional(lambda tensor: tensor["name"])
_LITERAL_DOWN = trees.variant_edit(
    "constant_input", lambda constant: {"user_input": {"arg": constant["value"]}}
)


def _with_stack(convert: Callable[[dict[str, str]], dict[str, str]]) -> trees.Edit:
    def of_node(node: Record, where: Where) -> Record | None:
        metadata = node["metadata"]
        return {**node, "metadata": convert(metadata)} if "nn_module_stack" in metadata else None

    return of_node


STEP = Step(Version(5, 1), Version(5, 3), up, down, derived=("names for inputs that are literals",))
