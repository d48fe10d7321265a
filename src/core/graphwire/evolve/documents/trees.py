"""Rewrites documents: pure functions from tree to tree that edit the few kinds of records a step changes.

Nothing is edited in place. A changed record and the records above it are new; all others are shared with the given tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from graphwire.errors import Obstacle
from graphwire.schema import INSIDE, TREES, VALUE_ARMS, step_text
from graphwire.schema.texts import TreeSpec, parse_treespec

MALFORMED = (KeyError, TypeError, AttributeError, IndexError, ValueError, ArithmeticError, RecursionError)
"""The errors that occur when a malformed tree is read as a record."""
OURS = "graphwire"
"""An obstacle's first target where no release of torch can express something."""
Record: TypeAlias = dict[str, Any]
"""The tree of one record."""
Node = Record
Report: TypeAlias = Callable[[Obstacle], None]
"""Receives each obstacle of a step down."""


class Where(NamedTuple):
    """A place in a document; its text is only made when something is reported."""

    parent: Where | None
    step: str
    node: str = ""
    """The node that the place belongs to."""

    def at(self, step: str) -> Where:
        """Return a place inside this one."""
        return Where(self, step, self.node)

    @property
    def path(self) -> str:
        """The text of the place, such as `graph_module.graph.nodes[7].inputs[1].arg`."""
        steps: list[str] = []
        place: Where | None = self
        while place is not None:
            steps.append(place.step)
            place = place.parent
        return "".join(reversed(steps)).removeprefix(".")

    def obstacle(self, construct: str, first: str) -> Obstacle:
        """Return an obstacle at this place."""
        return Obstacle(self.path, self.node, construct, first)


Edit: TypeAlias = Callable[[Record, Where], Record]

ROOT = Where(None, "")


@dataclass(frozen=True, slots=True)
class Edits:
    """The edit of each kind of record, inner records first; None for a kind that stays unchanged."""

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
    program: Edit | None = None


def rewrite(program: Record, edits: Edits) -> Record:
    """Apply `edits` everywhere in a program (schema 1 or later)."""
    module = dict(program["graph_module"])
    place = Where(ROOT, ".graph_module")
    module["graph"] = rewrite_graph(module["graph"], edits, place.at(".graph"))
    signature = module.get("signature")
    if signature is not None and "input_specs" in signature:
        module["signature"] = _signature(signature, edits, place.at(".signature"))
    entries = module.get("module_call_graph")
    if entries and (edits.call or edits.argument):
        module["module_call_graph"] = [
            _entry(entry, edits, place.at(f".module_call_graph[{index}]"))
            for index, entry in enumerate(entries)
        ]
    program = {**program, "graph_module": module}
    if edits.argument and (examples := program.get("example_inputs")) and isinstance(examples, dict):
        here = ROOT.at(".example_inputs")
        program["example_inputs"] = {
            **examples,
            "leaves": _arguments(examples["leaves"], edits, here, ".leaves"),
        }
    return edits.program(program, ROOT) if edits.program else program


def rewrite_graph(graph: Record, edits: Edits, where: Where) -> Record:
    """Apply `edits` to a graph and the graphs inside it."""
    graph = dict(graph)
    graph["nodes"] = [
        _node(node, edits, Where(where, f".nodes[{index}]", node_label(node)))
        for index, node in enumerate(graph["nodes"])
    ]
    if edits.argument:
        for side in ("inputs", "outputs"):
            graph[side] = _arguments(graph[side], edits, where, f".{side}")
    if edits.tensor_meta or edits.sym_int:
        graph["tensor_values"] = {
            name: _tensor_value(value, edits, where.at(f".tensor_values[{name!r}]"))
            for name, value in graph["tensor_values"].items()
        }
    for table, edit in (
        ("sym_int_values", edits.sym_int),
        ("sym_float_values", edits.sym_float),
        ("sym_bool_values", edits.sym_bool),
    ):
        if edit and graph.get(table):
            graph[table] = {
                name: edit(value, where.at(f".{table}[{name!r}]")) for name, value in graph[table].items()
            }
    return edits.graph(graph, where) if edits.graph else graph


def _node(node: Record, edits: Edits, where: Where) -> Record:
    inputs = node["inputs"]
    edited = [
        {**named, "arg": _argument(named["arg"], edits, where.at(f".inputs[{index}].arg"))}
        if edits.argument or "as_graph" in named["arg"]
        else named
        for index, named in enumerate(inputs)
    ]
    node = {**node, "inputs": edited}
    if edits.argument:
        node["outputs"] = _arguments(node["outputs"], edits, where, ".outputs")
    return edits.node(node, where) if edits.node else node


def _arguments(arguments: list[Record], edits: Edits, where: Where, field: str) -> list[Record]:
    return [_argument(each, edits, where.at(f"{field}[{index}]")) for index, each in enumerate(arguments)]


def _argument(argument: Record, edits: Edits, where: Where) -> Record:
    arm = arm_of(argument)
    if arm == "as_graph":
        held = argument[arm]
        graph = rewrite_graph(held["graph"], edits, where.at(".as_graph.graph"))
        argument = {**argument, arm: {**held, "graph": graph}}
    elif (inside := INSIDE.get(arm)) is not None:
        below = where.at(f".{arm}")
        items = [
            _argument(item, edits, below.at(step_text(step)))
            for step, item in inside.taken(TREES, argument[arm])
        ]
        argument = {**argument, arm: inside.put(TREES, argument[arm], items)}
    return edits.argument(argument, where) if edits.argument else argument


def _tensor_value(value: Record, edits: Edits, where: Where) -> Record:
    if "meta" in value:  # schema 1 wraps it
        return {**value, "meta": _tensor_value(value["meta"], edits, where.at(".meta"))}
    if edit := edits.sym_int:
        value = {
            **value,
            "sizes": [edit(size, where.at(f".sizes[{index}]")) for index, size in enumerate(value["sizes"])],
            "strides": [
                edit(stride, where.at(f".strides[{index}]")) for index, stride in enumerate(value["strides"])
            ],
        }
        if isinstance(value["storage_offset"], dict):
            value["storage_offset"] = edit(value["storage_offset"], where.at(".storage_offset"))
    return edits.tensor_meta(value, where) if edits.tensor_meta else value


def _signature(signature: Record, edits: Edits, where: Where) -> Record:
    result = {}
    for side, edit in (("input_specs", edits.input_spec), ("output_specs", edits.output_spec)):
        result[side] = [
            _spec(spec, edits, edit, where.at(f".{side}[{index}]"))
            for index, spec in enumerate(signature[side])
        ]
    return {**signature, **result}


def _spec(spec: Record, edits: Edits, edit: Edit | None, where: Where) -> Record:
    if edits.argument:
        for arm in ("user_input", "user_output"):
            if (user := spec.get(arm)) is not None:
                spec = {**spec, arm: {**user, "arg": _argument(user["arg"], edits, where.at(f".{arm}.arg"))}}
    return edit(spec, where) if edit else spec


def _entry(entry: Record, edits: Edits, where: Where) -> Record:
    signature = entry.get("signature")
    if signature is None:
        return entry
    where = where.at(".signature")
    if edits.argument:
        signature = {
            **signature,
            **{side: _arguments(signature[side], edits, where, f".{side}") for side in ("inputs", "outputs")},
        }
    return {**entry, "signature": edits.call(signature, where) if edits.call else signature}


# ------------------------------------------------------------------------------------------------ reading records


def arm_of(union: Record) -> str:
    """Return the arm of a union that is set, or an empty text. Files of torch 2.1 and 2.2 write the others as null."""
    for arm, value in union.items():
        if value is not None:
            return arm
    return ""


def name_of(argument: Record) -> str | None:
    """Return the name of the value that an argument refers to or defines; None for a literal or list."""
    arm = arm_of(argument)
    if arm not in VALUE_ARMS:
        return None
    content = argument[arm]
    name = content.get("name", content.get("as_name"))
    return name if isinstance(name, str) else None


def node_label(node: Record) -> str:
    """Return the label of a node in messages: its name, its first value's name, or its target."""
    named = (name_of(output) for output in node["outputs"])
    return str(node.get("name") or next((name for name in named if name), node["target"]))


def arguments_of(node: Record) -> list[Record]:
    """Return the arguments of a node, in order."""
    return [named["arg"] for named in node["inputs"]]


def subgraphs(node: Record) -> Iterator[Record]:
    """Return the graphs that a node receives as arguments, in order."""
    for argument in arguments_of(node):
        if (inner := argument.get("as_graph")) is not None:
            yield inner["graph"]


def treespecs(program: Record) -> Iterator[tuple[Where, TreeSpec]]:
    """Return the tree specs of the inputs (`in_spec`) and outputs (`out_spec`) of module calls, each with its place."""
    for index, entry in enumerate(program["graph_module"]["module_call_graph"]):
        for side in ("in_spec", "out_spec"):
            if text := (entry.get("signature") or {}).get(side):
                where = ROOT.at(f".graph_module.module_call_graph[{index}].signature").at(f".{side}")
                yield where, parse_treespec(text)
