"""The canonical form of a program: equal for programs that compute the same in the same way, whichever tool wrote them.

The canonical form normalizes:

* inputs and outputs: parameters, buffers, constants and objects are ordered by kind and qualified name; the caller's inputs
  keep their order. Outputs likewise: the new values of buffers, parameters and inputs, and gradients, are ordered;
* nodes: they have the order of `analysis.canonical.node_order`, in which effects and in-place changes keep their sequence
  (`analysis.canonical.effects`);
* names: values and subgraphs are named by position (`in_0`, `v_0`), symbols are numbered in the order in which they appear
  (`analysis.canonical.symbol_names`), and expressions are printed again;
* arguments: where several arms encode the same argument, one arm is used;
* ranges, guards, opsets and module calls are sorted.

It omits what a reader may ignore and still compute the same: names of nodes and subgraphs, metadata, stack traces,
provenance, hints, example inputs, the producer, the torch version, the plugins' versions, and whether a sequence was a
tuple or a list. So a file from torch and a file from graphwire of the same program have the same canonical form.
"""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec.structs import replace

from graphwire.analysis.canonical.canonical_graph import canonical_argument, canonical_graph
from graphwire.analysis.canonical.content_hashing import arm_of_spec, arrangement
from graphwire.analysis.canonical.symbol_names import SymbolNames
from graphwire.errors import GraphwireError, LimitError
from graphwire.schema import (
    SCHEMA_VERSION,
    Argument,
    Graph,
    GraphModule,
    GraphSignature,
    InputSpec,
    InputToConstantInputSpec,
    ModuleCallEntry,
    ModuleCallSignature,
    OutputSpec,
    Program,
    Renaming,
    SchemaVersion,
    SymBool,
    SymExpr,
    SymFloat,
    SymInt,
    TensorMeta,
    encode_float,
    subgraphs_in,
)
from graphwire.schema.texts import format_treespec, parse_treespec


def canonicalize(program: Program) -> Program:
    """Return the canonical form of a valid program, as a program. Does not change `program`.

    The result can be loaded. With the same weights it computes the same, and it returns its results in the same order.

    Raises:
        SchemaError: nodes depend on each other's results in a cycle.
        LimitError: the program nests too deeply.
    """
    try:
        return _canonical(program)
    except RecursionError:
        raise LimitError("the program nests too deeply to be made canonical") from None


def _canonical(program: Program) -> Program:
    module = program.graph_module
    ordered = arrangement(program)
    signature, symbols = ordered.signature, ordered.symbols
    graph, names = canonical_graph(ordered.form), ordered.form.names
    _rename_symbols(graph, symbols)
    return Program(
        graph_module=GraphModule(
            graph,
            _renamed_signature(signature, graph, names),
            _module_calls(module.module_call_graph, names),
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


# ------------------------------------------------------------------------------------------------------- interface


def _renamed_signature(signature: GraphSignature, graph: Graph, names: dict[str, str]) -> GraphSignature:
    """Return the signature with the renamed inputs and outputs of the graph in its specs."""
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
        # If torch renames an input later, the gradient's spec keeps the old name. It is not a value, so it stays unchanged.
        changed["user_input_name"] = names.get(user_input, user_input)
    return replace(spec, **changed)


# -------------------------------------------------------------------------------------------------------- symbols


Symbolic = TypeVar("Symbolic", SymInt, SymFloat, SymBool)

_LITERALS: dict[type, tuple[str, Any]] = {
    SymInt: ("as_int", int),
    SymFloat: ("as_float", float),
    SymBool: ("as_bool", bool),
}
"""The arm of a literal in each kind of symbolic value, and the literal's type."""


def _rename_symbols(graph: Graph, symbols: SymbolNames) -> None:
    """Rename the symbols in a graph and its subgraphs, and remove hints. Changes the graph, which must not be shared."""

    def renamed(value: Symbolic) -> Symbolic:
        if value.as_expr is None:
            return value
        text = value.as_expr.expr_str
        known = symbols.content(text)
        arm, kind = _LITERALS[type(value)]
        if type(known) is kind:
            literal: dict[str, Any] = {arm: encode_float(known) if arm == "as_float" else known}
            return type(value)(**literal)
        return type(value)(as_expr=SymExpr(symbols.expression(text)))

    def meta(value: TensorMeta) -> TensorMeta:
        parts = (*value.sizes, *value.strides, value.storage_offset)
        if all(part.as_expr is None for part in parts) and value.sparse is None:
            return value
        return replace(
            value,
            sizes=list(map(renamed, value.sizes)),
            strides=list(map(renamed, value.strides)),
            storage_offset=renamed(value.storage_offset),
            sparse=None,
        )

    graph.tensor_values = {name: meta(value) for name, value in graph.tensor_values.items()}
    graph.sym_int_values = {name: renamed(value) for name, value in graph.sym_int_values.items()}
    graph.sym_bool_values = {name: renamed(value) for name, value in graph.sym_bool_values.items()}
    graph.sym_float_values = {name: renamed(value) for name, value in graph.sym_float_values.items()}
    for node in graph.nodes:
        for named in node.inputs:
            for subgraph in subgraphs_in(named.arg):
                _rename_symbols(subgraph, symbols)


# ---------------------------------------------------------------------------------------------------- module calls


def _module_calls(entries: list[ModuleCallEntry], names: dict[str, str]) -> list[ModuleCallEntry]:
    """Return the module calls sorted by name, the root first. Names that are not (or no longer) values are numbered."""
    stale: dict[str, str] = {}

    def rename(name: str) -> str:
        return names.get(name) or stale.setdefault(name, f"absent_{len(stale)}")

    renaming = Renaming(rename, lambda held: held)
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
