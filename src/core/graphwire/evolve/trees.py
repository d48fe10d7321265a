"""Rewrites documents: pure functions from tree to tree that edit the few kinds of records a step changes.

Nothing is edited in place. A changed record and the records above it are new; all others are shared with the given tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from operator import is_
from typing import Any, TypeAlias

import msgspec

from graphwire.errors import Obstacle, shown
from graphwire.schema import INSIDE, TREES, VALUE_VARIANTS, step_text

MALFORMED = (KeyError, TypeError, AttributeError, IndexError, ValueError, ArithmeticError, RecursionError)
"""The errors that occur when a malformed tree is read as a record."""
OURS = "graphwire"
"""An obstacle's first target where no release of torch can express something."""
Record: TypeAlias = dict[str, Any]
"""The tree of one record."""
Node = Record
Report: TypeAlias = Callable[[Obstacle], None]
"""Receives each obstacle of a conversion to an older version."""


class Where(msgspec.Struct, frozen=True):
    """A place in a document; its texts are only made when something is reported."""

    parent: Where | None
    step: str
    place: int | None = None
    """The position, if the step is a list's."""
    owner: Node | None = None
    """The node that the place belongs to."""

    def at(self, step: str, index: int | None = None) -> Where:
        """Return a place inside this one."""
        return Where(self, step, index, self.owner)

    @property
    def node(self) -> str:
        """The label of the node that the place belongs to; empty outside of nodes."""
        return "" if self.owner is None else node_label(self.owner)

    @property
    def path(self) -> str:
        """The text of the place, such as `graph_module.graph.nodes[7].inputs[1].arg`."""
        steps: list[str] = []
        here: Where | None = self
        while here is not None:
            steps.append(here.step if here.place is None else f"{here.step}[{here.place}]")
            here = here.parent
        return "".join(reversed(steps)).removeprefix(".")


ROOT = Where(None, "")
Refuse: TypeAlias = Callable[[Where, str], None]
"""Reports a construct that an older version cannot express, at its place."""


def refusing(report: Report, first: str) -> Refuse:
    """Return the function that reports obstacles whose first target is `first`."""
    return lambda where, construct: report(Obstacle(where.path, where.node, construct, first))


Edit: TypeAlias = Callable[[Record, Where], Record | None]
"""Returns the record that replaces another; None where that one stays, as one that is only checked does."""


class Edits(msgspec.Struct, frozen=True):
    """The edit of each kind of record, inner records first; None for a kind that nothing edits."""

    argument: Edit | None = None
    node: Edit | None = None
    """Receives a node whose arguments are already edited."""
    graph: Edit | None = None
    """Receives a graph whose nodes are already edited."""
    tensor_meta: Edit | None = None
    sym_int: Edit | None = None
    """A size, stride, offset or symbolic value."""
    sym_float: Edit | None = None
    sym_bool: Edit | None = None
    input_spec: Edit | None = None
    output_spec: Edit | None = None
    call: Edit | None = None
    """The signature of a module call."""


def rewrite(program: Record, edits: Edits) -> Record:
    """Apply `edits` everywhere in a program (schema 1 or later)."""
    module, place = dict(program["graph_module"]), ROOT.at(".graph_module")
    module["graph"] = _graph(edits, module["graph"], place.at(".graph"))
    signature = module.get("signature")
    if signature is not None and "input_specs" in signature:
        sides = (("input_specs", edits.input_spec), ("output_specs", edits.output_spec))
        here = place.at(".signature")
        specs = {
            side: _each(signature[side], partial(_spec, edits, edit), here, f".{side}")
            for side, edit in sides
        }
        module["signature"] = {**signature, **specs}
    entries = module.get("module_call_graph")
    if entries and (edits.call or edits.argument):
        module["module_call_graph"] = _each(entries, partial(_entry, edits), place, ".module_call_graph")
    program = {**program, "graph_module": module}
    if edits.argument and (examples := program.get("example_inputs")) and isinstance(examples, dict):
        leaves = _each(examples["leaves"], partial(_argument, edits), ROOT.at(".example_inputs"), ".leaves")
        program["example_inputs"] = {**examples, "leaves": leaves}
    return program


def _each(records: list[Record], edit: Edit, where: Where, field: str) -> list[Record]:
    """Edit the records of a list in a field of `where`; the same list if none changes."""
    return _changed(
        records, [edit(record, where.at(field, index)) or record for index, record in enumerate(records)]
    )


def _changed(old: list[Record], new: list[Record]) -> list[Record]:
    """Return `new`, or `old` if its records are the same ones: a version shares with the next what no step edits."""
    return old if all(map(is_, new, old)) else new


def _values(graph: Record, table: str, edit: Edit, where: Where) -> None:
    """Edit the records of a table of a graph, which is a copy."""
    graph[table] = {
        name: edit(value, where.at(f".{table}[{name!r}]")) or value for name, value in graph[table].items()
    }


def _graph(edits: Edits, graph: Record, where: Where) -> Record:
    graph = dict(graph)
    every = edits.argument is not None or edits.node is not None
    graph["nodes"] = [
        _node(edits, node, Where(where, ".nodes", index, node)) if every or _has_subgraph(node) else node
        for index, node in enumerate(graph["nodes"])
    ]
    if edits.argument:
        for side in ("inputs", "outputs"):
            graph[side] = _each(graph[side], partial(_argument, edits), where, f".{side}")
    if edits.tensor_meta or edits.sym_int:
        _values(graph, "tensor_values", partial(_tensor_value, edits), where)
    for kind in ("sym_int", "sym_float", "sym_bool"):
        edit = getattr(edits, kind)
        if edit and graph.get(f"{kind}_values"):
            _values(graph, f"{kind}_values", edit, where)
    return (edits.graph(graph, where) or graph) if edits.graph else graph


def _has_subgraph(node: Record) -> bool:
    return any("as_graph" in named["arg"] for named in node["inputs"])


def _node(edits: Edits, node: Record, where: Where) -> Record:
    if edits.argument or _has_subgraph(node):
        inputs = _changed(
            node["inputs"],
            [
                _named(edits, named, where.at(".inputs", index))
                if edits.argument or "as_graph" in named["arg"]
                else named
                for index, named in enumerate(node["inputs"])
            ],
        )
        if inputs is not node["inputs"]:
            node = {**node, "inputs": inputs}
    if edits.argument:
        outputs = _each(node["outputs"], partial(_argument, edits), where, ".outputs")
        if outputs is not node["outputs"]:
            node = {**node, "outputs": outputs}
    return (edits.node(node, where) or node) if edits.node else node


def _named(edits: Edits, named: Record, where: Where) -> Record:
    argument = _argument(edits, named["arg"], where.at(".arg"))
    return named if argument is named["arg"] else {**named, "arg": argument}


def _argument(edits: Edits, argument: Record, where: Where) -> Record:
    variant = variant_of(argument)
    if variant == "as_graph":
        held = argument[variant]
        graph = _graph(edits, held["graph"], where.at(".as_graph.graph"))
        argument = {**argument, variant: {**held, "graph": graph}}
    elif (inside := INSIDE.get(variant)) is not None:
        below = where.at(f".{variant}")
        old = [item for _, item in inside.taken(TREES, argument[variant])]
        items = [
            _argument(edits, item, below.at(step_text(step)))
            for step, item in inside.taken(TREES, argument[variant])
        ]
        if not all(map(is_, items, old)):
            argument = {**argument, variant: inside.put(TREES, argument[variant], items)}
    return (edits.argument(argument, where) or argument) if edits.argument else argument


def _tensor_value(edits: Edits, value: Record, where: Where) -> Record:
    if "meta" in value:  # schema 1 wraps it
        return {**value, "meta": _tensor_value(edits, value["meta"], where.at(".meta"))}
    if edit := edits.sym_int:
        extents = ("sizes", "strides")
        edited: Record = {field: _each(value[field], edit, where, f".{field}") for field in extents}
        if isinstance(offset := value["storage_offset"], dict):
            edited["storage_offset"] = edit(offset, where.at(".storage_offset")) or offset
        if any(held is not value[field] for field, held in edited.items()):
            value = {**value, **edited}
    return (edits.tensor_meta(value, where) or value) if edits.tensor_meta else value


def _spec(edits: Edits, edit: Edit | None, spec: Record, where: Where) -> Record:
    if edits.argument:
        for variant in ("user_input", "user_output"):
            if (user := spec.get(variant)) is not None:
                spec = {
                    **spec,
                    variant: {**user, "arg": _argument(edits, user["arg"], where.at(f".{variant}.arg"))},
                }
    return (edit(spec, where) or spec) if edit else spec


def _entry(edits: Edits, entry: Record, where: Where) -> Record:
    signature = entry.get("signature")
    if signature is None:
        return entry
    where = where.at(".signature")
    if edits.argument:
        edit, sides = partial(_argument, edits), ("inputs", "outputs")
        signature = {**signature, **{side: _each(signature[side], edit, where, f".{side}") for side in sides}}
    return {**entry, "signature": (edits.call(signature, where) or signature) if edits.call else signature}


# ------------------------------------------------------------------------------------------------ reading records


def variant_of(union: Record) -> str:
    """Return the variant of a union that is set, or an empty text. Files of torch 2.1 and 2.2 write the others as null.

    Raises:
        ValueError: two are set. A step would keep one of them, where every reader of later schemas refuses the union.
    """
    found = [variant for variant, value in union.items() if value is not None]
    if len(found) > 1:
        raise ValueError(f"a value has the variants {shown(found[0])} and {shown(found[1])}")
    return found[0] if found else ""


def name_of(argument: Record) -> str | None:
    """Return the name of the value that an argument refers to or defines; None for a literal or list."""
    variant = variant_of(argument)
    if variant not in VALUE_VARIANTS:
        return None
    content = argument[variant]
    name = content.get("name", content.get("as_name"))
    return name if isinstance(name, str) else None


def node_label(node: Record) -> str:
    """Return the label of a node in messages: its name, its first value's name, or its target."""
    named = (name_of(output) for output in node["outputs"])
    return str(node.get("name") or next((name for name in named if name), node["target"]))


def arguments_of(node: Record) -> list[Record]:
    """Return the arguments of a node, in order."""
    return [named["arg"] for named in node["inputs"]]


def treespecs(program: Record) -> Iterator[tuple[Where, str]]:
    """Return the texts of the tree specs of module calls (`in_spec`, `out_spec`), each with its place."""
    for index, entry in enumerate(program["graph_module"]["module_call_graph"]):
        for side in ("in_spec", "out_spec"):
            if text := (entry.get("signature") or {}).get(side):
                where = ROOT.at(f".graph_module.module_call_graph[{index}].signature").at(f".{side}")
                yield where, text


# ------------------ edits that several schema steps use: of a union's variant, of an expression, of some fields of a record


SureEdit: TypeAlias = Callable[[Record, Where], Record]
"""An edit that always returns a record."""


def variant_edit(variant: str, change: Callable[[Any], Record]) -> SureEdit:
    """Return an edit that replaces a union by `change` of the content of one variant; unions with another variant stay."""

    def edit(union: Record, where: Where) -> Record:
        return change(union[variant]) if variant_of(union) == variant else union

    return edit


def expression_edit(convert: Callable[[str], str]) -> SureEdit:
    """Return an edit of a symbolic value that converts the text of its expression."""
    return variant_edit(
        "as_expr", lambda value: {"as_expr": {**value, "expr_str": convert(value["expr_str"])}}
    )


def without(record: Record, *fields: str) -> Record:
    """Return a record without some of its fields."""
    return {key: value for key, value in record.items() if key not in fields}


def with_module(program: Record, **fields: Any) -> Record:
    """Return a program with other fields of its graph module."""
    return {**program, "graph_module": {**program["graph_module"], **fields}}
