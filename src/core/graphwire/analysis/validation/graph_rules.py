"""Validation rules of one graph: its nodes and their arguments, its inputs and outputs, and the metadata of its values.

A walk visits every argument of every node, so valid documents must cost little: valid names, targets, devices and
expressions are cached, each lookup goes once through the rows of variants, the frequent ones first, and the text of a place is
only built to report a problem.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any, Final

from msgspec.structs import astuple

from graphwire import schema
from graphwire.analysis.validation.value_rules import (
    Place,
    Walk,
    are_value_names,
    check_class,
    check_composition,
    check_device,
    check_indices,
    check_meta,
    check_metadata,
    check_symbol,
    check_target,
    is_identifier,
    is_operator_name,
    is_own_path,
    is_parameter_name,
    is_usual_meta,
    is_value_name,
    quoted,
    report_variants,
)
from graphwire.schema import (
    ARGUMENT_VARIANTS,
    FREQUENT_FIRST,
    INSIDE,
    RECORDS,
    VALUE_TABLES,
    VALUE_VARIANTS,
    VARIANTS,
    Argument,
    ArgumentKind,
    by_variant,
    variant_of,
)
from graphwire.schema.texts.metadata import GRAMMARS
from graphwire.schema.texts.treespec import parse_treespec


class Scope:
    """The values of one graph that are defined so far, by kind, and the references that are resolved at its end."""

    __slots__ = ("closed", "containers", "defined", "good", "propagating", "unresolved", "values")

    def __init__(self, graph: schema.Graph | None) -> None:
        self.closed = graph is not None
        """Whether references are resolved here. They are not in module calls and example inputs."""
        self.defined: dict[str, str] = {}
        self.containers: set[str] = set()
        """The names of nodes so far that have several results, and of elements that are containers themselves."""
        self.propagating = False
        """Whether the current node may leave the metadata of its results to be computed by the reader (extension `propagate`)."""
        self.unresolved: list[tuple[Place | None, str]] = []
        self.values: dict[str, Mapping[str, Any]] = {}
        if graph is not None:
            self.values = {kind: getattr(graph, field) for kind, field in VALUE_TABLES.items()}
        self.good: dict[str, Mapping[str, Any]] = {
            kind: self.values[kind] if kind in self.values and are_value_names(self.values[kind]) else {}
            for kind in ("tensor", "sym_int")
        }
        """The graph's values by kind; empty for a kind in which a name is not a valid value name."""

    def define(self, walk: Walk, place: Place | None, kind: str, name: str) -> None:
        if name in self.defined:
            walk.report(place, "duplicate", f"the value {quoted(name)} is already defined")
        self.defined[name] = kind
        if not is_value_name(name):
            walk.check_name(place, name)
        if self.closed and kind != "literal" and name not in self.values[kind] and not self.propagating:
            walk.report(place, "missing-value", f"{kind}_values has no entry for the value {quoted(name)}")

    def use(self, walk: Walk, place: Place | None, kind: str, name: str) -> None:
        found = self.defined.get(name)
        if found == kind:
            return
        if not self.closed:
            walk.check_name(place, name)
        elif found is None:
            self.unresolved.append((place, name))
        else:
            walk.report(place, "wrong-kind", f"{quoted(name)} is a {found} value, used as a {kind}")

    def finish(self, walk: Walk) -> None:
        for place, name in self.unresolved:
            if name in self.defined:
                walk.report(place, "use-before-definition", f"the value {quoted(name)} is only defined later")
            else:
                walk.report(place, "dangling-reference", f"no value of this graph is named {quoted(name)}")


# --------------------------------------------------------------------------------------------------- argument variants

Rule = Callable[[Walk, Scope, Any, Any, int, bool], None]
"""Checks one variant: (walk, scope, place of the variant, its value, nesting, whether it defines its names or uses them)."""


def _name(walk: Walk, scope: Scope, place: Place, kind: str, name: str, defines: bool) -> None:
    (scope.define if defines else scope.use)(walk, place, kind, name)


def _tensor(walk: Walk, scope: Scope, place: Place, value: Any, nesting: int, defines: bool) -> None:
    _name(walk, scope, place, "tensor", value.name, defines)


def _each(rule: Rule) -> Rule:
    def check_each(walk: Walk, scope: Scope, place: Place, value: Any, nesting: int, defines: bool) -> None:
        for index, item in enumerate(value):
            rule(walk, scope, (place, "", index), item, nesting, defines)

    return check_each


def _symbolic(kind: str, literal: str) -> Rule:
    def check_symbolic(
        walk: Walk, scope: Scope, place: Place, value: Any, nesting: int, defines: bool
    ) -> None:
        name, constant = value.as_name, getattr(value, literal)
        if (name is None) == (constant is None):
            report_variants(walk, place, value)
        if name is not None:
            _name(walk, scope, place, kind, name, defines)

    return check_symbolic


def _optional_tensor(walk: Walk, scope: Scope, place: Place, value: Any, nesting: int, defines: bool) -> None:
    if (value.as_tensor is None) == (value.as_none is None):
        report_variants(walk, place, value)
    if value.as_tensor is not None:
        _name(walk, scope, place, "tensor", value.as_tensor.name, defines)


def _custom_obj(walk: Walk, scope: Scope, place: Place, value: Any, nesting: int, defines: bool) -> None:
    check_class(walk, place, value)
    if defines or value.name in scope.defined or not scope.closed:
        _name(walk, scope, place, "custom_obj", value.name, defines)
    else:
        walk.check_path(place, value.name)


def _own_constant(walk: Walk, scope: Scope, place: Place, value: Any, nesting: int, defines: bool) -> None:
    if not isinstance(value, str):
        walk.check_name((place, ".node"), value.node)
        value, place = value.name, (place, ".name")
    if not is_own_path(value.partition(".")[2]):
        walk.report(place, "name", f"{quoted(value)} cannot name an attribute of the graph's module")
    walk.check_path(place, value)


def _graph(
    walk: Walk, scope: Scope, place: Place, value: schema.GraphArgument, nesting: int, defines: bool
) -> None:
    if not is_value_name(value.name):
        walk.check_name((place, ".name"), value.name)
    if value.node is not None:
        walk.check_name((place, ".node"), value.node)
    if _is_nested(walk, place, nesting):
        check_graph(walk, (place, ".graph"), value.graph, nesting)


def _is_nested(walk: Walk, place: Place, nesting: int) -> bool:
    """Return whether what is in an argument may be there; report it if there are too many arguments around it."""
    if nesting > _MOST_NESTING:
        walk.report(place, "too-deep", f"arguments and graphs are nested deeper than {_MOST_NESTING}")
    return nesting <= _MOST_NESTING


_MOST_NESTING = 100
"""The largest depth of arguments inside arguments and graphs inside graphs."""


def _inside(inside: schema.Inside) -> Rule:
    def check_inside(walk: Walk, scope: Scope, place: Place, value: Any, nesting: int, defines: bool) -> None:
        for step, item in inside.taken(RECORDS, value):
            if not _is_nested(walk, place, nesting):
                break
            check_argument(walk, scope, (place, *step), item, nesting, defines)

    return check_inside


def _entries(walk: Walk, scope: Scope, place: Place, value: Any, nesting: int, defines: bool) -> None:
    for index, entry in enumerate(value):
        if not _is_nested(walk, place, nesting):
            break
        check_argument(walk, scope, (place, f"[{index}].key"), entry.key, nesting, False)
        check_argument(walk, scope, (place, f"[{index}].value"), entry.value, nesting, defines)


def _type_name(walk: Walk, scope: Scope, place: Place, value: str, nesting: int, defines: bool) -> None:
    if not is_identifier(value):
        walk.report(place, "element-type", f"{quoted(value)} cannot name an element type or layout")


def _treespec(
    walk: Walk, scope: Scope, place: Place, value: str | schema.TreespecArgument, nesting: int, defines: bool
) -> None:
    if isinstance(value, str):
        walk.check_text(place, "treespec", parse_treespec, value)
        return
    walk.check_name((place, ".name"), value.name)
    if value.node is not None:
        walk.check_name((place, ".node"), value.node)
    walk.check_text((place, ".spec"), "treespec", parse_treespec, value.spec)


def _results(walk: Walk, scope: Scope, place: Place, value: str, nesting: int, defines: bool) -> None:
    if value not in scope.containers:
        message = f"no earlier node with several results is named {quoted(value)}"
        walk.report(place, "dangling-reference", message)


RULES: Final[dict[str, Rule]] = by_variant(
    {
        "as_tensor": _tensor,
        "as_sym_int": _symbolic("sym_int", "as_int"),
        "as_sym_float": _symbolic("sym_float", "as_float"),
        "as_sym_bool": _symbolic("sym_bool", "as_bool"),
        "as_optional_tensor": _optional_tensor,
        "as_custom_obj": _custom_obj,
        "as_device": lambda walk, scope, place, value, nesting, defines: check_device(walk, place, value),
        "as_operator": lambda walk, scope, place, value, nesting, defines: check_target(walk, place, value),
        "as_graph": _graph,
        **{variant: _inside(inside) for variant, inside in INSIDE.items()},
        "as_mapping": _entries,
        "as_dtype_name": _type_name,
        "as_layout_name": _type_name,
        "as_constant": _own_constant,
        "as_treespec": _treespec,
        "as_results": _results,
    },
    _each,
)
"""The rule for the content of each variant. Variants without a rule need no check."""

_VARIANTS = tuple(
    (ARGUMENT_VARIANTS.index(variant), variant, RULES.get(variant), VARIANTS[variant])
    for variant in FREQUENT_FIRST
)
_UNSET = len(ARGUMENT_VARIANTS) - 1
_TENSOR = ARGUMENT_VARIANTS.index("as_tensor")


def check_argument(
    walk: Walk, scope: Scope, place: Place, argument: Argument, nesting: int, defines: bool = False
) -> None:
    variants = astuple(argument)
    if variants.count(None) != _UNSET:
        report_variants(walk, place, argument)
    elif variants[_TENSOR] is not None:
        _name(walk, scope, place, "tensor", variants[_TENSOR].name, defines)
    else:
        for index, name, rule, row in _VARIANTS:
            value = variants[index]
            if value is None:
                continue
            if row.feature:
                walk.use_feature(row.feature, place)
            if defines and not row.defines:
                walk.report(place, "misplaced", f"{name} can be neither a graph's input nor a node's output")
            elif rule is not None:
                rule(walk, scope, (place, f".{name}"), value, nesting + 1, defines)
            return


_OVERLOAD = r"(?a)torch\.ops\.(?!higher_order\.|prim\.)\w+\.\w+\.\w+"
"""The serialized name of an operator that may have a fake kernel."""

_LITERALS = [
    index
    for index, variant in enumerate(ARGUMENT_VARIANTS)
    if variant not in RULES and not VARIANTS[variant].feature
]
"""The positions of variants that need no check."""
_is_literal = itemgetter(*_LITERALS)
_name_of = attrgetter("name")

_SYM_INT, _SYM_INTS, _TENSORS, _DEVICE = map(
    ARGUMENT_VARIANTS.index, ("as_sym_int", "as_sym_ints", "as_tensors", "as_device")
)


# ----------------------------------------------------------------------------------------------- metadata and nodes


def _check_origin(walk: Walk, place: Place, owner: schema.ValueMetadata) -> None:
    if owner.metadata:
        check_metadata(walk, (place, ".metadata"), owner.metadata)
    check_indices(walk, place, owner)


def _check_indices(walk: Walk, place: Place, nodes: Sequence[schema.Node]) -> None:
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
    """Return True if a node's argument, other than one tensor, is certainly valid, and False if `check_argument` must decide."""
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
            if not (is_value_name(name) or is_parameter_name(name, keyword=True)):
                return False
            known.add(name)
    if len(set(named)) != len(named):
        return False
    walk.good_inputs.add(given)
    return True


def _made_by(walk: Walk, scope: Scope, outputs: Sequence[Argument]) -> dict[str, str] | None:
    """Return the kinds of the values that a node makes, by name, or None if something may be wrong with them."""
    defined, alone = scope.defined, walk.alone
    made: dict[str, str] = {}
    for output in outputs:
        tensor = alone.as_tensor = output.as_tensor
        if tensor is not None:
            name = tensor.name
            if name in defined or name in made or name not in scope.good["tensor"] or output != alone:
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


def _is_good_node(walk: Walk, scope: Scope, node: schema.Node) -> bool:
    """Return True if a node is certainly valid, and False if `_check_node` must decide. Most nodes are certainly valid.

    Defines the results of a valid node. `_check_indices` checks stack traces and origins of all nodes together.
    """
    target = node.target
    if target not in walk.calls:
        if not is_operator_name(target):
            return False
        walk.calls[target] = node
    if node.propagate:
        return False
    inputs, outputs, defined, alone = node.inputs, node.outputs, scope.defined, walk.alone
    if id(inputs) not in walk.sound:
        given = tuple(map(_name_of, inputs))
        if given not in walk.good_inputs and not _are_good_names(walk, given):
            return False
        for named in inputs:
            argument = named.arg
            tensor = alone.as_tensor = argument.as_tensor
            if tensor is None:
                if not _is_good_input(walk, defined, argument):
                    return False
            elif argument != alone or defined.get(tensor.name) != "tensor":
                return False
    metadata = node.metadata
    if metadata and not _LOOKED_AT.isdisjoint(metadata):
        return False
    if "stack_trace" in metadata and ("\r" in (trace := metadata["stack_trace"]) or "\0" in trace):
        return False
    name = node.name
    if len(outputs) == 1 and (tensor := outputs[0].as_tensor) is not None and tensor.name == name:
        alone.as_tensor = tensor  # the common case
        if name in defined or name not in scope.good["tensor"] or outputs[0] != alone:
            return False
        defined[name] = "tensor"
        return True
    made = _made_by(walk, scope, outputs)
    if made is None:
        return False
    if name is not None and name not in made and name not in defined:
        if not is_value_name(name):
            return False
        scope.containers.add(name)
    defined.update(made)
    return True


def _check_node(walk: Walk, scope: Scope, place: Place, node: schema.Node, nesting: int) -> None:
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
_NUMBERS = frozenset({"as_sym_int", "as_sym_float", "as_sym_bool"})
_ELEMENT = r"(?:\[[0-9]{1,9}\])+\Z"
"""The end of a key of `value_metadata` that refers to an element of a node's results, or of a container among them."""


def _check_inputs(
    walk: Walk, scope: Scope, place: Place, graph: schema.Graph, literals: Sequence[str | None], nesting: int
) -> None:
    given = graph.input_names
    if given is not None and len(given) != len(graph.inputs):
        message = f"there are {len(graph.inputs)} inputs and {len(given)} input names"
        walk.report((place, ".input_names"), "count", message)
    stated: Sequence[str | None] = literals if given is None else given
    defined, good, alone = scope.defined, scope.good["tensor"], walk.alone
    for index, argument in enumerate(graph.inputs):
        here = (place, ".inputs", index)
        name = stated[index] if index < len(stated) else None
        tensor = alone.as_tensor = argument.as_tensor
        if (
            name is None
            and tensor is not None
            and tensor.name in good
            and tensor.name not in defined
            and argument == alone
        ):
            defined[tensor.name] = "tensor"
            continue
        variant = variant_of(argument)
        number = getattr(argument, variant) if variant in _NUMBERS else None
        if variant and (VARIANTS[variant].is_container or (number is not None and number.as_name is None)):
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


def _check_targets(walk: Walk, place: Place, graph: schema.Graph, inputs: Sequence[str]) -> None:
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
    walk: Walk, place: Place, graph: schema.Graph, nesting: int, literals: Sequence[str | None] = ()
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
    readers = {key: origin.name for key, origin in graph.value_metadata.items() if origin.name is not None}
    _check_inputs(walk, scope, place, graph, literals, nesting)
    _check_targets(walk, place, graph, list(scope.defined))
    for index, node in enumerate(graph.nodes):
        if not _is_good_node(walk, scope, node):
            _check_node(walk, scope, (place, ".nodes", index), node, nesting)
        if readers and node.name is not None:
            _note_readers(scope, node, readers)
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
    for name, copy in graph.copies.items():
        here = (place, ".copies", name)
        walk.check_name(here, name)
        walk.check_name((here, ".of"), copy.of)
        if name in scope.defined or name in scope.containers:
            walk.report(here, "duplicate", f"the node {quoted(name)} is already defined")
    if graph.output_metadata is not None:
        _check_origin(walk, (place, ".output_metadata"), graph.output_metadata)
    return scope


def _note_readers(scope: Scope, node: schema.Node, readers: Mapping[str, str]) -> None:
    """Note the nodes that read an element of a node's results which is no value, but a container or a literal."""
    alone = node.outputs[0] if len(node.outputs) == 1 else Argument()
    rest = [(node.name, node.outputs), (node.name, _elements(alone, variant_of(alone)))]
    for key, elements in rest:  # grows while it is walked
        for index, element in enumerate(elements):
            here, variant = f"{key}[{index}]", variant_of(element)
            if variant not in VALUE_VARIANTS and here in readers:
                scope.containers.add(readers[here])
            if inner := _elements(element, variant):
                rest.append((here, inner))


def _elements(held: Argument, variant: str) -> list[Argument]:
    if held.as_mapping is not None:
        return [entry.value for entry in held.as_mapping]
    return (
        [item for _, item in INSIDE[variant].taken(RECORDS, getattr(held, variant))]
        if variant in INSIDE
        else []
    )


def _check_values(walk: Walk, scope: Scope, place: Place, graph: schema.Graph) -> None:
    good = walk.good_metas
    for name, meta in graph.tensor_values.items():
        if id(meta) in good:
            continue
        if not is_usual_meta(walk, meta):
            before = len(walk.problems)
            check_meta(walk, (place, ".tensor_values", name), meta)
            if len(walk.problems) > before:
                continue
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
