"""The editor with which an opset upgrader rewrites one node.

An upgrader is a function that receives a `NodeEditor`. It reads the node by parameter names and writes plain values:

    def split(edit: NodeEditor) -> None:
        unit = edit.emit("torch.ops.lib.unit.default", {"x": edit.value("x"), "eps": edit.value("eps", 1e-6)})
        edit.retarget("torch.ops.lib.project.default", {"x": unit, "weight": edit.value("weight")})

The node keeps the names and descriptions of its outputs unless the upgrader changes them. The description of a new value is
given (`like=`, `known=`), or found when the program is loaded, by running the node on metadata (extension `propagate`).
Records are never changed: the walk makes new ones, and shares those that stay. The cost is linear in the number of nodes and
arguments.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from graphwire import schema
from graphwire.errors import GraphwireError, OpsetError, Problem, exception_text, shown, unless_interrupted
from graphwire.evolve.plain_values import (
    Value,
    decode_value,
    defined_values,
    encode_value,
    map_argument,
    rename_in_module,
)
from graphwire.evolve.planner import EditNode
from graphwire.schema import (
    VALUE_TABLES,
    Argument,
    ArgumentKind,
    Graph,
    NamedArgument,
    Node,
    Program,
    TensorMeta,
)
from graphwire.schema.texts.infix import format_infix
from graphwire.schema.texts.operations import parse_expression

# --------------------------------------------- the state of one graph during a rewrite: its new nodes, tables and names
# Torch-free, linear in the graph's size.


_RESERVED = frozenset(
    [*keyword.kwlist, *dir(builtins), *"self torch device inf nan NoneType fx_pytree pytree".split()]
)
"""Names with a meaning in the code that torch generates from a graph (`torch/fx/graph.py`)."""


class GraphRewrite:
    """The result of one walk over a graph so far. Records of the old graph are shared, never changed."""

    def __init__(self, graph: Graph, reserved: Iterable[str]) -> None:
        self._graph = graph
        self._reserved = reserved
        self._nodes: list[Node] = []
        self._changed = False
        self._tables: dict[str, dict[str, Any]] = {}
        self._names: set[str] | None = None
        self._next: dict[str, int] = {}
        self._new_names: dict[str, str] = {}
        self._lost: dict[str, Value] = {}
        """Values that no node makes any more, by name."""
        self._rewritten: set[str] = set()
        """The names of values whose nodes were rewritten."""

    # ------------------------------------------------------------------------------------------------------- nodes

    def renamed(self, node: Node, change: Callable[[str, Graph], Graph], place: str) -> Node:
        """Rename the values that a node uses and change its subgraphs; return the same node where nothing differs."""
        inputs: list[NamedArgument] | None = None
        for index, named in enumerate(node.inputs):
            argument = map_argument(named.arg, self._new_names, change, f"{place}.inputs[{index}].arg")
            if argument is not named.arg:
                inputs = list(node.inputs) if inputs is None else inputs
                inputs[index] = replace(named, arg=argument)
        return node if inputs is None else replace(node, inputs=inputs)

    def keep(self, node: Node) -> None:
        """Append a node unchanged."""
        # Before the first change, the nodes so far are those of the old graph, one for one.
        self._changed = self._changed or node is not self._graph.nodes[len(self._nodes)]
        self._nodes.append(node)

    def put(self, nodes: Sequence[Node], old: Node) -> None:
        """Append nodes in place of `old`."""
        self._changed = True
        self._nodes += nodes
        made = {value.name for node in nodes for output in node.outputs for value in defined_values(output)}
        for output in old.outputs:
            values = list(defined_values(output))
            self._rewritten.update(value.name for value in values)
            self._lost.update((value.name, value) for value in values if value.name not in made)

    def finish(self, place: str, problems: list[Problem]) -> tuple[Graph, Mapping[str, str]]:
        """Return the new graph, and the new names of values that others replaced.

        Args:
            place: the graph's own place.
            problems: receives each use of a value that no node makes any more.
        """
        if not self._changed:
            return self._graph, {}
        graph = self._graph
        outputs = [
            map_argument(output, self._new_names, lambda _, below: below, f"{place}.outputs[{index}]")
            for index, output in enumerate(graph.outputs)
        ]
        for value in self._lost.values():
            self.forget(value)
        if missing := self._lost.keys() - self._new_names.keys():
            self._report_uses(missing, outputs, place, problems)
        metadata = {k: v for k, v in graph.value_metadata.items() if k not in self._lost}
        compositions = {k: v for k, v in graph.compositions.items() if k not in self._rewritten}
        changed = {"nodes": self._nodes, "outputs": outputs, **self._tables}
        graph = replace(graph, value_metadata=metadata, compositions=compositions, **changed)
        return graph, self._new_names

    def _report_uses(
        self, missing: Iterable[str], outputs: Sequence[Any], place: str, problems: list[Problem]
    ) -> None:
        """Report each use of values that no node makes any more: rename those values; an argument that changes uses one."""
        rename = {name: f"{name}_" for name in missing}
        uses = [
            (f"{place}.nodes ({node.name or node.target})", named.arg)
            for node in self._nodes
            for named in node.inputs
        ]
        uses += [(f"{place}.outputs", output) for output in outputs]
        for here, argument in uses:
            if map_argument(argument, rename, lambda _, below: below, here) is not argument:
                message = f"it uses one of {', '.join(sorted(rename))}, which an upgrader removed"
                problems.append(Problem(here, "removed", message))

    # ------------------------------------------------------------------------------------------------------- values

    def known(self, value: Value) -> Any:
        """Return the graph's description of a value; None if it has none."""
        return self._table(value.kind).get(value.name)

    def declare(self, value: Value, known: Any) -> None:
        """Set the description of a value."""
        self._own_table(value.kind)[value.name] = known

    def forget(self, value: Value) -> None:
        """Delete the description of a value."""
        if value.name in self._table(value.kind):
            del self._own_table(value.kind)[value.name]

    def _table(self, kind: str) -> dict[str, Any]:
        field = VALUE_TABLES[kind]
        table: dict[str, Any] = self._tables.get(field, getattr(self._graph, field))
        return table

    def _own_table(self, kind: str) -> dict[str, Any]:
        field = VALUE_TABLES[kind]
        if field not in self._tables:
            self._tables[field] = dict(getattr(self._graph, field))
        return self._tables[field]

    # -------------------------------------------------------------------------------------------------------- names

    def rename(self, value: Value, by: Value) -> None:
        """Let later nodes use `by` where they used `value`.

        Raises:
            TypeError: the values are of different kinds.
        """
        if value.kind != by.kind:
            raise TypeError(f"{value.name!r} is a {value.kind} value, which a {by.kind} value cannot replace")
        if value.name != by.name:
            self._new_names[value.name] = by.name

    def fresh(self, stem: str) -> str:
        """Return an unused name: `stem`, or the first of `stem_1`, `stem_2` …"""
        if self._names is None:
            self._names = _names_of(self._graph) | set(self._reserved)
        name, number = stem, self._next.get(stem, 0)
        while name in self._names or name in _RESERVED:
            number += 1
            name = f"{stem}_{number}"
        self._next[stem] = number
        self._names.add(name)
        return name


def _names_of(graph: Graph) -> set[str]:
    """Return every name in use in the graph: of values, nodes, and the attributes they read."""
    names = {*graph.value_metadata, *(graph.input_names or ())}
    for field in VALUE_TABLES.values():
        names.update(getattr(graph, field))
    for argument in graph.inputs:
        names.update(value.name for value in defined_values(argument))
    for node in graph.nodes:
        if node.name is not None:
            names.add(node.name)
        for output in node.outputs:
            names.update(value.name for value in defined_values(output))
        for named in node.inputs:
            if named.arg.as_graph is not None:
                names |= {named.arg.as_graph.name, named.arg.as_graph.node or named.arg.as_graph.name}
    return names


Known: TypeAlias = TensorMeta | schema.SymInt | schema.SymFloat | schema.SymBool | schema.CustomObjArgument
"""A graph's description of a value."""

Result: TypeAlias = "Value | Known | str"
"""A result of an emitted node.

It is an output of the edited node, which the new node makes from now on; the description of a new value; or the kind of a new
value (`tensor`, `sym_int` …) without a description.
"""

_MISSING: Any = object()
_KINDS: dict[type, str] = {
    TensorMeta: "tensor",
    schema.SymInt: "sym_int",
    schema.SymFloat: "sym_float",
    schema.SymBool: "sym_bool",
    schema.CustomObjArgument: "custom_obj",
}


def _checked(value: Any, kind: type | tuple[type, ...], what: str) -> Any:
    """Return an argument of a method, whose type is wrong only if the upgrader is."""
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{what} is {shown(value)}")
    return value


def _value(value: Any) -> Value:
    if not isinstance(value, Value) or type(value.name) is not str:
        raise TypeError(f"a value of the graph is expected, not {shown(value)}")
    return value


class NodeEditor:
    """One node of a graph and its edits. The walk makes it; an upgrader must not keep it.

    Its methods raise `TypeError` or `ValueError` for what no node can have, which is a defect of the upgrader, and `OpsetError`
    where it cannot rewrite this node.
    """

    def __init__(self, rewrite: GraphRewrite, node: Node, place: str) -> None:
        self.place = place
        """The node's place, such as `graph_module.graph.nodes[7]`."""
        self._rewrite = rewrite
        self._node = replace(node, inputs=list(node.inputs), outputs=list(node.outputs))
        self._before: list[Node] = []
        self._after: list[Node] = []
        self._removed = False
        self._original = self.outputs

    # ---------------------------------------------------------------------------------------------------- reading

    @property
    def target(self) -> str:
        """The serialized name of the node's operator."""
        return self._node.target

    @property
    def name(self) -> str:
        """The node's name; empty where the document gives none."""
        return self._node.name or ""

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The values that the node makes, in order."""
        return tuple(value for output in self._node.outputs for value in defined_values(output))

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the given arguments; an empty text for a positional one without a name."""
        return tuple(named.name for named in self._node.inputs)

    def has(self, parameter: str | int) -> bool:
        """Report whether an argument is given, by its name or by its position among those without one."""
        return self._position(parameter) is not None

    def argument(self, parameter: str | int) -> Argument | None:
        """Return the record of an argument; None where it is not given."""
        position = self._position(parameter)
        return None if position is None else self._node.inputs[position].arg

    def value(self, parameter: str | int, default: Any = _MISSING) -> Any:
        """Return the plain value of an argument (`evolve.plain_values`): a literal, a `Value`, or a list of them.

        Args:
            parameter: its name in the operator's schema, or its position among those without one.
            default: the operator's default for an argument that is not given.

        Raises:
            OpsetError: the argument is not given, and there is no default.
        """
        argument = self.argument(parameter)
        if argument is not None:
            return decode_value(argument)
        if default is _MISSING:
            self.refuse(f"{self.target} has no argument {parameter!r} here")
        return default

    def known(self, value: Value) -> Any:
        """Return the graph's description of a value: a `TensorMeta`, `SymInt` …; None for one that is only found at load."""
        return self._rewrite.known(value)

    def tensor(self, value: Any) -> TensorMeta:
        """Return the description of a tensor.

        Raises:
            OpsetError: the value is not a tensor, or its description is only found at load.
        """
        if not isinstance(value, Value) or value.kind != "tensor":
            self.refuse(f"a tensor is expected, not {value!r:.80}")
        known = self.known(value)
        if known is None:
            self.refuse(f"nothing is known of {value.name!r} before the program is loaded")
        meta: TensorMeta = known
        return meta

    def dtype(self, value: Any) -> str:
        """Return a tensor's element type by torch's name, such as `float32`. Raises as `tensor` does."""
        return self.tensor(value).dtype_text

    def sizes(self, value: Any) -> list[int | str]:
        """Return a tensor's sizes in elements; a symbolic one as an expression such as `2*s0`. Raises as `tensor` does."""
        sizes: list[int | str] = []
        for size in self.tensor(value).sizes:
            if size.as_expr is not None:
                sizes.append(format_infix(parse_expression(size.as_expr.expr_str)))
            elif size.as_int is not None:
                sizes.append(size.as_int)
        return sizes

    def device(self, value: Any) -> str:
        """Return a tensor's device, such as `cpu` or `cuda:0`. Raises as `tensor` does."""
        device = self.tensor(value).device
        return device.type if device.index is None else f"{device.type}:{device.index}"

    # -------------------------------------------------------------------------------------------------- arguments

    def set(self, parameter: str | int, value: Any, *, keyword: bool | None = None) -> None:
        """Set an argument: replace its value, or add it after the others.

        Args:
            parameter: its name in the operator's schema, or its position among those without one.
            value: a plain value, a `Value`, or an `Argument`.
            keyword: whether a new one is passed by name; None leaves that to the operator's schema.
        """
        position = self._position(parameter)
        if position is not None:
            old = self._node.inputs[position]
            self._node.inputs[position] = self._named(old.name, value, old.kind)
            return
        if isinstance(parameter, int):
            raise ValueError(f"{self.target} has no argument at position {parameter} here")
        kind = None if keyword is None else ArgumentKind.KEYWORD if keyword else ArgumentKind.POSITIONAL
        self._node.inputs.append(self._named(parameter, value, kind))

    def default(self, parameter: str, value: Any, *, keyword: bool | None = None) -> None:
        """Set an argument that is not given, such as to its old default where the operator's default changed."""
        if not self.has(parameter):
            self.set(parameter, value, keyword=keyword)

    def rename(self, parameter: str, new: str) -> None:
        """Rename an argument; do nothing where it is not given."""
        position = self._position(parameter)
        if position is not None:
            name = _checked(new, str, "the new name of a parameter")
            self._node.inputs[position] = replace(self._node.inputs[position], name=name)

    def drop(self, parameter: str | int) -> None:
        """Remove an argument; do nothing where it is not given."""
        position = self._position(parameter)
        if position is not None:
            del self._node.inputs[position]

    # ------------------------------------------------------------------------------------------------------ nodes

    def retarget(self, target: str, inputs: Mapping[str, Any] | Sequence[Any] | None = None) -> None:
        """Let the node call another operator. Its outputs keep their names and descriptions.

        Args:
            target: the serialized name.
            inputs: all its arguments, by parameter name or, for an operator without a schema, by position; None keeps the
                present ones.
        """
        self._node.target = _checked(target, str, "the name of an operator")
        if inputs is not None:
            self._node.inputs = self._inputs(inputs, {})

    def emit(
        self,
        target: str,
        inputs: Mapping[str, Any] | Sequence[Any],
        *,
        keywords: Mapping[str, Any] | None = None,
        like: Value | None = None,
        known: Known | None = None,
        makes: Value | None = None,
        after: bool = False,
    ) -> Value:
        """Add a node with one result, before this one.

        Args:
            target: the serialized name of its operator.
            inputs: its arguments, by parameter name or, for an operator without a schema, by position.
            keywords: more arguments, each passed by name.
            like: a value that the result equals in type, shape and device.
            known: another description of the result. Without `like` and `known`, a tensor's is found at load (extension
                `propagate`).
            makes: an output of this node, which the new one makes from now on, under the same name.
            after: whether to add it after this node instead.

        Returns:
            The result.

        Raises:
            OpsetError: the arguments cannot be written.
        """
        alike = "tensor" if like is None else self.known(like) or like.kind
        result: Result = makes or known or alike
        return self.emit_all(target, inputs, [result], keywords=keywords, after=after)[0]

    def emit_all(
        self,
        target: str,
        inputs: Mapping[str, Any] | Sequence[Any],
        results: Sequence[Result],
        *,
        keywords: Mapping[str, Any] | None = None,
        listed: bool = False,
        after: bool = False,
    ) -> tuple[Value, ...]:
        """Add a node with any number of results. Its arguments are those of `emit`.

        Args:
            results: the results, in order.
            listed: whether the operator returns them as one `Tensor[]`.
        """
        stem = _stem(_checked(target, str, "the name of an operator"))
        single = len(results) == 1 and not listed
        named = "" if single else self._rewrite.fresh(stem)
        made, unstated = self._results(results, stem if single else "getitem")
        node = Node(
            target=target,
            inputs=self._inputs(inputs, keywords or {}),
            outputs=_outputs(made, listed),
            metadata=dict(self._node.metadata),
            name=named or made[0].name,
            stack=self._node.stack,
            from_node=self._node.from_node,
            propagate=unstated,
        )
        (self._after if after else self._before).append(node)
        return made

    def set_outputs(self, results: Sequence[Result], *, listed: bool = False) -> tuple[Value, ...]:
        """Replace the outputs of the node: outputs that it has keep their names, new ones get unused names.

        An omitted output must be unused, replaced, or made by another node in the end.
        """
        made, unstated = self._results(results, self._node.name or "value", kept=self.outputs)
        self._node.outputs = _outputs(made, listed)
        self._node.container = None
        self._node.propagate = self._node.propagate or unstated
        return made

    def replace(self, output: Value, by: Value) -> None:
        """Let everything that uses an output of this node use another value of the same kind instead.

        Raises:
            TypeError: the kinds differ.
            ValueError: the value is not an output of this node.
        """
        if _value(output) not in self._original:
            raise ValueError(f"{output.name!r} is not an output of {self.target}")
        self._rewrite.rename(output, _value(by))

    def remove(self) -> None:
        """Remove the node. Its outputs must be unused, replaced, or made by another node."""
        self._removed = True
        self._node.outputs = []

    # --------------------------------------------------------------------------------------------------- metadata

    def declare(self, value: Value, known: Known) -> None:
        """Set the description of a value that this node or an emitted one makes."""
        kind = _value(value).kind
        if _KINDS.get(type(known)) != kind:
            raise TypeError(f"{shown(known)} does not describe a {kind} value")
        self._rewrite.declare(value, _well_typed(known))

    def propagate(self, *values: Value) -> None:
        """Let the descriptions of the given outputs be found at load; without arguments, those of all outputs."""
        for value in values or self.outputs:
            self._rewrite.forget(value)
        self._node.propagate = True

    # ---------------------------------------------------------------------------------------------------- refusing

    def refuse(self, reason: str) -> NoReturn:
        """Report that this node cannot be written in the other version.

        Args:
            reason: one sentence without a full stop.

        Raises:
            OpsetError: always; the walk adds the place.
        """
        raise OpsetError(_checked(reason, str, "the reason of a refusal"))

    # ----------------------------------------------------------------------------------------------------- private

    def _position(self, parameter: str | int) -> int | None:
        _checked(parameter, (str, int), "the name or position of an argument")
        if isinstance(parameter, str):
            found = (index for index, named in enumerate(self._node.inputs) if named.name == parameter)
            return next(found, None)
        unnamed = [
            index
            for index, named in enumerate(self._node.inputs)
            if not named.name or named.kind is not ArgumentKind.KEYWORD
        ]
        return unnamed[parameter] if -len(unnamed) <= parameter < len(unnamed) else None

    def _named(self, name: str, value: Any, kind: ArgumentKind | None) -> NamedArgument:
        _checked(name, str, "the name of a parameter")
        try:
            argument = _well_typed(encode_value(value))
        except (TypeError, KeyError) as error:
            raise TypeError(f"the argument {name!r} cannot be written: {error}") from error
        return NamedArgument(name, argument, kind, isinstance(value, tuple) and argument.as_sequence is None)

    def _inputs(
        self, inputs: Mapping[str, Any] | Sequence[Any], keywords: Mapping[str, Any]
    ) -> list[NamedArgument]:
        if isinstance(inputs, Mapping):
            first = [self._named(name, value, None) for name, value in inputs.items()]
        elif isinstance(inputs, (str, bytes, Value)):
            raise TypeError(f"the arguments are {shown(inputs)}")
        else:
            first = [self._named("", value, ArgumentKind.POSITIONAL) for value in inputs]
        return first + [self._named(name, value, ArgumentKind.KEYWORD) for name, value in keywords.items()]

    def _results(
        self, results: Sequence[Result], stem: str, kept: Iterable[Value] | None = None
    ) -> tuple[tuple[Value, ...], bool]:
        """Return the values of results, and whether one of them lacks a description."""
        made = []
        unstated = False
        for result in results:
            if isinstance(result, Value):
                if kept is None:
                    self._take(result)
                elif result not in kept:
                    raise ValueError(f"{result.name!r} is not an output of {self.target}")
                value = result
            elif isinstance(result, str) and result in VALUE_TABLES:
                value = Value(self._rewrite.fresh(stem), result)
            elif type(result) not in _KINDS:
                raise TypeError(f"{shown(result)} is neither a value, nor its description, nor its kind")
            else:
                described = result.class_fqn if isinstance(result, schema.CustomObjArgument) else ""
                value = Value(self._rewrite.fresh(stem), _KINDS[type(result)], described)
                self._rewrite.declare(value, _well_typed(result))
            unstated = unstated or self.known(value) is None
            made.append(value)
        return tuple(made), unstated

    def _take(self, value: Value) -> None:
        """Remove an output from this node, so that another one can make it."""
        if value not in self.outputs:
            raise ValueError(f"{value.name!r} is not an output of {self.target}")
        rest = tuple(each for each in self.outputs if each != value)
        listed = any(output.as_tensors is not None for output in self._node.outputs)
        self._node.outputs = _outputs(rest, listed)

    def finished(self) -> Iterator[Node]:
        """Return the nodes that replace the edited one. For the walk."""
        yield from self._before
        if not self._removed:
            node, outputs = self._node, self.outputs
            single = len(outputs) == 1 and node.outputs[0].as_tensors is None
            if single and node.is_hop_single_tensor_return is not False:
                node.name = outputs[0].name
            elif node.name is not None and any(node.name == each.name for each in self._made()):
                node.name = self._rewrite.fresh(node.name)
            yield node
        yield from self._after

    def _made(self) -> Iterator[Value]:
        yield from self.outputs
        for node in (*self._before, *self._after):
            yield from (value for output in node.outputs for value in defined_values(output))


R = TypeVar("R")


def _well_typed(record: R) -> R:
    """Return a record of an upgrader, which Python lets it fill with anything.

    Raises:
        TypeError: a field has another type than it is declared with.
    """
    try:
        msgspec.convert(msgspec.to_builtins(record), type(record))
    except msgspec.ValidationError as error:
        raise TypeError(f"{type(record).__name__}: {error}") from error
    return record


def _outputs(values: Sequence[Value], listed: bool) -> list[Argument]:
    return [encode_value(list(values))] if listed else [encode_value(value) for value in values]


def _stem(target: str) -> str:
    """Return the stem of a new value's name, which torch derives from the operator's name."""
    parts = target.split(".")
    name = parts[3] if parts[:2] == ["torch", "ops"] and len(parts) > 3 else parts[-1]
    return re.sub(r"\W|^(?=\d)", "_", name, flags=re.ASCII)


# --------------------------- walks over a graph and its subgraphs and applies an upgrader to each node of its operators


class TouchedNode(NamedTuple):
    """A node that a change rewrites."""

    place: str
    """Its place before the change, such as `graph_module.graph.nodes[7]`."""
    name: str
    target: str
    """Its operator before the change."""


class Rewritten(NamedTuple):
    """The result of editing a program's nodes."""

    program: Program
    """The very same program where nothing differs."""
    nodes: tuple[TouchedNode, ...]
    """The nodes that an upgrader received."""
    problems: tuple[Problem, ...]
    """The refusals; a refused node stays as it was."""


def rewrite_program(program: Program, functions: Mapping[str, EditNode]) -> Rewritten:
    """Edit each node of certain operators, in subgraphs too.

    Args:
        functions: the function that edits a node, by the serialized name of its operator.
    """
    module = program.graph_module
    specs = (spec.constant_input or spec.user_input for spec in module.signature.input_specs)
    literals = [spec.name for spec in specs if spec is not None and spec.name]
    problems: list[Problem] = []
    nodes: list[TouchedNode] = []

    def note(place: str, node: Node) -> None:
        nodes.append(TouchedNode(place, node.name or "", node.target))

    graph, names = rewrite_graph(module.graph, functions, "graph_module.graph", problems, note, literals)
    if graph is not module.graph:
        module = rename_in_module(replace(module, graph=graph), names)
        program = replace(program, graph_module=module)
    return Rewritten(program, tuple(nodes), tuple(problems))


def rewrite_graph(
    graph: Graph,
    functions: Mapping[str, EditNode],
    place: str,
    problems: list[Problem],
    touched: Callable[[str, Node], None],
    reserved: Iterable[str] = (),
) -> tuple[Graph, Mapping[str, str]]:
    """Edit each node of certain operators in a graph and its subgraphs.

    Args:
        functions: the function that edits a node, by the serialized name of its operator.
        place: the graph's own place.
        problems: receives the refusals; a refused node stays as it was.
        touched: receives each node before its rewrite, with its place.
        reserved: names beside the graph's own that a new value must not have.

    Returns:
        The graph, the very same one where nothing differs, and the new names of values that others replaced.
    """
    known: dict[int, tuple[Graph, Graph, Mapping[str, str]]] = {}

    def visit(here: str, each: Graph) -> tuple[Graph, Mapping[str, str]]:
        # A subgraph that several nodes call is one record: it is rewritten once, and stays one.
        if id(each) not in known:
            rewrite = GraphRewrite(each, reserved if each is graph else ())
            for index, node in enumerate(each.nodes):
                where = f"{here}.nodes[{index}]"
                inner = rewrite.renamed(node, lambda there, below: visit(there, below)[0], where)
                function = functions.get(inner.target)
                if function is None:
                    rewrite.keep(inner)
                    continue
                touched(where, inner)
                rewrite.put(_edited(rewrite, inner, function, where, problems), inner)
            known[id(each)] = (each, *rewrite.finish(here, problems))
        return known[id(each)][1:]

    return visit(place, graph)


def _edited(
    rewrite: GraphRewrite, node: Node, function: EditNode, place: str, problems: list[Problem]
) -> list[Node]:
    editor = NodeEditor(rewrite, node, place)
    try:
        function(editor)
        return list(editor.finished())
    except OpsetError as error:
        problems.append(Problem(place, "refused", f"{node.target}: {error.problem}"))
    except unless_interrupted(
        Exception
    ) as error:  # third-party code: report its failure with its place, like a refusal
        text = str(error) if isinstance(error, GraphwireError) else exception_text(error)
        problems.append(Problem(place, "failed", f"{node.target}: {text}"))
    return [node]
