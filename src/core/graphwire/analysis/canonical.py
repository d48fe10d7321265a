"""The canonical form of a program: equal for programs that compute the same in the same way, whoever wrote them down.

What is made the same:

* parameters, buffers, constants and objects among the inputs are ordered by kind and qualified name; what the caller
  passes keeps its order. Likewise the new values of buffers, parameters and inputs, the gradients, among the outputs;
* nodes stand in the order of `analysis.node_order`, where effects and changes in place keep theirs (`analysis.effects`);
* values are named by their place (`in_0`, `v_0`), subgraphs likewise; symbols are numbered in the order in which they
  appear (`analysis.symbol_names`), and expressions printed again;
* an argument that several arms can say is said by one; a range, guard, opset or module call stands where sorting puts it.

What is left out is what a reader may ignore and still compute the same: names of nodes and subgraphs, metadata, stack
traces, provenance, hints, example inputs, the producer, the torch version, the plugins' versions, and whether a sequence
was a tuple or a list. So a file that torch wrote and one that graphwire wrote of the same program have one form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from graphwire.analysis.canonical_graph import canonical_argument, canonical_graph
from graphwire.analysis.references import Renaming, names_in, subgraphs_in
from graphwire.analysis.symbol_names import SymbolNames
from graphwire.errors import GraphwireError, SchemaError
from graphwire.schema.graph import Argument, Graph, GraphArgument
from graphwire.schema.module_call import ModuleCallEntry, ModuleCallSignature
from graphwire.schema.program import SCHEMA_VERSION, GraphModule, Program, SchemaVersion
from graphwire.schema.signature import GraphSignature, InputSpec, InputToConstantInputSpec, OutputSpec
from graphwire.schema.signature_names import value_name
from graphwire.schema.symbols import SymBool, SymExpr, SymFloat, SymInt
from graphwire.schema.tensor import TensorMeta
from graphwire.schema.treespec import format_treespec, parse_treespec

__all__ = ["INPUT_RANKS", "OUTPUT_RANKS", "CanonicalForm", "arm_of_spec", "canonical_form", "canonicalize"]

INPUT_RANKS: dict[str, tuple[int, str]] = {
    "token": (0, ""),
    "parameter": (1, "parameter_name"),
    "buffer": (2, "buffer_name"),
    "tensor_constant": (3, "tensor_constant_name"),
    "custom_obj": (4, "custom_obj_name"),
    "user_input": (5, ""),
    "constant_input": (5, ""),
}
"""For each kind of input its place among the kinds, and the field that orders it; without one it keeps its order."""

OUTPUT_RANKS: dict[str, tuple[int, str]] = {
    "token": (0, ""),
    "buffer_mutation": (1, "buffer_name"),
    "parameter_mutation": (2, "parameter_name"),
    "user_input_mutation": (3, ""),
    "user_output": (4, ""),
    "loss_output": (4, ""),
    "gradient_to_parameter": (5, "parameter_name"),
    "gradient_to_user_input": (6, ""),
}
"""For each kind of output its place among the kinds, and the field that orders it. What changes or derives by user
inputs is ordered as these are."""


class CanonicalForm(NamedTuple):
    """A program in canonical form, and what its names were."""

    program: Program
    values: Mapping[str, str]
    """The new name of each value of the top-level graph."""
    symbols: Mapping[str, str]
    """The new name of each symbol."""


def canonicalize(program: Program) -> Program:
    """The canonical form of a valid program, a program again; `program` is not changed.

    It can be loaded and computes the same as before, given the same weights; what it returns is in the same order.

    Raises:
        SchemaError: nodes wait for each other's results.
    """
    return canonical_form(program).program


def canonical_form(program: Program) -> CanonicalForm:
    """The canonical form, and what the names in it were. Raises as `canonicalize` does."""
    module = program.graph_module
    signature, graph = _ordered_interface(module.signature, module.graph)
    names = _interface_names(signature)
    form = canonical_graph(graph, names)
    symbols = SymbolNames(program.range_constraints)
    for text in _expressions(form.graph):
        symbols.meet(text)
    symbols.meet_ranges()
    _rename_symbols(form.graph, symbols)
    canonical = Program(
        graph_module=GraphModule(
            form.graph,
            _renamed_signature(signature, form.graph, form.names),
            _module_calls(module.module_call_graph, form.names),
            treespec_namedtuple_fields=dict(sorted(module.treespec_namedtuple_fields.items())),
        ),
        opset_version=dict(sorted(program.opset_version.items())),
        range_constraints=symbols.ranges(),
        schema_version=SchemaVersion(*SCHEMA_VERSION),
        verifiers=sorted(set(program.verifiers)),
        guards_code=sorted(set(program.guards_code)),
        requires=sorted(set(program.requires)),
        encoded_values=dict(sorted(program.encoded_values.items())),
    )
    return CanonicalForm(canonical, form.names, symbols.names)


# ------------------------------------------------------------------------------------------------------- interface


def arm_of_spec(spec: InputSpec | OutputSpec) -> tuple[str, Any]:
    """The kind of a spec, and what it says.

    Raises:
        SchemaError: it says nothing.
    """
    for arm in spec.__struct_fields__:
        if (held := getattr(spec, arm)) is not None:
            return arm, held
    raise SchemaError("a spec of the signature has no arm")


def _ordered_interface(signature: GraphSignature, graph: Graph) -> tuple[GraphSignature, Graph]:
    """Inputs and outputs, each with its spec, in an order that registration and tracing have no part in."""
    inputs = list(zip(signature.input_specs, graph.inputs, strict=True))
    places: dict[str, int] = {}
    for place, (spec, argument) in enumerate(inputs):
        if spec.user_input is not None:
            places[value_name(argument) or ""] = place

    def input_rank(pair: tuple[InputSpec, Argument]) -> tuple[int, str]:
        arm, held = arm_of_spec(pair[0])
        rank, field = INPUT_RANKS[arm]
        return rank, getattr(held, field) if field else ""

    def output_rank(pair: tuple[OutputSpec, Argument]) -> tuple[int, str, int]:
        arm, held = arm_of_spec(pair[0])
        rank, field = OUTPUT_RANKS[arm]
        user_input = getattr(held, "user_input_name", None)
        return rank, getattr(held, field) if field else "", places.get(user_input or "", 0)

    inputs.sort(key=input_rank)
    outputs = sorted(zip(signature.output_specs, graph.outputs, strict=True), key=output_rank)
    ordered = GraphSignature([spec for spec, _ in inputs], [spec for spec, _ in outputs])
    arguments = [argument for _, argument in inputs], [argument for _, argument in outputs]
    return ordered, replace(graph, inputs=arguments[0], outputs=arguments[1])


def _interface_names(signature: GraphSignature) -> list[str | None]:
    """The names of the inputs that are literals and carry none, by position."""
    found: list[str | None] = []
    for spec in signature.input_specs:
        named = spec.constant_input or spec.user_input
        found.append(None if named is None else named.name)
    return found


def _renamed_signature(signature: GraphSignature, graph: Graph, names: dict[str, str]) -> GraphSignature:
    """The specs for the renamed inputs and outputs of the graph, which stand beside them."""
    inputs, outputs = [], []
    for index, (spec, argument) in enumerate(zip(signature.input_specs, graph.inputs, strict=True)):
        arm, held = arm_of_spec(spec)
        inputs.append(InputSpec(**{arm: _renamed_spec(held, argument, names, f"in_{index}")}))
    for result, argument in zip(signature.output_specs, graph.outputs, strict=True):
        arm, held = arm_of_spec(result)
        outputs.append(OutputSpec(**{arm: _renamed_spec(held, argument, names, "")}))
    return GraphSignature(inputs, outputs)


def _renamed_spec(spec: Any, argument: Argument, names: dict[str, str], literal: str) -> Any:
    if isinstance(spec, InputToConstantInputSpec):
        return InputToConstantInputSpec(literal, spec.value)
    if isinstance(spec.arg, Argument):
        return type(spec)(argument)
    changed = {"arg": replace(spec.arg, name=names.get(spec.arg.name, spec.arg.name))}
    user_input = getattr(spec, "user_input_name", None)
    if user_input is not None:
        # torch leaves the name of an input that it renamed later in the spec of a gradient: it stays.
        changed["user_input_name"] = names.get(user_input, user_input)
    return replace(spec, **changed)


# -------------------------------------------------------------------------------------------------------- symbols


def _expressions(graph: Graph) -> Iterator[str]:
    """The text of every expression of a graph and its subgraphs, in the order of the values."""
    for argument in graph.inputs:
        yield from _expressions_of(graph, argument)
    for node in graph.nodes:
        for named in node.inputs:
            for subgraph in subgraphs_in(named.arg):
                yield from _expressions(subgraph)
        for argument in node.outputs:
            yield from _expressions_of(graph, argument)


def _expressions_of(graph: Graph, argument: Argument) -> Iterator[str]:
    for name in names_in(argument):
        meta = graph.tensor_values.get(name)
        values: Iterable[SymInt | SymFloat | SymBool | None]
        if meta is not None:
            values = (*meta.sizes, *meta.strides, meta.storage_offset)
        else:
            values = (
                graph.sym_int_values.get(name),
                graph.sym_float_values.get(name),
                graph.sym_bool_values.get(name),
            )
        for value in values:
            if value is not None and value.as_expr is not None:
                yield value.as_expr.expr_str


def _rename_symbols(graph: Graph, symbols: SymbolNames) -> None:
    """Let a graph that nobody else has, and its subgraphs, use the new symbols, and no hints."""

    def expression(value: SymExpr) -> SymExpr:
        return SymExpr(symbols.expression(value.expr_str))

    def sym_int(value: SymInt) -> SymInt:
        return value if value.as_expr is None else SymInt(as_expr=expression(value.as_expr))

    def meta(value: TensorMeta) -> TensorMeta:
        parts = (*value.sizes, *value.strides, value.storage_offset)
        if all(part.as_expr is None for part in parts):
            return value
        return replace(
            value,
            sizes=list(map(sym_int, value.sizes)),
            strides=list(map(sym_int, value.strides)),
            storage_offset=sym_int(value.storage_offset),
        )

    graph.tensor_values = {name: meta(value) for name, value in graph.tensor_values.items()}
    graph.sym_int_values = {name: sym_int(value) for name, value in graph.sym_int_values.items()}
    graph.sym_bool_values = {
        name: value if value.as_expr is None else SymBool(as_expr=expression(value.as_expr))
        for name, value in graph.sym_bool_values.items()
    }
    graph.sym_float_values = {
        name: value if value.as_expr is None else SymFloat(as_expr=expression(value.as_expr))
        for name, value in graph.sym_float_values.items()
    }
    for node in graph.nodes:
        for named in node.inputs:
            for subgraph in subgraphs_in(named.arg):
                _rename_symbols(subgraph, symbols)


# ---------------------------------------------------------------------------------------------------- module calls


def _module_calls(entries: list[ModuleCallEntry], names: dict[str, str]) -> list[ModuleCallEntry]:
    """The module calls by name, the root first. A name that is no value of the graph (any more) is only numbered."""
    stale: dict[str, str] = {}

    def rename(name: str) -> str:
        return names.get(name) or stale.setdefault(name, f"absent_{len(stale)}")

    renaming = Renaming(rename, _no_graph)
    return [
        ModuleCallEntry(
            entry.fqn, None if entry.signature is None else _module_call(entry.signature, renaming)
        )
        for entry in sorted(entries, key=lambda entry: entry.fqn)
    ]


def _module_call(call: ModuleCallSignature, renaming: Renaming) -> ModuleCallSignature:
    return ModuleCallSignature(
        inputs=[canonical_argument(argument, renaming) for argument in call.inputs],
        outputs=[canonical_argument(argument, renaming) for argument in call.outputs],
        in_spec=_treespec(call.in_spec),
        out_spec=_treespec(call.out_spec),
        forward_arg_names=call.forward_arg_names or None,
    )


def _treespec(text: str) -> str:
    try:
        return format_treespec(parse_treespec(text))
    except GraphwireError:
        return text


def _no_graph(argument: GraphArgument) -> GraphArgument:
    return argument
