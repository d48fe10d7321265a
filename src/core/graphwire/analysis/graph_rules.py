"""The rules of one graph: its arguments, its values, and the references between them.

A walk visits every argument of every node, so what it does for a good document is kept small: names, targets, devices and
expressions that were found good are remembered, and a place is only written out when there is a problem to report.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

from msgspec.structs import astuple

from graphwire.analysis import names
from graphwire.analysis.names import is_value_name, quoted
from graphwire.analysis.value_rules import (
    check_class,
    check_composition,
    check_device,
    check_indices,
    check_meta,
    check_metadata,
    check_symbol,
    check_target,
    has_other_line_ends,
    is_usual_meta,
)
from graphwire.analysis.walk import Place, Walk, report_arms
from graphwire.schema.graph import (
    ARGUMENT_ARMS,
    Argument,
    ArgumentKind,
    Graph,
    GraphArgument,
    Node,
    TreespecArgument,
    ValueMetadata,
)
from graphwire.schema.metadata import GRAMMARS
from graphwire.schema.symbols import SymBool, SymFloat, SymInt
from graphwire.schema.treespec import parse_treespec

__all__ = ["Scope", "check_argument", "check_graph"]

_OVERLOAD = re.compile(r"torch\.ops\.(?!higher_order\.|prim\.)\w+\.\w+\.\w+", re.ASCII)
"""The serialized name of an operator that may have a fake kernel."""


class Scope:
    """One graph's values: those defined so far, by kind, and the references that wait for its end."""

    __slots__ = ("closed", "containers", "defined", "good", "propagating", "seen", "unresolved", "values")

    def __init__(self, graph: Graph | None) -> None:
        self.closed = graph is not None
        """Whether references are resolved here; they are not in a module call or an example input."""
        self.defined: dict[str, str] = {}
        self.containers: set[str] = set()
        """The names of nodes so far that have several results, and of elements that are containers themselves."""
        self.propagating = False
        """Whether the values of the node in hand may be left for the reader to find (extension `propagate`)."""
        self.seen: set[int] = set()
        """Good arguments that define a value here, by their id: an encoder gives the same record to who uses the value."""
        self.unresolved: list[tuple[Place | None, str]] = []
        self.values: dict[str, Mapping[str, Any]] = {}
        if graph is not None:
            self.values = {
                "tensor": graph.tensor_values,
                "sym_int": graph.sym_int_values,
                "sym_float": graph.sym_float_values,
                "sym_bool": graph.sym_bool_values,
                "custom_obj": graph.custom_obj_values,
            }
        self.good: dict[str, Mapping[str, Any]] = {
            kind: self.values[kind]
            if kind in self.values and names.are_value_names(self.values[kind])
            else {}
            for kind in ("tensor", "sym_int")
        }
        """By kind: the names that the graph says something of, where all of them can name a value."""

    def define(self, walk: Walk, place: Place | None, kind: str, name: str) -> None:
        if name in self.defined:
            walk.report(place, "duplicate", f"the value {quoted(name)} was defined before")
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


# --------------------------------------------------------------------------------------------------- argument arms

Rule = Callable[[Walk, Scope, Any, Any, int, bool], None]
"""(walk, scope, place of the arm, the arm's value, nesting, whether its names are defined here rather than used)."""


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
            report_arms(walk, place, value)
        if name is not None:
            _name(walk, scope, place, kind, name, defines)

    return check_symbolic


def _optional_tensor(walk: Walk, scope: Scope, place: Place, value: Any, nesting: int, defines: bool) -> None:
    if (value.as_tensor is None) == (value.as_none is None):
        report_arms(walk, place, value)
    if value.as_tensor is not None:
        _name(walk, scope, place, "tensor", value.as_tensor.name, defines)


def _custom_obj(walk: Walk, scope: Scope, place: Place, value: Any, nesting: int, defines: bool) -> None:
    check_class(walk, place, value)
    if defines or value.name in scope.defined or not scope.closed:
        _name(walk, scope, place, "custom_obj", value.name, defines)
    else:
        _constant(walk, scope, place, value.name, nesting, defines)


def _constant(walk: Walk, scope: Scope, place: Place, value: Any, nesting: int, defines: bool) -> None:
    walk.check_path(place, value)
    if walk.constants is not None and value not in walk.constants:
        walk.report(place, "dangling-reference", f"no value and no constant is named {quoted(value)}")


def _own_constant(walk: Walk, scope: Scope, place: Place, value: Any, nesting: int, defines: bool) -> None:
    if not isinstance(value, str):
        walk.check_name((place, ".node"), value.node)
        value, place = value.name, (place, ".name")
    if not names.is_own_path(value.partition(".")[2]):
        walk.report(place, "name", f"{quoted(value)} cannot name a constant of the graph's own")
    _constant(walk, scope, place, value, nesting, defines)


def _graph(walk: Walk, scope: Scope, place: Place, value: GraphArgument, nesting: int, defines: bool) -> None:
    if not is_value_name(value.name):
        walk.check_name((place, ".name"), value.name)
    if value.node is not None:
        walk.check_name((place, ".node"), value.node)
    check_graph(walk, (place, ".graph"), value.graph, nesting)


def _operator(walk: Walk, scope: Scope, place: Place, value: str, nesting: int, defines: bool) -> None:
    check_target(walk, place, value)


def _device(walk: Walk, scope: Scope, place: Place, value: Any, nesting: int, defines: bool) -> None:
    check_device(walk, place, value)


def _items(walk: Walk, scope: Scope, place: Place, value: Any, nesting: int, defines: bool) -> None:
    for index, item in enumerate(value.items):
        check_argument(walk, scope, (place, f".items[{index}]"), item, nesting, defines)


def _entries(walk: Walk, scope: Scope, place: Place, value: Any, nesting: int, defines: bool) -> None:
    for index, entry in enumerate(value):
        check_argument(walk, scope, (place, f"[{index}].key"), entry.key, nesting, False)
        check_argument(walk, scope, (place, f"[{index}].value"), entry.value, nesting, defines)


def _text_entries(walk: Walk, scope: Scope, place: Place, value: Any, nesting: int, defines: bool) -> None:
    for key, item in value.items():
        check_argument(walk, scope, (place, f"[{quoted(key)}]"), item, nesting, defines)


def _slice(walk: Walk, scope: Scope, place: Place, value: Any, nesting: int, defines: bool) -> None:
    for part in ("start", "stop", "step"):
        check_argument(walk, scope, (place, f".{part}"), getattr(value, part), nesting, defines)


def _type_name(walk: Walk, scope: Scope, place: Place, value: str, nesting: int, defines: bool) -> None:
    if not value.isidentifier() or len(value) > names.MAX_NAME:
        walk.report(place, "element-type", f"{quoted(value)} cannot name an element type or layout")


def _treespec(
    walk: Walk, scope: Scope, place: Place, value: str | TreespecArgument, nesting: int, defines: bool
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
        message = f"no node before this point is {quoted(value)} with several results"
        walk.report(place, "dangling-reference", message)


class _Arm(NamedTuple):
    rule: Rule | None = None
    feature: str = ""
    """The extension that a document with this arm requires."""
    defines: bool = True
    """Whether the arm can be a graph's input or a node's output."""


_SYM_INT = _symbolic("sym_int", "as_int")
_SYM_FLOAT = _symbolic("sym_float", "as_float")
_SYM_BOOL = _symbolic("sym_bool", "as_bool")

_ARMS: Final[dict[str, _Arm]] = {
    "as_tensor": _Arm(_tensor),
    "as_int": _Arm(),
    "as_ints": _Arm(),
    "as_float": _Arm(),
    "as_bool": _Arm(),
    "as_sym_int": _Arm(_SYM_INT),
    "as_scalar_type": _Arm(),
    "as_device": _Arm(_device),
    "as_tensors": _Arm(_each(_tensor)),
    "as_sym_ints": _Arm(_each(_SYM_INT)),
    "as_none": _Arm(),
    "as_string": _Arm(),
    "as_graph": _Arm(_graph, defines=False),
    "as_sym_bool": _Arm(_SYM_BOOL),
    "as_sym_float": _Arm(_SYM_FLOAT),
    "as_optional_tensors": _Arm(_each(_optional_tensor)),
    "as_optional_tensor": _Arm(_optional_tensor),
    "as_custom_obj": _Arm(_custom_obj),
    "as_operator": _Arm(_operator, defines=False),
    "as_memory_format": _Arm(),
    "as_layout": _Arm(),
    "as_floats": _Arm(),
    "as_bools": _Arm(),
    "as_strings": _Arm(),
    "as_sym_bools": _Arm(_each(_SYM_BOOL)),
    "as_sym_floats": _Arm(_each(_SYM_FLOAT)),
    "as_complex": _Arm(),
    "as_nested_tensors": _Arm(_each(_each(_tensor))),
    "as_int_lists": _Arm(),
    "as_float_lists": _Arm(),
    "as_string_to_argument": _Arm(_text_entries),
    "as_sequence": _Arm(_items, "sequences"),
    "as_mapping": _Arm(_entries, "mappings"),
    "as_slice": _Arm(_slice, "slices"),
    "as_dtype_name": _Arm(_type_name, "dtypes"),
    "as_layout_name": _Arm(_type_name, "layouts"),
    "as_constant": _Arm(_own_constant, "constants", defines=False),
    "as_treespec": _Arm(_treespec, "treespecs", defines=False),
    "as_results": _Arm(_results, "results", defines=False),
}
"""What is checked of each arm; the frequent ones first."""

_LITERALS = [ARGUMENT_ARMS.index(name) for name, row in _ARMS.items() if row.rule is None and not row.feature]
"""The positions of arms of which there is nothing to check."""
_ARM_ROWS = tuple((ARGUMENT_ARMS.index(name), name, row) for name, row in _ARMS.items())
_UNSET = len(ARGUMENT_ARMS) - 1
_TENSOR = ARGUMENT_ARMS.index("as_tensor")
_ONE_SYM_INT, _SYM_INTS, _TENSORS, _DEVICE_ARM = map(
    ARGUMENT_ARMS.index, ("as_sym_int", "as_sym_ints", "as_tensors", "as_device")
)
_is_literal = itemgetter(*_LITERALS)


def check_argument(
    walk: Walk, scope: Scope, place: Place, argument: Argument, nesting: int, defines: bool = False
) -> None:
    arms = astuple(argument)
    if arms.count(None) != _UNSET:
        report_arms(walk, place, argument)
    elif arms[_TENSOR] is not None:
        _name(walk, scope, place, "tensor", arms[_TENSOR].name, defines)
    else:
        for index, name, row in _ARM_ROWS:
            value = arms[index]
            if value is None:
                continue
            if row.feature:
                walk.use_feature(row.feature, place)
            if defines and not row.defines:
                walk.report(place, "misplaced", f"{name} can be neither a graph's input nor a node's output")
            elif row.rule is not None and nesting >= walk.nesting:
                walk.report(place, "too-deep", f"arguments and graphs are nested deeper than {walk.nesting}")
            elif row.rule is not None:
                row.rule(walk, scope, (place, f".{name}"), value, nesting + 1, defines)
            return


# ----------------------------------------------------------------------------------------------- metadata and nodes


def _check_origin(walk: Walk, place: Place, owner: ValueMetadata) -> None:
    if owner.metadata:
        check_metadata(walk, (place, ".metadata"), owner.metadata)
    check_indices(walk, place, "stack", owner.stack, walk.frames, "stack_frames")
    check_indices(walk, place, "from_node", owner.from_node, walk.sources, "node_sources")


def _check_indices(walk: Walk, place: Place, nodes: Sequence[Node]) -> None:
    """Check where the stack traces and origins of nodes stand in their tables: all together, and each only to tell which."""
    stacks = [each for node in nodes if (each := node.stack)]
    origins = [each for node in nodes if (each := node.from_node)]
    for lists, end in ((stacks, walk.frames), (origins, walk.sources)):
        if lists and not 0 <= min(map(min, lists)) <= max(map(max, lists)) < end:
            break
    else:
        return
    for index, node in enumerate(nodes):
        here = (place, ".nodes", index)
        check_indices(walk, here, "stack", node.stack, walk.frames, "stack_frames")
        check_indices(walk, here, "from_node", node.from_node, walk.sources, "node_sources")


def _check_input_name(walk: Walk, place: Place, name: str, kind: ArgumentKind | None) -> None:
    if names.is_parameter_name(name, keyword=True):
        walk.good_keywords.add(name)
    elif kind == ArgumentKind.KEYWORD or not names.is_parameter_name(name, keyword=False):
        walk.report((place, ".name"), "name", f"{quoted(name)} cannot name an argument")


def _is_good_input(walk: Walk, defined: Mapping[str, str], argument: Argument) -> bool:
    """Whether nothing is wrong with an argument of a node; False also where it takes a closer look to tell."""
    arms = astuple(argument)
    if arms.count(None) != _UNSET:
        return False
    tensor = arms[_TENSOR]
    if tensor is not None:
        return defined.get(tensor.name) == "tensor"
    if _is_literal(arms).count(None) != len(_LITERALS):
        return True
    integers = arms[_SYM_INTS] or ((arms[_ONE_SYM_INT],) if arms[_ONE_SYM_INT] is not None else ())
    for integer in integers:
        name = integer.as_name
        if (name is None) == (integer.as_int is None) or (
            name is not None and defined.get(name) != "sym_int"
        ):
            return False
    if integers:
        return True
    tensors = arms[_TENSORS]
    if tensors:
        return {defined.get(each.name) for each in tensors} == {"tensor"}
    device = arms[_DEVICE_ARM]
    return device is not None and (device.type, device.index) in walk.good_devices


def _are_good_names(walk: Walk, given: tuple[str, ...]) -> bool:
    """Whether the inputs of a node can have these names, which are remembered then."""
    named = [name for name in given if name]
    known = walk.good_keywords
    for name in named:
        if name not in known:
            if not names.is_parameter_name(name, keyword=True):
                return False
            known.add(name)
    if len(set(named)) != len(named):
        return False
    walk.good_inputs.add(given)
    return True


def _made_by(scope: Scope, outputs: Sequence[Argument]) -> dict[str, str] | None:
    """The kinds of the values that a node makes, by name; None where something may be wrong with them."""
    defined, made = scope.defined, dict[str, str]()
    for output in outputs:
        arms = astuple(output)
        if arms.count(None) != _UNSET:
            return None
        tensor, integer, tensors = arms[_TENSOR], arms[_ONE_SYM_INT], arms[_TENSORS]
        if tensor is not None:
            given, kind = (tensor.name,), "tensor"
        elif integer is not None and integer.as_int is None and integer.as_name is not None:
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
    """Whether nothing is wrong with a node, as with most: then its results are defined. False also where `_check_node` has
    to look closer to tell. Stack traces and origins are looked at for all nodes together."""
    target = node.target
    if target not in walk.good_targets:
        if not names.is_operator_name(target):
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
        not _LOOKED_AT.isdisjoint(metadata) or has_other_line_ends(metadata.get("stack_trace", ""))
    ):
        return False
    made = _made_by(scope, node.outputs)
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
        name = named.name
        if name:
            if name in given:
                walk.report(
                    ((place, ".inputs", index), ".name"),
                    "duplicate",
                    f"the input {quoted(name)} is given twice",
                )
            given.add(name)
            if name not in walk.good_keywords:
                _check_input_name(walk, (place, ".inputs", index), name, named.kind)
        arms = astuple(named.arg)
        tensor = arms[_TENSOR]
        if tensor is not None and arms.count(None) == _UNSET and scope.defined.get(tensor.name) == "tensor":
            continue  # as most inputs are, and nothing is wrong with them
        check_argument(walk, scope, ((place, ".inputs", index), ".arg"), named.arg, nesting)
    if node.propagate:
        walk.use_feature("propagate", (place, ".propagate"))
        if not _OVERLOAD.fullmatch(node.target):
            walk.report(
                (place, ".propagate"),
                "propagate",
                f"results of {quoted(node.target)} cannot be found at load: it is no overload of a library",
            )
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

_NAMED_ARMS = ("as_tensor", "as_sym_int", "as_sym_float", "as_sym_bool", "as_custom_obj")
"""The arms by which a graph's input carries its name; the other inputs are literals."""

_LOOKED_AT = frozenset(GRAMMARS)
"""The metadata of which something is checked, beside stack traces."""
_ELEMENT = re.compile(r"\[[0-9]{1,9}\]\Z")
"""The end of a key of `value_metadata` that means an element of a node's results."""


def _check_inputs(
    walk: Walk, scope: Scope, place: Place, graph: Graph, literals: Sequence[str | None], nesting: int
) -> None:
    given = graph.input_names
    if given is not None and len(given) != len(graph.inputs):
        message = f"there are {len(graph.inputs)} inputs and {len(given)} names of them"
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
            and astuple(argument).count(None) == _UNSET
        ):
            defined[tensor.name] = "tensor"
            scope.seen.add(id(argument))
            continue
        check_argument(walk, scope, here, argument, nesting, True)
        if name is None:
            continue
        if all(getattr(argument, arm) is None for arm in _NAMED_ARMS):
            scope.define(walk, here, "literal", name)
        elif given is not None and name not in scope.defined:
            message = f"{quoted(name)} is not the name that the input itself carries"
            walk.report((place, f".input_names[{index}]"), "mismatch", message)


def _check_targets(walk: Walk, place: Place, graph: Graph, inputs: Sequence[str]) -> None:
    """Check the names that inputs have as arguments: they are written into code, next to each other."""
    noted = {
        name: origin.target for name, origin in graph.value_metadata.items() if origin.target is not None
    }
    for name, target in noted.items():
        walk.check_name(((place, ".value_metadata", name), ".target"), target)
    if noted:
        targets = [noted.get(name, name) for name in inputs]
        if len(set(targets)) != len(targets):
            walk.report((place, ".value_metadata"), "duplicate", "two inputs are arguments of one name")


def check_graph(
    walk: Walk, place: Place, graph: Graph, nesting: int, literals: Sequence[str | None] = ()
) -> Scope:
    """Check a graph and the graphs inside it.

    Args:
        walk: the validation that this is part of.
        place: the graph's own.
        graph: the graph.
        nesting: how many arguments and graphs this one lies in.
        literals: names of the inputs that carry none, by position, where the graph itself does not say them.

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
        if nesting >= walk.nesting or not _is_good_node(walk, scope, node):
            _check_node(walk, scope, (place, ".nodes", index), node, nesting)
    _check_indices(walk, place, graph.nodes)
    for index, output in enumerate(graph.outputs):
        check_argument(walk, scope, (place, ".outputs", index), output, nesting)
    scope.finish(walk)
    _check_values(walk, scope, place, graph)
    for key, origin in graph.value_metadata.items():
        here = (place, ".value_metadata", key)
        if key not in scope.defined:
            walk.check_name(here, _ELEMENT.sub("", key))
        if origin.name is not None:
            walk.check_name((here, ".name"), origin.name)
        if origin.value is not None:
            check_meta(walk, (here, ".value"), origin.value)
        _check_origin(walk, here, origin)
    for name in graph.copies:
        here = (place, ".copies", name)
        walk.check_name(here, name)
        if name in scope.defined or name in scope.containers:
            walk.report(here, "duplicate", f"the node {quoted(name)} was defined before")
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
            walk.report(here, "undefined-value", f"nothing makes the tensor {quoted(name)}")
    symbolic: dict[str, Mapping[str, SymInt | SymFloat | SymBool]] = {
        "sym_int": graph.sym_int_values,
        "sym_float": graph.sym_float_values,
        "sym_bool": graph.sym_bool_values,
    }
    for kind, symbols in symbolic.items():
        for name, value in symbols.items():
            check_symbol(walk, (place, f".{kind}_values", name), value)
    for name, described in graph.custom_obj_values.items():
        check_class(walk, (place, ".custom_obj_values", name), described)
    for kind, table in scope.values.items():
        if {kind}.issuperset(map(scope.defined.get, table)):
            continue
        for name in table:
            if scope.defined.get(name) != kind:
                walk.report(
                    (place, f".{kind}_values", name),
                    "undefined-value",
                    f"no input or node makes the {kind} value {quoted(name)}",
                )
