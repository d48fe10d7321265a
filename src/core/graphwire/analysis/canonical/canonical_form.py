"""The canonical form of a program: equal for programs that compute the same in the same way, whichever tool wrote them.

The canonical form normalizes:

* inputs and outputs: parameters, buffers, constants and objects are ordered by kind and qualified name; the caller's inputs
  keep their order. Outputs likewise: the new values of buffers, parameters and inputs, and gradients, are ordered;
* nodes: they have the order of `analysis.canonical.node_order`, in which effects and in-place changes keep their sequence
  (`analysis.canonical.node_order`);
* names: values and subgraphs are named by position (`in_0`, `v_0`), symbols are numbered in the order in which they appear
  (`analysis.canonical.symbol_names`), and expressions are printed again;
* arguments: where several variants encode the same argument, one variant is used;
* ranges, guards, opsets and module calls are sorted.

It omits what a reader may ignore and still compute the same: names of nodes and subgraphs, metadata, stack traces,
provenance, hints, example inputs, the producer, the torch version, the plugins' versions, and whether a sequence was a
tuple or a list. So a file from torch and a file from graphwire of the same program have the same canonical form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec.structs import astuple, replace

from graphwire import schema
from graphwire.analysis.canonical.content_hashing import arrangement, variant_of_spec
from graphwire.analysis.canonical.graph_content import ArrangedGraph
from graphwire.analysis.canonical.symbol_names import SymbolNames
from graphwire.errors import GraphwireError
from graphwire.schema.texts.treespec import format_treespec, parse_treespec

# --------------------------------------------------------------------------- the canonical form of one graph as records
# nodes in canonical order, values and subgraphs named by position.


Value = TypeVar("Value")


def canonical_graph(form: ArrangedGraph) -> schema.Graph:
    """Return the canonical form of a graph. Symbols keep their names. The result shares the records of values, and the
    arguments that do not change, with the original graph."""
    graph, names = form.graph, form.names
    inside = {id(inner.graph): inner for each in form.inside for _, inner in each}
    subgraphs: dict[str, str] = {}

    def named(held: schema.GraphArgument) -> schema.GraphArgument:
        name = subgraphs.setdefault(held.name, f"graph_{len(subgraphs)}")
        return schema.GraphArgument(name, canonical_graph(inside[id(held.graph)]))

    renaming = schema.Renaming(
        lambda name: names.get(name, name), named, lambda name: names.get(schema.results_of(name), name)
    )
    return schema.Graph(
        inputs=[canonical_argument(argument, renaming) for argument in graph.inputs],
        nodes=[_node(graph.nodes[index], names, renaming) for index in form.order],
        outputs=[canonical_argument(argument, renaming) for argument in graph.outputs],
        tensor_values=_table(graph.tensor_values, names),
        sym_int_values=_table(graph.sym_int_values, names),
        sym_bool_values=_table(graph.sym_bool_values, names),
        is_single_tensor_return=graph.is_single_tensor_return,
        custom_obj_values={
            name: schema.CustomObjArgument(names.get(value.name, value.name), value.class_fqn)
            for name, value in _table(graph.custom_obj_values, names).items()
        },
        sym_float_values=_table(graph.sym_float_values, names),
    )


def _table(values: Mapping[str, Value], names: Mapping[str, str]) -> dict[str, Value]:
    """Return the table with the new names, in their order, without values that the graph does not have."""
    return {new: values[old] for old, new in names.items() if old in values}


# ------------------------------------------------------------------------------------------------ nodes, arguments


def _node(node: schema.Node, names: Mapping[str, str], renaming: schema.Renaming) -> schema.Node:
    return schema.Node(
        node.target,
        [
            schema.NamedArgument(named.name, canonical_argument(named.arg, renaming), named.kind)
            for named in node.inputs
        ],
        [schema.rewritten(argument, renaming) for argument in node.outputs],
        {},
        is_hop_single_tensor_return=node.is_hop_single_tensor_return,
        name=names.get(schema.results_of(node.name)) if node.name is not None else None,
        propagate=node.propagate,
    )


def canonical_argument(argument: schema.Argument, renaming: schema.Renaming) -> schema.Argument:
    """Return the argument with its references renamed, in the canonical one of the variants that can encode it."""
    if argument.as_tensor is not None:
        return schema.rewritten(argument, renaming)
    return schema.rewritten(_simplest(argument), renaming)


def _simplest(argument: schema.Argument) -> schema.Argument:
    variant = schema.variant_of(argument)
    if variant in _LITERAL_VARIANTS:
        one = getattr(argument, variant)
        return (
            argument
            if one.as_name is not None
            else schema.Argument(**{_LITERAL_VARIANTS[variant]: astuple(one)[1]})
        )
    if (single := schema.VARIANTS[variant].items if variant else "") in _LITERAL_VARIANTS:
        many = getattr(argument, variant)
        if any(one.as_name is not None for one in many):
            return argument
        literals: dict[str, Any] = {f"{_LITERAL_VARIANTS[single]}s": [astuple(one)[1] for one in many]}
        argument = schema.Argument(**literals)
    if (optional := argument.as_optional_tensor) is not None:
        tensor = optional.as_tensor
        return schema.Argument(as_none=True) if tensor is None else schema.Argument(as_tensor=tensor)
    if (optionals := argument.as_optional_tensors) is not None:
        tensors = [each.as_tensor for each in optionals if each.as_tensor is not None]
        argument = argument if len(tensors) != len(optionals) else schema.Argument(as_tensors=tensors)
    if variant in _LISTS and not getattr(argument, schema.variant_of(argument)):
        return schema.Argument(as_tensors=[])
    return argument


_LITERAL_VARIANTS = {"as_sym_int": "as_int", "as_sym_float": "as_float", "as_sym_bool": "as_bool"}
"""The literal's variant for each variant of a possibly symbolic number."""

_LISTS = frozenset(variant for variant, row in schema.VARIANTS.items() if row.items)
"""The list variants. An empty one always means the empty list, which is encoded as `as_tensors`."""


def canonicalize(program: schema.Program) -> schema.Program:
    """Return the canonical form of a valid program, as a program. Does not change `program`.

    The result can be loaded. With the same weights it computes the same, and it returns its results in the same order.

    Raises:
        SchemaError: nodes depend on each other's results in a cycle.
    """
    module = program.graph_module
    ordered = arrangement(program)
    signature, symbols = ordered.signature, ordered.symbols
    graph, names = canonical_graph(ordered.form), ordered.form.names
    _rename_symbols(graph, symbols)
    return schema.Program(
        graph_module=schema.GraphModule(
            graph,
            _renamed_signature(signature, graph, names),
            _module_calls(module.module_call_graph, names),
            treespec_namedtuple_fields=dict(sorted(module.treespec_namedtuple_fields.items())),
        ),
        opset_version=dict(sorted(program.opset_version.items())),
        range_constraints=symbols.ranges(),
        schema_version=schema.SchemaVersion(*schema.SCHEMA_VERSION),
        verifiers=sorted(set(program.verifiers)),
        guards_code=sorted(set(program.guards_code)),
        requires=sorted(set(program.requires)),
        encoded_values=dict(sorted(program.encoded_values.items())),
    )


# ------------------------------------------------------------------------------------------------------- interface


def _renamed_signature(
    signature: schema.GraphSignature, graph: schema.Graph, names: dict[str, str]
) -> schema.GraphSignature:
    """Return the signature with the renamed inputs and outputs of the graph in its specs."""
    inputs, outputs = [], []
    for index, (spec, argument) in enumerate(zip(signature.input_specs, graph.inputs, strict=True)):
        variant, held = variant_of_spec(spec)
        inputs.append(schema.InputSpec(**{variant: _renamed_spec(held, argument, names, f"in_{index}")}))
    for result, argument in zip(signature.output_specs, graph.outputs, strict=True):
        variant, held = variant_of_spec(result)
        outputs.append(schema.OutputSpec(**{variant: _renamed_spec(held, argument, names, "")}))
    return schema.GraphSignature(inputs, outputs)


def _renamed_spec(spec: Any, argument: schema.Argument, names: dict[str, str], literal: str) -> Any:
    if isinstance(spec, schema.InputToConstantInputSpec):
        return schema.InputToConstantInputSpec(literal, spec.value)
    if isinstance(spec.arg, schema.Argument):
        return type(spec)(argument)
    changed = {"arg": replace(spec.arg, name=names.get(spec.arg.name, spec.arg.name))}
    user_input = getattr(spec, "user_input_name", None)
    if user_input is not None:
        # If torch renames an input later, the gradient's spec keeps the old name. It is not a value, so it stays unchanged.
        changed["user_input_name"] = names.get(user_input, user_input)
    return replace(spec, **changed)


# -------------------------------------------------------------------------------------------------------- symbols


Symbolic = TypeVar("Symbolic", schema.SymInt, schema.SymFloat, schema.SymBool)

_LITERALS: dict[type, tuple[str, Any]] = {
    schema.SymInt: ("as_int", int),
    schema.SymFloat: ("as_float", float),
    schema.SymBool: ("as_bool", bool),
}
"""The variant of a literal in each kind of symbolic value, and the literal's type."""


def _rename_symbols(graph: schema.Graph, symbols: SymbolNames) -> None:
    """Rename the symbols in a graph and its subgraphs, and remove hints. Changes the graph, which must not be shared."""

    def renamed(value: Symbolic) -> Symbolic:
        if value.as_expr is None:
            return value
        text = value.as_expr.expr_str
        known = symbols.content(text)
        variant, kind = _LITERALS[type(value)]
        if type(known) is kind:
            literal: dict[str, Any] = {
                variant: schema.encode_float(known) if variant == "as_float" else known
            }
            return type(value)(**literal)
        return type(value)(as_expr=schema.SymExpr(symbols.expression(text)))

    def meta(value: schema.TensorMeta) -> schema.TensorMeta:
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
            for subgraph in schema.subgraphs_in(named.arg):
                _rename_symbols(subgraph, symbols)


# ---------------------------------------------------------------------------------------------------- module calls


def _module_calls(
    entries: list[schema.ModuleCallEntry], names: dict[str, str]
) -> list[schema.ModuleCallEntry]:
    """Return the module calls sorted by name, the root first. Names that are not (or no longer) values are numbered."""
    stale: dict[str, str] = {}

    def rename(name: str) -> str:
        return names.get(name) or stale.setdefault(name, f"absent_{len(stale)}")

    renaming = schema.Renaming(rename, lambda held: held)
    return [
        schema.ModuleCallEntry(
            entry.fqn, None if entry.signature is None else _module_call(entry.signature, renaming)
        )
        for entry in sorted(entries, key=lambda entry: entry.fqn)
    ]


def _module_call(call: schema.ModuleCallSignature, renaming: schema.Renaming) -> schema.ModuleCallSignature:
    return schema.ModuleCallSignature(
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
