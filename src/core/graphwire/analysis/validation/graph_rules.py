"""Validation rules of one graph: its nodes, its inputs and outputs, and the metadata of its values.

A walk visits every argument of every node, so valid documents must cost little: valid names, targets, devices and
expressions are cached, and the text of a place is only built to report a problem.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from operator import itemgetter

from msgspec.structs import astuple

from graphwire.analysis.validation.argument_rules import RULES, Scope, check_argument
from graphwire.analysis.validation.value_rules import (
    Place,
    Walk,
    check_class,
    check_composition,
    check_indices,
    check_meta,
    check_metadata,
    check_symbol,
    check_target,
    has_unusual_line_ends,
    is_operator_name,
    is_parameter_name,
    is_usual_meta,
    is_value_name,
    quoted,
)
from graphwire.schema import (
    ARGUMENT_VARIANTS,
    VALUE_TABLES,
    VALUE_VARIANTS,
    VARIANTS,
    Argument,
    ArgumentKind,
    Graph,
    Node,
    ValueMetadata,
    variant_of,
)
from graphwire.schema.texts.metadata import GRAMMARS

_OVERLOAD = r"(?a)torch\.ops\.(?!higher_order\.|prim\.)\w+\.\w+\.\w+"
"""The serialized name of an operator that may have a fake kernel."""

_LITERALS = [
    index
    for index, variant in enumerate(ARGUMENT_VARIANTS)
    if variant not in RULES and not VARIANTS[variant].feature
]
"""The positions of variants that need no check."""
_is_literal = itemgetter(*_LITERALS)
_UNSET = len(ARGUMENT_VARIANTS) - 1
_SYM_INT, _SYM_INTS, _TENSORS, _DEVICE = map(
    ARGUMENT_VARIANTS.index, ("as_sym_int", "as_sym_ints", "as_tensors", "as_device")
)


# ----------------------------------------------------------------------------------------------- metadata and nodes


def _check_origin(walk: Walk, place: Place, owner: ValueMetadata) -> None:
    if owner.metadata:
        check_metadata(walk, (place, ".metadata"), owner.metadata)
    check_indices(walk, place, owner)


def _check_indices(walk: Walk, place: Place, nodes: Sequence[Node]) -> None:
    """Check the nodes' indices into the tables of stack frames and node sources.

    All are checked together first. Each node is checked only if one is wrong, to report which.
    """
    stacks = [each for node in nodes if (each := node.stack)]
    origins = [each for node in nodes if (each := node.from_node)]
    for lists, end in ((stacks, walk.frames), (origins, walk.sources)):
        if lists and not 0 <= min(map(min, lists)) <= max(map(max, lists)) < end:
            break
    else:
        return
    for index, node in enumerate(nodes):
        check_indices(walk, (place, ".nodes", index), node)


def _is_good_input(walk: Walk, defined: Mapping[str, str], argument: Argument) -> bool:
    """Return True if a node's argument is certainly valid, and False if `check_argument` must decide."""
    tensor = argument.as_tensor
    if tensor is not None:
        return defined.get(tensor.name) == "tensor" and walk.is_tensor_alone(argument)
    variants = astuple(argument)
    if variants.count(None) != _UNSET:
        return False
    if _is_literal(variants).count(None) != len(_LITERALS):
        return True
    integers = variants[_SYM_INTS] or ((variants[_SYM_INT],) if variants[_SYM_INT] is not None else ())
    for integer in integers:
        name = integer.as_name
        if (name is None) == (integer.as_int is None) or (
            name is not None and defined.get(name) != "sym_int"
        ):
            return False
    if integers:
        return True
    tensors = variants[_TENSORS]
    if tensors:
        return {defined.get(each.name) for each in tensors} == {"tensor"}
    device = variants[_DEVICE]
    return device is not None and (device.type, device.index) in walk.good_devices


def _are_good_names(walk: Walk, given: tuple[str, ...]) -> bool:
    """Return whether the inputs of a node can have these names, and cache them if so."""
    named = [name for name in given if name]
    known = walk.good_keywords
    for name in named:
        if name not in known:
            if not is_parameter_name(name, keyword=True):
                return False
            known.add(name)
    if len(set(named)) != len(named):
        return False
    walk.good_inputs.add(given)
    return True


def _made_by(walk: Walk, scope: Scope, outputs: Sequence[Argument]) -> dict[str, str] | None:
    """Return the kinds of the values that a node makes, by name, or None if something may be wrong with them."""
    defined, made, good_tensors = scope.defined, dict[str, str](), scope.good["tensor"]
    for output in outputs:
        tensor = output.as_tensor
        if tensor is not None:
            name = tensor.name
            if (
                name in defined
                or name in made
                or name not in good_tensors
                or not walk.is_tensor_alone(output)
            ):
                return None
            made[name] = "tensor"
            continue
        variants = astuple(output)
        if variants.count(None) != _UNSET:
            return None
        integer, tensors = variants[_SYM_INT], variants[_TENSORS]
        if integer is not None and integer.as_int is None and integer.as_name is not None:
            given, kind = (integer.as_name,), "sym_int"
        elif tensors:
            given, kind = tuple([each.name for each in tensors]), "tensor"
        else:
            return None
        good = scope.good[kind]
        for name in given:
            if name in defined or name in made or name not in good:
                return None
            made[name] = kind
    return made


def _is_good_node(walk: Walk, scope: Scope, node: Node) -> bool:
    """Return True if a node is certainly valid, and False if `_check_node` must decide. Most nodes are certainly valid.

    Defines the results of a valid node. `_check_indices` checks stack traces and origins of all nodes together.
    """
    target = node.target
    if target not in walk.good_targets:
        if not is_operator_name(target):
            return False
        walk.good_targets.add(target)
    if node.propagate:
        return False
    inputs, defined = node.inputs, scope.defined
    given = tuple([named.name for named in inputs])
    if given not in walk.good_inputs and not _are_good_names(walk, given):
        return False
    seen = scope.seen
    for named in inputs:
        argument = named.arg
        if id(argument) not in seen and not _is_good_input(walk, defined, argument):
            return False
    metadata = node.metadata
    if metadata and (
        not _LOOKED_AT.isdisjoint(metadata) or has_unusual_line_ends(metadata.get("stack_trace", ""))
    ):
        return False
    made = _made_by(walk, scope, node.outputs)
    if made is None:
        return False
    name = node.name
    if name is not None and name not in made and name not in defined:
        if not is_value_name(name):
            return False
        scope.containers.add(name)
    defined.update(made)
    seen.update(map(id, node.outputs))
    return True


def _check_node(walk: Walk, scope: Scope, place: Place, node: Node, nesting: int) -> None:
    if node.target not in walk.good_targets:
        check_target(walk, (place, ".target"), node.target)
    given: set[str] = set()
    for index, named in enumerate(node.inputs):
        name, here = named.name, (place, ".inputs", index)
        if name in given:
            walk.report((here, ".name"), "duplicate", f"the input {quoted(name)} is given twice")
        if name:
            given.add(name)
            strict = named.kind == ArgumentKind.KEYWORD
            if not is_parameter_name(name, keyword=strict):
                walk.report((here, ".name"), "name", f"{quoted(name)} cannot name an argument")
        check_argument(walk, scope, (here, ".arg"), named.arg, nesting)
    if node.propagate:
        walk.use_feature("propagate", (place, ".propagate"))
        if not re.fullmatch(_OVERLOAD, node.target):
            fault = (
                f"a load cannot compute the metadata of {quoted(node.target)}: it is not an operator overload"
            )
            walk.report((place, ".propagate"), "propagate", fault)
        scope.propagating = True
    for index, output in enumerate(node.outputs):
        check_argument(walk, scope, (place, ".outputs", index), output, nesting, True)
    scope.propagating = False
    if node.name is not None and node.name not in scope.defined:
        walk.check_name((place, ".name"), node.name)
        scope.containers.add(node.name)
    if node.metadata:
        check_metadata(walk, (place, ".metadata"), node.metadata)


# ----------------------------------------------------------------------------------------------------------- graphs

_LOOKED_AT = frozenset(GRAMMARS)
"""The metadata keys that have a grammar to check. Stack traces are checked separately."""
_ELEMENT = r"(?:\[[0-9]{1,9}\])+\Z"
"""The end of a key of `value_metadata` that refers to an element of a node's results, or of a container among them."""


def _check_inputs(
    walk: Walk, scope: Scope, place: Place, graph: Graph, literals: Sequence[str | None], nesting: int
) -> None:
    given = graph.input_names
    if given is not None and len(given) != len(graph.inputs):
        message = f"there are {len(graph.inputs)} inputs and {len(given)} input names"
        walk.report((place, ".input_names"), "count", message)
    stated: Sequence[str | None] = literals if given is None else given
    defined, good = scope.defined, scope.good["tensor"]
    for index, argument in enumerate(graph.inputs):
        here = (place, ".inputs", index)
        name = stated[index] if index < len(stated) else None
        tensor = argument.as_tensor
        if (
            name is None
            and tensor is not None
            and tensor.name in good
            and tensor.name not in defined
            and walk.is_tensor_alone(argument)
        ):
            defined[tensor.name] = "tensor"
            scope.seen.add(id(argument))
            continue
        variant = variant_of(argument)
        if variant and VARIANTS[variant].is_container:
            walk.report(here, "misplaced", f"{variant} cannot be a graph's input")
            continue
        check_argument(walk, scope, here, argument, nesting, True)
        if name is None:
            continue
        if all(getattr(argument, variant) is None for variant in VALUE_VARIANTS):
            scope.define(walk, here, "literal", name)
        elif given is not None and name not in scope.defined:
            message = f"{quoted(name)} differs from the name in the input itself"
            walk.report((place, f".input_names[{index}]"), "mismatch", message)


def _check_targets(walk: Walk, place: Place, graph: Graph, inputs: Sequence[str]) -> None:
    """Check the argument names of inputs: torch writes them into the parameter list of generated code."""
    noted = {
        name: origin.target for name, origin in graph.value_metadata.items() if origin.target is not None
    }
    for name, target in noted.items():
        walk.check_name(((place, ".value_metadata", name), ".target"), target)
        if target != name and target in inputs:  # generated code would assign one input to the other
            message = f"the argument name {quoted(target)} is the name of another input"
            walk.report(((place, ".value_metadata", name), ".target"), "duplicate", message)
    if noted and len({noted.get(name, name) for name in inputs}) != len(inputs):
        walk.report((place, ".value_metadata"), "duplicate", "two inputs have the same argument name")


def check_graph(
    walk: Walk, place: Place, graph: Graph, nesting: int, literals: Sequence[str | None] = ()
) -> Scope:
    """Check a graph and the graphs inside it.

    Args:
        walk: the state of the validation.
        place: the place of the graph.
        graph: the graph.
        nesting: the number of enclosing arguments and graphs.
        literals: names by position of inputs that are literals, used if the graph has no `input_names`.

    Returns:
        The values that the graph defines.
    """
    scope = Scope(graph)
    scope.containers.update(
        origin.name for origin in graph.value_metadata.values() if origin.name is not None
    )
    _check_inputs(walk, scope, place, graph, literals, nesting)
    _check_targets(walk, place, graph, list(scope.defined))
    for index, node in enumerate(graph.nodes):
        if not _is_good_node(walk, scope, node):
            _check_node(walk, scope, (place, ".nodes", index), node, nesting)
    _check_indices(walk, place, graph.nodes)
    for index, output in enumerate(graph.outputs):
        check_argument(walk, scope, (place, ".outputs", index), output, nesting)
    if graph.is_single_tensor_return and len(graph.outputs) != 1:
        message = f"it returns its only output bare, and has {len(graph.outputs)} outputs"
        walk.report((place, ".is_single_tensor_return"), "count", message)
    scope.finish(walk)
    _check_values(walk, scope, place, graph)
    for key, origin in graph.value_metadata.items():
        here = (place, ".value_metadata", key)
        if key not in scope.defined:
            walk.check_name(here, re.sub(_ELEMENT, "", key))
        if origin.name is not None:
            walk.check_name((here, ".name"), origin.name)
        if origin.value is not None:
            check_meta(walk, (here, ".value"), origin.value)
        _check_origin(walk, here, origin)
    for name in graph.copies:
        here = (place, ".copies", name)
        walk.check_name(here, name)
        if name in scope.defined or name in scope.containers:
            walk.report(here, "duplicate", f"the node {quoted(name)} is already defined")
    if graph.output_metadata is not None:
        _check_origin(walk, (place, ".output_metadata"), graph.output_metadata)
    return scope


def _check_values(walk: Walk, scope: Scope, place: Place, graph: Graph) -> None:
    good = walk.good_metas
    for name, meta in graph.tensor_values.items():
        if id(meta) in good:
            continue
        before = len(walk.problems)
        if not is_usual_meta(walk, meta):
            check_meta(walk, (place, ".tensor_values", name), meta)
        if len(walk.problems) == before:
            good.add(id(meta))
    for name, composition in graph.compositions.items():
        here = (place, ".compositions", name)
        check_composition(walk, here, composition)
        if name not in graph.tensor_values:
            walk.report(here, "undefined-value", f"no input or node makes the tensor {quoted(name)}")
    for kind in ("sym_int", "sym_float", "sym_bool"):
        for name, value in scope.values[kind].items():
            check_symbol(walk, (place, f".{VALUE_TABLES[kind]}", name), value)
    for name, described in graph.custom_obj_values.items():
        check_class(walk, (place, ".custom_obj_values", name), described)
    for kind, table in scope.values.items():
        if {kind}.issuperset(map(scope.defined.get, table)):
            continue
        for name in table:
            if scope.defined.get(name) != kind:
                message = f"no input or node makes the {kind} value {quoted(name)}"
                walk.report((place, f".{VALUE_TABLES[kind]}", name), "undefined-value", message)
