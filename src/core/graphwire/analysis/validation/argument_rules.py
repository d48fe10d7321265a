"""Validation rules of one argument: exactly one variant is set, its references resolve, and the arguments inside it are valid.

A walk visits every argument of every node, so valid arguments must cost little: each lookup goes once through the rows of
variants, the frequent variants first, and the text of a place is only built to report a problem.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec.structs import astuple

from graphwire.analysis.validation.value_rules import (
    Place,
    Walk,
    are_value_names,
    check_class,
    check_device,
    check_target,
    is_identifier,
    is_own_path,
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
    VARIANTS,
    Argument,
    Graph,
    GraphArgument,
    Inside,
    TreespecArgument,
    by_variant,
)
from graphwire.schema.texts.treespec import parse_treespec


class Scope:
    """The values of one graph that are defined so far, by kind, and the references that are resolved at its end."""

    __slots__ = ("closed", "containers", "defined", "good", "propagating", "seen", "unresolved", "values")

    def __init__(self, graph: Graph | None) -> None:
        self.closed = graph is not None
        """Whether references are resolved here. They are not in module calls and example inputs."""
        self.defined: dict[str, str] = {}
        self.containers: set[str] = set()
        """The names of nodes so far that have several results, and of elements that are containers themselves."""
        self.propagating = False
        """Whether the current node may leave the metadata of its results to be computed by the reader (extension `propagate`)."""
        self.seen: set[int] = set()
        """Ids of valid arguments that define a value here. An encoder reuses the same record where the value is used."""
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
        _constant(walk, scope, place, value.name, nesting, defines)


def _constant(walk: Walk, scope: Scope, place: Place, value: Any, nesting: int, defines: bool) -> None:
    walk.check_path(place, value)
    if walk.constants is not None and value not in walk.constants:
        walk.report(place, "dangling-reference", f"no value and no constant is named {quoted(value)}")


def _own_constant(walk: Walk, scope: Scope, place: Place, value: Any, nesting: int, defines: bool) -> None:
    if not isinstance(value, str):
        walk.check_name((place, ".node"), value.node)
        value, place = value.name, (place, ".name")
    if not is_own_path(value.partition(".")[2]):
        walk.report(place, "name", f"{quoted(value)} cannot name an attribute of the graph's module")
    _constant(walk, scope, place, value, nesting, defines)


def _graph(walk: Walk, scope: Scope, place: Place, value: GraphArgument, nesting: int, defines: bool) -> None:
    if not is_value_name(value.name):
        walk.check_name((place, ".name"), value.name)
    if value.node is not None:
        walk.check_name((place, ".node"), value.node)
    if _is_nested(walk, place, nesting):
        walk.check_graph(walk, (place, ".graph"), value.graph, nesting)


def _is_nested(walk: Walk, place: Place, nesting: int) -> bool:
    """Return whether what is in an argument may be there; report it if there are too many arguments around it."""
    if nesting > walk.nesting:
        walk.report(place, "too-deep", f"arguments and graphs are nested deeper than {walk.nesting}")
    return nesting <= walk.nesting


def _inside(inside: Inside) -> Rule:
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
